"""Ways of grouping faces that others publish or ship, each as labels by one parameter, a score or more.

They see what ours sees: rows of length 1 and their near pairs with exact scores. A face that a method leaves alone has
the label -1.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from verisphere.base.vocabulary import Embeddings
from verisphere.score import top_k, unit_rows
from verisphere.score.near_pairs import NearPairs, near_pairs
from verisphere.ship.clusters.face_tree import FaceTree

FLOOR = 0.3
ORDERS = 3
MOST_PAIRS = 20_000_000
NEIGHBOURS = 20, 50, 200  # of rank-order clustering; 200 is what Otto et al. take among millions


@dataclass(frozen=True, eq=False)
class Faces:
    """The rows of a set and their near pairs."""

    embeddings: Embeddings

    @cached_property
    def units(self) -> np.ndarray:
        return unit_rows(self.embeddings.embeddings).numpy()

    @cached_property
    def near(self) -> NearPairs:
        return near_pairs(torch.from_numpy(self.units), FLOOR, most=MOST_PAIRS)

    @cached_property
    def neighbours(self) -> csr_array:
        """Scores of the near pairs, both ways; the neighbours of a row by score, the highest first."""
        left, right, score = self.near.left, self.near.right, self.near.score
        row, column, score = np.r_[left, right], np.r_[right, left], np.r_[score, score]
        order = np.lexsort((-score, row))
        starts = np.searchsorted(row[order], np.arange(len(self.units) + 1))
        return csr_array((score[order], column[order], starts), shape=(len(self.units),) * 2)

    def within(self, least: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The neighbours of each row whose score is at least this, by score, and the scores."""
        graph = self.neighbours
        columns, scores = [], []
        for start, end in zip(graph.indptr, graph.indptr[1:], strict=False):
            count = int(np.searchsorted(-graph.data[start:end], -least, side="right"))
            columns.append(graph.indices[start : start + count])
            scores.append(graph.data[start : start + count])
        return columns, scores

    @property
    def distances(self) -> np.ndarray:
        """1 minus the score of all pairs."""
        rows = self.units.astype(np.float64)
        distances = np.clip(1 - rows @ rows.T, 0, 2)
        np.fill_diagonal(distances, 0)
        return distances


#: Labels by parameter: one array, or one for each order in which the faces come.
Labelled = tuple[float, str, Sequence[np.ndarray]]
Method = Callable[[Faces], Iterator[Labelled]]


def thresholds(low: float, high: float, step: float = 0.01) -> np.ndarray:
    return np.arange(round(low / step), round(high / step) + 1) * step


def ours(faces: Faces) -> Iterator[Labelled]:
    tree = FaceTree(faces.embeddings, FLOOR)
    for threshold in thresholds(FLOOR, 0.64):
        yield threshold, f"threshold {threshold:.2f}", [tree.cut(float(threshold)).cluster]


def average(faces: Faces) -> Iterator[Labelled]:
    """Agglomerative clustering with all pairs, which is scipy's in scikit-learn too."""
    merges = linkage(faces.distances[np.triu_indices(len(faces.units), 1)], "average")
    for threshold in thresholds(FLOOR, 0.7):
        labels = fcluster(merges, 1 - threshold, "distance") - 1
        yield threshold, f"threshold {threshold:.2f}", [labels.astype(np.int64)]


def single(faces: Faces) -> Iterator[Labelled]:
    for threshold in thresholds(0.4, 0.75):
        kept = faces.near.score >= threshold
        pairs = faces.near.left[kept], faces.near.right[kept]
        graph = csr_array((np.ones(kept.sum(), np.int8), pairs), shape=(len(faces.units),) * 2)
        labels = connected_components(graph, directed=False)[1].astype(np.int64)
        yield threshold, f"threshold {threshold:.2f}", [labels]


def immich(faces: Faces) -> Iterator[Labelled]:
    """immich's recognition of people, with its three faces a person, faces in three random orders."""
    for threshold in thresholds(0.4, 0.7):
        near, _ = faces.within(threshold)
        orders = [np.random.default_rng(seed).permutation(len(near)) for seed in range(ORDERS)]
        distance = f"distance {1 - threshold:.2f}"
        yield threshold, distance, [recognised(near, order.tolist(), fewest=3) for order in orders]


def recognised(near: Sequence[np.ndarray], order: Sequence[int], fewest: int) -> np.ndarray:
    """Persons of faces that come in an order; -1 for none.

    A face takes the person of the nearest of its `fewest` nearest faces within the distance (itself included), then of
    the nearest of all. With `fewest` faces within the distance it begins a person; with fewer it is put off to the end
    once, and may then join a person, but begins none.
    """
    person = np.full(len(near), -1, np.int64)
    count, deferred = 0, []

    def first_person(others: np.ndarray) -> int:
        known = person[others]
        known = known[known >= 0]
        return int(known[0]) if len(known) else -1

    for face in order:
        if not len(near[face]):
            continue
        if 1 + len(near[face]) < fewest:
            deferred.append(face)
            continue
        known = first_person(near[face])
        if known < 0:
            known, count = count, count + 1
        person[face] = known
    for face in deferred:
        person[face] = first_person(near[face])
    return person


def whispers(faces: Faces) -> Iterator[Labelled]:
    """Chinese whispers (Biemann 2006) over the pairs above a threshold, weighed by their scores, in three orders."""
    for threshold in thresholds(0.4, 0.7, 0.02):
        near, scores = faces.within(threshold)
        yield (
            threshold,
            f"threshold {threshold:.2f}",
            [whispered(near, scores, np.random.default_rng(seed)) for seed in range(ORDERS)],
        )


