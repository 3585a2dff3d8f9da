"""All pairs of made-up people with one image each."""

import numpy as np

from verisphere.decide.bootstrap import PairScores


def all_pairs(scores):
    """All pairs of a symmetric matrix of scores, as a bootstrap takes them."""
    left, right = np.triu_indices(len(scores), 1)
    values = scores[left, right]
    order = np.argsort(-values, kind="stable")
    nobody = np.zeros(0, np.int64)
    people = np.stack([left[order], right[order]], 1)
    return PairScores(np.zeros(0), nobody, values[order], people, np.ones(len(scores), np.int64))


def likeness(people, spread, seed):
    """Scores whose people differ: the higher `spread` the more."""
    random = np.random.default_rng(seed)
    own = spread * random.standard_normal(people)
    noise = random.standard_normal((people, people))
    noise = np.triu(noise, 1)
    return own[:, None] + own[None, :] + noise + noise.T
