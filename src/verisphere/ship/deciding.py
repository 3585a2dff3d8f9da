"""Who of a gallery is found: by the threshold of this gallery, or by one that was promised for two photographs."""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32

from verisphere.base.vocabulary import Origin, Progress, quietly
from verisphere.base.words import counted, of_things, share
from verisphere.decide import Far, GalleryThreshold, exact_rate, lower_median
from verisphere.decide.statistics import CANDIDATES
from verisphere.files.embeddings import read_known_people, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import NO_GALLERY, GalleryCalibration, read_gallery_calibration
from verisphere.files.gallery_store import is_gallery
from verisphere.files.json_values import shown
from verisphere.models.folder import Model
from verisphere.models.gallery import Cohort, Gallery, check_cohort
from verisphere.ship.catalogue import AnyThreshold, BorrowedThreshold, PairThreshold
from verisphere.ship.living.gallery import LivingGallery
from verisphere.ship.model_file import ModelFile, pair_threshold
from verisphere.ship.notes import sealed_origin
from verisphere.ship.opened_gallery import OpenedGallery
from verisphere.ship.people import scores_between

#: A stranger who may be found with more than this chance is too many, unless it is accepted.
MOST_STRANGERS = 0.1


@dataclass(frozen=True)
class Match:
    """A person of the gallery, with the score and the number of comparisons, or of photographs, that pass."""

    name: str
    score: float
    passed: int
    comparisons: int


@dataclass(frozen=True, eq=False)
class ByPair:
    """By a threshold for two photographs: of all comparisons with a person's photographs more than half must pass."""

    threshold: PairThreshold
    gallery: Gallery

    def whole(self, rows: Float32[np.ndarray, "photographs dim"]) -> list[Match]:
        """Every person of the gallery with the lower median of the scores, best first."""
        order = np.argsort(self.gallery.person, kind="stable")
        rows_of_gallery = self.gallery.enrolled.embeddings[order]
        scores = scores_between(rows, rows_of_gallery)  # (photographs, gallery), columns grouped by person
        borders = np.cumsum(np.bincount(self.gallery.person))[:-1]
        limit = self.threshold.threshold
        matches = [
            Match(str(name), lower_median(columns.flatten()), int((columns > limit).sum()), columns.size)
            for name, columns in zip(self.gallery.people, np.split(scores, borders, axis=1), strict=True)
        ]
        return sorted(matches, key=lambda match: -match.score)

    def each(self, rows: Float32[np.ndarray, "probes dim"], progress: Progress) -> list[list[Match]]:
        """The people whom each photograph may show, best first."""
        return [self.whole(row[None]) for row in progress(rows, "searching the gallery", len(rows))]


@dataclass(frozen=True, eq=False)
class ByGallery:
    """By the threshold of this gallery: a person is found iff more than half of a probe's photographs meet it.

    By Markov's inequality several photographs of a stranger are found at most twice as often as one.
    """

    threshold: GalleryThreshold
    gallery: Gallery | LivingGallery
    cohort: Cohort | None = None

    def whole(self, rows: Float32[np.ndarray, "photographs dim"]) -> list[Match]:
        """The people whom more than half of the photographs name, with the lower median of what decides, best first."""
        each = self._each(rows, quietly, len(self.gallery.people))
        values: dict[str, list[float]] = {}
        for matches in each:
            for match in matches:
                values.setdefault(match.name, []).append(match.score)
        named = {name: np.array(found) for name, found in values.items() if 2 * len(found) > len(each)}
        whole = [self._match(name, found, len(each)) for name, found in named.items()]
        return sorted(whole, key=lambda match: -match.score)

    def each(self, rows: Float32[np.ndarray, "probes dim"], progress: Progress) -> list[list[Match]]:
        """The people whom each photograph may show, best first; not more of them than `CANDIDATES`."""
        return self._each(rows, progress, CANDIDATES)

    def _each(self, rows: Float32[np.ndarray, "probes dim"], progress: Progress, candidates: int) -> list[list[Match]]:
        searched = self.gallery.search(rows, self.threshold.statistic, self.cohort, candidates, progress)
        return [
            sorted(
                (
                    self._match(str(self.gallery.people[person]), np.array([value]), 1)
                    for person, value in zip(persons.tolist(), values.tolist(), strict=True)
                    if np.isfinite(value)
                ),
                key=lambda match: -match.score,
            )
            for persons, values in zip(searched.persons, searched.values, strict=True)
        ]

    def _match(self, name: str, values: np.ndarray, photographs: int) -> Match:
        """A person with the values by which some of the photographs name it; by the others it is not named."""
        everything = np.concatenate([values, np.full(photographs - len(values), -np.inf)])
        passed = int((values > self.threshold.threshold).sum())
        return Match(name, lower_median(everything), passed, photographs)


Deciding: TypeAlias = ByPair | ByGallery


@dataclass(frozen=True)
class Choice:
    """The threshold that is to decide in a gallery, and what is accepted of it.

    The threshold of this gallery decides, of `calibration` or of the model folder. Where there is none, or a `far` asks
    for it, one that was promised for two photographs does: a person passes by the rule of `verify`.

    Attributes:
        accept_pair_threshold: accept a threshold for two photographs by which a stranger may be found with a chance of
            more than a tenth.
    """

    far: Far | None = None
    fpir: Far | None = None
    calibration: Path | None = None
    cohort: Path | None = None
    accept_drawn: bool = False
    accept_pair_threshold: bool = False


