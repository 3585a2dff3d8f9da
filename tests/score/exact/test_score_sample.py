"""What a sample of rows says about all pairs: near the truth where it can be, open where it cannot."""

import math

import numpy as np
import torch

from verisphere.score import AllPairs, Group, pair_scores, unit_rows


def test_near_a_rank_and_around_it():
    random = np.random.default_rng(0)
    units = unit_rows(random.normal(size=(3000, 16)).astype(np.float32))  # more rows than are sampled
    pairs = AllPairs(units, torch.arange(3000), torch.arange(3000) % 2)
    scores = pairs.scores([Group(0, False), Group(1, False), Group(None, False)])
    left, right = torch.triu_indices(3000, 3000, 1)
    exact = pair_scores(units, left, right).sort(descending=True).values
    for rank in (50_000, 1_000_000, 4_000_000):
        low, high = pairs.sample.around(rank, (0, 1, 2))
        assert low < float(exact[rank - 1]) < high
        assert abs(scores.near(rank) - float(exact[rank - 1])) < 0.02
    assert pairs.sample.around(1, (0, 1, 2))[1] == math.inf
    assert pairs.sample.around(scores.total, (0, 1, 2))[0] == -math.inf


def test_where_there_is_nothing_to_sample_everything_is_open():
    pairs = AllPairs(unit_rows(np.eye(4, dtype=np.float32)), torch.zeros(4, dtype=torch.int64))
    assert pairs.sample.around(1, (0,)) == (-math.inf, math.inf)
    assert pairs.scores([Group(0, False)]).total == 0
