"""Pairs that are listed again, or of an image with itself: found, named, refused unless they are to be kept."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest

from verisphere.base.vocabulary import Comparisons, Embeddings
from verisphere.measure.protocols.listed_pairs import (
    listed_operating_points,
    listed_pairs,
    repeated_pairs,
    repeated_text,
)

MEASURES = (listed_pairs, listed_operating_points)


def pairs(left, right, genuine=None, lines=None) -> Comparisons:
    left, right = np.array(left, np.int64), np.array(right, np.int64)
    genuine = left // 2 == right // 2 if genuine is None else np.array(genuine)
    return Comparisons(left, right, genuine, np.arange(len(left)) % 2, lines)


def faces(count: int) -> Embeddings:
    rows = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    return Embeddings(
        rows, np.array([f"{row}.jpg" for row in range(count)]), np.array([str(row // 2) for row in range(count)])
    )


@pytest.mark.parametrize("rows", [6, 40, 70_000])
@pytest.mark.parametrize("seed", range(4))
def test_what_is_found_is_what_sets_find(rows: int, seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.score.listing.PAIRS_AT_ONCE", 7)
    left, right = np.random.default_rng(seed).integers(0, rows, (2, 60))
    left[50:53], right[50:53] = right[20:23], left[20:23].copy()
    found = repeated_pairs(pairs(left, right))
    listed = [frozenset(pair) for pair in zip(left.tolist(), right.tolist(), strict=True)]
    own = [place for place, pair in enumerate(listed) if len(pair) == 1]
    counts = Counter(listed)
    assert (found.same_image, found.first_same_image) == (len(own), own[0] if own else 0)
    assert found.again == len(listed) - len(counts)
    first = next(place for place, pair in enumerate(listed) if counts[pair] > 1)
    assert found.first_again == (first, listed.index(listed[first], first + 1))


@pytest.mark.parametrize("listed", [([], []), ([0], [1]), ([0, 0, 1, 2], [1, 2, 3, 3])])
def test_a_list_that_repeats_nothing(listed):
    found = repeated_pairs(pairs(*listed))
    assert (found.same_image, found.again) == (0, 0)
    assert repeated_text(faces(4), pairs(*listed)) == ""


@pytest.mark.parametrize("measure", MEASURES)
def test_they_are_refused_by_name(measure):
    embeddings = faces(8)
    own = pairs([0, 2, 4, 0, 1, 2], [1, 3, 4, 2, 3, 4])
    with pytest.raises(ValueError, match=r"^1 of 6 pairs compare an image with itself, first '4.jpg' in pair 3; such"):
        measure(embeddings, own)
    again = pairs([0, 2, 3, 0, 1, 0], [1, 3, 2, 2, 3, 1], lines=(2, 3, 5, 6, 7, 8))
    with pytest.raises(
        ValueError, match=r"2 of 6 pairs repeat .*, first '0.jpg' with '1.jpg' in line 2 and line 8; .*"
    ):
        measure(embeddings, again)
    with pytest.raises(ValueError, match=r"; evaluate pairs and evaluate ijb also keep them, by --keep-repeated \("):
        measure(embeddings, again)


@pytest.mark.parametrize("measure", MEASURES)
def test_they_are_counted_where_they_are_to_be_kept(measure):
    embeddings, right = faces(8), pairs([0, 2, 3, 0, 1, 5], [1, 3, 2, 2, 3, 5])
    result = measure(embeddings, right, keep_repeated=True)
    points = getattr(result, "operating_points", result)
    assert (points[0].genuine_total, points[0].impostor_total) == (4, 2)


def test_a_long_name_is_shortened():
    rows = np.eye(2, dtype=np.float32)
    text = repeated_text(Embeddings(rows, np.array(["a" * 5000, "b"]), np.array(["a", "b"])), pairs([0], [0]))
    assert text.endswith("aaa...' in pair 1")
    assert len(text) < 300


@pytest.mark.parametrize(("rows", "bytes_a_pair"), [(60_000, 4), (70_000, 8)])
def test_memory_for_millions_of_pairs(rows: int, bytes_a_pair: int):
    """One number a pair, sorted in place, and the truths of one comparison of neighbours: no sets, no index."""
    count = 1 << 21
    left, right = np.divmod(np.arange(count), 2_000)
    listed = pairs(left, rows - 1 - right)
    tracemalloc.start()
    try:
        found = repeated_pairs(listed)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.same_image, found.again) == (0, 0)
    assert peak < (bytes_a_pair + 2) * count + (1 << 24)  # 13 and 21 MB are taken; a set of pairs is 140 MB
