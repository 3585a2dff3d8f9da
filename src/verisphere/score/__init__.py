"""Embeddings become scores: cosines of listed pairs, and of all pairs in bounded memory."""

from verisphere.score.all_pairs import AllPairs, Group, StreamedScores
from verisphere.score.pairs import pair_scores, unit_rows

__all__ = ["AllPairs", "Group", "StreamedScores", "pair_scores", "unit_rows"]
