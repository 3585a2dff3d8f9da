"""Thresholds with a guarantee from an embeddings or scores file or from arrays, and checks on this and other files."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path

import numpy as np

from verisphere.base.identity import decided
from verisphere.base.provenance import check_recorded, check_same_origin
from verisphere.base.vocabulary import REDRAWING, Embeddings, Progress, Redrawing, quietly
from verisphere.decide import (
    Far,
    Guarantee,
)
from verisphere.files.calibration import Calibration, Check, Source, distinct_fars, read_calibration
from verisphere.files.embeddings import same_people
from verisphere.files.errors import errors_naming
from verisphere.files.verdicts import Suspicious, read_verdicts
from verisphere.ship.calibrated_files import CalibratedFile, EmbeddingsSet, Labels, open_file
from verisphere.ship.calibration_check import check_of, implausible_reasons, refuse_empty
from verisphere.ship.training_people import refuse_training_people

__all__ = ["Calibration", "Check", "Source", "calibrate", "read_calibration"]


def calibrate(
    path: Path,
    fars: Sequence[Far],
    guarantee: Guarantee = "confident",
    *,
    independent: bool = False,
    checks: Sequence[Path] = (),
    replicates: int = 1000,
    seed: int = 0,
    skip_empty: bool = False,
    reviewed: Path | None = None,
    unfound: int = 0,
    wrong: int = 0,
    accept_implausible: bool = False,
    accept_training_people: bool = False,
    accept_unrecorded_pixels: bool = False,
    progress: Progress = quietly,
) -> Calibration:
    """Thresholds at target FARs with a guarantee, and their rates on the calibration file and on other files.

    From embeddings, `expected` and `confident` use a random matching of people, one random image of each, the same for
    all FARs; `approximate` uses all pairs. From scores, `expected` and `confident` use the impostor scores.

    Args:
        path: embeddings file, or scores file.
        fars: target FARs, all different.
        guarantee: see `verisphere.decide.guarantee`.
        independent: states for a scores file that no person is in two of its impostor comparisons.
        checks: embeddings of the same model, or scores, on which the thresholds are checked; they change no threshold.
        replicates: redrawings of the people, for `approximate`; its memory grows with the largest FAR.
        seed: seed of the matching, or of the redrawings. Choosing among several seeds breaks the guarantee.
        skip_empty: skip, and name, domains and check files without genuine or impostor comparisons.
        reviewed: a filled-in list of `review_pairs`, of the same file and seed: comparisons that were found to show the
            same person are removed; people are not paired anew, which would let the scores choose the pairs.
        unfound: comparisons that may show the same person without having been found; see `verisphere.decide.review`.
        wrong: comparisons that may have been removed by a wrong verdict.
        accept_implausible: calibrate also where the scores cannot be those of a working model with right labels (see
            `verisphere.decide.plausible`); the calibration then records the reasons.
        accept_training_people: accept files with people or images that the model was trained on; the thresholds then
            promise nothing about new people, and say so.
        accept_unrecorded_pixels: accept files of versions that did not record the pixels that the model took.
        progress: reports the progress over passes and replicates.

    Raises:
        FileNotFoundError: a file does not exist.
        TooFewComparisonsError: too few people or comparisons for the guarantee; a ValueError.
        ValueError: scores are not stated to be independent; a FAR is not allowed; a check was made by another model or
            in another way; a domain or check file has no genuine or impostor comparisons, unless these are skipped; or,
            unless accepted, scores are implausible, pixels are not recorded, or people or images were trained on.
    """
    distinct_fars(fars)
    opened = [open_file(file, progress) for file in (path, *checks)]
    if decided() and not any(isinstance(file, EmbeddingsSet) for file in opened):
        raise ValueError("--names is for embeddings; scores name no people")
    files = _same_people(opened)
    for file in files:
        if isinstance(file, EmbeddingsSet) and not accept_training_people:
            refuse_training_people(file.embeddings, file.name)
    accepted = accept_implausible, accept_unrecorded_pixels
    labels = Labels(() if reviewed is None else read_verdicts(reviewed), reviewed, unfound, wrong)
    return _calibrated(files, fars, guarantee, independent, replicates, seed, skip_empty, *accepted, labels)


def review_pairs(
    path: Path, count: int, seed: int = 0, reviewed: Path | None = None, progress: Progress = quietly
) -> tuple[list[Suspicious], Embeddings]:
    """The comparisons of a calibration that score highest, to look at, and the embeddings that they are from.

    Args:
        path: embeddings file.
        count: number of comparisons, at most.
        seed: seed of the matching.
        reviewed: a list of an earlier review, whose comparisons come first, with their verdicts.
        progress: reports the progress.
    """
    opened = open_file(path, progress)
    if not isinstance(opened, EmbeddingsSet):
        raise ValueError(f"{path}: a scores file names no photographs to look at; review the embeddings file")
    pairs = sorted(opened.pairs_of(*opened.matched(seed)), key=lambda pair: -pair.score)
    labels = Labels(() if reviewed is None else read_verdicts(reviewed), reviewed)
    labels.resolve(pairs)
    words = {verdict.seal: verdict.word for verdict in labels.verdicts}
    before = [replace(pair, verdict=words[pair.seal]) for pair in pairs if pair.seal in words]
    pairs = [*before, *[pair for pair in pairs if pair.seal not in words][:count]]
    return pairs, opened.embeddings


def calibrate_set(
    embeddings: Embeddings,
    name: str,
    fars: Sequence[Far],
    guarantee: Guarantee = "confident",
    redrawing: Redrawing = REDRAWING,
    accept_implausible: bool = False,
    accept_training_people: bool = False,
    progress: Progress = quietly,
) -> Calibration:
    """Thresholds with a guarantee from embeddings in memory, checked on the same embeddings.

    Args:
        embeddings: the set. Domains without genuine or impostor comparisons are skipped, and named.
        name: name of the set in errors and in the calibration.
        fars: target FARs, all different.
        guarantee: see `verisphere.decide.guarantee`.
        redrawing: how often people are redrawn for `approximate`; its seed is also that of the matching.
        accept_implausible, accept_training_people: see `calibrate`.
        progress: reports the progress over passes and replicates.
    """
    distinct_fars(fars)
    own = EmbeddingsSet(embeddings, name, digest_of_rows(embeddings), progress)
    if not accept_training_people:
        refuse_training_people(embeddings, name)
    how = False, redrawing.replicates, redrawing.seed, True
    return _calibrated([own], fars, guarantee, *how, accept_implausible)


def digest_of_rows(embeddings: Embeddings) -> str:
    """The digest of a set in memory, of its numbers and identities."""
    found = sha256(np.ascontiguousarray(embeddings.embeddings).data)
    found.update("\0".join(embeddings.identities.tolist()).encode())
    return found.hexdigest()


def _calibrated(
    files: Sequence["CalibratedFile"],
    fars: Sequence[Far],
    guarantee: Guarantee,
    independent: bool,
    replicates: int,
    seed: int,
    skip_empty: bool,
    accept_implausible: bool,
    accept_unrecorded_pixels: bool = False,
    labels: "Labels | None" = None,
) -> Calibration:
    """Thresholds from the first file, checked on every file; see `calibrate`."""
    own = files[0]
    for first, second in combinations(files, 2):  # each with each: the first may not record what two others do
        _same_model(first, second)
    known = [file for file in files if file.origin is not None]
    for file in known:
        if file is not own or len(known) > 1:
            check_recorded(file.name, file.origin, accept_unrecorded_pixels)
    lacking = [refuse_empty(file, file is own, skip_empty) for file in files]
    of_files = [implausible_reasons(file, accept_implausible) for file in files]
    with errors_naming(own.name):
        thresholds = own.thresholds(fars, guarantee, independent, replicates, seed, labels or Labels())
    redrawing = Redrawing(replicates, seed)
    checked = [check_of(file, empty, thresholds, own, redrawing) for file, empty in zip(files, lacking, strict=True)]
    implausible = tuple(chain.from_iterable(of_files))
    follows = ""
    if implausible:
        what = "scores calibrated on" if of_files[0] else "scores of a file that it was checked on"
        nothing = "so the threshold promises nothing" if of_files[0] else "so the rates measured on it say nothing"
        follows = f"the {what} cannot be right, {nothing}: {implausible[0]}"
    verdicts = () if labels is None else labels.resolved
    return Calibration(own.source, own.origin, thresholds, tuple(checked), implausible, verdicts).described(follows)


def _same_people(files: Sequence[CalibratedFile]) -> list[CalibratedFile]:
    """The files, with one spelling of each person in all embeddings of them."""
    sets = [file for file in files if isinstance(file, EmbeddingsSet)]
    alike = iter(same_people(*((file.name, file.embeddings) for file in sets)))
    return [
        EmbeddingsSet(next(alike), file.name, file.source.sha256, file.progress)
        if isinstance(file, EmbeddingsSet)
        else file
        for file in files
    ]


def _same_model(own: CalibratedFile, other: CalibratedFile) -> None:
    """Raises ValueError where a file is known to belong to another model, or to be made in another way."""
    hint = "a threshold holds for the scores of one model, made in one way"
    if own.dim is not None and other.dim is not None and own.dim != other.dim:
        raise ValueError(f"{other.name}: {other.dim} numbers a row, but {own.name} has {own.dim}; {hint}")
    check_same_origin(f"{own.name} was", own.origin, other.name, other.origin, hint)
