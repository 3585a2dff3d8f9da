"""The order in which listed pairs are scored, so that matrix products of few rows serve many pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Int64

PAIRS_AT_ONCE = 1 << 18  # pairs processed at once, so that their results stay in a core's cache
PRODUCTS_A_GATHERED_SCORE = 24  # products in the time of one score of two rows picked from anywhere
MIXED_SHARE = 0.6  # share of the square of all listed rows from which only its upper half is computed

MOST_PRODUCTS = 1 << 30  # products of a strip: their places are kept in 32 bits

Where: TypeAlias = "slice | Int64[np.ndarray, ' some']"


@dataclass(frozen=True, eq=False)
class Listing:
    """Pairs as they are listed, by the rows of their images; `genuine` is True where both show the same person."""

    left: Int64[np.ndarray, " pairs"]
    right: Int64[np.ndarray, " pairs"]
    genuine: Bool[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.genuine)

    def rows(self, where: Where) -> tuple[Int64[np.ndarray, " some"], Int64[np.ndarray, " some"]]:
        """Left and right row of the pairs at some places."""
        return self.left[where], self.right[where]


@dataclass(frozen=True, eq=False)
class PackedListing:
    """Pairs in another order than they are listed, 8 bytes each: left row and right row, the latter in `bits` bits."""

    packed: Int64[np.ndarray, " pairs"]
    bits: int
    genuine: Bool[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.packed)

    def rows(self, where: Where) -> tuple[Int64[np.ndarray, " some"], Int64[np.ndarray, " some"]]:
        """Left and right row of the pairs at some places."""
        pairs = self.packed[where]
        return pairs >> self.bits, pairs & ((1 << self.bits) - 1)


def packed(
    listing: Listing, strip: Int64[np.ndarray, " rows"], folded: bool
) -> tuple[PackedListing, Int64[np.ndarray, " strips"]]:
    """The same pairs strip after strip, and where each strip begins; one counting sort, no index of all pairs.

    If `folded`, the smaller row of each pair becomes its left one.
    """
    total, strips, bits = len(listing), int(strip.max()) + 1, len(strip).bit_length()
    strip = strip.astype(np.min_scalar_type(strips))  # up to 65,535 strips numpy sorts by radix
    counts = np.zeros(strips, np.int64)
    for left, _, _ in _sides(listing, folded):
        counts += np.bincount(strip[left], minlength=strips)
    starts = counts.cumsum() - counts
    pairs, genuine, free = np.empty(total, np.int64), np.empty(total, bool), starts.copy()
    for left, right, same in _sides(listing, folded):
        number = strip[left]
        order = np.argsort(number, kind="stable")
        part = ((left << bits) | right)[order]
        same = same[order]
        ends = np.bincount(number, minlength=strips).cumsum()
        for start, end, to in zip([0, *ends[:-1].tolist()], ends.tolist(), free.tolist(), strict=True):
            pairs[to : to + end - start] = part[start:end]
            genuine[to : to + end - start] = same[start:end]
        free += np.diff(ends, prepend=0)
    return PackedListing(pairs, bits, genuine), starts


def _sides(listing: Listing, folded: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Left rows, right rows and kinds of the pairs, share by share."""
    for share in shares(len(listing)):
        left, right = listing.rows(share)
        if folded:
            left, right = np.minimum(left, right), np.maximum(left, right)
        yield left, right, listing.genuine[share]


@dataclass(frozen=True, eq=False)
class Strips:
    """Runs of left rows, each with the right rows that its pairs may need.

    Attributes:
        listing: the pairs, strip after strip.
        left_rows, right_rows: rows that occur on each side, ascending.
        rising: no right row of a pair is smaller than its left row.
    """

    listing: Listing | PackedListing
    starts: Int64[np.ndarray, " strips"]
    left_rows: Int64[np.ndarray, " left_rows"]
    right_rows: Int64[np.ndarray, " right_rows"]
    rising: bool
    height: int

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[tuple[slice, slice, slice]]:
        """The part of the left rows, of the right rows, and of the pairs that make each strip."""
        firsts, bounds = self.left_rows[:: self.height], [*self.starts.tolist(), len(self.listing)]
        skipped = np.searchsorted(self.right_rows, firsts) if self.rising else np.zeros_like(firsts)
        for number, skip in enumerate(skipped.tolist()):
            start = number * self.height
            yield (
                slice(start, min(start + self.height, len(self.left_rows))),
                slice(skip, len(self.right_rows)),
                slice(bounds[number], bounds[number + 1]),
            )


@dataclass(frozen=True, eq=False)
class Side:
    """The rows that occur on one side of a list, and whether the rows of its pairs never decrease."""

    used: Bool[np.ndarray, " rows"]
    ascending: bool

    @property
    def rows(self) -> Int64[np.ndarray, " some"]:
        """The rows that occur, ascending."""
        return np.flatnonzero(self.used)


def side_of(name: str, rows_of_pairs: Int64[np.ndarray, " pairs"], rows: int) -> Side:
    """Check one side of a list, and find the rows that occur."""
    used, ascending, before = np.zeros(rows, bool), True, 0
    for share in shares(len(rows_of_pairs)):
        members = rows_of_pairs[share]
        wrong = members.view(np.uint64) >= rows  # as unsigned numbers, negative ones are too large as well
        if wrong.any():
            pair = int(wrong.argmax())
            raise ValueError(f"{name} of pair {share.start + pair} is row {members[pair]}, but there are {rows} rows")
        if (members[:-1] <= members[1:]).all():
            used[members[np.flatnonzero(members[:-1] != members[1:])]] = used[members[-1]] = True  # ends of runs
            ascending = ascending and bool(before <= members[0])
        else:
            used[members] = True
            ascending = False
        before = members[-1]
    return Side(used, ascending)


def strips_of(listing: Listing, on_left: Side, on_right: Side, tile: int) -> Strips | None:
    """The strips of a list; None where the list needs too small a share of their products."""
    used = on_left.used | on_right.used
    listed, products = int(used.sum()), int(on_left.used.sum()) * int(on_right.used.sum())
    mixed = products > MIXED_SHARE * listed**2
    if (listed**2 / 2 if mixed else products) > PRODUCTS_A_GATHERED_SCORE * len(listing):
        return None
    rising = mixed and all((listing.left[share] <= listing.right[share]).all() for share in shares(len(listing)))
    folded = mixed and not rising
    if folded:
        on_left = on_right = Side(used, False)
    elif not mixed and not on_left.ascending and on_right.ascending:
        listing, on_left, on_right = Listing(listing.right, listing.left, listing.genuine), on_right, on_left
    left_rows = on_left.rows
    right_rows = left_rows if folded else on_right.rows
    height = max(min(tile, MOST_PRODUCTS) // len(right_rows), 1)
    height -= height % 64 if height > 64 else 0  # products of odd heights are slower
    if on_left.ascending:
        starts = np.searchsorted(listing.left, left_rows[::height])
        return Strips(listing, starts, left_rows, right_rows, rising, height)
    strip = np.zeros(len(used), np.int64)
    strip[left_rows] = np.arange(len(left_rows)) // height
    return Strips(*packed(listing, strip, folded), left_rows, right_rows, mixed, height)


def shares(stop: int, start: int = 0) -> Iterator[slice]:
    """The places from start to stop, in parts that are small enough for a core's cache."""
    for first in range(start, stop, PAIRS_AT_ONCE):
        yield slice(first, min(first + PAIRS_AT_ONCE, stop))
