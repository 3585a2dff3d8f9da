"""Probes among distractors: every figure worked out by hand from six photos and three distractors."""

import numpy as np
import pytest
import torch

from verisphere.base.vocabulary import PRECISIONS, Embeddings
from verisphere.decide import operating_point
from verisphere.measure.protocols import distractors
from verisphere.measure.protocols.by_image import ranked_by_image
from verisphere.measure.protocols.distractors import distractor_figures, score_distractors
from verisphere.measure.two_sets import two_sets
from verisphere.score import pair_scores, unit_rows

#: Cosines of Ann's photos: 1-2 0.8, 1-3 0.6, 2-3 0.96; of Ben's 0.8. Cem has one photo.
PROBES = Embeddings(
    [[1, 0, 0], [4, 3, 0], [3, 4, 0], [0, 0, 1], [0, 3, 4], [0, 0, -1]],
    names=["ann1", "ann2", "ann3", "ben1", "ben2", "cem1"],
    identities=["Ann", "Ann", "Ann", "Ben", "Ben", "Cem"],
)
#: The first two as Ann's third photo and as her first; their cosines with the six photos, row by row:
#:   ann1 0.6  ann2 0.96  ann3 1    ben1 0    ben2 0.48  cem1 0
#:   ann1 1    ann2 0.8   ann3 0.6  ben1 0    ben2 0     cem1 0
#:   ann1 0    ann2 -0.48 ann3 -0.64 ben1 0.6 ben2 0     cem1 -0.6
DISTRACTORS = np.array([[6, 8, 0], [2, 0, 0], [0, -4, 3]], np.float32)


def test_every_photo_is_once_the_mate_and_ties_lose():
    scores = score_distractors(PROBES, [DISTRACTORS], 3, fars=["0.25"])
    found = distractor_figures(PROBES, scores, ranks=(1, 2, 3), fars=["0.25"])
    # ann1 -> ann2: 1 is above 0.8, so 2;          ann1 -> ann3: 0.6 ties and 1 is above, so 3
    # ann2 -> ann1: 0.96 above, 0.8 ties, so 3;    ann2 -> ann3: 0.96 ties, so 2
    # ann3 -> ann1: 1 above, 0.6 ties, so 3;       ann3 -> ann2: 1 above 0.96, so 2
    # ben1 -> ben2: 0.6 below 0.8, so 1;           ben2 -> ben1: 0.48 below 0.8, so 1
    assert sorted(scores.searches.rank.tolist()) == [1, 1, 2, 2, 2, 3, 3, 3]
    assert [rate.rate for rate in found.ranks] == [2 / 8, 5 / 8, 1]
    assert (found.cmc.rank, found.cmc.identified, found.cmc.people) == ((1, 2, 3), (2, 5, 8), 4)
    assert (found.people, found.probes, found.alone, found.distractors, found.searches) == (3, 6, 1, 3, 8)


@pytest.mark.parametrize(
    ("far", "threshold", "passed", "accepted"),
    # The 18 impostor scores, descending: 1 1 0.96 0.8 0.6 0.6 0.6 0.48, then 0 and less. Genuine: 0.96 0.8 0.8 0.6.
    [
        ("0.12", 0.96, 2, 0),  # k = floor(2.16) = 2: the third; Ann's 0.96 ties with it and is rejected
        ("0.25", 0.6, 4, 3),  # k = floor(4.5) = 4: the fifth, and the two that follow are as high; 0.6 is rejected
        ("0.4", 0.48, 7, 4),  # k = floor(7.2) = 7: the eighth
        ("1", -np.inf, 18, 4),
    ],
)
def test_verification_has_each_genuine_pair_once_and_every_probe_with_every_distractor(
    far, threshold, passed, accepted
):
    scores = score_distractors(PROBES, [DISTRACTORS[:1], DISTRACTORS[1:]], 3, [far])
    (point,) = distractor_figures(PROBES, scores, fars=[far]).operating_points
    assert point.threshold == pytest.approx(threshold, abs=1e-7)
    assert (point.impostor_accepted, point.impostor_total) == (passed, 18)
    assert (point.genuine_accepted, point.genuine_total) == (accepted, 4)


