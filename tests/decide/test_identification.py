"""1:N on scores alone: values worked out by hand, ties, bounds, and a second implementation in plain loops."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from verisphere.decide import binomial_bounds
from verisphere.decide.identification import (
    Cmc,
    IdentificationPoint,
    ProbeScores,
    RankRate,
    cmc,
    identification_curve,
    identification_point,
    mean_point,
    mean_rank,
    probe_scores,
    rank_rate,
)

# Two images of ann, one of bob, one of cat. Probes: ann found, ann tied with bob, bob behind both, two strangers.
GALLERY = np.array(["ann", "bob", "ann", "cat"])
PROBES = np.array(["ann", "zoe", "ann", "bob", "yan"])
SCORES = np.array(
    [
        [0.1, 0.4, 0.9, 0.2],
        [0.6, 0.1, 0.2, 0.3],
        [0.5, 0.5, 0.3, 0.1],
        [0.7, 0.6, 0.8, 0.65],
        [0.2, 0.3, 0.4, 0.3],
    ]
)


@pytest.fixture
def found() -> ProbeScores:
    return probe_scores(SCORES, PROBES, GALLERY)


def probe_scores_of(
    mate: list[float], rival: list[float], rank: list[int], stranger: list[float], people: int
) -> ProbeScores:
    return ProbeScores(
        np.array(mate, float), np.array(rival, float), np.array(rank, int), np.array(stranger, float), people
    )


def test_scores_of_a_matrix(found: ProbeScores):
    assert found.mate.tolist() == [0.9, 0.5, 0.6]
    assert found.rival.tolist() == [0.4, 0.5, 0.8]
    assert found.rank.tolist() == [1, 2, 3]  # a tie with bob is lost; ann's two images outrank bob once, cat once
    assert found.stranger.tolist() == [0.6, 0.4]
    assert found.people == 3


def test_a_point_by_hand(found: ProbeScores):
    # two strangers, FPIR 0.5: one may pass, so the threshold is the second highest of their best scores, 0.4
    point = identification_point(found, "0.5")
    assert (point.threshold, point.fpir, point.nonmated_passed, point.nonmated_total) == (0.4, 0.5, 1, 2)
    # all three mates pass 0.4, but two are outranked
    assert (point.tpir, point.mated_identified, point.mated_total) == (1 / 3, 1, 3)
    assert identification_point(found, "0.5", rank=2).mated_identified == 2
    assert identification_point(found, "0.5", rank=3).mated_identified == 3
    # none may pass: the threshold is the highest stranger, 0.6, which the mate at 0.6 does not exceed
    strict = identification_point(found, "0.1", rank=3)
    assert (strict.threshold, strict.nonmated_passed, strict.mated_identified) == (0.6, 0, 1)
    assert strict.below_resolution
    assert not point.below_resolution


def test_everything_may_pass(found: ProbeScores):
    point = identification_point(found, "1", rank=3)
    assert (point.threshold, point.fpir, point.tpir) == (-math.inf, 1.0, 1.0)
    assert identification_point(found, "1").tpir == 1 / 3  # a rank that is too high is no matter of the threshold


def test_bounds_are_exact(found: ProbeScores):
    point, rate = identification_point(found, "0.5"), rank_rate(found, 1)
    # Clopper and Pearson by quantiles of the beta distribution: 1 of 3 and 1 of 2
    assert (point.tpir_lower_95, point.tpir_upper_95) == pytest.approx((beta.ppf(0.025, 1, 3), beta.ppf(0.975, 2, 2)))
    assert (point.fpir_lower_95, point.fpir_upper_95) == pytest.approx((beta.ppf(0.025, 1, 2), beta.ppf(0.975, 2, 1)))
    assert (rate.lower_95, rate.upper_95) == binomial_bounds(1, 3)


def test_the_rule_is_that_of_every_threshold():
    # strangers 0.1 ... 0.4 and FPIR 0.375: f n = 1.5
    found = probe_scores_of([0.35, 0.2], [0.1, 0.0], [1, 1], [0.1, 0.2, 0.3, 0.4], 5)
    assert identification_point(found, "0.375").threshold == 0.3
    assert identification_point(found, "0.375", rule="interpolated").threshold == pytest.approx(0.25)
    assert identification_point(found, "0.4", rule="nearest").threshold == 0.2  # FPIR 0.5 is nearer to 0.4 than 0.25
    assert identification_point(found, "0.4", rule="nearest").rule == "nearest"
    assert identification_point(found, 0.375).fpir_target == "0.375"


def test_ranks_and_cmc(found: ProbeScores):
    assert [rank_rate(found, rank).identified for rank in (1, 2, 3, 9)] == [1, 2, 3, 3]
    assert cmc(found) == Cmc((1, 2, 3), (1, 2, 3), 3, 3)
    steps = probe_scores_of([0.9, 0.8, 0.1, 0.0], [0.1, 0.1, 0.5, 0.5], [1, 1, 4, 7], [], 9)
    assert cmc(steps) == Cmc((1, 4, 7), (2, 3, 4), 4, 9)


def test_the_curve_holds_every_point(found: ProbeScores):
    curve = identification_curve(found)
    assert curve.tar[-1] == 1 / 3  # outranked mates are never identified
    assert curve.far[-1] == 1.0
    for fpir in ("0", "0.25", "0.5", "0.99"):
        point = identification_point(found, fpir)
        at = curve.thresholds.tolist().index(point.threshold)
        assert (curve.tar[at], curve.far[at]) == (point.tpir, point.fpir)
    assert identification_curve(found, rank=3).tar[-1] == 1.0


def test_against_plain_loops():
    """Few distinct scores, so that most mates are tied with somebody."""
    for seed in range(300):
        random = np.random.default_rng(seed)
        names = np.array(list("abcdefg"))
        gallery, probes = random.choice(names[:5], random.integers(1, 9)), random.choice(names, random.integers(1, 12))
        scores = random.integers(-2, 3, size=(len(probes), len(gallery))) / 4
        found = probe_scores(scores, probes, gallery)
        mate, rank, stranger = [], [], []
        for probe, row in zip(probes, scores.tolist(), strict=True):
            best = {name: max(s for s, owner in zip(row, gallery, strict=True) if owner == name) for name in gallery}
            if probe not in best:
                stranger.append(max(row))
                continue
            mate.append(best[probe])
            rank.append(1 + sum(score >= best[probe] for name, score in best.items() if name != probe))
        assert (found.mate.tolist(), found.rank.tolist(), found.stranger.tolist()) == (mate, rank, stranger)
        assert found.people == len(set(gallery))
        if not mate or not stranger:
            continue
        target, allowed = random.choice(["0", "0.1", "0.25", "0.5", "0.7", "1"]), int(random.integers(1, 4))
        point = identification_point(found, str(target), allowed)
        passes = [score for score in stranger if score > point.threshold]
        assert Fraction(len(passes), len(stranger)) <= Fraction(str(target))
        lower = [score for score in stranger if score <= point.threshold]
        if lower:  # and any lower threshold lets too many pass
            assert point.threshold == max(lower)
            more = sum(score >= point.threshold for score in stranger)
            assert Fraction(more, len(stranger)) > Fraction(str(target))
        identified = sum(s > point.threshold and r <= allowed for s, r in zip(mate, rank, strict=True))
        assert (point.nonmated_passed, point.mated_identified) == (len(passes), identified)


def test_means_over_galleries(found: ProbeScores):
    other = probe_scores_of([0.9, 0.2], [0.1, 0.1], [1, 1], [0.3, 0.1], 3)
    points = [identification_point(one, "0.5") for one in (found, other)]
    mean = mean_point(points)
    assert (mean.tpir, mean.fpir, mean.galleries) == (pytest.approx((1 / 3 + 1) / 2), 0.5, 2)
    assert mean_rank([rank_rate(one) for one in (found, other)]).rate == pytest.approx((1 / 3 + 1) / 2)
    with pytest.raises(ValueError, match="points of 2 different questions have no mean"):
        mean_point([points[0], identification_point(other, "0.5", rank=2)])
    with pytest.raises(ValueError, match="points of 0 different questions"):
        mean_point([])
    with pytest.raises(ValueError, match=r"rates at 2 different ranks have no mean: \[1, 2\]"):
        mean_rank([rank_rate(found, 1), rank_rate(other, 2)])


def test_a_gallery_of_one_person():
    found = probe_scores(np.array([[0.3, 0.2], [0.9, 0.1]]), np.array(["a", "z"]), np.array(["a", "a"]))
    assert (found.rank.tolist(), found.rival.tolist(), found.people) == ([1], [-np.inf], 1)
    assert identification_point(found, "0").tpir == 0.0


def test_infinite_scores_have_an_order():
    found = probe_scores(np.array([[np.inf, np.inf], [-np.inf, 0.0]]), np.array(["a", "z"]), np.array(["a", "b"]))
    assert found.rank.tolist() == [2]
    assert found.stranger.tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: probe_scores_of([0.1], [0.2], [2], [], 0), "ranks run from 2 to 2 among 0 people"),
        (
            lambda: probe_scores_of([0.1, np.nan], [0.2, 0.2], [2, 2], [], 3),
            "1 of 2 mate scores are NaN, the first at pos",
        ),
        (
            lambda: probe_scores_of([], [], [], [0.1, 0.2, np.nan], 3),
            "1 of 3 stranger scores are NaN, the first at position 2",
        ),
        (
            lambda: probe_scores_of([0.1], [0.2], [1], [], 3),
            "mated probe 0 has rank 1, which its mate's score 0.1 and the best",
        ),
        (lambda: probe_scores_of([0.1], [0.1], [1], [], 3), "mated probe 0 has rank 1"),
        (lambda: probe_scores(np.full((5, 4), np.nan), PROBES, GALLERY), "20 of 20 scores are NaN"),
        (
            lambda: probe_scores(SCORES, PROBES[:4], GALLERY),
            r"4 probes and 4 images of a gallery do not make scores \(5",
        ),
        (lambda: probe_scores(np.empty((2, 0)), PROBES[:2], GALLERY[:0]), "2 probes and 0 images of a gallery"),
        (lambda: Cmc((1, 1), (1, 2), 2, 3), "a CMC must rise"),
        (lambda: Cmc((1, 2), (1, 2), 3, 3), "a CMC must rise"),
        (lambda: RankRate(1, 0.4, 1, 2, 0.0, 1.0), "a rate of 0.4 is not what 1 of 2 comparisons make"),
        (lambda: RankRate(0, 0.5, 1, 2, 0.0, 1.0), "a rank must be at least 1, got 0"),
        (
            lambda: IdentificationPoint("1", "at_most", 1, 0.0, 0.5, 0.5, 1, 2, 1, 2, False, 0.6, 1.0, 0.0, 1.0),
            "bounds 0.6 .. 1.0 do not hold the rate 0.5",
        ),
    ],
)
def test_what_cannot_be(call, message: str):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"rank": 0}, "a rank must be at least 1, got 0"),
        ({"fpir": "1.5"}, "an FPIR must lie between 0 and 1, got '1.5'"),
        ({"fpir": "few"}, "an FPIR must be a decimal number such as 1e-4, got 'few'"),
    ],
)
def test_wrong_questions(found: ProbeScores, asked: dict, message: str):
    with pytest.raises(ValueError, match=message):
        identification_point(found, **asked)


def test_without_mated_or_nonmated_probes():
    strangers, mates = probe_scores_of([], [], [], [0.1, 0.2], 3), probe_scores_of([0.5], [0.1], [1], [], 3)
    for call in (identification_point, identification_curve, rank_rate, cmc):
        with pytest.raises(ValueError, match="none of 2 probes is mated: no person on them is enrolled"):
            call(strangers)
    for call in (identification_point, identification_curve):
        with pytest.raises(ValueError, match="all 1 probes are mated: everybody on them is enrolled"):
            call(mates)
    assert rank_rate(mates).rate == 1.0
