"""A cleaning by hand: two identities of three images each, of which 75 degrees drop the two with a wrong label."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses, SubClasses

TRUTH = ("Ann", "Ann", "Cid", "Ben", "Ann", "Ben")
#: The dominant sub-center of Ann is number 1, that of Ben number 0.
SUB = SubClasses(
    labels=np.array([0, 0, 0, 1, 1, 1]),
    sub_center=np.array([1, 1, 0, 0, 0, 2]),
    dominant=np.array([1, 0]),
    counts=np.array([[1, 2, 0], [2, 0, 1]]),
    angle=np.array([10, 20, 90, 30, 80, 40], np.float32),
    nearest=np.array([10, 20, 35, 30, 80, 20], np.float32),
)


def six_images(
    rule: Rule | None = None, truth: Sequence[str] | None = TRUTH, sub: SubClasses = SUB, **changes: Any
) -> Cleaning:
    identities = ("Ann",) * 3 + ("Ben",) * 3
    names = ("Ann/1.jpg", "Ann/2.jpg", "Ann/3.jpg", "Ben/1.jpg", "Ben/2.jpg", "Ben/3.jpg")
    found = SamplesInSubClasses(names, identities, ("Ann", "Ben"), sub, "sub-centers of runs/k3", true_identities=truth)
    return Cleaning.by(rule or Rule(), replace(found, **changes))


def one_center() -> SubClasses:
    """The same images with one center for each identity."""
    zeros = np.zeros(6, np.int64)
    return replace(SUB, sub_center=zeros, dominant=zeros[:2], counts=np.array([[3], [3]]), nearest=SUB.angle)
