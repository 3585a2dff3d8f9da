"""docs/papers.md: every function, test and recipe that it names exists, and each test names its function."""

import importlib
import re
from pathlib import Path

import pytest

from verisphere.files.packaged_recipes import packaged_recipes

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "papers.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| what", "| table"))
]
EQUATIONS = [row for row in ROWS if len(row) == 3]
TABLES = [row for row in ROWS if len(row) == 2]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def found(path: str) -> object:
    """What a dotted name below verisphere stands for."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(f"verisphere.{module}"), name)


def test_the_page_has_its_papers():
    assert len(EQUATIONS) > 35
    assert len(TABLES) > 15


@pytest.mark.parametrize("row", EQUATIONS, ids=lambda row: row[0])
def test_a_function_exists_and_its_test_names_it(row):
    _, functions, tests = row
    assert named(functions)
    assert len(named(tests)) == 1
    text = (ROOT / named(tests)[0]).read_text(encoding="utf-8")
    for path in named(functions):
        assert callable(found(path))
        assert re.search(rf"\b{path.rpartition('.')[2]}\b", text), f"{named(tests)[0]} does not name {path}"


@pytest.mark.parametrize("row", TABLES, ids=lambda row: row[1])
def test_a_recipe_exists(row):
    assert named(row[1])
    assert set(named(row[1])) <= packaged_recipes().keys()
