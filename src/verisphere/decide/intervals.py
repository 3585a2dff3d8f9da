"""Figures with their intervals over redrawn people (see `bootstrap.py`), and differences of two models with theirs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from verisphere.base.vocabulary import REDRAWING, Progress, Redrawing, quietly
from verisphere.decide.bootstrap import (
    PairScores,
    draws_of,
    everyone,
    fars_at,
    redrawn,
    tars_at,
    thresholds_of,
)
from verisphere.decide.bounds import holds_zero
from verisphere.decide.point import Far, far_text

_PAIRS_AT_ONCE = 1 << 15  # pairs of a list that are weighted at once in every replicate of a run
#: Fewest people with a rejected genuine pair for an interval of TAR over people: with fewer, the exact binomial bounds
#: held more often in benchmarks/promises.py. A redrawing cannot show errors that the set does not have.
FEWEST_WITH_ERRORS = 3
#: Stated at each table of intervals.
COVERAGE = (
    "a set holds the truth less often than in 95 % where people x FAR is small or few genuine pairs are rejected: "
    "docs/uncertainty.md has the shares that were simulated"
)


@dataclass(frozen=True)
class Interval:
    """A figure with the middle 95 % of its bootstrap distribution; replicates without the figure are excluded.

    95 % of the replicates lie between `lower_95` and `upper_95`; how often the true value lies there is another number,
    see docs/uncertainty.md. An interval of a rate that is 0 or 1 in every replicate has no width.

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
    """An operating point with the middle 95 % of each figure over redrawn people (see `Interval`).

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
        threshold: the threshold; a bound may be minus infinity.
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

    @property
    def few_errors(self) -> bool:
        """Whether so few people have a rejected genuine pair that the interval of TAR says nothing."""
        return self.people_with_errors < FEWEST_WITH_ERRORS


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
    >>> point.tar
    Interval(value=1.0, lower_95=1.0, upper_95=1.0, replicates=20)

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach a target FAR in a replicate.
        ValueError: no replicate has such a figure.
    """
    people = len(pairs.images)
    whole = everyone(people)
    fixed = thresholds_of(pairs, whole, fars)
    tar, far = tars_at(pairs, whole, fixed), fars_at(pairs, whole, fixed[:, 0])
    runs: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for weights in redrawn(people, redrawing, progress):
        thresholds = thresholds_of(pairs, weights, fars)
        runs.append((tars_at(pairs, weights, thresholds), thresholds, fars_at(pairs, weights, fixed[:, 0])))
    tars, thresholds, rates = (np.concatenate(parts, axis=1) for parts in zip(*runs, strict=True))
    return tuple(
        PointIntervals(
            far_target=far_text(target),
            rule="at_most",
            tar=percentile_interval(float(tar[place, 0]), tars[place]),
            threshold=percentile_interval(float(fixed[place, 0]), thresholds[place]),
            far=percentile_interval(float(far[place, 0]), rates[place]),
            people=people,
            seed=redrawing.seed,
            people_with_errors=len(np.unique(pairs.genuine_person[pairs.genuine <= fixed[place, 0]])),
        )
        for place, target in enumerate(fars)
    )


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


def tar_interval(pairs: PairScores, far: Far, redrawing: Redrawing = REDRAWING) -> Interval:
    """TAR at a target FAR with its interval over redrawn people, the middle 95 % of the replicates.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> tar_interval(pairs, "0.4", Redrawing(replicates=20)).value
    1.0

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach the target FAR in a replicate.
    """
    return percentile_interval(*redrawn_tars(pairs, [far], redrawing, quietly)[0])


