"""ROC and DET points with their counts."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.decide.order import ScoresLike, SortedScores, ordered


@dataclass(frozen=True, eq=False)
class Curve:
    """What each threshold accepts, thresholds descending, so that both rates rise along the curve.

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
    own, other = (
        ordered(SortedScores(genuine, "genuine"), "genuine"),
        ordered(SortedScores(impostor, "impostor"), "impostor"),
    )
    assert isinstance(own, SortedScores)
    assert isinstance(other, SortedScores)
    high, low = own.values.cpu().numpy(), other.values.cpu().numpy()
    # minus infinity as a score is a threshold already
    thresholds = np.unique(np.concatenate([high, low, [-np.inf]]))[::-1]
    return Curve(
        thresholds=np.ascontiguousarray(thresholds),
        impostor_accepted=len(low) - np.searchsorted(low, thresholds, side="right"),
        genuine_accepted=len(high) - np.searchsorted(high, thresholds, side="right"),
        impostor_total=len(low),
        genuine_total=len(high),
    )
