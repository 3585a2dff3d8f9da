"""Rules of cleaning: they decide which samples of an identity are dropped, with a reason for each."""

from dataclasses import dataclass
from enum import IntEnum
from math import isfinite

import numpy as np
from jaxtyping import Int8, Int64

from verisphere.base.vocabulary import check_whole
from verisphere.study.clean.sub_classes import SubClasses

#: Angles that ArcFace's table 3 compares, in degrees; it chooses 75.
ANGLES = (70.0, 75.0, 80.0, 85.0)


class Reason(IntEnum):
    """The reason for which a sample was dropped; `KEPT` if it was not."""

    KEPT = 0
    ANGLE = 1
    SUB_CENTER = 2
    FEW_IMAGES = 3

    @property
    def word(self) -> str:
        """The reason in `clean.json`; empty for a sample that was kept."""
        return ("", "angle", "sub_center", "few_images")[self]


@dataclass(frozen=True)
class Rule:
    """A rule that decides which samples are dropped.

    The rule of sub-center ArcFace (Deng et al. 2021, section 3.2 and table 3) is the angle alone, at 75 degrees. The
    other two are ours.

    Attributes:
        angle: samples at a larger angle to the dominant sub-center of their identity are dropped; degrees. None drops
            no sample by its angle.
        only_dominant: also drop every sample that is nearer to another sub-center than to the dominant one.
        min_images: identities with fewer remaining samples are dropped as a whole.
    """

    angle: float | None = 75.0
    only_dominant: bool = False
    min_images: int = 1

    def __post_init__(self) -> None:
        if self.angle is not None and not (isfinite(self.angle) and 0 < self.angle <= 180):
            raise ValueError(f"angle is {self.angle}; allowed are more than 0 and at most 180 degrees (75 is usual)")
        check_whole("min_images", self.min_images)
        if self.min_images < 1:
            raise ValueError(f"min_images is {self.min_images}; allowed is 1 or more")

    def reasons(self, found: SubClasses) -> Int8[np.ndarray, " samples"]:
        """The reason for which each sample is dropped, as a number of `Reason`: the first that applies.

        Samples without a class are kept.

        >>> from verisphere.study.clean.sub_classes import sub_classes
        >>> cosines = np.array([[0.9, 0.0], [0.8, 0.1], [0.3, 0.5], [0.1, 0.6]], np.float32)
        >>> found = sub_classes(cosines, np.array([0, 0, 0, 0]), classes=1)  # angles 26, 37, 73 and 84 degrees
        >>> [Reason(reason).word for reason in Rule(only_dominant=True).reasons(found)]
        ['', '', 'sub_center', 'angle']
        """
        reasons = np.full(len(found), Reason.KEPT, np.int8)
        if self.only_dominant:
            reasons[found.known & ~found.in_dominant] = Reason.SUB_CENTER
        if self.angle is not None:
            reasons[found.known & (found.angle > self.angle)] = Reason.ANGLE
        remaining = images_left(found, reasons)
        few = found.known & (reasons == Reason.KEPT)
        few[few] = remaining[found.labels[few]] < self.min_images
        reasons[few] = Reason.FEW_IMAGES
        return reasons


def images_left(found: SubClasses, reasons: Int8[np.ndarray, " samples"]) -> Int64[np.ndarray, " classes"]:
    """Number of samples of each class that remain."""
    left = found.labels[(found.labels >= 0) & (reasons == Reason.KEPT)]
    return np.bincount(left, minlength=len(found.dominant))
