"""Figures of one replicate at a time, and histograms of scores in memory: what tests compare the quick ways with."""

import numpy as np

from verisphere.base.vocabulary import Redrawing
from verisphere.decide.bootstrap import PairScores, draws_of, tars_at, thresholds_of
from verisphere.decide.curve import Histogram
from verisphere.decide.weights import Weights


def draw_people(people: int, replicates: int, seed: int) -> np.ndarray:
    """How often each person is drawn in each replicate, (replicates, people)."""
    return np.concatenate(list(draws_of(people, Redrawing(replicates, seed))))


def weighted_tar(pairs: PairScores, draws: np.ndarray, far: str) -> float:
    """TAR at the target FAR when person p counts draws[p] times."""
    weights = Weights(draws[None])
    return float(tars_at(pairs, weights, thresholds_of(pairs, weights, [far]))[0, 0])


def weighted_threshold(pairs: PairScores, draws: np.ndarray, far: str) -> float:
    """The threshold at the target FAR, by the rule `at_most`, when person p counts draws[p] times."""
    return float(thresholds_of(pairs, Weights(draws[None]), [far])[0, 0])


def count_scores(genuine: np.ndarray, impostor: np.ndarray, edges: np.ndarray) -> Histogram:
    """The histogram of some scores."""
    counts = (np.histogram(scores, edges)[0].astype(np.int64) for scores in (genuine, impostor))
    return Histogram(edges, *counts, len(genuine), len(impostor))
