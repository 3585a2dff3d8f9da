"""The tables of docs/uncertainty.md and docs/lab/promises.md on intervals are those of benchmarks/intervals.csv."""

from pathlib import Path
from statistics import median
from types import ModuleType

from verisphere.decide.intervals import COVERAGE

ROOT = Path(__file__).parents[2]
MADE_BY = "intervals_page"


def test_what_is_printed_of_intervals_is_what_was_simulated(made: ModuleType):
    rows = [row for row in made.read_rows() if row["rule"] == made.OURS[row["figure"]]]
    assert all(row["sets"] == "300" for row in rows)
    held = [100 * float(row["held"]) for row in rows if row["world"] not in made.TAILED]
    assert f"in {min(held):.0f} to {max(held):.0f} % where people differ moderately" in COVERAGE
    assert min(float(row["held"]) for row in rows if row["world"] in made.TAILED) < 0.9


def test_no_other_rule_holds_in_as_many_cells(made: ModuleType):
    rows = [row for row in made.read_rows() if row["figure"] != "difference"]
    for figure in ("TAR", "threshold", "FAR"):
        of = {
            name: sum(float(row["held"]) >= 0.94 for row in rows if (row["figure"], row["rule"]) == (figure, name))
            for name in {row["rule"] for row in rows if row["figure"] == figure}
        }
        assert max(of, key=lambda name: of[name]) == made.OURS[figure]


def held(rows: list[dict[str, str]], cells: set[tuple[str, str]], figure: str, rule: str) -> list[float]:
    """The shares of one rule in some cells."""
    of = [row for row in rows if (row["figure"], row["rule"]) == (figure, rule)]
    return [float(row["held"]) for row in of if (row["world"], row["people"]) in cells]


def test_m_out_of_n_is_no_better(made: ModuleType):
    page = (ROOT / "docs" / "lab" / "promises.md").read_text(encoding="utf-8")
    rows = made.read_rows()
    tried = {(row["world"], row["people"]) for row in rows if row["rule"] == "m out of n"}
    assert len(tried) == 27
    middle = {
        rule: [f"{100 * median(held(rows, tried, figure, rule)):.0f}" for figure in ("TAR", "threshold", "FAR")]
        for rule in ("m out of n", made.BEFORE, "effective number")
    }
    assert "held in {} % (TAR), {} % (threshold) and {} % (FAR) of the sets".format(*middle["m out of n"]) in page
    for rule, said in (
        (made.BEFORE, "of all n people held in {}, {} and {} %"),
        ("effective number", "in {}, {} and {} %"),
    ):
        assert said.format(*middle[rule]) in page
