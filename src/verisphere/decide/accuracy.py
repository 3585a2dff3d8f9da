"""Accuracy of listed pairs by cross-validation over folds, as LFW's View 2 is reported, and over redrawn people."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from verisphere.base.vocabulary import REDRAWING, Redrawing
from verisphere.decide.bootstrap import over_redrawn
from verisphere.decide.intervals import Interval, percentile_interval, share_interval
from verisphere.decide.weights import Weights

_PAIRS_AT_ONCE = 1 << 15  # pairs of a list that are weighted at once in every replicate of a run


@dataclass(frozen=True)
class Accuracy:
    """Accuracy over folds, each decided at the threshold that is best on the other folds.

    >>> score, genuine = np.array([0.9, 0.4, 0.8, 0.3]), np.array([True, False, True, False])
    >>> kfold_accuracy(score, genuine, folds=np.array([0, 0, 1, 1])).standard_error
    0.25

    Attributes:
        mean: mean of the folds' accuracies.
        std: sample standard deviation over the folds (divided by folds - 1).
        standard_error: std / sqrt(folds).
        folds: number of folds.
        pairs: number of pairs.
        per_fold: accuracy of each fold at the threshold found on the others.
        thresholds: the threshold of each fold.
    """

    mean: float
    std: float
    standard_error: float
    folds: int
    pairs: int
    per_fold: tuple[float, ...]
    thresholds: tuple[float, ...]


def best_cut(score: Float64[np.ndarray, " pairs"], genuine: Bool[np.ndarray, " pairs"]) -> float:
    """The cut with the highest accuracy, accepting iff score > cut.

    Cuts are minus infinity and every distinct score; of several equally accurate cuts the lower middle one is returned.

    >>> score, genuine = np.array([0.9, 0.4, 0.8, 0.3]), np.array([True, False, True, False])
    >>> best_cut(score, genuine)
    0.4
    """
    cuts = np.unique(np.append(score, -np.inf))
    rejected_genuine = np.searchsorted(np.sort(score[genuine]), cuts, side="right")
    rejected_impostors = np.searchsorted(np.sort(score[~genuine]), cuts, side="right")
    right = rejected_impostors - rejected_genuine  # the number of right decisions, up to a constant
    best = cuts[right == right.max()]
    return float(best[(len(best) - 1) // 2])


def kfold_accuracy(
    scores: Float64[np.ndarray, " pairs"], genuine: Bool[np.ndarray, " pairs"], folds: Int64[np.ndarray, " pairs"]
) -> Accuracy:
    """The accuracy of each fold at the threshold that is best on the other folds.

    >>> score, genuine = np.array([0.9, 0.4, 0.8, 0.3]), np.array([True, False, True, False])
    >>> accuracy = kfold_accuracy(score, genuine, folds=np.array([0, 0, 1, 1]))
    >>> accuracy.mean, accuracy.per_fold, accuracy.thresholds
    (0.75, (0.5, 1.0), (0.3, 0.4))

    Args:
        scores: score of each pair; higher is more alike.
        genuine: True where a pair shows one person.
        folds: each pair's fold, as any integer.

    Raises:
        ValueError: NaN scores, no genuine or no impostor pair, fewer than two folds.
    """
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of {len(scores)} scores are NaN")
    if genuine.all() or not genuine.any():
        raise ValueError(
            f"there are no {'impostor' if genuine.any() else 'genuine'} pairs among the {len(scores)} listed"
        )
    numbers = np.unique(folds)
    if len(numbers) < 2:
        raise ValueError(f"k-fold accuracy needs at least two folds, got {len(numbers)}")
    thresholds, shares = [], []
    for number in numbers:
        inside = folds == number
        cut = best_cut(scores[~inside], genuine[~inside])
        thresholds.append(cut)
        shares.append(float(((scores[inside] > cut) == genuine[inside]).mean()))
    std = float(np.std(shares, ddof=1))
    return Accuracy(
        mean=float(np.mean(shares)),
        std=std,
        standard_error=std / len(numbers) ** 0.5,
        folds=len(numbers),
        pairs=len(scores),
        per_fold=tuple(shares),
        thresholds=tuple(thresholds),
    )


# --- over redrawn people ---


def accuracy_interval(
    right: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"] | None = None,
    redrawing: Redrawing = REDRAWING,
) -> Interval:
    """Share of right decisions on listed pairs, with its interval over redrawn people.

    >>> people = np.array([[0, 0], [0, 1], [1, 1], [1, 2]])
    >>> accuracy_interval(np.array([1.0, 1.0, 0.0, 1.0]), people, redrawing=Redrawing(replicates=20)).value
    0.75

    Args:
        right: 1 where the decision on a pair was right, else 0; decisions are fixed, at each fold's threshold.
        people: the two people of each pair, the same number twice for a genuine pair, which then counts once for each
            time its person was drawn.
        weights: weight of each pair in the mean; None weighs all pairs equally.

    Raises:
        ValueError: no replicate has a pair.
    """
    weights = np.full(len(right), 1 / len(right)) if weights is None else weights
    value = float(weights @ right / weights.sum())
    numbers, members = np.unique(people, return_inverse=True)
    first, second = members.reshape(people.shape).T
    share = weights * (right - value)
    influence = np.bincount(first, share, len(numbers))
    influence += np.bincount(second, np.where(first == second, 0.0, share), len(numbers))  # a genuine pair counts once
    comparisons = weights.sum() ** 2 / (weights**2).sum()  # as many of equal weights (Kish 1965)
    replicates = redrawn_accuracy(right, people, weights, redrawing)
    return share_interval(value, replicates, comparisons, influence, len(numbers))


def redrawn_accuracy(
    right: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"],
    redrawing: Redrawing = REDRAWING,
) -> Float64[np.ndarray, " replicates"]:
    """Share of right decisions in each replicate; NaN where nobody with a pair was drawn. See `accuracy_interval`."""
    numbers, members = np.unique(people, return_inverse=True)
    members = members.reshape(people.shape)
    same = members[:, 0] == members[:, 1]

    def means(drawn: Weights) -> Float64[np.ndarray, " replicates"]:
        draws = drawn.draws
        total, hit = np.zeros(len(draws)), np.zeros(len(draws))
        for start in range(0, len(right), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            first, second = members[part].T
            counts = draws[:, first] * np.where(same[part], 1, draws[:, second])  # (replicates, pairs)
            total += counts @ weights[part]
            hit += counts @ (weights[part] * right[part])
        return np.divide(hit, total, out=np.full(len(draws), np.nan), where=total > 0)

    return over_redrawn(len(numbers), redrawing, means, lambda: [right, members, weights])


def accuracy_difference(
    ours: Float64[np.ndarray, " pairs"],
    theirs: Float64[np.ndarray, " pairs"],
    people: Int64[np.ndarray, "pairs 2"],
    weights: Float64[np.ndarray, " pairs"] | None = None,
    redrawing: Redrawing = REDRAWING,
) -> Interval:
    """The difference in the share of right decisions of two models on the same listed pairs, over redrawn people.

    >>> people = np.array([[0, 0], [0, 1], [1, 1], [1, 2]])
    >>> ours, theirs = np.array([1.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0, 1.0])
    >>> accuracy_difference(ours, theirs, people, redrawing=Redrawing(replicates=20)).value
    0.25

    Args:
        ours: 1 where our decision on a pair was right, else 0; see `accuracy_interval` for all arguments.
        theirs: 1 where the other model's decision was right, else 0.
        people: the two people of each pair.
        weights: weight of each pair in the mean.
    """
    weights = np.full(len(ours), 1 / len(ours)) if weights is None else weights
    value = float(weights @ (ours - theirs) / weights.sum())
    return percentile_interval(value, redrawn_accuracy(ours - theirs, people, weights, redrawing))
