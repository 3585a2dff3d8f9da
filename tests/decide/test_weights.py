"""Sums over weighted pairs in many replicates at once, against the plain running sum of each replicate by itself."""

import numpy as np
import pytest

from verisphere.decide import weights as module
from verisphere.decide.weights import Weights, first_over, weight_of_first


def plain(draws: np.ndarray, people: np.ndarray) -> np.ndarray:
    """(replicates, pairs) weight of each pair, written out."""
    return np.array([[int(np.prod([draw[person] for person in pair])) for pair in people] for draw in draws], np.int64)


def draws_up_to(most: int, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).integers(0, 4, (6, 9))
    draws[2, 5] = most
    return draws


# The largest draw decides how narrow the integers are: 15^2 fits into 8 bits, 181^2 into 15, 46340^2 into 31.
@pytest.mark.parametrize("most", [3, 15, 16, 181, 182, 46_340, 3_000_000])
@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("block", [1, 7, 40, 1000])
def test_each_replicate_is_a_running_sum(most: int, sides: int, block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "BLOCK", block)
    monkeypatch.setattr(module, "NUMBERS", 1)
    draws = draws_up_to(most, seed=sides)
    people = np.random.default_rng(1).integers(0, 9, (40, sides))
    weights, each = Weights(draws), plain(draws, people)
    assert weights.total(people).tolist() == each.sum(1).tolist()
    assert weights.each(people, np.array([4, 1])).tolist() == each[[4, 1]].tolist()
    ends = np.array([[0, 40, 7, 8, 39, 1], [40] * 6, [0] * 6])
    sums = np.concatenate([np.zeros((6, 1), np.int64), each.cumsum(1)], 1)
    assert weight_of_first(weights, people, ends).tolist() == [
        [int(sums[replicate, end]) for replicate, end in enumerate(row)] for row in ends
    ]
    totals = each.sum(1)
    allowed = np.stack([np.zeros(6, np.int64), totals // 3, totals - 1, totals])
    expected = [
        [
            next((place for place in range(40) if sums[replicate, place + 1] > cut), 40)
            for replicate, cut in enumerate(row)
        ]
        for row in allowed.tolist()
    ]
    assert first_over(weights, people, allowed).tolist() == expected
    assert expected[3] == [40] * 6  # a sum that is never exceeded


def test_no_pairs():
    weights = Weights(np.ones((3, 4), np.int64))
    nothing = np.empty((0, 2), np.int64)
    assert weights.total(nothing).tolist() == [0, 0, 0]
    assert first_over(weights, nothing, np.zeros((1, 3), np.int64)).tolist() == [[0, 0, 0]]
    assert weight_of_first(weights, nothing, np.zeros((2, 3), np.int64)).tolist() == [[0, 0, 0]] * 2


def test_a_block_is_bounded_however_few_the_replicates():
    assert Weights(np.ones((1, 3), np.int64)).block == 1 << 16
    assert Weights(np.ones((10_000, 3), np.int64)).block == module.BLOCK
