"""Scores of a sample of pairs, which say where to look for a rank; no answer depends on them."""

import math
from collections.abc import Iterable

import numpy as np
import torch

from verisphere.score.exact.limits import SAMPLED_ROWS
from verisphere.score.exact.tiles import Side

_STEPS = 1 << 20  # to a score of 1, by which predicted ends are rounded


class ScoreSample:
    """Impostor scores of a sample of each group's pairs."""

    def __init__(self, left: Side, right: Side | None, across: int, totals: dict[int, int]) -> None:
        """Prepare; scores are computed when they are first needed.

        Without `right` the pairs are those of the rows of `left`. `across` is the number of the group of pairs of two
        domains, and `totals` has the impostor pairs of each group.
        """
        self.left, self.right, self.across, self.totals = left, right, across, totals
        self._sampled: dict[int, np.ndarray] = {}
        self._pooled: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray, float]] = {}

    def scores(self, group: int) -> np.ndarray:
        """Sampled impostor scores of a group, unordered, with the rounding of float64 products."""
        if group not in self._sampled:
            a = self._rows(self.left, group)
            b = a if self.right is None else self._rows(self.right, group)
            other = self.left if self.right is None else self.right
            product = self.left.units[torch.from_numpy(a)].double() @ other.units[torch.from_numpy(b)].double().T
            wanted = self.left.people[a][:, None] != other.people[b][None, :]
            apart = self.left.domains[a][:, None] != other.domains[b][None, :]
            wanted &= apart if group == self.across else ~apart
            if self.right is None:
                wanted = np.triu(wanted, 1)
            self._sampled[group] = product.cpu().numpy()[wanted]
        return self._sampled[group]

    def everything(self, groups: Iterable[int]) -> np.ndarray:
        """Sampled scores of several groups; their numbers are not proportional to the groups' sizes."""
        return np.concatenate([np.empty(0), *(self.scores(group) for group in groups)])

    def around(self, rank: int, groups: Iterable[int]) -> tuple[float, float]:
        """Scores between which the rank-th largest of these groups together is expected; either may be infinite."""
        low, high, _ = self._place(rank, groups)
        return low, high

    def near(self, rank: int, groups: Iterable[int]) -> float:
        """An estimate of the rank-th largest score of these groups together; 0 where the sample has none of them."""
        return self._place(rank, groups)[2]

    def _place(self, rank: int, groups: Iterable[int]) -> tuple[float, float, float]:
        score, reached, heaviest = self._weighted(tuple(groups))
        if not len(score):
            return -math.inf, math.inf, 0.0
        # The sample's pairs share rows: a quarter of the rank on either side, and the chance variation of few pairs.
        margin = heaviest * (8 + 6 * math.sqrt(rank / heaviest)) + rank / 4
        above, below, here = np.searchsorted(reached, [rank - margin, rank + margin, rank])
        # rounded outward: where threads share a product its last bits differ, and a pass that continues asks the same
        high = math.inf if rank - margin <= reached[0] else math.ceil(score[above] * _STEPS) / _STEPS
        low = -math.inf if below >= len(score) else math.floor(score[below] * _STEPS) / _STEPS
        return low, high, float(score[min(here, len(score) - 1)])

    def _weighted(self, groups: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, float]:
        """Scores, descending; the estimated number of all pairs that reach each; the most pairs that one represents."""
        if groups not in self._pooled:
            parts = [(self.scores(group), self.totals[group]) for group in groups if self.totals[group]]
            if not parts or any(not len(part) for part, _ in parts):
                parts = [(np.empty(0), 1)]
            score = np.concatenate([part for part, _ in parts])
            weight = np.concatenate([np.full(len(part), total / max(len(part), 1)) for part, total in parts])
            order = np.argsort(-score)
            self._pooled[groups] = score[order], weight[order].cumsum(), float(weight.max(initial=0))
        return self._pooled[groups]

    def _rows(self, side: Side, group: int) -> np.ndarray:
        if group == self.across:
            return np.unique(np.linspace(0, len(side) - 1, min(len(side), SAMPLED_ROWS)).astype(np.int64))
        first, last = np.searchsorted(side.domains, [group, group + 1])
        return np.arange(first, min(last, first + SAMPLED_ROWS))
