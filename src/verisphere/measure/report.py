"""From runs and embeddings files to a folder with one self-contained page, its plots, and its numbers as JSON."""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from verisphere.base.collectives import on_first_rank
from verisphere.base.provenance import UNRECORDED, unrecorded
from verisphere.base.vocabulary import (
    FARS,
    Embeddings,
    ImageSource,
    OperatingPoint,
    Origin,
    Progress,
    Redrawing,
    TrainingRecord,
    printable,
    quietly,
)
from verisphere.base.work import divided
from verisphere.decide import Far, GuaranteedThreshold, Interval, OneThreshold, exact_rate, point_at
from verisphere.decide.identification import cmc
from verisphere.decide.paired import chance_of, holm, mean_difference
from verisphere.decide.point import far_text
from verisphere.files.calibration import Calibration
from verisphere.files.disk import MAX_TABLE, digest, real_path
from verisphere.files.documents import LARGEST_YAML, read_text
from verisphere.files.embeddings import check_same_images, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.gallery_calibration import GalleryCalibration
from verisphere.files.lock import alone_at
from verisphere.files.metrics import METRICS, read_metrics
from verisphere.files.results import EvaluatedFile, Result, first_lines
from verisphere.files.sharded import digest_of_embeddings, holds_embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, ScoredPairs, all_pairs, require_pairs
from verisphere.measure.protocols.identification import score_probes, split_gallery
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.measure.protocols.redrawn import fars_over_people, intervals_of_set, redrawn_set, tars_over_people
from verisphere.measure.protocols.score_distribution import histograms, thinned_curve
from verisphere.measure.report_control import control
from verisphere.measure.report_findings import (
    ALL,
    Calibrated,
    Comparison,
    Contents,
    FigureOptions,
    File,
    Findings,
    Sample,
    Samples,
    Shipped,
    ShippedGallery,
    Training,
)
from verisphere.measure.report_first import leading
from verisphere.measure.report_folder import require_free, write_report
from verisphere.measure.report_inputs import ReportInput, distinct_titles, report_inputs
from verisphere.measure.report_rates import above_promise
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.models.image_sources import recorded_sources
from verisphere.report.pictures import pictures, varied
from verisphere.report.tables import number, rate_text, table

_NOT_TRIED, _ON_TRUST = "the thresholds were not tried", "the thresholds were tried on trust"


def calibrated(
    calibration: Calibration, findings: Sequence[Findings], sets: Sequence[PairsOfSet], redrawing: Redrawing
) -> Calibrated:
    """The thresholds of a calibration, with their operating points on the sets that the same model made."""
    notes, tried = [f"{note[0].upper()}{note[1:]}." for note in calibration.thresholds[0].first()], []
    notes += [f"Probability: {calibration.probability.meaning()}."] if calibration.probability else []
    cuts, tars = [shipped.threshold for shipped in calibration.thresholds], {}
    for finding, pairs in zip(findings, sets, strict=True):
        if calibration.origin is None:
            notes.append(f"{finding.title}: {_ON_TRUST}; the calibration does not say of which model it is.")
        elif (finding.embeddings.pooled_from is not None) != calibration.source.pooled:
            notes.append(f"{finding.title}: {_NOT_TRIED}; the rows calibrated on are {calibration.source.made_of}.")
            continue
        elif why_not := _not_made_as(calibration.origin, finding):
            notes.append(f"{finding.title}: {_NOT_TRIED}; {why_not}.")
            continue
        elif untold := _untold(calibration.origin, finding):
            notes.append(f"{finding.title}: {_ON_TRUST}; {untold}.")
        tried.append((finding.title, pairs))
        tars[finding.title] = tars_over_people(pairs, finding.embeddings.embeddings, cuts, redrawing)
    for _, pairs in tried:
        pairs.prepare([], [], cuts)
    thresholds = []
    for place, shipped in enumerate(calibration.thresholds):
        points = {title: _points_at(shipped, pairs, place, tars[title]) for title, pairs in tried}
        redrawn = {title: fars_over_people(pairs, points[title], redrawing) for title, pairs in tried}
        thresholds.append(Shipped(shipped, points, redrawn))
    source = File(calibration.source.file, calibration.source.sha256)
    own = frozenset(
        finding.title for finding in findings if finding.title in tars and finding.file.sha256 == source.sha256
    )
    return Calibrated(source, tuple(thresholds), own, tuple(notes))


