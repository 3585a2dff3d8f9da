"""The table of docs/clusters.md about the promise of purity is that of benchmarks/purity.csv."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The module that makes the table."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        return importlib.import_module("purity")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


def test_the_table_is_made_of_the_rows(made: ModuleType):
    assert made.held(made.read_rows()) in (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")


def test_the_promises_held(made: ModuleType):
    """In as many draws as docs/clusters.md says, and within two standard errors of 95 %."""
    rows = made.read_rows()
    assert {row["world"] for row in rows} == {"LFW", "alike", "hard", "families"}
    for row in rows:
        assert int(row["draws"]) >= 500
        assert abs(float(row["held"]) - 0.95) <= 2 * (0.95 * 0.05 / int(row["draws"])) ** 0.5, row
