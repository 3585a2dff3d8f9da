"""Figures with their intervals over redrawn people (see `bootstrap.py`), and differences of two models with theirs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64

from verisphere.base.vocabulary import REDRAWING, Progress, Redrawing, quietly
from verisphere.decide.bootstrap import (
    PairScores,
    TooFewScoresError,
    everyone,
    fars_at,
    over_redrawn,
    tars_at,
    thresholds_of,
)
from verisphere.decide.bounds import holds_zero
from verisphere.decide.effective import share_bounds
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.decide.weights import Weights

#: Stated at each table of intervals.
COVERAGE = (
    "in made-up sets such intervals held the truth in 90 to 100 % where people differ moderately, and in fewer where "
    "few people resemble many others: docs/uncertainty.md"
)


@dataclass(frozen=True)
class Interval:
    """A figure with its 95 % interval over redrawn people; replicates without the figure are excluded.

    How often such an interval contains the true value is measured, not guaranteed: see docs/uncertainty.md.

    >>> Interval(value=0.02, lower_95=-0.01, upper_95=0.05, replicates=1000).holds_zero
    True
    """

    value: float
    lower_95: float
    upper_95: float
    replicates: int

    @property
    def holds_zero(self) -> bool:
        """Whether a difference with this interval may be chance."""
        return holds_zero(self.lower_95, self.upper_95)


@dataclass(frozen=True)
class PointIntervals:
    """An operating point with the 95 % interval of each figure over redrawn people (see `Interval`).

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> (point,) = point_intervals(pairs, ["0.4"], Redrawing(replicates=20))
    >>> point.tar.value, point.threshold.value, point.people
    (1.0, 0.4, 3)

    Attributes:
        far_target: the FAR asked for, as it was given.
        rule: the rule by which each replicate finds its threshold; `at_most`.
        tar: TAR at the target FAR, each replicate at its own threshold.
        threshold: the threshold, from where the FAR of the set is the upper bound of `far` to where it is the lower one
            (Woodruff 1952); a bound may be minus infinity.
        far: FAR at the threshold of the whole set, held fixed.
        people: number of people who were redrawn.
        seed: seed of the draws.
        people_with_errors: number of people with a genuine pair that is rejected at the threshold of the whole set.
    """

    far_target: str
    rule: str
    tar: Interval
    threshold: Interval
    far: Interval
    people: int
    seed: int
    people_with_errors: int


@dataclass(frozen=True, eq=False)
class Redrawn:
    """A figure of one model.

    Attributes:
        replicates: the figure in each redrawing of the people; NaN if nobody with such a pair was drawn.
        spread: whether the figure measures how far domains lie apart. Redrawing adds noise to every domain, and so to
            such a figure, most of all where the domains are alike.
    """

    value: float
    replicates: Float64[np.ndarray, " replicates"]
    spread: bool = False


@dataclass(frozen=True)
class PairedDifference:
    """The difference of a figure between two models over the same comparisons.

    >>> ours, theirs = np.array([True, True, False]), np.array([True, False, False])
    >>> difference = PairedDifference.of(Interval(0.33, 0.0, 1.0, 1000), ours, theirs)
    >>> difference.only_ours, difference.only_theirs, difference.compared
    (1, 0, 3)

    Attributes:
        interval: the difference with its interval over redrawn people.
        only_ours: number of comparisons that only our model decides correctly (the counts of McNemar 1947).
        only_theirs: number of comparisons that only the other model decides correctly.
        compared: number of all comparisons.
    """

    interval: Interval
    only_ours: int
    only_theirs: int
    compared: int

    @classmethod
    def of(
        cls, interval: Interval, ours: Bool[np.ndarray, " pairs"], theirs: Bool[np.ndarray, " pairs"]
    ) -> "PairedDifference":
        """A difference with its counts, from the comparisons that each model decides correctly."""
        return cls(interval, int((ours & ~theirs).sum()), int((theirs & ~ours).sum()), len(ours))


def point_intervals(
    pairs: PairScores, fars: Sequence[Far], redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> tuple[PointIntervals, ...]:
    """TAR, threshold, and FAR at the fixed threshold, for each target FAR, with their intervals over redrawn people.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> (point,) = point_intervals(pairs, ["0.4"], Redrawing(replicates=20))
    >>> point.tar.value, round(point.tar.lower_95, 3), point.tar.upper_95
    (1.0, 0.292, 1.0)

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach a target FAR in a replicate.
        ValueError: no replicate has such a figure.
    """
    people = len(pairs.images)
    whole = everyone(people)
    fixed = thresholds_of(pairs, whole, fars)
    tar, far = tars_at(pairs, whole, fixed), fars_at(pairs, whole, fixed[:, 0])

    def both(weights: Weights) -> Float64[np.ndarray, "2 fars replicates"]:
        tars = tars_at(pairs, weights, thresholds_of(pairs, weights, fars))
        return np.stack([tars, fars_at(pairs, weights, fixed[:, 0])])

    tars, rates = over_redrawn(people, redrawing, both, lambda: [pairs, *map(exact_rate, fars)], progress)
    found = []
    for place, target in enumerate(fars):
        cut = float(fixed[place, 0])
        of_far = far_interval(pairs, cut, float(far[place, 0]), rates[place])
        found.append(
            PointIntervals(
                far_target=far_text(target),
                rule="at_most",
                tar=tar_at_target(pairs, cut, float(tar[place, 0]), tars[place]),
                threshold=threshold_interval(pairs, cut, of_far),
                far=of_far,
                people=people,
                seed=redrawing.seed,
                people_with_errors=len(np.unique(pairs.genuine_person[pairs.genuine <= cut])),
            )
        )
    return tuple(found)


def far_interval(
    pairs: PairScores, threshold: float, value: float, replicates: Float64[np.ndarray, " replicates"]
) -> Interval:
    """FAR at a fixed threshold, with its 95 % interval from its replicates (see `rates_at`)."""
    if pairs.listed:
        compared = np.bincount(pairs.impostor_people.ravel(), minlength=len(pairs.images))
    else:
        compared = pairs.images * (pairs.images.sum() - pairs.images)
    above = pairs.impostor_people[: np.count_nonzero(pairs.impostor > threshold)]
    influence = np.bincount(above.ravel(), minlength=len(pairs.images)) - value * compared
    return share_interval(value, replicates, pairs.impostor_total, influence, int(np.count_nonzero(compared)))


def tar_at_target(
    pairs: PairScores, threshold: float, value: float, replicates: Float64[np.ndarray, " replicates"]
) -> Interval:
    """TAR at the set's own threshold, with its 95 % interval from replicates with theirs."""
    influence = np.bincount(pairs.genuine_person, (pairs.genuine > threshold) - value, len(pairs.images))
    people = len(np.unique(pairs.genuine_person))
    return share_interval(value, replicates, len(pairs.genuine), influence, people)


