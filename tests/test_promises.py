"""A short form of `make promises`: what the simulation of benchmarks/promises.py finds in its worlds."""

import csv
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from verisphere.base.vocabulary import Redrawing
from verisphere.decide import TooFewComparisonsError, approximate_threshold, confidence_limit, share_above

FILE = Path(__file__).parents[1] / "benchmarks" / "promises.py"
MADE_BY = "promises"
WORLDS = ("alike", "differing", "tails", "heavy tails", "worst case")


@pytest.fixture
def world(made: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(made, "TRUTH", 200_000)  # a FAR of 0.05 is known to 1 % of itself

    def find(name: str, far: float):
        return next(world for world in made.worlds(far) if world.name == name)

    return find


def deviation(share: float, sets: int) -> float:
    return float(np.sqrt(share * (1 - share) / sets))


@pytest.mark.parametrize("name", WORLDS)
def test_confident_and_expected_hold_in_every_world(made, world, name: str):
    """120 people, 60 comparisons at FAR 0.05: `confident` takes rank 1 (0.95 ** 60 = 0.046), `expected` rank 3."""
    expected, confident = made.of_matched(world(name, 0.05), 120, 500)
    assert confident.held >= 0.95 - 3 * deviation(0.95, 500)
    above = share_above(60, "0.05")  # 0.42, rounded up: ties, which there are none of here, lower it
    assert expected.stated == pytest.approx(1 - above)
    assert abs(expected.held - (1 - above)) < 4 * deviation(above, 500) + 0.01
    # Beta(3, 58) has a standard deviation of 0.55 targets; the truth is known to 0.01
    assert expected.mean_far <= 1 + 4 * 0.55 / np.sqrt(500) + 0.02


def test_approximate_holds_no_more_often_than_is_claimed_where_few_resemble_everybody(made, world):
    """Two thirds of the sets of 60 people hold one of the few at FAR 0.04 (1 - 0.96 ** 30 = 0.706), the others none."""
    worst = world("worst case", 0.04)
    rows = {row.promise: row for row in made.of_all_pairs(worst, 60, 150, 40)}
    assert rows["approximate"].stated == confidence_limit(60, "0.04") == 0.7
    assert abs(rows["approximate"].held - 0.7) < 3 * deviation(0.7, 150)


def test_where_all_are_alike_approximate_holds_as_often_as_it_aims_at(made, world):
    (row,) = made.of_all_pairs(world("alike", 0.04), 60, 100, 40)
    assert row.promise == "approximate"
    assert row.held >= 0.8  # 40 replicates reach out less far than 1,000


def test_no_set_without_the_few_shows_that_they_are_there(made, world):
    """The argument of `confidence_limit`: sets that lack them, (1 - f) ** (N / 2) of all, show the scores of others."""
    worst, sets = world("worst case", 0.04), 4000
    few = worst.likeness(np.random.default_rng(0), (sets, 60)) > 0
    assert abs((~few.any(1)).mean() - (1 - 1.05 * 0.04) ** 30) < 4 * deviation(0.28, sets)
    alike = next(number for number in range(20) if worst.draw_set(60, number)(8).impostor.max() < 4)
    pairs = worst.draw_set(60, alike)(8)
    assert worst.far(approximate_threshold(pairs, "0.04", Redrawing(40)).threshold) > 0.04
    assert worst.far(float(pairs.impostor.max())) > 0.04  # not even the highest score of all would do


def test_what_is_refused_is_not_simulated(made, world):
    few = world("alike", 0.01)
    rows = [*made.of_matched(few, 60, 2), *made.of_all_pairs(few, 60, 2, 5)]
    refused = {row.promise: row.held for row in rows}
    assert [refused[name] for name in ("expected", "confident", "approximate")] == [None, None, None]
    with pytest.raises(TooFewComparisonsError):
        approximate_threshold(few.draw_set(60, 0)(2), "0.01")
    lines = [{name: "" if value is None else str(value) for name, value in asdict(row).items()} for row in rows]
    assert made.text(lines).splitlines()[-1] == "| 0.01 | 60 | alike | refused | refused | refused |"


def test_a_simulation_repeats(made, world):
    rows = list(made.of_matched(world("alike", 0.1), 60, 3))
    again = list(made.of_matched(world("alike", 0.1), 60, 3))
    assert again == rows


def test_confident_held_in_every_world_of_the_full_simulation():
    with FILE.with_suffix(".csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["promise"] == "confident" and row["held"]]
    assert {row["world"] for row in rows} >= set(WORLDS)
    assert all(float(row["held"]) >= 0.95 - 3 * deviation(0.95, int(row["sets"])) for row in rows)


def test_the_table_of_the_page_is_that_of_the_rows(made):
    with FILE.with_suffix(".csv").open() as file:
        made = made.text(list(csv.DictReader(file)))
    assert made.count("\n") > 2
    assert made in (FILE.parents[1] / "docs" / "lab" / "promises.md").read_text(encoding="utf-8")
