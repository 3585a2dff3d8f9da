"""Pairs that a list should not have: an image with itself, and a pair that is listed again, in either order."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from verisphere.score.listing import shares, side_of
from verisphere.vocabulary import Comparisons, Embeddings


@dataclass(frozen=True)
class Repeated:
    """What a list repeats; positions count from 0.

    Attributes:
        own: pairs of an image with itself.
        first_own: the first of them; 0 where there is none.
        again: pairs that are listed before, in either order.
        first_again: a pair that is listed again, and where; the first such pair. (0, 0) where there is none.
    """

    own: int
    first_own: int
    again: int
    first_again: tuple[int, int]


def repeated_pairs(comparisons: Comparisons) -> Repeated:
    """Count pairs of a row with itself and pairs that are listed again.

    Sorts one number a pair: 4 bytes each up to 65,536 rows, 8 bytes each beyond.

    Args:
        comparisons: pairs of rows from 0.
    """
    left, right = comparisons.left, comparisons.right
    own = first_own = 0
    for share in shares(len(left)):
        same = np.flatnonzero(left[share] == right[share])
        if len(same) and not own:
            first_own = share.start + int(same[0])
        own += len(same)
    rows = 1 + max(int(left.max(initial=-1)), int(right.max(initial=-1)))
    keys = np.empty(len(left), np.uint32 if rows <= 1 << 16 else np.int64)
    for share in shares(len(left)):
        keys[share] = _keys(left[share], right[share], rows)
    keys.sort()
    again = keys[1:][keys[1:] == keys[:-1]]
    del keys
    return Repeated(own, first_own, len(again), _first_again(left, right, rows, np.unique(again)))


def _keys(left: Int64[np.ndarray, " some"], right: Int64[np.ndarray, " some"], rows: int) -> Int64[np.ndarray, " some"]:
    """A number for each pair that is the same for both of its orders, and for no other pair."""
    return np.minimum(left, right) * rows + np.maximum(left, right)


def _first_again(
    left: Int64[np.ndarray, " pairs"], right: Int64[np.ndarray, " pairs"], rows: int, again: np.ndarray
) -> tuple[int, int]:
    """Position of the first pair whose key is among those that occur again, and where it occurs next."""
    first: tuple[int, int] | None = None  # position and key
    for share in shares(len(left) if len(again) else 0):
        keys = _keys(left[share], right[share], rows)
        if first is None:
            met = np.flatnonzero(np.isin(keys, again))
            if not len(met):
                continue
            first = share.start + int(met[0]), int(keys[met[0]])
        met = share.start + np.flatnonzero(keys == first[1])
        met = met[met > first[0]]
        if len(met):
            return first[0], int(met[0])
    return 0, 0


def repeated_text(embeddings: Embeddings, comparisons: Comparisons) -> str:
    """What a list repeats, in words, with the first of each kind by name; empty where it repeats nothing.

    Raises:
        ValueError: a pair names a row that there is not.
    """
    for name, rows in (("left", comparisons.left), ("right", comparisons.right)):
        side_of(name, rows, len(embeddings))
    found, parts = repeated_pairs(comparisons), []
    if found.own:
        image = _image(embeddings, int(comparisons.left[found.first_own]))
        parts.append(
            f"{found.own:,} of {len(comparisons):,} pairs compare an image with itself, first {image} in "
            f"{_place(comparisons, found.first_own)}"
        )
    if found.again:
        first, next_ = found.first_again
        left, right = (_image(embeddings, int(side[first])) for side in (comparisons.left, comparisons.right))
        parts.append(
            f"{found.again:,} of {len(comparisons):,} pairs repeat an earlier one, first {left} with {right} in "
            f"{_place(comparisons, first)} and {_place(comparisons, next_)}"
        )
    return "; ".join(parts)


def refuse_repeated(embeddings: Embeddings, comparisons: Comparisons) -> None:
    """Refuse a list that has a pair of an image with itself, or a pair twice.

    Raises:
        ValueError: it does; says how many of each, and the first by name. Or a pair names a row that there is not.
    """
    text = repeated_text(embeddings, comparisons)
    if text:
        raise ValueError(
            f"{text}; such pairs move the figures: take them out of the list, or keep them by --keep-repeated "
            "(keep_repeated=True)"
        )


def _image(embeddings: Embeddings, row: int) -> str:
    name = str(embeddings.names[row])
    return repr(name if len(name) <= 200 else f"{name[:197]}...")


def _place(comparisons: Comparisons, pair: int) -> str:
    return f"pair {pair + 1:,}" if comparisons.lines is None else f"line {comparisons.lines[pair]}"
