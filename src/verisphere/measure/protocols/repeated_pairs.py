"""Pairs that a list should not contain: an image with itself, and a pair that is listed again, in either order."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from verisphere.base.vocabulary import Comparisons, Embeddings
from verisphere.files.pair_lists.pair_list import place_text
from verisphere.score.listing import shares, side_of


@dataclass(frozen=True)
class Repeated:
    """The repetitions of a list; positions count from 0.

    Attributes:
        first_same_image: position of the first pair of an image with itself; 0 without one.
        again: number of pairs that were listed before, in either order.
        first_again: positions of the first pair that is listed again and of its next occurrence; (0, 0) without one.
    """

    same_image: int
    first_same_image: int
    again: int
    first_again: tuple[int, int]


def repeated_pairs(comparisons: Comparisons) -> Repeated:
    """Count pairs of a row with itself and pairs that are listed again, by sorting 4 to 8 bytes a pair."""
    left, right = comparisons.left, comparisons.right
    same_image = first_same_image = 0
    for share in shares(len(left)):
        places = np.flatnonzero(left[share] == right[share])
        if len(places) and not same_image:
            first_same_image = share.start + int(places[0])
        same_image += len(places)
    rows = 1 + max(int(left.max(initial=-1)), int(right.max(initial=-1)))
    keys = np.empty(len(left), np.uint32 if rows <= 1 << 16 else np.int64)
    for share in shares(len(left)):
        keys[share] = _keys(left[share], right[share], rows)
    keys.sort()
    again = keys[1:][keys[1:] == keys[:-1]]
    del keys
    return Repeated(same_image, first_same_image, len(again), _first_again(left, right, rows, np.unique(again)))


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
            places = np.flatnonzero(np.isin(keys, again))
            if not len(places):
                continue
            first = share.start + int(places[0]), int(keys[places[0]])
        places = share.start + np.flatnonzero(keys == first[1])
        places = places[places > first[0]]
        if len(places):
            return first[0], int(places[0])
    return 0, 0


def repeated_text(embeddings: Embeddings, comparisons: Comparisons) -> str:
    """The repetitions of a list as a sentence that names the first of each kind; empty where there are none."""
    for name, rows in (("left", comparisons.left), ("right", comparisons.right)):
        side_of(name, rows, len(embeddings))
    repeated, parts = repeated_pairs(comparisons), []
    if repeated.same_image:
        image = _image(embeddings, int(comparisons.left[repeated.first_same_image]))
        parts.append(
            f"{repeated.same_image:,} of {len(comparisons):,} pairs compare an image with itself, first {image} in "
            f"{_place(comparisons, repeated.first_same_image)}"
        )
    if repeated.again:
        first, next_ = repeated.first_again
        left, right = (_image(embeddings, int(side[first])) for side in (comparisons.left, comparisons.right))
        parts.append(
            f"{repeated.again:,} of {len(comparisons):,} pairs repeat an earlier one, first {left} with {right} in "
            f"{_place(comparisons, first)} and {_place(comparisons, next_)}"
        )
    return "; ".join(parts)


def refuse_repeated(embeddings: Embeddings, comparisons: Comparisons) -> None:
    """Refuse a list that contains a pair of an image with itself, or a pair twice."""
    text = repeated_text(embeddings, comparisons)
    if text:
        raise ValueError(
            f"{text}; such pairs move the figures: take them out of the list; evaluate pairs and evaluate ijb also "
            "keep them, by --keep-repeated (keep_repeated=True)"
        )


def _image(embeddings: Embeddings, row: int) -> str:
    name = str(embeddings.names[row])
    return repr(name if len(name) <= 200 else f"{name[:197]}...")


def _place(comparisons: Comparisons, pair: int) -> str:
    return f"pair {pair + 1:,}" if comparisons.lines is None else place_text(comparisons.lines[pair])
