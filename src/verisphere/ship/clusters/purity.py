"""A threshold of clusters with a promise: the impurity of the next library of as many faces is at most the target.

People are divided into libraries at random, none in two. Each library gives one number, its loosest threshold (see
`verisphere.decide.purity`), and the promise is a rank among these numbers.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.base.provenance import check_recorded
from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Embeddings, Progress, check_word, quietly
from verisphere.base.work import results
from verisphere.decide import TooFewComparisonsError
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.decide.purity import LIBRARIES_FAIL, ClusterFigures, figures_of, libraries_of
from verisphere.decide.sample_size import Guarantee, comparisons_needed, independent_rank
from verisphere.files.purity import AtSize, MergesNotMade, Purity, digests_of
from verisphere.score.linkage import SMALLER_GROUPS_PAY
from verisphere.ship.calibrated_files import EmbeddingsSet
from verisphere.ship.calibration_check import NOTHING, Accepted, refuse_implausible, refuse_training_people
from verisphere.ship.clusters.face_tree import FaceTree

STEP = 0.005  # between thresholds that are tried
FLOORS = (0.5, 0.3, 0.2, 0.1, 0.0)  # of the trees, until a library is impure somewhere above one
FEW = 500  # faces whose tree above the lowest floor takes less time than several trees
SCORES_TOGETHER = 0.02  # merges whose scores differ by less count together
MERGES_BELOW, LOWEST = 0.2, -0.1  # how far below the threshold merges are looked at, and their lowest scores


@dataclass(frozen=True, eq=False)
class Library:
    """Faces of people with these numbers, clustered at thresholds that are tried; see `FaceTree.cut` for the margin."""

    faces: Embeddings
    person: Int64[np.ndarray, " faces"]
    margin: float = 0.0

    def figures(self, tree: FaceTree, threshold: float) -> ClusterFigures:
        """The clusters at a threshold compared with the people."""
        return figures_of(tree.cut(threshold, self.margin).cluster, self.person)

    def loosest(self, target: float) -> float:
        """The lowest threshold tried at which, and at all higher ones, the impurity is at most the target.

        Leaving unsure faces alone lowers the impurity or keeps it, and without that it only rises as the threshold
        falls; so the first threshold that can be impure is found by halving.
        """
        for floor in FLOORS if len(self.faces) > FEW else FLOORS[-1:]:
            tree = FaceTree(self.faces, floor)
            thresholds = np.round(np.arange(1, floor - STEP / 2, -STEP), 3).tolist()

            def impure(threshold: float, tree: FaceTree = tree) -> bool:
                return figures_of(tree.tree.labels(threshold), self.person).impurity > target

            for place in range(bisect_left(thresholds, True, key=impure), len(thresholds)):
                if self.figures(tree, thresholds[place]).impurity > target:
                    return float(thresholds[place - 1])  # at 1 nothing is merged
        return FLOORS[-1]


def calibrate_purity(
    path: Path,
    faces: int,
    impurity: Far = "0.01",
    guarantee: Guarantee = "expected",
    margin: float = 0.0,
    seed: int = 0,
    accepted: Accepted = NOTHING,
    progress: Progress = quietly,
) -> Purity:
    """The threshold of clusters at which a library of so many faces is pure, from embeddings of known people.

    What is given is described in `Purity`; what is `accepted` of the file, in `verisphere.ship.calibrate.calibrate`.
    Several seeds, of which one is chosen, break the guarantee.
    """
    check_word("guarantee", guarantee, ("expected", "confident"))
    target = float(exact_rate(impurity, "an impurity"))
    if not (0 <= target < 1 and faces > 1 and 0 <= margin < np.inf):
        raise ValueError(
            f"an impurity from 0 to below 1, libraries of 2 faces or more and a margin of 0 or more are needed, got "
            f"{impurity}, {faces} and {margin:g}"
        )
    known = EmbeddingsSet.read(path)
    check_recorded(known.name, known.origin, accepted.unrecorded_pixels)
    if not accepted.training_people:
        refuse_training_people(known.embeddings, known.name)
    reasons = refuse_implausible(known.name, known.implausible(), accepted.implausible)
    person = np.unique(known.embeddings.identities, return_inverse=True)[1]

    def libraries(size: int) -> list[Library]:
        drawn = libraries_of(person, size, numpy_generator(seed))
        rows = [of_one[np.argsort(known.embeddings.names[of_one])] for of_one in drawn]
        return [Library(known.embeddings.take(of_one), person[of_one], margin) for of_one in rows]

    drawn = libraries(faces)
    rank = independent_rank(len(drawn), LIBRARIES_FAIL, guarantee)
    if rank < 1:
        needed = comparisons_needed(LIBRARIES_FAIL, guarantee)
        raise TooFewComparisonsError(
            f"{path}: its {len(person):,} faces make {len(drawn)} libraries of {faces:,} faces with people of their "
            f"own; guarantee {guarantee!r} needs {needed}; possible with these: about "
            f"{len(person) // (needed + 1):,} faces a library"
        )
    of_rows = [known.embeddings.embeddings, known.embeddings.names, known.embeddings.identities]
    asked = [*of_rows, faces, far_text(impurity), guarantee, margin, seed]

    def of_each(step: str, some: Sequence[Library], figures: Callable[[Library], object]) -> list[np.ndarray]:
        compute = partial(map, lambda one: {step: np.array(figures(one))})
        found = results(step, lambda: asked, some, compute, progress, "clustering libraries")
        return [piece[step] for piece in found]

    threshold = float(sorted(of_each("loosest", drawn, lambda one: one.loosest(target)), reverse=True)[rank - 1])

    def at_size(size: int) -> AtSize:
        def figures(one: Library) -> list[float]:
            at = one.figures(FaceTree(one.faces, threshold), threshold)
            return [at.impurity, at.recall, at.unsure]

        found = of_each(f"size{size}", libraries(size)[: len(drawn)], figures)
        return AtSize(size, len(found), *np.mean(found, axis=0).tolist())

    return Purity(
        origin=known.origin,
        source=known.source,
        threshold=threshold,
        impurity=far_text(impurity),
        guarantee=guarantee,
        faces=faces,
        libraries=len(drawn),
        rank=rank,
        margin=margin,
        seed=seed,
        sizes=tuple(at_size(size) for size in (faces // 4, faces // 2, faces) if size > 1),
        joined=_joined(threshold, partial(of_each, "merges", drawn)),
        implausible=tuple(reasons),
        rows=digests_of(known.embeddings),
    )


def _joined(
    threshold: float, of_each: Callable[[Callable[[Library], np.ndarray]], list[np.ndarray]]
) -> tuple[MergesNotMade, ...]:
    """Merges of clusters of known people that the threshold does not make, by what they score."""
    floor = max(threshold - MERGES_BELOW, LOWEST)
    edges = np.arange(floor, threshold, SCORES_TOGETHER)

    def merges(library: Library) -> np.ndarray:
        tree = FaceTree(library.faces, floor).tree
        held = [Counter([one]) for one in library.person.tolist()]
        differ = []  # whether the two clusters of a merge are mostly of two people
        for left, right in tree.children.tolist():
            differ.append(held[left].most_common(1)[0][0] != held[right].most_common(1)[0][0])
            held.append(held[left] + held[right])
        worth = tree.scores - SMALLER_GROUPS_PAY / tree.sizes
        later = (tree.heights < threshold) & (worth >= floor)
        place = np.searchsorted(edges, worth[later], side="right") - 1
        wrong = place[np.array(differ, bool)[later]]
        return np.array([np.bincount(some, minlength=len(edges)) for some in (place, wrong)])

    return tuple(map(MergesNotMade, edges.tolist(), *np.sum(of_each(merges), axis=0).tolist()))
