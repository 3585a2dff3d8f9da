"""Sub-classes from a file of embeddings alone, one identity at a time, without holding the file.

There are four methods. Two of them are baselines that users would choose, for comparison with the sub-centers.

- `sub-centers`: spherical k-means of each identity (`spherical_k_means`); ours, for sub-center ArcFace trains them.
- `class-mean`: the mean of the identity's unit embeddings, the image itself included. It is `sub-centers` with K = 1.
- `mean-of-others`: the mean of the identity's other images. In a small identity a wrong image pulls the mean towards
  itself: two images at a right angle are both 45 degrees from their mean, and 90 degrees from each other.
- `dbscan`: the clusters that DBSCAN (Ester et al. 1996; scikit-learn) finds in the identity by cosine distance.

DBSCAN joins rows that have enough neighbours within a distance; a row that is near to no such row belongs to no
cluster. The rows of an identity are in the order of their numbers, so that the order of a file changes nothing: a row
that is near to the cores of two clusters, and no core itself, joins the cluster with the first core in that order.
"""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32, Int64

from verisphere.base.seeds import check_seed
from verisphere.base.vocabulary import NO_CLASS, NOBODY, Progress, check_whole, check_word, quietly
from verisphere.base.words import install_extra
from verisphere.files.embeddings import note_crowds
from verisphere.files.streamed_rows import StreamedRows, open_rows
from verisphere.images.packs.columns import Coded, Letters
from verisphere.study.clean.spherical_k_means import cosines_to_sub_centers, equal_sizes, unit_rows
from verisphere.study.clean.sub_classes import NONE, ROUNDING, SamplesInSubClasses, SubClasses, degrees, sub_classes

#: Cosine distance within which two images are neighbours, and rows that a core takes; chosen on LFW with noise, see
#: docs/lab/cleaning.md.
EPS, MIN_SAMPLES = 0.65, 2
_MOST_CLUSTERS = 15  # clusters of an identity that are distinguished, so that their counts take little memory


def clusters_of(
    rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"], eps: float, min_samples: int
) -> tuple[Int64[np.ndarray, " rows"], Float32[np.ndarray, "rows 2"]]:
    """Cluster of each row, the largest of its class first; cosines to the dominant and to its own cluster's mean."""
    clusters, cosines = np.zeros(len(rows), np.int64), np.ones((len(rows), 2), np.float32)
    dbscan = _import_dbscan()
    for _, places in equal_sizes(rows, labels):
        for of_class in places:
            points = rows[of_class]
            if len(points) < min_samples:
                cosines[of_class] = points @ unit_rows(points.sum(axis=0, keepdims=True)).T
                continue
            by_place = dbscan(eps=eps, min_samples=min_samples, metric="cosine").fit(points).labels_
            numbers, to_dominant, to_own = _by_size(points, by_place)
            clusters[of_class] = numbers
            cosines[of_class] = np.stack([to_dominant, to_own], axis=1)
    return clusters, cosines


def _by_size(
    points: Float32[np.ndarray, "rows dim"], clusters: Int64[np.ndarray, " rows"]
) -> tuple[Int64[np.ndarray, " rows"], Float32[np.ndarray, " rows"], Float32[np.ndarray, " rows"]]:
    """Clusters of one class renumbered by their sizes, with cosines to the mean of the first and of the own cluster."""
    count = int(clusters.max()) + 1
    members = clusters == np.arange(count)[:, None]
    means = np.zeros((count, points.shape[1]), np.float32)
    sums = members.astype(np.float32) @ points
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    np.divide(sums, lengths, out=means, where=lengths > 1e-6)
    cosines = points @ means.T
    # the sum of the cosines of unit rows to their mean is the length of their sum
    sizes, lengths = members.sum(axis=1), lengths[:, 0]
    order = np.lexsort((-lengths, -sizes))
    smaller = np.diff(sizes[order], prepend=sizes[order[:1]]) < 0
    sparser = np.diff(lengths[order], prepend=lengths[order[:1]]) < -ROUNDING * sizes[order]
    order = order[np.lexsort((order, (smaller | sparser).cumsum()))]
    number = np.append(np.minimum(order.argsort(), _MOST_CLUSTERS), min(count, _MOST_CLUSTERS))
    to_own = np.append(cosines, np.ones((len(points), 1), np.float32), axis=1)[np.arange(len(points)), clusters]
    to_dominant = cosines[:, order[0]] if count else np.full(len(points), np.nan, np.float32)
    return number[clusters], to_dominant, to_own


