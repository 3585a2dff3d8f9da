"""From an embeddings or scores file to figures, as an object, as text, as JSON, and as a curve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import (
    REDRAWING,
    Embeddings,
    OperatingPoint,
    Origin,
    Precision,
    Progress,
    Redrawing,
    Rule,
    Scores,
    Union,
    quietly,
)
from verisphere.base.words import FeatureNorm, check_at_least
from verisphere.decide import (
    Curve,
    Far,
    GroupDifferences,
    OneThreshold,
    Ordered,
    ScoresLike,
    SortedScores,
    differences_of,
    enough,
    exact_rate,
    one_threshold,
    operating_point,
    roc,
    split_domains,
    thinned_roc,
    with_points,
)
from verisphere.decide.plausible import implausible_list
from verisphere.files.disk import check_file
from verisphere.files.embeddings import pool_embeddings, read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.results import EvaluatedFile
from verisphere.files.scores import read_scores
from verisphere.files.sharded import title_of
from verisphere.files.streamed_rows import evaluated
from verisphere.measure.comparison import Difference, all_pairs_against, same_rows
from verisphere.measure.evaluation import Evaluation
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs, calibration_impostors, require_pairs
from verisphere.measure.protocols.people import people_of_set
from verisphere.measure.protocols.plausible import implausible_before_pooling, implausible_set
from verisphere.measure.protocols.redrawn import MOST_SCORES, domain_bounds, intervals_of_set
from verisphere.measure.protocols.score_distribution import thinned_curve
from verisphere.measure.sides import check_alike, check_one_model, note_kinds

__all__ = [
    "Difference",
    "Evaluation",
    "Options",
    "evaluate_all_pairs",
    "evaluate_one_threshold",
    "evaluate_scores",
]

MOST_CURVE_POINTS = 20_000  # with more scores than this the curve is thinned


@dataclass(frozen=True)
class Options:
    """The options of every kind of evaluation; see `threshold_at` and `one_threshold`.

    Attributes:
        alpha: weight of FAR against FRR in the differences of groups.
        points_only: find only operating points of listed pairs, which needs no score of each pair.
        keep_repeated: count listed pairs of an image with itself, and pairs that are listed twice.
        by_person: also find each person's own error rates at each threshold.
        for_domains: the options that the caller wrote and that only the one threshold of domains reads.
    """

    fars: Sequence[Far]
    rule: Rule = "at_most"
    union: Union = "all"
    calibration: Path | None = None
    skip_empty: bool = False
    progress: Progress = quietly
    intervals: bool = False
    redrawing: Redrawing = REDRAWING
    alpha: float = 0.5
    curve: bool = False
    processes: int = 1
    screen: Precision | None = None
    device: str = "cpu"
    points_only: bool = False
    keep_repeated: bool = False
    feature_norm: FeatureNorm = "keep"
    by_person: bool = False
    for_domains: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_at_least("processes", self.processes)
        for far in self.fars:
            exact_rate(far)  # refuse a malformed FAR before minutes of work, not after
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha must lie between 0 and 1, got {self.alpha}")


def refuse_without_domains(options: Options, domains: bool, source: object) -> None:
    """Refuse options that only domains read, where there are none."""
    if options.for_domains and not domains:
        raise ValueError(
            f"{source}: {options.for_domains[0]} does nothing here: it is for the one threshold of domains, but there "
            "are no domains; omit it"
        )


def evaluate_scores(path: Path, options: Options) -> Evaluation:
    """Figures of a scores file; with a domain column also at one threshold."""
    if options.intervals:
        raise ValueError(f"{path}: a scores file does not say who was compared, so no people can be redrawn")
    calibration, file, unlikely = None, None, list[str]()
    if options.calibration is not None:
        _refuse_json(options.calibration, "a scores file")
        other = read_scores(options.calibration)
        calibration = other.score[~other.genuine]
        if not len(calibration):
            raise ValueError(f"{options.calibration}: no impostor score in it, so it can set no threshold")
        file, reasons = evaluated(options.calibration), _implausible_scores(other)
        unlikely = [f"{options.calibration.name}: {reason}" for reason in reasons]
    scores = read_scores(path)
    if scores.genuine.all() or not scores.genuine.any():
        kind, other_kind = ("genuine", "impostor") if scores.genuine.any() else ("impostor", "genuine")
        raise ValueError(f"{path}: all {len(scores.score)} comparisons are {kind}; rates need {other_kind} ones too")
    refuse_without_domains(options, scores.domains is not None and bool((scores.domains != "").any()), path)
    with errors_naming(path):
        points, common = _points(scores, options), at_one_threshold(scores, options, calibration)
    return Evaluation(
        points,
        (evaluated(path),),
        one_threshold=common,
        group_differences=groups_apart(common, options),
        curve=curve_of(scores, points) if options.curve else None,
        people_known=False,
        implausible=(*_implausible_scores(scores), *unlikely),
        calibration=file,
    )


def _implausible_scores(scores: Scores) -> tuple[str, ...]:
    return implausible_list(scores.genuine, lambda rows: scores.score[rows], scores.domains)


def evaluate_all_pairs(path: Path, options: Options, against: Sequence[Path] = ()) -> Evaluation:
    """Figures of all pairs of an embeddings file; with domains also at one threshold."""
    embeddings = read_known_people(path, options.feature_norm)
    return _all_pairs(embeddings, [evaluated(path, embeddings)], {path: embeddings.origin}, options, against)


def evaluate_one_threshold(paths: Sequence[Path], options: Options) -> Evaluation:
    """Figures at one threshold of several embeddings files, each of which is a domain, or of one file with domains."""
    sets = [(title_of(path), read_known_people(path, options.feature_norm)) for path in paths]
    if len(sets) == 1 and sets[0][1].domains is None:
        raise ValueError(f"{paths[0]}: one file without domains; name several files, or one with a domains array")
    origins = {path: embeddings.origin for path, (_, embeddings) in zip(paths, sets, strict=True)}
    check_one_model(origins)
    sources = [evaluated(path, embeddings) for path, (_, embeddings) in zip(paths, sets, strict=True)]
    result = _all_pairs(pool_embeddings(sets), sources, origins, options)
    of_rows = [f"{title}: {reason}" for title, rows in sets for reason in implausible_before_pooling(rows)]
    return replace(result, implausible=result.implausible or tuple(of_rows), notes=(*result.notes, *note_kinds(sets)))


def _all_pairs(
    embeddings: Embeddings,
    sources: Sequence[EvaluatedFile],
    origins: Mapping[Path, Origin | None],
    options: Options,
    against: Sequence[Path] = (),
) -> Evaluation:
    source = ", ".join(map(str, origins))
    require_pairs(embeddings, source)
    refuse_without_domains(options, embeddings.domains is not None, source)
    if against and options.rule != "at_most":
        raise ValueError(f"--against compares at the rule at_most; leave --rule {options.rule} out")
    check_redrawing(options)
    calibration, file, of_calibration = calibration_of(embeddings, origins, options)
    device = choose_device(options.device)
    with errors_naming(source):
        pairs = PairsOfSet(embeddings, options.progress, options.processes, options.screen, device)
        result = all_pairs(
            pairs,
            options.fars,
            options.rule,
            options.union,
            calibration,
            options.skip_empty,
            options.progress,
        )
    how = options.redrawing, options.progress
    groups, intervals, notes = groups_apart(result.one_threshold, options), None, list[str]()
    if options.intervals:
        within, notes = _within_memory(result.operating_points)
        intervals = intervals_of_set(pairs, within, *how)
        if groups is not None:
            bounded = {one.far_target: pairs.everything(genuine=False).above(one.threshold) for one in groups}
            notes += [
                f"group differences at FAR {far}: bounds are binomial, for {count:,} impostor scores lie above the one "
                f"threshold, more than the {MOST_SCORES:,} that are held in memory"
                for far, count in bounded.items()
                if far in within and count > MOST_SCORES
            ]
            groups = tuple(
                domain_bounds(pairs, one, *how)
                if one.far_target in within and bounded[one.far_target] <= MOST_SCORES
                else one
                for one in groups
            )
    people = None
    if options.by_person:
        fit = [point for point in result.operating_points if point.impostor_accepted <= MOST_SCORES]
        notes += [
            f"no rates of each person at FAR {point.far_target}: {point.impostor_accepted:,} impostors are accepted, "
            f"more than the {MOST_SCORES:,} that are held in memory"
            for point in result.operating_points
            if point not in fit
        ]
        people = people_of_set(pairs, fit) if fit else None
    compared = [(path, *same_rows(embeddings, path, options.feature_norm)) for path in against]
    others = [(path, rows) for path, rows, _ in compared]
    differences = all_pairs_against(pairs, others, options.fars, *how) if against else []
    unlikely = [*implausible_set(embeddings)]
    unlikely += [f"{path.name}: {reason}" for path, _, reasons in compared for reason in reasons]
    return Evaluation(
        result.operating_points,
        tuple(sources),
        one_threshold=result.one_threshold,
        differences=tuple(differences) or None,
        group_differences=groups,
        intervals=intervals,
        curve=with_points(thinned_curve(pairs), result.operating_points) if options.curve else None,
        by_person=people,
        notes=tuple(notes),
        implausible=(*unlikely, *of_calibration),
        against=tuple(evaluated(path, rows) for path, rows in others),
        calibration=file,
    )


# --- over redrawn people ---


def check_redrawing(options: Options) -> None:
    """Refuse intervals at another rule than `at_most`, before minutes of work."""
    if options.intervals and options.rule != "at_most":
        raise ValueError(f"--intervals redraws people at the rule at_most; leave --rule {options.rule} out")


def _within_memory(points: Sequence[OperatingPoint]) -> tuple[list[str], list[str]]:
    """Target FARs that have an interval, and the reason why other FARs that can be resolved have none."""
    resolved = {point.far_target: enough(point.far_target, point.impostor_total) for point in points
                if not point.below_resolution}  # fmt: skip
    notes = [
        f"no interval at FAR {far}: it would take {count:,} impostor scores in memory, more than {MOST_SCORES:,}"
        for far, count in resolved.items()
        if count > MOST_SCORES
    ]
    return [far for far, count in resolved.items() if count <= MOST_SCORES], notes


# --- groups and curves ---


def groups_apart(common: Sequence[OneThreshold] | None, options: Options) -> tuple[GroupDifferences, ...] | None:
    """The differences of the domains at the one threshold of each target FAR."""
    return None if common is None else tuple(differences_of(one, options.alpha) for one in common)


def curve_of(scores: Scores, points: Sequence[OperatingPoint]) -> Curve:
    """The curve of scores in memory; for many scores it is thinned, except at the operating points."""
    genuine, impostor = scores.score[scores.genuine], scores.score[~scores.genuine]
    if len(scores.score) <= MOST_CURVE_POINTS:
        return with_points(roc(genuine, impostor), points)
    return with_points(thinned_roc(SortedScores(genuine), SortedScores(impostor)), points)


def _points(scores: Scores, options: Options) -> tuple[OperatingPoint, ...]:
    genuine, impostor = scores.score[scores.genuine], scores.score[~scores.genuine]
    return tuple(operating_point(genuine, impostor, far, options.rule) for far in options.fars)


def at_one_threshold(
    scores: Scores, options: Options, calibration: "ScoresLike | Ordered | None"
) -> tuple[OneThreshold, ...] | None:
    """The domains of the scores at one threshold, for each target FAR; None without domains."""
    if scores.domains is None or not scores.domains.astype(bool).any():
        if calibration is not None:
            raise ValueError("--calibration sets the one threshold of domains, but there are no domains here")
        return None
    split, across = split_domains(scores.score, scores.genuine, scores.domains)
    return tuple(
        one_threshold(
            split,
            far,
            across=across,
            calibration=calibration,
            rule=options.rule,
            union=options.union,
            skip_empty=options.skip_empty,
        )
        for far in options.fars
    )


def _refuse_json(calibration: Path, takes: str) -> None:
    """Refuse what `calibrate` writes in place of the file that it reads."""
    check_file(calibration)
    with open(calibration, "rb") as file:
        if file.read(4096).lstrip().startswith(b"{"):
            raise ValueError(
                f"{calibration}: --calibration takes {takes}, whose impostors set the one threshold, but this is JSON, "
                "such as calibrate writes; name the file that was calibrated on"
            )


def calibration_of(
    embeddings: Embeddings, origins: Mapping[Path, Origin | None], options: Options, listed_domains: bool = False
) -> tuple[Ordered | None, EvaluatedFile | None, list[str]]:
    """All impostor pairs of the calibration file, made by the same model as `embeddings`.

    The record of the file follows, and the reasons why it cannot be that of a working model with right labels.
    """
    if options.calibration is None:
        return None, None, []
    if embeddings.domains is None and not listed_domains:
        source = ", ".join(map(str, origins))
        raise ValueError(f"{source}: --calibration sets the one threshold of domains, but there are no domains here")
    _refuse_json(options.calibration, "an embeddings file")
    calibration = read_known_people(options.calibration, options.feature_norm)
    sizes = embeddings.embeddings.shape[1], calibration.embeddings.shape[1]
    for file, origin in origins.items():
        check_alike(file, sizes[0], origin, options.calibration, sizes[1], calibration.origin)
    both = (str(file), embeddings), (str(options.calibration), calibration)
    if len(origins) == 1 and (mixed := note_kinds(both)):
        raise ValueError(mixed[0])
    with errors_naming(options.calibration):
        impostors = calibration_impostors(calibration, options.fars, options.progress)
    reasons = [f"{options.calibration.name}: {reason}" for reason in implausible_set(calibration)]
    return impostors, evaluated(options.calibration, calibration), reasons
