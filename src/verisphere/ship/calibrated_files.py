"""A file for calibration, embeddings or scores: its comparisons, and thresholds with a guarantee from them."""

import math
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import REDRAWING, Embeddings, Origin, Progress, Redrawing, quietly
from verisphere.decide import (
    Far,
    Guarantee,
    GuaranteedThreshold,
    Ordered,
    Review,
    SortedScores,
    TooFewComparisonsError,
    approximate_threshold,
    ask_deeper,
    disjoint_pairs,
    exact_rate,
    independent_threshold,
    people_needed,
    split_domains,
)
from verisphere.decide.assumed import assumed_threshold, check_given, scores_needed
from verisphere.decide.assumption import ASSUMED
from verisphere.decide.both_errors import AskedFrr, Fold, check_frr, folded
from verisphere.decide.each_domain import EVERYBODY
from verisphere.decide.gallery import one_probe_each
from verisphere.decide.plausible import implausible_list
from verisphere.decide.point import far_text
from verisphere.decide.probability import ScoreProbability, WeighedScores
from verisphere.decide.review import refuse_wrong
from verisphere.decide.worst_group import worst_group_threshold
from verisphere.files.calibration import Source
from verisphere.files.disk import check_file, digest
from verisphere.files.embeddings import read_known_people
from verisphere.files.json_values import shortened
from verisphere.files.npz import names_in_npz
from verisphere.files.scores import read_scores
from verisphere.files.sharded import digest_of_embeddings
from verisphere.files.vectors import holds_vectors
from verisphere.files.verdicts import Suspicious, Verdict, resolved
from verisphere.measure.protocols.all_pairs import PairsOfSet
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.measure.protocols.redrawn import ALL
from verisphere.models.gallery import Gallery, half_seals
from verisphere.score import pair_scores, unit_rows

BINS = 512  # of equally many scores of each kind, in which they are counted for a probability
MOST_REDRAWN = 1 << 21  # impostor pairs whose reliability is measured above a score
Pools: TypeAlias = dict[str, tuple[Ordered, Ordered]]  # (genuine, impostor) scores of each domain, and of ALL


@dataclass(frozen=True)
class Labels:
    """What is known, or allowed for, of wrong labels: a review with its file, and `unfound` and `wrong` ones."""

    verdicts: tuple[Verdict, ...] = ()
    path: Path = Path()
    unfound: int = 0
    wrong: int = 0

    def of(self, pairs: Sequence[Suspicious]) -> tuple[dict[str, int], tuple[Verdict, ...]]:
        """The position of each pair by its seal, and the verdicts with the names that the pairs have."""
        places = {pair.seal: place for place, pair in enumerate(pairs)}
        known = {pair.seal: pair for pair in pairs}
        return places, resolved(self.verdicts, self.path, known.get, "one embeddings file with one seed")

    def refuse(self, reason: str) -> None:
        """Refuse any review and allowance."""
        if self.verdicts or self.unfound or self.wrong:
            raise ValueError(f"no review (--reviewed, --unfound, --wrong) can be taken into account: {reason}")


@dataclass(frozen=True)
class AskedThresholds:
    """The thresholds that are asked for; see `verisphere.ship.calibrate.calibrate`."""

    fars: Sequence[Far]
    guarantee: Guarantee = "confident"
    redrawing: Redrawing = REDRAWING
    independent: bool = False
    labels: Labels = Labels()
    cap: float | None = None
    factor: float | None = None
    frr: Far | None = None
    fold: Fold | None = None
    probability: bool = False

    def __post_init__(self) -> None:
        check_given(self.guarantee, self.cap, self.factor)
        check_frr(self.frr, self.fold, self.guarantee)

    def each(self, people: int, threshold: Callable[[Far], GuaranteedThreshold]) -> tuple[GuaranteedThreshold, ...]:
        """The threshold at each FAR, or one error that says what all of them need."""
        found: list[GuaranteedThreshold] = []
        for far in self.fars:
            try:
                found.append(threshold(far))
            except TooFewComparisonsError as error:
                if self.guarantee not in ("expected", "confident", "approximate"):
                    raise
                needed = {
                    far_text(other): people_needed(other, self.guarantee) for other in self.fars[len(found) + 1 :]
                }
                others = [f"FAR {other} needs {number:,} people" for other, number in needed.items() if number > people]
                raise TooFewComparisonsError("; ".join([str(error), *others])) from None
        return tuple(found)


#: Thresholds, and the verdicts of a review with the names that the embeddings have.
Thresholds: TypeAlias = tuple[tuple[GuaranteedThreshold, ...], tuple[Verdict, ...]]


