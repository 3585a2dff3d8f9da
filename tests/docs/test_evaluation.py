"""Every number of docs/evaluation.md on published scripts, computed again: theirs as published, ours by ours."""

import math
from pathlib import Path

import numpy as np
import pytest

from verisphere.base.vocabulary import Comparisons
from verisphere.decide import (
    best_cut,
    cmc,
    identification_point,
    kfold_accuracy,
    operating_point,
    probe_scores,
    rank_rate,
)
from verisphere.files.embeddings import read_embeddings
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.measure.protocols.listed_pairs import listed_pairs

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text(encoding="utf-8")
IMPOSTORS = np.arange(9, -1, -1) / 10
GENUINE = np.array([0.95, 0.85, 0.75, 0.65])


def row(begins: str) -> list[str]:
    """The cells of threshold, FAR and TAR in the row of the table that begins so."""
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| {begins}"))
    return [cell.strip() for cell in line.split("|")[2:5]]


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_our_rules(rule: str):
    point = operating_point(GENUINE, IMPOSTORS, "0.16", rule)
    assert row(f"`{rule}`") == [f"> {point.threshold:g}", f"{point.far:g}", f"{point.tar:.2f}"]


def test_readings_of_the_curve():
    curve = pytest.importorskip("sklearn.metrics").roc_curve
    labels = np.r_[np.ones(4), np.zeros(10)]
    fpr, tpr, thresholds = curve(labels, np.r_[GENUINE, IMPOSTORS])
    last = np.flatnonzero(fpr <= 0.16)[-1]
    assert row("the last point") == [f">= {thresholds[last]:g}", f"{fpr[last]:g}", f"{tpr[last]:.2f}"]
    backwards = [values[::-1] for values in (fpr, tpr, thresholds)]
    nearest = np.abs(backwards[0] - 0.16).argmin()
    shown = [f">= {backwards[2][nearest]:g}", f"{backwards[0][nearest]:g}", f"{backwards[1][nearest]:.2f}"]
    assert row("the point of `roc_curve` with the nearest") == shown
    assert row("`numpy.interp")[2] == f"{np.interp(0.16, fpr, tpr):.2f}"


def test_the_cut_of_accuracy():
    cut = best_cut(np.array([0.8, 0.2]), np.array([True, False]))
    assert cut == 0.2
    squared = np.arange(0, 4, 0.01)
    right = (squared > 0.4).astype(int) + (squared <= 1.6)  # the genuine pair accepted, the impostor rejected
    first = squared[int(np.argmax(right))]
    assert f"{first:.2f}" == "0.41"
    assert f"{1 - first / 2:.3f}" == "0.795"
    for genuine, impostor, ours, theirs in ((0.7, 0.1, 1.0, 0.5), (0.9, 0.3, 0.5, 1.0)):
        assert (int(genuine > cut) + int(impostor <= cut)) / 2 == ours
        assert (int(2 - 2 * genuine < first) + int(2 - 2 * impostor >= first)) / 2 == theirs


def test_deviations_over_folds():
    folds = np.array([0.90, 0.95, 1.00])
    shown = f"population standard deviation {folds.std():.4f}", f"sample standard deviation {folds.std(ddof=1):.4f}"
    assert all(text in PAGE for text in shown)
    assert f"standard error of the mean {folds.std(ddof=1) / math.sqrt(3):.4f}" in PAGE
    # and ours has these: three folds with 20 pairs, of which 2, 1 and 0 are decided wrongly at any useful cut
    score = np.tile(np.r_[np.full(10, 0.8), np.full(10, 0.2)], 3)
    genuine = np.tile(np.r_[np.ones(10, bool), np.zeros(10, bool)], 3)
    score[[0, 1, 20]] = 0.1
    accuracy = kfold_accuracy(score, genuine, np.repeat([0, 1, 2], 20))
    assert (accuracy.mean, accuracy.std) == pytest.approx((0.95, 0.05))
    assert accuracy.standard_error == pytest.approx(0.05 / math.sqrt(3))


def test_merged_galleries():
    probes = np.array(["A", "B"])
    scores = np.array([[0.6, 0.7], [0.4, 0.9]])  # with A, with B
    for enrolled, threshold in ((0, 0.4), (1, 0.7)):
        alone = probe_scores(scores[:, [enrolled]], probes, probes[[enrolled]])
        assert rank_rate(alone, 1).rate == 1
        point = identification_point(alone, "0.5")
        assert (point.threshold, point.tpir) == (threshold, 1)
    merged = probe_scores(scores, probes, probes)
    assert cmc(merged).rank == (1, 2)
    assert rank_rate(merged, 1).rate == 0.5
    others = np.sort([0.7, 0.4])[::-1]
    cut = others[math.ceil(0.5 * 2) - 1]
    assert (cut, np.mean(np.array([0.6, 0.9]) > cut)) == (0.7, 0.5)


def test_ties_lose():
    tied = probe_scores(np.array([[0.5, 0.5]]), np.array(["A"]), np.array(["A", "B"]))
    assert tied.rank.tolist() == [2]


def test_lfw_by_each_reading(real_data: Path):
    embeddings = read_embeddings(real_data / "lfw_embeddings.npz")
    listed = read_pairs(real_data / "lfw_protocol" / "pairs.txt")
    left, right = listed.positions([str(name) for name in embeddings.names])
    comparisons = Comparisons(left, right, np.array(listed.genuine), np.array(listed.folds))
    result = listed_pairs(embeddings, comparisons)
    ours, squared, folds = result.accuracy, 2 - 2 * result.scores.score, comparisons.folds
    assert f"{ours.mean:.5f} by ours, with sample standard deviation {ours.std:.5f}" in PAGE
    assert f"standard error {ours.standard_error:.5f}" in PAGE
    theirs = []
    for fold in range(10):
        train, test = folds != fold, folds == fold
        rates = [((squared[train] < cut) == comparisons.genuine[train]).mean() for cut in np.arange(0, 4, 0.01)]
        cut = 0.01 * int(np.argmax(rates))
        theirs.append(((squared[test] < cut) == comparisons.genuine[test]).mean())
    assert f"{np.mean(theirs):.5f} with population standard deviation {np.std(theirs):.5f} by the grid" in PAGE
    best = max(((squared < cut) == comparisons.genuine).mean() for cut in np.unique(squared))
    assert f"on LFW's 6,000 it has {best:.5f}" in PAGE