def shares_over_people(
    compared: Float64[np.ndarray, "shares people"],
    accepted: Float64[np.ndarray, "shares people"],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> list[Interval]:
    """Shares of comparisons with intervals, by how many each person has, and how many of them are accepted.

    >>> compared = np.array([[60.0, *[1.0] * 40]])  # of 41 people, one with most comparisons
    >>> (found,) = shares_over_people(compared, compared - np.array([0.0] * 37 + [1.0] * 4))
    >>> [round(share, 2) for share in (found.value, found.lower_95, found.upper_95)]
    [0.96, 0.67, 1.0]
    """
    values = accepted.sum(1) / compared.sum(1)

    def shares(weights: Weights) -> Float64[np.ndarray, "shares replicates"]:
        total = compared @ weights.draws.T
        nobody_drawn = np.repeat(values[:, None], len(weights), axis=1)  # of a small domain
        return np.divide(accepted @ weights.draws.T, total, out=nobody_drawn, where=total > 0)

    redrawn = over_redrawn(compared.shape[1], redrawing, shares, lambda: [compared, accepted], progress)
    about = zip(values.tolist(), redrawn, compared, accepted - values[:, None] * compared, strict=True)
    return [share_interval(value, seen, of.sum(), moves, int((of > 0).sum())) for value, seen, of, moves in about]


def share_interval(
    value: float,
    replicates: Float64[np.ndarray, " replicates"],
    comparisons: int | float,
    influence: Float64[np.ndarray, " people"],
    people: int,
) -> Interval:
    """A share with its interval: `share_bounds`, or the middle 95 % of its replicates where they reach further.

    NaN in the replicates, where nobody with such a pair was drawn, is excluded; without others a ValueError is raised.
    """
    middle = percentile_interval(value, replicates)
    lower, upper = share_bounds(value, float(np.nanstd(replicates)), comparisons, influence, people)
    return replace(middle, lower_95=min(lower, middle.lower_95), upper_95=max(upper, middle.upper_95))


def threshold_interval(pairs: PairScores, threshold: float, far: Interval) -> Interval:
    """A threshold with the thresholds at which the FAR of the set is each bound of the FAR at it."""
    if np.isneginf(threshold):  # everything is accepted in every replicate
        return Interval(threshold, threshold, threshold, far.replicates)
    ends = [int(rate * pairs.impostor_total) for rate in (far.upper_95, far.lower_95)]
    if ends[0] >= len(pairs.impostor) and not pairs.complete:
        raise TooFewScoresError(f"{len(pairs.impostor)} impostor scores do not reach the upper bound of the FAR")
    lower, upper = (float(pairs.impostor[end]) if end < len(pairs.impostor) else -np.inf for end in ends)
    return Interval(threshold, lower, upper, far.replicates)


def whole_thresholds(pairs: PairScores, fars: Sequence[Far]) -> Float64[np.ndarray, " fars"]:
    """The threshold of the set itself at each target FAR, by the rule `at_most`.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> whole_thresholds(pairs, ["0.4", "0.7"])
    array([0.4, 0.3])

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach a target FAR.
    """
    return thresholds_of(pairs, everyone(len(pairs.images)), fars)[:, 0]


def tar_differences_at(
    ours: PairScores,
    theirs: PairScores,
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> tuple[Interval, ...]:
    """The difference in TAR of two models at each target FAR, each at its own threshold, over the same people.

    Both models use the same draws, so variation that is common to both cancels.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> (difference,) = tar_differences_at(pairs, pairs, ["0.4"], Redrawing(replicates=20))
    >>> difference.value  # of a model and itself
    0.0

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach the target FAR in a replicate.
        ValueError: the two do not describe the same images of the same people.
    """
    if not np.array_equal(ours.images, theirs.images):
        raise ValueError("the two models were not given the same images of the same people")
    both = [tars_redrawn(pairs, fars, redrawing, progress) for pairs in (ours, theirs)]
    return tuple(
        percentile_interval(first.value - second.value, first.replicates - second.replicates)
        for first, second in zip(*both, strict=True)
    )


def tars_redrawn(
    pairs: PairScores, fars: Sequence[Far], redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> tuple[Redrawn, ...]:
    """TAR at each target FAR; each replicate finds its own threshold."""
    whole = everyone(len(pairs.images))
    values = tars_at(pairs, whole, thresholds_of(pairs, whole, fars))[:, 0].tolist()

    def tars(weights: Weights) -> Float64[np.ndarray, "fars replicates"]:
        return tars_at(pairs, weights, thresholds_of(pairs, weights, fars))

    replicates = over_redrawn(len(pairs.images), redrawing, tars, lambda: [pairs, *map(exact_rate, fars)], progress)
    return tuple(map(Redrawn, values, replicates))


def rates_at(
    sets: Sequence[PairScores], threshold: float, redrawing: Redrawing = REDRAWING, progress: Progress = quietly
) -> tuple[Float64[np.ndarray, "sets replicates"], Float64[np.ndarray, "sets replicates"]]:
    """FAR and TAR of several sets of the same people at one fixed threshold, in each replicate.

    A rate is NaN where a replicate drew nobody who has such a pair.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> far, tar = rates_at([pairs], threshold=0.45, redrawing=Redrawing(replicates=4))
    >>> far.shape, tar.shape
    ((1, 4), (1, 4))

    Raises:
        TooFewScoresError: a set's impostors do not reach down to the threshold.
        ValueError: the sets do not number the same people.
    """
    people = {len(pairs.images) for pairs in sets}
    if len(people) != 1:
        raise ValueError(f"sets that are redrawn together must number the same people, got {sorted(people)}")
    cut = np.array([threshold])

    def rates(weights: Weights) -> Float64[np.ndarray, "2 sets replicates"]:
        fixed = np.full((1, len(weights)), threshold)
        far = np.concatenate([fars_at(pairs, weights, cut) for pairs in sets])
        return np.stack([far, np.concatenate([tars_at(pairs, weights, fixed) for pairs in sets])])

    far, tar = over_redrawn(people.pop(), redrawing, rates, lambda: [threshold, sets], progress)
    return far, tar


def percentile_interval(value: float, replicates: Float64[np.ndarray, " replicates"]) -> Interval:
    """A figure with the middle 95 % of its replicates; replicates without the figure, NaN, are excluded."""
    values = replicates[~np.isnan(replicates)]
    if not len(values):
        raise ValueError(f"none of {len(replicates)} replicates drew people that have such a pair; take more of them")
    if np.isinf(values).any():  # no value lies between an infinity and a number: take the outer one
        lower, upper = np.quantile(values, 0.025, method="lower"), np.quantile(values, 0.975, method="higher")
    else:
        lower, upper = np.quantile(values, [0.025, 0.975])
    return Interval(value, float(lower), float(upper), len(replicates))
