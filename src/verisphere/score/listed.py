"""Listed pairs by the million: exact ranks and counts without the exact score of each.

Templates are few and pairs are many: a list picks a good share of what the product of both its sides holds. Such
products, made strip by strip in low precision, leave a key of two bytes a pair (`Screen`), and counts of keys tell in
which narrow window of score a rank or a threshold lies. The pairs of that window are scored in float32, and the few
that this leaves in doubt exactly (`GatheredScores`). Each step knows the error bound of the one before, so the answers
are those of a sort of all exact scores, for any precision, size of strip and order of the list.

Where a list picks too little of the product, every pair is scored in float32 at once.
"""

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int16, Int32, Int64
from torch import Tensor

from verisphere.score.exact.limits import KEY_RANGE
from verisphere.score.exact.screen import Rounded, Screen, full_float32, int8_unit, products, rounded
from verisphere.score.gathered import GatheredScores
from verisphere.score.listing import Listing, PackedListing, Strips, shares, side_of, strips_of
from verisphere.vocabulary import Precision, Progress, quietly

STRIP_PRODUCTS = 5 << 20  # products of a strip: 10 MB in bfloat16
PAIRS_WITHOUT_KEYS = 1 << 16  # pairs of a kind that get a float32 score each, without being sought by their keys
ROUNDED_ROWS = 1 << 8  # rows rounded at once
WIDEST_SHARE = 0.25  # share of a kind's pairs beyond which windows give way to one with all of them
#: How many times the screen's error a rank is sought from where its key lies: nearly always a small part is enough,
#: and that window is much narrower than one that must hold it.
SLACKS = (1 / 64, 2.0, np.inf)
_KEY_STEPS = 1 << 14  # to how small a part of one the products of a key are looked up


class ListedPairs:
    """Listed pairs of both kinds, screened once and ready to be asked."""

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
        """Give each pair its key, where products pay.

        Args:
            units: rows of length 1, from `unit_rows`.
            left: row of the first image of each pair.
            right: row of the second.
            genuine: True where both show the same person.
            progress: shown over the strips.
            precision: type that products are made in; changes speed, never an answer.
            tile: products held at once; changes speed and memory, never an answer.

        Raises:
            ValueError: a pair names a row that there is not.
        """
        self.units = units
        self.listing: Listing | PackedListing = Listing(left, right, genuine)
        self.keys: Keys | None = None
        on_left, on_right = side_of("left", left, len(units)), side_of("right", right, len(units))
        strips = strips_of(self.listing, on_left, on_right, tile) if len(left) > PAIRS_WITHOUT_KEYS else None
        if strips is not None:
            self.listing = strips.listing
            self.keys = keys_of(units, strips, precision, progress)

    def scores(self, genuine: bool) -> "ListedScores":
        """The scores of all genuine, or of all impostor pairs, as something that answers questions of order."""
        return ListedScores(self, genuine)


