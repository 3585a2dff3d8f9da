"""The catalogue: models made elsewhere that are known by the SHA-256 of their file, one YAML file a model.

An entry says what pixels the model takes, where it was found, under which licences, and which thresholds were measured
on the people of a named set. Such a threshold is no promise: the people that it is used on are others. An entry holds
neither weights nor an address, and nothing is downloaded.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from verisphere.base.vocabulary import OperatingPoint, TrainingRecord
from verisphere.base.words import of_things, share
from verisphere.decide import Far, GalleryThreshold, GuaranteedThreshold, exact_rate
from verisphere.files.definitions import build, complete
from verisphere.files.documents import read_yaml_file
from verisphere.files.errors import errors_naming
from verisphere.ship.pixels import Told

FOLDER = Path(__file__).with_name("known_models")
#: The FAR of the threshold that decides where none is named.
USUAL_FAR = "1e-3"
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class BorrowedThreshold(OperatingPoint):
    """A threshold that was measured on somebody else's people, and promises nothing: accept iff score > threshold.

    Attributes:
        people, images: number of its people and of their images, all of whose pairs were compared.
    """

    measured_on: str
    people: int
    images: int
    about: str

    calibrated_on: ClassVar[None] = None
    frr: ClassVar[None] = None

    def warning(self) -> str:
        """That the people are somebody else's, and what makes the rate yours."""
        return (
            f"measured, not promised: the threshold fits somebody else's people, the {self.people:,} of "
            f"{self.measured_on}; `verisphere calibrate` on people like yours makes it yours"
        )

    def promise(self) -> str:
        """What was measured, in one sentence for people; it stands where a promise would."""
        strangers = of_things(share(self.far), "pairs of strangers")
        fail = of_things(share(1 - self.tar), "pairs of one person")
        return f"On {self.measured_on} {strangers} pass and {fail} fail; among your people it may be more."

    def misses(self) -> str:
        """The share of comparisons of one person that are rejected, in one sentence."""
        failed = self.genuine_total - self.genuine_accepted
        return f"{failed:,} of {self.genuine_total:,} comparisons of one person are rejected, measured on the same set"

    def meaning(self, training: TrainingRecord | None = None) -> str:
        """The exact wording: the counts, the set, and where the model comes from."""
        wording = (
            f"accept iff score > {self.threshold:.6g}: without any promise, measured on {self.measured_on} "
            f"({self.people:,} people, {self.images:,} images, all pairs): {OperatingPoint.__str__(self)}; {self.about}"
        )
        return wording if training is None else f"{wording}; {training.described()}"

    def unsure(self, score: float) -> bool:
        """False: nothing lies between same and different."""
        return False


PairThreshold: TypeAlias = GuaranteedThreshold | BorrowedThreshold
AnyThreshold: TypeAlias = PairThreshold | GalleryThreshold


@dataclass(frozen=True)
class CatalogueFigures:
    """What was measured over all pairs of a named set, its images and training, and the commands that measured it."""

    measured_on: str
    aligned: str
    in_training: str
    people: int
    images: int
    points: tuple[OperatingPoint, ...]
    commands: tuple[str, ...]

    def __post_init__(self) -> None:
        pairs = self.images * (self.images - 1) // 2
        for point in self.points:
            exact_rate(point.far_target)
            if point.genuine_total + point.impostor_total != pairs:
                raise ValueError(
                    f"{point.genuine_total:,} genuine and {point.impostor_total:,} impostor pairs are not the "
                    f"{pairs:,} of {self.images:,} images"
                )
        if USUAL_FAR not in [point.far_target for point in self.points]:
            raise ValueError(f"there is no threshold at FAR {USUAL_FAR}, which decides where none is named")


@dataclass(frozen=True)
class CatalogueEntry:
    """A model made elsewhere.

    Attributes:
        sha256: digest of its file; a file with weights beside it is taken together with them.
    """

    sha256: str
    name: str
    takes: Told
    flip: bool
    source: str
    licence_of_weights: str
    licence_of_data: str
    figures: CatalogueFigures

    def __post_init__(self) -> None:
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 must be 64 hexadecimal digits in lower case, got {self.sha256[:100]!r}")

    def threshold(self, far: Far | None = None) -> BorrowedThreshold:
        """The threshold at a FAR, compared as a number; by default at 1e-3."""
        figures, asked = self.figures, USUAL_FAR if far is None else far
        for point in figures.points:
            if exact_rate(point.far_target) == exact_rate(asked):
                about = (
                    f"images aligned to {figures.aligned}; people of the training among them: {figures.in_training}; "
                    f"model {self.name}: {self.source}; licence of its weights: {self.licence_of_weights}; licence of "
                    f"its data: {self.licence_of_data}"
                )
                whose: dict[str, Any] = {"people": figures.people, "images": figures.images, **vars(point)}
                return BorrowedThreshold(measured_on=figures.measured_on, about=about, **whose)
        there = ", ".join(point.far_target for point in figures.points)
        raise ValueError(f"the catalogue has no threshold at FAR {far} of this model; there is: {there}")


def read_entry(path: Path) -> CatalogueEntry:
    """The entry in a YAML file; its fields are those of `CatalogueEntry`."""
    content = read_yaml_file(path)
    with errors_naming(path):
        return build(CatalogueEntry, complete(CatalogueEntry, content))


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Every entry by its digest."""
    return {entry.sha256: entry for entry in map(read_entry, sorted(FOLDER.glob("*.yaml")))}
