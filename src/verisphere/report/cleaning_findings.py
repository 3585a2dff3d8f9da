"""The contents of a page about cleaning as plain values; the page only lays them out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32


@dataclass(frozen=True)
class NoiseDropped:
    """Dropped samples compared with noisy ones.

    Attributes:
        noisy: number of samples whose label is wrong.
        clean: number of samples whose label is right.
        noisy_dropped: number of dropped samples whose label is wrong.
        clean_dropped: number of dropped samples whose label is right.
    """

    noisy: int
    clean: int
    noisy_dropped: int
    clean_dropped: int

    @property
    def dropped(self) -> int:
        """Number of dropped samples."""
        return self.noisy_dropped + self.clean_dropped

    @property
    def precision(self) -> float:
        """Share of the dropped samples that are noisy; NaN where none was dropped."""
        return self.noisy_dropped / self.dropped if self.dropped else float("nan")

    @property
    def recall(self) -> float:
        """Share of the noisy samples that were dropped; NaN where none is noisy."""
        return self.noisy_dropped / self.noisy if self.noisy else float("nan")

    @property
    def noise_before(self) -> float:
        """Share of all samples that are noisy."""
        return self.noisy / (self.noisy + self.clean)

    @property
    def noise_after(self) -> float:
        """Share of the kept samples that are noisy; NaN where none was kept."""
        left = self.noisy - self.noisy_dropped
        kept = left + self.clean - self.clean_dropped
        return left / kept if kept else float("nan")


@dataclass(frozen=True)
class AtAngle:
    """The samples that the rule of the angle drops at one of the compared angles.

    Attributes:
        angle: the angle, in degrees.
        dropped: number of samples beyond the angle.
        identities_lost: number of identities without a remaining sample.
        agreement: dropped samples compared with noisy ones; None if the truth is not known.
    """

    angle: float
    dropped: int
    identities_lost: int
    agreement: NoiseDropped | None = None


@dataclass(frozen=True)
class ByImages:
    """The identities with a number of samples in one interval.

    Attributes:
        first, last: smallest and largest number of samples of an identity, both included.
        identities: number of identities.
        lost: how many of them were lost.
        images: number of their samples.
        dropped: how many of these samples were dropped.
        clean: number of their samples with a right label; None if the truth is not known.
        clean_dropped: how many of these were dropped; None if the truth is not known.
    """

    first: int
    last: int
    identities: int
    lost: int
    images: int
    dropped: int
    clean: int | None = None
    clean_dropped: int | None = None


@dataclass(frozen=True, eq=False)
class Category:
    """The samples of one of the categories of ArcFace's figure 7.

    Attributes:
        dominant: whether the samples are nearest to the dominant sub-center of their identity.
        noisy: whether their labels are wrong; None if the truth is not known.
        angle: angle of each sample to the dominant sub-center, in degrees; NaN where the identity has none.
        nearest: angle of each sample to its nearest sub-center, in degrees.
    """

    dominant: bool
    noisy: bool | None
    angle: Float32[np.ndarray, " samples"]
    nearest: Float32[np.ndarray, " samples"]

    @property
    def name(self) -> str:
        """The category in words."""
        kind = "" if self.noisy is None else (" and noisy" if self.noisy else " and clean")
        return f"{'dominant' if self.dominant else 'non-dominant'}{kind}"


@dataclass(frozen=True)
class Shot:
    """One image on the page.

    Attributes:
        name: name of the image.
        identity: identity that the data set states.
        angle: angle to the dominant sub-center, in degrees; NaN where the identity has none.
        kept: whether the image was kept.
        true_identity: who is on the image; None if the truth is not known.
        uri: the image as a data URI; None if the images are not available.
    """

    name: str
    identity: str
    angle: float
    kept: bool
    true_identity: str | None = None
    uri: str | None = None


@dataclass(frozen=True)
class SubClass:
    """The samples of an identity that are nearest to one sub-center.

    Attributes:
        number: number of the sub-center, as in `clean.json`.
        images: number of samples.
        dropped: how many of them were dropped.
        shown: some of them, nearest to the dominant sub-center first.
    """

    number: int
    images: int
    dropped: int
    shown: tuple[Shot, ...]


@dataclass(frozen=True)
class IdentityShown:
    """An identity in its sub-classes (ArcFace, figure 6a).

    Attributes:
        identity: name of the identity.
        dominant: number of the dominant sub-center; negative where there is none.
        sub_classes: the sub-classes with samples, the dominant one first, then by falling number of samples.
        empty: number of the identity's sub-centers that no sample is nearest to.
    """

    identity: str
    dominant: int
    sub_classes: tuple[SubClass, ...]
    empty: int


@dataclass(frozen=True)
class Sheet:
    """A contact sheet.

    Attributes:
        heading: the images and their order in words.
        total: number of images that the sheet chooses from.
        shown: the chosen ones, in order.
    """

    heading: str
    total: int
    shown: tuple[Shot, ...]


@dataclass(frozen=True, eq=False)
class CleaningFindings:
    """All that a page about cleaning shows.

    Attributes:
        title: title of the page.
        version: version of verisphere.
        method: how the sub-centers were found, in words.
        rule: the rule in whole sentences.
        angle: the rule's angle, in degrees; None where the rule has none.
        images: number of samples.
        kept: number of samples that were kept.
        nobody: number of samples without identity.
        identities: number of identities with samples.
        sub_centers: number K of sub-centers of an identity.
        empty: number of sub-centers that no sample is nearest to.
        dropped: number of samples that each rule dropped, by the rule in words.
        lost: each lost identity with its number of samples; the identities with most samples first.
        truth: dropped against noisy samples; None if the truth is not known.
        at_angles: the samples that the angle alone drops, for each of the compared angles.
        by_images: how the loss falls on identities with few and with many samples.
        categories: the samples with an identity, by category.
        shown: a few identities in their sub-classes.
        sheets_dropped, sheets_kept: contact sheets.
        rank_1: share of the images whose nearest class is their own, with all sub-centers (`all_sub_centers`) and with
            the dominant ones alone (`dominant_only`), of all images (`all`) and of the kept ones (`kept`); None if this
            was not requested.
        people: whether the pictures may show people who exist.
        pictures: whether there are pictures.
    """

    title: str
    version: str
    method: str
    rule: str
    angle: float | None
    images: int
    kept: int
    nobody: int
    identities: int
    sub_centers: int
    empty: int
    dropped: Mapping[str, int]
    lost: Sequence[tuple[str, int]]
    truth: NoiseDropped | None
    at_angles: Sequence[AtAngle]
    by_images: Sequence[ByImages]
    categories: Sequence[Category]
    shown: Sequence[IdentityShown]
    sheets_dropped: Sequence[Sheet]
    sheets_kept: Sequence[Sheet]
    rank_1: Mapping[str, Mapping[str, float]] | None = None
    people: bool = True
    pictures: bool = False
