"""Thresholds with a guarantee from an embeddings or scores file or from arrays, and checks on this and other files."""

import zipfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import chain, combinations
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch

from verisphere.base.identity import decided
from verisphere.base.provenance import check_recorded, check_same_origin
from verisphere.base.vocabulary import REDRAWING, Embeddings, OperatingPoint, Origin, Progress, Redrawing, quietly
from verisphere.decide import (
    Far,
    Guarantee,
    GuaranteedThreshold,
    Interval,
    SortedScores,
    approximate_threshold,
    ask_deeper,
    disjoint_pairs,
    exact_rate,
    independent_threshold,
    split_domains,
)
from verisphere.decide.plausible import implausible_list
from verisphere.files.calibration import Calibration, Check, Source, distinct_fars, read_calibration
from verisphere.files.disk import check_file, digest
from verisphere.files.embeddings import read_known_people, same_people
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened
from verisphere.files.npz import names_in_npz
from verisphere.files.scores import read_scores
from verisphere.files.vectors import holds_vectors
from verisphere.measure.protocols import PairsOfSet
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.measure.protocols.redrawn import ALL, fars_over_people
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.calibration_check import CheckedFile, Pools, check_of, implausible_reasons, refuse_empty
from verisphere.ship.each_far import for_each_far
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
    opened = [_open(file, progress) for file in (path, *checks)]
    if decided() and not any(isinstance(file, _EmbeddingsSet) for file in opened):
        raise ValueError("--names is for embeddings; scores name no people")
    files = _same_people(opened)
    for file in files:
        if isinstance(file, _EmbeddingsSet) and not accept_training_people:
            refuse_training_people(file.embeddings, file.name)
    accepted = accept_implausible, accept_unrecorded_pixels
    return _calibrated(files, fars, guarantee, independent, replicates, seed, skip_empty, *accepted)


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
    digest_of_set = sha256(np.ascontiguousarray(embeddings.embeddings).data)
    digest_of_set.update("\0".join(embeddings.identities.tolist()).encode())
    own = _EmbeddingsSet(embeddings, name, digest_of_set.hexdigest(), progress)
    if not accept_training_people:
        refuse_training_people(embeddings, name)
    how = False, redrawing.replicates, redrawing.seed, True
    return _calibrated([own], fars, guarantee, *how, accept_implausible)


