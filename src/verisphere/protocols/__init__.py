"""Protocols take embeddings, never a model: embed once, evaluate again in seconds."""

from verisphere.protocols.all_pairs import AllPairsResult, PairsOfSet, all_pairs, calibration_impostors, tar_differences
from verisphere.protocols.listed_pairs import ListedPairsResult, listed_folds, listed_pairs, score_listed

__all__ = [
    "AllPairsResult",
    "ListedPairsResult",
    "PairsOfSet",
    "all_pairs",
    "calibration_impostors",
    "listed_folds",
    "listed_pairs",
    "score_listed",
    "tar_differences",
]
