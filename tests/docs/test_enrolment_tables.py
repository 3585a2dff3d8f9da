"""The tables and the figures of docs/enrolment.md are those of benchmarks/gate.csv."""

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
MADE_BY = "gate_page"
PAGE = (ROOT / "docs" / "enrolment.md").read_text(encoding="utf-8")


def test_the_bar_is_met_or_the_page_says_that_it_is_not(made: ModuleType):
    bar = [row for row in made.read_rows() if row["part"] == "bar"]

    def refused(kind: str, case: str = "one photograph each") -> float:
        return made.figure(bar, case=case, name=made.ASKED, at=kind, figure="refused")

    assert min(refused("reduced"), refused("blurred")) >= 0.95
    assert min(refused("wrong, enrolled"), refused("wrong, a stranger")) >= 0.9
    assert refused("good") <= 0.02
    assert "FPIR stays within its promise" in PAGE
    for what in ("fpir", "fpir, worse"):
        gated = {"case": "one photograph each", "name": made.ASKED, "at": "as before", "figure": what}
        assert made.figure(bar, **gated) <= 0.01
    worse = made.figure(bar, case="one photograph each", name="no gate", at="as before", figure="fpir, worse")
    assert f"found {worse * 100:.0f} times as often as promised" in PAGE
    first = refused("wrong, a stranger", "empty at first")
    assert f"only {made.shown(first, 0)} % of those of a stranger" in PAGE
