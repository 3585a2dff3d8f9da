"""The calibration of a gallery: thresholds with a guarantee about strangers, and the gallery that they hold for."""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from verisphere.base.provenance import UNRECORDED, UNTIED, unrecorded
from verisphere.base.vocabulary import Origin, check_word
from verisphere.base.words import NAMES, Names, counted
from verisphere.decide import STATISTICS, Far, GalleryThreshold, exact_fpir
from verisphere.files.calibration import Calibration, Source, distinct_fars, read_calibration
from verisphere.files.disk import check_file
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json, shown
from verisphere.files.results import Result
from verisphere.files.verdicts import Verdict

FORMAT = 1
KIND = "gallery"
NO_GALLERY = "this model ships no threshold for a gallery; find one with strangers who are not enrolled"
_SEAL = re.compile("[0-9a-f]{16}-[0-9a-f]{16}")


@dataclass(frozen=True)
class PromisedGallery:
    """The gallery that thresholds hold for."""

    file: str
    people: int
    photographs: int
    sha256: str  # digest of the digests of all photographs
    digests: str  # the digests of 8 bytes of the photographs, sorted, in base64
    names_rule: Names | None = None  # how names that are equal once folded were taken; None where nothing had to decide

    def __post_init__(self) -> None:
        if self.names_rule is not None:
            check_word("names_rule", self.names_rule, NAMES)
        if not 1 <= self.people <= self.photographs or len(self.known) != self.photographs:
            raise ValueError(
                f"the gallery {shown(self.file)} of {self.people} people and {self.photographs} photographs has "
                f"{len(self.known)} digests"
            )
        if hashlib.sha256(self.known.tobytes()).hexdigest() != self.sha256:
            raise ValueError(f"the digests of the gallery {shown(self.file)} are not those of its sha256")

    @classmethod
    def of(
        cls, file: str, people: int, digests: Int64[np.ndarray, " photographs"], names_rule: Names | None = None
    ) -> "PromisedGallery":
        """The gallery with these digests of photographs."""
        known = np.sort(digests).astype("<i8").tobytes()
        digest, in_base64 = hashlib.sha256(known).hexdigest(), base64.b64encode(known).decode()
        return cls(file, people, len(digests), digest, in_base64, names_rule)

    @cached_property
    def known(self) -> Int64[np.ndarray, " photographs"]:
        """The digests as numbers, sorted."""
        try:
            return np.frombuffer(base64.b64decode(self.digests, validate=True), "<i8").astype(np.int64)
        except (binascii.Error, ValueError):
            raise ValueError(f"the digests of the gallery {shown(self.file)} are not 8 bytes each in base64") from None

    def holds(self, digests: Int64[np.ndarray, " photographs"]) -> Bool[np.ndarray, " photographs"]:
        """Which photographs are among those of this gallery."""
        return np.isin(digests, self.known)

    def __str__(self) -> str:
        people, photographs = counted(self.people, "person"), counted(self.photographs, "photograph")
        return f"{people} by {photographs}, SHA-256 {self.sha256[:12]}"


