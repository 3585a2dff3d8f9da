"""Pairs of rows that show one person: few enough to be listed, and scored exactly one by one."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int64

PAIRS_AT_ONCE = 1 << 18  # pairs listed at once


def genuine_pairs(
    people: Int64[np.ndarray, " rows"],
    others: Int64[np.ndarray, " others"] | None = None,
    order: Int64[np.ndarray, " rows"] | None = None,
    partners: Int64[np.ndarray, " others"] | None = None,
) -> Iterator[tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]]:
    """Rows of all pairs of one person, in portions.

    Without `others` every two rows come once, the lower row first.
    """
    order = np.argsort(people, kind="stable") if order is None else order
    if others is None:
        partners, first = order, np.arange(1, len(order) + 1)
        last = np.searchsorted(people[order], people[order], side="right")
    else:
        partners = np.argsort(others, kind="stable") if partners is None else partners
        first = np.searchsorted(others[partners], people[order], side="left")
        last = np.searchsorted(others[partners], people[order], side="right")
    count = last - first
    ends = count.cumsum()
    start = 0
    while start < len(order):
        taken = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, taken + PAIRS_AT_ONCE, side="right")), start + 1)
        some = count[start:stop]
        left = np.repeat(order[start:stop], some)
        place = np.arange(len(left)) - np.repeat(some.cumsum() - some, some) + np.repeat(first[start:stop], some)
        if len(left):
            yield left, partners[place]
        start = stop


def genuine_count(people: Int64[np.ndarray, " rows"], others: Int64[np.ndarray, " others"] | None = None) -> int:
    """How many pairs of one person there are."""
    names, count = np.unique(people, return_counts=True)
    if others is None:
        return int((count * (count - 1) // 2).sum())
    other_names, other_count = np.unique(others, return_counts=True)
    _, here, there = np.intersect1d(names, other_names, assume_unique=True, return_indices=True)
    return int((count[here] * other_count[there]).sum())