def sub_classes_of_clusters(
    clusters: Int64[np.ndarray, " rows"],
    cosines: Float32[np.ndarray, "rows 2"],
    labels: Int64[np.ndarray, " rows"],
    classes: int,
) -> SubClasses:
    """Sub-classes in which cluster 0, if it exists, is dominant."""
    known = labels >= 0
    width = int(clusters.max()) + 1
    counts = np.bincount(labels[known] * width + clusters[known], minlength=classes * width).reshape(classes, width)
    dominant = np.full(classes, NONE)
    dominant[labels[known & ~np.isnan(cosines[:, 0])]] = 0
    clusters = np.where(known, clusters, NONE)
    return SubClasses(labels, clusters, dominant, counts, degrees(cosines[:, 0]), degrees(cosines[:, 1]))


def _import_dbscan() -> Any:
    if importlib.util.find_spec("sklearn") is None:
        raise ValueError(f"DBSCAN needs scikit-learn, not installed here; {install_extra('clean')}")
    from sklearn.cluster import DBSCAN

    return DBSCAN


def check_dbscan(eps: float, min_samples: int, used: bool = True) -> None:
    """Refuse options of DBSCAN that are outside their ranges, and its use without scikit-learn."""
    check_whole("min_samples", min_samples)
    if min_samples < 1:
        raise ValueError(f"min_samples is {min_samples}; allowed is 1 or more")
    if not 0 < eps <= 2:
        raise ValueError(
            f"eps is {eps}; it is a cosine distance, above 0 and at most 2 (0.5 is an angle of 60 degrees)"
        )
    if used:
        _import_dbscan()


Method = Literal["sub-centers", "class-mean", "mean-of-others", "dbscan"]

#: Further starts of k-means; docs/lab/cleaning.md has what they find and what they cost.
RESTARTS = 10
BUDGET = 256 << 20  # bytes of the rows that are held at a time


