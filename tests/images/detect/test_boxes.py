"""Boxes: squares, corrections, and greedy suppression against a plain loop."""

import numpy as np
import pytest

from verisphere.images.detect.boxes import corrected, overlaps, separate, squares, without_overlaps


def boxes(*rows: tuple[float, float, float, float]) -> np.ndarray:
    return np.array(rows, np.float32).reshape(-1, 4)


def test_squares_keep_the_centre_and_take_the_longer_side():
    assert squares(boxes((0, 10, 4, 20), (2, 2, 12, 4))).tolist() == [[-3, 10, 7, 20], [2, -2, 12, 8]]


def test_corrections_count_in_sides_of_the_box():
    assert corrected(boxes((10, 20, 20, 40)), boxes((-0.1, 0.1, 0.2, -0.5))).tolist() == [[9, 22, 22, 30]]


def test_overlaps_by_hand():
    one, other = boxes((0, 0, 4, 4)), boxes((2, 0, 4, 2), (2, 2, 6, 6), (5, 5, 6, 6), (4, 0, 8, 4), (1, 1, 1, 1))
    assert overlaps(one, other, "union")[0].tolist() == pytest.approx([4 / 16, 4 / 28, 0, 0, 0])
    assert overlaps(one, other, "smaller")[0].tolist() == pytest.approx([1, 4 / 16, 0, 0, 0])


def test_a_box_that_a_dropped_one_overlaps_stays():
    chain = boxes((0, 0, 10, 10), (4, 0, 14, 10), (8, 0, 18, 10))  # 1 overlaps 0 and 2 by 6 / 14; 0 and 2 by 2 / 18
    scores = np.array([0.9, 0.8, 0.7], np.float32)
    assert without_overlaps(chain, scores, 0.4).tolist() == [0, 2]
    assert without_overlaps(chain, scores[[1, 0, 2]], 0.4).tolist() == [1]
    assert without_overlaps(chain, scores, 0.43).tolist() == [0, 1, 2]
    assert without_overlaps(chain, np.full(3, 0.5, np.float32), 0.4).tolist() == [0, 2]  # equal: the earlier is better


def plain(rows: np.ndarray, scores: np.ndarray, limit: float, of: str) -> list[int]:
    shared, kept = overlaps(rows, rows, of), []
    for index in np.argsort(-scores, kind="stable").tolist():
        if all(shared[other, index] <= limit for other in kept):
            kept.append(index)
    return kept


@pytest.mark.parametrize("count", [0, 1, 40, 1100])  # 1100: three blocks
@pytest.mark.parametrize("of", ["union", "smaller"])
def test_the_same_as_a_plain_loop(count, of):
    rng = np.random.default_rng(count)
    corner = rng.uniform(0, 300, (count, 2))
    rows = np.concatenate([corner, corner + rng.uniform(5, 60, (count, 2))], 1).astype(np.float32)
    scores = rng.integers(0, 50, count).astype(np.float32) / 50  # with ties
    assert without_overlaps(rows, scores, 0.3, of).tolist() == plain(rows, scores, 0.3, of)


def test_owners_do_not_meet():
    same = boxes(*[(0, 0, 10, 10)] * 5)
    owners, scores = np.array([3, 0, 3, 0, 7]), np.array([0.1, 0.2, 0.9, 0.3, 0.5], np.float32)
    assert separate(owners, same, scores, 0.5).tolist() == [3, 2, 4]
    assert separate(owners[:0], same[:0], scores[:0], 0.5).tolist() == []
