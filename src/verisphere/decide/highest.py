"""Scores of which only the highest are held: enough for the thresholds of low FARs over billions of comparisons."""

import math

import numpy as np
from jaxtyping import Float64, Int64


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
