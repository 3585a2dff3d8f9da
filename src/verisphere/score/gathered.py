"""The k-th largest score of any list of row pairs, and the number above a threshold, exactly from float32 scores.

float32 scores order all but a few pairs: only the pairs within the error bound of a rank or a threshold are scored
exactly (`pair_scores`), when a question first needs them.
"""

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.score.listing import shares
from verisphere.score.pairs import pair_scores, sampled_product

_GROUP_BITS = 12  # bits: scores are made for 4,096 rows on the left at a time, which stay in a cache


class GatheredScores:
    """Exact order statistics of pairs, of which float32 scores are held."""

    def __init__(
        self, units: Float32[Tensor, "rows dim"], left: Int64[np.ndarray, " pairs"], right: Int64[np.ndarray, " pairs"]
    ) -> None:
        """Score each pair in float32; `units` have length 1, from `unit_rows`."""
        self.units, (rows, dim) = units, units.shape
        # For any order of summing, fused or not: Higham 2002, Accuracy and Stability of Numerical Algorithms, 3.1; with
        # a margin for the exact score's rounding and for lengths that are not exactly 1.
        self.error = (dim + 1) * 2.0**-24 / (1 - (dim + 1) * 2.0**-24) * 1.01
        self.bits = max(rows - 1, 1).bit_length()
        # a group's scores need an index over all rows, which must not cost more than its pairs
        self.group = _GROUP_BITS if len(left) > rows * (rows >> _GROUP_BITS) else self.bits
        self.pairs = self._packed(left, right)
        self.score = self._scored()
        self.known = (np.inf, -np.inf, np.empty(0))  # float32 scores between which exact ones are known; the latter

    @property
    def total(self) -> int:
        """Number of scores."""
        return len(self.pairs)

    def ranked(self, rank: int) -> float:
        """The rank-th largest exact score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        # A score at a rank changes by at most the largest error of a score. So the answer lies within one error of this
        # value, and the float32 score of its pair within another.
        estimate = float(np.partition(self.score, self.total - rank)[self.total - rank])
        exact, higher = self._exact(estimate - 2 * self.error, estimate + 2 * self.error)
        return float(exact[len(exact) - (rank - higher)]) + 0.0

    def above(self, threshold: float) -> int:
        """Number of exact scores strictly greater than the threshold."""
        exact, higher = self._exact(threshold - self.error, threshold + self.error)
        return higher + len(exact) - int(np.searchsorted(exact, threshold, side="right"))

    def _exact(self, low: float, high: float) -> tuple[Float64[np.ndarray, " near"], int]:
        """Exact scores, ascending, of all pairs with float32 scores from low to high; how many pairs score higher."""
        ends = np.clip([low, high], -3, 3).astype(np.float32)
        first, last = np.nextafter(ends, np.array([-np.inf, np.inf], np.float32)).tolist()
        if not self.known[0] <= first <= last <= self.known[1]:
            chosen = self.pairs[(self.score >= first) & (self.score <= last)]
            left, right = (torch.from_numpy(side).to(self.units.device) for side in self._rows(chosen))
            self.known = first, last, np.sort(pair_scores(self.units, left, right).cpu().numpy())
        return self.known[2], int(np.count_nonzero(self.score > np.float32(self.known[1])))

    def _packed(
        self, left: Int64[np.ndarray, " pairs"], right: Int64[np.ndarray, " pairs"]
    ) -> Int64[np.ndarray, " pairs"]:
        """Each pair as one number, ascending: by group of left rows, then right row, then left row."""
        pairs = np.empty(len(left), np.int64)
        for share in shares(len(left)):
            group, row = left[share] >> self.group, left[share] & ((1 << self.group) - 1)
            pairs[share] = (((group << self.bits) | right[share]) << self.group) | row
        pairs.sort()
        return pairs

    def _rows(self, pairs: Int64[np.ndarray, " some"]) -> tuple[Int64[np.ndarray, " some"], Int64[np.ndarray, " some"]]:
        """Left and right row of packed pairs."""
        left = (pairs >> (self.group + self.bits) << self.group) | (pairs & ((1 << self.group) - 1))
        return left, (pairs >> self.group) & ((1 << self.bits) - 1)

    def _scored(self) -> Float32[np.ndarray, " pairs"]:
        """A float32 score of each pair, group by group."""
        score, rows = np.empty(len(self.pairs), np.float32), len(self.units)
        groups = np.arange(1, ((rows - 1) >> self.group) + 2)
        ends = np.searchsorted(self.pairs, groups << (self.group + self.bits)).tolist()
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            pairs = self.pairs[start:end]
            again = np.diff(pairs, prepend=-1) == 0  # listed more than once
            left, right = self._rows(pairs[~again] if again.any() else pairs)
            first = np.searchsorted(right, np.arange(rows + 1))
            places = (torch.from_numpy(array).to(self.units.device) for array in (first, left))
            scores = sampled_product(self.units, self.units, *places).cpu().numpy()
            score[start:end] = scores[(~again).cumsum() - 1] if again.any() else scores
        return score
