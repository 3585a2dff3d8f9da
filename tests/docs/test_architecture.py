"""docs/architecture.md: the files of its walks exist, are imported by their callers, and never climb a floor."""

import ast
import re
from pathlib import Path

import pytest

from test_imports import DOOR, FLOOR, HOUSE, part_of, parts_imported
from verisphere import __name__ as ROOT_PACKAGE

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_TO_THE_LOSS = 14


def walks() -> list[list[tuple[int, str]]]:
    """Of each walk its files with their indents."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in found if not language]
    return [[(len(line) - len(line.lstrip()), line.split()[0]) for line in block.splitlines()] for block in blocks]


def calls(walk: list[tuple[int, str]]) -> list[tuple[str, str]]:
    """Each caller with the file below it."""
    return [
        (next(name for before, name in reversed(walk[:place]) if before < indent), path)
        for place, (indent, path) in enumerate(walk)
        if indent
    ]


def imports(caller: str, called: str) -> bool:
    """Whether a file imports the module, or what the module defines through its package, and not for types alone."""
    module = f"{ROOT_PACKAGE}.{called.removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")
    package = module.rpartition(".")[0]
    defined = {getattr(node, "name", None) for node in ast.parse((HOUSE / called).read_text(encoding="utf-8")).body}
    tree = ast.parse((HOUSE / caller).read_text(encoding="utf-8"))
    for_types = [
        node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    ]
    unread = {inside for node in for_types for inside in ast.walk(node)}
    for node in ast.walk(tree):
        names = {alias.name for alias in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
        if node in unread or not names:
            continue
        home = node.module if isinstance(node, ast.ImportFrom) else ""
        if module in ({home, *names} | {f"{home}.{name}" for name in names}) or (home == package and names & defined):
            return True
    return False


CALLS = sorted({call for walk in walks() for call in calls(walk)})


@pytest.mark.parametrize(("caller", "called"), CALLS, ids=[" -> ".join(call) for call in CALLS])
def test_a_caller_stands_on_no_lower_floor_and_imports_what_it_calls(caller: str, called: str):
    assert (HOUSE / caller).is_file()
    assert (HOUSE / called).is_file()
    upper, lower = part_of(HOUSE / caller), part_of(HOUSE / called)
    assert upper == DOOR or FLOOR[upper] <= FLOOR[lower]
    assert imports(caller, called)


def test_the_loss_is_reached_within_14_files():
    walk = next(walk for walk in walks() if any(path == "losses/class_loss.py" for _, path in walk))
    assert len({path for _, path in walk}) <= MOST_TO_THE_LOSS


def test_imports_are_seen_where_they_are():
    assert imports("head/head.py", "losses/class_loss.py")
    assert not imports("losses/class_loss.py", "head/head.py")
    assert list(parts_imported("import verisphere.head", "verisphere.train.loop"))
