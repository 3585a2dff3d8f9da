"""Rows that a batch is compared with, where and as they are stored, and which of them share a label with it."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

#: Label of a place where no row is stored.
EMPTY = -2

LABELS_AT_ONCE = 1 << 16  # labels compared at once


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows that a batch is compared with, and whose they are.

    Attributes:
        rows: of length about 1, or anything where `labels` is `EMPTY`; bfloat16 or float32.
        labels: identity of each row, `NO_CLASS`, or `EMPTY`.
        longest: no row is longer. A unit row is longer than 1 by rounding only: less than 1.004 in bfloat16.
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
    """Rows of all pairs of one identity, by stored row and then by row of the batch; of `NO_CLASS` there are none."""
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
    """Which stored rows there are, and which pairs of theirs are no impostor pairs: those with one label.

    Two rows of `NO_CLASS` have one as well: nobody knows whether they are of one person.

    Attributes:
        places: of stored rows that are not `EMPTY`, ascending; their numbers in this list stand for them.
        right: numbers of those whose label a row of the batch has, ascending.
        label: number of that label, among the distinct ones of the batch.
        order: rows of the batch by label.
        count: how many of them have each label.
        start: where in `order` those begin.
    """

    places: Int64[np.ndarray, " filled"]
    right: Int64[np.ndarray, " met"]
    label: Int64[np.ndarray, " met"]
    order: Int64[np.ndarray, " batch"]
    count: Int64[np.ndarray, " labels"]
    start: Int64[np.ndarray, " labels"]

    def alike(self) -> Int64[np.ndarray, " batch"]:
        """How many stored rows have the label of each row of the batch."""
        found = np.empty_like(self.order)
        found[self.order] = np.bincount(self.label, minlength=len(self.count)).repeat(self.count)
        return found

    def listed(
        self, first: int, last: int, rows: range
    ) -> tuple[Int64[np.ndarray, " pairs"], Int64[np.ndarray, " pairs"]]:
        """Pairs with one label of some rows of the batch with the stored ones from `first` to before `last`.

        Both are counted from the first one.
        """
        some = slice(*np.searchsorted(self.right, [first, last]).tolist())
        count, start = self.count[self.label[some]], self.start[self.label[some]]
        place = np.arange(count.sum()) - (count.cumsum() - count).repeat(count)
        left, right = self.order[start.repeat(count) + place] - rows.start, self.right[some].repeat(count) - first
        inside = (left >= 0) & (left < len(rows))
        return left[inside], right[inside]

    def many(self, first: int, last: int) -> int:
        """At most so many pairs are listed."""
        some = slice(*np.searchsorted(self.right, [first, last]).tolist())
        return int(self.count[self.label[some]].sum())


def shared_labels(batch: Int64[Tensor, " batch"], stored: Int64[Tensor, " stored"]) -> SharedLabels:
    """What the labels of a batch and of stored rows have in common."""
    distinct, which, count = batch.unique(return_inverse=True, return_counts=True)
    places = (stored != EMPTY).nonzero()[:, 0]
    label, right = [distinct[:0]], [distinct[:0]]
    for start in range(0, len(places), LABELS_AT_ONCE):
        labels = stored.index_select(0, places[start : start + LABELS_AT_ONCE]).to(batch.device)
        number = torch.searchsorted(distinct, labels)
        met = (number < len(distinct)).nonzero()[:, 0]
        met = met[distinct[number[met]] == labels[met]]
        label.append(number[met])
        right.append(met + start)
    first = count.cumsum(0) - count
    parts = places, torch.cat(right), torch.cat(label), which.argsort(stable=True), count, first
    return SharedLabels(*(tensor.cpu().numpy() for tensor in parts))
