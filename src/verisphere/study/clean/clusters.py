"""Clusters of each identity's embeddings by DBSCAN: a baseline that users would pick for themselves.

DBSCAN (Ester et al. 1996) joins rows that have enough neighbours within a distance; a row that is near to no such row
belongs to no cluster. The implementation is that of scikit-learn, with cosine distance, for one identity after the
other. The rows of an identity are in the order of their numbers, so that the order of a file changes nothing: a row
that is near to the cores of two clusters, and no core itself, joins the cluster with the first core in that order.
"""

import importlib.util
from typing import Any

import numpy as np
from jaxtyping import Float32, Int64

from verisphere.base.vocabulary import check_whole
from verisphere.base.words import install_extra
from verisphere.study.clean.spherical_k_means import equal_sizes, unit_rows
from verisphere.study.clean.sub_classes import NONE, ROUNDING, SubClasses, degrees

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
    """Clusters of one class renumbered by their sizes, with cosines to the mean of the first and of the own cluster.

    Of equally large clusters the one with the larger sum of cosines to its mean comes first; of those whose sums are
    equal up to rounding, the one with the first core in the order of the rows' numbers.
    """
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
