"""Average linkage of rows of length 1: the whole tree of merges above a floor, in memory that grows with near pairs.

The average score of two groups is the product of the sums of their rows over the product of their sizes, so no matrix
of all pairs is needed. Two groups whose average reaches the floor hold a pair that reaches it; so the pairs above the
floor name every merge, and the tree is that of all pairs. The pair with the highest average is always merged first,
since links make one merge forbid another. Groups wait by their score with the nearest group when it was last looked at
(the generic algorithm of Müllner 2011), which only falls: average linkage never brings a third group nearer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from jaxtyping import Float32, Float64, Int, Int64
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from verisphere.base.vocabulary import Progress, quietly

#: What a merge must score above the threshold, over the number of rows of the larger group. Chosen on LFW with two
#: models, see docs/clusters.md: the score of one pair says less than the average over many.
SMALLER_GROUPS_PAY = 0.1


@dataclass(frozen=True, eq=False)
class Tree:
    """The merges of rows; node `rows + i` is what merge i made.

    Attributes:
        children: the two nodes of each merge, a row or an earlier merge.
        sizes: number of rows of the larger node of each merge.
        price: what a merge must score above a threshold, over this size.
    """

    rows: int
    children: Int64[np.ndarray, "merges 2"]
    scores: Float64[np.ndarray, " merges"]
    sizes: Int64[np.ndarray, " merges"]
    price: float = SMALLER_GROUPS_PAY

    @cached_property
    def heights(self) -> Float64[np.ndarray, " merges"]:
        """The highest threshold at which the rows of each merge are together.

        A merge holds at thresholds up to its score less what its size pays, or where a later merge of the same rows
        holds. So the groups at a lower threshold contain those at a higher one.
        """
        held = self.scores - self.price / self.sizes
        for merge in range(len(held) - 1, -1, -1):
            inside = self.children[merge] - self.rows
            inside = inside[inside >= 0]
            held[inside] = np.maximum(held[inside], held[merge])
        return held

    def labels(self, threshold: float) -> Int64[np.ndarray, " rows"]:
        """Number of each row's group at a threshold; groups are numbered by their first row."""
        merged = np.flatnonzero(self.heights >= threshold)
        pairs = np.stack([self.children[merged].ravel(), np.repeat(merged + self.rows, 2)], 1)
        return linked(pairs, self.rows + len(self.scores))[: self.rows]


def linked(pairs: Int64[np.ndarray, "pairs 2"], rows: int) -> Int64[np.ndarray, " rows"]:
    """Number of each row's group where the rows of a pair, and of pairs that share a row, are one group.

    Groups are numbered by their first row.

    >>> linked(np.array([[0, 3], [3, 1]]), 4).tolist()
    [0, 0, 1, 0]
    """
    graph = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(rows, rows))
    group = connected_components(graph, directed=False)[1]
    _, first, number = np.unique(group, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[number])


def average_linkage(
    units: Float32[np.ndarray, "rows dim"],
    pairs: Int64[np.ndarray, "pairs 2"],
    floor: float,
    together: Iterable[Sequence[int]] = (),
    apart: Iterable[Sequence[int]] = (),
    people: Int64[np.ndarray, " rows"] | None = None,
    names: Sequence[object] | np.ndarray | None = None,
    progress: Progress = quietly,
) -> Tree:
    """The tree of all merges whose average score reaches the floor.

    Of equal scores the pair of the lower rows is merged first, so that the order of the rows decides only there.

    >>> units = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]], np.float32)
    >>> tree = average_linkage(units, np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]), 0.5)
    >>> tree.children.tolist(), tree.scores.round(2).tolist()
    ([[1, 2], [0, 4]], [0.96, 0.7])

    Args:
        pairs: at least all pairs whose score reaches the floor, each once, in any order.
        together: pairs of rows that show one person. They are merged only if their score says so, for two looks of a
            person may lie far from each other, and one average of both near to neither. But what is apart from a
            group is so from all groups that are one person with it.
        apart: pairs of rows that are never merged, not even with others between them.
        people: number of each row's person where it is known, else -1: two people are never merged.
    """
    growing = _Groups(units, pairs, floor)
    for row, person in enumerate(() if people is None else people.tolist()):
        if person >= 0:
            growing.known[row] = {-1: person}
    for link, pair in enumerate(apart):
        for side, row in enumerate(pair):
            growing.known.setdefault(row, {})[link] = side
    for left, right in sorted((min(pair), max(pair)) for pair in together):
        if growing.forbidden(left, right):
            one, other = (str(row if names is None else names[row])[:200] for row in (left, right))
            raise ValueError(f"links contradict each other: {one!r} and {other!r} must be together, and may not be")
        growing.unite(left, right)
    for _ in progress(growing.merge(), "linking", len(units)):
        pass
    return Tree(
        len(units),
        np.array(growing.children, np.int64).reshape(-1, 2),
        np.array(growing.scores),
        np.array(growing.larger, np.int64),
    )


