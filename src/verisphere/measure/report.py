"""From runs and embeddings files to a folder with one self-contained page, its plots, and its numbers as JSON."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import verisphere
from verisphere.decide import Far, GuaranteedThreshold, OneThreshold, exact_rate, point_at
from verisphere.decide.point import far_text
from verisphere.files.calibration import Calibration
from verisphere.files.disk import MAX_TABLE, digest, real_path
from verisphere.files.documents import LARGEST_YAML, read_text
from verisphere.files.errors import errors_naming
from verisphere.measure.report_folder import require_free, write_report
from verisphere.measure.report_samples import find_samples
from verisphere.measure.subjects import Subject, distinct_titles, read_log, subjects_of
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.models.image_sources import recorded_sources
from verisphere.protocols import PairsOfSet, all_pairs, tar_differences
from verisphere.protocols.all_pairs import interval_of_tar
from verisphere.protocols.pictures import genuine_pairs, histograms, thinned_curve
from verisphere.report.findings import ALL, Calibrated, Comparison, Contents, File, Findings, Shipped, Training
from verisphere.report.tables import number, table
from verisphere.vocabulary import (
    FARS,
    Embeddings,
    ImageSource,
    OperatingPoint,
    Origin,
    Progress,
    TrainingRecord,
    printable,
    quietly,
)

__all__ = ["ReportResult", "Subject", "make_report", "subjects_of"]


@dataclass(frozen=True)
class ReportResult:
    """A report that has been written.

    Attributes:
        page: the HTML file.
        summary: TAR of each set at the one FAR, as a table; empty where nothing was measured.
    """

    page: Path
    summary: str

    def text(self) -> str:
        """The summary, and where the page is."""
        return "\n\n".join(part for part in (self.summary, f"page: {printable(str(self.page))}") if part)


@dataclass(frozen=True)
class _How:
    """What is asked of every set."""

    targets: tuple[Far, ...]
    one_far: Far
    replicates: int
    seed: int
    progress: Progress


def make_report(
    subjects: Sequence[Subject],
    out: Path,
    *,
    fars: Sequence[Far] = FARS,
    one_far: Far = "1e-3",
    title: str | None = None,
    calibration: Calibration | None = None,
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> ReportResult:
    """Measure all pairs of each set, and write `report.html`, `figures.json` and `plots/` into a folder.

    The same input gives the same bytes: the page bears no date.

    Args:
        subjects: sets and runs, from `subjects_of` or made by hand.
        out: folder; a former report there is replaced, anything else is not.
        fars: target FARs of the operating points.
        one_far: target FAR of the one threshold, of the headline and of the sample pairs.
        title: of the page.
        calibration: thresholds to show, and to try on the sets that the same model made.
        replicates: of the bootstrap over people; its memory grows with `one_far`.
        seed: of its draws.
        progress: shown over passes and replicates.

    Raises:
        FileExistsError: `out` is there and no report.
        ValueError: no subject, or two with one title; a set without genuine or impostor pairs; a bad FAR.
    """
    titles = [subject.title for subject in subjects]
    if not subjects:
        raise ValueError("no subject: a report is about at least one run or embeddings file")
    if len(set(titles)) < len(titles):
        raise ValueError(
            f"two subjects are called {max(titles, key=titles.count)!r}; a report tells them apart by title"
        )
    how = _How(_targets(fars, one_far), one_far, replicates, seed, progress)
    require_free(out)
    measured = [(subject, subject.embeddings) for subject in subjects if subject.embeddings is not None]
    for subject, embeddings in measured:
        _require_pairs(embeddings, subject.source or subject.title)

    first = _same_images([embeddings for _, embeddings in measured])
    found: list[Findings] = []
    sweeps: list[PairsOfSet] = []
    for (subject, embeddings), reference in zip(measured, first, strict=True):
        rows = _in_order_of(measured[reference][1], embeddings)
        with errors_naming(subject.source or subject.title):
            sweep = PairsOfSet(_with_usable_domains(rows), progress)
            found.append(_measure(subject, rows, sweep, how))
        sweeps.append(sweep)
    contents = Contents(
        title=title or (f"Report: {', '.join(titles)}" if len(titles) <= 3 else f"Report on {len(titles)} sets"),
        far=far_text(one_far),
        findings=tuple(found),
        comparisons=tuple(_comparisons(found, sweeps, first, how)),
        calibrated=None if calibration is None else _calibrated(calibration, found, sweeps),
        trainings=tuple(_trainings(subjects)),
        replicates=replicates,
        seed=seed,
        version=verisphere.__version__,
    )
    return ReportResult(write_report(out, contents), _summary(found, contents.far))


def _targets(fars: Sequence[Far], one_far: Far) -> tuple[Far, ...]:
    """The target FARs, each once, the one FAR among them, falling.

    Raises:
        ValueError: a bad FAR; or at the one FAR every threshold is infinite, or no impostor may pass.
    """
    if not 0 < exact_rate(one_far) < 1:
        raise ValueError(f"the FAR of the one threshold must lie above 0 and below 1, got {far_text(one_far)!r}")
    by_rate = {exact_rate(far): far for far in (*fars, one_far)}
    return tuple(by_rate[rate] for rate in sorted(by_rate, reverse=True))


def _require_pairs(embeddings: Embeddings, source: str) -> None:
    """Refuse a set without genuine or impostor pairs, before minutes of work on others."""
    images = np.unique(embeddings.identities, return_counts=True)[1]
    if len(images) == 1:
        raise ValueError(f"{source}: all {len(embeddings)} images are of one person, so there is no impostor pair")
    if images.max() == 1:
        raise ValueError(f"{source}: no two of {len(embeddings)} images are of one person, so there is no genuine pair")


# --- sets of the same images ---


def _same_images(sets: Sequence[Embeddings]) -> list[int]:
    """For each set the number of the first one that holds the same images of the same people."""
    keys = []
    for one in sets:
        lines = sorted(f"{name}\t{person}\n" for name, person in zip(one.names, one.identities, strict=True))
        keys.append(hashlib.sha256("".join(lines).encode()).digest())
    return [keys.index(key) for key in keys]


def _in_order_of(reference: Embeddings, other: Embeddings) -> Embeddings:
    """The same images in the order of the reference, which changes no figure but lets a bootstrap draw for both."""
    row = {str(name): number for number, name in enumerate(other.names)}
    rows = np.array([row[str(name)] for name in reference.names])
    return replace(
        other,
        embeddings=other.embeddings[rows],
        names=other.names[rows],
        identities=other.identities[rows],
        domains=None if other.domains is None else other.domains[rows],
    )


def _comparisons(
    found: Sequence[Findings], sweeps: Sequence[PairsOfSet], first: Sequence[int], how: _How
) -> Iterator[Comparison]:
    """Each first set against the later ones of the same images, at the one FAR and below it."""
    for ours in sorted(set(first)):
        others = [number for number, reference in enumerate(first) if reference == ours and number != ours]
        fars = [
            far
            for far, point in zip(how.targets, found[ours].points, strict=True)
            if not point.below_resolution and exact_rate(far) <= exact_rate(how.one_far)
        ]
        if not (others and fars):
            continue
        intervals = tar_differences(
            sweeps[ours], [sweeps[number] for number in others], fars, how.replicates, how.seed, how.progress
        )
        for other, row in zip(others, intervals, strict=True):
            for far, interval in zip(fars, row, strict=True):
                yield Comparison(found[ours].title, found[other].title, far_text(far), interval)


# --- one set ---


def _with_usable_domains(embeddings: Embeddings) -> Embeddings:
    """Without domains, where none of them has both genuine and impostor pairs."""
    if embeddings.domains is None:
        return embeddings
    groups = [embeddings.identities[embeddings.domains == name] for name in np.unique(embeddings.domains)]
    people = [len(np.unique(group)) for group in groups]
    usable = any(1 < count < len(group) for count, group in zip(people, groups, strict=True))
    return embeddings if usable else replace(embeddings, domains=None)


def _measure(subject: Subject, embeddings: Embeddings, sweep: PairsOfSet, how: _How) -> Findings:
    """What all pairs of a set show."""
    result = all_pairs(sweep, how.targets, skip_empty=True, progress=how.progress)
    place = [exact_rate(far) for far in how.targets].index(exact_rate(how.one_far))
    headline = result.operating_points[place]
    one: OneThreshold | None = None if result.one_threshold is None else result.one_threshold[place]
    no_domains = (
        "the embeddings name no domains (cameras, places, ...), so there is nothing to compare at one threshold."
        if embeddings.domains is None
        else "none of the domains has both genuine and impostor pairs."
    )
    genuine = genuine_pairs(sweep)
    histogram, by_domain = histograms(sweep, genuine)
    interval = None
    if not headline.below_resolution:
        interval = interval_of_tar(sweep, how.one_far, how.replicates, how.seed)
    return Findings(
        title=subject.title,
        file=_file(subject),
        images=len(embeddings),
        people=len(sweep.people),
        size=embeddings.embeddings.shape[1],
        origin=embeddings.origin,
        model=_model(embeddings.origin, subject.run),
        points=result.operating_points,
        headline=headline,
        interval=interval,
        one=one,
        without_domains="" if one is not None else no_domains,
        curve=thinned_curve(sweep),
        histogram=histogram,
        by_domain=by_domain,
        samples=find_samples(subject, embeddings, sweep, genuine, headline.threshold),
    )


def _file(subject: Subject) -> File:
    there = subject.source != "" and Path(subject.source).is_file()
    return File(subject.source or subject.title, digest(Path(subject.source)) if there else None)


def _model(origin: Origin | None, run: Path | None) -> str:
    """What made a set, in words."""
    if origin is None:
        return "the embeddings file does not say which model made it."
    how = f"{origin.precision}{', the mirror image added' if origin.flip else ''}, on images of {origin.images}"
    words = f"made by the network with the weights of SHA-256 {origin.model}, in {how}."
    checkpoints = [] if run is None else list_checkpoints(run)
    if not checkpoints:
        return words
    weights = [path / "backbone.safetensors" for path in checkpoints]
    found = [path.parent for path in weights if path.is_file() and digest(path) == origin.model]
    if not found:
        return f"{words} None of the checkpoints that {run} keeps has these weights: was it trained further since?"
    newest = "the newest" if found[-1] == checkpoints[-1] else "not the newest, one"
    return f"{words} It is {newest} checkpoint of {run}, {found[-1].name}."


# --- thresholds and runs ---


def _calibrated(calibration: Calibration, found: Sequence[Findings], sweeps: Sequence[PairsOfSet]) -> Calibrated:
    """The thresholds of a calibration, and what they do on the sets that the same model made."""
    notes, tried = [], []
    for finding, sweep in zip(found, sweeps, strict=True):
        if calibration.origin is None:
            notes.append(f"{finding.title}: tried on trust; the calibration does not say of which model it is.")
        elif finding.origin is None:
            notes.append(f"{finding.title}: not tried; its embeddings do not say which model made them.")
            continue
        elif not calibration.origin.made_alike(finding.origin):
            notes.append(f"{finding.title}: not tried; another model made it, or the same in another way.")
            continue
        tried.append((finding, sweep))
    for _, sweep in tried:
        sweep.prepare([], [], [one.threshold for one in calibration.thresholds])
    shipped = [
        Shipped(one, {finding.title: _at(one, sweep) for finding, sweep in tried}) for one in calibration.thresholds
    ]
    source = File(calibration.source.file, calibration.source.sha256)
    own = frozenset(finding.title for finding, _ in tried if finding.file.sha256 == source.sha256)
    return Calibrated(source, tuple(shipped), own, tuple(notes))


def _at(shipped: GuaranteedThreshold, sweep: PairsOfSet) -> dict[str, OperatingPoint]:
    """What a threshold does on all pairs of a set, and within each of its domains that has pairs of both kinds."""
    pools = {ALL: (sweep.everything(genuine=True), sweep.everything(genuine=False)), **sweep.by_domain()}
    return {
        name: point_at(genuine, impostor, shipped.threshold, shipped.far_target, shipped.guarantee)
        for name, (genuine, impostor) in pools.items()
        if genuine.total and impostor.total
    }


def _trainings(subjects: Sequence[Subject]) -> Iterator[Training]:
    """The runs of the subjects, each once."""
    runs: dict[Path, Path] = {}
    for subject in subjects:
        if subject.run is not None:
            runs.setdefault(real_path(subject.run), subject.run)
    measured = {real_path(subject.run) for subject in subjects if subject.run and subject.embeddings is not None}
    for title, run in zip(distinct_titles(list(runs.values())), runs.values(), strict=True):
        paths = [run / name for name in ("recipe.yaml", "metrics.jsonl", "people.txt")]
        paths += [checkpoint / "backbone.safetensors" for checkpoint in list_checkpoints(run)[-1:]]
        people = run / "people.txt"
        count = len(read_text(people, MAX_TABLE).splitlines()) if people.is_file() else None
        sources = _sources(run)
        yield Training(
            title=title,
            folder=str(run),
            entries=read_log(run),
            recipe=read_text(run / "recipe.yaml", LARGEST_YAML),
            people=count,
            files=tuple(File(str(path), digest(path)) for path in paths if path.is_file()),
            measured=real_path(run) in measured,
            trained=TrainingRecord(people=count, sources=sources).described() if sources else "",
        )


def _sources(run: Path) -> tuple[ImageSource, ...]:
    """On what a run was trained, as far as its newest checkpoint says; a damaged one says nothing."""
    newest = list_checkpoints(run)[-1:]
    try:
        return recorded_sources(read_checkpoint(newest[0])) if newest else ()
    except (ValueError, FileNotFoundError):
        return ()


def _summary(found: Sequence[Findings], far: str) -> str:
    if not found:
        return ""
    rows = []
    for one in found:
        point, interval = one.headline, one.interval
        shown = interval is not None and math.isfinite(interval.lower_95)
        bounds = f"{number(interval.lower_95)} .. {number(interval.upper_95)}" if interval and shown else "-"
        tar = "-" if point.below_resolution else number(point.tar)
        rows.append([one.title, f"{one.images:,}", f"{one.people:,}", number(point.threshold, 6), tar, bounds])
    return table(["all pairs", "images", "people", f"threshold, FAR {far}", "TAR", "95 % over people"], rows)
