"""How pure clusters are where the people are known, and a threshold whose purity holds in the next library.

The promise takes libraries of equally many faces whose people are drawn alike and are in one library alone. The
loosest threshold of a library is the lowest at which, and at all higher ones, its impurity is at most the target. A
library is then one draw, and the threshold is a rank among theirs: the strictest of 19 holds for the next library with
95 %, the strictest of 59 holds for 95 % of libraries with 95 % confidence (order statistics, as for impostor scores in
`verisphere.decide.sample_size`, with a share of 5 % in place of the FAR).
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

UNSURE = -1  # cluster of a face that is left alone
LIBRARIES_FAIL = "0.05"  # share of libraries whose impurity may be above the target


@dataclass(frozen=True)
class ClusterFigures:
    """Clusters compared with known people; a face without a cluster, or an unsure one, counts as a cluster of its own.

    Attributes:
        impurity: share of the faces in a cluster that is mostly of another person.
        precision, recall: B-cubed (Bagga and Baldwin 1998): the mean over faces of the share of their cluster that is
            of their person, and of the share of their person's faces that is in their cluster.
        pair_precision, pair_recall: the share of pairs within a cluster that show one person, and of pairs of one
            person that lie within a cluster; 1 where there is no such pair.
    """

    faces: int
    people: int
    clusters: int
    mixed: int
    unsure: float
    impurity: float
    precision: float
    recall: float
    pair_precision: float
    pair_recall: float

    @property
    def f(self) -> float:
        """The harmonic mean of B-cubed precision and recall."""
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def figures_of(cluster: Int64[np.ndarray, " faces"], person: Int64[np.ndarray, " rows"]) -> ClusterFigures:
    """Compare the cluster of each face, from 0 or `UNSURE`, with its person; the order of the faces does not matter.

    >>> figures = figures_of(np.array([0, 0, 0, 1, UNSURE]), np.array([7, 7, 9, 9, 9]))
    >>> figures.mixed, figures.impurity, round(figures.precision, 3), round(figures.recall, 3)
    (1, 0.2, 0.733, 0.6)
    """
    if not len(cluster) or len(cluster) != len(person):
        raise ValueError(f"clusters of {len(cluster)} faces and people of {len(person)}; both need one for each face")
    alone = cluster == UNSURE
    cluster = np.where(alone, cluster.max() + 1 + alone.cumsum(), cluster)
    both, together = np.unique(np.stack([cluster, person], 1), axis=0, return_counts=True)
    in_cluster, of_person = (np.unique(both[:, side], return_inverse=True)[1] for side in (0, 1))
    sizes, images = np.bincount(in_cluster, together), np.bincount(of_person, together)
    most = np.zeros(len(sizes))
    np.maximum.at(most, in_cluster, together)
    faces = len(cluster)

    def pairs(count: np.ndarray) -> float:
        return float((count * (count - 1)).sum())

    def share(of: float) -> float:
        return pairs(together) / of if of else 1.0

    return ClusterFigures(
        faces=faces,
        people=len(images),
        clusters=len(sizes),
        mixed=int((np.bincount(in_cluster) > 1).sum()),
        unsure=float(alone.mean()),
        impurity=float((faces - most.sum()) / faces),
        precision=float((together**2 / sizes[in_cluster]).sum() / faces),
        recall=float((together**2 / images[of_person]).sum() / faces),
        pair_precision=share(pairs(sizes)),
        pair_recall=share(pairs(images)),
    )


def libraries_of(
    person: Int64[np.ndarray, " faces"], faces: int, random: np.random.Generator
) -> list[Int64[np.ndarray, " faces_of_library"]]:
    """The faces of as many libraries of so many faces as the people suffice for; no person is in two.

    People come in random order; a library ends with the person who fills it, of whom it takes a random part.
    """
    order = random.permutation(len(person))
    place = random.permutation(int(person.max()) + 1)[person[order]]
    order = order[np.argsort(place, kind="stable")]
    person = person[order]
    libraries, start = [], 0
    while start + faces <= len(order):
        libraries.append(np.sort(order[start : start + faces]))
        later = np.flatnonzero(person[start + faces :] != person[start + faces - 1])
        start = start + faces + int(later[0]) if len(later) else len(order)
    return libraries
