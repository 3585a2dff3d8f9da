"""Sub-classes by hand: nearest sub-center, dominant one, ties, empty sub-centers, samples of nobody."""

import math

import numpy as np
import pytest

from verisphere.study.clean.sub_classes import NONE, sub_classes


def cosines(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_the_dominant_sub_center_has_most_samples_and_angles_are_arccosines():
    # cos 60 = 0.5, cos 0 = 1, cos 90 = 0: samples 0 and 1 belong to sub-center 1, sample 2 to sub-center 0
    found = sub_classes(cosines((0.0, 0.5), (0.5, 1.0), (0.5, 0.0)), np.array([0, 0, 0]), classes=1)
    assert found.sub_center.tolist() == [1, 1, 0]
    assert found.counts.tolist() == [[1, 2]]
    assert found.dominant.tolist() == [1]
    assert found.angle.tolist() == pytest.approx([60.0, 0.0, 90.0], abs=1e-4)
    assert found.nearest.tolist() == pytest.approx([60.0, 0.0, 60.0], abs=1e-4)
    assert found.in_dominant.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("rows", "dominant"),
    [
        ([(0.3, 0.1), (0.3, 0.1), (0.1, 0.9)], 0),  # most samples count for more than a large cosine
        ([(0.6, 0.1), (0.1, 0.7)], 1),  # of equally many the larger sum of cosines decides
        ([(0.5, 0.2), (0.2, 0.5)], 0),  # and of equal sums the first
        # of one image each: the cosine of an image with itself is 1, but for the rounding of float32
        ([(0.9999999, 0.1, 0.2), (0.1, 1.0, 0.3), (0.2, 0.3, 1.0000001)], 0),
        # a hundred samples each, whose sums differ by 5e-4, and 100 roundings allow 1e-3
        ([(0.5, 0.1)] * 100 + [(0.1, 0.500005)] * 100, 0),
    ],
)
def test_the_dominant_sub_center(rows: list[tuple[float, ...]], dominant: int):
    assert sub_classes(cosines(*rows), np.zeros(len(rows), int), classes=1).dominant.tolist() == [dominant]


def test_a_sample_equally_near_to_two_sub_centers_belongs_to_the_first():
    found = sub_classes(cosines((0.5, 0.5)), np.array([0]), classes=1)
    assert found.sub_center.tolist() == [0]
    assert found.counts.tolist() == [[1, 0]]


def test_one_sub_center_is_dominant_for_every_sample():
    found = sub_classes(cosines((0.5,), (-1.0,)), np.array([0, 0]), classes=1)
    assert found.in_dominant.all()
    assert found.angle.tolist() == pytest.approx([60.0, 180.0], abs=1e-4)


def test_samples_of_nobody_and_missing_sub_centers_have_no_angle():
    rows = cosines((0.9, math.nan), (math.nan, math.nan), (0.9, 0.8))
    found = sub_classes(rows, np.array([0, 1, -1]), classes=3)
    assert found.sub_center.tolist() == [0, NONE, NONE]
    assert found.known.tolist() == [True, False, False]
    assert found.in_dominant.tolist() == [True, False, False]
    assert found.dominant.tolist() == [0, NONE, NONE]
    assert np.isnan(found.angle).tolist() == [False, True, True]


def test_cosines_that_rounding_carried_past_one_are_angle_zero():
    found = sub_classes(cosines((1.0000002,), (-1.0000002,)), np.array([0, 0]), classes=1)
    assert found.angle.tolist() == [0.0, 180.0]


def test_a_set_of_nobody_has_no_sub_classes():
    found = sub_classes(cosines((0.9, 0.8)), np.array([-1]), classes=0)
    assert found.in_dominant.tolist() == [False]
    assert np.isnan(found.angle).all()
