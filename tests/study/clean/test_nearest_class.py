"""Whether the nearest class is the own one, by hand, in tiles and for samples of no class."""

import numpy as np
import pytest
import torch

import verisphere.study.clean.nearest_class as nearest_class
from verisphere.study.clean.nearest_class import NearestClass, nearest_is_own

# Sub-centers at 0 and 90 degrees (class 0) and at 180 and 270 (class 1); dominant are 0 and 180.
DEGREES = [[0.0, 90.0], [180.0, 270.0]]
DOMINANT = np.array([0, 0])
#: Class and angle of each sample, and whether it is right by all sub-centers and by the dominant ones.
SAMPLES = [
    (0, 30, True, True),
    (0, 100, True, False),  # 10 from the own second sub-center; without it 100 from the own class, 80 from the other
    (0, 200, False, False),
    (1, 140, True, True),  # 40 from the own, 50 from the other
    (1, 120, False, True),  # 60 against 30; without the sub-center at 90 it is 60 against 120
    (1, 280, True, False),  # 10; without the sub-center at 270 it is 100 against 80
    (-1, 10, False, False),  # of no class
]


def unit(degrees: list) -> np.ndarray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1).astype(np.float32)


@pytest.mark.parametrize("rows_of_tile", [1, 2, 1024])
def test_by_all_sub_centers_and_by_the_dominant_ones(rows_of_tile: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(nearest_class, "_ROWS", rows_of_tile)
    labels = np.array([label for label, *_ in SAMPLES])
    rows, centers = unit([angle for _, angle, *_ in SAMPLES]), unit(DEGREES)
    cosines = np.einsum("nd,nkd->nk", rows, centers[labels])
    cosines[labels < 0] = np.nan
    own = nearest_is_own(torch.from_numpy(centers), DOMINANT, torch.device("cpu"))
    # the length of an embedding does not count
    assert own(7 * rows, labels, cosines).tolist() == [list(right) for _, _, *right in SAMPLES]


def test_a_class_equally_near_does_not_count_and_one_without_samples_has_its_first_sub_center():
    # classes at 0 and 90 degrees; the third has no samples, and its sub-centers lie at 180 and 40 degrees
    centers, dominant = unit([[0.0, 0.0], [90.0, 90.0], [180.0, 40.0]]), np.array([0, 0, -1])
    rows, labels = np.array([[1, 1], [3, 1]], np.float32), np.array([0, 0])
    cosines = np.einsum("nd,nkd->nk", rows / np.linalg.norm(rows, axis=1, keepdims=True), centers[labels])
    own = nearest_is_own(torch.from_numpy(centers), dominant, torch.device("cpu"))
    # 45 degrees are as near to 0 as to 90, and 5 from 40; 18 degrees are 18 from 0 and 22 from 40
    assert own(rows, labels, cosines).tolist() == [[False, True], [True, True]]


def test_shares_of_some_samples():
    result = NearestClass(np.array([True, False, True]), np.array([False, False, True]))
    assert result.shares(np.array([True, True, False])) == {"all_sub_centers": 0.5, "dominant_only": 0.0}
    assert np.isnan(result.shares(np.zeros(3, bool))["dominant_only"])
