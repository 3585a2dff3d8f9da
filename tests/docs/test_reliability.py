"""docs/reliability.md: every promise names tests that exist, and `make faults` runs exactly these."""

import ast
import re
from pathlib import Path

import pytest

from promised import PAGE, named_tests

ROOT = Path(__file__).parents[2]
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| fault |")
]


def functions(path: Path) -> set[str]:
    """The test functions of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_every_promise_names_tests_that_exist(row: list[str]):
    assert len(row) == 3, row
    fault, promise, tests = row
    assert fault
    assert promise
    named = re.findall(r"`([^`]+)`", tests)
    assert named
    for test in named:
        path, _, function = test.partition("::")
        assert (ROOT / path).is_file(), path
        assert function in functions(ROOT / path), test


def test_the_marker_is_given_to_the_tests_of_the_page(request: pytest.FixtureRequest):
    """In a run of all tests; of a part of them, to those of that part."""
    assert named_tests() == set(re.findall(r"`([^`]+)`", " ".join(row[2] for row in ROWS)))
    collected = [(item.nodeid.partition("[")[0], item) for item in request.session.items]
    marked = {name for name, item in collected if item.get_closest_marker("faults")}
    assert marked == named_tests() & {name for name, _ in collected}


def test_every_new_fault_test_stands_on_the_page():
    for path in sorted((ROOT / "tests" / "faults").glob("test_*.py")):
        for name in functions(path):
            if name.startswith("test_") and not name.startswith("test_there_is_enough"):
                assert f"tests/faults/{path.name}::{name}" in named_tests()
