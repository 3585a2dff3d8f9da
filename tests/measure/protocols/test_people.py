"""Each person's rates over all pairs, against a count of every pair in plain Python."""

import itertools

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import Embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.people import people_of_set
from verisphere.score import pair_scores, unit_rows


@pytest.fixture(scope="module")
def faces() -> Embeddings:
    random = np.random.default_rng(5)
    identities = [f"p{person}" for person in (0, 0, 0, 1, 1, 2, 3, 3, 4, 4, 4, 4)]
    rows = random.normal(size=(len(identities), 3)).astype(np.float32)
    rows[1] = rows[0]  # ties
    rows[4] = rows[6]
    return Embeddings(rows, identities=identities)


def by_hand(faces: Embeddings, threshold: float) -> dict[str, list[int]]:
    """Genuine accepted and total, impostor accepted and total, of each person."""
    units = unit_rows(faces.embeddings)
    counts = {str(name): [0, 0, 0, 0] for name in faces.identities}
    for left, right in itertools.combinations(range(len(faces)), 2):
        passes = int(pair_scores(units, torch.tensor([left]), torch.tensor([right])).item() > threshold)
        one, other = str(faces.identities[left]), str(faces.identities[right])
        for person in {one, other}:
            kind = 0 if one == other else 2
            counts[person][kind] += passes
            counts[person][kind + 1] += 1
    return counts


def test_counts_equal_a_count_of_every_pair(faces):
    pairs = PairsOfSet(faces)
    points = all_pairs(pairs, ["0.5", "0.2", "0.05"]).operating_points
    people = people_of_set(pairs, points)
    for point, counts, spread in zip(points, people.counts, people.spreads, strict=True):
        columns = (counts.genuine_accepted, counts.genuine_total, counts.impostor_accepted, counts.impostor_total)
        rows = np.stack(columns, axis=1).tolist()
        assert dict(zip(counts.people, rows, strict=True)) == by_hand(faces, point.threshold)
        assert (spread.far_target, spread.threshold) == (point.far_target, point.threshold)
        assert counts.impostor_accepted.sum() == 2 * point.impostor_accepted
    assert people.spreads[0].frr.people == 4  # p2 has one image


def test_opis_equals_the_variance_of_utilities_at_each_threshold(faces):
    pairs = PairsOfSet(faces)
    points = all_pairs(pairs, ["0.5", "0.05"]).operating_points
    score = people_of_set(pairs, points).opis
    assert score is not None
    assert (score.lowest, score.highest, score.fars) == (points[0].threshold, points[1].threshold, ("0.5", "0.05"))
    variances = []
    for cut in np.linspace(score.highest, score.lowest, score.thresholds):
        utilities = []
        for same, of_same, other, of_other in by_hand(faces, float(cut)).values():
            if of_same:
                tar, specificity = same / of_same, 1 - other / of_other
                utilities.append(2 * tar * specificity / (tar + specificity) if tar + specificity else 0.0)
        variances.append(np.var(utilities))
    assert score.value == pytest.approx(np.mean(variances), rel=1e-12)
    assert score.people == 4


def test_one_threshold_has_no_range(faces):
    pairs = PairsOfSet(faces)
    assert people_of_set(pairs, all_pairs(pairs, ["0.2"]).operating_points).opis is None