@dataclass(frozen=True, eq=False)
class Promise:
    """The threshold that decides, and the file of its calibration with the origin and the gallery that it records.

    Beside the threshold of a gallery, the model may ship one for two photographs that could decide (`or_pairs`).
    """

    threshold: AnyThreshold
    file: Path
    origin: Origin | None
    calibration: GalleryCalibration | None = None
    or_pairs: bool = False
    living: LivingGallery | None = None

    @classmethod
    def of(cls, model: Model, choice: Choice, gallery: Path) -> "Promise":
        """The promise that is asked for, that a model ships, or that a living gallery keeps itself."""
        far, fpir, calibration = choice.far, choice.fpir, choice.calibration
        if is_gallery(gallery):
            if not (far is fpir is calibration is choice.cohort is None):
                raise ValueError(
                    f"{gallery}: a living gallery has one threshold, its own; omit far, fpir, calibration and cohort"
                )
            living = LivingGallery(gallery)
            return cls(living.threshold, living.path, living.origin, living=living)
        if far is not None and (fpir is not None or calibration is not None):
            raise ValueError("a FAR is that of a threshold for two photographs, an FPIR that of a gallery; omit one")
        promised = model.gallery_calibration() if calibration is None else read_gallery_calibration(calibration)
        if promised is None or far is not None:
            if fpir is not None:
                raise ValueError(f"{model.folder}: the model ships no threshold for a gallery, so none at an FPIR")
            if far is None and not model.thresholds and not isinstance(model, ModelFile):
                raise ValueError(
                    f"{model.folder}: {NO_GALLERY} (verisphere calibrate STRANGERS --gallery GALLERY --fpir 1e-2 --out "
                    "FILE), and name it by --calibration (calibration=)"
                )
            return cls(pair_threshold(model, None if far is None else str(far)), *sealed_origin(model))
        file = model.gallery_file if calibration is None else calibration
        with errors_naming(file):
            or_pairs = calibration is None and bool(model.thresholds)
            return cls(promised.threshold(fpir), file, promised.origin, promised, or_pairs)

    def refuse_people(self, gallery: Path, people: int, several: bool, accept: bool) -> str:
        """The note on the chance with which a threshold for two photographs finds a stranger; refused above a tenth.

        With several photographs of the probe or of a person, their median passes at most twice as often as one score.
        """
        if isinstance(self.threshold, GalleryThreshold):
            return ""
        rate = float(exact_rate(self.threshold.far_target))
        chance = min(1.0, (2 if several else 1) * people * rate)
        pairs, whose = of_things(share(rate, "upper"), "pairs of strangers"), "pass"
        if isinstance(self.threshold, BorrowedThreshold):
            whose = f"of {self.threshold.measured_on} pass, and of yours perhaps more"
        fact = (
            f"the threshold is for two photographs ({pairs} {whose}), so "
            f"among {counted(people, 'person')} a stranger is found with a chance of up to {share(chance, 'upper')}"
            + ("; nobody is unsure here, for the promised FAR's threshold alone decides" if self.threshold.frr else "")
        )
        if chance > MOST_STRANGERS and not accept:
            raise ValueError(
                f"{gallery}: {fact}; calibrate one for this gallery (verisphere calibrate STRANGERS --gallery {gallery}"
                " --fpir 1e-2 --out FILE), or say --accept-pair-threshold (accept_pair_threshold=True)"
            )
        return fact

    def check_probes(self, pooled: bool) -> None:
        """Refuse probes that are templates where the strangers are photographs, or the other way about."""
        if self.calibration is not None:
            self.calibration.strangers.check_probes(self.file, pooled)

    def within(self, opened: OpenedGallery, cohort: Path | None = None) -> Deciding:
        """What decides in a gallery, which must be one that the promise is about, with the cohort that it names."""
        if self.calibration is None or not isinstance(self.threshold, GalleryThreshold):
            if cohort is not None:
                raise ValueError(f"{cohort}: no calibration of a gallery asks for a cohort; omit it")
            assert not isinstance(self.threshold, GalleryThreshold)
            return ByPair(self.threshold, opened.gallery)
        refused = self.calibration.why_not(len(opened.gallery.people), opened.gallery.digests)
        if refused:
            otherwise = ", or name a --far (far=) to decide by a threshold for two photographs" if self.or_pairs else ""
            raise ValueError(
                f"{opened.path}: {refused}; calibrate again for this gallery (verisphere calibrate STRANGERS --gallery "
                f"{opened.path} --again {self.file} --out FILE){otherwise}"
            )
        normal = self._cohort(self.calibration, cohort, opened)
        opened.gallery.check(self.calibration.statistic, normal)
        return ByGallery(self.threshold, opened.gallery, normal)

    def _cohort(self, promised: GalleryCalibration, cohort: Path | None, opened: OpenedGallery) -> Cohort | None:
        if promised.cohort is None:
            if cohort is not None:
                raise ValueError(f"{cohort}: {self.file} asks for no cohort; omit it")
            return None
        if cohort is None:
            named = shown(promised.cohort.file)
            raise ValueError(f"{self.file}: scores are normalised by the cohort {named}; name it by --cohort (cohort=)")
        found = Cohort.of(same_people((opened.path, opened.enrolled), (cohort, read_known_people(cohort)))[1])
        with errors_naming(cohort):
            check_cohort(promised, found)
        return found
