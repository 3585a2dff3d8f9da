"""All pairs of a set when other people had been drawn: intervals, differences of models and of domains (see `decide`).

The highest impostor scores are held in memory, with their people: about twice as many as the largest FAR accepts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from verisphere.decide import (
    Far,
    GroupDifferences,
    PairedDifference,
    PairScores,
    PointIntervals,
    ask_deeper,
    enough,
    exact_rate,
    point_intervals,
    rates_at,
    tar_differences_at,
    whole_thresholds,
    with_redrawn_bounds,
)
from verisphere.decide.paired import Redrawn, RedrawnSpread, spread_redrawn, tars_redrawn
from verisphere.protocols.all_pairs import PairsOfSet
from verisphere.vocabulary import Progress, quietly


def intervals_of_set(
    pairs: PairsOfSet, fars: Sequence[Far], replicates: int = 1000, seed: int = 0, progress: Progress = quietly
) -> tuple[PointIntervals, ...]:
    """TAR, threshold, and FAR at it, over all pairs at each target FAR, with the middle 95 % over redrawn people.

    How often such an interval holds the truth is measured, not promised: see `MEASURED_COVERAGE` in `decide`.

    Args:
        pairs: the set's pairs.
        fars: target FARs; memory grows with the largest.
        replicates: of the bootstrap over people.
        seed: of its draws.
        progress: shown over replicates.
    """
    if not fars:
        return ()
    largest = max(fars, key=exact_rate)
    return ask_deeper(
        lambda times: point_intervals(pairs.highest(largest, times), fars, replicates, seed, progress),
    )


def differences_of_sets(
    ours: PairsOfSet,
    others: Sequence[PairsOfSet],
    fars: Sequence[Far],
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> list[tuple[PairedDifference, ...]]:
    """TAR of one model less TAR of each other over all pairs of the same images, at each target FAR.

    Args:
        ours: one model's pairs.
        others: those of other models, of the same images in the same order.
        fars: target FARs; memory grows with the largest.
        replicates: of the bootstrap over people.
        seed: of its draws.
        progress: shown over replicates.

    Raises:
        ValueError: the models do not hold the same images of the same people.
    """
    largest = max(fars, key=exact_rate)

    def ask(times: int) -> list[tuple[PairedDifference, ...]]:
        first = ours.highest(largest, times)
        found = []
        for other in others:
            second = other.highest(largest, times)
            intervals = tar_differences_at(first, second, fars, replicates, seed, progress)
            accepted = zip(_accepted(ours, first, fars), _accepted(other, second, fars), strict=True)
            found.append(tuple(PairedDifference.of(one, *both) for one, both in zip(intervals, accepted, strict=True)))
        return found

    return ask_deeper(ask)


def _accepted(pairs: PairsOfSet, highest: PairScores, fars: Sequence[Far]) -> list[Bool[np.ndarray, " pairs"]]:
    """Which genuine pairs are accepted at each target FAR, in an order that does not hang on the model."""
    scores, rows = pairs.all_scores(genuine=True)
    scores = scores[np.lexsort(np.sort(rows, 1).T)]
    return [scores > threshold for threshold in whole_thresholds(highest, fars)]


@dataclass(frozen=True, eq=False)
class RedrawnSet:
    """What one model does on a set, and in each redrawing of the set's people.

    Attributes:
        tars: TAR over all pairs, for each target FAR.
        spread: of the domains at one threshold, where that was asked for.
    """

    tars: tuple[Redrawn, ...]
    spread: RedrawnSpread | None


def redrawn_set(
    pairs: PairsOfSet,
    fars: Sequence[Far],
    one_far: Far | None = None,
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> RedrawnSet:
    """A model's figures in each replicate; those of other models of the same images pair with them (`mean_difference`).

    Args:
        pairs: the set's pairs.
        fars: target FARs; memory grows with the largest.
        one_far: target FAR of the one threshold of the set's domains; memory grows to where every domain has its own.
        replicates: of the bootstrap over people.
        seed: of its draws.
        progress: shown over replicates.

    Raises:
        ValueError: no target FAR; `one_far` and a set without domains.
    """
    largest = max(fars, key=exact_rate)
    tars = ask_deeper(lambda times: tars_redrawn(pairs.highest(largest, times), fars, replicates, seed, progress))
    if one_far is None:
        return RedrawnSet(tars, None)
    return RedrawnSet(tars, ask_deeper(lambda times: _spread(pairs, one_far, times, replicates, seed, progress)))


def _spread(pairs: PairsOfSet, far: Far, times: int, replicates: int, seed: int, progress: Progress) -> RedrawnSpread:
    """The spread of the domains from the highest impostor scores of all pairs, of which each domain has its own."""
    genuine = pairs.all_scores(genuine=True)
    wanted = enough(far, pairs.everything(genuine=False).total, times)
    scores, rows = pairs.pairs.highest(wanted, genuine=False)
    impostor = scores.numpy(), rows.numpy()
    person = pairs.person.numpy()
    pooled = PairScores(
        genuine=genuine[0],
        genuine_person=person[genuine[1][:, 0]],
        impostor=impostor[0],
        impostor_people=person[impostor[1]],
        images=np.bincount(person).astype(np.int64),
    )
    domains = _within(pairs, pairs.domains, genuine, impostor, pooled.floor)
    return spread_redrawn(pooled, dict(zip(pairs.domains, domains, strict=True)), far, replicates, seed, progress)


def domain_bounds(
    pairs: PairsOfSet,
    differences: GroupDifferences,
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress = quietly,
) -> GroupDifferences:
    """Differences of domains with bounds over redrawn people, at their one threshold, held fixed.

    A person who is in several domains is drawn for all of them together.

    Args:
        pairs: the set's pairs.
        differences: of its domains.
        replicates: of the bootstrap over people.
        seed: of its draws.
        progress: shown over replicates.
    """
    sets = _by_domain(pairs, differences.threshold, differences.groups)
    far, tar = rates_at(sets, differences.threshold, replicates, seed, progress)
    return with_redrawn_bounds(differences, far, tar, len(pairs.people))


def _by_domain(pairs: PairsOfSet, threshold: float, names: Sequence[str]) -> list[PairScores]:
    """What a bootstrap at a fixed threshold needs of each domain: every impostor score above it."""
    genuine, genuine_rows = pairs.all_scores(genuine=True)
    everyone = pairs.everything(genuine=False)
    scores, rows = pairs.pairs.highest(everyone.above(threshold), genuine=False)
    impostor, impostor_rows = scores.numpy(), rows.numpy()
    return _within(pairs, names, (genuine, genuine_rows), (impostor, impostor_rows), threshold)


def _within(
    pairs: PairsOfSet,
    names: Sequence[str],
    genuine: tuple[Float64[np.ndarray, " genuine"], Int64[np.ndarray, "genuine 2"]],
    impostor: tuple[Float64[np.ndarray, " impostor"], Int64[np.ndarray, "impostor 2"]],
    down_to: float,
) -> list[PairScores]:
    """The pairs within each domain.

    Args:
        pairs: the set's pairs.
        names: of the domains.
        genuine: every genuine score, and its two rows.
        impostor: the highest impostor scores, descending, and their rows.
        down_to: every impostor score above this is among them.
    """
    domain, person = pairs.pairs.domains.numpy(), pairs.person.numpy()
    found = []
    for name in names:
        number = pairs.domains.index(name)
        own, other = ((domain[rows] == number).all(1) for _, rows in (genuine, impostor))
        found.append(
            PairScores(
                genuine=genuine[0][own],
                genuine_person=person[genuine[1][own, 0]],
                impostor=impostor[0][other],
                impostor_people=person[impostor[1][other]],
                images=np.bincount(person[domain == number], minlength=len(pairs.people)).astype(np.int64),
                down_to=down_to,
            )
        )
    return found
