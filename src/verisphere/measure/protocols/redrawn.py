"""All pairs of a set over redrawn people: intervals, differences of models and of domains (see `decide`).

The highest impostor scores are held in memory, with their people: about twice as many as the largest FAR accepts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float32

from verisphere.base.vocabulary import REDRAWING, OperatingPoint, Progress, Redrawing, quietly
from verisphere.decide import (
    Far,
    GroupDifferences,
    Interval,
    PairedDifference,
    PairScores,
    PointIntervals,
    ask_deeper,
    exact_rate,
    point_intervals,
    rates_at,
    tar_differences_at,
    whole_thresholds,
    with_redrawn_bounds,
)
from verisphere.decide.intervals import Redrawn, far_interval, shares_over_people, tars_redrawn
from verisphere.decide.paired import RedrawnSpread, spread_redrawn
from verisphere.measure.protocols.all_pairs import PairsOfSet, ScoredPairs
from verisphere.score import pair_scores, unit_rows
from verisphere.score.genuine import genuine_pairs

ALL = ""  # all pairs of a set; no domain has an empty name
MOST_SCORES = 1 << 25  # impostor scores that a bootstrap may hold: 4 GB while they are collected, 0.8 GB after


def intervals_of_set(
    pairs: PairsOfSet, fars: Sequence[Far], redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> tuple[PointIntervals, ...]:
    """TAR, threshold, and FAR at it, over all pairs at each target FAR, with their intervals over redrawn people.

    How often such an interval contains the true value is measured, not guaranteed: see docs/uncertainty.md.
    """
    if not fars:
        return ()
    largest = max(fars, key=exact_rate)
    return ask_deeper(
        lambda times: point_intervals(pairs.highest(largest, times), fars, redrawing, progress),
    )


def tar_differences(
    ours: PairsOfSet,
    others: Sequence[PairsOfSet],
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> list[tuple[PairedDifference, ...]]:
    """The differences in TAR of one model from each other model over all pairs of the same images, at each target FAR.

    The images of all are in the same order. Memory grows with the largest FAR.
    """
    largest = max(fars, key=exact_rate)

    def ask(times: int) -> list[tuple[PairedDifference, ...]]:
        first = ours.highest(largest, times)
        differences = []
        for other in others:
            second = other.highest(largest, times)
            intervals = tar_differences_at(first, second, fars, redrawing, progress)
            decisions = zip(intervals, _accepted(ours, first, fars), _accepted(other, second, fars), strict=True)
            differences.append(tuple(PairedDifference.of(*decision) for decision in decisions))
        return differences

    return ask_deeper(ask)


def _accepted(pairs: PairsOfSet, highest: PairScores, fars: Sequence[Far]) -> list[Bool[np.ndarray, " pairs"]]:
    """Which genuine pairs are accepted at each target FAR, in an order that does not depend on the model."""
    genuine = pairs.all_scores(genuine=True)
    scores = genuine.scores[np.lexsort(np.sort(genuine.rows, 1).T)]
    return [scores > threshold for threshold in whole_thresholds(highest, fars)]


@dataclass(frozen=True, eq=False)
class RedrawnSet:
    """A model's TAR at each target FAR, and the spread of its domains if requested, in each redrawing of the people."""

    tars: tuple[Redrawn, ...]
    spread: RedrawnSpread | None


