"""Embeddings become scores: cosines of listed pairs, and of all pairs in bounded memory."""

from verisphere.base.vocabulary import PRECISIONS, Precision
from verisphere.score.all_pairs import AllPairs, Group, StreamedScores
from verisphere.score.listed import ListedPairs, ListedScores
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.top_k import top_k

__all__ = [
    "PRECISIONS",
    "AllPairs",
    "Group",
    "ListedPairs",
    "ListedScores",
    "Precision",
    "StreamedScores",
    "pair_scores",
    "top_k",
    "unit_rows",
]
