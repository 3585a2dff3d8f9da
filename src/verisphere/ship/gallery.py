"""Thresholds of a gallery with a guarantee about strangers who are not enrolled."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from verisphere.base.provenance import check_recorded
from verisphere.base.vocabulary import Embeddings, Origin, Progress, quietly
from verisphere.decide import (
    STATISTICS,
    Far,
    FoundRate,
    GalleryThreshold,
    Guarantee,
    Review,
    gallery_threshold,
    one_probe_each,
)
from verisphere.decide.statistics import NEAREST
from verisphere.files.embeddings import read_known_people, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.json_values import shown
from verisphere.files.sharded import digest_of_embeddings
from verisphere.files.verdicts import Suspicious, Verdict, resolved
from verisphere.measure.protocols.plausible import implausible_set, implausible_sides
from verisphere.measure.sides import check_alike, check_sides
from verisphere.models.gallery import Cohort, Gallery, Searched, half_seals
from verisphere.ship.calibrate import digest_of_rows
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import (
    NOTHING,
    Accepted,
    note_templates,
    refuse_implausible,
    refuse_training_people,
)
from verisphere.ship.opened_gallery import OpenedGallery

log = logging.getLogger(__name__)


class StrangersInGallery:
    """One photograph of each of many strangers, searched in a gallery in which none of them is enrolled.

    The statistic (`verisphere.decide.statistics`) decides a probe; some need a cohort of people who are neither
    enrolled nor strangers. Probes are further photographs of enrolled people, to measure TPIR on. The seed is that of
    the draw of a photograph of each stranger: choosing among several breaks the guarantee.

    Refused are a stranger who is enrolled by name, files made by different models or in different ways, and, unless
    accepted, strangers whom the model was trained on, and implausible scores.
    """

    def __init__(
        self,
        strangers: EmbeddingsSet,
        gallery: OpenedGallery,
        *,
        statistic: str = "best",
        cohort: EmbeddingsSet | None = None,
        probes: EmbeddingsSet | None = None,
        seed: int = 0,
        accepted: Accepted = NOTHING,
        progress: Progress = quietly,
    ) -> None:
        self.statistic, self.seed = statistic, seed
        there = [one for one in (strangers, cohort, probes) if one is not None]
        of_gallery = gallery.path, gallery.enrolled.embeddings.shape[1], gallery.enrolled.origin
        sets = [of_gallery, *((one.name, one.dim, one.origin) for one in there)]
        for name, _, origin in sets:
            check_recorded(name, origin, accepted.unrecorded_pixels)
        for first, second in combinations(sets, 2):  # each with each: the gallery may not record what two others do
            check_alike(*first, *second)
        enrolled, *spelled = same_people(
            (gallery.path, gallery.enrolled), *((one.name, one.embeddings) for one in there)
        )
        self.gallery = gallery.spelled(enrolled)
        rest = iter([one.with_rows(rows) for one, rows in zip(there, spelled, strict=True)])
        self.strangers = next(rest)
        self.cohort, self.probes = (None if one is None else next(rest) for one in (cohort, probes))
        _refuse_shared(self.strangers, gallery.path, enrolled, "strangers are people who are not enrolled")
        if not accepted.training_people:
            refuse_training_people(self.strangers.embeddings, strangers.name)
        for path, rows in ((gallery.path, enrolled), (strangers.name, self.strangers.embeddings)):
            if self.cohort is not None:
                _refuse_shared(self.cohort, path, rows, "people of a cohort are neither enrolled nor strangers")
        note_templates(self.strangers.source)
        self._normal = None if self.cohort is None else Cohort.of(self.cohort.embeddings)
        self.gallery.gallery.check(statistic, self._normal)
        if self._normal is not None and len(self._normal.rows) < (STATISTICS[statistic].cohort or 0):
            smaller = f"{len(self._normal.rows)} people, fewer than the nearest {NEAREST} that count"
            log.warning("the cohort has %s: all do, so rule %s is the same as s", smaller, statistic)
        reasons = [] if self.probes is None else _check_probes(self.probes, self.gallery, accepted.implausible)
        reasons += refuse_implausible(gallery.path, implausible_set(enrolled), accepted.implausible)
        for one in filter(None, (self.strangers, self.cohort)):
            reasons += refuse_implausible(one.name, one.implausible(), accepted.implausible)
        self.implausible = tuple(reasons)
        person = np.unique(self.strangers.embeddings.identities, return_inverse=True)[1].astype(np.int64)
        self.drawn = self.strangers.embeddings.take(one_probe_each(person, seed))
        self.searched = self._search(self.drawn, progress)
        self._mated = None if self.probes is None else self._search(self.probes.embeddings, progress)

    def calibration(
        self,
        fpirs: Sequence[Far],
        guarantee: Guarantee = "confident",
        verdicts: Sequence[Verdict] = (),
        unfound: int = 0,
        wrong: int = 0,
    ) -> GalleryCalibration:
        """Thresholds at target FPIRs, all different, without strangers whom verdicts found to be the same person.

        So many strangers may be enrolled under another name `unfound`, and so many verdicts `same` be `wrong`.
        """
        removed = self._removed(verdicts)
        review = Review(len(verdicts), int(removed.sum()), unfound, wrong)
        left = self.searched.statistic[~removed]
        people = len(self.gallery.gallery.people)
        origin, source = self._origin(), self.strangers.source

        def at(fpir: Far) -> GalleryThreshold:
            found = gallery_threshold(
                left, fpir, guarantee, people=people, statistic=self.statistic, review=review, seed=self.seed
            )
            return replace(
                found,
                calibrated_on=None if origin is None else origin.source,
                identified=self._identified(found.threshold),
                in_training=source.in_training or None,
                implausible=f"scores cannot be right: {self.implausible[0]}" if self.implausible else "",
            )

        with errors_naming(self.strangers.name):
            thresholds = tuple(map(at, fpirs))
        return GalleryCalibration(
            strangers=source,
            gallery=self.gallery.promised(),
            origin=origin,
            thresholds=thresholds,
            probes=None if self.probes is None else self.probes.source,
            cohort=None if self.cohort is None else self.cohort.source,
            gallery_origin=self.gallery.enrolled.origin,
            probes_origin=None if self.probes is None else self.probes.origin,
            cohort_origin=None if self.cohort is None else self.cohort.origin,
            cohort_rows="" if self._normal is None else self._normal.sha256,
            verdicts=tuple(verdicts),
            implausible=self.implausible,
        )

    def again(self, before: GalleryCalibration, verdicts: Sequence[Verdict] = ()) -> GalleryCalibration:
        """The thresholds of a calibration before the gallery changed, for this gallery.

        A stranger who was removed counts again where the photograph that showed the same person has left the gallery,
        or is another one now: without it the verdict says nothing, and its score chose it.
        """
        first, strangers = before.thresholds[0], self.strangers.source.names_rule
        for name, now, then in (
            (self.strangers.name, strangers, before.strangers.names_rule),
            (self.gallery.path.name, self.gallery.names_rule, before.gallery.names_rule),
        ):
            if then not in (None, now):
                raise ValueError(
                    f"{name}: the calibration before took its names by the rule {then!r}; repeat it with --names "
                    f"{then}, or make it anew"
                )
        known = {verdict.seal for verdict in verdicts}
        kept = [one for one in before.verdicts if one.seal not in known and self._rows(one.seal) is not None]
        fpirs = [found.fpir_target for found in before.thresholds]
        return self.calibration(fpirs, first.guarantee, [*kept, *verdicts], first.review.unfound, first.review.wrong)

    def suspicious(self, count: int, verdicts: Sequence[Verdict] = ()) -> list[Suspicious]:
        """The strangers whose statistic is highest, each with the photograph that it is nearest to."""
        known, removed = {verdict.seal for verdict in verdicts}, self._removed(verdicts)
        pairs, nearest = list[Suspicious](), self.searched.photograph
        for row in np.argsort(-self.searched.statistic, kind="stable").tolist():
            pair = self._pair(row, int(nearest[row]))
            if pair.seal not in known and not removed[row]:
                pairs.append(pair)
            if len(pairs) == count:
                break
        return pairs

    def reviewed(self, verdicts: Sequence[Verdict]) -> list[Suspicious]:
        """Pairs that were looked at before, with their verdicts."""
        rows = [self._rows(verdict.seal) for verdict in verdicts]
        pairs = [(self._pair(*pair), verdict) for pair, verdict in zip(rows, verdicts, strict=True) if pair is not None]
        return [replace(pair, verdict=verdict.word) for pair, verdict in pairs]

    def resolved(self, verdicts: Sequence[Verdict], path: Path) -> tuple[Verdict, ...]:
        """Verdicts of a file with the names of photographs as the embeddings have them."""

        def pair_of(seal: str) -> Suspicious | None:
            rows = self._rows(seal)
            return None if rows is None else self._pair(*rows)

        return resolved(verdicts, path, pair_of, "one file of strangers with one seed, and of one gallery")

    @cached_property
    def _halves(self) -> tuple[list[str], list[str]]:
        """The half of a seal of each stranger, and of each enrolled photograph."""
        return half_seals(Gallery(self.drawn)), half_seals(self.gallery.gallery)

    @cached_property
    def _places(self) -> list[dict[str, int]]:
        return [{half: row for row, half in enumerate(side)} for side in self._halves]

    def _rows(self, seal: str) -> tuple[int, int] | None:
        """The rows of a pair; None if one of its photographs is not compared here."""
        stranger, _, enrolled = seal.partition("-")
        found = self._places[0].get(stranger), self._places[1].get(enrolled)
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    def _pair(self, row: int, other: int) -> Suspicious:
        enrolled = self.gallery.enrolled
        seal = f"{self._halves[0][row]}-{self._halves[1][other]}"
        names = str(self.drawn.names[row]), str(enrolled.names[other])
        people = str(self.drawn.identities[row]), str(enrolled.identities[other])
        return Suspicious(*names, *people, float(self.searched.statistic[row]), seal)

    def _removed(self, verdicts: Sequence[Verdict]) -> np.ndarray:
        removed = np.zeros(len(self.drawn), bool)
        rows = [self._rows(verdict.seal) for verdict in verdicts if verdict.word == "same"]
        removed[[pair[0] for pair in rows if pair is not None]] = True
        return removed

    def _origin(self) -> Origin | None:
        """The origin of the strangers, with the alignment of the gallery where their own is not recorded."""
        own, other = self.drawn.origin, self.gallery.enrolled.origin
        if own is None or other is None or own.alignment is not None:
            return own
        return replace(own, alignment=other.alignment)

    def _search(self, probes: Embeddings, progress: Progress) -> Searched:
        return self.gallery.gallery.search(probes.embeddings, self.statistic, self._normal, progress=progress)

    def _identified(self, threshold: float) -> FoundRate | None:
        if self.probes is None or self._mated is None:
            return None
        right = self.gallery.gallery.people[self._mated.person] == self.probes.embeddings.identities
        found = int((right & (self._mated.statistic > threshold)).sum())
        source = self.probes.source
        return FoundRate.of(source.file, found, len(right), source.in_training or None)


def _check_probes(probes: EmbeddingsSet, gallery: OpenedGallery, accepted: bool) -> list[str]:
    """Refuse probes of nobody who is enrolled, or that cannot be right; return why these cannot, if accepted."""
    name, rows, enrolled = probes.name, probes.embeddings, gallery.enrolled
    check_sides(Path(name), rows, gallery.path, enrolled)
    strange = ~np.isin(rows.identities, enrolled.identities)
    if strange.any():
        raise ValueError(
            f"{name}: {strange.sum():,} of its {len(rows):,} rows show nobody who is enrolled, such as "
            f"{shown(str(rows.identities[strange.argmax()]))}; probes are further photographs of enrolled people"
        )
    if shared := probes.source.in_training:
        log.warning("%s: %s, so TPIR is that of photographs or people whom the model knows", name, shared.found())
    reasons = implausible_sides(rows, enrolled, (probes.source.file, gallery.path.name))
    refuse_implausible(f"{name} and {gallery.path}", reasons, accepted)
    return [f"{probes.source.file} and {gallery.path.name}: {reason}" for reason in reasons]


def _refuse_shared(one: EmbeddingsSet, other: str | Path, rows: Embeddings, rule: str) -> None:
    """Refuse a set with people who are in another set too."""
    people = np.intersect1d(one.embeddings.identities, rows.identities).tolist()
    if people:
        both = f"{len(people):,} of its people are in {other} too, such as {shown(people[0])}"
        raise ValueError(f"{one.name}: {both}; {rule}")


def refuse_changed(before: GalleryCalibration, file: Path, strangers: Path, cohort: Path | None) -> None:
    """Refuse to repeat a calibration with other strangers, or another cohort."""
    sources = (("strangers", strangers, before.strangers), ("cohort", cohort, before.cohort))
    for what, path, source in sources:
        if source is None:
            continue
        if path is None:
            raise ValueError(f"{file}: its rule needs the {what} {shown(source.file)}; name this file by --{what}")
        if source.sha256 not in (digest_of_embeddings(path), digest_of_rows(read_known_people(path))):
            raise ValueError(
                f"{path}: not the {what} of {file.name}, {shown(source.file)}, by its SHA-256; a calibration "
                "is repeated with the same people, or made anew without --again"
            )
