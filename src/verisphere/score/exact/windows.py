"""Stretches of score in which every pair is known exactly, with the number of pairs above them.

A window answers every question of order whose answer lies inside it: the rank-th largest score, or the number of scores
above a threshold. It is filled batch by batch, in any order, and may be narrowed meanwhile when it holds more scores
than a rank needs; scores that leave it at the top are counted, scores that leave it at the bottom are dropped.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.score.exact.limits import SCORES_BEFORE_NARROWING, SCORES_BESIDE_RANK


@dataclass(frozen=True, eq=False)
class WindowPart:
    """The pairs of one batch in a window: the number above it, and the distinct scores inside.

    Attributes:
        above: number of pairs that score more than the window's high end, one number for each of its groups.
        score: distinct scores inside, ends included, ascending.
        group: group of each score, as its position among the window's groups.
        seen: number of pairs of the window's groups in the batch.
        patches: number of patches of neighbouring rows that these pairs come from.
    """

    above: Int64[np.ndarray, " groups"]
    score: Float64[np.ndarray, " scores"]
    group: Int64[np.ndarray, " scores"]
    count: Int64[np.ndarray, " scores"]
    seen: int
    patches: int


Stretch: TypeAlias = tuple[float, float, tuple[int, ...]]  # low end, high end, groups


def counted(
    score: Float64[np.ndarray, " scores"], group: Int64[np.ndarray, " scores"], count: Int64[np.ndarray, " scores"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, ascending; equal scores of a group are merged and their counts added."""
    order = np.lexsort((group, score))
    score, group, count = score[order], group[order], count[order]
    first = np.flatnonzero(np.r_[True, (np.diff(score) != 0) | (np.diff(group) != 0)][: len(score)])
    return score[first], group[first], np.add.reduceat(count, first) if len(first) else count