def _not_made_as(known: Origin, finding: Findings) -> str:
    """Why a set is not known to be made as a calibration was; empty where it is."""
    if finding.embeddings.origin is None:
        return "its embeddings do not say which model made them"
    differing = finding.embeddings.origin.differences(known)
    return f"it was not made as the calibration was ({', '.join(differing)})" if differing else ""


def _untold(known: Origin, finding: Findings) -> str:
    """That the pixels of a set could not be compared with those of a calibration; empty where they could."""
    unknown = unrecorded(known, finding.embeddings.origin)
    return f"the calibration or the set was {UNRECORDED}" if unknown else ""


def of_gallery(calibration: GalleryCalibration, findings: Sequence[Findings]) -> ShippedGallery:
    """The thresholds of a gallery, with the sets that are not of its model."""
    strangers = File(calibration.strangers.file, calibration.strangers.sha256)
    known = [origin for origin in calibration.origins.values() if origin is not None]
    weak = "the promise is not shown to hold for its model"
    notes = [f"{why[0].upper()}{why[1:]}." for why in calibration.weak]
    for one in findings:
        different = {_not_made_as(origin, one): None for origin in known}
        doubts = filter(None, different if any(different) else {_untold(origin, one): None for origin in known})
        notes += [f"{one.title}: {weak}; {why}." for why in doubts]
    return ShippedGallery(strangers, calibration, tuple(notes))


def _points_at(
    shipped: GuaranteedThreshold, pairs: PairsOfSet, place: int, tars: Mapping[str, Sequence[Interval]]
) -> dict[str, OperatingPoint]:
    """The operating point of a threshold on all pairs of a set, and on each domain that has pairs of both kinds.

    The place is that of the threshold among those of the TARs over people.
    """
    pools, points = {ALL: (pairs.everything(genuine=True), pairs.everything(genuine=False)), **pairs.by_domain()}, {}
    for name, (genuine, impostor) in pools.items():
        if genuine.total and impostor.total:
            point = point_at(genuine, impostor, shipped.threshold, shipped.far_target, shipped.guarantee)
            bounds = tars[name][place]
            points[name] = replace(point, tar_lower_95=bounds.lower_95, tar_upper_95=bounds.upper_95)
    return points


COUNT = 8  # pairs of each kind
_MOST_PAIRS = 1 << 18  # among which they are looked for: the closest pairs of a set may all show the same two people


def find_samples(report_input: ReportInput, embeddings: Embeddings, pairs: PairsOfSet, genuine: ScoredPairs) -> Samples:
    """The genuine pairs that score lowest and the impostor pairs that score highest, of different people each.

    The rows of `embeddings` are in the order of `pairs`.
    """

    def sample(scored: ScoredPairs, place: int) -> Sample:
        left, right = scored.rows[place].tolist()
        return left, right, float(scored.scores[place])

    last = len(genuine.scores) - 1
    of_one = tuple(sample(genuine, last - place) for place in varied(pairs.person[genuine.rows[::-1]], COUNT))
    impostor = pairs.highest_scores(min(_MOST_PAIRS, pairs.everything(genuine=False).total), genuine=False)
    of_two = tuple(sample(impostor, place) for place in varied(pairs.person[impostor.rows], COUNT))
    rows = [row for left, right, _ in (*of_one, *of_two) for row in (left, right)]
    return Samples(of_one, of_two, *_pictures(report_input, embeddings.names[rows].tolist()))