class _Groups:
    """Groups of rows while they grow; a group goes by the lowest of its rows."""

    def __init__(
        self, units: Float32[np.ndarray, "rows dim"], pairs: Int64[np.ndarray, "pairs 2"], floor: float
    ) -> None:
        rows = len(units)
        self.sums, self.sizes, self.floor = units.astype(np.float64), np.ones(rows, np.int64), floor
        # kin leads each group to one of those that are one person with it
        self.group, self.node, self.kin = np.arange(rows), np.arange(rows), np.arange(rows)
        self.known: dict[int, dict[int, int]] = {}  # what is known of kin: its person, and its side of links
        one_way = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(rows, rows))
        both = (one_way + one_way.T).tocsr()
        self.near = [both.indices[start:end] for start, end in pairwise(both.indptr)]
        self.children: list[tuple[int, int]] = []
        self.scores: list[float] = []
        self.larger: list[int] = []

    def forbidden(self, one: int, other: int) -> bool:
        """Whether two groups show two people: something that is known of both differs."""
        known = (self.known.get(kin, {}) for kin in _ends(self.kin, np.array([one, other])).tolist())
        few, many = sorted(known, key=len)
        return any(many.get(key, side) != side for key, side in few.items())

    def unite(self, one: int, other: int) -> None:
        """Two groups show one person."""
        one, other = sorted(_ends(self.kin, np.array([one, other])).tolist())
        if one != other:
            self.kin[other] = one
            if other in self.known:
                self.known.setdefault(one, {}).update(self.known.pop(other))

    def merge(self) -> Iterator[int]:
        """Merge the pair with the highest score, then the next; yields each row that leads no group that can grow.

        A noted score is at least that of the nearest group: no merge of others brings one nearer or allows one.
        """
        waiting = [(-np.inf, row) for row in range(len(self.group))]
        while waiting:
            noted, row = heappop(waiting)
            nearest, score = self._nearest(row) if self.group[row] == row else (-1, -np.inf)
            if nearest < 0:
                yield row
                continue
            heappush(waiting, (-score, row))
            if score == -noted:
                one, other = sorted((row, nearest))
                self.children.append((int(self.node[one]), int(self.node[other])))
                self.scores.append(score)
                self.larger.append(int(max(self.sizes[one], self.sizes[other])))
                self.node[one] = len(self.group) + len(self.children) - 1
                self.sums[one] += self.sums[other]
                self.sizes[one] += self.sizes[other]
                self.group[other] = one
                self.near[one] = np.concatenate([self.near[one], self.near[other]])
                self.near[other] = self.near[other][:0]
                self.unite(one, other)

    def _nearest(self, tip: int) -> tuple[int, float]:
        """The nearest group that may be merged, of equal ones the first; -1 for none."""
        near = np.unique(_ends(self.group, self.near[tip]))
        scores = (self.sums[near] * self.sums[tip]).sum(1) / (self.sizes[near] * self.sizes[tip])
        kept = (scores >= self.floor) & (near != tip)
        near, scores = near[kept], scores[kept]
        best = int(scores.argmax()) if len(near) else -1
        while best >= 0 and self.known and self.forbidden(tip, int(near[best])):
            near, scores = np.delete(near, best), np.delete(scores, best)
            best = int(scores.argmax()) if len(near) else -1
        self.near[tip] = near
        return (-1, -np.inf) if best < 0 else (int(near[best]), float(scores[best]))


def _ends(leads: Int64[np.ndarray, " groups"], groups: Int[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
    """Where each group leads in the end; the way there is shortened."""
    ends = leads[groups]
    while (further := leads[ends]).tobytes() != ends.tobytes():
        ends = further
    leads[groups] = ends
    return ends
