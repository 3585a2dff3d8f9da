"""From an embeddings file and a list of pairs to figures."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from verisphere.decide import PairScores, PointIntervals, accuracy_interval, point_intervals
from verisphere.files.embeddings import read_templates
from verisphere.files.errors import errors_naming
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.measure.comparison import Difference, listed_against
from verisphere.measure.evaluate import (
    Options,
    at_one_threshold,
    calibration_of,
    check_redrawing,
    curve_of,
    evaluated,
    groups_apart,
)
from verisphere.measure.evaluation import Evaluation
from verisphere.packs.bin_pairs import SUFFIX as BIN_SUFFIX
from verisphere.packs.bin_pairs import read_bin_pairs
from verisphere.protocols import ListedPairsResult, listed_operating_points, listed_pairs, repeated_text
from verisphere.vocabulary import NOBODY, Comparisons, Embeddings


def evaluate_pairs(path: Path, pairs: Path, options: Options, against: Sequence[Path] = ()) -> Evaluation:
    """Figures of listed pairs of an embeddings file: k-fold accuracy, operating points.

    `pairs` is a list as `read_pairs` reads it, or a verification set of InsightFace (.bin), whose images have the names
    that its pack gives them. A pair with an image of `NOBODY` is what the list says it is.
    """
    check_redrawing(options)
    embeddings = read_templates(path, options.feature_norm)
    comparisons, people = _comparisons(embeddings, pairs, path)
    if (options.intervals or against) and (nobody := int((embeddings.identities == NOBODY).sum())):
        raise ValueError(
            f"{path}: {nobody} embeddings have the identity {NOBODY}: nobody is known on them, so no people can be "
            "redrawn; leave --intervals and --against out"
        )
    kept = repeated_text(embeddings, comparisons) if options.keep_repeated else ""
    notes = (f"repeated pairs were kept: {kept}",) if kept else ()
    if options.points_only:
        if against or options.calibration or options.intervals or options.curve:
            raise ValueError(
                "--points-only makes no score of each pair, which --against, --calibration, --intervals, --curve and "
                "--plot need"
            )
        with errors_naming(pairs):
            points = listed_operating_points(
                embeddings, comparisons, options.fars, options.rule, options.progress, options.keep_repeated
            )
        return Evaluation(points, (evaluated(path, embeddings.origin), evaluated(pairs)), notes=notes)
    with errors_naming(pairs):
        result = listed_pairs(embeddings, comparisons, options.fars, options.rule, options.keep_repeated)
    resolved = [point.far_target for point in result.operating_points if not point.below_resolution]
    differences: list[Difference] = []
    for file in against:
        rows = read_templates(file, options.feature_norm)
        theirs, _ = _comparisons(rows, pairs, file)
        other = listed_pairs(rows, theirs, options.fars, options.rule, options.keep_repeated)
        differences += listed_against(
            result,
            other,
            people,
            file,
            resolved if options.rule == "at_most" else (),
            options.redrawing,
            options.progress,
        )
    calibration = calibration_of(embeddings, path, options)
    common = at_one_threshold(result.scores, options, calibration)
    return Evaluation(
        result.operating_points,
        (evaluated(path, embeddings.origin), evaluated(pairs)),
        result.accuracy,
        common,
        tuple(differences) or None,
        groups_apart(common, options),
        _listed_intervals(result, people, resolved, options) if options.intervals else None,
        accuracy_interval(result.right_decisions, people, result.weights, options.redrawing)
        if options.intervals
        else None,
        curve_of(result.scores, result.operating_points) if options.curve else None,
        notes=notes,
    )


def _listed_intervals(
    result: ListedPairsResult, people: np.ndarray, fars: Sequence[str], options: Options
) -> tuple[PointIntervals, ...]:
    scores = PairScores.of_list(result.scores.score, result.scores.genuine, people)
    return point_intervals(scores, fars, options.redrawing, options.progress) if fars else ()


def _comparisons(embeddings: Embeddings, pairs: Path, path: Path) -> tuple[Comparisons, np.ndarray]:
    listed = read_bin_pairs(pairs) if pairs.suffix.lower() == BIN_SUFFIX else read_pairs(pairs)
    with errors_naming(path):
        left, right = listed.positions([str(name) for name in embeddings.names])
    folds = None if listed.folds is None else np.array(listed.folds, np.int64)
    domains = None if listed.domains is None else np.array(listed.domains)
    comparisons = Comparisons(left, right, np.array(listed.genuine), folds, listed.lines, domains)
    _, person = np.unique(embeddings.identities, return_inverse=True)
    known = embeddings.identities != NOBODY
    wrong = np.flatnonzero(known[left] & known[right] & ((person[left] == person[right]) != comparisons.genuine))
    if len(wrong):
        says = "genuine" if comparisons.genuine[wrong[0]] else "impostor"
        line = f"line {listed.lines[wrong[0]]}: " if listed.lines else ""
        raise ValueError(
            f"{pairs}: {line}listed as {says}, which the identities in {path} contradict ({len(wrong)} such "
            f"{'pair' if len(wrong) == 1 else 'pairs'})"
        )
    return comparisons, np.stack([person[left], person[right]], 1).astype(np.int64)