def tar_difference(
    ours: PairScores,
    theirs: PairScores,
    far: Far,
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> Interval:
    """The difference in TAR of two models at the same target FAR, each at its own threshold, over the same people.

    Both models use the same draws, so variation that is common to both cancels.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> tar_difference(pairs, pairs, "0.4", Redrawing(replicates=20)).value  # of a model and itself
    0.0

    Raises:
        TooFewScoresError: the impostor scores that are present do not reach the target FAR in a replicate.
        ValueError: the two do not describe the same images of the same people.
    """
    return tar_differences_at(ours, theirs, [far], redrawing, progress)[0]


def tar_differences_at(
    ours: PairScores,
    theirs: PairScores,
    fars: Sequence[Far],
    redrawing: Redrawing = REDRAWING,
    progress: Progress = quietly,
) -> tuple[Interval, ...]:
    """`tar_difference` at several target FARs, with the same draws.

    >>> genuine, people = np.array([0.9, 0.8, 0.7]), np.array([0, 1, 2])
    >>> impostor, two = np.array([0.5, 0.4, 0.3]), np.array([[0, 1], [1, 2], [0, 2]])
    >>> pairs = PairScores(genuine, people, impostor, two, images=np.array([1, 1, 1]))
    >>> len(tar_differences_at(pairs, pairs, ["0.4", "0.7"], Redrawing(replicates=20)))
    2
    """
    if not np.array_equal(ours.images, theirs.images):
        raise ValueError("the two models were not given the same images of the same people")
    both = [redrawn_tars(pairs, fars, redrawing, progress) for pairs in (ours, theirs)]
    pairs_of_tars = zip(*both, strict=True)
    return tuple(percentile_interval(first[0] - second[0], first[1] - second[1]) for first, second in pairs_of_tars)


def redrawn_tars(
    pairs: PairScores, fars: Sequence[Far], redrawing: Redrawing, progress: Progress
) -> list[tuple[float, Float64[np.ndarray, " replicates"]]]:
    """TAR of the set itself and of each replicate, for each target FAR."""
    whole = everyone(len(pairs.images))
    value = tars_at(pairs, whole, thresholds_of(pairs, whole, fars))[:, 0]
    runs = redrawn(len(pairs.images), redrawing, progress)
    tars = np.concatenate([tars_at(pairs, weights, thresholds_of(pairs, weights, fars)) for weights in runs], axis=1)
    return [(float(value[place]), tars[place]) for place in range(len(fars))]


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
    far, tar = [], []
    for weights in redrawn(people.pop(), redrawing, progress):
        fixed = np.full((1, len(weights)), threshold)
        far.append(np.concatenate([fars_at(pairs, weights, cut) for pairs in sets]))
        tar.append(np.concatenate([tars_at(pairs, weights, fixed) for pairs in sets]))
    return np.concatenate(far, axis=1), np.concatenate(tar, axis=1)


# --- accuracy of listed pairs ---


def accuracy_interval(
    right: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"] | None = None,
    redrawing: Redrawing = REDRAWING,
) -> Interval:
    """Share of right decisions on listed pairs, with its interval over redrawn people.

    >>> people = np.array([[0, 0], [0, 1], [1, 1], [1, 2]])
    >>> accuracy_interval(np.array([1.0, 1.0, 0.0, 1.0]), people, redrawing=Redrawing(replicates=20)).value
    0.75

    Args:
        right: 1 where the decision on a pair was right, else 0; decisions are fixed, at each fold's threshold.
        people: the two people of each pair, the same number twice for a genuine pair, which then counts once for each
            time its person was drawn.
        weights: weight of each pair in the mean; None weighs all pairs equally.

    Raises:
        ValueError: no replicate has a pair.
    """
    weights = np.full(len(right), 1 / len(right)) if weights is None else weights
    return percentile_interval(
        float(weights @ right / weights.sum()), redrawn_accuracy(right, people, weights, redrawing)
    )


def redrawn_accuracy(
    right: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"],
    redrawing: Redrawing = REDRAWING,
) -> Float64[np.ndarray, " replicates"]:
    """Share of right decisions in each replicate; NaN where nobody with a pair was drawn. See `accuracy_interval`."""
    numbers, members = np.unique(people, return_inverse=True)
    members = members.reshape(people.shape)
    same = members[:, 0] == members[:, 1]
    means = []
    for draws in draws_of(len(numbers), redrawing):
        total, hit = np.zeros(len(draws)), np.zeros(len(draws))
        for start in range(0, len(right), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            first, second = members[part].T
            counts = draws[:, first] * np.where(same[part], 1, draws[:, second])  # (replicates, pairs)
            total += counts @ weights[part]
            hit += counts @ (weights[part] * right[part])
        means.append(np.divide(hit, total, out=np.full(len(draws), np.nan), where=total > 0))
    return np.concatenate(means)


def accuracy_difference(
    ours: Float64[np.ndarray, " pairs"],
    theirs: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"] | None = None,
    redrawing: Redrawing = REDRAWING,
) -> Interval:
    """The difference in the share of right decisions of two models on the same listed pairs, over redrawn people.

    >>> people = np.array([[0, 0], [0, 1], [1, 1], [1, 2]])
    >>> ours, theirs = np.array([1.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    >>> accuracy_difference(ours, theirs, people, redrawing=Redrawing(replicates=20)).value
    0.25

    Args:
        ours: 1 where our decision on a pair was right, else 0; see `accuracy_interval` for all arguments.
        theirs: 1 where the other model's decision was right, else 0.
        people: the two people of each pair.
        weights: weight of each pair in the mean.
    """
    return accuracy_interval(ours - theirs, people, weights, redrawing)


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
