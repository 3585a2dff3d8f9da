"""Error rates of each person at one threshold, their spread over people, and the people with the highest rates.

One threshold does not treat everybody alike: some people are often mistaken for others, some are often not recognised.
A person's FAR is the share of the impostor comparisons with that person on either side that are accepted; a person's
FRR is the share of the genuine comparisons of that person that are rejected.

OPIS, the operating-point-inconsistency score (Zhang et al. 2024, arXiv:2307.04047), is the variance over people of the
utility at one threshold, averaged over a range of thresholds. The utility of a person is the harmonic mean of
sensitivity 1 - FRR and specificity 1 - FAR.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.decide.group_figures import gini

WORST_SHARE = 10  # the worst decile: one person in this number, rounded up
THRESHOLDS = 101  # thresholds, equally spaced, over which OPIS is averaged


@dataclass(frozen=True, eq=False)
class PersonCounts:
    """The counts of each person's comparisons at one threshold.

    >>> counts = PersonCounts(["Ann", "Ben"], np.array([2, 1]), np.array([4, 1]), np.array([1, 1]), np.array([5, 10]))
    >>> counts.far.tolist(), counts.frr.tolist()
    ([0.2, 0.1], [0.5, 0.0])

    Attributes:
        people: names of the people.
        genuine_accepted: genuine comparisons of each person that score > threshold.
        genuine_total: genuine comparisons of each person; may be 0.
        impostor_accepted: impostor comparisons with each person on either side that score > threshold.
        impostor_total: impostor comparisons with each person; may be 0.
    """

    people: Sequence[str]
    genuine_accepted: Int64[np.ndarray, " people"]
    genuine_total: Int64[np.ndarray, " people"]
    impostor_accepted: Int64[np.ndarray, " people"]
    impostor_total: Int64[np.ndarray, " people"]

    @property
    def far(self) -> Float64[np.ndarray, " people"]:
        """FAR of each person; NaN for a person without impostor comparisons."""
        return _shares(self.impostor_accepted, self.impostor_total)

    @property
    def frr(self) -> Float64[np.ndarray, " people"]:
        """FRR of each person; NaN for a person without genuine comparisons."""
        return _shares(self.genuine_total - self.genuine_accepted, self.genuine_total)


@dataclass(frozen=True)
class Spread:
    """The spread of an error rate over people.

    >>> errors, totals = np.array([0, 0, 1, 4]), np.array([10, 10, 10, 10])
    >>> spread = spread_of(["Ann", "Ben", "Cy", "Dee"], errors, totals)
    >>> spread.mean, spread.worst_decile, spread.worst_decile_rate, spread.worst_decile_share
    (0.125, ('Dee',), 0.4, 0.8)

    Attributes:
        people: number of people who have such comparisons.
        without_errors: number of these people without any error.
        mean: mean of the people's rates; every person counts alike, for any number of comparisons.
        std: population standard deviation of the people's rates.
        gini: Gini coefficient of the people's rates, corrected for the number of people as in GARBE; None if nobody has
            an error.
        highest: the highest rate.
        worst_decile: names of the tenth of the people (rounded up) with the highest rates, the highest first, people
            with equal rates in the order of their names; people without an error are not named.
        worst_decile_rate: mean rate of that tenth.
        worst_decile_share: share of that tenth in all people's errors; None where there is no error.
    """

    people: int
    without_errors: int
    mean: float
    std: float
    gini: float | None
    highest: float
    worst_decile: tuple[str, ...]
    worst_decile_rate: float
    worst_decile_share: float | None


@dataclass(frozen=True)
class PeopleAtThreshold:
    """The spread of FAR and FRR over people at one threshold.

    >>> counts = PersonCounts(["Ann", "Ben"], np.array([2, 1]), np.array([4, 1]), np.array([1, 1]), np.array([5, 10]))
    >>> people_at(counts, threshold=0.4, far_target="1e-1", rule="at_most").far.highest
    0.2

    Attributes:
        far_target: the FAR that the threshold was chosen for.
        rule: the rule by which the threshold was chosen.
        threshold: accept iff score > threshold.
        far: spread of the FAR over people.
        frr: spread of the FRR over the people with genuine comparisons.
    """

    far_target: str
    rule: str
    threshold: float
    far: Spread
    frr: Spread


@dataclass(frozen=True)
class Opis:
    """The operating-point-inconsistency score over a range of thresholds.

    >>> Opis(value=0.0113, lowest=0.24, highest=0.4, thresholds=101, people=1680, fars=("1e-2", "1e-4")).people
    1680

    Attributes:
        value: mean over the thresholds of the population variance of utility over people; 0 where everybody has the
            same utility at each threshold.
        lowest, highest: ends of the range of thresholds.
        thresholds: number of thresholds, equally spaced, both ends included.
        people: number of people with genuine and impostor comparisons; all others are excluded.
        fars: target FARs of the two ends.
    """

    value: float
    lowest: float
    highest: float
    thresholds: int
    people: int
    fars: tuple[str, str]


def spread_of(
    people: Sequence[str], errors: Int64[np.ndarray, " people"], totals: Int64[np.ndarray, " people"]
) -> Spread:
    """The spread of a rate over the people who have such comparisons.

    >>> spread_of(["Ann", "Ben"], np.array([1, 3]), np.array([10, 10])).worst_decile
    ('Ben',)

    Args:
        people: names of the people.
        errors: number of errors of each person.
        totals: number of comparisons of each person; a person without any is excluded.

    Raises:
        ValueError: nobody has a comparison.
    """
    compared = np.flatnonzero(totals)
    if not len(compared):
        raise ValueError(f"none of {len(people)} people has such a comparison, so there is no rate to spread")
    rates = errors[compared] / totals[compared]
    names = np.array([people[row] for row in compared.tolist()])
    order = np.lexsort((names, -rates))
    worst = order[: math.ceil(len(order) / WORST_SHARE)]
    total = int(errors[compared].sum())
    return Spread(
        people=len(compared),
        without_errors=int((rates == 0).sum()),
        mean=float(rates.mean()),
        std=float(rates.std()),
        gini=float(gini(rates)) if total and len(compared) > 1 else None,
        highest=float(rates.max()),
        worst_decile=tuple(names[worst][rates[worst] > 0].tolist()),
        worst_decile_rate=float(rates[worst].mean()),
        worst_decile_share=int(errors[compared][worst].sum()) / total if total else None,
    )


def people_at(counts: PersonCounts, threshold: float, far_target: str, rule: str) -> PeopleAtThreshold:
    """The spread of both error rates over people, from their counts at a threshold.

    >>> counts = PersonCounts(["Ann", "Ben"], np.array([2, 1]), np.array([4, 1]), np.array([1, 1]), np.array([5, 10]))
    >>> people_at(counts, threshold=0.4, far_target="1e-1", rule="at_most").frr.worst_decile
    ('Ann',)

    Raises:
        ValueError: nobody has a genuine, or nobody an impostor comparison.
    """
    return PeopleAtThreshold(
        far_target,
        rule,
        threshold,
        spread_of(counts.people, counts.impostor_accepted, counts.impostor_total),
        spread_of(counts.people, counts.genuine_total - counts.genuine_accepted, counts.genuine_total),
    )


def opis(tar: Float64[np.ndarray, "thresholds people"], far: Float64[np.ndarray, "thresholds people"]) -> float:
    """The operating-point-inconsistency score from each person's rates at equally spaced thresholds.

    With sensitivity TAR and specificity 1 - FAR, the utility of person i at threshold t is U_i(t) = 2 TAR (1 - FAR) /
    (TAR + 1 - FAR), and 0 where both are 0. The score is the mean over thresholds and people of (U_i(t) - mean U(t))^2.
    (Zhang et al. 2024 integrate over the range and divide by its length, with a factor c on the two rates that is 1
    here.)

    >>> opis(tar=np.array([[1.0, 0.5]]), far=np.array([[0.0, 0.0]])).__round__(6)  # utilities 1 and 2/3
    0.027778
    """
    specificity = 1 - far
    both = tar + specificity
    utility = np.divide(2 * tar * specificity, both, out=np.zeros_like(both), where=both > 0)
    return float(utility.var(axis=1).mean())


def _shares(
    errors: Int64[np.ndarray, " people"], totals: Int64[np.ndarray, " people"]
) -> Float64[np.ndarray, " people"]:
    return np.divide(errors, totals, out=np.full(len(totals), np.nan), where=totals > 0)
