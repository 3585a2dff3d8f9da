"""Curves and TAR at a FAR against scikit-learn and torchmetrics, on the same 2,000 cases as brute force.

Both accept score >= threshold and put thresholds at infinity and the scores; we accept score > threshold and put them
at the scores and minus infinity. Over finite scores v1 > v2 > ... > vm the decisions are the same in the same order:
nobody (theirs at infinity, ours at v1), >= v1 (ours at v2), ..., >= vm, which is everybody (ours at minus infinity). A
score of minus infinity passes nowhere with us, so cases with infinities are left to brute force. Rates of theirs are
floats; they are taken back to the whole numbers that they stand for.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_curve
from torchmetrics.functional.classification import binary_roc

from verisphere.base.vocabulary import RULES
from verisphere.decide import SortedScores, operating_point, roc, threshold_at

from .cases import make_cases


@pytest.fixture(scope="module")
def cases():
    return [case for case in make_cases() if all(map(math.isfinite, case.genuine + case.impostor))]


def by_sklearn(case, drop_intermediate=False):
    """(false positives, true positives, thresholds) of `roc_curve`."""
    labels = np.repeat([1, 0], [len(case.genuine), len(case.impostor)])
    scores = np.array(case.genuine + case.impostor)
    far, tar, thresholds = roc_curve(labels, scores, drop_intermediate=drop_intermediate)
    return whole(far, len(case.impostor)), whole(tar, len(case.genuine)), thresholds.tolist()


def by_torchmetrics(case):
    """The same of `binary_roc`, which sends scores outside [0, 1] through a sigmoid: it is handed their places."""
    scores = np.array(case.genuine + case.impostor)
    distinct, places = np.unique(scores, return_inverse=True)
    labels = torch.from_numpy(np.repeat([1, 0], [len(case.genuine), len(case.impostor)]))
    far, tar, thresholds = binary_roc(torch.from_numpy(places / len(distinct)), labels)
    cuts = [distinct[round(value * len(distinct))] for value in thresholds[1:].tolist()]
    return whole(far.numpy(), len(case.impostor)), whole(tar.numpy(), len(case.genuine)), [math.inf, *cuts]


def whole(rates, total):
    """The counts behind rates, which must be near whole numbers."""
    counts = np.asarray(rates, dtype=np.float64) * total
    assert np.abs(counts - counts.round()).max() < 1e-4
    return counts.round().astype(int).tolist()


@pytest.mark.parametrize("library", [by_sklearn, by_torchmetrics])
def test_curves(cases, library):
    """Equal counts at every point, and the same thresholds one place on."""
    for case in cases:
        passed, found, thresholds = library(case)
        curve = roc(case.genuine, case.impostor)
        assert (curve.impostor_accepted.tolist(), curve.genuine_accepted.tolist()) == (passed, found), case
        assert (curve.thresholds.tolist()[:-1], math.inf) == (thresholds[1:], thresholds[0]), case


@pytest.mark.parametrize("library", [by_sklearn, by_torchmetrics])
def test_operating_points(cases, library):
    """Each rule picks one of their points.

    `at_most`: the largest TAR among those of FAR <= f. `nearest`: the largest TAR among those of the nearest FAR.
    `interpolated`: as many impostors as `at_most` or the next number that some cut reaches.
    """
    for case in cases:
        passed, found, _ = library(case)
        points = list(zip(passed, found, strict=True))
        genuine, impostor = SortedScores(case.genuine), SortedScores(case.impostor)
        for far in case.fars:
            wanted, part = (Fraction(far) * len(case.impostor)).as_integer_ratio()
            at = {rule: decided(genuine, impostor, far, rule) for rule in RULES}
            most = max(count for count in passed if part * count <= wanted)
            closest = min(passed, key=lambda count: (abs(part * count - wanted), count))
            following = min((count for count in passed if count > most), default=most)
            assert at["at_most"] == largest(points, most), (case, far)
            assert at["nearest"] == largest(points, closest), (case, far)
            assert at["interpolated"] in points, (case, far)
            assert at["interpolated"][0] in (most, following), (case, far)


def decided(genuine, impostor, far, rule):
    threshold = threshold_at(impostor, far, rule)
    return impostor.above(threshold), genuine.above(threshold)


def largest(points, passed):
    return passed, max(found for count, found in points if count == passed)


def test_one_case_by_hand():
    # Impostors 0.3, 0.2, 0.2, 0.1; genuine 0.4, 0.2. At FAR 0.5 one impostor passes (two tie at 0.2): cut 0.2, TAR 1/2.
    # Their point of FAR 1/4 is >= 0.3, of TAR 1/2; the next is >= 0.2, of FAR 3/4.
    class Case:
        genuine, impostor = [0.4, 0.2], [0.3, 0.2, 0.2, 0.1]

    assert by_sklearn(Case) == ([0, 0, 1, 3, 4], [0, 1, 1, 2, 2], [math.inf, 0.4, 0.3, 0.2, 0.1])
    assert by_torchmetrics(Case) == by_sklearn(Case)
    point = operating_point(Case.genuine, Case.impostor, "0.5")
    assert (point.threshold, point.impostor_accepted, point.genuine_accepted) == (0.2, 1, 1)
