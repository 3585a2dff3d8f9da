"""Listed pairs by the million: exact ranks and counts without the exact score of each pair.

Templates are few and pairs are many: a list contains a large share of the product of its two sides. Such products, made
strip by strip in low precision, give each pair a key of two bytes (`Screen`), and counts of keys bound the narrow
window of score in which a rank or a threshold lies. The pairs of that window are scored in float32, and the few that
remain open are scored exactly (`GatheredScores`). Each step uses the error bound of the previous one, so the answers
equal those of a sort of all exact scores, for any precision, size of strip and order of the list.

Where a list contains too small a share of the product, every pair is scored in float32.

`GatheredScores` takes any list of row pairs: float32 scores order all but a few pairs: only the pairs within the error
bound of a rank or a threshold are scored exactly (`pair_scores`), when a question first needs them.
"""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int16, Int32, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import Precision, Progress, quietly
from verisphere.base.work import Arrays, divided, results
from verisphere.score.exact.limits import KEY_RANGE
from verisphere.score.exact.scan import runs
from verisphere.score.exact.screen import Rounded, Screen, int8_unit, products, rounded
from verisphere.score.listing import Listing, PackedListing, Strips, Where, shares, side_of, strips_of
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


STRIP_PRODUCTS = 5 << 20  # products of a strip: 10 MB in bfloat16
PAIRS_WITHOUT_KEYS = 1 << 16  # up to so many pairs of a kind are all scored in float32, without keys
ROUNDED_ROWS = 1 << 8  # rows rounded at once
WIDEST_SHARE = 0.25  # share of a kind's pairs beyond which one window of all pairs replaces the others
#: Half-widths of the windows in which a rank is looked for, in errors of the screen: a small part nearly always
#: suffices, and that window is much narrower than one that is certain to hold the rank.
SLACKS = (1 / 64, 2.0, np.inf)
_KEY_STEPS = 1 << 14  # steps to 1 in which the products of a key are looked up
_SCORING = "scoring listed pairs"


class ListedPairs:
    """Listed genuine and impostor pairs, screened once, which answer questions of order.

    >>> from verisphere.score import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> left, right, genuine = np.array([0, 0]), np.array([1, 2]), np.array([True, False])
    >>> round(ListedPairs(units, left, right, genuine).scores(genuine=True).ranked(1), 6)
    0.96
    """

    def __init__(
        self,
        units: Float32[Tensor, "rows dim"],
        left: Int64[np.ndarray, " pairs"],
        right: Int64[np.ndarray, " pairs"],
        genuine: Bool[np.ndarray, " pairs"],
        progress: Progress = quietly,
        precision: Precision = "bfloat16",
        tile: int = STRIP_PRODUCTS,
    ) -> None:
        """Compute the key of each pair, where products are worth their time."""
        self.units = units
        self.listing: Listing | PackedListing = Listing(left, right, genuine)
        self.keys: Keys | None = None
        on_left, on_right = side_of("left", left, len(units)), side_of("right", right, len(units))
        strips = strips_of(self.listing, on_left, on_right, tile) if len(left) > PAIRS_WITHOUT_KEYS else None
        if strips is not None:
            self.listing = strips.listing
            self.keys = keys_of(units, strips, precision, progress)

    def scores(self, genuine: bool, only: Bool[np.ndarray, " rows"] | None = None) -> "ListedScores":
        """The scores of all genuine, or of all impostor pairs, which answer questions of order.

        Args:
            genuine: True for the genuine pairs, False for the impostor pairs.
            only: True for the rows of a domain: pairs within it alone; None for the pairs of all rows.
        """
        return ListedScores(self, genuine, only)


