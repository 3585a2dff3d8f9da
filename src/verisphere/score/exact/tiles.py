"""Pairs of rows in tiles of a product: which pairs a tile holds, and which of them lie in windows of score.

Rows are ordered by domain, so that the pairs of two domains in a tile form rectangles. Inside a domain the order is a
fixed shuffle: every tile is then a random sample of the pairs, and the first tiles predict the rest.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int16, Int64, Shaped
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.mapped import is_mapped, read_now, room, rows_at
from verisphere.base.vocabulary import Precision
from verisphere.score.exact.limits import BORDERS_COUNTED_SINGLY, DENSE_RUNS, KEY_RANGE, RUN_KEYS, SCORES_BEFORE_MERGING
from verisphere.score.exact.screen import Keys, Rounded, Screen, between, product_type, rounded, true_count, true_places
from verisphere.score.exact.windows import Stretch, WindowPart, counted
from verisphere.score.genuine import genuine_pairs
from verisphere.score.pairs import pair_scores, rough_error, rough_scores


@dataclass(frozen=True, eq=False)
class Side:
    """One side of the pairs: unit rows in the order of the tiles, domains ascending; `origin` is where each was."""

    units: Float32[Tensor, "rows dim"]
    people: Int64[np.ndarray, " rows"]
    domains: Int64[np.ndarray, " rows"]
    origin: Int64[np.ndarray, " rows"]

    def __len__(self) -> int:
        return len(self.units)


def side_of(
    units: Float32[Tensor, "rows dim"], people: Int64[np.ndarray, " rows"], domains: Int64[np.ndarray, " rows"]
) -> Side:
    """Rows in the order of their domains, shuffled inside each."""
    shuffled = np.random.default_rng(0).permutation(len(units))
    order = shuffled[np.argsort(domains[shuffled], kind="stable")]
    return Side(rows_at(units, order), people[order], domains[order], order)


@dataclass(frozen=True, eq=False)
class Patch:
    """Keys of some pairs of one group.

    Attributes:
        keys: keys of the pairs of neighbouring rows; 0 where there is no pair, or less where that does not matter.
        pairs: number of pairs, including genuine pairs, which have no key.
        fine: number of bits by which the keys are finer than the keys of bands.
    """

    group: int
    keys: Keys
    left: int
    right: int
    pairs: int
    fine: int = 0


@runtime_checkable
class Tiled(Protocol):
    """Pairs in numbered tiles of a product, as `scan_tiles` takes them."""

    @property
    def rough_error(self) -> float:
        """The largest error of a score of `rough`."""
        ...

    def screen(self, number: int) -> Screen:
        """The screen that the keys of a tile come from."""
        ...

    def patches(self, number: int, screen: Screen, positive: bool = False) -> Iterator[Patch]:
        """The impostor pairs of one tile, by group, with keys of its screen, `positive` as `Screen.keys` takes it."""
        ...

    def score(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float64[Tensor, " pairs"]:
        """Exact scores of pairs of rows."""
        ...

    def rough(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float32[Tensor, " pairs"]:
        """Scores in float32 of pairs of rows of one tile, the left ones ascending."""
        ...


class Tiles:
    """All pairs of two sides, or of one side with itself, as numbered tiles."""

    def __init__(
        self, left: Side, right: Side | None, across: int, precision: Precision, span: tuple[float, float], block: int
    ) -> None:
        """Prepare the rows for products.

        Without `right` every two rows of `left` are compared once. `across` is the number of the group of pairs of two
        domains; a group within a domain has the domain's number. Keys are fine between the scores of `span`.
        """
        self.left, self.right, self.across = left, left if right is None else right, across
        self.symmetric, self.block, self.span = right is None, block, span
        self._left = _blocks(left.units, precision, block)
        self._right = self._left if right is None else _blocks(right.units, precision, block)
        low = self._left[0].rows
        # as large as the largest tile: memory that numpy has viewed cannot be resized
        self._room = low.new_empty(len(low) * len(self._right[0].rows), dtype=product_type(low.dtype))
        with full_float32():
            Screen(self._left[0], self._right[-1], *span)  # checks the products
        rows, columns = range(0, len(self.left), block), range(0, len(self.right), block)
        corners = [(a, b) for a in rows for b in columns if a <= b or not self.symmetric]
        order = np.random.default_rng(1).permutation(len(corners))
        self.corners = [corners[number] for number in order]
        self._by_person: dict[tuple[bool, int], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self.corners)

    def pairs(self, number: int) -> int:
        """Number of pairs of a tile, genuine pairs included."""
        a, b = self.corners[number]
        rows, columns = min(self.block, len(self.left) - a), min(self.block, len(self.right) - b)
        return rows * (rows - 1) // 2 if self.symmetric and a == b else rows * columns

    def screen(self, number: int) -> Screen:
        """The screen of a tile; each block of rows has a unit and bounds of its own, and so has each tile."""
        a, b = self.corners[number]
        left, right = self._left[a // self.block], self._right[b // self.block]
        read_now(left.rows)
        read_now(right.rows)
        return Screen(left, right, *self.span, self._room, tried=True)

    def score(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float64[Tensor, " pairs"]:
        """Exact scores of pairs of rows."""
        return pair_scores(self.left.units, left, right, self.right.units)

    @property
    def rough_error(self) -> float:
        """The largest error of a score of `rough`."""
        return rough_error(self.left.units.shape[1])

    def rough(self, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]) -> Float32[Tensor, " pairs"]:
        """Scores in float32 of pairs of rows, the left ones ascending."""
        return rough_scores(self.left.units, left, right, self.right.units)

    def _genuine(self, a: int, b: int) -> Iterator[tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]]:
        """Places in a tile of the genuine pairs; the order of a block's rows by person is cached."""
        sides = []
        for on_left, start, people in ((True, a, self.left.people), (self.symmetric, b, self.right.people)):
            block = people[start : start + self.block]
            if (on_left, start) not in self._by_person:
                self._by_person[on_left, start] = np.argsort(block, kind="stable")
            sides.append((block, self._by_person[on_left, start]))
        (people, order), (others, partners) = sides
        return genuine_pairs(people, others, order, partners)

    def patches(self, number: int, screen: Screen, positive: bool = False) -> Iterator[Patch]:
        """The impostor pairs of one tile, by group, with keys of its screen, `positive` as `Screen.keys` takes it."""
        a, b = self.corners[number]
        rows, columns = slice(a, a + self.block), slice(b, b + self.block)
        keys, fine = screen.keys(slice(None), slice(None), positive), screen.fine(positive)
        if self.symmetric and a == b:
            keys.triu_(1)  # each pair once, no row with itself
        for left, right in self._genuine(a, b):
            keys.view(-1)[torch.from_numpy(left * keys.shape[1] + right).to(keys.device)] = 0
        home, away = self.left.domains[rows], self.right.domains[columns]
        rest = self.pairs(number)
        if home[0] == home[-1] == away[0] == away[-1]:
            yield Patch(int(home[0]), keys, a, b, rest, fine)
            return
        for domain in np.intersect1d(home, away).tolist():
            (r0, r1), (c0, c1) = (np.searchsorted(side, [domain, domain + 1]).tolist() for side in (home, away))
            inside = keys[r0:r1, c0:c1]
            pairs = (r1 - r0) * (r1 - r0 - 1) // 2 if self.symmetric and a == b else (r1 - r0) * (c1 - c0)
            yield Patch(domain, inside.clone(), a + r0, b + c0, pairs, fine)
            inside.zero_()
            rest -= pairs
        yield Patch(self.across, keys, a, b, rest, fine)


