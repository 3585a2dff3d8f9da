"""Spherical k-means of each identity's embeddings, for all identities at once.

Spherical k-means (Dhillon and Modha 2001, "Concept decompositions for large sparse text data using clustering", section
3) partitions unit vectors so that the sum of the cosines between each vector and the center of its cluster grows; a
center is the mean of its cluster, divided by its length. Sub-center ArcFace (Deng et al. 2021) trains its sub-centers
and does not state how to find them from existing embeddings; finding them by k-means is ours.

The start is deterministic and ours: the first center is the row nearest to the mean of the identity, and each further
one the row whose largest cosine to the centers before it is smallest (farthest first). Further starts can be drawn; the
start with the largest sum of cosines is kept.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt64

from verisphere.base.vocabulary import NO_CLASS, check_whole

ITERATIONS = 100
_AT_ONCE = 16 << 20  # bytes of the rows that are clustered together, so that they stay in the processor's caches
_SAME = 1 - 1e-6  # rows with a larger cosine have one direction: float32 cannot distinguish them
_ORDERED_BY = 4  # numbers by which rows are ordered first; rows that agree in them are ordered by all numbers


def cosines_to_sub_centers(
    rows: Float32[np.ndarray, "rows dim"],
    labels: Int64[np.ndarray, " rows"],
    sub_centers: int,
    *,
    restarts: int = 0,
    seed: int = 0,
    iterations: int = ITERATIONS,
) -> Float32[np.ndarray, "rows subcenters"]:
    """Cosines of each row to the sub-centers of its own class, which spherical k-means finds.

    A class's sub-centers depend on its own rows alone, not on other classes nor on the order of the rows.

    >>> rows = np.array([[1, 0], [0.8, 0.6], [0, -1]], np.float32)
    >>> cosines_to_sub_centers(rows, np.array([0, 0, 0]), 2).round(2)  # one center between the first two
    array([[ 0.95,  0.  ],
           [ 0.95, -0.6 ],
           [-0.32,  1.  ]], dtype=float32)

    The cosines are NaN if the class has fewer sub-centers, and for a row of no class (a negative label).
    """
    for name, number, least in (
        ("sub_centers", sub_centers, 1),
        ("restarts", restarts, 0),
        ("iterations", iterations, 1),
    ):
        check_whole(name, number)
        if number < least:
            raise ValueError(f"{name} is {number}; allowed is {least} or more")
    cosines = np.full((len(rows), sub_centers), np.nan, np.float32)
    for _, places in equal_sizes(rows, labels):
        points = rows[places]  # (classes, rows, dim)
        centers = spherical_k_means(points, min(sub_centers, points.shape[1]), iterations=iterations)
        for restart in range(restarts if 1 < centers.shape[1] < points.shape[1] else 0):  # else no start finds others
            start = _drawn(points, centers.shape[1], _keys(points, seed, restart))
            again = spherical_k_means(points, centers.shape[1], start, iterations)
            better = _quality(points, again) > _quality(points, centers)
            centers[better] = again[better]
        cosines[places, : centers.shape[1]] = points @ centers.swapaxes(1, 2)
    return cosines


def spherical_k_means(
    points: Float32[np.ndarray, "classes rows dim"],
    sub_centers: int,
    start: Float32[np.ndarray, "classes subcenters dim"] | None = None,
    iterations: int = ITERATIONS,
) -> Float32[np.ndarray, "classes subcenters dim"]:
    """Centers of each class by spherical k-means; NaN where a class has fewer directions than sub-centers.

    A center without rows takes the row that is farthest from its own center; if all rows are at their centers, it is
    absent. `points` have length 1; `start` has NaN for an absent center, and None chooses by `farthest_first`.
    """
    if not points.any(axis=2).all():
        raise ValueError("a row has length zero, which has no direction")
    centers = farthest_first(points, sub_centers) if start is None else start.copy()
    active = np.arange(len(points))
    nearest = np.full(points.shape[:2], -1)
    for _ in range(iterations):
        if not len(active):
            break
        rows = points[active] if len(active) < len(points) else points
        assigned = _assigned(rows, centers[active])
        moved = (assigned != nearest[active]).any(axis=1)
        nearest[active] = assigned
        active, rows = active[moved], rows[moved]
        members = (assigned[moved][:, None, :] == np.arange(sub_centers)[:, None]).astype(np.float32)
        centers[active] = _means(members @ rows, centers[active], members.any(axis=2))
    return centers


def farthest_first(
    points: Float32[np.ndarray, "classes rows dim"], sub_centers: int
) -> Float32[np.ndarray, "classes subcenters dim"]:
    """Rows that k-means starts from: the nearest to the mean, then each time the one farthest from all before it.

    >>> points = np.array([[[1, 0], [0.8, 0.6], [0.6, 0.8], [0, -1]]], np.float32)
    >>> farthest_first(points, 2)[0].tolist()  # the mean is (0.6, 0.1); the last row is the farthest from (1, 0)
    [[1.0, 0.0], [0.0, -1.0]]
    """
    classes = np.arange(len(points))
    centers = np.full((len(points), sub_centers, points.shape[2]), np.nan, np.float32)
    first = (points @ points.sum(axis=1)[:, :, None])[:, :, 0].argmax(axis=1)
    centers[:, 0] = points[classes, first]
    largest = np.full(points.shape[:2], -np.inf, np.float32)  # cosine to the nearest center so far
    for number in range(1, sub_centers):
        largest = np.maximum(largest, (points @ np.nan_to_num(centers[:, number - 1])[:, :, None])[:, :, 0])
        farthest = largest.argmin(axis=1)
        apart = largest[classes, farthest] < _SAME
        centers[apart, number] = points[apart, farthest[apart]]
    return centers


def equal_sizes(
    rows: Float32[np.ndarray, "rows dim"], labels: Int64[np.ndarray, " rows"]
) -> Iterator[tuple[Int64[np.ndarray, " classes"], Int64[np.ndarray, "classes size"]]]:
    """Classes with equally many rows together, and the positions of their rows; not too many at a time.

    The rows of a class are in the order of their numbers, so that the order in which they are given changes nothing,
    not even by rounding.
    """
    leading = rows[:, :_ORDERED_BY]
    order = np.lexsort((*leading.T[::-1], labels))
    order = order[labels[order] >= 0]
    differs = (np.diff(leading[order], axis=0, prepend=np.nan) != 0).any(axis=1)
    run = (differs | (np.diff(labels[order], prepend=NO_CLASS) != 0)).cumsum()
    tied = np.flatnonzero(np.bincount(run)[run] > 1)
    order[tied] = order[tied][np.lexsort((*rows[order[tied]].T[::-1], run[tied]))]
    counts = np.bincount(labels[order])
    begin = np.cumsum(counts) - counts
    for size in np.unique(counts[counts > 0]).tolist():
        of_size = np.flatnonzero(counts == size)
        together = max(1, _AT_ONCE // (size * rows.shape[1] * rows.itemsize))
        for start in range(0, len(of_size), together):
            classes = of_size[start : start + together]
            yield classes, order[begin[classes][:, None] + np.arange(size)]


def _assigned(
    points: Float32[np.ndarray, "classes rows dim"], centers: Float32[np.ndarray, "classes subcenters dim"]
) -> Int64[np.ndarray, "classes rows"]:
    """The nearest center of each row; one center without rows receives the row that is farthest from its own."""
    nearest, largest = _nearest(points, centers)
    numbers = np.arange(centers.shape[1])
    counts = (nearest[:, :, None] == numbers).sum(axis=1)  # (classes, subcenters)
    lacking = np.flatnonzero((counts == 0).any(axis=1))
    if len(lacking):
        alone = np.take_along_axis(counts[lacking], nearest[lacking], axis=1) == 1
        farthest = np.where(alone, np.inf, largest[lacking]).argmin(axis=1)
        apart = ~alone[np.arange(len(lacking)), farthest] & (largest[lacking, farthest] < _SAME)
        lacking, farthest = lacking[apart], farthest[apart]
        nearest[lacking, farthest] = (counts[lacking] == 0).argmax(axis=1)
    return nearest


def _nearest(
    points: Float32[np.ndarray, "classes rows dim"], centers: Float32[np.ndarray, "classes subcenters dim"]
) -> tuple[Int64[np.ndarray, "classes rows"], Float32[np.ndarray, "classes rows"]]:
    with np.errstate(invalid="ignore"):  # NaN is a center without rows; of finite ones see numpy#24067
        cosines = points @ centers.swapaxes(1, 2)
    np.nan_to_num(cosines, copy=False, nan=-np.inf)
    return cosines.argmax(axis=2), cosines.max(axis=2)


def _means(
    sums: Float32[np.ndarray, "classes subcenters dim"],
    before: Float32[np.ndarray, "classes subcenters dim"],
    present: Bool[np.ndarray, "classes subcenters"],
) -> Float32[np.ndarray, "classes subcenters dim"]:
    """Sums divided by their lengths; NaN for a center without rows; a center whose rows cancel stays unchanged."""
    lengths = np.linalg.norm(sums, axis=2, keepdims=True)
    cancel = lengths <= 1e-6
    centers = np.where(cancel, before, sums / np.where(cancel, 1, lengths))
    centers[~present] = np.nan
    return centers


def _quality(
    points: Float32[np.ndarray, "classes rows dim"], centers: Float32[np.ndarray, "classes subcenters dim"]
) -> Float32[np.ndarray, " classes"]:
    """Sum of the cosines of a class's rows to their nearest centers: what spherical k-means increases."""
    return _nearest(points, centers)[1].sum(axis=1)


