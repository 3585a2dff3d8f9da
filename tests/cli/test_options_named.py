"""Options that messages name: each is one of a verb, and what many verbs can say is asked of each."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import verisphere
from every_verb import LEAVES

SOURCE = Path(verisphere.__file__).parent
#: Options of other programs and of the program itself, a word that stands for a field, and fields of recipes and leaks.
OTHERS = {"--nproc-per-node", "--default-allocator", "--version", "--field", "--epochs", "--steps", "--subcenters"}


OPTIONS = {
    words: {option for action in verb._actions for option in action.option_strings} for words, verb in LEAVES.items()
}


def named() -> Iterator[tuple[str, str]]:
    """File and option of each text of the program that names one, without docstrings."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        prose = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9](?![\w.-])", node.value):
                    yield str(path.relative_to(SOURCE)), option


def test_every_option_that_a_message_names_is_one_of_a_verb():
    known = set().union(*OPTIONS.values()) | OTHERS
    unknown = {(path, option) for path, option in named() if option not in known}
    assert {(path, option) for path, option in unknown if path != "cli/renamed.py"} == set()


@pytest.mark.parametrize("verb", ["gate fit", "adopt", "embed", "report", "why", "calibrate", "leak", "invert"])
def test_a_verb_that_opens_a_set_of_images_has_the_options_that_its_refusals_ask_for(verb: str):
    """`--names` where two names are one but for their spelling, `--trust-code` where a class is somebody else's."""
    assert OPTIONS[verb] >= {"--names", "--trust-code"}