def _blocks(units: Float32[Tensor, "rows dim"], precision: Precision, block: int) -> list[Rounded]:
    """Rows in blocks, rounded (and mapped) separately: the int8 unit depends on the largest number of few rows."""
    starts = range(0, max(len(units), 1), block)
    blocks = (rounded(units[start : start + block], precision, start) for start in starts)
    if not is_mapped(units) or precision == "float32":  # float32 rows are those of `units`
        return list(blocks)
    kept: list[Rounded] = []
    for start, part in zip(starts, blocks, strict=True):
        if not kept:
            rows = room((len(units), part.rows.shape[1]), part.rows.dtype, mapped=True)
        rows[start : start + block] = part.rows
        kept.append(replace(part, rows=rows[start : start + block]))
    return kept


@dataclass(frozen=True, eq=False)
class OpenPairs:
    """Pairs whose keys do not decide whether their scores lie in a stretch, with the number of pairs of higher keys.

    `left` ascends; `higher` is, for the last key of each band, the number of pairs with a higher key.
    """

    left: Int64[Tensor, " pairs"]
    right: Int64[Tensor, " pairs"]
    key: Int16[Tensor, " pairs"]
    higher: dict[int, int]


def open_pairs(patch: Patch, bands: Sequence[tuple[int, int]]) -> OpenPairs:
    """Pairs with keys in any of these bands, and for each band the number of pairs with higher keys.

    A band is its lowest and highest key, both included.
    """
    merged, borders = _merged(bands), sorted({last for _, last in bands})
    fine, flat = patch.fine, patch.keys.reshape(-1)
    if len(flat) % RUN_KEYS:
        flat = torch.nn.functional.pad(flat, (0, -len(flat) % RUN_KEYS))
    runs = flat.view(-1, RUN_KEYS)
    top = runs.amax(1)
    # Few runs reach the bands from `rare` on, and only those runs are compared with them; lower bands take every key.
    rare = 0
    while rare < len(merged) and true_count(between(top, merged[rare][0] << fine)) > DENSE_RUNS * len(top):
        rare += 1
    higher = _higher(flat, borders, fine) if rare else {}
    parts: list[Tensor] = []
    if rare:
        inside = torch.zeros(runs.shape, dtype=torch.bool, device=runs.device)
        for first, last in merged[:rare]:
            inside |= between(runs, first << fine, ((last + 1) << fine) - 1)
        parts.append(true_places(inside))
    if rare < len(merged):
        first = merged[rare][0]
        hit = true_places(between(top, first << fine))
        reaching = runs.index_select(0, hit)
        place = true_places(between(reaching, first << fine))
        keys = reaching.view(-1).index_select(0, place).cpu().numpy() >> fine
        wanted = np.zeros(len(keys), bool)
        for low, high in merged[rare:]:
            wanted |= (keys >= low) & (keys <= high)
        place = place[torch.from_numpy(wanted.nonzero()[0]).to(place.device)]
        parts.append(hit[place // RUN_KEYS] * RUN_KEYS + place % RUN_KEYS)
        if not rare:
            higher = {border: int(np.count_nonzero(keys > border)) for border in borders}
    number = parts[0] if len(parts) == 1 else torch.cat(parts).sort().values
    columns = patch.keys.shape[1]
    left = torch.div(number, columns, rounding_mode="floor")
    key = (flat.index_select(0, number) >> fine).to(torch.int16)
    return OpenPairs(patch.left + left, patch.right + number - left * columns, key, higher)


def _higher(flat: Shaped[Tensor, " keys"], borders: Sequence[int], fine: int) -> dict[int, int]:
    """The number of keys above each border."""
    if len(borders) <= BORDERS_COUNTED_SINGLY:
        return {border: true_count(between(flat, (border + 1) << fine)) for border in borders}
    counts = torch.bincount(flat.clamp(min=0) >> fine, minlength=KEY_RANGE).cpu().numpy()
    above = len(flat) - counts.cumsum()
    return {border: int(above[border]) for border in borders}


def _merged(bands: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Bands, ascending; bands that touch are merged."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(bands):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def scan_tiles(tiles: Tiled, numbers: Sequence[int], stretches: Sequence[Stretch]) -> list[WindowPart]:
    """Find the scores of some tiles that lie in these stretches, and count the pairs above them."""
    ends = [(low, high) for low, high, _ in stretches]
    above = [np.zeros(len(groups), np.int64) for _, _, groups in stretches]
    inside: list[list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = [[] for _ in stretches]
    room, seen, patches = ([start] * len(stretches) for start in (SCORES_BEFORE_MERGING, 0, 0))
    with full_float32():
        for number in numbers:
            screen = tiles.screen(number)
            bands = screen.bands(ends)
            shift = screen.shift(min(first for first, _ in bands))
            bands = [(first - shift, last - shift) for first, last in bands]
            for patch in tiles.patches(number, screen, shift > 0):
                wanted = [w for w, (_, _, groups) in enumerate(stretches) if patch.group in groups]
                if not wanted:
                    continue
                patch_bands = [bands[w] for w in wanted]
                near = open_pairs(patch, patch_bands)
                scores, sure = _exact_scores(tiles, near, [stretches[w] for w in wanted], patch_bands, screen.error)
                for w, score, certain in zip(wanted, scores, sure, strict=True):
                    seen[w], patches[w] = seen[w] + patch.pairs, patches[w] + 1
                    (low, high, groups), (_, last) = stretches[w], bands[w]
                    place = groups.index(patch.group)
                    above[w][place] += near.higher[last] + certain + np.count_nonzero(score > high)
                    within = score[(score >= low) & (score <= high)]
                    if len(within):
                        inside[w].append((within, np.full(len(within), place), np.ones(len(within), np.int64)))
                        room[w] -= len(within)
                        if room[w] < 0:
                            inside[w] = [_merged_scores(inside[w])]
                            room[w] = max(SCORES_BEFORE_MERGING, len(inside[w][0][0]))
    return [WindowPart(above[w], *_merged_scores(inside[w]), seen[w], patches[w]) for w in range(len(stretches))]


def _exact_scores(
    tiles: Tiled, near: OpenPairs, stretches: Sequence[Stretch], bands: Sequence[tuple[int, int]], screened: float
) -> tuple[list[Float64[np.ndarray, " open"]], list[int]]:
    """For each stretch the exact scores that may lie inside, and the number of other pairs of its band above it.

    Where the error of the screen (`screened`) is much larger than that of float32 scores, these decide most pairs near
    a stretch, many times faster.
    """
    key = near.key.cpu().numpy()
    inside = [np.flatnonzero((key >= first) & (key <= last)) for first, last in bands]
    sure = [0] * len(stretches)
    error = tiles.rough_error
    if screened > 2 * error and len(key):
        rough = tiles.rough(near.left, near.right).double().cpu().numpy()
        for number, (low, high, _) in enumerate(stretches):
            about = rough[inside[number]]
            sure[number] = int(np.count_nonzero(about > high + error))
            inside[number] = inside[number][(about >= low - error) & (about <= high + error)]
    wanted = np.zeros(len(key), bool)
    for members in inside:
        wanted[members] = True
    chosen, place = np.flatnonzero(wanted), wanted.cumsum() - 1
    places = torch.from_numpy(chosen).to(near.left.device)
    score = tiles.score(near.left[places], near.right[places]).cpu().numpy() + 0.0  # -0.0 is 0.0
    return [score[place[members]] for members in inside], sure


def _merged_scores(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if not parts:
        return np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)
    score, group, count = (np.concatenate(column) for column in zip(*parts, strict=True))
    return counted(score, group, count)
