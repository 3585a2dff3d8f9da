"""The tree of the faces of a library, and its clusters at a threshold.

Every step is exact, so neither threads nor processes change a cluster; nor does the order of a file where rows are
given in the order of their names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.decide.purity import UNSURE
from verisphere.score import pair_scores, unit_rows
from verisphere.score.linkage import average_linkage, linked
from verisphere.score.near_pairs import near_pairs

MOST_PAIRS = 100_000_000  # near pairs that are held, 40 bytes each


@dataclass(frozen=True, eq=False)
class Cut:
    """The clusters at one threshold; rows are those of the embeddings.

    Attributes:
        cluster: number of each row's cluster, the largest first, of equals that with the first name; `UNSURE` for a
            row whose average score with another cluster reaches the threshold and is above that with its own, unless
            a person has confirmed it.
        grouped: number of the cluster in which each row was grouped, also of unsure ones.
        own: average score of each row with the others of the cluster it was grouped in, of one that links have joined
            from parts with those of its part; NaN where there are none.
        other: highest average score with another cluster that holds a row whose score reaches the threshold; minus
            infinity for none.
        nearest: number of that cluster; -1 for none.
    """

    threshold: float
    cluster: Int64[np.ndarray, " rows"]
    grouped: Int64[np.ndarray, " rows"]
    own: Float64[np.ndarray, " rows"]
    other: Float64[np.ndarray, " rows"]
    nearest: Int64[np.ndarray, " rows"]


class FaceTree:
    """All merges of the faces of a library down to a floor.

    >>> faces = Embeddings([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.1, 0.9]], identities=list("abcd"))
    >>> FaceTree(faces, 0.3).cut(0.5).cluster.tolist()
    [0, 1, 0, 1]
    """

    def __init__(
        self,
        faces: Embeddings,
        floor: float,
        together: Iterable[Sequence[int]] = (),
        apart: Iterable[Sequence[int]] = (),
        person: Int64[np.ndarray, " rows"] | None = None,
        progress: Progress = quietly,
    ) -> None:
        """Link the faces, whose identities are not looked at, for clusters at thresholds from the floor on.

        The rows of a pair show one person (together), or two (apart). The numbers of people are those of rows that a
        person has confirmed, else -1: all rows of one are together, those of two apart.
        """
        if not -1 < floor <= 1:
            raise ValueError(f"the floor is {floor}; a threshold of scores lies above -1 and is at most 1")
        self.floor, self.person = floor, np.full(len(faces), -1) if person is None else person
        known = np.flatnonzero(self.person >= 0)
        _, first, number = np.unique(self.person[known], return_index=True, return_inverse=True)
        same = np.stack([known[first[number]], known], 1)
        self.together = np.concatenate([np.array([*together], np.int64).reshape(-1, 2), same])
        self.apart = np.array([*apart], np.int64).reshape(-1, 2)
        units = unit_rows(faces.embeddings)
        near = near_pairs(units, floor, progress=progress, most=MOST_PAIRS)
        self.pairs, self.scores = np.stack([near.left, near.right], 1), near.score  # the highest score first
        del near  # of a million faces a gigabyte
        self.units = units.numpy()
        links = self.together.tolist(), self.apart.tolist(), self.person, faces.names
        self.tree = average_linkage(self.units, self.pairs, floor, *links, progress=progress)

    def without_links(self, threshold: float, progress: Progress = quietly) -> Int64[np.ndarray, " rows"]:
        """Number of each row's cluster at a threshold by the embeddings alone, the largest first."""
        tree = average_linkage(self.units, self.pairs, self.floor, progress=progress)
        return _largest_first(tree.labels(threshold))

    def cut(self, threshold: float, margin: float = 0.0) -> Cut:
        """The clusters at a threshold that is at least the floor."""
        if threshold < self.floor:
            raise ValueError(f"a threshold of {threshold:g} is below the floor of these merges, {self.floor:g}")
        part = self.tree.labels(threshold)
        label = _largest_first(linked(part[self.together], int(part.max()) + 1)[part])
        sizes = np.bincount(part)
        together = np.argsort(part, kind="stable")
        sums = np.add.reduceat(self.units[together].astype(np.float64), np.cumsum(sizes) - sizes)
        own = np.full(len(part), np.nan)
        several = np.flatnonzero(sizes[part] > 1)
        rows = self.units[several].astype(np.float64)
        own[several] = ((sums[part[several]] - rows) * rows).sum(1) / (sizes[part[several]] - 1)
        reach = int(np.searchsorted(-self.scores, -threshold, side="right"))
        other, nearest = self._other(part, label, sums / sizes[:, None], self.pairs[:reach])
        unsure = (other >= threshold) & (other > own - margin) & (self.person < 0)
        return Cut(threshold, np.where(unsure, UNSURE, label), label, own, other, nearest)

    def _other(
        self,
        part: Int64[np.ndarray, " rows"],
        label: Int64[np.ndarray, " rows"],
        means: Float64[np.ndarray, "parts dim"],
        reaching: Int64[np.ndarray, "pairs 2"],
    ) -> tuple[Float64[np.ndarray, " rows"], Int64[np.ndarray, " rows"]]:
        """The highest average score of each row with a part of a cluster that a pair leads to, and that cluster."""

        def beside(
            pairs: Int64[np.ndarray, "pairs 2"], group: Int64[np.ndarray, " rows"]
        ) -> Int64[np.ndarray, " keys"]:
            """Each row and the group of the other, as one number."""
            across = pairs[label[pairs[:, 0]] != label[pairs[:, 1]]]
            both = np.concatenate([across, across[:, ::-1]])
            return np.unique(both[:, 0] * len(means) + group[both[:, 1]])

        of_part = np.zeros(len(means), np.int64)
        of_part[part] = label
        row, near = np.divmod(beside(reaching, part), len(means))
        allowed = ~np.isin(row * len(means) + of_part[near], beside(self.apart, label))
        row, near = row[allowed], near[allowed]
        score = pair_scores(*map(torch.from_numpy, (self.units, row, near, means))).numpy()
        best = np.lexsort((near, -score, row))
        row, first = np.unique(row[best], return_index=True)
        other, nearest = np.full(len(label), -np.inf), np.full(len(label), -1)
        other[row], nearest[row] = score[best[first]], of_part[near[best[first]]]
        return other, nearest


def _largest_first(label: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " rows"]:
    """The same groups numbered by their size, of equals the former number."""
    return np.asarray(np.argsort(np.argsort(-np.bincount(label), kind="stable"))[label])
