"""Boxes as left, top, right and bottom, in pixels: squares, corrections, and non-maximum suppression."""

from typing import Literal

import numpy as np
from jaxtyping import Float32, Int64

_BOXES_AT_ONCE = 512  # bounds the memory; a block of about one image's boxes is the fastest

Boxes = Float32[np.ndarray, "boxes 4"]


def squares(boxes: Boxes) -> Boxes:
    """Squares around the same centres, with the length of the longer side."""
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.concatenate([centres - half, centres + half], axis=1)


def corrected(boxes: Boxes, offsets: Float32[np.ndarray, "boxes 4"]) -> Boxes:
    """The boxes with each side shifted by its offset, in widths or heights of the box."""
    sides = boxes[:, 2:] - boxes[:, :2]
    return boxes + offsets * np.concatenate([sides, sides], axis=1)


def overlaps(one: Float32[np.ndarray, "ones 4"], other: Float32[np.ndarray, "others 4"], of: str) -> np.ndarray:
    """Intersection of two boxes, relative to their union or to the smaller box; (ones, others) in [0, 1]."""
    low = np.maximum(one[:, None, :2], other[None, :, :2])
    high = np.minimum(one[:, None, 2:], other[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(axis=2)
    area, other_area = (_areas(boxes) for boxes in (one, other))
    if of == "union":
        return shared / np.maximum(area[:, None] + other_area - shared, np.finfo(np.float32).tiny)
    return shared / np.maximum(np.minimum(area[:, None], other_area), np.finfo(np.float32).tiny)


def _areas(boxes: Boxes) -> Float32[np.ndarray, " boxes"]:
    return np.clip(boxes[:, 2:] - boxes[:, :2], 0, None).prod(axis=1)


def without_overlaps(
    boxes: Boxes, scores: Float32[np.ndarray, " boxes"], limit: float, of: Literal["union", "smaller"] = "union"
) -> Int64[np.ndarray, " kept"]:
    """Positions of the boxes that no better remaining box overlaps by more than `limit`, best score first."""
    order = np.argsort(-scores, kind="stable")
    kept = order[:0]
    for start in range(0, len(order), _BOXES_AT_ONCE):
        block = order[start : start + _BOXES_AT_ONCE]
        if len(kept):
            block = block[(overlaps(boxes[kept], boxes[block], of) <= limit).all(axis=0)]
        too_close = np.triu(overlaps(boxes[block], boxes[block], of) > limit, 1)  # [i, j]: i is better and overlaps j
        kept = np.concatenate([kept, block[_greedy(too_close)]])
    return kept.astype(np.int64)


def separate(
    owners: Int64[np.ndarray, " boxes"],
    boxes: Boxes,
    scores: Float32[np.ndarray, " boxes"],
    limit: float,
    of: Literal["union", "smaller"] = "union",
) -> Int64[np.ndarray, " kept"]:
    """`without_overlaps` applied to the boxes of each owner separately."""
    rows = [np.flatnonzero(owners == owner) for owner in np.unique(owners)]
    kept = [mine[without_overlaps(boxes[mine], scores[mine], limit, of)] for mine in rows]
    return np.concatenate([np.zeros(0, np.int64), *kept])


def _greedy(beats: np.ndarray) -> np.ndarray:
    """Which of n items, best first, remain, where item i, if it remains, excludes every j with beats[i, j]."""
    # Equal to a loop over rows; all rows at once converge after as many rounds as the longest chain of overlaps.
    beats, kept = beats.astype(np.float32), np.ones(len(beats), np.float32)
    while not np.array_equal(again := (kept @ beats == 0).astype(np.float32), kept):
        kept = again
    return kept.astype(bool)
