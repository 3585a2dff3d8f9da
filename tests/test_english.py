"""Docstrings say what a thing is in whole words: no entry is a fragment such as "labels: of them." or "rows: all"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / "src" / "verisphere"
FILES = sorted(HOUSE.rglob("*.py"))
#: An entry of Args, Attributes or Raises: its names, and its text up to the next entry.
_ENTRY = re.compile(r"^ {4}(?P<names>[\w, *]+?): (?P<text>.*(?:\n {5,}.*)*)", re.MULTILINE)
_SECTION = re.compile(r"^(?:Args|Attributes|Raises):\n((?: {4}.*\n?|\n)*)", re.MULTILINE)
#: What no entry begins with: a genitive without its noun, or a word that stands for one.
_BEGINS = re.compile(r"(?:of|by|from|with|to|that|those|whose|them|its|their|likewise)\b(?! (?:default|which|whom)\b)")
#: What no entry consists of.
_WHOLE = {"all", "none", "those", "whatever", "them", "it", "one", "any", "both", "each", "as said", "see there"}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text


def entries(text: str) -> Iterator[tuple[str, str]]:
    """Names and text of every entry of a docstring's sections."""
    for section in _SECTION.finditer(text):
        for entry in _ENTRY.finditer(section[1]):
            yield entry["names"], " ".join(entry["text"].split())


def fragments(text: str) -> list[str]:
    """The entries of a docstring that are fragments."""
    return [
        f"{names}: {said}" for names, said in entries(text) if _BEGINS.match(said) or said.rstrip(".").lower() in _WHOLE
    ]


@pytest.mark.parametrize(
    ("entry", "is_one"),
    [
        ("labels: of them.", True),
        ("rows: all", True),
        ("rows: whatever", True),
        ("seed: of the draws.", True),
        ("labels: the identity of each row.", False),
        ("path: by default that of the run.", False),
    ],
)
def test_what_a_fragment_is(entry, is_one):
    assert bool(fragments(f"A function.\n\nArgs:\n    {entry}\n")) == is_one


def test_no_entry_of_a_docstring_is_a_fragment():
    found = [
        f"{path.relative_to(HOUSE)}:{line}: {fragment}"
        for path in FILES
        for line, text in docstrings(path)
        for fragment in fragments(text)
    ]
    assert not found, "\n".join(found)
