"""What the plots of a set's pairs are drawn from: a thinned curve and histograms, in bounded memory."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.decide import Curve
from verisphere.decide.histogram import Histogram
from verisphere.protocols.all_pairs import PairsOfSet
from verisphere.score import StreamedScores

POINTS = 300
BINS = 120
_EXACT = 1000  # ranks of which the score itself is a threshold
_TAIL = 5e-4  # share of the scores of a kind that may lie to the left of what is drawn


@dataclass(frozen=True, eq=False)
class GenuinePairs:
    """Every genuine pair of a set; unlike impostors, these are few enough to be held.

    Attributes:
        scores: descending.
        rows: the two rows of each pair.
    """

    scores: Float64[np.ndarray, " pairs"]
    rows: Int64[np.ndarray, "pairs 2"]


def genuine_pairs(pairs: PairsOfSet) -> GenuinePairs:
    """The genuine pairs of a set, by one pass."""
    return GenuinePairs(*pairs.all_scores(genuine=True))


def thinned_curve(pairs: PairsOfSet, points: int = POINTS) -> Curve:
    """The ROC of all pairs at some hundred thresholds, each of them counted exactly, and at minus infinity.

    Ranks of the impostor scores are even on a logarithmic scale. The first are taken exactly, so that every one of the
    highest scores is a threshold; the thresholds of the others lie where a sample of the pairs expects those ranks.

    Args:
        pairs: of a set with genuine and impostor pairs.
        points: about how many.
    """
    genuine, impostor = pairs.everything(genuine=True), pairs.everything(genuine=False)
    ranks = np.unique(np.geomspace(1, impostor.total, points).round().astype(np.int64)).tolist()
    first = [rank for rank in ranks if rank <= _EXACT]
    pairs.pairs.settle([(impostor, rank) for rank in first])
    highest = [impostor.ranked(rank) for rank in first]
    others = [near for near in (impostor.near(rank) for rank in ranks[len(first) :]) if near < highest[-1]]
    thresholds = np.unique([*highest, *others])[::-1]
    pairs.pairs.settle(thresholds=[(impostor, float(threshold)) for threshold in thresholds])

    def above(scores: StreamedScores) -> Int64[np.ndarray, " points"]:
        return np.array([*(scores.above(float(threshold)) for threshold in thresholds), scores.total], np.int64)

    return Curve(np.append(thresholds, -np.inf), above(impostor), above(genuine), impostor.total, genuine.total)


def histograms(pairs: PairsOfSet, genuine: GenuinePairs, bins: int = BINS) -> tuple[Histogram, Mapping[str, Histogram]]:
    """Genuine and impostor scores of all pairs, and those within each domain that has both, over the same bins.

    The bins reach from about where all but one in two thousand scores of each kind lie to the highest score.

    Args:
        pairs: of a set with genuine and impostor pairs.
        genuine: all of its genuine pairs.
        bins: how many.
    """
    impostor = pairs.everything(genuine=False)
    lowest = min(impostor.near(impostor.total - int(_TAIL * impostor.total)), float(np.quantile(genuine.scores, _TAIL)))
    highest = max(impostor.ranked(1), float(genuine.scores[0]))
    margin = max((highest - lowest) / 50, 1e-12)  # all scores may be one and the same
    edges = np.linspace(lowest - margin, highest + margin, bins + 1)

    def count(own: Float64[np.ndarray, " pairs"], other: StreamedScores) -> Histogram:
        return Histogram(
            edges, np.histogram(own, edges)[0].astype(np.int64), other.histogram(edges), len(own), other.total
        )

    within = _within(pairs, genuine)
    by_domain = {
        name: count(within[name], other)
        for name, (own, other) in pairs.by_domain().items()
        if own.total and other.total
    }
    return count(genuine.scores, impostor), by_domain


def _within(pairs: PairsOfSet, genuine: GenuinePairs) -> dict[str, np.ndarray]:
    """The genuine scores of pairs within each domain."""
    home, away = pairs.pairs.domains.numpy()[genuine.rows].T
    return {name: genuine.scores[(home == number) & (away == number)] for number, name in enumerate(pairs.domains)}