@dataclass(frozen=True, eq=False)
class Keys:
    """The key of each pair, in the order of the strips, and the number of impostor and of genuine pairs by key."""

    screen: Screen
    key: Int16[np.ndarray, " pairs"]
    counts: Int64[np.ndarray, "2 keys"]

    def products(self, key: int) -> tuple[float, float]:
        """Lower and upper bound of the products with this key."""
        steps = range(-3 * _KEY_STEPS // 2, 3 * _KEY_STEPS // 2 + 1)

        def lowest(wanted: int) -> float:
            place = bisect.bisect_left(
                steps, wanted, key=lambda n: self.screen.between(n / _KEY_STEPS, n / _KEY_STEPS)[0]
            )
            return (steps.start + place) / _KEY_STEPS - self.screen.error

        return lowest(key) - 1 / _KEY_STEPS, lowest(key + 1)


def keys_of(units: Float32[Tensor, "rows dim"], strips: Strips, precision: Precision, progress: Progress) -> Keys:
    """Compute the products of each strip, and the keys of the listed pairs."""
    left = _rounded(units, strips.left_rows, precision)
    right = left if strips.right_rows is strips.left_rows else _rounded(units, strips.right_rows, precision)
    row = _spread(len(units), strips.left_rows, np.arange(len(strips.left_rows)) % strips.height)
    column = _spread(len(units), strips.right_rows, np.arange(len(strips.right_rows)))
    listing, every = strips.listing, list(strips)
    with full_float32():
        screen = Screen(left, right)
    width = len(strips.left_rows) * len(strips.right_rows)
    pieces = runs(len(every), width) if divided() else [range(len(every))]
    outside, inside = (progress, quietly) if divided() else (quietly, progress)

    def compute(some: Iterable[range]) -> Iterator[Arrays]:
        for piece in some:
            chosen = every[piece.start : piece.stop]
            first, counts = chosen[0][2].start, np.zeros((2, KEY_RANGE), np.int64)
            keys = np.empty(chosen[-1][2].stop - first, np.int16)
            for lefts, rights, pairs in inside(chosen, _SCORING, len(chosen)):
                with full_float32():
                    product = products(screen.left[lefts], screen.right[rights], screen.room).view(-1)
                line = row * (rights.stop - rights.start) - rights.start  # a row's first product, less skipped columns
                for share in shares(pairs.stop, pairs.start):
                    on_left, on_right = listing.rows(share)
                    place = line[on_left]
                    place += column[on_right]
                    key = screen.key(product.index_select(0, torch.from_numpy(place).to(product.device))).cpu()
                    keys[share.start - first : share.stop - first] = key.numpy()
                    counts[0] += torch.bincount(key, minlength=KEY_RANGE).numpy()
                    counts[1] += np.bincount(key.numpy()[listing.genuine[share]], minlength=KEY_RANGE)
            yield {"keys": keys, "counts": counts}

    def about() -> list[object]:
        return [units, precision, strips.height, *vars(listing).values()]

    keys, counts, start = np.empty(len(listing), np.int16), np.zeros((2, KEY_RANGE), np.int64), 0
    for part in results("keys", about, pieces, compute, outside, _SCORING):
        keys[start : start + len(part["keys"])] = part["keys"]
        start += len(part["keys"])
        counts += part["counts"]
    counts[0] -= counts[1]
    return Keys(screen, keys, counts)


@dataclass(frozen=True, eq=False)
class ListedWindow:
    """A set of pairs that contains all pairs with exact scores from `low` to `high`.

    Excluded pairs with lower keys score less than `low`, and those with higher keys, of which there are `higher`, more
    than `high`.
    """

    low: float
    high: float
    higher: int
    scores: GatheredScores

    def ranked(self, rank: int) -> float | None:
        """The rank-th largest score of all pairs; None where it need not lie in this window."""
        if not 1 <= rank - self.higher <= self.scores.total:
            return None
        score = self.scores.ranked(rank - self.higher)
        return score if self.low <= score <= self.high else None


class ListedScores:
    """Exact order statistics of the genuine, or of the impostor pairs of a list, or of a domain of its rows.

    >>> from verisphere.score import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> left, right, genuine = np.array([0, 0]), np.array([1, 2]), np.array([True, False])
    >>> impostor = ListedPairs(units, left, right, genuine).scores(genuine=False)
    >>> impostor.total, impostor.above(0.7)
    (1, 1)
    """

    def __init__(self, pairs: ListedPairs, genuine: bool, only: Bool[np.ndarray, " rows"] | None = None) -> None:
        """Scores of one kind of these pairs; `only` as in `ListedPairs.scores`."""
        self.pairs, self.genuine, self.only = pairs, genuine, only
        self.total = sum(int(np.count_nonzero(self._chosen(share))) for share in shares(len(pairs.listing)))
        self.windows: list[ListedWindow] = []
        if pairs.keys is None or self.total <= PAIRS_WITHOUT_KEYS:
            places = [share.start + np.flatnonzero(self._chosen(share)) for share in shares(len(pairs.listing))]
            of_kind = np.concatenate(places) if places else np.empty(0, np.int64)
            everything = GatheredScores(pairs.units, *pairs.listing.rows(of_kind))
            self.windows.append(ListedWindow(-np.inf, np.inf, 0, everything))
        else:
            self.keys = pairs.keys
            counts = self.keys.counts[int(genuine)] if only is None else self._counted(self.keys)
            self.reaching = np.append(counts[::-1].cumsum()[::-1], 0)  # pairs with each key or a higher one

    def _chosen(self, places: Where) -> Bool[np.ndarray, " some"]:
        """Which of the pairs at these places are of this kind, and of this domain."""
        same = self.pairs.listing.genuine[places] == self.genuine
        if self.only is None:
            return same
        left, right = self.pairs.listing.rows(places)
        return same & self.only[left] & self.only[right]

    def _counted(self, keys: Keys) -> Int64[np.ndarray, " keys"]:
        """Number of chosen pairs with each key."""
        counts = np.zeros(KEY_RANGE, np.int64)
        for share in shares(len(self.pairs.listing)):
            counts += np.bincount(keys.key[share][self._chosen(share)], minlength=KEY_RANGE)
        return counts

    def ranked(self, rank: int) -> float:
        """The rank-th largest score."""
        assert 1 <= rank <= self.total, (rank, self.total)
        score = self._known(rank)
        for errors in SLACKS:
            if score is None:
                self._open([self._around(rank, errors)])
                score = self._known(rank)
        assert score is not None, "a window of all pairs holds every rank"
        return score

    def above(self, threshold: float) -> int:
        """How many scores are strictly greater than the threshold."""
        if np.isinf(threshold):
            return self.total if threshold < 0 else 0
        self.prepare(thresholds=[threshold])
        window = next(window for window in self.windows if window.low <= threshold <= window.high)
        return window.higher + window.scores.above(threshold)

    def prepare(self, ranks: Iterable[int] = (), thresholds: Iterable[float] = ()) -> None:
        """Find the pairs that these questions need by one pass over the keys."""
        if any(np.isinf(window.low) and np.isinf(window.high) for window in self.windows):
            return
        unknown = [cut for cut in thresholds if not any(window.low <= cut <= window.high for window in self.windows)]
        missing = [rank for rank in ranks if self._known(rank) is None]
        self._open([*((cut, cut) for cut in unknown), *(self._around(rank, SLACKS[0]) for rank in missing)])

    def _known(self, rank: int) -> float | None:
        scores = (window.ranked(rank) for window in self.windows)
        return next((score for score in scores if score is not None), None)

    def _around(self, rank: int, errors: float) -> tuple[float, float]:
        """Scores between which this rank is looked for: those of its key, and this many errors of the screen beyond."""
        low, high = self.keys.products(int(np.flatnonzero(self.reaching >= rank)[-1]))
        slack = errors * self.keys.screen.error
        return low - slack, high + slack

    def _open(self, stretches: Sequence[tuple[float, float]]) -> None:
        """Gather the pairs that may have exact scores within these stretches, by one pass over the keys."""
        if not stretches:
            return
        stretches = _outermost(stretches)
        keys = [self.keys.screen.between(low, high) for low, high in stretches]
        if sum(self.reaching[first] - self.reaching[last + 1] for first, last in keys) > WIDEST_SHARE * self.total:
            # the scores of a model that cannot distinguish people, or ties: one window serves all further questions
            stretches, keys, self.windows = [(-np.inf, np.inf)], [(0, KEY_RANGE - 1)], []
        rows: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in keys]
        listing, lowest = self.pairs.listing, min(first for first, _ in keys)
        for share in shares(len(listing)):
            key = self.keys.key[share]
            places = np.flatnonzero(key >= lowest)  # most questions are about the highest scores
            key = key[places]
            places += share.start
            for (first, last), members in zip(keys, rows, strict=True):
                inside = places[(key >= first) & (key <= last)]
                members.append(listing.rows(inside[self._chosen(inside)]))
        for (low, high), (_, last), members in zip(stretches, keys, rows, strict=True):
            left, right = (np.concatenate(side) for side in zip(*members, strict=True))
            scores = GatheredScores(self.pairs.units, left, right)
            self.windows.append(ListedWindow(low, high, int(self.reaching[last + 1]), scores))


