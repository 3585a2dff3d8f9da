"""Curves: the same counts from scores in memory and from any that answer questions of order; thinned ones keep both."""

import math

import numpy as np
import pytest

from verisphere.decide import Curve, SortedScores, curve_at, operating_point, roc, thinned_roc, with_points

GENUINE, IMPOSTOR = [0.9, 0.6, 0.6, 0.2], [0.6, 0.5, 0.1]


def as_rows(curve: Curve) -> list[tuple[float, int, int]]:
    return list(
        zip(
            curve.thresholds.tolist(),
            curve.impostor_accepted.tolist(),
            curve.genuine_accepted.tolist(),
            strict=True,
        )
    )


def test_points_by_hand():
    curve = curve_at(SortedScores(GENUINE), SortedScores(IMPOSTOR), [0.5, 0.6, 0.55, 0.5])
    assert as_rows(curve) == [(0.6, 0, 1), (0.55, 1, 3), (0.5, 1, 3), (-math.inf, 3, 4)]
    assert curve.far.tolist() == [0, 1 / 3, 1 / 3, 1]
    assert curve.frr.tolist() == [0.75, 0.25, 0.25, 0]


def test_at_every_score_it_is_the_whole_curve():
    random = np.random.default_rng(0)
    genuine, impostor = random.integers(0, 30, 200) / 30, random.integers(0, 30, 500) / 30
    whole = roc(genuine, impostor)
    every = curve_at(SortedScores(genuine), SortedScores(impostor), [*genuine.tolist(), *impostor.tolist()])
    assert as_rows(every) == as_rows(whole)


def test_infinite_scores_and_thresholds():
    curve = curve_at(SortedScores([math.inf, -math.inf]), SortedScores([0.5, -math.inf]), [math.inf, 0.5, -math.inf])
    assert as_rows(curve) == [(math.inf, 0, 0), (0.5, 0, 1), (-math.inf, 1, 1)]


def test_a_threshold_that_is_none():
    with pytest.raises(ValueError, match="a threshold is NaN"):
        curve_at(SortedScores(GENUINE), SortedScores(IMPOSTOR), [0.5, math.nan])
    with pytest.raises(ValueError, match="there are no genuine scores"):
        curve_at(SortedScores([]), SortedScores(IMPOSTOR), [0.5])


def test_a_thinned_curve_is_a_part_of_the_whole_and_keeps_both_tails():
    random = np.random.default_rng(1)
    genuine, impostor = random.normal(2, 1, 3000), random.normal(0, 1, 8000)
    whole, thin = (
        as_rows(roc(genuine, impostor)),
        as_rows(thinned_roc(SortedScores(genuine), SortedScores(impostor), 100)),
    )
    assert set(thin) < set(whole)
    assert 60 <= len(thin) <= 101
    thresholds = [threshold for threshold, _, _ in thin]
    assert set(np.sort(impostor)[-5:]) <= set(thresholds)
    assert set(np.sort(genuine)[:5]) <= set(thresholds)
    assert thin[-1] == (-math.inf, 8000, 3000)


def test_few_scores_are_not_thinned():
    whole = as_rows(roc(GENUINE, IMPOSTOR))
    assert as_rows(thinned_roc(SortedScores(GENUINE), SortedScores(IMPOSTOR), 50)) == whole


def test_a_million_ties_are_one_point():
    ties = SortedScores(np.full(1_000_000, 0.5))
    assert as_rows(thinned_roc(ties, ties)) == [(0.5, 0, 0), (-math.inf, 1_000_000, 1_000_000)]


def test_operating_points_join_the_curve():
    point = operating_point(GENUINE, IMPOSTOR, far="0.5", rule="interpolated")
    assert 0.1 < point.threshold < 0.5
    curve = curve_at(SortedScores(GENUINE), SortedScores(IMPOSTOR), [0.6])
    joined = with_points(curve, [point, operating_point(GENUINE, IMPOSTOR, far="0.1")])  # at 0.6, there already
    assert as_rows(joined) == [
        (0.6, 0, 1),
        (point.threshold, point.impostor_accepted, point.genuine_accepted),
        (-math.inf, 3, 4),
    ]
    assert as_rows(with_points(curve, [])) == as_rows(curve)
    with pytest.raises(ValueError, match="is not of this curve's 4 and 3"):
        with_points(curve, [operating_point(GENUINE, IMPOSTOR[:2], far="0.5")])


@pytest.mark.parametrize(
    ("thresholds", "counts", "says"),
    [
        ([0.5, 0.6, -math.inf], [0, 1, 2], "must be descending"),
        ([0.5, 0.5, -math.inf], [0, 1, 2], "must be descending"),
        ([0.5, 0.4], [0, 1], "must be minus infinity"),
        ([], [], "must be minus infinity"),
    ],
)
def test_what_is_no_curve(thresholds: list[float], counts: list[int], says: str):
    numbers = np.array(counts, np.int64)
    with pytest.raises(ValueError, match=says):
        Curve(np.array(thresholds, np.float64), numbers, numbers.copy(), 10, 10)
