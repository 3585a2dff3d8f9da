"""From embeddings files to 1:N figures: probes searched in galleries, as tables, JSON, candidates and a picture."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.identity import among
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import (
    Embeddings,
    Precision,
    Progress,
    Rule,
    check_bounds,
    check_rate,
    printable,
    quietly,
)
from verisphere.base.words import FPIRS, RANKS, FeatureNorm, check_at_least, check_titles
from verisphere.decide import FoundRate, binomial_bounds
from verisphere.decide.identification import ProbeScores, exact_fpir, identification_curve
from verisphere.decide.point import Far
from verisphere.files.disk import real_path, write_whole
from verisphere.files.embeddings import read_known_people, read_templates, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.files.sharded import title_of
from verisphere.files.streamed_rows import evaluated
from verisphere.files.tables import plain_cell
from verisphere.measure.protocols.by_image import ByImage, ranked_by_image
from verisphere.measure.protocols.identification import (
    IdentificationResult,
    identification,
    score_probes,
    split_gallery,
)
from verisphere.measure.protocols.plausible import implausible_set, implausible_sides, repeated_vectors
from verisphere.measure.sides import ONE_WAY, check_one_model, check_sides, with_distractors
from verisphere.models.gallery import Gallery
from verisphere.report.calibration_tables import tpir_text
from verisphere.report.plots import identification_plot, save_plot
from verisphere.report.tables import number, open_set_table, ranks_table, small, table
from verisphere.score.pairs import unit_rows
from verisphere.score.top_k import top_k


@dataclass(frozen=True)
class PromisedRates:
    """The rates of a promised threshold in a gallery, of non-mated probes and of probes of enrolled people.

    The bounds are exact binomial ones, which take probes as independent.
    """

    fpir_target: str
    threshold: float
    strangers_found: int
    strangers: int
    fpir: float
    fpir_lower_95: float
    fpir_upper_95: float
    identified: FoundRate
    why_not: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_rate(self.fpir, self.strangers_found, self.strangers)
        check_bounds(self.fpir, self.fpir_lower_95, self.fpir_upper_95)


def promised_rates(
    probes: Embeddings,
    gallery: Gallery,
    calibration: GalleryCalibration,
    file: str,
    progress: Progress = quietly,
) -> tuple[PromisedRates, ...]:
    """The rates at each threshold of a calibration, of mated and non-mated probes in a gallery."""
    if calibration.cohort is not None:
        raise ValueError(f"the rule {calibration.statistic!r} of the calibration needs a cohort, not taken here")
    for what, origin in (("the gallery was", gallery.enrolled.origin), ("the probes were", probes.origin)):
        for calibrated in filter(None, calibration.origins.values()):
            check_same_origin(what, origin, "the calibration", calibrated, ONE_WAY)
    calibration.strangers.check_probes("the calibration", probes.pooled_from is not None)
    searched = gallery.search(probes.embeddings, calibration.statistic, progress=progress)
    mated = np.isin(probes.identities, gallery.people)
    right = gallery.people[searched.person] == probes.identities
    known = len(gallery.people), gallery.digests
    why_not = calibration.why_not(*known)
    weak = *calibration.weak, calibration.part(*known)
    notes = tuple(note for note in weak if note)

    def at(target: str, threshold: float) -> PromisedRates:
        passing = searched.statistic > threshold
        found, total = int((passing & ~mated).sum()), int((~mated).sum())
        identified = FoundRate.of(file, int((passing & right).sum()), int(mated.sum()))
        bounds = binomial_bounds(found, total)
        return PromisedRates(target, threshold, found, total, found / total, *bounds, identified, why_not, notes)

    return tuple(at(found.fpir_target, found.threshold) for found in calibration.thresholds)


def promised_text(name: str, rates: tuple[PromisedRates, ...]) -> str:
    """The rates as a table, and why the promise is about another gallery, if it is."""
    rows = [
        [
            rate.fpir_target,
            number(rate.threshold, 6),
            f"{small(rate.fpir)} ({small(rate.fpir_lower_95)} .. {small(rate.fpir_upper_95)})",
            f"{rate.strangers_found:,} / {rate.strangers:,}",
            tpir_text(rate.identified),
            f"{rate.identified.identified:,} / {rate.identified.total:,}",
        ]
        for rate in rates
    ]
    head = ["promised FPIR", "threshold", "FPIR (95 % bounds)", "strangers found", "TPIR (95 % bounds)", "identified"]
    notes = [f"note: {printable(note)}" for note in rates[0].notes]
    notes += [f"not covered: {rates[0].why_not}"] if rates[0].why_not else []
    return "\n".join([f"{name}, at the thresholds of the calibration", *notes, table(head, rows)])


CANDIDATE_COLUMNS = ("gallery", "probe", "probe_identity", "place", "name", "identity", "score", "mate")


@dataclass(frozen=True)
class IdentificationOptions:
    """The figures that an identification evaluation computes; see `identification`.

    Attributes:
        fpirs: target FPIRs; if empty, only closed-set ranks are computed.
        open_rank: highest rank at which a mate counts in open-set points.
        top: number of images of the gallery to list for each probe.
        by_image: whether to rank also the images of the gallery instead of its people; see `ranked_by_image`.
    """

    fpirs: Sequence[Far] = FPIRS
    ranks: Sequence[int] = RANKS
    rule: Rule = "at_most"
    open_rank: int = 1
    top: int = 0
    screen: Precision = "float32"
    progress: Progress = quietly
    feature_norm: FeatureNorm = "keep"
    by_image: bool = False
    calibration: GalleryCalibration | None = None

    def __post_init__(self) -> None:
        for fpir in self.fpirs:
            exact_fpir(fpir)  # refuse a malformed rate before minutes of work, not after
        for name, ranks in (("rank", self.ranks), ("open_rank", [self.open_rank])):
            check_at_least(name, min(ranks, default=1))
        check_at_least("top", self.top, 0)


@dataclass(frozen=True)
class Split:
    """The draw of probes and galleries from one file; `strangers` is a share of the people (see `split_gallery`)."""

    enrol: int
    strangers: float
    seeds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The best images of one gallery for each probe, by falling score; rows of `enrolled` with equal scores ascend."""

    gallery: str
    probes: Embeddings
    enrolled: Embeddings
    scores: Float64[np.ndarray, "probes top"]
    rows: Int64[np.ndarray, "probes top"]

    def lines(self) -> Iterator[list[str | int]]:
        """One line for each candidate, with the columns of `CANDIDATE_COLUMNS`."""
        for probe, (scores, rows) in enumerate(zip(self.scores.tolist(), self.rows.tolist(), strict=True)):
            name, identity = str(self.probes.names[probe]), str(self.probes.identities[probe])
            for place, (score, row) in enumerate(zip(scores, rows, strict=True), 1):
                person = str(self.enrolled.identities[row])
                image = str(self.enrolled.names[row])
                yield [self.gallery, name, identity, place, image, person, repr(score), int(person == identity)]