def _outermost(stretches: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The stretches that are not contained in another one."""
    outermost: list[tuple[float, float]] = []
    for low, high in sorted(stretches, key=lambda stretch: (stretch[0], -stretch[1])):
        if not outermost or high > outermost[-1][1]:
            outermost.append((low, high))
    return outermost


def _rounded(units: Float32[Tensor, "rows dim"], chosen: Int64[np.ndarray, " chosen"], precision: Precision) -> Rounded:
    """The chosen rows, rounded a few at a time, since a float32 copy of all would need the most memory."""
    rows = units.new_empty((len(chosen), units.shape[1]), dtype=getattr(torch, precision))
    if precision == "int8":
        unit = int8_unit(units[torch.from_numpy(chosen[:: max(len(chosen) // ROUNDED_ROWS, 1)])])
        rows = rows.new_empty(len(chosen), max(units.shape[1], 2))
    else:
        unit = 1.0
    lost, longest = 0.0, 0.0
    for start in range(0, len(chosen), ROUNDED_ROWS):
        part = slice(start, start + ROUNDED_ROWS)
        members = units.index_select(0, torch.from_numpy(chosen[part]).to(units.device))
        block = rounded(members, precision, unit=unit)
        rows[part] = block.rows
        lost, longest = max(lost, block.lost), max(longest, block.longest)
    return Rounded(rows, lost, longest, unit)


def _spread(
    rows: int, chosen: Int64[np.ndarray, " chosen"], values: Int64[np.ndarray, " chosen"]
) -> Int32[np.ndarray, " rows"]:
    """An array over all rows with these values at the chosen rows; of int32, since it is read very often."""
    spread = np.zeros(rows, np.int32)
    spread[chosen] = values
    return spread
