"""Sub-classes: the samples of an identity, grouped by their nearest sub-center, and the dominant sub-center.

Sub-center ArcFace (Deng et al. 2021, arXiv:1801.07698v4, section 3.2) trains K sub-centers for each identity. Most of
the clean samples gather at one of them, the dominant sub-center; noisy and hard samples go to the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int64

from verisphere.base.words import Names
from verisphere.study.clean.nearest_class import NearestClass

#: Sub-center of a sample of no class, or of a class without sub-centers.
NONE = -1
#: Largest difference of float32 cosines that is only rounding: the center of a single image has cosine 1 with it.
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class SubClasses:
    """The sub-class of each sample, and its angles in degrees; NaN and `NONE` where there is no class or no sample."""

    labels: Int64[np.ndarray, " samples"]
    sub_center: Int64[np.ndarray, " samples"]  # number of the nearest sub-center of the own class
    dominant: Int64[np.ndarray, " classes"]
    counts: Int64[np.ndarray, "classes subcenters"]
    angle: Float32[np.ndarray, " samples"]  # to the dominant sub-center of its class
    nearest: Float32[np.ndarray, " samples"]  # to its nearest sub-center

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def known(self) -> Bool[np.ndarray, " samples"]:
        """Whether each sample has a class with a sub-center."""
        return self.sub_center != NONE

    @property
    def in_dominant(self) -> Bool[np.ndarray, " samples"]:
        """Whether each sample is nearest to the dominant sub-center of its class."""
        inside = self.known
        inside[inside] = self.sub_center[inside] == self.dominant[self.labels[inside]]
        return inside


def sub_classes(
    cosines: Float32[np.ndarray, "samples subcenters"], labels: Int64[np.ndarray, " samples"], classes: int
) -> SubClasses:
    """Sub-classes from the cosines of each sample to the sub-centers of its own class.

    The dominant sub-center of a class is the one that most of its samples are nearest to; among equals, the one with
    the larger sum of the cosines of these samples, or the first if these sums are equal up to rounding. A sample that
    is equally near to two sub-centers belongs to the first.

    >>> cosines = np.array([[0.9, 0.0], [0.8, 0.1], [0.1, 0.5]], np.float32)  # two near the first, one the second
    >>> found = sub_classes(cosines, np.array([0, 0, 0]), classes=1)
    >>> found.sub_center.tolist(), found.dominant.tolist(), found.counts.tolist(), found.angle.round().tolist()
    ([0, 0, 1], [0], [[2, 1]], [26.0, 37.0, 84.0])

    `cosines` are NaN if a class has fewer sub-centers than others; a negative label is no class.
    """
    per_class = cosines.shape[1]
    own = np.where(np.isnan(cosines), -np.inf, cosines)
    known = (labels >= 0) & (own > -np.inf).any(axis=1)
    sub_center = np.where(known, own.argmax(axis=1), NONE)
    largest = own.max(axis=1)
    place = (labels * per_class + sub_center)[known]
    counts = np.bincount(place, minlength=classes * per_class).reshape(classes, per_class)
    sums = np.bincount(place, largest[known].astype(np.float64), classes * per_class).reshape(classes, per_class)
    tied_sums = np.where(counts == counts.max(axis=1, keepdims=True), sums, -np.inf)
    dominant = (tied_sums >= tied_sums.max(axis=1, keepdims=True) - ROUNDING * counts).argmax(axis=1)
    dominant[counts.sum(axis=1) == 0] = NONE
    angle = np.full(len(labels), np.nan, np.float32)
    angle[known] = degrees(own[known, dominant[labels[known]]])
    nearest = np.full(len(labels), np.nan, np.float32)
    nearest[known] = degrees(largest[known])
    return SubClasses(labels, sub_center, dominant, counts, angle, nearest)


def degrees(cosines: Float32[np.ndarray, " samples"]) -> Float32[np.ndarray, " samples"]:
    """Angles in degrees; cosines past +-1 by rounding count as +-1."""
    return np.degrees(np.arccos(np.clip(cosines.astype(np.float64), -1.0, 1.0))).astype(np.float32)


@dataclass(frozen=True, eq=False)
class SamplesInSubClasses:
    """The samples of a data set, each in its sub-class."""

    names: Sequence[str]
    identities: Sequence[str]
    people: Sequence[str]  # a label of `sub` is a position in them
    sub: SubClasses
    method: str  # how the sub-centers were found, in words, such as "sub-centers of runs/k3"
    domains: Sequence[str] | None = None
    true_identities: Sequence[str] | None = None
    nearest_class: NearestClass | None = None  # None if not requested
    names_rule: Names | None = None

    def __len__(self) -> int:
        return len(self.names)
