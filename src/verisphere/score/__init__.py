"""Embeddings become scores: cosines of listed pairs, and of all pairs in bounded memory."""

from verisphere.score.all_pairs import AllPairs, Group, StreamedScores
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.screen import PRECISIONS, Precision
from verisphere.score.sweep import Keeper

__all__ = [
    "PRECISIONS",
    "AllPairs",
    "Group",
    "Keeper",
    "Precision",
    "StreamedScores",
    "pair_scores",
    "unit_rows",
]
