"""Ordered scores: the two questions that every decision asks, of scores in memory or of streamed ones."""

import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from verisphere.base.arrays import refuse_masked


class HighestScores:
    """The highest scores of many, as `Ordered` scores; they answer questions down to the lowest score that is held.

    >>> scores = HighestScores(np.array([0.9, 0.7]), np.array([1, 2]), total=10)
    >>> scores.ranked(3), scores.above(0.7)
    (0.7, 1)
    """

    def __init__(
        self, values: Float64[np.ndarray, " values"], counts: Int64[np.ndarray, " values"], total: int
    ) -> None:
        """Take the highest distinct scores, descending, with the count of each; all others of the total score lower."""
        assert counts.sum() <= total, (counts.sum(), total)
        self._values, self._above, self._total = values, counts.cumsum(), total

    @property
    def total(self) -> int:
        """Number of scores."""
        return self._total

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= int(self._above[-1]), f"rank {rank} of {self.total}, but only the highest are held"
        return float(self._values[np.searchsorted(self._above, rank)])

    def above(self, threshold: float) -> int:
        """Number of scores strictly greater than the threshold."""
        if threshold == -math.inf:
            return self.total
        places = int(np.searchsorted(-self._values, -threshold, side="left"))
        held = int(self._above[-1])
        # Just below the lowest score that is held, exactly the held ones lie above.
        reaches = threshold >= math.nextafter(float(self._values[-1]), -math.inf) or held == self.total
        assert reaches, f"threshold {threshold} lies below the highest scores, which alone are held"
        return int(self._above[places - 1]) if places else 0


@runtime_checkable
class Ordered(Protocol):
    """Scores that answer questions of order; a scan of all pairs answers them without holding the scores.

    >>> isinstance(SortedScores([0.2, 0.9, 0.5]), Ordered)
    True
    """

    @property
    def total(self) -> int:
        """Number of scores."""
        ...

    def ranked(self, rank: int) -> float:
        """The rank-th largest score; rank 1 is the largest, `total` the smallest."""
        ...

    def above(self, threshold: float) -> int:
        """Number of scores strictly greater than the threshold."""
        ...


ScoresLike: TypeAlias = Tensor | np.ndarray | Sequence[float]


class SortedScores:
    """Scores in memory, sorted once, in float64 (which holds every float32 and bfloat16 value exactly).

    >>> scores = SortedScores([0.2, 0.9, 0.5])
    >>> scores.total, scores.ranked(1), scores.above(0.5)
    (3, 0.9, 1)
    """

    def __init__(self, scores: ScoresLike, name: str = "scores") -> None:
        """Sort one-dimensional scores."""
        refuse_masked(f"{name} scores", scores)
        values = scores.detach() if isinstance(scores, Tensor) else torch.from_numpy(np.array(scores, dtype=np.float64))
        if values.ndim != 1:
            raise ValueError(f"{name} scores must be one-dimensional, got shape {tuple(values.shape)}")
        values = values.to(torch.float64)
        missing = int(values.isnan().sum())
        if missing:
            raise ValueError(f"{missing} of {len(values)} {name} scores are NaN, which has no place in an order")
        # numpy's vectorised sort is several times faster than torch's on a CPU
        on_cpu = values.device.type == "cpu"
        self.values = torch.from_numpy(np.sort(values.numpy())) if on_cpu else values.sort().values

    @property
    def total(self) -> int:
        """Number of scores."""
        return len(self.values)

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        return float(self.values[self.total - rank]) + 0.0  # -0.0 is 0.0

    def above(self, threshold: float) -> int:
        """Number of scores strictly greater than the threshold."""
        at = self.values.new_tensor(threshold)
        return self.total - int(torch.searchsorted(self.values, at, right=True))


def ordered(scores: "ScoresLike | Ordered", name: str) -> Ordered:
    """Scores as an `Ordered` that is not empty.

    >>> ordered([0.2, 0.9, 0.5], "impostor").ranked(3)
    0.2
    >>> ordered([], "impostor")
    Traceback (most recent call last):
        ...
    ValueError: there are no impostor scores, so no rate of them can be stated

    Raises:
        ValueError: there are no scores, or some are NaN.
    """
    order = scores if isinstance(scores, Ordered) else SortedScores(scores, name)
    if order.total == 0:
        raise ValueError(f"there are no {name} scores, so no rate of them can be stated")
    return order
