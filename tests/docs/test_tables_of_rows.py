"""The tables of pages whose figures were simulated or measured are those of the CSV files of benchmarks/."""

from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("bridge_page", "clusters_page", "few_people_page", "gallery_page", "gate_page", "intervals_page")


@pytest.mark.parametrize("made", PAGES, indirect=True)
def test_every_table_is_made_of_the_rows(made: ModuleType):
    rows = made.read_rows(made.ROWS) if made.__name__ == "gallery_page" else made.read_rows()
    tables = made.tables(rows)
    assert len(tables) > 1
    for name, table in tables.items():
        page, text = ("enrolment.md", table) if made.__name__ == "gate_page" else table
        assert text in (DOCS / page).read_text(encoding="utf-8"), name


@pytest.mark.parametrize("made", ["gallery_audit"], indirect=True)
def test_the_table_of_the_index_audit(made: ModuleType):
    table = made.table()
    assert table.count("\n") == 8
    assert table in (DOCS / "index_audit.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("made", ["purity"], indirect=True)
def test_the_table_of_purity(made: ModuleType):
    assert made.held(made.read_rows()) in (DOCS / "clusters.md").read_text(encoding="utf-8")