class EmbeddingsSet:
    """Embeddings from a file or from memory, whose comparisons are computed here."""

    def __init__(
        self, embeddings: Embeddings, name: str | Path, digest_of_set: str, progress: Progress = quietly
    ) -> None:
        self.embeddings, self.name, self.progress = embeddings, name, progress
        self.origin = embeddings.origin
        self.dim = int(embeddings.embeddings.shape[1])
        self.people = frozenset(embeddings.identities.tolist())
        known = len(embeddings), len(self.people), embeddings.shared_with_training, embeddings.names_rule
        pooled = embeddings.pooled_from is not None
        self.source = Source(Path(name).name, digest_of_set, "embeddings", *known, pooled)

    @classmethod
    def read(cls, path: Path, progress: Progress = quietly) -> "EmbeddingsSet":
        """An embeddings file."""
        return cls(read_known_people(path), path, digest_of_embeddings(path), progress)

    def with_rows(self, rows: Embeddings) -> "EmbeddingsSet":
        """Other rows of the same file, or its people spelled otherwise."""
        return EmbeddingsSet(rows, self.name, self.source.sha256, self.progress)

    @cached_property
    def pairs(self) -> PairsOfSet:
        """All pairs, counted at the first use."""
        return PairsOfSet(self.embeddings, self.progress)

    @cached_property
    def genuine(self) -> tuple[Float64[np.ndarray, " genuine"], Int64[np.ndarray, " genuine"]]:
        """Every genuine score, and the number of its person."""
        scores = self.pairs.all_scores(genuine=True)
        return scores.scores, self.pairs.person[scores.rows[:, 0]]

    def lacking(self) -> dict[str, tuple[str, ...]]:
        """The kinds of comparison that are missing from each domain and from the whole, by the names alone."""
        people, domains = self.embeddings.identities, self.embeddings.domains
        groups = {ALL: people}
        if domains is not None:
            groups |= {str(name): people[domains == name] for name in np.unique(domains)}
        distinct = {name: len(np.unique(group)) for name, group in groups.items()}
        return {name: _kinds(distinct[name] < len(group), distinct[name] > 1) for name, group in groups.items()}

    def implausible(self) -> tuple[str, ...]:
        """The reasons why the scores cannot be those of a working model with right labels."""
        return implausible_set(self.embeddings)

    def thresholds(self, asked: AskedThresholds) -> Thresholds:
        """One threshold for each FAR, from comparisons that share no person or, for `approximate`, from all."""
        guarantee, labels, seed = asked.guarantee, asked.labels, asked.redrawing.seed
        if asked.independent:
            raise ValueError(
                "--independent (independent=True) is for scores files; of embeddings, comparisons that share no person "
                "are chosen here"
            )
        if guarantee == "approximate" or guarantee in ASSUMED:
            labels.refuse(f"{guarantee!r} takes all pairs of all people, and assumes that every label is right")
            return (self._assumed(asked) if guarantee in ASSUMED else self._approximate(asked)), ()
        if guarantee == "worst-group":
            labels.refuse(f"{guarantee!r} reviews no domain by itself")
            return self._worst_group(asked), ()
        rows, scores = self.matched(seed)
        places, verdicts = labels.of(self.pairs_of(rows, scores) if labels.verdicts else [])
        same = [places[verdict.seal] for verdict in verdicts if verdict.word == "same"]
        scores = np.delete(scores, same)
        refuse_wrong(len(verdicts), labels.wrong)
        review = Review(len(verdicts), len(same), labels.unfound, labels.wrong)
        people, ordered = self.source.people or 0, SortedScores(torch.from_numpy(scores))
        frr, fold = None, asked.fold or "one"
        if asked.frr is not None:
            numbers = SortedScores(folded(*self._once(verdicts).genuine, fold, seed))
            frr = AskedFrr(asked.frr, fold, numbers, labels.unfound)
        about = guarantee, people, seed, review, frr
        return asked.each(people, lambda far: independent_threshold(ordered, far, *about)), verdicts

    def matched(self, seed: int) -> tuple[Int64[np.ndarray, "pairs 2"], Float64[np.ndarray, " pairs"]]:
        """Comparisons that share no person, and their scores."""
        person = np.unique(self.embeddings.identities, return_inverse=True)[1].astype(np.int64)
        rows = torch.from_numpy(disjoint_pairs(person, seed))
        return rows.numpy(), pair_scores(unit_rows(self.embeddings.embeddings), rows[:, 0], rows[:, 1]).numpy()

    def pairs_of(self, rows: Int64[np.ndarray, "pairs 2"], scores: Float64[np.ndarray, " pairs"]) -> list[Suspicious]:
        """The compared pairs, each with the digests of its rows."""
        halves = half_seals(Gallery(self.embeddings))
        names, people = self.embeddings.names.tolist(), self.embeddings.identities.tolist()
        return [
            Suspicious(names[left], names[right], people[left], people[right], score, f"{halves[left]}-{halves[right]}")
            for (left, right), score in zip(rows.tolist(), scores.tolist(), strict=True)
        ]

    def _once(self, verdicts: Sequence[Verdict]) -> "EmbeddingsSet":
        """The rows without the people whom a review found to be others of the set."""
        names, people = self.embeddings.names, self.embeddings.identities
        twice = people[np.isin(names, [verdict.photograph for verdict in verdicts if verdict.word == "same"])]
        return self.with_rows(self.embeddings.take(~np.isin(people, twice))) if len(twice) else self

    def _approximate(self, asked: AskedThresholds) -> tuple[GuaranteedThreshold, ...]:
        largest, people = max(asked.fars, key=exact_rate), self.source.people or 0

        def ask(times: int) -> tuple[GuaranteedThreshold, ...]:
            pairs = self.pairs.highest(largest, times)
            return asked.each(people, lambda far: approximate_threshold(pairs, far, asked.redrawing, self.progress))

        return ask_deeper(ask)

    def _assumed(self, asked: AskedThresholds) -> tuple[GuaranteedThreshold, ...]:
        """From all pairs of one random image of each person."""
        pairs = self._one_image_each(asked.redrawing.seed)
        people = len(pairs.people)
        most = max(scores_needed(far, asked.guarantee, people, asked.cap) for far in asked.fars)
        highest = pairs.with_people(pairs.highest_scores(0, genuine=True), pairs.highest_scores(most, genuine=False))
        about = asked.guarantee, asked.cap, asked.redrawing, self.progress
        return asked.each(people, lambda far: assumed_threshold(highest, far, *about))

    def _worst_group(self, asked: AskedThresholds) -> tuple[GuaranteedThreshold, ...]:
        """From comparisons within each domain and, with a factor, of everybody."""
        domains = self.embeddings.domains
        names = [] if domains is None else [str(name) for name in np.unique(domains)]
        if len(names) < 2:
            raise ValueError(
                f"guarantee 'worst-group' is about the domains of a set, and this one has {len(names) or 'none'}: "
                "embed it with domains (docs/data.md), or ask for 'confident'"
            )
        parts = {name: self.with_rows(self.embeddings.take(np.flatnonzero(domains == name))) for name in names}
        if asked.factor is not None:
            parts[EVERYBODY] = self
        people = {name: len(part.people) for name, part in parts.items()}
        scores = {name: part.matched(asked.redrawing.seed)[1] for name, part in parts.items()}
        about = asked.factor, asked.redrawing.seed, lambda name: parts[name].genuine[0]
        return asked.each(min(people.values()), lambda far: worst_group_threshold(scores, people, far, *about))

    def probability(self, verdicts: Sequence[Verdict], redrawing: Redrawing) -> ScoreProbability:
        """The log-likelihood ratios of scores: each person, and each two people by one image of each, count once."""
        kept = self._once(verdicts)
        single, (genuine, person) = kept._one_image_each(redrawing.seed), kept.genuine
        impostor, scores = single.everything(genuine=False), kept.weighed(redrawing.seed)
        found = scores.fitted(len(np.unique(person)), len(kept.people) // 2)
        ratios = np.arange(math.ceil(found.bounds[0]), math.floor(found.bounds[1]) + 1)
        borders = (ratios - found.intercept) / found.slope
        single.prepare([], [], borders.tolist())
        borders = borders[[impostor.above(border) <= MOST_REDRAWN for border in borders]]
        if not len(borders):
            return found
        highest = single.highest_scores(impostor.above(borders[0]), genuine=False)
        pairs = single.with_people(single.highest_scores(0, genuine=True), highest)
        pairs = replace(pairs, genuine=genuine, genuine_person=person, down_to=float(borders[0]))
        return scores.with_reliability(found, pairs, borders, redrawing, self.progress)

    def weighed(self, seed: int) -> WeighedScores:
        """Scores in bins; each person counts once, and each impostor comparison of one image each."""
        (genuine, person), impostor = self.genuine, self._one_image_each(seed).everything(genuine=False)
        place, pairs_of = np.unique(person, return_inverse=True, return_counts=True)[1:]
        shares = np.linspace(0, 1, BINS)
        of_impostor = [impostor.near(1 + round(share * (impostor.total - 1))) for share in shares]
        edges = np.unique([-1 - 1e-9, *np.quantile(genuine, shares), *of_impostor, 1 + 1e-9])  # cosines round
        same = np.histogram(genuine, edges, weights=1 / pairs_of[place])[0] / len(pairs_of)
        other = impostor.histogram(edges) / impostor.total
        seen = same + other > 0
        return WeighedScores(((edges[:-1] + edges[1:]) / 2)[seen], same[seen], other[seen])

    def _one_image_each(self, seed: int) -> PairsOfSet:
        """All pairs of one random image of each person."""
        return PairsOfSet(self.embeddings.take(one_probe_each(self.pairs.person, seed)), self.progress)

    def pools(self, thresholds: Sequence[float]) -> Pools:
        """Scores of each domain and of the whole, prepared for these thresholds."""
        self.pairs.prepare([], [], thresholds)
        everything = self.pairs.everything(genuine=True), self.pairs.everything(genuine=False)
        return {ALL: everything, **self.pairs.by_domain()}


class ScoresFile:
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
        """See `EmbeddingsSet`."""
        return {name: _kinds(genuine.total > 0, impostor.total > 0) for name, (genuine, impostor) in self.split.items()}

    def implausible(self) -> tuple[str, ...]:
        """See `EmbeddingsSet`."""
        return implausible_list(self.scores.genuine, lambda rows: self.scores.score[rows], self.scores.domains)

    def thresholds(self, asked: AskedThresholds) -> Thresholds:
        """One threshold for each FAR, from all impostor comparisons, which are stated to share no person."""
        guarantee = asked.guarantee
        if guarantee not in ("expected", "confident"):
            raise ValueError(
                f"guarantee {guarantee!r} chooses pairs of people, and a scores file does not say whose its scores "
                "are; calibrate from the embeddings file"
            )
        if not asked.independent:
            raise ValueError(
                f"guarantee {guarantee!r} needs comparisons that share no person, which a scores file cannot show: say "
                "--independent (independent=True) where no person is in two of its impostor comparisons (for "
                "--probability: of all its comparisons), else calibrate from the embeddings file"
            )
        if asked.frr is not None:
            raise ValueError(
                "an FRR is promised from one number of each person, and a scores file names no people; calibrate from "
                "the embeddings file"
            )
        asked.labels.refuse("a scores file names no photographs")
        impostor = self.split[ALL][1]
        return asked.each(2 * impostor.total, lambda far: independent_threshold(impostor, far, guarantee)), ()

    def probability(self, verdicts: Sequence[Verdict], redrawing: Redrawing) -> ScoreProbability:
        """The log-likelihood ratios of scores, without their reliability."""
        genuine, impostor = self.split[ALL]
        return self.weighed(redrawing.seed).fitted(genuine.total, impostor.total)

    def weighed(self, seed: int) -> WeighedScores:
        """The scores, each of which counts once."""
        values, place = np.unique(self.scores.score, return_inverse=True)
        kinds = self.scores.genuine, ~self.scores.genuine
        return WeighedScores(values, *(np.bincount(place[kind], minlength=len(values)) / kind.sum() for kind in kinds))

    def pools(self, thresholds: Sequence[float]) -> Pools:
        """See `EmbeddingsSet`."""
        return self.split


CalibratedFile: TypeAlias = EmbeddingsSet | ScoresFile


def open_file(path: Path, progress: Progress) -> CalibratedFile:
    """A file of either kind: an .npz by the arrays in it, a table with identities, or else a scores file in CSV."""
    if holds_vectors(path):
        return EmbeddingsSet.read(path, progress)
    check_file(path)
    if not zipfile.is_zipfile(path):
        return ScoresFile(path)
    arrays = names_in_npz(path)
    if "embeddings" in arrays:
        return EmbeddingsSet.read(path, progress)
    if "score" in arrays:
        return ScoresFile(path)
    raise ValueError(
        f"{path}: neither an embeddings file (embeddings, names, identities) nor a scores file (score, label); it has "
        f"{shortened(', '.join(sorted(arrays)), 200) or 'nothing'}"
    )


def _kinds(genuine: bool, impostor: bool) -> tuple[str, ...]:
    return tuple(kind for kind, there in (("genuine", genuine), ("impostor", impostor)) if not there)
