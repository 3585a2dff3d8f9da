"""Scores become decisions: operating points, bounds, curves, accuracy, one threshold for all domains.

Everything here works on scores alone and knows nothing of images, models or files.
"""

from verisphere.decide.accuracy import Accuracy, best_cut, kfold_accuracy
from verisphere.decide.bootstrap import (
    Interval,
    PairScores,
    TooFewScoresError,
    accuracy_difference,
    enough,
    tar_difference,
    tar_interval,
)
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.curve import Curve, roc
from verisphere.decide.one_threshold import DomainResult, OneThreshold, compare_domains, one_threshold, split_domains
from verisphere.decide.order import Ordered, ScoresLike, SortedScores, ordered
from verisphere.decide.point import Far, accepted_impostors, exact_rate, operating_point, point_at, threshold_at

__all__ = [
    "Accuracy",
    "Curve",
    "DomainResult",
    "Far",
    "Interval",
    "OneThreshold",
    "Ordered",
    "PairScores",
    "ScoresLike",
    "SortedScores",
    "TooFewScoresError",
    "accepted_impostors",
    "accuracy_difference",
    "best_cut",
    "binomial_bounds",
    "compare_domains",
    "enough",
    "exact_rate",
    "kfold_accuracy",
    "one_threshold",
    "operating_point",
    "ordered",
    "point_at",
    "roc",
    "split_domains",
    "tar_difference",
    "tar_interval",
    "threshold_at",
]
