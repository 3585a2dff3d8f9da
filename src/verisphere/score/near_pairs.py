"""Pairs of rows whose score reaches a threshold: exact, and in bounded memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.vocabulary import Progress, quietly
from verisphere.score.all_pairs import AllPairs
from verisphere.score.exact.scan import StateStore

MOST_PAIRS = 1_000_000  # nobody reads a longer list, and the memory of the pairs needs a limit


@dataclass(frozen=True, eq=False)
class NearPairs:
    """Pairs of rows, the highest cosine first; pairs with equal cosines in the order of their rows.

    Attributes:
        left: row of the first of each pair.
        right: row of the second, which is larger if both belong to one set.
        cosine: cosine of each pair.
    """

    left: Int64[np.ndarray, " pairs"]
    right: Int64[np.ndarray, " pairs"]
    cosine: Float64[np.ndarray, " pairs"]

    def __len__(self) -> int:
        return len(self.left)


def near_pairs(
    units: Float32[Tensor, "rows dim"],
    least: float,
    people: Int64[np.ndarray, " rows"] | None = None,
    others: Float32[Tensor, "others columns"] | None = None,
    progress: Progress = quietly,
    most: int = MOST_PAIRS,
    stores: Sequence[StateStore] = (),
) -> NearPairs:
    """Pairs of rows whose cosine is at least `least`.

    The pairs are screened by products of low precision and decided by exact scores (`AllPairs`), so no matrix of all
    pairs is held.

    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> pairs = near_pairs(units, 0.8)
    >>> pairs.left.tolist(), pairs.right.tolist(), pairs.cosine.round(2).tolist()
    ([0, 0], [1, 2], [0.96, 0.8])

    Args:
        units: rows of length 1, from `unit_rows`.
        least: lowest cosine.
        people: number of each row's person; pairs of one person are omitted. None treats every row as a separate
            person.
        others: rows of another set; each row is then paired with each of these instead, regardless of their people.
        progress: reports the progress.
        most: number of pairs above which they are refused.
        stores: keep the pairs of as many parts of the work, so that what was stopped continues with the next part.
    """
    alone = quietly if stores else progress
    if others is None:
        numbers = torch.arange(len(units)) if people is None else torch.from_numpy(people)
        pairs = AllPairs(units, numbers, progress=alone)
    else:
        if units.shape[1] != others.shape[1]:
            raise ValueError(
                f"embeddings of {units.shape[1]} and of {others.shape[1]} numbers cannot be compared; make both by one "
                "model"
            )
        numbers = torch.arange(len(units) + len(others))  # all people differ: no pair of two sets is excluded
        gallery = others, numbers[len(units) :]
        pairs = AllPairs(units, numbers[: len(units)], progress=alone, gallery=gallery)
    rows, scores, count = [np.empty((0, 2), np.int64)], [np.empty(0)], 0

    def refuse_more(found: int) -> int:
        if found > most:
            raise ValueError(f"more than {most:,} pairs have a cosine of {least:g} or more; ask for a higher one")
        return found

    def of_part(part: int) -> tuple[Int64[np.ndarray, "pairs 2"], Float64[np.ndarray, " pairs"]]:
        kept = stores[part].load() if stores else None
        if kept is not None:
            return kept["rows"], kept["scores"]
        parts, held = [(np.empty((0, 2), np.int64), np.empty(0))], count
        for score, pair in pairs.at_least(least, part, len(stores) or 1):
            held = refuse_more(held + len(score))
            parts.append((pair.numpy(), score.numpy()))
        both, reached = (np.concatenate(column) for column in zip(*parts, strict=True))
        if stores:
            stores[part].save({"rows": both, "scores": reached})
        return both, reached

    numbered = range(len(stores) or 1)
    for part in progress(numbered, "comparing all pairs", len(numbered)) if stores else numbered:
        both, reached = of_part(part)
        count = refuse_more(count + len(both))
        rows.append(both)
        scores.append(reached)
    # the length of a rounded unit row differs a little from 1
    both, cosine = np.concatenate(rows), np.minimum(np.concatenate(scores), 1.0)
    if others is None:
        both = np.sort(both, axis=1)
    order = np.lexsort((both[:, 1], both[:, 0], -cosine))
    return NearPairs(both[order, 0], both[order, 1], cosine[order])