def _pictures(report_input: ReportInput, names: list[str]) -> tuple[dict[str, str], str]:
    """The images by their names, or the reason why there are none."""
    if report_input.faces is None:
        return {}, report_input.no_faces
    try:
        return pictures(report_input.faces, names), ""
    except (ValueError, OSError) as error:  # a missing image removes the pictures, not the report
        return {}, f"{error}."


__all__ = ["ReportInput", "ReportResult", "make_report", "report_inputs"]


@dataclass(frozen=True)
class ReportResult(Result):
    """A report that has been written.

    `summary` is what is said first of each set, then as tables the rates at the shipped threshold, where one was tried,
    and the TAR of each set at the one FAR, and in words the differences; empty if nothing was measured.
    """

    page: Path
    summary: str

    def text(self) -> str:
        """The summary, and the path of the page."""
        return "\n\n".join(part for part in (self.summary, f"page: {printable(str(self.page))}") if part)


def make_report(
    inputs: Sequence[ReportInput],
    out: Path,
    *,
    fars: Sequence[Far] = FARS,
    one_far: Far = "1e-3",
    title: str | None = None,
    calibration: Calibration | GalleryCalibration | None = None,
    replicates: int = 1000,
    seed: int = 0,
    degrees: bool = False,
    progress: Progress = quietly,
) -> ReportResult:
    """Measure all pairs of each set, and write `report.html`, `figures.json` and `plots/` into a folder.

    The same input gives the same bytes: the page bears no date. A former report in the folder is replaced, anything
    else is refused. Calibrated thresholds for two photographs are tried on the sets that the same model made, and there
    the first of them is that of the first screen, of the summary and of the sample pairs; of those of a gallery the
    page says which sets another model made. On other sets these are about the one threshold, at the target `one_far`;
    the memory of the bootstrap grows with it. `degrees` plots scores as angles.
    """
    titles = [entry.title for entry in inputs]
    if not inputs:
        raise ValueError("no input: a report is about at least one run or embeddings file")
    if len(set(titles)) < len(titles):
        raise ValueError(
            f"two inputs are called {max(titles, key=titles.count)!r}; a report distinguishes them by title"
        )
    asked = FigureOptions(_targets(fars, one_far), one_far, Redrawing(replicates, seed), degrees, progress)
    require_free(out)
    with ExitStack() as lock:
        on_first_rank(lambda: "" if divided() else str(lock.enter_context(alone_at(out))))  # of parts, one writes
        return _made(inputs, out, title, calibration, asked)


def _made(
    inputs: Sequence[ReportInput],
    out: Path,
    title: str | None,
    calibration: Calibration | GalleryCalibration | None,
    asked: FigureOptions,
) -> ReportResult:
    """The report of inputs whose titles and place have been checked."""
    titles = [entry.title for entry in inputs]
    measured = _one_spelling([(entry, entry.embeddings) for entry in inputs if entry.embeddings is not None])
    for entry, embeddings in measured:
        require_pairs(embeddings, entry.source or entry.title)

    first = _same_images([embeddings for _, embeddings in measured])
    findings: list[Findings] = []
    sets: list[PairsOfSet] = []
    for (entry, embeddings), reference in zip(measured, first, strict=True):
        rows = _in_order_of(measured[reference][1], embeddings)
        check_same_images(measured[reference][1], measured[reference][0].title, rows, entry.title)
        with errors_naming(entry.source or entry.title):
            pairs = PairsOfSet(_with_usable_domains(rows), asked.progress)
            findings.append(_measure(entry, rows, pairs, asked))
        sets.append(pairs)
    shipped = calibrated(calibration, findings, sets, asked.redrawing) if isinstance(calibration, Calibration) else None
    lead = leading(findings, shipped) if findings else 0
    order = sorted(range(len(findings)), key=lambda number: number != lead)
    moved = [findings[number] for number in order], [sets[number] for number in order]
    contents = Contents(
        title=title or _title(titles, findings),
        asked=asked,
        findings=tuple(findings),
        comparisons=tuple(_comparisons(findings, sets, first, asked)),
        calibrated=shipped,
        gallery=of_gallery(calibration, findings) if isinstance(calibration, GalleryCalibration) else None,
        trainings=tuple(_trainings(inputs)),
        control=control(*moved, shipped, asked) if findings else None,
    )
    page = on_first_rank(lambda: str(write_report(out, contents)))
    return ReportResult(Path(page), _summary(contents))


