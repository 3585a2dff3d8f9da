"""Pairs of embeddings, or of class centers, whose cosine reaches a threshold: exact, and in bounded memory."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.vocabulary import NOBODY, Progress, quietly
from verisphere.files.json_values import shown
from verisphere.files.streamed_rows import StreamedRows
from verisphere.images.packs.columns import coded
from verisphere.score.all_pairs import AllPairs
from verisphere.score.pairs import unit_rows

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
        alone = torch.arange(len(units) + len(others))  # all people differ: no pair of two sets is excluded
        gallery = others, alone[len(units) :]
        pairs = AllPairs(units, alone[: len(units)], progress=progress, gallery=gallery)
    rows, scores, count = [np.empty((0, 2), np.int64)], [np.empty(0)], 0
    for score, pair in pairs.at_least(least):
        # the length of a rounded unit row differs a little from 1
        reached, count = score.numpy(), count + len(score)
        if count > MOST_PAIRS:
            raise ValueError(f"more than {MOST_PAIRS:,} pairs have a cosine of {least:g} or more; ask for a higher one")
        rows.append(pair.numpy())
        scores.append(reached)
    both, cosine = np.concatenate(rows), np.minimum(np.concatenate(scores), 1.0)
    if others is None:
        both = np.sort(both, axis=1)
    order = np.lexsort((both[:, 1], both[:, 0], -cosine))
    return NearPairs(both[order, 0], both[order, 1], cosine[order])


@dataclass(frozen=True, eq=False)
class Centers:
    """The center of each identity: the mean of its unit embeddings, scaled to length 1.

    Attributes:
        people: the identities, sorted.
        counts: number of images of each.
        units: the centers.
    """

    people: tuple[str, ...]
    counts: Int64[np.ndarray, " people"]
    units: Float32[Tensor, "people dim"]


def class_centers(
    rows: StreamedRows,
    progress: Progress = quietly,
    take: Callable[[Float32[Tensor, "rows dim"]], object] | None = None,
    people: Collection[str] | None = None,
) -> Centers:
    """The centers of the identities of a file, which is read in portions; images of `NOBODY` are excluded.

    Args:
        rows: the embeddings, with identities.
        progress: reports the progress over portions.
        take: receives the rows of each portion at length 1, in their order.
        people: the identities whose centers are computed; None computes those of all.
    """
    if rows.identities is None:
        raise ValueError(f"{rows.path}: it does not say who is on an image (no array identities)")
    column = coded(rows.identities.tolist())
    present = {*column.present()} - {NOBODY}
    wanted = sorted(present if people is None else present & set(people))
    if not wanted:
        seen = f"; identities there look like {shown(min(present), 200)}" if present else ""
        raise ValueError(
            f"{rows.path}: none of its {len(rows):,} images shows a person who is "
            f"{'known' if people is None else 'meant'}{seen}"
        )
    number = {person: place for place, person in enumerate(wanted)}
    label = np.array([number.get(value, -1) for value in column.values])[column.codes]
    sums, start = np.zeros((len(wanted), rows.dim)), 0
    for names, embeddings in progress(rows.portions(), "reading embeddings", rows.steps):
        units = unit_rows(embeddings)
        if take is not None:
            take(units)
        labels = label[start : start + len(names)]
        known = labels >= 0
        np.add.at(sums, labels[known], units.numpy()[known].astype(np.float64))
        start += len(names)
    none = np.flatnonzero(~(np.linalg.norm(sums, axis=1) > 0))
    if len(none):
        raise ValueError(f"{rows.path}: the embeddings of {shown(wanted[int(none[0])], 200)} add up to zero")
    counts = np.bincount(label[label >= 0], minlength=len(wanted))
    return Centers(tuple(wanted), counts, unit_rows((sums / counts[:, None]).astype(np.float32)))
