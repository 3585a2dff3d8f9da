"""Accuracy of listed pairs by cross-validation over folds, as LFW's View 2 is reported."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64


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