def _calibrated(
    files: Sequence["_File"],
    fars: Sequence[Far],
    guarantee: Guarantee,
    independent: bool,
    replicates: int,
    seed: int,
    skip_empty: bool,
    accept_implausible: bool,
    accept_unrecorded_pixels: bool = False,
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
        thresholds = own.thresholds(fars, guarantee, independent, replicates, seed)
    redrawing = Redrawing(replicates, seed)
    checked = [check_of(file, empty, thresholds, own, redrawing) for file, empty in zip(files, lacking, strict=True)]
    implausible = tuple(chain.from_iterable(of_files))
    follows = ""
    if implausible:
        what = "scores calibrated on" if of_files[0] else "scores of a file that it was checked on"
        nothing = "so the threshold promises nothing" if of_files[0] else "so the rates measured on it say nothing"
        follows = f"the {what} cannot be right, {nothing}: {implausible[0]}"
    return Calibration(own.source, own.origin, thresholds, tuple(checked), implausible).described(follows)


@runtime_checkable
class _File(CheckedFile, Protocol):
    """The interface of a file for calibration, of either kind."""

    dim: int | None

    def thresholds(
        self, fars: Sequence[Far], guarantee: Guarantee, independent: bool, replicates: int, seed: int
    ) -> tuple[GuaranteedThreshold, ...]:
        """One threshold for each FAR."""
        ...


class _EmbeddingsSet:
    """Embeddings from a file or from memory, whose comparisons are computed here."""

    def __init__(self, embeddings: Embeddings, name: str | Path, digest_of_set: str, progress: Progress) -> None:
        self.embeddings, self.name, self.progress = embeddings, name, progress
        self.origin = embeddings.origin
        self.dim: int | None = embeddings.embeddings.shape[1]
        self.people: frozenset[str] | None = frozenset(embeddings.identities.tolist())
        known = len(embeddings), len(self.people), embeddings.shared_with_training, embeddings.names_rule
        self.source = Source(Path(name).name, digest_of_set, "embeddings", *known)

    @cached_property
    def pairs(self) -> PairsOfSet:
        """All pairs, counted at the first use."""
        return PairsOfSet(self.embeddings, self.progress)

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """From the names alone, before any pair is scored."""
        people, domains = self.embeddings.identities, self.embeddings.domains
        groups = {ALL: people}
        if domains is not None:
            groups |= {str(name): people[domains == name] for name in np.unique(domains)}
        distinct = {name: len(np.unique(group)) for name, group in groups.items()}
        return {name: _kinds(distinct[name] < len(group), distinct[name] > 1) for name, group in groups.items()}

    def implausible(self) -> tuple[str, ...]:
        return implausible_set(self.embeddings)

    def thresholds(
        self, fars: Sequence[Far], guarantee: Guarantee, independent: bool, replicates: int, seed: int
    ) -> tuple[GuaranteedThreshold, ...]:
        if independent:
            raise ValueError(
                "--independent (independent=True) is for scores files; of embeddings, comparisons that share no person "
                "are chosen here"
            )
        if guarantee == "approximate":
            return self._approximate(fars, replicates, seed)
        people, person = np.unique(self.embeddings.identities, return_inverse=True)
        rows = torch.from_numpy(disjoint_pairs(person.astype(np.int64), seed))
        scores = SortedScores(pair_scores(unit_rows(self.embeddings.embeddings), rows[:, 0], rows[:, 1]))
        return for_each_far(
            fars, guarantee, len(people), lambda far: independent_threshold(scores, far, guarantee, len(people), seed)
        )

    def _approximate(self, fars: Sequence[Far], replicates: int, seed: int) -> tuple[GuaranteedThreshold, ...]:
        largest, redrawing = max(fars, key=exact_rate), Redrawing(replicates, seed)

        def ask(times: int) -> tuple[GuaranteedThreshold, ...]:
            pairs = self.pairs.highest(largest, times)
            return for_each_far(
                fars,
                "approximate",
                self.source.people or 0,
                lambda far: approximate_threshold(pairs, far, redrawing, self.progress),
            )

        return ask_deeper(ask)

    def fars_over_people(self, points: Mapping[str, OperatingPoint], redrawing: Redrawing) -> dict[str, Interval]:
        return fars_over_people(self.pairs, points, redrawing, self.progress)

    def pools(self, thresholds: Sequence[float]) -> Pools:
        self.pairs.prepare([], [], thresholds)
        everything = self.pairs.everything(genuine=True), self.pairs.everything(genuine=False)
        return {ALL: everything, **self.pairs.by_domain()}


class _ScoresFile:
    """A scores file: it contains the comparisons, without the people."""

    def __init__(self, path: Path) -> None:
        self.name: str | Path = path
        self.scores = read_scores(path)
        self.origin: Origin | None = None
        self.dim: int | None = None
        self.people: frozenset[str] | None = None
        self.source = Source(path.name, digest(path), "scores", len(self.scores.score), None)

    @cached_property
    def split(self) -> Pools:
        """Sorted scores of each domain, and of all comparisons, including those across domains."""
        score, genuine = self.scores.score, self.scores.genuine
        parts = {ALL: (score[genuine], score[~genuine])}
        if self.scores.domains is not None:
            parts |= split_domains(score, genuine, self.scores.domains)[0]
        return {name: (SortedScores(same), SortedScores(other)) for name, (same, other) in parts.items()}

    def lacking(self) -> dict[str, tuple[str, ...]]:
        return {name: _kinds(genuine.total > 0, impostor.total > 0) for name, (genuine, impostor) in self.split.items()}

    def implausible(self) -> tuple[str, ...]:
        return implausible_list(self.scores.genuine, lambda rows: self.scores.score[rows], self.scores.domains)

    def thresholds(
        self, fars: Sequence[Far], guarantee: Guarantee, independent: bool, replicates: int, seed: int
    ) -> tuple[GuaranteedThreshold, ...]:
        if guarantee == "approximate":
            raise ValueError(
                "guarantee 'approximate' redraws people, and a scores file does not say whose its scores are; "
                "calibrate from the embeddings file"
            )
        if not independent:
            raise ValueError(
                f"guarantee {guarantee!r} needs comparisons that share no person, which a scores file cannot show: say "
                "--independent (independent=True) where no person is in two of its impostor comparisons, else "
                "calibrate from the embeddings file"
            )
        impostor = self.split[ALL][1]
        return for_each_far(
            fars, guarantee, 2 * impostor.total, lambda far: independent_threshold(impostor, far, guarantee)
        )

    def fars_over_people(self, points: Mapping[str, OperatingPoint], redrawing: Redrawing) -> dict[str, Interval]:
        return {}

    def pools(self, thresholds: Sequence[float]) -> Pools:
        return self.split


def _open(path: Path, progress: Progress) -> _File:
    """A file of either kind: an .npz by the arrays in it, a table with identities, or else a scores file in CSV."""
    check_file(path)
    if holds_vectors(path):
        return _EmbeddingsSet(read_known_people(path), path, digest(path), progress)
    if not zipfile.is_zipfile(path):
        return _ScoresFile(path)
    arrays = names_in_npz(path)
    if "embeddings" in arrays:
        return _EmbeddingsSet(read_known_people(path), path, digest(path), progress)
    if "score" in arrays:
        return _ScoresFile(path)
    raise ValueError(
        f"{path}: neither an embeddings file (embeddings, names, identities) nor a scores file (score, label); it has "
        f"{shortened(', '.join(sorted(arrays)), 200) or 'nothing'}"
    )


def _same_people(files: Sequence[_File]) -> list[_File]:
    """The files, with one spelling of each person in all embeddings of them."""
    sets = [file for file in files if isinstance(file, _EmbeddingsSet)]
    alike = iter(same_people(*((file.name, file.embeddings) for file in sets)))
    return [
        _EmbeddingsSet(next(alike), file.name, file.source.sha256, file.progress)
        if isinstance(file, _EmbeddingsSet)
        else file
        for file in files
    ]


def _kinds(genuine: bool, impostor: bool) -> tuple[str, ...]:
    return tuple(kind for kind, there in (("genuine", genuine), ("impostor", impostor)) if not there)


def _same_model(own: _File, other: _File) -> None:
    """Raises ValueError where a file is known to belong to another model, or to be made in another way."""
    hint = "a threshold holds for the scores of one model, made in one way"
    if own.dim is not None and other.dim is not None and own.dim != other.dim:
        raise ValueError(f"{other.name}: {other.dim} numbers a row, but {own.name} has {own.dim}; {hint}")
    check_same_origin(f"{own.name} was", own.origin, other.name, other.origin, hint)
