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
from verisphere.decide.guarantee import (
    GUARANTEES,
    Guarantee,
    GuaranteedThreshold,
    TooFewComparisonsError,
    approximate_threshold,
    comparisons_needed,
    disjoint_pairs,
    independent_rank,
    independent_threshold,
    lowest_far,
    people_needed,
    promised_rate,
)
from verisphere.decide.one_threshold import DomainResult, OneThreshold, compare_domains, one_threshold, split_domains
from verisphere.decide.order import Ordered, ScoresLike, SortedScores, ordered
from verisphere.decide.point import Far, accepted_impostors, exact_rate, operating_point, point_at, threshold_at

__all__ = [
    "GUARANTEES",
    "Accuracy",
    "Curve",
    "DomainResult",
    "Far",
    "Guarantee",
    "GuaranteedThreshold",
    "Interval",
    "OneThreshold",
    "Ordered",
    "PairScores",
    "ScoresLike",
    "SortedScores",
    "TooFewComparisonsError",
    "TooFewScoresError",
    "accepted_impostors",
    "accuracy_difference",
    "approximate_threshold",
    "best_cut",
    "binomial_bounds",
    "compare_domains",
    "comparisons_needed",
    "disjoint_pairs",
    "enough",
    "exact_rate",
    "independent_rank",
    "independent_threshold",
    "kfold_accuracy",
    "lowest_far",
    "one_threshold",
    "operating_point",
    "ordered",
    "people_needed",
    "point_at",
    "promised_rate",
    "roc",
    "split_domains",
    "tar_difference",
    "tar_interval",
    "threshold_at",
]
