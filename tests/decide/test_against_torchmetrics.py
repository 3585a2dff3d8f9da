"""TAR at a FAR against torchmetrics' sensitivity at specificity, code written by others for another field."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import binary_sensitivity_at_specificity

from verisphere.decide import operating_point

FARS = ["0", "1e-4", "1e-3", "1e-2", "0.05", "0.1", "0.29", "0.5", "0.9", "1"]


def tied_cosines(generator, count, centre):
    """Cosines on a grid of hundredths (or tenths, or quarters), so that most of them are tied."""
    steps = generator.choice([4, 10, 100])
    return np.round(np.clip(generator.normal(centre, 0.3, count), -1, 1) * steps) / steps


def genuine_accepted_elsewhere(genuine, impostor, accepted_at_most):
    """torchmetrics' count of accepted genuine pairs when at most so many impostor pairs may pass.

    Scores are taken to [0, 1] first, since it sends values outside through a sigmoid. It accepts score >= threshold
    over every distinct score, we score > threshold, so the sets of decisions are the same. Specificity comes in steps
    of 1/n: asking for half a step less than (n - k)/n asks the same, and leaves its float32 rates room to round.
    """
    n = len(impostor)
    cosines = torch.from_numpy(np.concatenate([genuine, impostor]))
    labels = torch.cat([torch.ones(len(genuine), dtype=torch.int64), torch.zeros(n, dtype=torch.int64)])
    specificity = max(0.0, (n - accepted_at_most - 0.5) / n)
    tar, _ = binary_sensitivity_at_specificity((cosines + 1) / 2, labels, min_specificity=specificity)
    return round(tar.item() * len(genuine))


def compare(cases, seed):
    generator = np.random.default_rng(seed)
    for _ in range(cases):
        genuine = tied_cosines(generator, generator.integers(1, 60), 0.3)
        impostor = tied_cosines(generator, generator.integers(1, 200), -0.1)
        far = str(generator.choice(FARS))
        k = math.floor(Fraction(far) * len(impostor))
        ours = operating_point(genuine, impostor, far=far)
        assert ours.genuine_accepted == genuine_accepted_elsewhere(genuine, impostor, k), (genuine, impostor, far)
        assert ours.impostor_accepted <= k


def test_sensitivity_at_specificity():
    compare(200, seed=1)


@pytest.mark.slow
def test_sensitivity_at_specificity_many():
    compare(2000, seed=2)


def test_one_case_by_hand():
    # k = 1 of 4 impostors: 0.4 may pass, the tie at 0.3 may not; genuine 0.5 and 0.4 pass, 0.3 does not.
    genuine, impostor = np.array([0.5, 0.4, 0.3]), np.array([0.4, 0.3, 0.3, -0.2])
    assert operating_point(genuine, impostor, far="0.25").genuine_accepted == 2
    assert genuine_accepted_elsewhere(genuine, impostor, 1) == 2
