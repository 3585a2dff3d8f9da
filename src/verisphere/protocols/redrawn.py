"""All pairs of a set when other people had been drawn: intervals, differences of models and of domains (see `decide`).

The highest impostor scores are held in memory, with their people: about twice as many as the largest FAR accepts.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool

from verisphere.decide import (
    Far,
    GroupDifferences,
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
from verisphere.protocols.all_pairs import PairsOfSet
from verisphere.vocabulary import Progress, quietly


def intervals_of_set(
    pairs: PairsOfSet, fars: Sequence[Far], replicates: int = 1000, seed: int = 0, progress: Progress = quietly
) -> tuple[PointIntervals, ...]:
    """TAR, threshold, and FAR at it, over all pairs at each target FAR, with 95 % intervals over redrawn people.

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
    domain, person = pairs.pairs.domains.numpy(), pairs.person.numpy()

    def within(rows: np.ndarray, number: int) -> Bool[np.ndarray, " pairs"]:
        return (domain[rows] == number).all(1)

    found = []
    for name in names:
        number = pairs.domains.index(name)
        own, other = within(genuine_rows, number), within(impostor_rows, number)
        found.append(
            PairScores(
                genuine=genuine[own],
                genuine_person=person[genuine_rows[own, 0]],
                impostor=impostor[other],
                impostor_people=person[impostor_rows[other]],
                images=np.bincount(person[domain == number], minlength=len(pairs.people)).astype(np.int64),
                down_to=threshold,
            )
        )
    return found
