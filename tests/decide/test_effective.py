"""Intervals by an effective number of comparisons: where it meets known rules, and how it moves."""

import numpy as np
import pytest

from verisphere.base.vocabulary import Redrawing
from verisphere.decide import PairScores, binomial_bounds, point_intervals
from verisphere.decide.effective import FEWEST_DEGREES, degrees_of_freedom, share_bounds

EVEN = np.array([1.0, -1.0] * 50)


def test_even_people_have_as_many_degrees_as_there_are_people_but_one():
    assert degrees_of_freedom(EVEN) == 99
    assert degrees_of_freedom(np.zeros(10)) == 9
    assert degrees_of_freedom(np.array([0.3])) == 1
    normal = np.random.default_rng(0).standard_normal(100_000)
    assert degrees_of_freedom(normal) == pytest.approx(100_000, rel=0.05)  # fourth moment: three squared variances


def test_one_person_who_makes_up_the_variance_leaves_few_degrees():
    influence = np.zeros(200)
    influence[0] = 3.0
    assert degrees_of_freedom(influence) == FEWEST_DEGREES
    half = np.array([1.0] * 8 + [0.0] * 192)  # the variance of eight people
    assert degrees_of_freedom(half) == pytest.approx(2 / (1 / 8 - 1 / 200))
    assert degrees_of_freedom(1e-9 * half) == pytest.approx(degrees_of_freedom(half))


def test_independent_comparisons_have_their_binomial_bounds():
    """100,000 people with a comparison each: the error is that of a binomial count, Student's t is normal."""
    influence = np.tile(EVEN, 1000)
    error = (0.1 * 0.9 / 1000) ** 0.5
    found = share_bounds(0.1, error, 1000, influence, 100_000)
    assert found == pytest.approx(binomial_bounds(100, 1000), abs=1e-4)
    # an error that is smaller by chance does not make them narrower than binomial bounds
    assert share_bounds(0.1, error / 3, 1000, influence, 100_000) == pytest.approx(binomial_bounds(100, 1000))


def test_uneven_people_have_wider_bounds_at_the_same_error():
    uneven = np.concatenate([10 * EVEN[:4], EVEN])
    narrow, wide = (share_bounds(0.1, 0.03, 1000, influence, 100) for influence in (EVEN, uneven))
    assert wide[0] < narrow[0] < 0.1 < narrow[1] < wide[1]


@pytest.mark.parametrize(("share", "error"), [(0.0, 0.0), (1.0, 0.0), (0.3, 0.0)])
def test_where_nothing_varies_each_person_counts_once(share: float, error: float):
    assert share_bounds(share, error, 1000, np.zeros(40), 40) == pytest.approx(binomial_bounds(40 * share, 40))
    assert share_bounds(share, error, 6, np.zeros(40), 40) == pytest.approx(binomial_bounds(6 * share, 6))


def test_one_person_with_all_genuine_pairs_is_one_comparison():
    """The threshold varies over redrawn people, but no redrawing shows how another person would do."""
    images = np.array([1] * 9 + [5])
    person = np.repeat(np.arange(10), images)
    left, right = np.triu_indices(len(person), 1)
    same, score = person[left] == person[right], np.random.default_rng(0).normal(size=len(left))
    order = np.argsort(-score[~same])
    people = np.stack([person[left[~same]], person[right[~same]]], 1)[order]
    genuine = np.array([9.0] * 6 + [-9.0] * 4)
    genuine[5] = np.sort(score[~same])[-9]  # beyond the threshold in some redrawings
    pairs = PairScores(genuine, person[left[same]], score[~same][order], people, images)
    (point,) = point_intervals(pairs, ["0.1"], Redrawing(50))
    assert point.tar.value in (0.5, 0.6)
    assert (point.tar.lower_95, point.tar.upper_95) == pytest.approx(binomial_bounds(point.tar.value, 1))


def test_an_error_as_large_as_can_be_is_one_comparison():
    assert share_bounds(0.5, 10.0, 1000, EVEN, 100) == binomial_bounds(0.5, 1.0)