def whispered(near: Sequence[np.ndarray], scores: Sequence[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Every face takes the label of most weight among its neighbours, in a new random order each of 30 rounds."""
    label = np.arange(len(near))
    told = np.array([face for face in range(len(near)) if len(near[face])])
    for _ in range(30):
        changed = False
        for face in random.permutation(told).tolist():
            names, place = np.unique(label[near[face]], return_inverse=True)
            best = names[np.bincount(place, scores[face]).argmax()]
            changed |= bool(best != label[face])
            label[face] = best
        if not changed:
            break
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def dbscan(fewest: int) -> Method:
    def method(faces: Faces) -> Iterator[Labelled]:
        from sklearn.cluster import DBSCAN

        graph = faces.neighbours.copy()
        graph.data = np.maximum(1 - graph.data, 1e-9)
        for threshold in thresholds(0.4, 0.75):
            found = DBSCAN(eps=1 - threshold, min_samples=fewest, metric="precomputed").fit(graph)
            yield threshold, f"eps {1 - threshold:.2f}", [found.labels_.astype(np.int64)]

    return method


def hdbscan(faces: Faces) -> Iterator[Labelled]:
    """HDBSCAN; its `cluster_selection_epsilon` fails in scikit-learn 1.9.1 with NumPy 2.4, so it is not varied."""
    from sklearn.cluster import HDBSCAN

    distances = faces.distances
    for number, (fewest, selection) in enumerate(itertools.product((2, 3), ("eom", "leaf"))):
        found = HDBSCAN(
            min_cluster_size=fewest,
            min_samples=1,
            metric="precomputed",
            cluster_selection_method=selection,
            copy=True,
        ).fit(distances)
        labels = np.maximum(found.labels_, -1).astype(np.int64)
        yield number, f"{fewest} faces, {selection}", [labels]


def infomap(faces: Faces) -> Iterator[Labelled]:
    """Infomap (Rosvall and Bergstrom 2008) over the 80 nearest neighbours of each face above a threshold."""
    from infomap import Infomap

    for threshold in thresholds(0.4, 0.6, 0.02):
        near, scores = faces.within(threshold)
        network = Infomap("--two-level --silent --seed 1")
        network.add_nodes(range(len(near)))
        for face, (others, weights) in enumerate(zip(near, scores, strict=True)):
            for other, weight in zip(others[:80].tolist(), weights[:80].tolist(), strict=True):
                network.add_link(face, other, weight)
        network.run()
        labels = np.full(len(near), -1, np.int64)
        for face, module in network.get_modules().items():
            labels[face] = module
        yield threshold, f"threshold {threshold:.2f}", [labels]


def rank_order(faces: Faces) -> Iterator[Labelled]:
    """Rank-order clustering (Zhu, Wen and Sun, CVPR 2011), approximate as Otto, Wang and Jain (TPAMI 2018, eq. 3).

    Two faces are one person where they have their nearest neighbours in common: joined are all pairs whose distance is
    at most the parameter. Two faces that are each other's nearest neighbour have distance 0.
    """
    rows, numbers = torch.from_numpy(faces.units), torch.arange(len(faces.units))
    whole = top_k(rows, rows, NEIGHBOURS[-1], exclude=(numbers, numbers))[1].numpy()
    for count in NEIGHBOURS:
        near = whole[:, :count]
        distance = np.concatenate([rank_distances(near, face) for face in range(len(near))])
        for most in thresholds(0, 1, 0.05):
            kept = distance <= most + 1e-9
            pairs = np.repeat(np.arange(len(near)), count)[kept], near.ravel()[kept]
            graph = csr_array((np.ones(kept.sum(), np.int8), pairs), shape=(len(near),) * 2)
            labels = connected_components(graph, directed=False)[1].astype(np.int64)
            yield 2 * count + most, f"{count} neighbours, distance {most:.2f}", [labels]


def rank_distances(near: np.ndarray, face: int) -> np.ndarray:
    """Rank-order distances of a face to its nearest neighbours, the nearest first.

    With o the rank of b among the neighbours of a, d(a, b) is how many of the first o neighbours of a are none of b's;
    the distance is (d(a, b) + d(b, a)) / min(o(a, b), o(b, a)). A face beyond the list has the rank of its end.

    Args:
        near: the nearest neighbours of each face.
        face: the face a.
    """
    count = near.shape[1]
    rank = np.full(len(near), count + 1)
    rank[face], rank[near[face]] = 0, np.arange(1, count + 1)
    theirs = rank[near[near[face]]]  # (neighbour b, its neighbour): the rank that it has for a
    own = np.arange(1, count + 1)
    shared = ((theirs > 0) & (theirs <= own[:, None])).sum(1) + 1  # b itself is none that b lacks
    back = np.where((theirs == 0).any(1), (theirs == 0).argmax(1) + 1, count)
    lacked = np.cumsum(theirs > count, 1)[np.arange(count), back - 1]
    return np.asarray((own - shared + lacked) / np.minimum(own, back))


METHODS: dict[str, Method] = {
    "verisphere": ours,
    "single link": single,
    "immich's rule": immich,
    "average linkage, scipy": average,
    "DBSCAN, 2 faces, scikit-learn": dbscan(2),
    "DBSCAN, 3 faces, scikit-learn": dbscan(3),
    "k-NN and Infomap": infomap,
    "HDBSCAN, scikit-learn": hdbscan,
    "Chinese whispers": whispers,
    "rank-order": rank_order,
}