class Window:
    """Pairs of some groups whose exact scores lie from `low` to `high`, and the number of pairs above."""

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

        It may be narrowed around `ranks`, which count from the top and over all its groups; then `slack` times as many
        scores as usual are kept. `total` is the number of pairs of its groups.
        """
        assert low <= high, (low, high)
        self.low, self.high, self.groups, self.ranks = low, high, groups, ranks
        self.above = np.zeros(len(groups), np.int64)
        self.score, self.group, self.count = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
        self.room, self.seen, self.patches, self.total, self.slack = SCORES_BEFORE_NARROWING, 0, 0, total, slack
        self.members = frozenset(groups)
        self._around: dict[frozenset[int], tuple[int, int]] = {}  # what `around` has found since the last change

    @property
    def stretch(self) -> Stretch:
        """The scores and groups that a batch is scanned for."""
        return self.low, self.high, self.groups

    def add(self, part: WindowPart, stretch: Stretch) -> None:
        """Add the result of a batch that was scanned for this stretch, which must contain the window."""
        low, high, groups = stretch
        assert (low <= self.low, self.high <= high, groups) == (True, True, self.groups)
        self._around.clear()
        over = part.score > self.high
        self.seen, self.patches = self.seen + part.seen, self.patches + part.patches
        self.above += part.above
        np.add.at(self.above, part.group[over], part.count[over])
        inside = (part.score >= self.low) & ~over
        if inside.any():
            self.score, self.group, self.count = counted(
                np.concatenate([self.score, part.score[inside]]),
                np.concatenate([self.group, part.group[inside]]),
                np.concatenate([self.count, part.count[inside]]),
            )

    def narrow(self) -> None:
        """Drop the scores at which the ranks are not expected to lie once all pairs are added.

        If a rank lies there after all, the window's counts show it, and another pass is needed.
        """
        if not self.ranks or len(self.score) <= self.room:
            return
        # Pairs share rows, so a patch holds less information than the same number of independent pairs.
        ends = [self.seen / self.total * rank for rank in (min(self.ranks), max(self.ranks))]
        first, last = (self.slack * (8 + 6 * math.sqrt(end) + end / (5 * math.sqrt(self.patches))) for end in ends)
        self._keep(ends[0] - first, ends[1] + last)
        if len(self.score) > self.room // 2:
            self.room *= 2

    def finish(self) -> None:
        """Drop the scores far from the ranks; called once all pairs are added, when the ranks' places are known."""
        if self.ranks and len(self.score) > 2 * SCORES_BESIDE_RANK:
            self._keep(float(min(self.ranks) - SCORES_BESIDE_RANK), float(max(self.ranks) + SCORES_BESIDE_RANK))

    def around(self, groups: frozenset[int]) -> tuple[int, int]:
        """The numbers of pairs of some of its groups above it and inside it; valid once all pairs are added."""
        if groups not in self._around:
            chosen = np.isin(self.groups, list(groups))
            self._around[groups] = int(self.above[chosen].sum()), int(self.count[chosen[self.group]].sum())
        return self._around[groups]

    def ranked(self, rank: int, groups: frozenset[int]) -> float:
        """The rank-th largest score of some of its groups together, which must lie inside."""
        above, inside = self.around(groups)
        assert above < rank <= above + inside, (above, rank, inside)
        chosen = np.isin(self.group, np.flatnonzero(np.isin(self.groups, list(groups))))
        at_least = above + self.count[chosen][::-1].cumsum()[::-1]
        return float(self.score[chosen][np.flatnonzero(at_least >= rank)[-1]])

    def count_above(self, threshold: float, groups: frozenset[int]) -> int:
        """The number of pairs of some of its groups that score more than a threshold inside the window."""
        assert self.low <= threshold <= self.high, (self.low, threshold, self.high)
        chosen = np.isin(self.groups, list(groups))
        passed = (self.score > threshold) & chosen[self.group]
        return int(self.above[chosen].sum()) + int(self.count[passed].sum())

    def emptied(self) -> "Window":
        """A window for the same question that holds no pair."""
        return Window(self.low, self.high, self.groups, self.ranks, self.total, self.slack)

    def merged(self, other: "Window") -> "Window | None":
        """One window of the pairs of both, narrowed to what both cover; None if they cover nothing together."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high:
            return None
        self._shrink(low, high)
        other._shrink(low, high)
        window = Window(low, high, self.groups, self.ranks, self.total, self.slack)
        window.above = self.above + other.above
        columns = ((self.score, other.score), (self.group, other.group), (self.count, other.count))
        window.score, window.group, window.count = counted(*map(np.concatenate, columns))
        window.room, window.seen = max(self.room, other.room), self.seen + other.seen
        window.patches = self.patches + other.patches
        return window

    def state(self) -> dict[str, np.ndarray]:
        """The window as arrays."""
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
        """A window from its arrays."""
        whole = [state[name] for name in ("pairs", "groups", "ranks", "above", "group", "count")]
        if not all(array.dtype == np.int64 and array.ndim == 1 for array in whole):
            raise ValueError("these arrays do not describe a window of scores")
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
            raise ValueError("these arrays do not describe a window of scores")
        window = cls(low, high, groups, ranks, total, slack)
        window.room, window.seen, window.patches, window.above = room, seen, patches, above
        window.score, window.group, window.count = score, group, count
        return window

    def _keep(self, first: float, last: float) -> None:
        """Drop the scores above the first rank and below the last, both counted among the pairs added so far."""
        at_least = int(self.above.sum()) + self.count[::-1].cumsum()[::-1]  # pairs that score this much or more
        keep = at_least >= first  # true for the lower ones
        high = self.high if keep.all() else self.score[keep][-1] if keep.any() else self.low
        reach = at_least >= last
        low = self.score[reach][-1] if reach.any() else self.low
        self._shrink(float(low), float(high))

    def _shrink(self, low: float, high: float) -> None:
        self._around.clear()
        over = self.score > high
        np.add.at(self.above, self.group[over], self.count[over])
        inside = (self.score >= low) & ~over
        self.low, self.high = low, high
        self.score, self.group, self.count = self.score[inside], self.group[inside], self.count[inside]


# Several filled windows -----------------------------------------------------------------------


def window_at(windows: Sequence[Window], threshold: float, groups: frozenset[int]) -> Window | None:
    """A filled window of these groups that contains this threshold."""
    for window in windows:
        if window.low <= threshold <= window.high and groups <= window.members:
            return window
    return None


def window_of(windows: Sequence[Window], rank: int, groups: frozenset[int]) -> Window | None:
    """A filled window that contains this rank of these groups."""
    for window in windows:
        if groups <= window.members:
            above, inside = window.around(groups)
            if above < rank <= above + inside:
                return window
    return None


def gap(windows: Sequence[Window], rank: int, groups: frozenset[int]) -> tuple[float, float]:
    """Scores between which the rank-th largest must lie, where no filled window contains it."""
    low, high = -math.inf, math.inf
    for window in windows:
        if groups <= window.members:
            if rank <= window.around(groups)[0]:
                low = max(low, math.nextafter(window.high, math.inf))
            else:
                high = min(high, math.nextafter(window.low, -math.inf))
    return low, high
