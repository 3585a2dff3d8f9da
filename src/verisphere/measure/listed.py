"""Evaluates embeddings files on lists of image pairs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import NOBODY, Comparisons, Embeddings
from verisphere.decide import Accuracy, PairScores, PointIntervals, accuracy_interval, kfold_accuracy, point_intervals
from verisphere.files.embeddings import check_same_images, note_crowds, read_embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.files.results import EvaluatedFile
from verisphere.files.streamed_rows import evaluated
from verisphere.images.packs.bin_pairs import SUFFIX as BIN_SUFFIX
from verisphere.images.packs.bin_pairs import read_bin_pairs
from verisphere.measure.comparison import Difference, listed_against
from verisphere.measure.evaluate import (
    Options,
    at_one_threshold,
    calibration_of,
    check_redrawing,
    curve_of,
    groups_apart,
    refuse_without_domains,
)
from verisphere.measure.evaluation import Evaluation, accuracy_over_domains
from verisphere.measure.listed_rows import ListedRows, as_one_list, rows_of_list
from verisphere.measure.protocols.listed_pairs import (
    ListedPairsResult,
    listed_folds,
    listed_operating_points,
    listed_pairs,
)
from verisphere.measure.protocols.plausible import implausible_pairs
from verisphere.measure.sides import check_one_model


def evaluate_pairs(
    path: Path | Sequence[Path], pairs: Path | Sequence[Path], options: Options, against: Sequence[Path] = ()
) -> Evaluation:
    """Figures of listed pairs of an embeddings file: k-fold accuracy, operating points.

    A list is any that `read_pairs` reads, or a verification set of InsightFace (.bin), whose images have the names that
    its pack gives them. A pair with an image of `NOBODY` has the label that the list states.

    Several lists are pooled into one, in which each list is a domain by the name of its file: fold i of the pooled list
    is the i-th folds of all lists together. A list with groups of its own has a domain for each.
    """
    paths, lists = _several(path), _several(pairs)
    check_lists(paths, lists, options, against)
    opened = {file: read_embeddings(file) for file in dict.fromkeys(paths)}
    for file, embeddings in opened.items():
        note_crowds(file, embeddings.identities)
    origins = {file: embeddings.origin for file, embeddings in opened.items()}
    check_one_model(origins)
    files = [(file, opened[file]) for file in (paths * len(lists) if len(paths) == 1 else paths)]
    ours, list_files = _rows(lists, files, options, options.intervals or bool(against))
    source = ", ".join(map(str, lists))
    listed_domains = ours.comparisons.domains is not None or ours.embeddings.domains is not None
    refuse_without_domains(options, listed_domains and not options.points_only, source)
    unlikely, others = [*implausible_pairs(ours.embeddings, ours.comparisons)], list[EvaluatedFile]()
    sources = [*(evaluated(file, embeddings) for file, embeddings in opened.items()), *list_files]
    if options.points_only:
        with errors_naming(source):
            points = listed_operating_points(
                ours.embeddings, ours.comparisons, options.fars, options.rule, options.progress, keep_repeated=True
            )
        return Evaluation(points, tuple(sources), notes=ours.notes, implausible=tuple(unlikely))
    with errors_naming(source):
        result = listed_pairs(ours.embeddings, ours.comparisons, options.fars, options.rule, keep_repeated=True)
    resolved = [point.far_target for point in result.operating_points if not point.below_resolution]
    differences: list[Difference] = []
    for file in against:
        rows, first = read_embeddings(file), opened[paths[0]]
        _, of_ours, of_theirs = np.intersect1d(first.names, rows.names, return_indices=True)
        check_same_images(first.take(of_ours), paths[0], rows.take(of_theirs), file)
        theirs, _ = _rows(lists, [(file, rows)] * len(lists), options, redrawn=False)
        others.append(evaluated(file, rows))
        reasons_of_theirs = implausible_pairs(theirs.embeddings, theirs.comparisons)
        unlikely += [f"{file.name}: {reason}" for reason in reasons_of_theirs]
        differences += listed_against(
            result,
            listed_pairs(theirs.embeddings, theirs.comparisons, options.fars, options.rule, keep_repeated=True),
            ours.people,
            file,
            resolved if options.rule == "at_most" else (),
            options.redrawing,
            options.progress,
        )
    calibration, of_calibration, reasons = calibration_of(
        ours.embeddings, origins, options, ours.comparisons.domains is not None
    )
    common = at_one_threshold(result.scores, options, calibration)
    by_domain = _accuracies(ours.comparisons, result)
    return Evaluation(
        result.operating_points,
        tuple(sources),
        result.accuracy,
        common,
        tuple(differences) or None,
        groups_apart(common, options),
        _listed_intervals(result, ours.people, resolved, options) if options.intervals else None,
        accuracy_interval(result.right_decisions, ours.people, result.weights, options.redrawing)
        if options.intervals
        else None,
        curve_of(result.scores, result.operating_points) if options.curve else None,
        notes=ours.notes,
        domain_accuracy=by_domain,
        implausible=(*unlikely, *reasons),
        against=tuple(others),
        calibration=of_calibration,
        accuracy_over_domains=None if by_domain is None else accuracy_over_domains(list(by_domain.values())),
    )


def check_lists(paths: Sequence[Path], lists: Sequence[Path], options: Options, against: Sequence[Path]) -> None:
    """Refuse files and lists that do not go together, and options that exclude each other."""
    check_redrawing(options)
    if len(paths) not in (1, len(lists)):
        raise ValueError(
            f"{len(paths)} embeddings files for {len(lists)} {'list' if len(lists) == 1 else 'lists'} of pairs; name "
            "one file for all lists, or one for each"
        )
    if against and len(paths) > 1:
        raise ValueError("--against takes one embeddings file for all lists; name one of ours for all lists, too")
    if options.points_only and (against or options.calibration or options.intervals or options.curve):
        raise ValueError(
            "--points-only makes no score of each pair, which --against, --calibration, --intervals, --curve and "
            "--plot need"
        )
    if len(set(lists)) < len(lists):
        raise ValueError(f"{max(lists, key=lists.count)}: the list is named twice")
    _check_packs(lists, len(paths))


def _several(given: Path | Sequence[Path]) -> list[Path]:
    return [given] if isinstance(given, Path) else list(given)


def _is_pack(path: Path) -> bool:
    return path.suffix.lower() == BIN_SUFFIX


def read_list(path: Path) -> PairList:
    """A list of pairs: one that `read_pairs` reads, or a verification set of InsightFace (.bin)."""
    return read_bin_pairs(path) if _is_pack(path) else read_pairs(path)


def _check_packs(lists: Sequence[Path], files: int) -> None:
    """Refuse several verification sets for one embeddings file, since their images would have the same names."""
    packs = [path for path in lists if _is_pack(path)]
    if files == 1 and len(packs) > 1:
        raise ValueError(
            f"{packs[1]}: its images have the same names as those of {packs[0].name}, 0000/left and so on; name an "
            "embeddings file for each list"
        )


def _evaluated_list(part: Path, path: Path) -> EvaluatedFile:
    """The record of a list, or of a file below a list that is a folder, by its path."""
    record = replace(evaluated(part), is_list=True)
    if not path.is_dir():
        return record
    folder, file = path.resolve(), part.resolve()
    return replace(record, file=str(file.relative_to(folder.parent))) if file.is_relative_to(folder) else record


def _rows(
    lists: Sequence[Path], files: Sequence[tuple[Path, Embeddings]], options: Options, redrawn: bool
) -> tuple[ListedRows, list[EvaluatedFile]]:
    """The rows and pairs of all lists as one list, and the files of the lists.

    A list of millions of pairs takes much memory until it is positions of rows, so each is dropped before the next.
    """
    parts: list[tuple[Path, ListedRows]] = []
    sources: list[EvaluatedFile] = []
    for path, (file, embeddings) in zip(lists, files, strict=True):
        listed = read_list(path)
        sources += [_evaluated_list(part, path) for part in listed.files or (path,)]
        images = "" if embeddings.origin is None else Path(embeddings.origin.images).name
        if _is_pack(path) and images.lower().endswith(BIN_SUFFIX) and images != path.name:
            raise ValueError(
                f"{file}: made of {images}, but is to be compared by the pairs of {path.name}; all such sets give "
                "their images the same names, so name the files in the order of the lists"
            )
        nobody = int((embeddings.identities == NOBODY).sum())
        if redrawn and nobody and listed.people is None:
            raise ValueError(
                f"{file}: {nobody} embeddings have the identity {NOBODY}: nobody is known on them, so no people can be "
                "redrawn; leave --intervals and --against out"
            )
        parts.append((path, rows_of_list(listed, path, embeddings, file, options.feature_norm, options.keep_repeated)))
        del listed
    return as_one_list(parts), sources


def _accuracies(comparisons: Comparisons, result: ListedPairsResult) -> dict[str, Accuracy] | None:
    """The accuracy of each domain that the list states, over its part of each fold, in the order of the list."""
    if comparisons.domains is None:
        return None
    folds, accuracies = listed_folds(comparisons), {}
    for domain in dict.fromkeys(comparisons.domains.tolist()):
        inside = comparisons.domains == domain
        with errors_naming(domain):
            accuracies[domain] = kfold_accuracy(result.scores.score[inside], comparisons.genuine[inside], folds[inside])
    return accuracies


def _listed_intervals(
    result: ListedPairsResult, people: np.ndarray, fars: Sequence[str], options: Options
) -> tuple[PointIntervals, ...]:
    scores = PairScores.of_list(result.scores.score, result.scores.genuine, people)
    return point_intervals(scores, fars, options.redrawing, options.progress) if fars else ()
