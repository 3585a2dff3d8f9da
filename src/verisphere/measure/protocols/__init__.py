"""Evaluation protocols. They take embeddings, never a model: embed once, evaluate again in seconds."""

from verisphere.measure.protocols.all_pairs import (
    AllPairsResult,
    PairsOfSet,
    all_pairs,
    calibration_impostors,
    require_pairs,
)
from verisphere.measure.protocols.identification import (
    GalleryResult,
    IdentificationResult,
    identification,
    score_probes,
    split_gallery,
)
from verisphere.measure.protocols.listed_pairs import (
    ListedPairsResult,
    listed_folds,
    listed_operating_points,
    listed_pairs,
    score_listed,
)
from verisphere.measure.protocols.redrawn import tar_differences
from verisphere.measure.protocols.repeated_pairs import Repeated, repeated_pairs, repeated_text

__all__ = [
    "AllPairsResult",
    "GalleryResult",
    "IdentificationResult",
    "ListedPairsResult",
    "PairsOfSet",
    "Repeated",
    "all_pairs",
    "calibration_impostors",
    "identification",
    "listed_folds",
    "listed_operating_points",
    "listed_pairs",
    "repeated_pairs",
    "repeated_text",
    "require_pairs",
    "score_listed",
    "score_probes",
    "split_gallery",
    "tar_differences",
]
