"""Listed pairs: k-fold accuracy and operating points of the LFW family, operating points of lists of millions (IJB)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float64, Int64

from verisphere.base.vocabulary import FARS, Comparisons, Embeddings, OperatingPoint, Progress, Rule, Scores, quietly
from verisphere.base.work import Arrays, ranges, results
from verisphere.decide import Accuracy, Far, Ordered, accepted_impostors, kfold_accuracy, operating_point, ordered
from verisphere.files.pair_lists.pair_list import place_text
from verisphere.score import pair_scores, unit_rows
from verisphere.score.listed import ListedPairs, ListedScores
from verisphere.score.listing import shares, side_of


@dataclass(frozen=True)
class Repeated:
    """The repetitions of a list; positions count from 0.

    Attributes:
        first_same_image: position of the first pair of an image with itself; 0 without one.
        first_again: positions of the first pair that is listed again and of its next occurrence; (0, 0) without one.
    """

    same_image: int
    first_same_image: int
    again: int
    first_again: tuple[int, int]


def repeated_pairs(comparisons: Comparisons) -> Repeated:
    """Count pairs of a row with itself and pairs that are listed again, by sorting 4 to 8 bytes a pair."""
    left, right = comparisons.left, comparisons.right
    same_image = first_same_image = 0
    for share in shares(len(left)):
        places = np.flatnonzero(left[share] == right[share])
        if len(places) and not same_image:
            first_same_image = share.start + int(places[0])
        same_image += len(places)
    rows = 1 + max(int(left.max(initial=-1)), int(right.max(initial=-1)))
    keys = np.empty(len(left), np.uint32 if rows <= 1 << 16 else np.int64)
    for share in shares(len(left)):
        keys[share] = _keys(left[share], right[share], rows)
    keys.sort()
    again = keys[1:][keys[1:] == keys[:-1]]
    del keys
    return Repeated(same_image, first_same_image, len(again), _first_again(left, right, rows, np.unique(again)))


def _keys(left: Int64[np.ndarray, " some"], right: Int64[np.ndarray, " some"], rows: int) -> Int64[np.ndarray, " some"]:
    """A number for each pair that is the same for both of its orders, and for no other pair."""
    return np.minimum(left, right) * rows + np.maximum(left, right)


def _first_again(
    left: Int64[np.ndarray, " pairs"], right: Int64[np.ndarray, " pairs"], rows: int, again: np.ndarray
) -> tuple[int, int]:
    """Position of the first pair whose key is among those that occur again, and where it occurs next."""
    first: tuple[int, int] | None = None  # position and key
    for share in shares(len(left) if len(again) else 0):
        keys = _keys(left[share], right[share], rows)
        if first is None:
            places = np.flatnonzero(np.isin(keys, again))
            if not len(places):
                continue
            first = share.start + int(places[0]), int(keys[places[0]])
        places = share.start + np.flatnonzero(keys == first[1])
        places = places[places > first[0]]
        if len(places):
            return first[0], int(places[0])
    return 0, 0


def repeated_text(embeddings: Embeddings, comparisons: Comparisons) -> str:
    """The repetitions of a list as a sentence that names the first of each kind; empty where there are none."""
    for name, rows in (("left", comparisons.left), ("right", comparisons.right)):
        side_of(name, rows, len(embeddings))
    repeated, parts = repeated_pairs(comparisons), []
    if repeated.same_image:
        image = _image(embeddings, int(comparisons.left[repeated.first_same_image]))
        parts.append(
            f"{repeated.same_image:,} of {len(comparisons):,} pairs compare an image with itself, first {image} in "
            f"{_place(comparisons, repeated.first_same_image)}"
        )
    if repeated.again:
        first, next_ = repeated.first_again
        left, right = (_image(embeddings, int(side[first])) for side in (comparisons.left, comparisons.right))
        parts.append(
            f"{repeated.again:,} of {len(comparisons):,} pairs repeat an earlier one, first {left} with {right} in "
            f"{_place(comparisons, first)} and {_place(comparisons, next_)}"
        )
    return "; ".join(parts)


def refuse_repeated(embeddings: Embeddings, comparisons: Comparisons) -> None:
    """Refuse a list that contains a pair of an image with itself, or a pair twice."""
    text = repeated_text(embeddings, comparisons)
    if text:
        raise ValueError(
            f"{text}; such pairs move the figures: take them out of the list; evaluate pairs and evaluate ijb also "
            "keep them, by --keep-repeated (keep_repeated=True)"
        )


def _image(embeddings: Embeddings, row: int) -> str:
    name = str(embeddings.names[row])
    return repr(name if len(name) <= 200 else f"{name[:197]}...")


def _place(comparisons: Comparisons, pair: int) -> str:
    return f"pair {pair + 1:,}" if comparisons.lines is None else place_text(comparisons.lines[pair])


BLOCKS = 10  # folds of a list that names none
SCORED_TOGETHER = 1 << 20  # pairs of a piece of work, some seconds


@dataclass(frozen=True, eq=False)
class ListedPairsResult:
    """The figures of a list of pairs.

    Scores are in the order of the list. `right_decisions` is 1 where the threshold of a pair's fold decides it
    correctly, else 0; `weights` are those of the accuracy's mean, in which each fold counts alike.
    """

    operating_points: tuple[OperatingPoint, ...]
    accuracy: Accuracy
    scores: Scores
    right_decisions: Float64[np.ndarray, " pairs"]
    weights: Float64[np.ndarray, " pairs"]


def listed_folds(comparisons: Comparisons) -> np.ndarray:
    """The list's folds; for a list without folds, ten blocks in list order.

    Block i holds the i-th tenth of the genuine pairs and the i-th tenth of the impostor pairs. The list is not cut as a
    whole, because some lists name all genuine pairs first: a block would then hold pairs of one kind, and the threshold
    found on the other blocks, where that kind is rarer, would be biased against it.
    """
    if comparisons.folds is not None:
        return comparisons.folds
    folds = np.empty(len(comparisons), np.int64)
    for kind, name in ((comparisons.genuine, "genuine"), (~comparisons.genuine, "impostor")):
        count = int(kind.sum())
        if count < BLOCKS:
            raise ValueError(f"{count} {name} pairs do not make {BLOCKS} blocks, and the list names no folds")
        folds[kind] = np.arange(count) * BLOCKS // count
    return folds


def score_listed(embeddings: Embeddings, comparisons: Comparisons) -> Scores:
    """Score of each listed pair; runs of pairs are pieces of work."""
    rows, left, right = embeddings.embeddings, torch.from_numpy(comparisons.left), torch.from_numpy(comparisons.right)
    units = unit_rows(rows)

    def of_pairs(part: range) -> Arrays:
        place = slice(part.start, part.stop)
        return {"scores": pair_scores(units, left[place], right[place]).numpy()}

    pieces = ranges(len(comparisons), SCORED_TOGETHER)
    parts = results("listed", lambda: [SCORED_TOGETHER, rows, left, right], pieces, partial(map, of_pairs))
    score = np.concatenate([np.empty(0), *(part["scores"] for part in parts)])
    return Scores(score, comparisons.genuine, domains_of_pairs(embeddings, comparisons))


def domains_of_pairs(embeddings: Embeddings, comparisons: Comparisons) -> np.ndarray | None:
    """Domain of each listed pair: the list's, else that of the two images, empty where they differ."""
    if comparisons.domains is not None or embeddings.domains is None:
        return comparisons.domains
    home, away = embeddings.domains[comparisons.left], embeddings.domains[comparisons.right]
    return np.where(home == away, home, "")


