"""Scores of which only the highest are held."""

import math

import numpy as np
import pytest

from verisphere.decide import Ordered, operating_point
from verisphere.decide.order import HighestScores

#: 0.9, then 0.7 three times, 0.5, and five lower ones.
SCORES = HighestScores(np.array([0.9, 0.7, 0.5]), np.array([1, 3, 1]), total=10)


def test_ranks_and_counts_as_far_as_they_reach():
    assert isinstance(SCORES, Ordered)
    assert [SCORES.ranked(rank) for rank in range(1, 6)] == [0.9, 0.7, 0.7, 0.7, 0.5]
    counts = [SCORES.above(cut) for cut in (math.inf, 0.9, 0.8, 0.7, 0.6, 0.5, math.nextafter(0.5, -1), -math.inf)]
    assert counts == [0, 0, 1, 1, 4, 4, 5, 10]


def test_what_is_not_held_is_not_answered():
    with pytest.raises(AssertionError, match="rank 6 of 10"):
        SCORES.ranked(6)
    with pytest.raises(AssertionError, match=r"threshold 0\.4 lies below"):
        SCORES.above(0.4)
    whole = HighestScores(np.array([0.9, 0.7]), np.array([1, 1]), total=2)
    assert whole.above(0.1) == 2


def test_thresholds_by_every_rule_with_ties():
    whole = [0.9, 0.7, 0.7, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
    for rule in ("at_most", "nearest", "interpolated"):
        for far in ("0.1", "0.25", "0.36"):  # 0.36: 4 of 10 lie nearer than 1, so `nearest` looks for the fifth
            assert operating_point([0.8, 0.6], SCORES, far, rule) == operating_point([0.8, 0.6], whole, far, rule)
