"""Figures of one replicate at a time, and histograms of scores in memory: what tests compare the quick ways with."""

import numpy as np

from verisphere.base.vocabulary import Redrawing
from verisphere.decide.bootstrap import PairScores, draws_of, tars_at, thresholds_of
from verisphere.decide.curve import Histogram
from verisphere.decide.weights import Weights


def pairs_of_images(score: np.ndarray, person: np.ndarray, rows: np.ndarray | None = None) -> PairScores:
    """All pairs of images, or of these rows, from the matrix of their scores; all people keep their numbers."""
    rows = np.arange(len(person)) if rows is None else rows
    left, right = (rows[side] for side in np.triu_indices(len(rows), 1))
    same = person[left] == person[right]
    value = score[left, right]
    order = np.argsort(-value[~same], kind="stable")
    return PairScores(
        genuine=value[same],
        genuine_person=person[left[same]].astype(np.int64),
        impostor=value[~same][order],
        impostor_people=np.stack([person[left[~same]], person[right[~same]]], 1)[order].astype(np.int64),
        images=np.bincount(person[rows], minlength=person.max() + 1).astype(np.int64),
    )


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