def found_in_embeddings(
    path: str | Path,
    method: Method = "sub-centers",
    *,
    sub_centers: int = 3,
    restarts: int = RESTARTS,
    seed: int = 0,
    eps: float = EPS,
    min_samples: int = MIN_SAMPLES,
    budget: int = BUDGET,
    progress: Progress = quietly,
) -> SamplesInSubClasses:
    """The sub-class of each row of an embeddings file, by the options of `Finder`; rows of `NOBODY` have no class.

    Whole identities are held at a time, as many as fit `budget` bytes; a larger identity is held nevertheless. The
    result depends on neither the budget nor the order of the rows.

    Clusters of `dbscan` are numbered by their sizes; the rows of no cluster share the number after them, and so do the
    clusters from the 15th on. An identity of fewer than `min_samples` rows is one sub-class. If no cluster is found,
    none is dominant. The angle to the row's own cluster is 0 for a row of no cluster.
    """
    finder = Finder(method, sub_centers, restarts, seed, eps, min_samples)
    opened = open_rows(Path(path), ("names", "identities"))
    assert opened.identities is not None
    note_crowds(path, opened.identities)
    people = _coded(opened.identities)
    labels = people.codes if NOBODY not in people.values else _without_nobody(people)
    cosines = np.full((len(labels), finder.columns), np.nan, np.float32)
    clusters = np.full(len(labels) if method == "dbscan" else 0, NONE, np.int64)
    plan = _Passes.of(labels, max(budget // (4 * opened.dim), 1))
    for places, rows in _blocks(opened, labels, plan, method, progress):
        own = labels[places]
        if method == "dbscan":
            clusters[places], cosines[places] = clusters_of(rows, own, eps, min_samples)
        else:
            cosines[places] = finder.cosines(rows, own)
    classes = len(people.values)
    if method == "dbscan":
        sub = sub_classes_of_clusters(clusters, cosines, labels, classes)
    else:
        sub = sub_classes(cosines, labels, classes)
    return SamplesInSubClasses(
        Letters(opened.names),
        people,
        people.values,
        sub,
        f"{finder}, {Path(path).name}",
        names_rule=opened.source.names_rule,
    )


@dataclass(frozen=True)
class Finder:
    """A method with its options; `restarts` are further starts of k-means.

    For `dbscan`, `eps` is the largest cosine distance of neighbours, above 0 and at most 2, and `min_samples` the
    number of rows within it, itself included, that make a row part of a cluster's core.
    """

    method: Method = "sub-centers"
    sub_centers: int = 3
    restarts: int = RESTARTS
    seed: int = 0
    eps: float = EPS
    min_samples: int = MIN_SAMPLES

    def __post_init__(self) -> None:
        check_word("method", self.method, Method)
        for name, least in (("sub_centers", 1), ("restarts", 0)):
            number = getattr(self, name)
            check_whole(name, number)
            if number < least:
                raise ValueError(f"{name} is {number}; allowed is {least} or more")
        check_seed(self.seed)
        check_dbscan(self.eps, self.min_samples, used=self.method == "dbscan")

    def __str__(self) -> str:
        """The method in words."""
        return {
            "sub-centers": f"{self.sub_centers} sub-centers of each identity by spherical k-means with {self.restarts} "
            "restarts",
            "class-mean": "mean of each identity",
            "mean-of-others": "mean of each identity's other images",
            "dbscan": f"DBSCAN of each identity (eps {self.eps:g}, min_samples {self.min_samples})",
        }[self.method]

    @property
    def columns(self) -> int:
        """Cosines of each row that the method gives."""
        return {"sub-centers": self.sub_centers, "dbscan": 2}.get(self.method, 1)

    def cosines(
        self, rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"]
    ) -> Float32[np.ndarray, "rows subcenters"]:
        """Cosines of unit rows to the centers of their own class, for every method except `dbscan`."""
        if self.method == "mean-of-others":
            return cosines_to_others(rows, labels)[:, None]
        return cosines_to_sub_centers(rows, labels, self.columns, restarts=self.restarts, seed=self.seed)

    def sub_classes(
        self, rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"], classes: int
    ) -> SubClasses:
        """Sub-classes of rows of length 1 that are held; a negative label is no class."""
        if self.method == "dbscan":
            return sub_classes_of_clusters(*clusters_of(rows, labels, self.eps, self.min_samples), labels, classes)
        return sub_classes(self.cosines(rows, labels), labels, classes)


def cosines_to_others(
    rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"]
) -> Float32[np.ndarray, " rows"]:
    """Cosine of each row to the mean of the other rows of its class.

    With S the sum of the class's n rows, the others of x sum to S - x, so that the cosine is (x.S - 1) / |S - x| and
    |S - x|^2 = |S|^2 - 2 x.S + 1.

    >>> rows = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    >>> cosines_to_others(rows, np.array([0, 0, 1]))
    array([0.6, 0.6, 1. ], dtype=float32)

    It is 1 for the only row of a class, NaN for a row of no class, and 0 if the other rows cancel.
    """
    cosines = np.full(len(rows), np.nan, np.float32)
    for _, places in equal_sizes(rows, labels):
        points = rows[places].astype(np.float64)
        sums = points.sum(axis=1, keepdims=True)
        along = (points * sums).sum(axis=2) - (points * points).sum(axis=2)  # x.(S - x)
        lengths = np.linalg.norm(sums - points, axis=2)
        cancel = lengths <= 1e-6
        cosines[places] = np.where(cancel, 0, along / np.where(cancel, 1, lengths)) if points.shape[1] > 1 else 1
    return cosines


@dataclass(frozen=True, eq=False)
class _Passes:
    """The identities that are held together, and the pass over the file in which they are read; NONE for no class."""

    block: Int64[np.ndarray, " rows"]
    sizes: Int64[np.ndarray, " blocks"]
    passes: list[list[int]]

    @classmethod
    def of(cls, labels: Int64[np.ndarray, " rows"], most: int) -> "_Passes":
        """Blocks of whole identities with a limited number of rows, in the order in which the identities appear."""
        known = np.flatnonzero(labels >= 0)
        counts = np.bincount(labels[known])
        first, last = np.zeros_like(counts), np.zeros_like(counts)
        last[labels[known]] = known  # of several assignments the last one stays
        first[labels[known[::-1]]] = known[::-1]
        order = np.flatnonzero(counts)
        order = order[first[order].argsort()]
        ends = np.cumsum(counts[order])
        block_of_class = np.full(len(counts) + 1, NONE)  # the last entry is that of no class
        begin = 0
        sizes: list[int] = []
        spans: list[tuple[int, int]] = []
        while begin < len(order):
            before = int(ends[begin - 1]) if begin else 0
            end = max(int(np.searchsorted(ends, before + most, side="right")), begin + 1)
            classes = order[begin:end]
            block_of_class[classes] = len(sizes)
            sizes.append(int(ends[end - 1]) - before)
            spans.append((int(first[classes].min()), int(last[classes].max())))
            begin = end
        passes: list[list[int]] = []
        waiting = list(range(len(sizes)))
        while waiting:
            read, reached = [], -1
            for block in waiting:
                if spans[block][0] > reached:
                    read.append(block)
                    reached = spans[block][1]
            passes.append(read)
            chosen = set(read)
            waiting = [block for block in waiting if block not in chosen]
        return cls(block_of_class[labels], np.array(sizes, np.int64), passes)


def _blocks(
    opened: StreamedRows, labels: Int64[np.ndarray, " rows"], plan: _Passes, method: str, progress: Progress
) -> Iterator[tuple[Int64[np.ndarray, " rows"], Float32[np.ndarray, "rows dim"]]]:
    """Places in the file and unit rows of each block; one block is held at a time."""

    def portions() -> Iterator[tuple[list[int], Float32[np.ndarray, "rows dim"]]]:
        for blocks in plan.passes:
            read = np.zeros(len(plan.sizes) + 1, bool)
            read[blocks] = True
            for _, rows in opened.portions(read[plan.block]):
                yield blocks, rows

    steps = opened.steps * len(plan.passes)
    begun: list[int] = []
    for blocks, rows in progress(portions(), method, steps):
        if blocks is not begun:
            begun, waiting, filled = blocks, iter(blocks), 0
            block = next(waiting)
            held = np.empty((plan.sizes[block], opened.dim), np.float32)
        rows = unit_rows(rows)
        while len(rows):
            fitting = rows[: len(held) - filled]
            held[filled : filled + len(fitting)] = fitting
            filled, rows = filled + len(fitting), rows[len(fitting) :]
            if filled == len(held):
                yield np.flatnonzero(plan.block == block), held
                block, filled = next(waiting, NONE), 0
                held = np.empty((plan.sizes[block] if block != NONE else 0, opened.dim), np.float32)


def _coded(identities: np.ndarray) -> Coded:
    """Identities as codes, whose values are in order; equal neighbours are compared once."""
    begin = np.ones(len(identities), bool)
    begin[1:] = identities[1:] != identities[:-1]
    values, codes = np.unique(identities[begin], return_inverse=True)
    return Coded(tuple(values.tolist()), codes[np.cumsum(begin) - 1])


def _without_nobody(people: Coded) -> Int64[np.ndarray, " rows"]:
    return np.where(people.codes == people.values.index(NOBODY), NO_CLASS, people.codes)