def listed_pairs(
    embeddings: Embeddings,
    comparisons: Comparisons,
    fars: Sequence[Far] = ("1e-1", "1e-2"),
    rule: Rule = "at_most",
    keep_repeated: bool = False,
) -> ListedPairsResult:
    """Accuracy over folds and operating points of listed pairs."""
    if not keep_repeated:
        refuse_repeated(embeddings, comparisons)
    scores = score_listed(embeddings, comparisons)
    folds = listed_folds(comparisons)
    accuracy = kfold_accuracy(scores.score, scores.genuine, folds)
    genuine = ordered(scores.score[scores.genuine], "genuine")  # sorted once for any number of FARs
    impostor = ordered(scores.score[~scores.genuine], "impostor")
    _, fold, size = np.unique(folds, return_inverse=True, return_counts=True)
    cut = np.array(accuracy.thresholds)[fold]
    return ListedPairsResult(
        operating_points=tuple(operating_point(genuine, impostor, far, rule) for far in fars),
        accuracy=accuracy,
        scores=scores,
        right_decisions=((scores.score > cut) == scores.genuine).astype(np.float64),
        weights=1 / (len(size) * size[fold]),
    )


def listed_operating_points(
    embeddings: Embeddings,
    comparisons: Comparisons,
    fars: Sequence[Far] = FARS,
    rule: Rule = "at_most",
    progress: Progress = quietly,
    keep_repeated: bool = False,
) -> tuple[OperatingPoint, ...]:
    """Operating points of listed pairs without a score of each: the same as `listed_pairs` finds, for any list.

    `keep_repeated` counts pairs of an image with itself, and pairs that are listed twice, instead of refusing them,
    which sorts 4 or 8 bytes a pair.
    """
    _, genuine, impostor = listed_order(embeddings, comparisons, fars, progress, keep_repeated)
    return tuple(operating_point(genuine, impostor, far, rule) for far in fars)


def listed_order(
    embeddings: Embeddings,
    comparisons: Comparisons,
    fars: Sequence[Far] = FARS,
    progress: Progress = quietly,
    keep_repeated: bool = False,
) -> tuple[ListedPairs, Ordered, Ordered]:
    """The pairs, and their genuine and impostor scores, ready for the thresholds at these FARs."""
    if not keep_repeated:
        refuse_repeated(embeddings, comparisons)
    units = unit_rows(embeddings.embeddings)
    pairs = ListedPairs(units, comparisons.left, comparisons.right, comparisons.genuine, progress)
    impostors = pairs.scores(genuine=False)
    genuine, impostor = ordered(pairs.scores(genuine=True), "genuine"), ordered(impostors, "impostor")
    prepare(impostors, fars)
    return pairs, genuine, impostor


def prepare(impostors: ListedScores, fars: Sequence[Far]) -> None:
    """Find the pairs that the thresholds at these FARs need by one pass over the list."""
    ranks = (accepted_impostors(far, impostors.total) + 1 for far in fars)
    impostors.prepare(rank for rank in ranks if rank <= impostors.total)