def redrawn_set(
    pairs: PairsOfSet,
    fars: Sequence[Far],
    one_far: Far | None = None,
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> RedrawnSet:
    """A model's figures in each replicate; those of other models of the same images pair with them (`mean_difference`).

    Memory grows with the largest FAR, and with that of the one threshold to where every domain has its own.
    """
    largest = max(fars, key=exact_rate)
    tars = ask_deeper(lambda times: tars_redrawn(pairs.highest(largest, times), fars, redrawing, progress))
    if one_far is None:
        return RedrawnSet(tars, None)
    return RedrawnSet(tars, ask_deeper(lambda times: _spread(pairs, one_far, times, redrawing, progress)))


def _spread(pairs: PairsOfSet, far: Far, times: int, redrawing: Redrawing, progress: Progress) -> RedrawnSpread:
    """The spread of the domains from the highest impostor scores of all pairs, of which each domain has its own."""
    genuine, impostor = pairs.highest_with_rows(far, times)
    pooled = pairs.with_people(genuine, impostor)
    domains = _within(pairs, pairs.domains, genuine, impostor, pooled.floor)
    return spread_redrawn(pooled, dict(zip(pairs.domains, domains, strict=True)), far, redrawing, progress)


def fars_over_people(
    pairs: PairsOfSet,
    points: Mapping[str, OperatingPoint],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> dict[str, Interval]:
    """The FAR over redrawn people of those points whose FAR is above the target by its binomial bounds.

    These bounds are too narrow where comparisons share people, so they cannot decide that a FAR is above its target.
    Other points are not redrawn, nor are any if more scores lie above the threshold than may be held. The points at one
    threshold are those of domains by their names, and of all pairs as `ALL`.
    """
    above = {name: point for name, point in points.items() if point.far_lower_95 > exact_rate(point.far_target)}
    if not above:
        return {}
    threshold = next(iter(above.values())).threshold
    if (impostors := pairs.everything(genuine=False).above(threshold)) > MOST_SCORES:
        return {}
    genuine, impostor = pairs.all_scores(genuine=True), pairs.highest_scores(impostors, genuine=False)
    sets = {name: part for name in above if name != ALL
            for part in _within(pairs, [name], genuine, impostor, threshold)}  # fmt: skip
    if ALL in above:
        sets[ALL] = replace(pairs.with_people(genuine, impostor), down_to=threshold)
    fars, _ = rates_at(list(sets.values()), threshold, redrawing, progress)
    found = zip(sets.items(), fars, strict=True)
    return {name: far_interval(part, threshold, above[name].far, rates) for (name, part), rates in found}


def tars_over_people(
    pairs: PairsOfSet,
    embeddings: Float32[np.ndarray, "rows dim"],
    thresholds: Sequence[float],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> dict[str, tuple[Interval, ...]]:
    """The TARs over redrawn people at fixed thresholds, of all pairs as `ALL` and within each domain that has a TAR.

    Genuine pairs, of which there must be some, are counted in portions by their people: memory does not grow with them.
    """
    names, cuts, rows = np.array([ALL, *pairs.domains]), (-np.inf, *thresholds), unit_rows(embeddings)
    counts = np.zeros((len(names), len(cuts), len(pairs.people)))  # of all, then of those above each threshold
    for left, right in genuine_pairs(pairs.person):
        scores = pair_scores(rows, torch.from_numpy(left), torch.from_numpy(right)).numpy()
        within = np.where(pairs.domain[left] == pairs.domain[right], pairs.domain[left], -1)
        for number, cut in np.ndindex(counts.shape[:2]):
            counted = (scores > cuts[cut]) & ((within == number - 1) | (number == 0))
            counts[number, cut] += np.bincount(pairs.person[left[counted]], minlength=len(pairs.people))
    some = counts[:, 0].any(1)
    counts = counts[some][..., counts[0, 0] > 0]
    compared = np.repeat(counts[:, 0], len(thresholds), axis=0)  # (domains and thresholds, people)
    found = shares_over_people(compared, counts[:, 1:].reshape(compared.shape), redrawing, progress)
    return dict(zip(names[some].tolist(), zip(*[iter(found)] * len(thresholds), strict=True), strict=True))


def domain_bounds(
    pairs: PairsOfSet,
    differences: GroupDifferences,
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> GroupDifferences:
    """Differences of domains at their one threshold, held fixed; a person in several domains is drawn once for all."""
    sets = _by_domain(pairs, differences.threshold, differences.groups)
    far, tar = rates_at(sets, differences.threshold, redrawing, progress)
    return with_redrawn_bounds(differences, far, tar, len(pairs.people))


def _by_domain(pairs: PairsOfSet, threshold: float, names: Sequence[str]) -> list[PairScores]:
    """The pairs of each domain that a bootstrap at a fixed threshold needs: every impostor score above it."""
    impostors = pairs.everything(genuine=False).above(threshold)
    impostor = pairs.highest_scores(impostors, genuine=False)
    return _within(pairs, names, pairs.all_scores(genuine=True), impostor, threshold)


def _within(
    pairs: PairsOfSet,
    names: Sequence[str],
    genuine: ScoredPairs,
    impostor: ScoredPairs,
    down_to: float,
) -> list[PairScores]:
    """The pairs within each domain, of every genuine score and of the highest impostor scores, all above `down_to`."""
    domain, person = pairs.domain, pairs.person
    sets = []
    for name in names:
        number = pairs.domains.index(name)
        same, different = ((domain[scored.rows] == number).all(1) for scored in (genuine, impostor))
        sets.append(
            PairScores(
                genuine=genuine.scores[same],
                genuine_person=person[genuine.rows[same, 0]],
                impostor=impostor.scores[different],
                impostor_people=person[impostor.rows[different]],
                images=np.bincount(person[domain == number], minlength=len(pairs.people)).astype(np.int64),
                down_to=down_to,
            )
        )
    return sets
