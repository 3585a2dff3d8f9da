"""Balanced pairs drawn from a set: what they are, that they repeat by seed alone, and what is refused."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from verisphere.measure.protocols.drawn_pairs import drawn_pairs

#: 40 images of one person, and five of each of eight others: 780 and 8 x 10 genuine pairs.
PEOPLE = np.array(["many"] * 40 + [f"few {number}" for number in range(8) for _ in range(5)])


def test_half_are_genuine_and_none_repeats():
    pairs = drawn_pairs(PEOPLE, 60)
    same = PEOPLE[pairs.left] == PEOPLE[pairs.right]
    assert (same == pairs.genuine).all()
    assert (len(pairs), pairs.genuine.sum()) == (60, 30)
    assert (pairs.left < pairs.right).all()
    assert len({*zip(pairs.left.tolist(), pairs.right.tolist(), strict=True)}) == 60
    assert pairs.folds is None


def test_a_person_of_many_images_does_not_take_most_genuine_pairs():
    """Nine people draw alike, so the one has about 30 / 9 of 30 pairs; of all genuine pairs he has nine tenths."""
    pairs = drawn_pairs(PEOPLE, 60)
    assert Counter(PEOPLE[pairs.left[pairs.genuine]])["many"] < 10


def test_the_seed_decides():
    first, again, other = (drawn_pairs(PEOPLE, 40, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.left, again.left)
    assert np.array_equal(first.right, again.right)
    assert not np.array_equal(first.left, other.left)


def test_the_pairs_that_are_held_at_a_time_change_nothing(monkeypatch: pytest.MonkeyPatch):
    pairs = drawn_pairs(PEOPLE, 60)
    monkeypatch.setattr("verisphere.measure.protocols.drawn_pairs._AT_ONCE", 3)
    few = drawn_pairs(PEOPLE, 60)
    assert np.array_equal(few.left, pairs.left)
    assert np.array_equal(few.right, pairs.right)


def test_not_all_genuine_pairs_are_held(monkeypatch: pytest.MonkeyPatch):
    # 500 people of 20 images: 95,000 genuine pairs, whose images alone would take 1.5 MB
    monkeypatch.setattr("verisphere.measure.protocols.drawn_pairs._AT_ONCE", 1000)
    people = np.repeat(np.arange(500), 20)
    tracemalloc.start()
    drawn_pairs(people, 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000  # 0.4 MB are taken; the images of all pairs are 1.5 MB


def test_every_pair_can_be_drawn():
    # ten people of two images: 10 genuine pairs, all of them drawn
    pairs = drawn_pairs(np.repeat(np.arange(10).astype(str), 2), 20)
    assert sorted(pairs.left[:10].tolist()) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]


@pytest.mark.parametrize(
    ("people", "count", "message"),
    [
        (PEOPLE, 21, "drawn_pairs is 21; it is an even number, at least 20"),
        (PEOPLE, 18, "drawn_pairs is 18"),
        (np.repeat(["a", "b"], 4), 40, "2 people have 12 genuine pairs"),
        (np.array(["a"] * 30 + ["b"] * 0), 20, "1 people have 0 impostor pairs"),
    ],
)
def test_refusals(people, count, message):
    with pytest.raises(ValueError, match=message):
        drawn_pairs(people, count)
