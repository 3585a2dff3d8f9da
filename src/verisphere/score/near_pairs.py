"""Pairs of rows whose score reaches a threshold: exact, and in bounded memory."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.vocabulary import Progress, quietly
from verisphere.score.all_pairs import AllPairs

MOST_PAIRS = 1_000_000  # nobody reads a longer list, and the memory of the pairs needs a limit


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of rows, by falling score, then in the order of their rows; within one set the right row is larger."""

    left: Int64[np.ndarray, " pairs"]
    right: Int64[np.ndarray, " pairs"]
    score: Float64[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.left)


def near_pairs(
    units: Float32[Tensor, "rows dim"],
    least: float,
    people: Int64[np.ndarray, " rows"] | None = None,
    others: Float32[Tensor, "others columns"] | None = None,
    progress: Progress = quietly,
    most: int = MOST_PAIRS,
) -> NearPairs:
    """Pairs of rows whose score is at least `least`.

    The pairs are screened by products of low precision and decided by exact scores (`AllPairs`), so no matrix of all
    pairs is held. Pairs of one person are omitted; without `people` every row is a separate person. With `others`, rows
    of another set, each row is paired with each of these instead, regardless of their people. More than `most` pairs
    are refused.

    >>> from verisphere.score.pairs import unit_rows
    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> pairs = near_pairs(units, 0.8)
    >>> pairs.left.tolist(), pairs.right.tolist(), pairs.score.round(2).tolist()
    ([0, 0], [1, 2], [0.96, 0.8])
    """
    if others is None:
        numbers = torch.arange(len(units)) if people is None else torch.from_numpy(people)
        pairs = AllPairs(units, numbers, progress=progress)
    else:
        if units.shape[1] != others.shape[1]:
            raise ValueError(
                f"embeddings of {units.shape[1]} and of {others.shape[1]} numbers cannot be compared; make both by one "
                "model"
            )
        numbers = torch.arange(len(units) + len(others))  # all people differ: no pair of two sets is excluded
        gallery = others, numbers[len(units) :]
        pairs = AllPairs(units, numbers[: len(units)], progress=progress, gallery=gallery)
    found = [(np.empty((0, 2), np.int64), np.empty(0))]
    found += [(pair.numpy(), score.numpy()) for score, pair in pairs.at_least(least, most)]
    rows, scores = zip(*found, strict=True)
    both, bounded = np.concatenate(rows), np.concatenate(scores)
    del found, rows, scores
    np.minimum(bounded, 1.0, out=bounded)  # the length of a rounded unit row differs a little from 1
    if others is None:
        both.sort(axis=1)
    order = np.lexsort((both[:, 1], both[:, 0], -bounded))
    return NearPairs(both[order, 0], both[order, 1], bounded[order])
