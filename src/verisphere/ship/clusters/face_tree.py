"""The tree of the faces of a library, and its clusters at a threshold, whatever the order of the rows.

Rows are taken in the order of their names, and every step is exact, so neither the order of a file nor threads nor
processes change a cluster.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.decide.purity import UNSURE
from verisphere.score import pair_scores, unit_rows
from verisphere.score.linkage import SMALLER_GROUPS_PAY, ContradictionError, average_linkage, linked
from verisphere.score.near_pairs import near_pairs

MOST_PAIRS = 100_000_000  # near pairs that are held, 40 bytes each


@dataclass(frozen=True, eq=False)
class Cut:
    """The clusters at one threshold; rows are those of the embeddings.

    Attributes:
        threshold: the threshold.
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
        together: Iterable[tuple[str, str]] = (),
        apart: Iterable[tuple[str, str]] = (),
        people: Mapping[str, str] | None = None,
        progress: Progress = quietly,
    ) -> None:
        """Link the faces.

        Args:
            faces: a row for each face; identities are not looked at.
            floor: lowest threshold at which clusters will be asked for.
            together: pairs of names of faces that show one person.
            apart: pairs of names that show two.
            people: person of each name that a person has confirmed; all faces of one are together, those of two apart.
            progress: reports the progress over pairs and over faces.

        Raises:
            ValueError: links that contradict each other, or name a face that is not there; too many near pairs.
        """
        if not -1 < floor <= 1:
            raise ValueError(f"the floor is {floor}; a threshold of scores lies above -1 and is at most 1")
        self.floor, self.order, self.progress = floor, np.argsort(faces.names), progress
        self.names = faces.names[self.order]
        known, first = sorted((people or {}).items()), dict[str, str]()
        same = [(first.setdefault(person, name), name) for name, person in known]
        self.together = _rows_of([*together, *(pair for pair in same if pair[0] != pair[1])], self.names)
        self.apart, self.person = _rows_of(apart, self.names), np.full(len(faces), -1)
        number = {person: place for place, person in enumerate(first)}
        self.person[_rows_of(same, self.names)[:, 1]] = [number[person] for _, person in known]
        units = unit_rows(faces.embeddings[self.order])
        near = near_pairs(units, floor, progress=progress, most=MOST_PAIRS)
        self.pairs, self.scores = np.stack([near.left, near.right], 1), near.score  # the highest score first
        del near  # of a million faces a gigabyte
        self.units = units.numpy()
        self._link()

    def _link(self) -> None:
        links = self.together.tolist(), self.apart.tolist(), self.person
        try:
            self.tree = average_linkage(self.units, self.pairs, self.floor, *links, progress=self.progress)
        except ContradictionError as error:
            left, right = (str(self.names[row])[:200] for row in error.rows)
            raise ValueError(
                f"links contradict each other: {left!r} and {right!r} must be together, and may not be"
            ) from None
        self.heights = self.tree.heights(SMALLER_GROUPS_PAY)

    def without_links(self) -> "FaceTree":
        """The tree of the same faces by their embeddings alone."""
        free = copy.copy(self)
        free.together = free.apart = self.together[:0]
        free.person = np.full(len(self.names), -1)
        free._link()
        return free

    def cut(self, threshold: float, margin: float = 0.0) -> Cut:
        """The clusters at a threshold that is at least the floor.

        The margin is taken off the average score of a row with its own cluster before it is compared.
        """
        if threshold < self.floor:
            raise ValueError(f"a threshold of {threshold:g} is below the floor of these merges, {self.floor:g}")
        part = self.tree.labels(threshold, self.heights)
        label = linked(part[self.together], int(part.max()) + 1)[part]
        label = np.argsort(np.argsort(-np.bincount(label), kind="stable"))[label]
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
        cluster = np.where(unsure, UNSURE, label)
        back = np.argsort(self.order)
        return Cut(threshold, cluster[back], label[back], own[back], other[back], nearest[back])

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


def _rows_of(pairs: Iterable[tuple[str, str]], names: np.ndarray) -> Int64[np.ndarray, "pairs 2"]:
    """Rows of pairs of names; names are sorted."""
    named = np.array([*pairs], dtype=str).reshape(-1, 2)
    rows = np.searchsorted(names, named)
    known = names[np.minimum(rows, len(names) - 1)] == named
    if not known.all():
        raise ValueError(f"a link names {str(named[~known][0])[:200]!r}, which is no face of this library")
    return rows
