"""The rules by hand: the paper's angle alone, ours, and what is left of an identity."""

import numpy as np
import pytest

from verisphere.study.clean.rules import Reason, Rule, images_left
from verisphere.study.clean.sub_classes import sub_classes

# Class 0: samples 0 to 2 are nearest to sub-center 0, which is dominant; sample 3 lies at 20 degrees from the other.
# Class 1: sample 4 alone, at 90 degrees. Sample 5 shows nobody who is known.
ANGLES = [(0.0, 90.0), (60.0, 90.0), (75.0, 89.0), (80.0, 20.0), (90.0, 120.0), (0.0, 0.0)]
FOUND = sub_classes(np.cos(np.radians(ANGLES)).astype(np.float32), np.array([0, 0, 0, 0, 1, -1]), classes=2)


def words(rule: Rule) -> list[str]:
    return [Reason(int(reason)).word for reason in rule.reasons(FOUND)]


@pytest.mark.parametrize(
    ("rule", "reasons"),
    [
        (Rule(angle=76.0), ["", "", "", "angle", "angle", ""]),
        (Rule(angle=74.0), ["", "", "angle", "angle", "angle", ""]),
        (Rule(angle=85.0), ["", "", "", "", "angle", ""]),
        (Rule(angle=None), [""] * 6),
        (Rule(angle=None, only_dominant=True), ["", "", "", "sub_center", "", ""]),
        (Rule(angle=76.0, only_dominant=True), ["", "", "", "angle", "angle", ""]),
        (Rule(angle=85.0, only_dominant=True), ["", "", "", "sub_center", "angle", ""]),
        (Rule(angle=74.0, min_images=3), ["few_images", "few_images", "angle", "angle", "angle", ""]),
        (Rule(angle=76.0, min_images=3), ["", "", "", "angle", "angle", ""]),
        (Rule(angle=None, min_images=2), ["", "", "", "", "few_images", ""]),
    ],
)
def test_reasons(rule: Rule, reasons: list[str]):
    assert words(rule) == reasons


def test_a_sample_at_the_angle_itself_is_kept():
    assert words(Rule(angle=float(FOUND.angle[2])))[2] == ""


def test_the_default_is_the_papers():
    assert Rule() == Rule(angle=75.0, only_dominant=False, min_images=1)


def test_what_is_left_of_each_identity():
    assert images_left(FOUND, Rule(angle=76.0).reasons(FOUND)).tolist() == [3, 0]


@pytest.mark.parametrize("angle", [0.0, -1.0, 180.5, float("nan"), float("inf")])
def test_an_angle_out_of_range_is_refused(angle: float):
    with pytest.raises(ValueError, match=r"angle is .*; allowed are more than 0 and at most 180 degrees"):
        Rule(angle=angle)


def test_half_a_turn_is_the_largest_angle():
    assert words(Rule(angle=180.0)) == [""] * 6


def test_fewer_than_one_image_is_refused():
    with pytest.raises(ValueError, match="min_images is 0; allowed is 1 or more"):
        Rule(min_images=0)
    with pytest.raises(TypeError, match="min_images is True; it must be a whole number"):
        Rule(min_images=True)