def _title(titles: Sequence[str], findings: Sequence[Findings]) -> str:
    """The title of the page: what was measured, and on which images where these are the same for all."""
    images = {finding.images for finding in findings}
    on = f" on {images.pop()}" if len(images) == 1 and images != {""} and len(findings) == len(titles) else ""
    return f"Report: {', '.join(titles)}{on}" if len(titles) <= 3 else f"Report on {len(titles)} sets"


def _targets(fars: Sequence[Far], one_far: Far) -> tuple[Far, ...]:
    """The target FARs, each once and descending, including the one FAR."""
    if not 0 < exact_rate(one_far) < 1:
        raise ValueError(f"the FAR of the one threshold must lie above 0 and below 1, got {far_text(one_far)!r}")
    by_rate = {exact_rate(far): far for far in (*fars, one_far)}
    return tuple(by_rate[rate] for rate in sorted(by_rate, reverse=True))


# --- sets of the same images ---


def _one_spelling(measured: Sequence[tuple[ReportInput, Embeddings]]) -> list[tuple[ReportInput, Embeddings]]:
    """The sets with one spelling of each person in all sets of the same images; refused as `same_people` does."""
    alike: dict[frozenset[str], list[int]] = defaultdict(list)
    for place, (_, embeddings) in enumerate(measured):
        alike[frozenset(embeddings.names.tolist())].append(place)
    spelled = list(measured)
    for places in alike.values():
        sets = same_people(*((measured[place][0].title, measured[place][1]) for place in places))
        for place, embeddings in zip(places, sets, strict=True):
            spelled[place] = measured[place][0], embeddings
    return spelled


def _same_images(sets: Sequence[Embeddings]) -> list[int]:
    """For each set the number of the first set with the same images of the same people."""
    keys = []
    for embeddings in sets:
        columns = zip(embeddings.names, embeddings.identities, strict=True)
        lines = sorted(f"{name}\t{person}\n" for name, person in columns)
        keys.append(hashlib.sha256("".join(lines).encode()).digest())
    return [keys.index(key) for key in keys]


def _in_order_of(reference: Embeddings, other: Embeddings) -> Embeddings:
    """The same images in the order of the reference, so that one bootstrap can draw for both; no figure changes."""
    row = {str(name): number for number, name in enumerate(other.names)}
    rows = np.array([row[str(name)] for name in reference.names])
    return other.take(rows)


#: Redrawings for each comparison, by which Holm's method can find any one of them beyond chance.
_REDRAWINGS = 40


def _comparisons(
    findings: Sequence[Findings], sets: Sequence[PairsOfSet], first: Sequence[int], asked: FigureOptions
) -> list[Comparison]:
    """Every two sets of the same images compared, at the one FAR and lower FARs."""
    fars = [[far for far in asked.targets if exact_rate(far) in finding.band] for finding in findings]
    plan = [
        (ours, theirs, place)
        for ours, theirs in combinations(range(len(first)), 2)
        if first[ours] == first[theirs]
        for place in range(len(fars[ours]))
    ]
    replicates = max(asked.redrawing.replicates, _REDRAWINGS * len(plan))
    redrawing = replace(asked.redrawing, replicates=replicates)
    tars = {
        number: redrawn_set(sets[number], fars[number], redrawing=redrawing, progress=asked.progress).tars
        for number in sorted({number for ours, theirs, _ in plan for number in (ours, theirs)})
    }
    both = [(tars[ours][place], tars[theirs][place]) for ours, theirs, place in plan]
    chances = [chance_of(*two) for two in both]
    return [
        Comparison(
            findings[ours].title,
            findings[theirs].title,
            far_text(fars[ours][place]),
            mean_difference([first_tar], [second_tar]),
            chance,
            together,
        )
        for (ours, theirs, place), (first_tar, second_tar), chance, together in zip(
            plan, both, chances, holm(chances), strict=True
        )
    ]


