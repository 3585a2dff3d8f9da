"""The pairs of a batch with stored rows in tiles of a product, as `scan_tiles` looks through them."""

import time
from collections.abc import Iterator
from functools import cache

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64, Shaped
from torch import Tensor

from verisphere.base.vocabulary import Precision
from verisphere.base.work import ranges
from verisphere.score.exact.screen import (
    Keys,
    Rounded,
    Screen,
    exact_int8,
    product_type,
    products,
    rounded,
    rounded_known,
)
from verisphere.score.exact.tiles import Patch
from verisphere.score.pairs import pair_scores, rough_error, rough_scores
from verisphere.score.stored import SharedLabels, Stored

TILE_ROWS = 1 << 10  # rows of a batch in a tile
#: Pairs of a tile: on a CPU its bfloat16 products take 9 MB; a GPU is given enough work for the host to keep up.
TILE_PAIRS = {"cpu": 9 << 19, "cuda": 1 << 26}
ROWS_CONVERTED = 1 << 12  # stored rows converted at once: 8 MB of 512 numbers
GATHERED_PAIRS = {"cpu": 1 << 9, "cuda": 1 << 16}  # pairs gathered at once
LISTED_ONE_IN = 8  # pairs of one label are listed unless one of so many is such a pair


def tile_size(precision: Precision, stored: torch.dtype, device: str) -> int:
    """How many pairs a tile has: on a CPU fewer where products take more room, or stored rows are copied for them."""
    most = TILE_PAIRS[device]
    if device != "cpu" or (precision == "bfloat16" and stored == torch.bfloat16):
        return most
    return most // (2 if precision == "bfloat16" else 4)


