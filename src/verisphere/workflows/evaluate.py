"""From an embeddings or scores file to figures, as an object, as text and as JSON."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from verisphere.data.embeddings_file import pool_embeddings, read_embeddings
from verisphere.data.files import digest, write_whole
from verisphere.data.lists import read_pairs
from verisphere.data.scores_file import read_scores
from verisphere.decide import (
    Accuracy,
    Far,
    OneThreshold,
    Ordered,
    ScoresLike,
    exact_rate,
    one_threshold,
    operating_point,
    split_domains,
)
from verisphere.decide.bootstrap import Interval, accuracy_difference
from verisphere.protocols import PairsOfSet, all_pairs, calibration_impostors, listed_pairs, tar_differences
from verisphere.report.results import EvaluatedFile, json_text
from verisphere.report.tables import accuracy_line, interval_text, one_threshold_table, operating_points_table, table
from verisphere.vocabulary import (
    Comparisons,
    Embeddings,
    OperatingPoint,
    Origin,
    Progress,
    Rule,
    Scores,
    Union,
    quietly,
)


@dataclass(frozen=True)
class Difference:
    """One model less another on the same images, with its 95 % interval over redrawn people.

    Attributes:
        figure: what is compared: `tar` at a target FAR, or `accuracy`.
        against: the other model's file.
    """

    figure: str
    far_target: str | None
    against: str
    value: float
    lower_95: float
    upper_95: float
    replicates: int


def evaluated(path: Path, origin: Origin | None = None) -> EvaluatedFile:
    """How a result names a file."""
    return EvaluatedFile(path.name, digest(path), origin)


@dataclass(frozen=True)
class Evaluation:
    """Everything one call of `verisphere evaluate` found."""

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: Accuracy | None = None
    one_threshold: tuple[OneThreshold, ...] | None = None
    differences: tuple[Difference, ...] | None = None

    def text(self) -> str:
        """The figures as tables."""
        parts = [operating_points_table(self.operating_points)]
        if self.accuracy is not None:
            parts.append(accuracy_line(self.accuracy))
        parts += [one_threshold_table(result) for result in self.one_threshold or ()]
        if self.differences:
            rows = [
                [
                    difference.against,
                    difference.figure + (f" at FAR {difference.far_target}" if difference.far_target else ""),
                    interval_text(
                        Interval(difference.value, difference.lower_95, difference.upper_95, difference.replicates)
                    ),
                ]
                for difference in self.differences
            ]
            parts.append(table(["against", "figure", "difference, 95 % over people"], rows))
        return "\n\n".join(parts)

    def write_json(self, path: Path) -> None:
        """Write the figures; keys of what was not asked for are left out."""
        present = {name: value for name, value in vars(self).items() if value is not None}
        write_whole(path, lambda partial: partial.write_text(json_text(present)))


@dataclass(frozen=True)
class Options:
    """What every kind of evaluation takes; see `threshold_at` and `one_threshold`."""

    fars: Sequence[Far]
    rule: Rule = "at_most"
    union: Union = "all"
    calibration: Path | None = None
    skip_empty: bool = False
    progress: Progress = quietly

    def __post_init__(self) -> None:
        for far in self.fars:
            exact_rate(far)  # a slip in a FAR is told before minutes of work, not after


def evaluate_scores(path: Path, options: Options) -> Evaluation:
    """Figures of a scores file; with a domain column also at one threshold.

    `options.calibration` is another scores file, whose impostors alone set the common threshold.
    """
    calibration = None
    if options.calibration is not None:
        other = read_scores(options.calibration)
        calibration = other.score[~other.genuine]
        if not len(calibration):
            raise ValueError(f"{options.calibration}: no impostor score in it, so it can set no threshold")
    scores = read_scores(path)
    if scores.genuine.all() or not scores.genuine.any():
        kind, other_kind = ("genuine", "impostor") if scores.genuine.any() else ("impostor", "genuine")
        raise ValueError(f"{path}: all {len(scores.score)} comparisons are {kind}; rates need {other_kind} ones too")
    with _naming(path):
        points, common = _points(scores, options), _by_domain(scores, options, calibration)
    return Evaluation(points, (evaluated(path),), one_threshold=common)


def evaluate_pairs(
    path: Path, pairs: Path, options: Options, against: Sequence[Path] = (), replicates: int = 1000
) -> Evaluation:
    """Figures of listed pairs of an embeddings file: k-fold accuracy, operating points."""
    embeddings = read_embeddings(path)
    comparisons, people = _comparisons(embeddings, pairs, path)
    with _naming(pairs):
        result = listed_pairs(embeddings, comparisons, options.fars, options.rule)
    differences = []
    for file in against:
        rows = read_embeddings(file)
        theirs, _ = _comparisons(rows, pairs, file)
        right = listed_pairs(rows, theirs, options.fars, options.rule).right_decisions
        interval = accuracy_difference(result.right_decisions, right, people, result.weights, replicates)
        differences.append(_difference("accuracy", None, file, interval))
    calibration = _calibration_impostors(embeddings, path, options)
    return Evaluation(
        result.operating_points,
        (evaluated(path, embeddings.origin), evaluated(pairs)),
        result.accuracy,
        _by_domain(result.scores, options, calibration),
        tuple(differences) or None,
    )


def evaluate_all_pairs(
    path: Path, options: Options, against: Sequence[Path] = (), replicates: int = 1000
) -> Evaluation:
    """Figures of all pairs of an embeddings file; with domains also at one threshold."""
    embeddings = read_embeddings(path)
    return _all_pairs(embeddings, [evaluated(path, embeddings.origin)], str(path), options, against, replicates)


def evaluate_one_threshold(paths: Sequence[Path], options: Options) -> Evaluation:
    """Figures of several embeddings files, each a domain, or of one with domains, at one threshold."""
    sets = [(path.stem, read_embeddings(path)) for path in paths]
    if len(sets) == 1 and sets[0][1].domains is None:
        raise ValueError(f"{paths[0]}: one file without domains; name several files, or one with a domains array")
    sources = [evaluated(path, embeddings.origin) for path, (_, embeddings) in zip(paths, sets, strict=True)]
    return _all_pairs(pool_embeddings(sets), sources, ", ".join(map(str, paths)), options)


def _all_pairs(
    embeddings: Embeddings,
    sources: Sequence[EvaluatedFile],
    source: str,
    options: Options,
    against: Sequence[Path] = (),
    replicates: int = 1000,
) -> Evaluation:
    images = np.unique(embeddings.identities, return_counts=True)[1]
    if len(images) == 1:
        raise ValueError(f"{source}: all {len(embeddings)} images are of one person, so there is no impostor pair")
    if images.max() == 1:
        raise ValueError(f"{source}: no two of {len(embeddings)} images are of one person, so there is no genuine pair")
    if against and options.rule != "at_most":
        raise ValueError(f"--against compares at the rule at_most; leave --rule {options.rule} out")
    calibration = _calibration_impostors(embeddings, source, options)
    pairs = PairsOfSet(embeddings, options.progress)
    with _naming(source):
        result = all_pairs(
            pairs,
            options.fars,
            options.rule,
            options.union,
            calibration,
            options.skip_empty,
            options.progress,
        )
    differences: list[Difference] = []
    if against:
        others = [PairsOfSet(_same_rows(embeddings, file), options.progress) for file in against]
        found = tar_differences(pairs, others, options.fars, replicates, progress=options.progress)
        differences = [
            _difference("tar", str(far), file, intervals[number])
            for number, far in enumerate(options.fars)
            for file, intervals in zip(against, found, strict=True)
        ]
    return Evaluation(
        result.operating_points,
        tuple(sources),
        one_threshold=result.one_threshold,
        differences=tuple(differences) or None,
    )


@contextmanager
def _naming(source: str | Path) -> Iterator[None]:
    """Put the file before what is wrong with its content."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _difference(figure: str, far: str | None, against: Path, interval: Interval) -> Difference:
    return Difference(
        figure, far, against.name, interval.value, interval.lower_95, interval.upper_95, interval.replicates
    )