# --- one set ---


def _with_usable_domains(embeddings: Embeddings) -> Embeddings:
    """The set without its domains, if no domain has both genuine and impostor pairs."""
    if embeddings.domains is None:
        return embeddings
    groups = [embeddings.identities[embeddings.domains == name] for name in np.unique(embeddings.domains)]
    people = [len(np.unique(group)) for group in groups]
    usable = any(1 < count < len(group) for count, group in zip(people, groups, strict=True))
    return embeddings if usable else replace(embeddings, domains=None)


def _measure(entry: ReportInput, embeddings: Embeddings, pairs: PairsOfSet, asked: FigureOptions) -> Findings:
    result = all_pairs(pairs, asked.targets, skip_empty=True, progress=asked.progress)
    place = [exact_rate(far) for far in asked.targets].index(exact_rate(asked.one_far))
    headline = result.operating_points[place]
    one_threshold: OneThreshold | None = None if result.one_threshold is None else result.one_threshold[place]
    genuine = pairs.all_scores(genuine=True)
    histogram, by_domain = histograms(pairs, genuine, degrees=asked.degrees)
    low = [
        point.far_target
        for point in result.operating_points
        if not point.below_resolution and exact_rate(point.far_target) <= exact_rate(asked.one_far)
    ]
    intervals = intervals_of_set(pairs, low, asked.redrawing, asked.progress)
    band = {exact_rate(one.far_target): one.tar for one in intervals}
    probes, enrolled = split_gallery(embeddings, strangers=0.0, seed=asked.redrawing.seed)
    known = EvaluatedFile(entry.title, "", embeddings.origin, embeddings.shared_with_training)
    assert entry.embeddings is not None
    implausible = implausible_set(entry.embeddings)  # in the order of its file, where labels moved by a row show
    of_title = tuple(f"{entry.title}: {reason}" for reason in implausible)
    return Findings(
        title=entry.title,
        file=_file(entry),
        embeddings=embeddings,
        people=len(pairs.people),
        model=_model(embeddings.origin, entry.run),
        points=result.operating_points,
        headline=headline,
        interval=band.get(exact_rate(asked.one_far)),
        band=band,
        cmc=cmc(score_probes(probes, enrolled, progress=asked.progress)),
        one=one_threshold,
        curve=thinned_curve(pairs),
        histogram=histogram,
        by_domain=by_domain,
        samples=find_samples(entry, embeddings, pairs, genuine),
        implausible=implausible,
        first=tuple(first_lines([known], of_title).splitlines()),
        doubt=entry.doubt,
    )


def _file(entry: ReportInput) -> File:
    source = Path(entry.source)
    readable = entry.source != "" and (source.is_file() or (source.is_dir() and holds_embeddings(source)))
    return File(entry.source or entry.title, digest_of_embeddings(source) if readable else None)


def _model(origin: Origin | None, run: Path | None) -> str:
    """The model that made a set, as a sentence."""
    if origin is None:
        return "the embeddings file does not say which model made it."
    how = f"{origin.precision}{', the mirror image added' if origin.flip else ''}, on images of {origin.images}"
    words = f"made by the network with the weights of SHA-256 {origin.model}, in {how}."
    checkpoints = [] if run is None else list_checkpoints(run)
    if not checkpoints:
        return words
    weights = [path / "backbone.safetensors" for path in checkpoints]
    same_weights = [path.parent for path in weights if path.is_file() and digest(path) == origin.model]
    if not same_weights:
        return f"{words} None of the checkpoints that {run} keeps has these weights: was it trained further since?"
    newest = "the newest" if same_weights[-1] == checkpoints[-1] else "not the newest, one"
    return f"{words} It is {newest} checkpoint of {run}, {same_weights[-1].name}."