class BatchTiles:
    """The pairs in tiles: some rows of the batch, in the order of their groups, by a run of stored rows."""

    def __init__(
        self,
        units: Float32[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        groups: Int64[np.ndarray, " batch"],
        stored: Stored,
        met: SharedLabels,
        precision: Precision,
        keys: int,
    ) -> None:
        self.units, self.labels, self.groups, self.stored, self.shared = units, labels, groups, stored, met
        self.precision = precision
        blocks = ranges(len(units), TILE_ROWS)
        self.left = {rows: rounded(units[rows.start : rows.stop], precision, rows.start) for rows in blocks}
        self.columns = max(keys // max(min(len(units), TILE_ROWS), 1), 64)
        starts = range(0, len(met.places), self.columns)
        corners = [(rows, column) for rows in blocks for column in starts]
        # a fixed shuffle: the first tiles then predict the rest, in whatever order rows were stored
        self.corners = [corners[number] for number in np.random.default_rng(1).permutation(len(corners))]
        self._room: Tensor | None = None  # of products
        self._copy: Tensor | None = None  # of stored rows, rounded
        self._tried = False
        self._unit: float | None = None

    def __len__(self) -> int:
        return len(self.corners)

    @property
    def rough_error(self) -> float:
        """The most that a score of `rough` is off; rows are a little longer than 1."""
        return rough_error(self.units.shape[1]) * 1.01 * self.stored.longest

    def screen(self, number: int) -> Screen:
        """What the keys of a tile mean."""
        rows, first = self.corners[number]
        left, right = self.left[rows], self._rounded(first)
        if self._room is None:  # for the largest tile: memory that numpy has viewed cannot be resized
            size = min(len(self.units), TILE_ROWS) * self.columns
            self._room = left.rows.new_empty(size, dtype=product_type(left.rows.dtype))
        screen = Screen(left, right, room=self._room, tried=self._tried)
        self._tried = True
        return screen

    def _rounded(self, first: int) -> Rounded:
        rows = self._rows(self.shared.places[first : first + self.columns]).to(self.units.device, non_blocking=True)
        if self.precision == "int8" and self._unit is None:
            peak = float(rows.float().abs().max())
            self._unit = 0.94 * peak / 127 if peak else 1.0
        if self.precision == "bfloat16" and rows.dtype != torch.bfloat16 and self._copy is None:
            self._copy = rows.new_empty(self.columns, rows.shape[1], dtype=torch.bfloat16)
        return rounded_known(rows, self.stored.longest, self.precision, self._unit, self._copy)

    def _rows(self, places: Int64[np.ndarray, " some"]) -> Shaped[Tensor, "some dim"]:
        """Stored rows at these places: a view, or a copy if there are gaps between them."""
        if not len(places):
            return self.stored.rows[:0]
        first, last = int(places[0]), int(places[-1])
        if last - first + 1 == len(places):
            return self.stored.rows[first : last + 1]
        return self.stored.rows.index_select(0, torch.from_numpy(places).to(self.stored.rows.device))

    def patches(self, number: int, screen: Screen, positive: bool = False) -> Iterator[Patch]:
        """The impostor pairs of one tile, by group."""
        rows, first = self.corners[number]
        keys, fine = screen.keys(slice(None), slice(None), positive), screen.fine(positive)
        last = first + keys.shape[1]
        self._leave_out(keys, rows, first, last)
        groups = self.groups[rows.start : rows.stop]
        for group in np.unique(groups).tolist():
            r0, r1 = np.searchsorted(groups, [group, group + 1]).tolist()
            yield Patch(group, keys[r0:r1], rows.start + r0, first, (r1 - r0) * (last - first), fine)

    def _leave_out(self, keys: Keys, rows: range, first: int, last: int) -> None:
        """Mark the pairs that are no impostor pairs."""
        if self.shared.many(first, last) <= keys.numel() // LISTED_ONE_IN:
            left, right = self.shared.listed(first, last, rows)
            keys.view(-1)[torch.from_numpy(left * keys.shape[1] + right).to(keys.device)] = 0
            return
        places = torch.from_numpy(self.shared.places[first:last])
        labels = self.stored.labels.index_select(0, places.to(self.stored.labels.device)).to(keys.device)
        keys.masked_fill_(self.labels[rows.start : rows.stop, None] == labels, 0)

    def score(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float64[Tensor, " pairs"]:
        """Exact scores of pairs of rows."""
        places = self._places(right)
        if self.stored.rows.device == self.units.device:
            return pair_scores(self.units, left, places, self.stored.rows)
        places, again = places.unique(return_inverse=True)
        some = self.stored.rows.index_select(0, places).to(self.units.device)
        return pair_scores(self.units, left, again.to(left.device), some)

    def rough(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float32[Tensor, " pairs"]:
        """Scores in float32 of pairs of rows of one tile, the left ones ascending."""
        if not len(left):
            return self.units.new_empty(0)
        lowest, highest = (int(end) for end in right.aminmax())
        scores = self.units.new_empty(len(left))
        device = self.units.device.type
        if device != "cpu" or len(left) <= highest - lowest:  # so few pairs that only their own rows are converted
            at_once = GATHERED_PAIRS[device]
            pairs = scores.split(at_once), left.split(at_once), self._places(right).split(at_once)
            for part, a, b in zip(*pairs, strict=True):
                some = self.stored.rows.index_select(0, b).to(self.units)
                torch.sum(self.units.index_select(0, a).mul_(some), 1, out=part)
            return scores
        for first in range(lowest, highest + 1, ROWS_CONVERTED):
            rows = self._rows(self.shared.places[first : min(first + ROWS_CONVERTED, highest + 1)]).to(self.units)
            some = ((right >= first) & (right < first + ROWS_CONVERTED)).nonzero()[:, 0]
            scores[some] = rough_scores(self.units, left[some], right[some] - first, rows)
        return scores

    def _places(self, right: Int64[Tensor, " pairs"]) -> Int64[Tensor, " pairs"]:
        """Where the rows of these numbers are stored."""
        if len(self.shared.places) == len(self.stored):
            return right.to(self.stored.rows.device)
        return torch.from_numpy(self.shared.places[right.cpu().numpy()]).to(self.stored.rows.device)


@cache
def fastest(device: str, dim: int, stored: torch.dtype | None) -> Precision:
    """The type whose products, with the rounding of stored rows to it, take this machine the least time.

    int8 is offered for rows that are rounded once and kept (`stored` is None), where its products are exact: rounding
    stored rows each time costs most of what its products gain, and 200 MB.
    """
    if device != "cpu":
        return "bfloat16"
    rows = torch.nn.functional.normalize(torch.randn(4096, dim, generator=torch.Generator().manual_seed(0)), dim=1)
    units, rows = rows[:256].contiguous(), rows.to(stored or torch.float32)
    kinds: tuple[Precision, ...] = "bfloat16", "float32"
    if stored is None and exact_int8(dim):
        kinds = "int8", *kinds

    def seconds(precision: Precision) -> float:
        left, kept = (rounded_known(some, 1.005, precision, 1 / 127) for some in (units, rows))
        room = products(left.rows, kept.rows)

        def once() -> float:
            before = time.perf_counter()
            right = rounded_known(rows, 1.005, precision, 1 / 127) if stored else kept
            products(left.rows, right.rows, room)
            return time.perf_counter() - before

        return min(once() for _ in range(3))

    return min(kinds, key=seconds)
