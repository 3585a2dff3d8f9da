"""Stored rows that a batch is compared with, left in place, and the pairs that share a label."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

#: Label of a place that holds no row.
EMPTY = -2

LABELS_AT_ONCE = {"cpu": 1 << 16, "cuda": 1 << 24}  # labels compared at once


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows that a batch is compared with, and their labels.

    Attributes:
        rows: rows of length about 1, in bfloat16 or float32; their content is ignored where `labels` is `EMPTY`.
        labels: identity of each row, `NO_CLASS`, or `EMPTY`.
        longest: upper bound of the rows' lengths. Rounding makes a unit row longer than 1: below 1.004 in bfloat16.
    """

    rows: Shaped[Tensor, "stored dim"]
    labels: Int64[Tensor, " labels"]
    longest: float = 1.005

    def __post_init__(self) -> None:
        if self.rows.dtype not in (torch.float32, torch.bfloat16):
            raise ValueError(f"stored rows are {self.rows.dtype}; allowed are float32 and bfloat16")
        if len(self.rows) != len(self.labels):
            raise ValueError(f"{len(self.rows)} stored rows came with {len(self.labels)} labels; each takes one")

    def __len__(self) -> int:
        return len(self.rows)


def same_label(
    batch: Int64[Tensor, " batch"], stored: Int64[Tensor, " stored"]
) -> tuple[Int64[Tensor, " pairs"], Int64[Tensor, " pairs"]]:
    """Rows of all pairs of one identity, by stored row and then by row of the batch; `NO_CLASS` makes no such pair."""
    order = batch.argsort(stable=True)
    ordered = batch[order]
    stored = stored.to(batch.device)
    first = torch.searchsorted(ordered, stored)
    near = ordered[first.clamp(max=len(ordered) - 1)] if len(ordered) else torch.full_like(stored, EMPTY)
    right = ((near == stored) & (stored >= 0)).nonzero()[:, 0]
    start = first[right]
    count = torch.searchsorted(ordered, stored[right], right=True) - start
    place = torch.arange(int(count.sum()), device=batch.device) - (count.cumsum(0) - count).repeat_interleave(count)
    return order[start.repeat_interleave(count) + place], right.repeat_interleave(count)


@dataclass(frozen=True, eq=False)
class SharedLabels:
    """The stored rows, and the pairs that share a label and so are no impostor pairs.

    Two rows of `NO_CLASS` share a label too, because it is unknown whether they show one person.

    Attributes:
        places: places of the stored rows that are not `EMPTY`, ascending; a stored row's number is its position here.
        right: numbers of the stored rows whose label a row of the batch has, ascending.
        label: number of that label among the distinct labels of the batch.
        order: rows of the batch, ordered by label.
        start: position in `order` of the first row with each label.
    """

    places: Int64[np.ndarray, " filled"]
    right: Int64[np.ndarray, " met"]
    label: Int64[np.ndarray, " met"]
    order: Int64[np.ndarray, " batch"]
    count: Int64[np.ndarray, " labels"]
    start: Int64[np.ndarray, " labels"]

    def alike(self) -> Int64[np.ndarray, " batch"]:
        """For each row of the batch, the number of stored rows with its label."""
        counts = np.empty_like(self.order)
        counts[self.order] = np.bincount(self.label, minlength=len(self.count)).repeat(self.count)
        return counts

    def listed(
        self, first: int, last: int, rows: range
    ) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
        """Pairs that share a label, of some rows of the batch and the stored rows from `first` to before `last`."""
        members = slice(*np.searchsorted(self.right, [first, last]).tolist())
        count, start = self.count[self.label[members]], self.start[self.label[members]]
        place = np.arange(count.sum()) - (count.cumsum() - count).repeat(count)
        left, right = self.order[start.repeat(count) + place] - rows.start, self.right[members].repeat(count) - first
        inside = (left >= 0) & (left < len(rows))
        return left[inside], right[inside]

    def many(self, first: int, last: int) -> int:
        """An upper bound of the number of pairs that `listed` returns."""
        members = slice(*np.searchsorted(self.right, [first, last]).tolist())
        return int(self.count[self.label[members]].sum())


def shared_labels(batch: Int64[Tensor, " batch"], stored: Int64[Tensor, " stored"]) -> SharedLabels:
    """The labels that a batch and stored rows share."""
    distinct, which, count = batch.unique(return_inverse=True, return_counts=True)
    places = (stored != EMPTY).nonzero()[:, 0]
    label, right = [distinct[:0]], [distinct[:0]]
    at_once = LABELS_AT_ONCE[batch.device.type]
    for start in range(0, len(places), at_once):
        labels = stored.index_select(0, places[start : start + at_once]).to(batch.device)
        number = torch.searchsorted(distinct, labels)
        shared = (number < len(distinct)).nonzero()[:, 0]
        shared = shared[distinct[number[shared]] == labels[shared]]
        label.append(number[shared])
        right.append(shared + start)
    first = count.cumsum(0) - count
    parts = places, torch.cat(right), torch.cat(label), which.argsort(stable=True), count, first
    return SharedLabels(*(tensor.cpu().numpy() for tensor in parts))
