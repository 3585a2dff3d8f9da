"""ROC and DET points with their counts, of scores in memory or of any `Ordered` scores."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import OperatingPoint
from verisphere.decide.order import Ordered, ScoresLike, SortedScores, ordered


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of scores between neighbouring edges, ascending; scores beyond the outer ones are in the totals alone."""

    edges: Float64[np.ndarray, " edges"]
    genuine: Int64[np.ndarray, " bins"]
    impostor: Int64[np.ndarray, " bins"]
    genuine_total: int
    impostor_total: int

    def __post_init__(self) -> None:
        if not len(self.edges) == len(self.genuine) + 1 == len(self.impostor) + 1:
            raise ValueError(
                f"{len(self.edges)} edges bound {len(self.edges) - 1} bins, but there are {len(self.genuine)} genuine "
                f"and {len(self.impostor)} impostor counts"
            )
        if not (np.diff(self.edges) > 0).all():
            raise ValueError("edges of a histogram must be ascending")


POINTS = 1000  # approximate number of points of a thinned curve


@dataclass(frozen=True, eq=False)
class Curve:
    """The counts that each threshold accepts, thresholds descending, so that both rates rise along the curve.

    >>> curve = roc(genuine=[0.9, 0.4], impostor=[0.4, 0.1])
    >>> curve.frr.tolist(), curve.impostor_accepted.tolist()
    ([1.0, 0.5, 0.0, 0.0], [0, 0, 1, 2])

    Attributes:
        thresholds: accept iff score > threshold; the last is minus infinity.
        impostor_accepted: impostors above each threshold.
        genuine_accepted: genuine comparisons above each threshold.
        impostor_total: number of impostors.
        genuine_total: number of genuine comparisons.
    """

    thresholds: Float64[np.ndarray, " points"]
    impostor_accepted: Int64[np.ndarray, " points"]
    genuine_accepted: Int64[np.ndarray, " points"]
    impostor_total: int
    genuine_total: int

    def __post_init__(self) -> None:
        if not len(self.thresholds) == len(self.impostor_accepted) == len(self.genuine_accepted):
            raise ValueError(
                f"{len(self.thresholds)} thresholds, but {len(self.impostor_accepted)} impostor and "
                f"{len(self.genuine_accepted)} genuine counts"
            )
        if not len(self.thresholds) or self.thresholds[-1] != -np.inf:
            raise ValueError("the last threshold of a curve must be minus infinity, where everything is accepted")
        if not (self.thresholds[1:] < self.thresholds[:-1]).all():
            raise ValueError("thresholds of a curve must be descending")

    @property
    def far(self) -> Float64[np.ndarray, " points"]:
        """Share of impostors accepted."""
        return self.impostor_accepted / self.impostor_total

    @property
    def tar(self) -> Float64[np.ndarray, " points"]:
        """Share of genuine comparisons accepted: the ROC curve is tar over far."""
        return self.genuine_accepted / self.genuine_total

    @property
    def frr(self) -> Float64[np.ndarray, " points"]:
        """Share of genuine comparisons rejected: the DET curve is frr over far."""
        return (self.genuine_total - self.genuine_accepted) / self.genuine_total


def roc(genuine: ScoresLike, impostor: ScoresLike) -> Curve:
    """The exact curve: one point for every distinct score, and one for minus infinity.

    >>> curve = roc(genuine=[0.9, 0.4], impostor=[0.4, 0.1])
    >>> curve.thresholds.tolist(), curve.far.tolist(), curve.tar.tolist()
    ([0.9, 0.4, 0.1, -inf], [0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])

    Raises:
        ValueError: a class is empty or holds NaN.
    """
    both = (
        ordered(SortedScores(genuine, "genuine"), "genuine"),
        ordered(SortedScores(impostor, "impostor"), "impostor"),
    )
    assert isinstance(both[0], SortedScores)
    assert isinstance(both[1], SortedScores)
    genuine_scores, impostor_scores = both[0].values.cpu().numpy(), both[1].values.cpu().numpy()
    # a score of minus infinity would be the same threshold
    thresholds = np.unique(np.concatenate([genuine_scores, impostor_scores, [-np.inf]]))[::-1]
    return Curve(
        thresholds=np.ascontiguousarray(thresholds),
        impostor_accepted=len(impostor_scores) - np.searchsorted(impostor_scores, thresholds, side="right"),
        genuine_accepted=len(genuine_scores) - np.searchsorted(genuine_scores, thresholds, side="right"),
        impostor_total=len(impostor_scores),
        genuine_total=len(genuine_scores),
    )