@dataclass(frozen=True)
class GalleryCalibration(Result):
    """Thresholds for one gallery with their guarantees, and what they come from."""

    strangers: Source
    gallery: PromisedGallery
    origin: Origin | None
    thresholds: tuple[GalleryThreshold, ...]
    probes: Source | None = None
    cohort: Source | None = None
    cohort_rows: str = ""  # SHA-256 of the cohort's rows, one of each person
    gallery_origin: Origin | None = None
    probes_origin: Origin | None = None
    cohort_origin: Origin | None = None
    verdicts: tuple[Verdict, ...] = ()
    implausible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fpirs([found.fpir_target for found in self.thresholds], "confident")
        if len({(found.statistic, found.guarantee, found.people) for found in self.thresholds}) > 1:
            raise ValueError("the thresholds are of several statistics, guarantees or galleries")
        if not (STATISTICS[self.statistic].cohort is None) == (self.cohort is None) == (not self.cohort_rows):
            cohort = "no cohort" if self.cohort is None else f"the cohort {shown(self.cohort.file)}"
            raise ValueError(f"the rule {self.statistic!r} does not fit {cohort} with the rows {self.cohort_rows!r}")
        self._check_verdicts()
        for found in self.thresholds:
            counts = found.people, found.strangers + found.review.removed, found.review.reviewed
            if counts != (self.gallery.people, self.strangers.people, len(self.verdicts)):
                raise ValueError(
                    f"the threshold at FPIR {found.fpir_target} is of {counts[0]} people, {counts[1]} strangers and "
                    f"{counts[2]} verdicts, the calibration of {self.gallery.people}, {self.strangers.people} and "
                    f"{len(self.verdicts)}"
                )
            if bool(found.implausible) != bool(self.implausible):
                raise ValueError(
                    f"the calibration and its threshold at FPIR {found.fpir_target} differ in `implausible`"
                )

    def _check_verdicts(self) -> None:
        """Refuse verdicts about unknown photographs, two of one pair, and others than removed so many strangers."""
        seals = [verdict.seal for verdict in self.verdicts]
        if odd := [seal for seal in seals if not _SEAL.fullmatch(seal) or seals.count(seal) > 1]:
            raise ValueError(
                f"a verdict names its photographs by {shown(odd[0])}, which is no pair, or has two verdicts"
            )
        same = len({verdict.seal.partition("-")[0] for verdict in self.verdicts if verdict.word == "same"})
        if wrong := [found for found in self.thresholds if found.review.removed != same]:
            raise ValueError(f"{wrong[0].review.removed} strangers were removed, but the verdicts remove {same}")

    @property
    def origins(self) -> dict[str, Origin | None]:
        """How each side that it was found with was embedded, by the name of the side."""
        known: dict[str, Origin | None] = {"strangers": self.origin, "gallery": self.gallery_origin}
        known |= {} if self.probes is None else {"probes": self.probes_origin}
        return known | ({} if self.cohort is None else {"cohort": self.cohort_origin})

    @property
    def doubts(self) -> tuple[str, ...]:
        """What weakens it because a side does not say how it was embedded, a clause each; empty where all do."""
        untold = [side for side, origin in self.origins.items() if origin is None]
        old = [side for side, origin in self.origins.items() if unrecorded(origin)]
        trust = (
            f"nothing says which model made the {' and the '.join(untold)} that the threshold was found with: that it "
            "was that of the strangers is taken on trust"
        )
        doubts = [UNTIED if self.origin is None else trust] if untold else []
        return *doubts, *([f"embeddings of its {' and its '.join(old)} were {UNRECORDED}"] if old else [])

    @property
    def weak(self) -> tuple[str, ...]:
        """Everything that weakens its promise, the gravest first, a clause each; empty for nothing."""
        return tuple(filter(None, (self.thresholds[0].warning(), *self.doubts)))

    @property
    def statistic(self) -> str:
        """Name of the statistic by which a probe is decided."""
        return self.thresholds[0].statistic

    def threshold(self, fpir: Far | None = None) -> GalleryThreshold:
        """The threshold at an FPIR, or the only one."""
        there = ", ".join(found.fpir_target for found in self.thresholds)
        if fpir is None:
            if len(self.thresholds) > 1:
                raise ValueError(f"there are thresholds at FPIR {there}; name one of them")
            return self.thresholds[0]
        for found in self.thresholds:
            if exact_fpir(found.fpir_target) == exact_fpir(fpir):
                return found
        raise ValueError(f"there is no threshold at FPIR {fpir}; there is: {there}")

    def __str__(self) -> str:
        """Each threshold with its promise, as it is said to people; `meaning` has the exact wording."""
        return "\n".join(map(str, self.thresholds))

    def meaning(self) -> str:
        """The guarantee of each threshold and its rate of misses, a line for each sentence."""
        return "\n".join(line for found in self.thresholds for line in (found.meaning(), found.misses()))

    def fields(self) -> dict[str, Any]:
        """The values of the JSON that `read_gallery_calibration` reads, with the meaning of each threshold."""
        thresholds = [{**asdict(found), "meaning": found.meaning()} for found in self.thresholds]
        return {"kind": KIND, "format": FORMAT, **vars(self), "thresholds": thresholds}

    def why_not(self, people: int, digests: Int64[np.ndarray, " photographs"]) -> str:
        """Why the guarantee does not cover a gallery of so many people with these digests; empty where it does.

        Where no statistic of a probe can rise when somebody leaves, it covers any part of the gallery.
        """
        held = self.gallery.holds(digests)
        if (held.all() and STATISTICS[self.statistic].monotone) or np.array_equal(np.sort(digests), self.gallery.known):
            return ""
        other = PromisedGallery.of("", people, digests)
        new = (
            f"{int((~held).sum()):,} of these are not in it"
            if not held.all()
            else "some of its photographs have left, or are there twice"
        )
        rule = f", and by the rule {self.statistic!r} a probe's number may rise then" if held.all() else ""
        if not held.any():
            rule = " (a folder or archive is known by its photographs, and an embeddings file by its rows)"
        return f"the threshold is promised for {self.gallery}; this gallery has {other}: {new}{rule}"

    def part(self, people: int, digests: Int64[np.ndarray, " photographs"]) -> str:
        """That a gallery which the guarantee covers is a part of the one promised for; empty where it is the whole."""
        left = len(np.unique(digests))
        if left == len(np.unique(self.gallery.known)) or not self.gallery.holds(digests).all():
            return ""
        return (
            f"this is a part of the gallery that the threshold is promised for ({people:,} of {self.gallery.people:,} "
            f"people, {left:,} of {self.gallery.photographs:,} photographs): the promise covers it"
            f"{', and the share of misses was measured on the whole' if self.thresholds[0].identified else ''}"
        )


def check_fpirs(fpirs: Sequence[Far], guarantee: str, option: str = "") -> None:
    """Refuse target FPIRs that cannot be calibrated together, or a guarantee that no gallery has."""
    check_word(f"{option}guarantee of a gallery", guarantee, ("confident", "expected"))
    try:
        distinct_fars(fpirs)
    except ValueError as error:
        raise ValueError(f"{option}fpir: {str(error).replace('a FAR', 'an FPIR').replace('FAR', 'FPIR')}") from None


def read_thresholds(path: Path) -> Calibration | GalleryCalibration:
    """A calibration of either kind: of a gallery, or for two photographs."""
    with suppress(ValueError):  # the reader says what is wrong
        check_file(path)
        document = read_json_file(path)
        if isinstance(document, dict) and document.get("kind") == KIND:
            return read_gallery_calibration(path)
    return read_calibration(path)


def read_gallery_calibration(path: Path) -> GalleryCalibration:
    """Reads a file of `GalleryCalibration.write_json`, with all checks."""
    check_file(path)
    try:
        document = read_json_file(path)
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise ValueError(f"no object of kind {KIND!r}; thresholds for two photographs have no gallery")
        if document.get("format") != FORMAT:
            raise ValueError(f"format {shown(document.get('format'))}, and this version reads format {FORMAT}")
        return from_json(GalleryCalibration, document)
    except ValueError as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"{path}: not a calibration as `verisphere calibrate --gallery` writes it: {reason}") from None