@dataclass(frozen=True, eq=False)
class Keys:
    """The key of every pair.

    Attributes:
        screen: what the keys mean.
        key: of each pair, in the order of the strips.
        counts: how many impostor and how many genuine pairs have each key.
    """

    screen: Screen
    key: Int16[np.ndarray, " pairs"]
    counts: Int64[np.ndarray, "2 keys"]

    def products(self, key: int) -> tuple[float, float]:
        """The products that have this key lie between these."""
        steps = range(-3 * _KEY_STEPS // 2, 3 * _KEY_STEPS // 2 + 1)

        def lowest(wanted: int) -> float:
            place = bisect.bisect_left(
                steps, wanted, key=lambda n: self.screen.between(n / _KEY_STEPS, n / _KEY_STEPS)[0]
            )
            return (steps.start + place) / _KEY_STEPS - self.screen.error

        return lowest(key) - 1 / _KEY_STEPS, lowest(key + 1)


def keys_of(units: Float32[Tensor, "rows dim"], strips: Strips, precision: Precision, progress: Progress) -> Keys:
    """Make the products of each strip, and keep the keys of the pairs that are listed."""
    left = _rounded(units, strips.left_rows, precision)
    right = left if strips.right_rows is strips.left_rows else _rounded(units, strips.right_rows, precision)
    row = _spread(len(units), strips.left_rows, np.arange(len(strips.left_rows)) % strips.height)
    column = _spread(len(units), strips.right_rows, np.arange(len(strips.right_rows)))
    listing, keys, counts = strips.listing, np.empty(len(strips.listing), np.int16), np.zeros((2, KEY_RANGE), np.int64)
    with full_float32():
        screen = Screen(left, right)
        for some, others, pairs in progress(strips, "scoring listed pairs", len(strips)):
            product = products(screen.left[some], screen.right[others], screen.room).view(-1)
            line = row * (others.stop - others.start) - others.start  # where its products begin, less those left out
            for share in shares(pairs.stop, pairs.start):
                on_left, on_right = listing.rows(share)
                place = line[on_left]
                place += column[on_right]
                key = screen.key(product.index_select(0, torch.from_numpy(place).to(product.device))).cpu()
                keys[share] = key.numpy()
                counts[0] += torch.bincount(key, minlength=KEY_RANGE).numpy()
                counts[1] += np.bincount(keys[share][listing.genuine[share]], minlength=KEY_RANGE)
    counts[0] -= counts[1]
    return Keys(screen, keys, counts)


@dataclass(frozen=True, eq=False)
class Window:
    """Pairs among which are all with exact scores from `low` to `high`.

    Attributes:
        low: pairs that are left out as too low score less.
        high: pairs that are left out as too high score more.
        higher: number of the latter.
        scores: the pairs.
    """

    low: float
    high: float
    higher: int
    scores: GatheredScores

    def ranked(self, rank: int) -> float | None:
        """The rank-th largest score of all, where it is certain to lie in here."""
        if not 1 <= rank - self.higher <= self.scores.total:
            return None
        score = self.scores.ranked(rank - self.higher)
        return score if self.low <= score <= self.high else None


class ListedScores:
    """Exact order statistics of the genuine, or of the impostor pairs of a list."""

    def __init__(self, pairs: ListedPairs, genuine: bool) -> None:
        """Scores of one kind of these pairs."""
        self.pairs, self.genuine = pairs, genuine
        mated = int(np.count_nonzero(pairs.listing.genuine))
        self.total = mated if genuine else len(pairs.listing) - mated
        self.windows: list[Window] = []
        if pairs.keys is None or self.total <= PAIRS_WITHOUT_KEYS:
            of_kind = np.flatnonzero(pairs.listing.genuine if genuine else ~pairs.listing.genuine)
            everything = GatheredScores(pairs.units, *pairs.listing.rows(of_kind))
            self.windows.append(Window(-np.inf, np.inf, 0, everything))
        else:
            self.keys = pairs.keys
            counts = self.keys.counts[int(genuine)]
            self.reaching = np.append(counts[::-1].cumsum()[::-1], 0)  # pairs with each key or a higher one

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
        """Find the pairs that these questions need in one go through the keys, not in one each."""
        if any(np.isinf(window.low) and np.isinf(window.high) for window in self.windows):
            return
        unknown = [cut for cut in thresholds if not any(window.low <= cut <= window.high for window in self.windows)]
        missing = [rank for rank in ranks if self._known(rank) is None]
        self._open([*((cut, cut) for cut in unknown), *(self._around(rank, SLACKS[0]) for rank in missing)])

    def _known(self, rank: int) -> float | None:
        scores = (window.ranked(rank) for window in self.windows)
        return next((score for score in scores if score is not None), None)

    def _around(self, rank: int, errors: float) -> tuple[float, float]:
        """From and to which score this rank is sought: what has its key, and so many times the screen's error more."""
        low, high = self.keys.products(int(np.flatnonzero(self.reaching >= rank)[-1]))
        slack = errors * self.keys.screen.error
        return low - slack, high + slack

    def _open(self, stretches: Sequence[tuple[float, float]]) -> None:
        """Gather the pairs that may have exact scores within these stretches, in one go through the keys."""
        if not stretches:
            return
        stretches = _outermost(stretches)
        keys = [self.keys.screen.between(low, high) for low, high in stretches]
        if sum(self.reaching[first] - self.reaching[last + 1] for first, last in keys) > WIDEST_SHARE * self.total:
            # the scores of a model that tells nobody apart, or ties: one window serves every question to come
            stretches, keys, self.windows = [(-np.inf, np.inf)], [(0, KEY_RANGE - 1)], []
        found: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in keys]
        listing, lowest = self.pairs.listing, min(first for first, _ in keys)
        for share in shares(len(listing)):
            key = self.keys.key[share]
            places = np.flatnonzero(key >= lowest)  # most questions are about the highest scores
            key = key[places]
            places += share.start
            for (first, last), some in zip(keys, found, strict=True):
                inside = places[(key >= first) & (key <= last)]
                some.append(listing.rows(inside[listing.genuine[inside] == self.genuine]))
        for (low, high), (_, last), some in zip(stretches, keys, found, strict=True):
            left, right = (np.concatenate(side) for side in zip(*some, strict=True))
            scores = GatheredScores(self.pairs.units, left, right)
            self.windows.append(Window(low, high, int(self.reaching[last + 1]), scores))


def _outermost(stretches: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The stretches that lie in no other one."""
    kept: list[tuple[float, float]] = []
    for low, high in sorted(stretches, key=lambda stretch: (stretch[0], -stretch[1])):
        if not kept or high > kept[-1][1]:
            kept.append((low, high))
    return kept


def _rounded(units: Float32[Tensor, "rows dim"], chosen: Int64[np.ndarray, " chosen"], precision: Precision) -> Rounded:
    """Some rows rounded, a few at a time, since a copy of them all would be the largest thing held."""
    rows = units.new_empty((len(chosen), units.shape[1]), dtype=getattr(torch, precision))
    if precision == "int8":
        unit = int8_unit(units[torch.from_numpy(chosen[:: max(len(chosen) // ROUNDED_ROWS, 1)])])
        rows = rows.new_empty(len(chosen), max(units.shape[1], 2))
    else:
        unit = 1.0
    lost, longest = 0.0, 0.0
    for start in range(0, len(chosen), ROUNDED_ROWS):
        part = slice(start, start + ROUNDED_ROWS)
        some = rounded(units.index_select(0, torch.from_numpy(chosen[part]).to(units.device)), precision, unit=unit)
        rows[part] = some.rows
        lost, longest = max(lost, some.lost), max(longest, some.longest)
    return Rounded(rows, lost, longest, unit)


def _spread(
    rows: int, some: Int64[np.ndarray, " some"], values: Int64[np.ndarray, " some"]
) -> Int32[np.ndarray, " rows"]:
    """An array over all rows with a value at some of them; half as wide as usual, since much is looked up in it."""
    spread = np.zeros(rows, np.int32)
    spread[some] = values
    return spread
