"""Thresholds with a guarantee from an embeddings or scores file or from arrays, and checks on this and other files."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path

import numpy as np

from verisphere.base.identity import decided
from verisphere.base.provenance import check_recorded, check_same_origin
from verisphere.base.vocabulary import Embeddings, Progress, Redrawing, quietly
from verisphere.base.words import REPLICATES
from verisphere.decide import Far, Guarantee
from verisphere.decide.both_errors import Fold
from verisphere.files.calibration import Calibration, Check, Source, distinct_fars, read_calibration
from verisphere.files.embeddings import same_people
from verisphere.files.errors import errors_naming
from verisphere.files.verdicts import Suspicious, read_verdicts
from verisphere.measure.protocols.redrawn import ALL
from verisphere.ship.calibrated_files import AskedThresholds, CalibratedFile, EmbeddingsSet, Labels, open_file
from verisphere.ship.calibration_check import (
    NOTHING,
    Accepted,
    check_of,
    note_templates,
    refuse_empty,
    refuse_implausible,
    refuse_training_people,
)

__all__ = ["Calibration", "Check", "Source", "calibrate", "read_calibration"]


def calibrate(
    path: Path,
    fars: Sequence[Far],
    guarantee: Guarantee = "confident",
    *,
    independent: bool = False,
    checks: Sequence[Path] = (),
    replicates: int | None = None,
    seed: int | None = None,
    skip_empty: bool = False,
    reviewed: Path | None = None,
    unfound: int = 0,
    wrong: int = 0,
    cap: float | None = None,
    factor: float | None = None,
    frr: Far | None = None,
    fold: Fold | None = None,
    probability: bool = False,
    accept_implausible: bool = False,
    accept_training_people: bool = False,
    accept_unrecorded_pixels: bool = False,
    progress: Progress = quietly,
) -> Calibration:
    """Thresholds at target FARs with a guarantee, and their rates on the calibration file and on other files.

    From embeddings, `expected` and `confident` use a random matching of people, one random image of each, the same for
    all FARs; `approximate` uses all pairs; `capped`, which takes a `cap`, `tail` and `convention` use all pairs of one
    random image of each, under an assumption (`verisphere.decide.assumption`). `worst-group` matches within each
    domain, and holds in all of them at once or, with a `factor`, for everybody and in each at so many times the target.
    From scores, `expected` and `confident` use the impostor scores. An `frr` beside them gives a lower threshold, from
    one number of each person (`verisphere.decide.both_errors`), which the `fold` names (`one`).

    The seed is that of the matching, or of the redrawings: choosing among several breaks the guarantee. On `checks`,
    embeddings of the same model or scores, the thresholds are checked; they change none. A `reviewed` list is one of
    `review_pairs`, of the same file and seed: comparisons that were found to show the same person are removed, and
    people are not paired anew, which would let the scores choose the pairs. With a `probability` scores are also mapped
    to log-likelihood ratios (`verisphere.decide.probability`). Accepted people of the training promise
    nothing about new people, and the thresholds say so, as they do of implausible scores (`decide.plausible`).

    Refused are scores that are not stated to be independent, checks that were made by another model or in another way,
    domains and check files without genuine or impostor comparisons, unless these are skipped, and, unless accepted,
    implausible scores, pixels that are not recorded, and people or images that were trained on.
    """
    distinct_fars(fars)
    opened = [open_file(file, progress) for file in (path, *checks)]
    if not any(isinstance(file, EmbeddingsSet) for file in opened):
        if decided():
            raise ValueError("--names is for embeddings; scores name no people")
        for name, value in (("replicates", replicates), ("seed", seed)):
            if value is not None:
                raise ValueError(
                    f"{path}: --{name} ({name}={value}) does nothing here: scores name no people to match or to "
                    "redraw; omit it"
                )
    labels = Labels(() if reviewed is None else read_verdicts(reviewed), reviewed or Path(), unfound, wrong)
    redrawing = Redrawing(REPLICATES if replicates is None else replicates, seed or 0)
    asked = AskedThresholds(fars, guarantee, redrawing, independent, labels, cap, factor, frr, fold, probability)
    accepted = Accepted(accept_implausible, accept_training_people, accept_unrecorded_pixels)
    if skip_empty and not any(len(lacks) > 1 or lacks[ALL] for lacks in (file.lacking() for file in opened)):
        raise ValueError(
            f"{path}: --skip-empty (skip_empty=True) does nothing here: no file has domains or lacks comparisons; omit "
            "it"
        )
    return _calibrated(_same_people(opened), asked, skip_empty, accepted)


def review_pairs(
    path: Path, count: int, seed: int = 0, reviewed: Path | None = None, progress: Progress = quietly
) -> tuple[list[Suspicious], Embeddings]:
    """The comparisons of a calibration to look at, those of an earlier review first; and their embeddings."""
    opened = open_file(path, progress)
    if not isinstance(opened, EmbeddingsSet):
        raise ValueError(f"{path}: a scores file names no photographs to look at; review the embeddings file")
    pairs = sorted(opened.pairs_of(*opened.matched(seed)), key=lambda pair: -pair.score)
    verdicts = () if reviewed is None else read_verdicts(reviewed)
    Labels(verdicts, reviewed or Path()).of(pairs)
    words = {verdict.seal: verdict.word for verdict in verdicts}
    before = [replace(pair, verdict=words[pair.seal]) for pair in pairs if pair.seal in words]
    pairs = [*before, *[pair for pair in pairs if pair.seal not in words][:count]]
    return pairs, opened.embeddings


def calibrate_set(
    embeddings: Embeddings,
    name: str,
    asked: AskedThresholds,
    accepted: Accepted = NOTHING,
    progress: Progress = quietly,
) -> Calibration:
    """Thresholds with a guarantee from embeddings in memory, checked on the same; empty domains are skipped."""
    distinct_fars(asked.fars)
    own = EmbeddingsSet(embeddings, name, digest_of_rows(embeddings), progress)
    return _calibrated([own], asked, True, accepted)


def digest_of_rows(embeddings: Embeddings) -> str:
    """The digest of a set in memory, of its numbers and identities."""
    found = sha256(np.ascontiguousarray(embeddings.embeddings).data)
    found.update("\0".join(embeddings.identities.tolist()).encode())
    return found.hexdigest()


def _calibrated(
    files: Sequence[CalibratedFile], asked: AskedThresholds, skip_empty: bool, accepted: Accepted
) -> Calibration:
    """Thresholds from the first file, checked on every file; see `calibrate`."""
    own = files[0]
    for file in files:
        if isinstance(file, EmbeddingsSet) and not accepted.training_people:
            refuse_training_people(file.embeddings, file.name)
    known = [file for file in files if file.origin is not None]
    for file in known:
        if file is not own or len(known) > 1:
            check_recorded(file.name, file.origin, accepted.unrecorded_pixels)
    for first, second in combinations(files, 2):  # each with each: the first may not record what two others do
        _same_model(first, second)
    note_templates(own.source)
    lacking = [refuse_empty(file, file is own, skip_empty) for file in files]
    of_files = [refuse_implausible(file.name, file.implausible(), accepted.implausible) for file in files]
    if asked.probability and lacking[0].get(ALL):
        raise ValueError(f"{own.name}: it has no genuine comparison, which a probability needs beside impostors")
    with errors_naming(own.name):
        thresholds, verdicts = own.thresholds(asked)
        probability = own.probability(verdicts, asked.redrawing) if asked.probability else None
    checked = [
        check_of(file, empty, thresholds, own, asked.redrawing, probability)
        for file, empty in zip(files, lacking, strict=True)
    ]
    implausible = tuple(chain.from_iterable(of_files))
    follows = ""
    if implausible:
        what = "scores calibrated on" if of_files[0] else "scores of a file that it was checked on"
        nothing = "so the threshold promises nothing" if of_files[0] else "so the rates measured on it say nothing"
        follows = f"the {what} cannot be right, {nothing}: {implausible[0]}"
    found = own.source, own.origin, thresholds, tuple(checked), implausible, verdicts, probability
    return Calibration(*found).described(follows)


def _same_people(files: Sequence[CalibratedFile]) -> list[CalibratedFile]:
    """The files, with one spelling of each person in all embeddings of them."""
    sets = [file for file in files if isinstance(file, EmbeddingsSet)]
    alike = iter(same_people(*((file.name, file.embeddings) for file in sets)))
    return [file.with_rows(next(alike)) if isinstance(file, EmbeddingsSet) else file for file in files]


def _same_model(own: CalibratedFile, other: CalibratedFile) -> None:
    """Raises ValueError where a file is known to belong to another model, or to be made in another way."""
    hint = "a threshold holds for the scores of one model, made in one way"
    if own.dim is not None and other.dim is not None and own.dim != other.dim:
        raise ValueError(f"{other.name}: {other.dim} numbers a row, but {own.name} has {own.dim}; {hint}")
    if None not in (own.people, other.people) and own.source.pooled != other.source.pooled:
        raise ValueError(
            f"{other.name}: its rows are {other.source.made_of}, and those of {own.name} {own.source.made_of}; {hint}"
        )
    check_same_origin(f"{own.name} was", own.origin, other.name, other.origin, hint)