def test_identification_with_a_threshold_takes_each_probes_best_distractor():
    # Best distractor of each photo, descending: 1 1 0.96 0.6 0.48 0. FPIR 0.5 lets 3 of 6 pass: threshold 0.6.
    # Rank 1 have Ben's two searches alone, at 0.8 > 0.6: 2 of 8.
    scores = score_distractors(PROBES, [DISTRACTORS], 3)
    (point,) = distractor_figures(PROBES, scores, fars=(), fpirs=["0.5"]).identification_points
    assert point.threshold == pytest.approx(0.6, abs=1e-7)
    assert (point.mated_identified, point.mated_total, point.nonmated_passed, point.nonmated_total) == (2, 8, 3, 6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_portions_and_precision_change_nothing(precision, monkeypatch: pytest.MonkeyPatch):
    random = np.random.default_rng(1)
    person = random.integers(0, 9, 30)
    rows = (2 * random.normal(size=(9, 8))[person] + random.normal(size=(30, 8))).astype(np.float32)
    others = random.normal(size=(400, 8)).astype(np.float32)
    probes = Embeddings(rows, identities=person)
    units, rivals = unit_rows(rows), unit_rows(others)
    matrix = pair_scores(
        units, torch.arange(30).repeat_interleave(400), torch.arange(400).repeat(30), rivals
    ).numpy().reshape(30, 400)  # fmt: skip
    pairs = [(probe, mate) for probe in range(30) for mate in range(30) if probe != mate]
    pairs = [(probe, mate) for probe, mate in pairs if person[probe] == person[mate]]
    left, right = (torch.tensor(side) for side in zip(*pairs, strict=True))
    genuine = pair_scores(units, left, right).numpy()
    ranks = [1 + int((matrix[probe] >= score).sum()) for (probe, _), score in zip(pairs, genuine, strict=True)]
    monkeypatch.setattr("verisphere.score.reaching.BLOCK_ROWS", 48)
    monkeypatch.setattr("verisphere.score.reaching.TILE_PRODUCTS", 500)
    monkeypatch.setattr("verisphere.score.reaching.FEWEST_WAITING", 10)
    fars = ("0", "1e-3", "0.013")
    for rule in ("at_most", "nearest", "interpolated"):
        scores = score_distractors(probes, [others[:7], others[7:]], 400, fars, precision)
        found = distractor_figures(probes, scores, fars=fars, rule=rule)
        assert sorted(scores.searches.rank.tolist()) == sorted(ranks)
        assert scores.searches.stranger.tolist() == matrix.max(1).tolist()
        once = genuine[(left < right).numpy()]
        assert found.operating_points == tuple(operating_point(once, matrix.ravel(), far, rule) for far in fars)


@pytest.mark.parametrize(
    ("probes", "portions", "count", "message"),
    [
        (PROBES.take(np.array([0, 3])), [DISTRACTORS], 3, "no two of 2 probes show one person"),
        (PROBES, [], 0, "there are no distractors"),
        (PROBES, [DISTRACTORS], 4, "4 distractors were announced, but 3 came"),
        (PROBES, [DISTRACTORS[:, :2]], 3, "probes have 3 numbers a row but the distractors have 2"),
        (Embeddings([[1.0], [1.0]], identities=["-1", "-1"]), [DISTRACTORS], 3, "nobody is known on them"),
    ],
)
def test_what_cannot_be_searched_is_refused(probes, portions, count, message):
    with pytest.raises(ValueError, match=message):
        score_distractors(probes, portions, count)


def test_a_far_that_would_hold_too_many_scores_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(distractors, "MOST_HELD", 5)
    with pytest.raises(ValueError, match=r"FAR 0\.25 would hold 6 of 18 impostor scores, more than 5"):
        score_distractors(PROBES, [DISTRACTORS], 3, ["0.25"])


def test_images_ranked_by_score():
    gallery = Embeddings([[24, 7], [3, 4], [4, 3], [3, -4], [0, 1]], identities=["Ann", "Ann", "Ben", "Ben", "Zoe"])
    probes = Embeddings([[1, 0], [0, 1], [1, 1]], identities=["Ann", "Ben", "nobody enrolled"])
    # Ann by (1, 0): 0.96 of hers, 0.8 of Ben, 0.6 of hers tied with 0.6 of Ben, 0: (1/1 + 2/4) / 2 = 0.75. The
    # trapezoids of TinyFace's script, with the tie lost, give ((1 + 1)/2 + (1/3 + 2/4)/2) / 2 = 0.7083.
    # Ben by (0, 1): 1 of Zoe, 0.8 of Ann, 0.6 of his, 0.28 of Ann, -0.8 of his: (1/3 + 2/5) / 2 = 11/30.
    found = ranked_by_image(probes, gallery, ranks=(1, 3))
    assert found.mean_average_precision == pytest.approx((0.75 + 11 / 30) / 2, abs=1e-15)
    assert [(rate.rank, rate.identified, rate.mated_total) for rate in found.ranks] == [(1, 1, 2), (3, 2, 2)]


def test_another_persons_images_each_take_a_place_and_the_own_ones_none():
    gallery = Embeddings([[4, 3], [3, 4], [4, 3], [3, 4]], identities=["Ann", "Ann", "Ben", "Ben"])
    # By (1, 0) hers are 0.8 and 0.6, Ben's the same, so that ties lose: 1/2 and 2/4. By (0, 1) for Ben the same.
    found = ranked_by_image(Embeddings([[1, 0], [0, 1]], identities=["Ann", "Ben"]), gallery, ranks=(1, 2))
    assert (found.mean_average_precision, [rate.rate for rate in found.ranks]) == (0.5, [0, 1])
    alike = Embeddings([[1, 0], [1, 0], [1, 0], [0, 1]], identities=["Ann", "Ann", "Ann", "Ben"])
    assert ranked_by_image(Embeddings([[1, 0]], identities=["Ann"]), alike).mean_average_precision == 1


def test_ranks_of_images_need_a_mated_probe():
    with pytest.raises(ValueError, match="none of 1 probes is mated"):
        ranked_by_image(Embeddings([[1.0]], identities=["Ann"]), Embeddings([[1.0]], identities=["Ben"]))


def test_two_sets_compare_no_two_rows_of_one_set():
    masked = Embeddings([[1, 0], [0, 1]], identities=["Ann", "Ben"])
    plain = Embeddings([[4, 3], [3, 4], [1, 0]], identities=["Ann", "Ben", "Ben"])
    # Genuine: Ann 0.8; Ben 0.8 and 0. Impostor: Ann's with Ben's 0.6 and 1; Ben's with Ann's 0.6.
    # FAR 0.34: k = floor(1.02) = 1, threshold 0.6 (the second), which 1 alone passes; genuine above it: 2 of 3.
    (point,) = two_sets(masked, plain, ["0.34"])
    assert point.threshold == pytest.approx(0.6, abs=1e-7)
    assert (point.genuine_accepted, point.genuine_total) == (2, 3)
    assert (point.impostor_accepted, point.impostor_total) == (1, 3)


@pytest.mark.parametrize(
    ("right", "message"),
    [
        (Embeddings([[1, 0]], identities=["Ben"]), "there are no genuine scores"),
        (Embeddings([[1, 0]], identities=["Ann"]), "there are no impostor scores"),
        (Embeddings([[1, 0, 0]], identities=["Ann"]), "2 and 3 numbers a row"),
        (Embeddings([[1, 0]], identities=["-1"]), "nobody is known"),
    ],
)
def test_two_sets_that_cannot_be_compared_are_refused(right, message):
    with pytest.raises(ValueError, match=message):
        two_sets(Embeddings([[1, 0]], identities=["Ann"]), right, ["0.1"])
