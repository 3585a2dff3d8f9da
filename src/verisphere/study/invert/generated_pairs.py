"""Accuracy on listed pairs of generated images, as in ArcFace's table 11, and of generated images with photographs.

Deng et al. 2021, arXiv:1801.07698v4, table 11, the column of accuracies. The comparison of a generated image with a
photograph is ours: two generated images may agree in what the model invents.
"""

from collections import defaultdict
from pathlib import Path

import numpy as np
from jaxtyping import Float

from verisphere.base.vocabulary import Comparisons, Embeddings
from verisphere.files.errors import errors_naming
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.images.faces import Faces
from verisphere.measure.protocols.listed_pairs import listed_folds, listed_pairs
from verisphere.study.invert.findings import PairAccuracy

_SIDES = {"both generated": (0, 0), "generated and photograph": (0, 1), "both photographs": (1, 1)}


class GeneratedPairs:
    """Pairs taken in turn from each fold and kind of a list, as many as a number of images allows, to be generated."""

    def __init__(self, path: Path, faces: Faces, count: int) -> None:
        listed = read_pairs(path)
        with errors_naming(path):
            if listed.videos:
                raise ValueError("a list of videos; generated are images")
            left, right, _ = listed.positions_and_note(list(faces.names))
            genuine = np.array(listed.genuine)
            stated = None if listed.folds is None else np.array(listed.folds)
            folds = listed_folds(Comparisons(left, right, genuine, stated))
            chosen, images = _chosen(listed, left, right, folds, count)
            self.photos = tuple(images)
            row = {photo: place for place, photo in enumerate(images)}
            kinds = {(int(folds[pair]), listed.genuine[pair]) for pair in chosen}
            whole = {fold for fold, _ in kinds if {(fold, True), (fold, False)} <= kinds}
            chosen = [pair for pair in chosen if int(folds[pair]) in whole]
            if len(whole) < 2:
                raise ValueError(
                    f"{count} images make no genuine and impostor pair in each of two folds; raise --count"
                )
        self._left = np.array([row[int(left[pair])] for pair in chosen])
        self._right = np.array([row[int(right[pair])] for pair in chosen])
        self._genuine = np.array([listed.genuine[pair] for pair in chosen])
        self._folds = np.array([folds[pair] for pair in chosen])

    def accuracies(
        self, model: str, generated: Float[np.ndarray, "count dim"], photographs: Float[np.ndarray, "count dim"]
    ) -> list[PairAccuracy]:
        """Accuracy with generated images on both sides, on one, and on none; both sets are in the order of `photos`."""
        rows = np.concatenate([generated, photographs]).astype(np.float32)
        names = [f"{kind}-{place}" for kind in ("generated", "photo") for place in range(len(generated))]
        embeddings = Embeddings(rows, names, names)
        results = []
        for sides, (of_left, of_right) in _SIDES.items():
            comparisons = Comparisons(
                self._left + of_left * len(generated),
                self._right + of_right * len(generated),
                self._genuine,
                self._folds,
            )
            accuracy = listed_pairs(embeddings, comparisons, (), keep_repeated=True).accuracy
            results.append(
                PairAccuracy(model, sides, len(self._left), accuracy.folds, accuracy.mean, accuracy.standard_error)
            )
        return results


def _chosen(
    listed: PairList, left: np.ndarray, right: np.ndarray, folds: np.ndarray, count: int
) -> tuple[list[int], list[int]]:
    """Pairs taken in turn from each fold and kind up to a number of images; and the images, in order."""
    groups: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for pair, (fold, genuine) in enumerate(zip(folds.tolist(), listed.genuine, strict=True)):
        groups[fold, genuine].append(pair)
    turns = max(map(len, groups.values()))
    order = [pairs[turn] for turn in range(turns) for _, pairs in sorted(groups.items()) if turn < len(pairs)]
    chosen: list[int] = []
    images: dict[int, None] = {}
    for pair in order:
        both = dict.fromkeys((int(left[pair]), int(right[pair])))
        if len(images | both) > count:
            continue
        images |= both
        chosen.append(pair)
    return chosen, list(images)
