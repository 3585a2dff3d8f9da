"""The table of docs/index_audit.md is that of benchmarks/gallery_audit.csv."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_made_of_the_rows(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    made = importlib.import_module("gallery_audit").table()
    sys.modules.pop("gallery_audit")
    assert made.count("\n") == 8
    assert made in (ROOT / "docs" / "index_audit.md").read_text(encoding="utf-8")