def _drawn(
    points: Float32[np.ndarray, "classes rows dim"], sub_centers: int, keys: UInt64[np.ndarray, "classes rows"]
) -> Float32[np.ndarray, "classes subcenters dim"]:
    """The rows with the lowest keys."""
    return np.take_along_axis(points, keys.argsort(axis=1)[:, :sub_centers, None], axis=1)


def _keys(
    points: Float32[np.ndarray, "classes rows dim"], seed: int, restart: int
) -> UInt64[np.ndarray, "classes rows"]:
    """A random number for each row, which depends on the rows of its class, its place, the seed and the restart."""
    key = np.zeros(points.shape[:2], np.uint64)
    of_class = np.ascontiguousarray(points).view(np.uint32).sum(axis=(1, 2), dtype=np.uint64)
    parts = (np.array(seed), np.array(restart), of_class[:, None], np.arange(points.shape[1])[None])
    for part in parts:
        key = _mixed(key + part.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15))
    return key


def _mixed(numbers: UInt64[np.ndarray, "classes rows"]) -> UInt64[np.ndarray, "classes rows"]:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), in arithmetic modulo 2^64."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def unit_rows(rows: Float32[np.ndarray, "rows dim"]) -> Float32[np.ndarray, "rows dim"]:
    """Rows of length 1; divided by their largest number first, whose square float32 might not hold."""
    rows = rows / np.abs(rows).max(axis=1, keepdims=True)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
