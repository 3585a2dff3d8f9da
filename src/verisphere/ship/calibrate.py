"""Thresholds with a guarantee from an embeddings or scores file or from arrays, and checks on this and other files."""

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch

from verisphere.decide import (
    Far,
    Guarantee,
    GuaranteedThreshold,
    Ordered,
    SortedScores,
    TooFewComparisonsError,
    approximate_threshold,
    ask_deeper,
    disjoint_pairs,
    exact_rate,
    independent_threshold,
    lacking_text,
    people_needed,
    point_at,
    split_domains,
)
from verisphere.decide.point import far_text
from verisphere.files.calibration import Calibration, Check, Source, distinct_fars, read_calibration
from verisphere.files.disk import check_file, digest
from verisphere.files.embeddings import read_known_people
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened
from verisphere.files.npz import names_in_npz
from verisphere.files.scores import read_scores
from verisphere.files.vectors import holds_vectors
from verisphere.protocols import PairsOfSet
from verisphere.score import pair_scores, unit_rows
from verisphere.vocabulary import REDRAWING, Embeddings, OperatingPoint, Origin, Progress, Redrawing, quietly

__all__ = ["Calibration", "Check", "Source", "calibrate", "read_calibration"]

Pools: TypeAlias = dict[str, tuple[Ordered, Ordered]]  # (genuine, impostor) scores of each domain, and of ALL
ALL = ""  # the pool of every comparison; no domain has an empty name


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
        progress: reports the progress over passes and replicates.

    Raises:
        FileNotFoundError: a file does not exist.
        TooFewComparisonsError: too few people or comparisons for the guarantee; a ValueError.
        ValueError: scores are not stated to be independent; a FAR is not allowed; embeddings belong to another model;
            or a domain or check file has no genuine or impostor comparisons, unless these are skipped.
    """
    distinct_fars(fars)
    files = [_open(file, progress) for file in (path, *checks)]
    return _calibrated(files, fars, guarantee, independent, replicates, seed, skip_empty)


def calibrate_set(
    embeddings: Embeddings,
    name: str,
    fars: Sequence[Far],
    guarantee: Guarantee = "confident",
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> Calibration:
    """Thresholds with a guarantee from embeddings in memory, checked on the same embeddings.

    Args:
        embeddings: the set. Domains without genuine or impostor comparisons are skipped, and named.
        name: name of the set in errors and in the calibration.
        fars: target FARs, all different.
        guarantee: see `verisphere.decide.guarantee`.
        redrawing: how often people are redrawn for `approximate`; its seed is also that of the matching.
        progress: reports the progress over passes and replicates.

    Raises:
        TooFewComparisonsError: too few people for the guarantee; a ValueError.
        ValueError: a FAR is not allowed, or the set has no impostor comparison.
    """
    distinct_fars(fars)
    digest_of_set = sha256(np.ascontiguousarray(embeddings.embeddings).data)
    digest_of_set.update("\0".join(embeddings.identities.tolist()).encode())
    own = _EmbeddingsSet(embeddings, name, digest_of_set.hexdigest(), progress)
    return _calibrated([own], fars, guarantee, False, redrawing.replicates, redrawing.seed, skip_empty=True)


def _calibrated(
    files: Sequence["_File"],
    fars: Sequence[Far],
    guarantee: Guarantee,
    independent: bool,
    replicates: int,
    seed: int,
    skip_empty: bool,
) -> Calibration:
    """Thresholds from the first file, checked on every file; see `calibrate`."""
    own, *others = files
    for other in others:
        _same_model(own, other)
    lacking = [_refuse_empty(file, file is own, skip_empty) for file in files]
    with errors_naming(own.name):
        thresholds = own.thresholds(fars, guarantee, independent, replicates, seed)
    checked = [_check(file, empty, thresholds, own) for file, empty in zip(files, lacking, strict=True)]
    return Calibration(own.source, own.origin, thresholds, tuple(checked)).described()


@runtime_checkable
class _File(Protocol):
    """The interface of a file for calibration, of either kind."""

    name: str | Path  # in errors
    source: Source
    origin: Origin | None
    dim: int | None
    people: frozenset[str] | None

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """The kinds of comparison, genuine or impostor, that are missing from each domain and from the whole."""
        ...

    def thresholds(
        self, fars: Sequence[Far], guarantee: Guarantee, independent: bool, replicates: int, seed: int
    ) -> tuple[GuaranteedThreshold, ...]:
        """One threshold for each FAR."""
        ...

    def pools(self, thresholds: Sequence[float]) -> Pools:
        """Scores of each domain and of the whole, prepared for these thresholds."""
        ...


class _EmbeddingsSet:
    """Embeddings from a file or from memory, whose comparisons are computed here."""

    def __init__(self, embeddings: Embeddings, name: str | Path, digest_of_set: str, progress: Progress) -> None:
        self.embeddings, self.name, self.progress = embeddings, name, progress
        self.origin = embeddings.origin
        self.dim: int | None = embeddings.embeddings.shape[1]
        self.people: frozenset[str] | None = frozenset(embeddings.identities.tolist())
        self.source = Source(Path(name).name, digest_of_set, "embeddings", len(embeddings), len(self.people))

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
        return _for_each(
            fars, guarantee, len(people), lambda far: independent_threshold(scores, far, guarantee, len(people), seed)
        )

    def _approximate(self, fars: Sequence[Far], replicates: int, seed: int) -> tuple[GuaranteedThreshold, ...]:
        largest, redrawing = max(fars, key=exact_rate), Redrawing(replicates, seed)

        def ask(times: int) -> tuple[GuaranteedThreshold, ...]:
            pairs = self.pairs.highest(largest, times)
            return _for_each(
                fars,
                "approximate",
                self.source.people or 0,
                lambda far: approximate_threshold(pairs, far, redrawing, self.progress),
            )

        return ask_deeper(ask)

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
        return _for_each(
            fars, guarantee, 2 * impostor.total, lambda far: independent_threshold(impostor, far, guarantee)
        )

    def pools(self, thresholds: Sequence[float]) -> Pools:
        return self.split


def _for_each(
    fars: Sequence[Far], guarantee: Guarantee, people: int, threshold: Callable[[Far], GuaranteedThreshold]
) -> tuple[GuaranteedThreshold, ...]:
    """The threshold at each FAR.

    Args:
        fars: target FARs.
        guarantee: guarantee of the thresholds.
        people: number of people; for a scores file, twice the number of comparisons.
        threshold: finds the threshold at one FAR.

    Raises:
        TooFewComparisonsError: too few for some of the FARs; describes the first, and states what the others need.
    """
    found: list[GuaranteedThreshold] = []
    for far in fars:
        try:
            found.append(threshold(far))
        except TooFewComparisonsError as error:
            needed = {far_text(other): people_needed(other, guarantee) for other in fars[len(found) + 1 :]}
            others = [f"FAR {other} needs {number:,} people" for other, number in needed.items() if number > people]
            raise TooFewComparisonsError("; ".join([str(error), *others])) from None
    return tuple(found)


def _open(path: Path, progress: Progress) -> _File:
    """A file of either kind: an .npz by the arrays in it, a table with identities, or else a scores file in CSV.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is neither an embeddings nor a scores file.
    """
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


def _kinds(genuine: bool, impostor: bool) -> tuple[str, ...]:
    return tuple(kind for kind, there in (("genuine", genuine), ("impostor", impostor)) if not there)


def _same_model(own: _File, other: _File) -> None:
    """Raises ValueError where a file is known to belong to another model."""
    hint = "a threshold holds for the scores of one model alone"
    if own.dim is not None and other.dim is not None and own.dim != other.dim:
        raise ValueError(f"{other.name}: {other.dim} numbers a row, but {own.name} has {own.dim}; {hint}")
    if own.origin is None or other.origin is None:
        return
    ours, theirs = asdict(own.origin), asdict(other.origin)
    made = ("model", "flip", "precision")
    differing = [f"{name} {theirs[name]} against {ours[name]}" for name in made if ours[name] != theirs[name]]
    if differing:
        raise ValueError(f"{other.name}: not made as {own.name} was ({', '.join(differing)}); {hint}")


def _refuse_empty(file: _File, calibrating: bool, skip_empty: bool) -> dict[str, tuple[str, ...]]:
    """The kinds of comparison that each domain, and the whole set, lacks; checked before any work.

    Raises:
        ValueError: a kind is missing where that is not allowed.
    """
    empty = {name: kinds for name, kinds in file.lacking().items() if kinds}
    whole = empty.get(ALL, ())
    if calibrating and "impostor" in whole:
        alone = "" if file.people is None else "; all its rows are of one person"
        raise ValueError(f"{file.name}: it has no impostor comparison, so it can set no threshold{alone}")
    if calibrating and whole:
        return empty  # genuine comparisons are for its check alone
    if empty and not skip_empty:
        parts = [f"it has no {' and no '.join(whole)} comparison"] if whole else []
        domains = {name: kinds for name, kinds in empty.items() if name != ALL}
        parts += [lacking_text(domains)] if domains else []
        raise ValueError(
            f"{file.name}: {', '.join(parts)}, so no rate can be checked; skip such ones by --skip-empty "
            "(skip_empty=True)"
        )
    return empty


def _check(
    file: _File, empty: dict[str, tuple[str, ...]], thresholds: Sequence[GuaranteedThreshold], own: _File
) -> Check:
    """The rates of the thresholds on a file, without the domains that lack comparisons."""
    points: dict[str, tuple[OperatingPoint, ...]] = {}
    if ALL not in empty:
        with errors_naming(file.name):
            points = {
                name: tuple(
                    point_at(genuine, impostor, found.threshold, found.far_target, found.guarantee)
                    for found in thresholds
                )
                for name, (genuine, impostor) in file.pools([found.threshold for found in thresholds]).items()
                if name not in empty
            }
    return Check(
        source=file.source,
        points=points.pop(ALL, ()),
        domains=points,
        skipped=tuple(name for name in empty if name != ALL),
        lacking=empty.get(ALL, ()),
        shared_people=None if file.people is None or own.people is None else len(file.people & own.people),
    )
