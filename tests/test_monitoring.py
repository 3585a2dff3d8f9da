"""A short form of benchmarks/monitoring.py, and its figures in docs/monitoring.md."""

from pathlib import Path

import numpy as np

from verisphere.decide.watch import RateTest

FILE = Path(__file__).parents[1] / "benchmarks" / "monitoring.py"
MADE_BY = "monitoring"


def test_the_tables_of_the_page_are_those_of_the_rows(made):
    page = (FILE.parents[1] / "docs" / "monitoring.md").read_text(encoding="utf-8")
    for block in made.tables(made.read_rows(FILE.with_suffix(".csv"))).strip().split("\n\n"):
        assert block in page


def test_false_alarms_of_the_full_simulation_are_at_most_those_that_are_stated(made):
    rows = [row for row in made.read_rows(FILE.with_suffix(".csv")) if row.figure == "alarms"]
    stated = [row for row in rows if row.case != "as they come"]
    assert len(stated) >= 12
    assert all(row.value <= 0.05 for row in stated)


def test_alarms_are_as_rare_and_as_soon_as_there(made):
    """400 streams of 500 at f = 0.1; at 3 f nearly all alarm within 100, as their 90 % quantile there is 55."""
    random = np.random.default_rng(0)
    rare = made.first_alarms(RateTest(np.full((400, 1), 0.1)), made.of_rates(random, 400, lambda _: 0.1), 500)
    assert 0 < np.isfinite(rare).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    soon = made.first_alarms(RateTest(np.full((400, 1), 0.1)), made.of_rates(random, 400, lambda _: 0.3), 100)
    assert np.isfinite(soon).mean() > 0.9


def test_rows_come_back_as_they_were_written_by_parts(made, tmp_path: Path):
    rows = [
        made.Row("a", "b, c", 0.1, "alarms", 0.25, 4, "scores"),
        made.Row("a", "d", None, "median delay", np.inf, 2, "genuine"),
    ]
    table = made.table_in(tmp_path / "rows.csv")
    for row in reversed(rows):  # as a run that was stopped may finish them
        table.add([row])
    assert made.read_rows(tmp_path / "rows.csv") == rows
    assert table.has("genuine")
    assert not table.has("repeats")


def test_the_conformal_martingale_notices_a_large_shift(made):
    world = made.Scores(np.random.default_rng(1), 5, 300)
    assert np.isfinite(world.jumper_alarms(world.counted(600, shift=1.0))).all()
    assert np.isfinite(world.alarms(world.counted(600, shift=1.0))).all()
