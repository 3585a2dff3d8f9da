"""Each person's own error rates over all pairs of a set, at the thresholds of its operating points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import OperatingPoint
from verisphere.decide import Opis, PeopleAtThreshold, PersonCounts, opis, people_at
from verisphere.decide.people import THRESHOLDS
from verisphere.measure.protocols.all_pairs import PairsOfSet, ScoredPairs


@dataclass(frozen=True, eq=False)
class PeopleOfSet:
    """The error rates of the people of a set at each threshold, and how they spread.

    Attributes:
        opis: inconsistency between the thresholds of the highest and the lowest FAR; None where these are the same, or
            nobody has both kinds of comparison.
    """

    counts: tuple[PersonCounts, ...]
    spreads: tuple[PeopleAtThreshold, ...]
    opis: Opis | None


def people_of_set(pairs: PairsOfSet, points: Sequence[OperatingPoint]) -> PeopleOfSet:
    """Each person's error rates at the thresholds of some operating points of all pairs, at least one.

    Holds every genuine score, and every impostor score above the lowest of the thresholds, with 24 bytes each.
    """
    images = np.bincount(pairs.person)
    totals = images * (images - 1) // 2, images * (len(pairs.person) - images)
    genuine = pairs.all_scores(genuine=True)
    impostor = pairs.highest_scores(max(point.impostor_accepted for point in points), genuine=False)
    people = [str(name) for name in pairs.people]
    counts = []
    for point in points:
        cut = np.array([point.threshold])
        accepted = (_accepted(side, pairs.person, cut, len(people))[0] for side in (genuine, impostor))
        same, other = accepted
        counts.append(PersonCounts(people, same // 2, totals[0], other, totals[1]))  # both rows are of that person
    spreads = (
        people_at(of_all, point.threshold, point.far_target, point.rule)
        for of_all, point in zip(counts, points, strict=True)
    )
    return PeopleOfSet(tuple(counts), tuple(spreads), _inconsistency(pairs, points, genuine, impostor, totals))


def _accepted(
    scored: ScoredPairs, person: Int64[np.ndarray, " rows"], cuts: Float64[np.ndarray, " cuts"], people: int
) -> Int64[np.ndarray, "cuts people"]:
    """The number of rows of each person in pairs that score above each cut; cuts descend."""
    last = np.searchsorted(-scored.scores, -cuts, side="left")  # scores descend; those equal to a cut are rejected
    accepted, start = np.zeros((len(cuts), people), np.int64), 0
    for number, stop in enumerate(last.tolist()):
        accepted[number] = np.bincount(person[scored.rows[start:stop]].ravel(), minlength=people)
        start = stop
    return accepted.cumsum(axis=0)


def _inconsistency(
    pairs: PairsOfSet,
    points: Sequence[OperatingPoint],
    genuine: ScoredPairs,
    impostor: ScoredPairs,
    totals: tuple[np.ndarray, np.ndarray],
) -> Opis | None:
    lowest, highest = (choose(points, key=lambda point: point.threshold) for choose in (min, max))
    compared = np.flatnonzero((totals[0] > 0) & (totals[1] > 0))
    if not len(compared) or not np.isfinite(lowest.threshold) or lowest.threshold == highest.threshold:
        return None
    cuts = np.linspace(highest.threshold, lowest.threshold, THRESHOLDS)
    people = len(pairs.people)
    tar = (_accepted(genuine, pairs.person, cuts, people) // 2)[:, compared] / totals[0][compared]
    far = _accepted(impostor, pairs.person, cuts, people)[:, compared] / totals[1][compared]
    fars = lowest.far_target, highest.far_target
    return Opis(opis(tar, far), lowest.threshold, highest.threshold, THRESHOLDS, len(compared), fars)
