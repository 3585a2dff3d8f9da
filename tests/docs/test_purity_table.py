"""The table of docs/clusters.md about the promise of purity is that of benchmarks/purity.csv."""

from types import ModuleType

MADE_BY = "purity"


def test_the_promises_held(made: ModuleType):
    """In as many draws as docs/clusters.md says, and within two standard errors of 95 %."""
    rows = made.read_rows()
    assert {row["world"] for row in rows} == {"LFW", "alike", "hard", "families"}
    for row in rows:
        assert int(row["draws"]) >= 500
        assert abs(float(row["held"]) - 0.95) <= 2 * (0.95 * 0.05 / int(row["draws"])) ** 0.5, row
