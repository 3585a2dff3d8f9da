"""Pairs of one person, listed in portions."""

import numpy as np
import pytest

from verisphere.score import genuine
from verisphere.score.genuine import genuine_count, genuine_pairs


@pytest.mark.parametrize("portion", [1, 7, 1 << 18])
def test_every_pair_of_one_person_once(portion: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(genuine, "PAIRS_AT_ONCE", portion)
    random = np.random.default_rng(0)
    people, others = random.integers(0, 8, 40), random.integers(3, 11, 30)
    found = [(a, b) for left, right in genuine_pairs(people) for a, b in zip(left, right, strict=True)]
    assert sorted(tuple(sorted(pair)) for pair in found) == [
        (a, b) for a in range(40) for b in range(a + 1, 40) if people[a] == people[b]
    ]
    assert genuine_count(people) == len(found)
    found = [(a, b) for left, right in genuine_pairs(people, others) for a, b in zip(left, right, strict=True)]
    assert sorted(found) == [(a, b) for a in range(40) for b in range(30) if people[a] == others[b]]
    assert genuine_count(people, others) == len(found)


def test_nobody_twice():
    assert not list(genuine_pairs(np.arange(5)))
    assert not list(genuine_pairs(np.empty(0, np.int64)))
    assert not list(genuine_pairs(np.arange(3), np.arange(4, 9)))
    assert genuine_count(np.arange(5)) == genuine_count(np.arange(3), np.arange(4, 9)) == 0