def _same_rows(embeddings: Embeddings, file: Path) -> Embeddings:
    """Another model's embeddings of the same images, in the same order.

    Raises:
        ValueError: it misses images, or gives one to another person.
    """
    other = read_embeddings(file)
    row = {str(name): number for number, name in enumerate(other.names)}
    missing = [str(name) for name in embeddings.names if str(name) not in row]
    if missing:
        raise ValueError(f"{file}: {len(missing)} of {len(embeddings)} images are missing, the first is {missing[0]!r}")
    rows = np.array([row[str(name)] for name in embeddings.names])
    if not np.array_equal(other.identities[rows], embeddings.identities):
        raise ValueError(f"{file}: it gives some of the images to other people, so the two cannot be compared")
    return Embeddings(other.embeddings[rows], embeddings.names, embeddings.identities, embeddings.domains)


def _comparisons(embeddings: Embeddings, pairs: Path, path: Path) -> tuple[Comparisons, np.ndarray]:
    listed = read_pairs(pairs)
    try:
        left, right = listed.positions([str(name) for name in embeddings.names])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    folds = None if listed.folds is None else np.array(listed.folds, np.int64)
    comparisons = Comparisons(left, right, np.array(listed.genuine), folds)
    _, person = np.unique(embeddings.identities, return_inverse=True)
    wrong = np.flatnonzero((person[left] == person[right]) != comparisons.genuine)
    if len(wrong):
        says = "genuine" if comparisons.genuine[wrong[0]] else "impostor"
        line = f"line {listed.lines[wrong[0]]}: " if listed.lines else ""
        raise ValueError(
            f"{pairs}: {line}listed as {says}, which the identities in {path} contradict ({len(wrong)} such pairs)"
        )
    return comparisons, np.stack([person[left], person[right]], 1).astype(np.int64)


def _points(scores: Scores, options: Options) -> tuple[OperatingPoint, ...]:
    genuine, impostor = scores.score[scores.genuine], scores.score[~scores.genuine]
    return tuple(operating_point(genuine, impostor, far, options.rule) for far in options.fars)


def _by_domain(
    scores: Scores, options: Options, calibration: "ScoresLike | Ordered | None"
) -> tuple[OneThreshold, ...] | None:
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


def _calibration_impostors(embeddings: Embeddings, source: str | Path, options: Options) -> Ordered | None:
    """All impostor pairs of the calibration file, made by the same model as `embeddings`.

    Raises:
        ValueError: it is of another size, or has no impostor pair; there are no domains to decide at its threshold.
    """
    if options.calibration is None:
        return None
    if embeddings.domains is None:
        raise ValueError(f"{source}: --calibration sets the one threshold of domains, but there are no domains here")
    calibration = read_embeddings(options.calibration)
    ours, theirs = embeddings.embeddings.shape[1], calibration.embeddings.shape[1]
    if ours != theirs:
        raise ValueError(
            f"{options.calibration}: {theirs} numbers a row, but {source} has {ours}; a threshold holds for the scores "
            "of one model alone"
        )
    try:
        return calibration_impostors(calibration, options.fars, options.progress)
    except ValueError as error:
        raise ValueError(f"{options.calibration}: {error}") from None