# --- runs ---


def _trainings(inputs: Sequence[ReportInput]) -> Iterator[Training]:
    """The runs of the inputs, each once."""
    runs: dict[Path, Path] = {}
    for entry in inputs:
        if entry.run is not None:
            runs.setdefault(real_path(entry.run), entry.run)
    measured = {real_path(entry.run) for entry in inputs if entry.run and entry.embeddings is not None}
    for title, run in zip(distinct_titles(list(runs.values())), runs.values(), strict=True):
        paths = [run / name for name in ("recipe.yaml", METRICS, "people.txt")]
        paths += [checkpoint / "backbone.safetensors" for checkpoint in list_checkpoints(run)[-1:]]
        people = run / "people.txt"
        count = len(read_text(people, MAX_TABLE).splitlines()) if people.is_file() else None
        sources = _sources(run)
        yield Training(
            title=title,
            folder=str(run),
            entries=read_metrics(run / METRICS),
            recipe=read_text(run / "recipe.yaml", LARGEST_YAML),
            people=count,
            files=tuple(File(str(path), digest(path)) for path in paths if path.is_file()),
            measured=real_path(run) in measured,
            trained=TrainingRecord(people=count, sources=sources).described() if sources else "",
        )


def _sources(run: Path) -> tuple[ImageSource, ...]:
    """The training images of a run, if its newest checkpoint states them; a damaged checkpoint states none."""
    newest = list_checkpoints(run)[-1:]
    try:
        return recorded_sources(read_checkpoint(newest[0])) if newest else ()
    except (ValueError, FileNotFoundError):
        return ()


def _summary(contents: Contents) -> str:
    findings, noted = contents.findings, contents.calibrated or contents.gallery
    if not findings:
        return ""
    rows = []
    for finding in findings:
        point, interval = finding.headline, finding.interval
        shown = interval is not None and math.isfinite(interval.lower_95)
        bounds = f"{number(interval.lower_95)} .. {number(interval.upper_95)}" if interval and shown else "-"
        tar = "-" if point.below_resolution else number(point.tar)
        counts = [f"{len(finding.embeddings):,}", f"{finding.people:,}"]
        rows.append([finding.title, *counts, number(point.threshold, 6), tar, bounds])
    notes = [*(noted.notes if noted else ()), *(line for finding in findings for line in finding.first)]
    first = "".join(f"{line}\n" for line in notes)
    shipped = "" if contents.calibrated is None else _at_shipped(findings, contents.calibrated)
    header = ["all pairs", "images", "people", f"threshold, FAR {contents.asked.far}", "TAR", "95 % over people"]
    differences = "".join(f"{printable(str(found))}\n" for found in contents.comparisons)
    return f"{first}{shipped}{table(header, rows)}\n\n{differences}{contents.compared}".rstrip()


def _at_shipped(findings: Sequence[Findings], calibrated: Calibrated) -> str:
    """The rates at the shipped threshold of each set that it was tried on, and where they are above the promise."""
    rows, above = [], []
    for finding in findings:
        if (shipped := calibrated.first(finding.title)) is not None:
            point, far = shipped.on(finding.title), shipped.threshold.far_target
            bounds = f"{number(point.tar_lower_95)} .. {number(point.tar_upper_95)}"
            cells = [number(point.threshold, 6), number(point.tar), bounds, rate_text(point.far)]
            rows.append([finding.title, *cells])
            pools = above_promise(calibrated, finding.title).get(far, [])
            above += [f"{finding.title}: above the promised FAR {far}: {', '.join(pools)}\n"] if pools else []
    far = calibrated.shipped[0].threshold.far_target
    header = ["shipped threshold", f"promised, FAR {far}", "TAR", "95 % over people", "FAR here"]
    return f"{table(header, rows)}\n{''.join(above)}\n" if rows else ""
