"""Stretches of score in which every pair is known exactly, with the number of pairs above them.

A window answers any question of order whose answer lies inside it: the rank-th largest score, or how many scores are
greater than a threshold. It grows batch by batch, in any order, and may be narrowed on the way where it holds more
scores than are wanted around a rank; what leaves it at the top is counted, what leaves it below is forgotten.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.score.exact.limits import SCORES_BEFORE_NARROWING, SCORES_BESIDE_RANK


@dataclass(frozen=True, eq=False)
class WindowPart:
    """What one batch of pairs says about a window: pairs above it, and the scores inside, equal ones as one.

    Attributes:
        above: pairs of each of the window's groups that score more than its high end.
        score: distinct scores inside, ends included, ascending.
        group: number of the group, in the window's order, of each.
        count: how many pairs have it.
        seen: pairs of the window's groups that were looked at.
        patches: in how many runs of neighbouring rows.
    """

    above: Int64[np.ndarray, " groups"]
    score: Float64[np.ndarray, " scores"]
    group: Int64[np.ndarray, " scores"]
    count: Int64[np.ndarray, " scores"]
    seen: int
    patches: int


Stretch: TypeAlias = tuple[float, float, tuple[int, ...]]  # low, high, groups: what a batch is looked through for


def counted(
    score: Float64[np.ndarray, " scores"], group: Int64[np.ndarray, " scores"], count: Int64[np.ndarray, " scores"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores ascending, equal ones of a group as one with the sum of their counts."""
    order = np.lexsort((group, score))
    score, group, count = score[order], group[order], count[order]
    first = np.flatnonzero(np.r_[True, (np.diff(score) != 0) | (np.diff(group) != 0)][: len(score)])
    return score[first], group[first], np.add.reduceat(count, first) if len(first) else count