def curve_at(genuine: Ordered, impostor: Ordered, thresholds: Iterable[float]) -> Curve:
    """The exact points of a curve at these thresholds, in any order, and at minus infinity.

    >>> curve = curve_at(SortedScores([0.9, 0.4]), SortedScores([0.4, 0.1]), [0.1, 0.5])
    >>> curve.thresholds.tolist(), curve.far.tolist(), curve.tar.tolist()
    ([0.5, 0.1, -inf], [0.0, 0.5, 1.0], [0.5, 1.0, 1.0])

    Raises:
        ValueError: a class is empty, or a threshold is NaN.
    """
    genuine, impostor = ordered(genuine, "genuine"), ordered(impostor, "impostor")
    descending = sorted({*map(float, thresholds), -math.inf}, reverse=True)
    if any(math.isnan(threshold) for threshold in descending):
        raise ValueError("a threshold is NaN, which decides nothing")
    return Curve(
        thresholds=np.array(descending),
        impostor_accepted=np.array([impostor.above(threshold) for threshold in descending], np.int64),
        genuine_accepted=np.array([genuine.above(threshold) for threshold in descending], np.int64),
        impostor_total=impostor.total,
        genuine_total=genuine.total,
    )


def thinned_roc(genuine: Ordered, impostor: Ordered, points: int = POINTS) -> Curve:
    """The exact curve, thinned to about a thousand thresholds at most.

    Half of the thresholds are impostor scores whose ranks are even on a logarithmic scale from the highest, half are
    genuine scores whose ranks are spaced in the same way from the lowest: both tails, where error rates are small, are
    kept.

    >>> curve = thinned_roc(SortedScores([0.9, 0.4]), SortedScores([0.4, 0.1]), points=4)
    >>> curve.thresholds.tolist()
    [0.9, 0.4, 0.1, -inf]

    Raises:
        ValueError: a class is empty.
    """
    genuine, impostor = ordered(genuine, "genuine"), ordered(impostor, "impostor")
    highest = np.geomspace(1, impostor.total, points // 2).round().astype(np.int64)
    lowest = genuine.total + 1 - np.geomspace(1, genuine.total, points // 2).round().astype(np.int64)
    thresholds = {impostor.ranked(rank) for rank in np.unique(highest).tolist()}
    return curve_at(genuine, impostor, thresholds | {genuine.ranked(rank) for rank in np.unique(lowest).tolist()})


def with_points(curve: Curve, points: Sequence[OperatingPoint]) -> Curve:
    """The curve with the thresholds of some operating points of the same scores among its own.

    >>> from verisphere.decide import operating_point
    >>> genuine, impostor = [0.9, 0.4], [0.4, 0.1]
    >>> point = operating_point(genuine, impostor, far="0.5")
    >>> with_points(curve_at(SortedScores(genuine), SortedScores(impostor), []), [point]).thresholds.tolist()
    [0.1, -inf]

    Raises:
        ValueError: a point comes from other scores.
    """
    rows = {
        float(threshold): (int(passed), int(accepted))
        for threshold, passed, accepted in zip(
            curve.thresholds, curve.impostor_accepted, curve.genuine_accepted, strict=True
        )
    }
    for point in points:
        if (point.impostor_total, point.genuine_total) != (curve.impostor_total, curve.genuine_total):
            raise ValueError(
                f"an operating point of {point.genuine_total} genuine and {point.impostor_total} impostor comparisons "
                f"is not of this curve's {curve.genuine_total} and {curve.impostor_total}"
            )
        rows[point.threshold] = (point.impostor_accepted, point.genuine_accepted)
    thresholds = sorted(rows, reverse=True)
    passed, accepted = np.array([rows[threshold] for threshold in thresholds], np.int64).T
    return Curve(
        np.array(thresholds, np.float64), passed.copy(), accepted.copy(), curve.impostor_total, curve.genuine_total
    )
