"""The fitted tail: known parameters recovered, thresholds near the truth, and what is refused."""

import numpy as np
import pytest
from scipy.stats import genpareto, norm

from verisphere.base.vocabulary import Redrawing, quietly
from verisphere.decide.bootstrap import PairScores
from verisphere.decide.tail import FEWEST_EXCESSES, _fitted, tail_fars, tail_pairs, tail_reaches, tail_threshold

REDRAWING = Redrawing(replicates=60, seed=0)


def pairs_of(score, people):
    """All pairs of people with one image each, of whose scores a twentieth is kept."""
    left, right = np.triu_indices(people, 1)
    order = np.argsort(-score, kind="stable")[: len(score) // 20]
    rows = np.stack([left[order], right[order]], 1)
    return PairScores(np.zeros(0), np.zeros(0, np.int64), score[order], rows, np.ones(people, np.int64))


def normal_scores(people, seed):
    return np.random.default_rng(seed).standard_normal(people * (people - 1) // 2)


@pytest.mark.parametrize("shape", [-0.3, -0.05, 0.0, 0.25])
def test_the_moments_recover_shape_and_scale(shape):
    excess = np.sort(genpareto.rvs(shape, scale=0.05, size=200_000, random_state=1))[::-1]
    fitted, scale = _fitted(excess, np.ones(len(excess)))
    assert fitted == pytest.approx(shape, abs=0.02)
    assert scale == pytest.approx(0.05, rel=0.02)


def test_the_moments_of_two_excesses_by_hand():
    """Of 3 and 1, a quarter and three quarters are as large: mean 2, moment (3 / 4 + 3 / 4) / 2, and 2 - 2 / 0.5."""
    assert _fitted(np.array([3.0, 1.0]), np.ones(2)) == pytest.approx((-2, 6))


def test_the_fit_lies_near_that_of_greatest_likelihood():
    """scipy's fit is another estimator, with a standard error of its shape near (1 + shape) / sqrt(n)."""
    random, shapes, thresholds = np.random.default_rng(43), [], []
    for shape in np.linspace(-0.3, 0.3, 50):
        excess = np.sort(genpareto.rvs(shape, scale=0.05, size=1000, random_state=random))[::-1]
        ours, likeliest = _fitted(excess, np.ones(1000)), genpareto.fit(excess, floc=0)
        shapes.append((ours[0] - likeliest[0]) / ((1 + shape) / 1000**0.5))
        of_two_per_cent = genpareto.isf(0.02, ours[0], scale=ours[1]), genpareto.isf(0.02, *likeliest)
        thresholds.append(of_two_per_cent[0] / of_two_per_cent[1] - 1)
    assert np.abs(shapes).max() < 3
    assert abs(np.mean(shapes)) < 0.5
    assert np.abs(thresholds).max() < 0.08
    assert abs(np.mean(thresholds)) < 0.01


def test_a_score_that_counts_twice_counts_as_two_scores():
    excess = np.sort(np.random.default_rng(0).exponential(size=50))[::-1]
    weight = np.ones(50)
    weight[[3, 20]] = 2
    twice = _fitted(excess, weight)
    assert twice[0] == pytest.approx(_fitted(np.repeat(excess, weight.astype(int)), np.ones(52))[0], abs=0.02)


@pytest.mark.parametrize("far", ["1e-3", "1e-4", "1e-5"])
def test_the_threshold_is_a_little_above_the_truth_where_the_tail_continues(far):
    people = 400
    threshold, tail = tail_threshold(pairs_of(normal_scores(people, 0), people), far, REDRAWING, quietly)
    true_far = norm.sf(threshold)
    assert 0.05 * float(far) < true_far < 1.1 * float(far)
    assert tail.excesses == tail_pairs(people * (people - 1) // 2) == 798
    assert tail.checked_to == pytest.approx(10 / 79_800)
    assert 1 <= tail.worst < 2
    assert tail.described().startswith("a generalised Pareto tail of the highest 798 scores (above 2.3")


def test_a_tail_that_does_not_continue_is_seen_where_there_are_pairs_to_compare():
    people = 400
    score = normal_scores(people, 0)
    score[:60] = 9.0  # more pairs of one score, far above, than the fitted tail has
    worst = tail_threshold(pairs_of(score, people), "1e-4", REDRAWING, quietly)[1].worst
    assert worst > 3


def test_too_few_pairs_and_fars_beyond_the_tail_are_refused():
    few = pairs_of(normal_scores(200, 0), 200)
    with pytest.raises(ValueError, match=f"needs {FEWEST_EXCESSES} scores in the tail, so 284 people; got 200"):
        tail_threshold(few, "1e-4", REDRAWING, quietly)
    enough = pairs_of(normal_scores(400, 0), 400)
    for far in ("1e-2", "6e-3", "1e-6"):
        with pytest.raises(ValueError, match=f"from 1.25e-06 to 5.00e-03 with these people, got {far}"):
            tail_threshold(enough, far, REDRAWING, quietly)
        assert not tail_reaches(far, 79_800)
    assert tail_reaches("1e-3", 79_800)
    assert tail_fars(79_800) == pytest.approx((1.253e-6, 5e-3), rel=1e-3)
    assert tail_fars(39_900) is None


def test_a_tail_of_equal_scores_is_refused():
    for equal, said in ((0.25, "0.25"), (0.0, "0")):  # above where the tail begins, and there
        score = np.minimum(normal_scores(300, 0), 0.0)
        score[np.argsort(-score, kind="stable")[:448]] = equal
        with pytest.raises(ValueError, match=rf"'tail' needs unequal scores; the 448 highest are all {said}$"):
            tail_threshold(pairs_of(score, 300), "1e-4", REDRAWING, quietly)


def test_a_tail_of_one_person_is_fitted_though_redrawn_people_may_lack_him():
    """Whoever resembles everybody makes the whole tail; a third of all redrawings are without that person."""
    people = 300
    left, right = np.triu_indices(people, 1)
    score = np.random.default_rng(0).normal(size=len(left)) + np.where((left == 7) | (right == 7), 9.0, 0.0)
    score[(left != 7) & (right != 7)] = np.linspace(-9, -8, len(left))[(left != 7) & (right != 7)]
    threshold, tail = tail_threshold(pairs_of(score, people), "1e-4", REDRAWING, quietly)
    assert np.isfinite(threshold)
    assert threshold >= tail.start
    level = np.where((left == 7) | (right == 7), 1.0, 0.0)
    assert np.isfinite(tail_threshold(pairs_of(level, people), "1e-4", REDRAWING, quietly)[0])


def test_a_replicate_with_an_extreme_shape_has_a_threshold_beyond_all_scores(monkeypatch):
    """As of few people with heavy tails, whose redrawn excesses can be nearly alike."""
    pairs, first = pairs_of(normal_scores(300, 0), 300), []

    def extreme(excess: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
        if not first:  # the set's own tail
            first.append(_fitted(excess, weight))
            return first[0]
        return 900.0, 0.1

    monkeypatch.setattr("verisphere.decide.tail._fitted", extreme)
    threshold, tail = tail_threshold(pairs, "1e-4", Redrawing(20, 0), quietly)
    assert threshold > float(pairs.impostor[0])
    assert tail.shape == first[0][0]
