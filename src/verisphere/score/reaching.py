"""Probes compared with rows that arrive in portions and are not kept: exact counts, and the highest scores.

It counts for each probe the rows that score at least as high as each of its levels, and finds the best score; over all
probes it finds the highest scores and how often each occurs. Products of a lower precision screen the pairs: a product
differs from the exact score by at most a known bound (`Screen`), and pairs that it leaves open are scored as
`pair_scores` does, so the portions, the precision and the threads cannot change an answer. Memory is one tile of
products, one number for each level, and the highest scores.
"""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import Precision, check_word
from verisphere.score.exact.screen import Screen, as_product, product_type, products, rounded, true_places
from verisphere.score.pairs import pair_scores

BLOCK_ROWS = 2048  # rows at a time
TILE_PRODUCTS = 1 << 21  # products at a time
FEWEST_WAITING = 1 << 16  # new high scores that are sorted into the highest at once


class Reaching:
    """Counts of rows at or above the levels of probes, while the rows come in portions.

    >>> from verisphere.score import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [1.0, 0.0]], np.float32))
    >>> reaching = Reaching(units, np.array([0.6, 0.9]), np.array([0, 2, 2]), highest=1)
    >>> reaching.take(unit_rows(np.array([[0.0, 1.0], [4.0, 3.0]], np.float32)))  # 0.8 and 0.96, then 0 and 0.8
    >>> reaching.counts().tolist(), reaching.best.round(6).tolist()
    ([2, 1], [0.96, 0.8])
    >>> values, counts = reaching.highest()
    >>> values.round(6).tolist(), counts.tolist()
    ([0.96], [1])
    """

    def __init__(
        self,
        probes: Float32[Tensor, "probes dim"],
        levels: Float64[np.ndarray, " levels"],
        first: Int64[np.ndarray, " ends"],
        highest: int = 0,
        precision: Precision = "float32",
    ) -> None:
        """Prepare the probes.

        The levels of one probe stand together, ascending; `first` is the position of each probe's first level, and the
        number of all levels at the end. `highest` distinct scores of all pairs are kept. Probes have length 1, and are
        on the CPU.
        """
        check_word("precision", precision, Precision)
        self.probes, self.levels, self.first, self.precision = probes, levels, first, precision
        self.rows = 0  # compared so far
        self.best: Float64[np.ndarray, " probes"] = np.full(len(probes), -np.inf)
        self._left = rounded(probes, precision)
        # A CPU writes bfloat16 products as bfloat16, rounded by up to this part of themselves.
        self._shortened = 2.0**-8 if precision == "bfloat16" else 0.0
        # Entry i of a probe with m levels counts rows that reach exactly the i lowest of them, 0 <= i <= m.
        self._levels_of = np.diff(first)
        self._start = first[:-1] + np.arange(len(probes))
        self._reached = np.zeros(len(levels) + len(probes), np.int64)
        self._lowest = np.full(len(probes), np.inf)
        self._lowest[self._levels_of > 0] = levels[first[:-1][self._levels_of > 0]]
        self._sure = np.full(len(probes), -np.inf)  # the best score so far is no lower
        self._held = highest
        self._floor = -np.inf if highest else np.inf  # lower scores are not among the highest
        self._values, self._counts = np.empty(0), np.empty(0, np.int64)
        self._waiting: list[Float64[np.ndarray, " _"]] = []
        self._waiting_scores = 0
        self._room = self._left.rows.new_empty(0, dtype=product_type(self._left.rows.dtype))

    def take(self, rows: Float32[Tensor, "rows dim"]) -> None:
        """Compare all probes with further rows, of length 1, from `unit_rows`."""
        if rows.shape[1] != self.probes.shape[1]:
            raise ValueError(f"probes have {self.probes.shape[1]} numbers a row but the others have {rows.shape[1]}")
        with full_float32():
            for start in range(0, len(rows), BLOCK_ROWS):
                self._take(rows[start : start + BLOCK_ROWS])

    def counts(self) -> Int64[np.ndarray, " levels"]:
        """For each level, the number of rows so far that score at least as high for its probe."""
        above = np.append(
            self._reached[::-1].cumsum()[::-1], 0
        )  # sums of each entry and all that follow, later probes included
        probe = np.repeat(np.arange(len(self.probes)), self._levels_of)
        following = above[self._start + self._levels_of + 1]  # the part of later probes
        return np.asarray(above[np.arange(len(self.levels)) + probe + 1] - following[probe])

    def highest(self) -> tuple[Float64[np.ndarray, " values"], Int64[np.ndarray, " values"]]:
        """The highest distinct scores of all pairs so far, descending, and how many pairs have each."""
        if self._held:
            self._sort_in()
        return self._values[::-1], self._counts[::-1]

    def state(self) -> dict[str, np.ndarray]:
        """What was found so far, which `add` adds to that of other rows."""
        values, counts = self.highest()
        found = {"rows": np.array(self.rows), "best": self.best, "reached": self._reached}
        return {**found, "values": values, "counts": counts}

    def add(self, state: Mapping[str, np.ndarray]) -> None:
        """Add what was found of further rows with the same probes, levels and number of highest scores."""
        self.rows += int(state["rows"])
        self.best = np.maximum(self.best, state["best"])
        self._reached += state["reached"]
        if self._held:
            self._sort_in(state["values"], state["counts"])

    def _take(self, rows: Float32[Tensor, "rows dim"]) -> None:
        right = rounded(rows, self.precision, self.rows)
        self.rows += len(rows)
        error, unit = Screen(self._left, right).error, self._left.unit * right.unit
        height = max(TILE_PRODUCTS // len(rows), 1)
        for start in range(0, len(self.probes), height):
            part = slice(start, min(start + height, len(self.probes)))
            product = products(self._left.rows[part], right.rows, self._room)
            top = product.amax(1).double().numpy() * unit
            self._sure[part] = np.maximum(self._sure[part], top - error - self._shortened * np.abs(top))
            cut = np.minimum(np.minimum(self._lowest[part], self._sure[part]), self._floor)
            least = as_product(torch.from_numpy(cut - error), unit, product.dtype, -1)
            place = true_places(product >= least[:, None])
            value = product.view(-1)[place].double().numpy() * unit
            probe, row = np.divmod(place.numpy(), len(rows))
            self._count(part, probe + start, row, value, error + self._shortened * np.abs(value), rows)

    def _count(
        self,
        part: slice,
        probe: Int64[np.ndarray, " near"],
        row: Int64[np.ndarray, " near"],
        value: Float64[np.ndarray, " near"],
        slack: Float64[np.ndarray, " near"],
        rows: Float32[Tensor, "rows dim"],
    ) -> None:
        """Count pairs of these probes by their products, and by their scores where the products leave them open."""
        low, high = self._levels_reached(probe, value - slack), self._levels_reached(probe, value + slack)
        unsettled = (low != high) | (value + slack >= np.minimum(self._sure[probe], self._floor))
        left, right = torch.from_numpy(probe[unsettled]), torch.from_numpy(row[unsettled])
        score = pair_scores(self.probes, left, right, rows).numpy() + 0.0  # -0.0 is 0.0
        low[unsettled] = self._levels_reached(left.numpy(), score)
        begin, end = self._start[part.start], self._start[part.stop - 1] + self._levels_of[part.stop - 1] + 1
        self._reached[begin:end] += np.bincount(self._start[probe] - begin + low, minlength=end - begin)
        np.maximum.at(self.best, left.numpy(), score)
        self._sure[part] = np.maximum(self._sure[part], self.best[part])
        high = score[score >= self._floor]
        if len(high):
            self._waiting.append(high)
            self._waiting_scores += len(high)
            if self._waiting_scores > max(self._held, FEWEST_WAITING):
                self._sort_in()

    def _levels_reached(
        self, probe: Int64[np.ndarray, " near"], score: Float64[np.ndarray, " near"]
    ) -> Int64[np.ndarray, " near"]:
        """How many of its probe's levels each score reaches: a binary search in each probe's levels."""
        low, high = self.first[:-1][probe], self.first[1:][probe]
        begin = low
        for _ in range(int(self._levels_of.max(initial=0)).bit_length()):
            middle = (low + high) // 2
            inside = low < high
            reached = inside & (self.levels[np.where(inside, middle, 0)] <= score)
            low, high = np.where(reached, middle + 1, low), np.where(inside & ~reached, middle, high)
        return np.asarray(low - begin)

    def _sort_in(
        self, fresh: Float64[np.ndarray, " values"] | None = None, counts: Int64[np.ndarray, " values"] | None = None
    ) -> None:
        """Sort these scores, or else the waiting ones, into the highest, and raise the floor to the lowest of them."""
        if fresh is None or counts is None:
            fresh, counts = np.unique(np.concatenate([np.empty(0), *self._waiting]), return_counts=True)
            self._waiting, self._waiting_scores = [], 0
        values, place = np.unique(np.concatenate([self._values, fresh]), return_inverse=True)
        totals = np.zeros(len(values), np.int64)
        np.add.at(totals, place, np.concatenate([self._counts, counts]))
        self._values, self._counts = values[-self._held :], totals[-self._held :]
        if len(self._values) == self._held:
            self._floor = max(self._floor, float(self._values[0]))