class Window:
    """Pairs of some groups whose exact scores lie from `low` to `high`, and how many lie above."""

    def __init__(
        self,
        low: float,
        high: float,
        groups: tuple[int, ...],
        ranks: tuple[int, ...] = (),
        total: int = 1,
        slack: float = 1.0,
    ) -> None:
        """An empty window.

        Args:
            low: lowest score inside.
            high: highest score inside.
            groups: numbers of the groups of pairs that it looks at.
            ranks: ranks, from the top and in all its groups together, that it may be narrowed around.
            total: pairs of its groups.
            slack: how much more carefully than usual it is narrowed.
        """
        assert low <= high, (low, high)
        self.low, self.high, self.groups, self.ranks = low, high, groups, ranks
        self.above = np.zeros(len(groups), np.int64)
        self.score, self.group, self.count = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        self.room, self.seen, self.patches, self.total, self.slack = SCORES_BEFORE_NARROWING, 0, 0, total, slack

    @property
    def stretch(self) -> Stretch:
        """What a batch is to be looked through for."""
        return self.low, self.high, self.groups

    def add(self, found: WindowPart, stretch: Stretch) -> None:
        """Take a batch in that was looked through for this stretch, as wide as the window now is or wider."""
        low, high, groups = stretch
        assert (low <= self.low, self.high <= high, groups) == (True, True, self.groups)
        over = found.score > self.high
        self.seen, self.patches = self.seen + found.seen, self.patches + found.patches
        self.above += found.above
        np.add.at(self.above, found.group[over], found.count[over])
        inside = (found.score >= self.low) & ~over
        if inside.any():
            self.score, self.group, self.count = counted(
                np.concatenate([self.score, found.score[inside]]),
                np.concatenate([self.group, found.group[inside]]),
                np.concatenate([self.count, found.count[inside]]),
            )

    def narrow(self) -> None:
        """Drop scores that the ranks, once all pairs are in, are not expected to lie at.

        Should one lie there after all, the window will say so by its counts, and another pass is needed.
        """
        if not self.ranks or len(self.score) <= self.room:
            return
        # Pairs share rows, so a patch tells less than as many independent pairs would.
        ends = [self.seen / self.total * rank for rank in (min(self.ranks), max(self.ranks))]
        first, last = (self.slack * (8 + 6 * math.sqrt(end) + end / (5 * math.sqrt(self.patches))) for end in ends)
        self._keep(ends[0] - first, ends[1] + last)
        if len(self.score) > self.room // 2:
            self.room *= 2

    def finish(self) -> None:
        """Once all pairs are in: drop what is far from the ranks, whose places are known now."""
        if self.ranks and len(self.score) > 2 * SCORES_BESIDE_RANK:
            self._keep(float(min(self.ranks) - SCORES_BESIDE_RANK), float(max(self.ranks) + SCORES_BESIDE_RANK))

    def around(self, groups: frozenset[int]) -> tuple[int, int]:
        """How many pairs of some of its groups lie above it, and how many inside; valid once all pairs are in."""
        chosen = np.isin(self.groups, list(groups))
        return int(self.above[chosen].sum()), int(self.count[chosen[self.group]].sum())

    def ranked(self, rank: int, groups: frozenset[int]) -> float:
        """The rank-th largest score of some of its groups together, which must lie inside."""
        above, inside = self.around(groups)
        assert above < rank <= above + inside, (above, rank, inside)
        chosen = np.isin(self.group, np.flatnonzero(np.isin(self.groups, list(groups))))
        at_least = above + self.count[chosen][::-1].cumsum()[::-1]
        return float(self.score[chosen][np.flatnonzero(at_least >= rank)[-1]])

    def count_above(self, threshold: float, groups: frozenset[int]) -> int:
        """How many pairs of some of its groups score more than a threshold that lies inside."""
        assert self.low <= threshold <= self.high, (self.low, threshold, self.high)
        chosen = np.isin(self.groups, list(groups))
        passed = (self.score > threshold) & chosen[self.group]
        return int(self.above[chosen].sum()) + int(self.count[passed].sum())

    def joined(self, gathered: Callable[[np.ndarray], list[np.ndarray]]) -> "Window | None":
        """One window of all pairs, from windows for the same question that each hold the findings of some of them.

        They may have been narrowed to different ends on the way; what is left is what every one of them knows, or None.

        Args:
            gathered: this array of every window, given that of this one.
        """
        ends = np.stack(gathered(np.array([self.low, self.high])))
        low, high = float(ends[:, 0].max()), float(ends[:, 1].min())
        if low > high:
            return None
        self._shrink(low, high)
        score, group, count = (np.concatenate(gathered(array)) for array in (self.score, self.group, self.count))
        window = Window(low, high, self.groups, self.ranks, self.total, self.slack)
        window.above = np.stack(gathered(self.above)).sum(0)
        window.score, window.group, window.count = counted(score, group, count)
        seen = np.stack(gathered(np.array([self.room, self.seen, self.patches])))
        window.room, window.seen, window.patches = int(seen[:, 0].max()), int(seen[:, 1].sum()), int(seen[:, 2].sum())
        return window

    def state(self) -> dict[str, np.ndarray]:
        """All of it as arrays."""
        return {
            "ends": np.array([self.low, self.high]),
            "ranks": np.array(self.ranks, np.int64),
            "groups": np.array(self.groups, np.int64),
            "pairs": np.array([self.room, self.seen, self.patches, self.total], np.int64),
            "slack": np.array(self.slack),
            "above": self.above,
            "score": self.score,
            "group": self.group,
            "count": self.count,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, np.ndarray]) -> "Window":
        """A window from its arrays.

        Raises:
            KeyError: one of them is missing.
            ValueError: they are none of a window.
        """
        whole = [state[name] for name in ("pairs", "groups", "ranks", "above", "group", "count")]
        if not all(array.dtype == np.int64 and array.ndim == 1 for array in whole):
            raise ValueError("these arrays are none of a window of scores")
        (low, high), (room, seen, patches, total) = state["ends"].tolist(), state["pairs"].tolist()
        groups, ranks = tuple(state["groups"].tolist()), tuple(state["ranks"].tolist())
        above, score, group, count = (state[name] for name in ("above", "score", "group", "count"))
        slack = float(state["slack"])
        if not (
            low <= high
            and above.shape == (len(groups),)
            and score.ndim == 1
            and score.shape == group.shape == count.shape
            and score.dtype == np.float64
            and ((score >= low) & (score <= high)).all()
            and ((group >= 0) & (group < len(groups)) & (count > 0)).all()
            and (np.diff(score) >= 0).all()
            and (above >= 0).all()
            and above.sum(dtype=float) + count.sum(dtype=float) <= seen
            and room > 0
            and total > 0
            and (patches > 0) == (seen > 0)
            and 1 <= slack < math.inf
            and all(rank > 0 for rank in ranks)
        ):
            raise ValueError("these arrays are none of a window of scores")
        window = cls(low, high, groups, ranks, total, slack)
        window.room, window.seen, window.patches, window.above = room, seen, patches, above
        window.score, window.group, window.count = score, group, count
        return window

    def _keep(self, first: float, last: float) -> None:
        """Drop the scores above this rank, and those below the other, both counted in what is in so far."""
        at_least = int(self.above.sum()) + self.count[::-1].cumsum()[::-1]  # pairs that score this much or more
        keep = at_least >= first  # true for the lower ones
        high = self.high if keep.all() else self.score[keep][-1] if keep.any() else self.low
        reach = at_least >= last
        low = self.score[reach][-1] if reach.any() else self.low
        self._shrink(float(low), float(high))

    def _shrink(self, low: float, high: float) -> None:
        over = self.score > high
        np.add.at(self.above, self.group[over], self.count[over])
        inside = (self.score >= low) & ~over
        self.low, self.high = low, high
        self.score, self.group, self.count = self.score[inside], self.group[inside], self.count[inside]


# What several filled windows know together -----------------------------------------------------------------------


def window_at(windows: Sequence[Window], threshold: float, groups: frozenset[int]) -> Window | None:
    """A filled window of these groups that holds this threshold."""
    for window in windows:
        if groups <= set(window.groups) and window.low <= threshold <= window.high:
            return window
    return None


def window_of(windows: Sequence[Window], rank: int, groups: frozenset[int]) -> Window | None:
    """A filled window that holds this rank of these groups."""
    for window in windows:
        if groups <= set(window.groups):
            above, inside = window.around(groups)
            if above < rank <= above + inside:
                return window
    return None


def gap(windows: Sequence[Window], rank: int, groups: frozenset[int]) -> tuple[float, float]:
    """Scores between which the rank-th largest lies for certain, where no filled window holds it."""
    low, high = -math.inf, math.inf
    for window in windows:
        if groups <= set(window.groups):
            if rank <= window.around(groups)[0]:
                low = max(low, math.nextafter(window.high, math.inf))
            else:
                high = min(high, math.nextafter(window.low, -math.inf))
    return low, high