@dataclass(frozen=True, eq=False)
class IdentificationEvaluation(Result):
    """The results of one call of `verisphere evaluate identification`."""

    result: IdentificationResult
    sources: tuple[EvaluatedFile, ...]
    options: IdentificationOptions
    split: Split | None
    scores: Mapping[str, ProbeScores]
    candidates: tuple[Candidates, ...]
    by_image: Mapping[str, ByImage]
    distractors: int = 0
    notes: tuple[str, ...] = ()
    implausible: tuple[str, ...] = ()
    promised: Mapping[str, tuple[PromisedRates, ...]] = field(default_factory=dict)

    def text(self) -> str:
        """The figures as tables."""
        galleries = self.result.galleries
        parts = [
            first_lines(self.sources, self.implausible)
            + "\n".join(
                f"{printable(name)}: {gallery.people:,} people by {gallery.images:,} images; "
                f"{gallery.mated_probes:,} mated and {gallery.nonmated_probes:,} non-mated probes"
                for name, gallery in galleries.items()
            )
        ]
        if self.options.fpirs:
            points = {name: gallery.operating_points for name, gallery in galleries.items()}
            parts.append(open_set_table(points, self.result.mean_points))
        parts += [promised_text(printable(name), rates) for name, rates in self.promised.items()]
        ranks = {name: gallery.ranks for name, gallery in galleries.items()}
        parts.append(ranks_table(ranks, self.result.mean_ranks))
        if self.by_image:
            parts.append(
                "ranks of images, not of people\n"
                + ranks_table({name: images.ranks for name, images in self.by_image.items()})
            )
        parts += [
            f"{printable(name)}: mean average precision {number(images.mean_average_precision)} over "
            f"{images.mated_total:,} mated probes"
            for name, images in self.by_image.items()
        ]
        if self.distractors:
            parts.append(
                f"{self.distractors:,} of the images are distractors: each is a person of its own, whom no probe shows"
            )
        parts += [printable(note) for note in self.notes]
        return "\n\n".join(parts)

    def fields(self) -> dict[str, Any]:
        """The figures of the JSON; those that were not requested have no key."""
        present = {
            "rule": self.options.rule,
            "sources": self.sources,
            "split": self.split,
            "galleries": self.result.galleries,
            "mean_points": self.result.mean_points,
            "mean_ranks": self.result.mean_ranks,
            "by_image": self.by_image or None,
            "distractors": self.distractors or None,
            "notes": self.notes or None,
            "implausible": self.implausible or None,
            "promised": self.promised or None,
        }
        return {name: value for name, value in present.items() if value is not None}

    def write_candidates(self, path: Path) -> None:
        """Write every probe's candidates as CSV."""

        def write(partial: Path) -> None:
            with open(partial, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(CANDIDATE_COLUMNS)
                for candidates in self.candidates:
                    writer.writerows(map(plain_cell, line) for line in candidates.lines())

        write_whole(path, write)

    def write_plot(self, path: Path) -> None:
        """Draw the CMC, and TPIR over FPIR unless only ranks were requested."""
        cmcs = {name: gallery.cmc for name, gallery in self.result.galleries.items()}
        curves = {}
        if self.options.fpirs:
            rank = self.options.open_rank
            curves = {name: identification_curve(scores, rank) for name, scores in self.scores.items()}
        save_plot(identification_plot(cmcs, curves, "identification"), path)


def gallery_titles(probes: Path, galleries: Sequence[Path], distractors: Sequence[Path]) -> list[str]:
    """The title of each gallery; a ValueError if two have one, or distractors are named a second time."""
    places = [real_path(path) for path in (probes, *galleries, *distractors)]
    for path, place in zip(distractors, places[1 + len(galleries) :], strict=True):
        if places.count(place) > 1:
            raise ValueError(f"{path}: its images are distractors, so it cannot be named a second time")
    names = [title_of(path) for path in galleries]
    check_titles("galleries", names)
    return names


def gallery_seeds(seed: int, galleries: int) -> tuple[int, ...]:
    """The seeds of so many drawn galleries, from that of the first; a ValueError if there are none."""
    check_at_least("galleries", galleries)
    return tuple(range(seed, seed + galleries))


def evaluate_galleries(
    probes: Path, galleries: Sequence[Path], options: IdentificationOptions, distractors: Sequence[Path] = ()
) -> IdentificationEvaluation:
    """Figures of a file of probes searched in one or more files of galleries.

    Each image of the distractors is enrolled in every gallery, as a separate person whom no probe shows; its identity
    is ignored.
    """
    names = gallery_titles(probes, galleries, distractors)
    shown = read_known_people(probes, options.feature_norm)
    sources = [evaluated(probes, shown)]
    others = [read_templates(path, options.feature_norm) for path in distractors]
    for path, rows in zip(distractors, others, strict=True):
        check_sides(probes, shown, path, rows, any_person=True)
    titled = [(title_of(path), rows) for path, rows in zip(distractors, others, strict=True)]
    searches = []
    unlikely = [
        f"{path.name}: {reason}"
        for path, rows in zip(distractors, others, strict=True)
        for reason in repeated_vectors(rows.embeddings, None)
    ]
    origins, of_others = {probes: shown.origin}, dict(zip(distractors, (rows.origin for rows in others), strict=True))
    for name, path in zip(names, galleries, strict=True):
        enrolled = read_known_people(path, options.feature_norm)
        origins[path] = enrolled.origin
        check_one_model(origins | of_others)
        digests = None if options.calibration is None or distractors else Gallery(enrolled).digests
        searched, enrolled = same_people((probes, shown), (path, enrolled))
        check_sides(probes, searched, path, enrolled)
        sources.append(evaluated(path, enrolled))
        unlikely += implausible_sides(searched, enrolled, (probes.name, path.name))
        with errors_naming(path):
            enrolled = with_distractors(enrolled, titled, searched.identities)
        searches.append(GallerySearch(name, f"{probes} searched in {path}", searched, enrolled, digests))
    sources += [evaluated(path, rows) for path, rows in zip(distractors, others, strict=True)]
    of_probes = sum(int(among(rows.identities, shown.identities, shown.names_rule).sum()) for rows in others)
    notes = (
        (f"{of_probes:,} distractors have the identity of a probe; they count as other people",) if of_probes else ()
    )
    result = evaluate_searches(searches, tuple(sources), options)
    reasons = tuple(dict.fromkeys(unlikely))
    return replace(result, distractors=sum(len(rows) for rows in others), notes=notes, implausible=reasons)


def evaluate_split(
    path: Path,
    options: IdentificationOptions,
    enrol: int = 1,
    strangers: float = 0.5,
    seed: int = 0,
    galleries: int = 1,
) -> IdentificationEvaluation:
    """Figures of one file, from which probes and galleries are drawn."""
    seeds = gallery_seeds(seed, galleries)
    whole = read_known_people(path, options.feature_norm)
    searches = []
    for drawn in seeds:
        shown, enrolled = split_gallery(whole, enrol, strangers, drawn)
        if not len(shown):
            raise ValueError(f"{path}: enrolling {enrol} images a person leaves no image to search with")
        searches.append(GallerySearch(f"seed {drawn}", str(path), shown, enrolled))
    source = evaluated(path, whole)
    result = evaluate_searches(searches, (source,), options, Split(enrol, strangers, seeds))
    return replace(result, implausible=implausible_set(whole))


@dataclass(frozen=True, eq=False)
class GallerySearch:
    """Probes that are searched in one gallery.

    `where` is both in words, for errors. `digests` are those of the enrolled images by their names in the file; None
    for those of `Gallery`.
    """

    gallery: str
    where: str
    probes: Embeddings
    enrolled: Embeddings
    digests: Int64[np.ndarray, " images"] | None = None


def evaluate_searches(
    searches: Sequence[GallerySearch],
    sources: tuple[EvaluatedFile, ...],
    options: IdentificationOptions,
    split: Split | None = None,
) -> IdentificationEvaluation:
    """Figures of probes searched in one or more galleries, from rows in memory."""
    galleries: dict[str, tuple[ProbeScores, int]] = {}
    candidates = []
    by_image: dict[str, ByImage] = {}
    promised: dict[str, tuple[PromisedRates, ...]] = {}
    for search in searches:
        name, where, probes, gallery = search.gallery, search.where, search.probes, search.enrolled
        if options.top > len(gallery):
            raise ValueError(f"{where}: {options.top} candidates were asked for, but there are {len(gallery)} images")
        probe_scores = score_probes(probes, gallery, options.screen, progress=options.progress)
        if not len(probe_scores.mate):
            raise ValueError(f"{where}: none of {len(probes)} probes shows a person of the gallery, so none is mated")
        if options.fpirs and not len(probe_scores.stranger):
            raise ValueError(
                f"{where}: all {len(probes)} probes show people of the gallery, so there is no FPIR; "
                "--closed-set requests ranks alone"
            )
        galleries[name] = probe_scores, len(gallery)
        if options.calibration is not None:
            if not len(probe_scores.stranger):
                raise ValueError(f"{where}: all {len(probes)} probes are enrolled, so a promised FPIR is not measured")
            file = sources[0].file if sources else "probes"
            enrolled = Gallery(gallery, search.digests)
            promised[name] = promised_rates(probes, enrolled, options.calibration, file, options.progress)
        if options.by_image:
            by_image[name] = ranked_by_image(probes, gallery, options.ranks, options.screen, options.progress)
        if options.top:
            units, rows = unit_rows(probes.embeddings), unit_rows(gallery.embeddings)
            scores, best = top_k(units, rows, options.top, options.screen, progress=options.progress)
            candidates.append(Candidates(name, probes, gallery, scores.numpy(), best.numpy()))
    return IdentificationEvaluation(
        identification(galleries, options.fpirs, options.ranks, options.rule, options.open_rank),
        sources,
        options,
        split,
        {name: scores for name, (scores, _) in galleries.items()},
        tuple(candidates),
        by_image,
        promised=promised,
    )
