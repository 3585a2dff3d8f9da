"""The distribution of the scores of a set's pairs, for plots: a thinned curve and histograms, in bounded memory."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.decide import Curve
from verisphere.decide.curve import Histogram
from verisphere.measure.protocols.all_pairs import PairsOfSet, ScoredPairs
from verisphere.score import StreamedScores

POINTS = 300
BINS = 120
_EXACT_RANKS = 1000  # up to this rank the score itself is a threshold
_SHARE_NOT_DRAWN = 5e-4  # share of the scores of a kind that may lie to the left of the lowest bin


def thinned_curve(pairs: PairsOfSet, points: int = POINTS) -> Curve:
    """The ROC of all pairs at about a thousand thresholds at most, each of them counted exactly, and at minus infinity.

    Ranks of the impostor scores are even on a logarithmic scale. The first are taken exactly, so that every one of the
    highest scores is a threshold; the thresholds of the others lie where a sample of the pairs expects those ranks. The
    set must have genuine and impostor pairs.
    """
    genuine, impostor = pairs.everything(genuine=True), pairs.everything(genuine=False)
    ranks = np.unique(np.geomspace(1, impostor.total, points).round().astype(np.int64)).tolist()
    first = [rank for rank in ranks if rank <= _EXACT_RANKS]
    pairs.settle([(impostor, rank) for rank in first])
    highest = [impostor.ranked(rank) for rank in first]
    others = [near for near in (impostor.near(rank) for rank in ranks[len(first) :]) if near < highest[-1]]
    thresholds = np.unique([*highest, *others])[::-1]
    pairs.settle(thresholds=[(impostor, float(threshold)) for threshold in thresholds])

    def above(scores: StreamedScores) -> Int64[np.ndarray, " points"]:
        return np.array([*(scores.above(float(threshold)) for threshold in thresholds), scores.total], np.int64)

    return Curve(np.append(thresholds, -np.inf), above(impostor), above(genuine), impostor.total, genuine.total)


def histograms(
    pairs: PairsOfSet, genuine: ScoredPairs, bins: int = BINS, degrees: bool = False
) -> tuple[Histogram, Mapping[str, Histogram]]:
    """Genuine and impostor scores of all pairs, and those within each domain that has both, over the same bins.

    The bins reach from about where all but one in two thousand scores of each kind lie to the highest score. `degrees`
    makes them equally wide in the angle, not in the cosine; the edges are cosines either way.
    """
    impostor = pairs.everything(genuine=False)
    lowest = min(
        impostor.near(impostor.total - int(_SHARE_NOT_DRAWN * impostor.total)),
        float(np.quantile(genuine.scores, _SHARE_NOT_DRAWN)),
    )
    highest = max(impostor.ranked(1), float(genuine.scores[0]))
    margin = max((highest - lowest) / 50, 1e-12)  # all scores may be one and the same
    edges = np.linspace(lowest - margin, highest + margin, bins + 1)
    if degrees:
        ends = np.arccos(np.clip(edges[[0, -1]], -1.0, 1.0))
        edges = np.cos(np.linspace(ends[0], ends[1], bins + 1))
        edges[-1] = max(edges[-1], highest)  # rounding may take a score past 1

    def count(same: Float64[np.ndarray, " pairs"], different: StreamedScores) -> Histogram:
        counts = np.histogram(same, edges)[0].astype(np.int64)
        return Histogram(edges, counts, different.histogram(edges), len(same), different.total)

    within = _within(pairs, genuine)
    by_domain = {
        name: count(within[name], different)
        for name, (same, different) in pairs.by_domain().items()
        if same.total and different.total
    }
    return count(genuine.scores, impostor), by_domain


def _within(pairs: PairsOfSet, genuine: ScoredPairs) -> dict[str, np.ndarray]:
    """The genuine scores of pairs within each domain."""
    home, away = pairs.domain[genuine.rows].T
    return {name: genuine.scores[(home == number) & (away == number)] for number, name in enumerate(pairs.domains)}
