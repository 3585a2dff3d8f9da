"""Log-likelihood ratios of scores: costs and maps by hand, their bounds, and reliability by redrawing one by one."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from verisphere.base.vocabulary import Redrawing, quietly
from verisphere.decide.bootstrap import PairScores, draws_of
from verisphere.decide.intervals import Interval
from verisphere.decide.probability import ScoreProbability, WeighedScores, check_prior

MANY = 10**9  # so many people that the prior of the line says nothing
LINE = ScoreProbability(10.0, -3.0, -0.2, 0.9, people=299, comparisons=399, cllr=0.2, min_cllr=0.18)


def weighed(scores, genuine, impostor) -> WeighedScores:
    genuine, impostor = np.array(genuine, float), np.array(impostor, float)
    return WeighedScores(np.array(scores, float), genuine / genuine.sum(), impostor / impostor.sum())


def random_scores(seed: int = 0) -> WeighedScores:
    """Overlapping scores with random weights, some without any of one kind."""
    random = np.random.default_rng(seed)
    scores = np.sort(random.normal(size=200))
    genuine = random.exponential(size=200) * (random.random(200) < 0.2 + 0.6 * (scores > 0))
    return weighed(scores, genuine, random.exponential(size=200) * (random.random(200) < 0.8 - 0.6 * (scores > 0)))


def test_the_cost_by_hand():
    two = weighed([0, 1], [1, 3], [3, 1])
    assert two.cllr(np.zeros(2)) == pytest.approx(1)
    # of genuine ones 3/4 have the ratio log 3, which costs log2(1 + 1/3), and 1/4 has -log 3: log2(1 + 3)
    assert two.cllr(np.log([1 / 3, 3])) == pytest.approx(0.75 * 0.4150374993 + 0.25 * 2)
    assert two.min_cllr() == pytest.approx(0.8112781245)  # those ratios are the right ones


def test_the_least_cost_by_hand():
    assert weighed([1, 2, 3], [0, 1, 1], [1, 1, 0]).min_cllr() == pytest.approx(0.5)  # the middle one is worth 1 bit
    assert weighed([1, 2, 3], [1, 0, 1], [0, 1, 1]).min_cllr() == pytest.approx(1)  # all three are pooled
    assert weighed([1, 2], [0, 1], [1, 0]).min_cllr() == 0


def test_the_least_cost_is_that_of_isotonic_regression():
    isotonic = pytest.importorskip("sklearn.isotonic")
    for seed in range(5):
        scores = random_scores(seed)
        weight = scores.genuine + scores.impostor
        seen = weight > 0
        share = np.full(len(weight), np.nan)
        share[seen] = isotonic.isotonic_regression(
            (scores.genuine / np.maximum(weight, 1e-300))[seen], sample_weight=weight[seen]
        )
        with np.errstate(divide="ignore"):
            ratios = np.log(share[seen]) - np.log1p(-share[seen])
        there = WeighedScores(scores.scores[seen], scores.genuine[seen], scores.impostor[seen])
        genuine, impostor = there.genuine > 0, there.impostor > 0
        cost = there.genuine[genuine] @ np.logaddexp2(0, -ratios[genuine] / math.log(2))
        cost += there.impostor[impostor] @ np.logaddexp2(0, ratios[impostor] / math.log(2))
        assert scores.min_cllr() == pytest.approx(cost / 2, abs=1e-9)
        fitted = scores.fitted(MANY, MANY)
        assert scores.min_cllr() < fitted.cllr < 1
        assert fitted.cllr == pytest.approx(scores.cllr(fitted.ratios(scores.scores)))


def test_the_ratio_of_two_normal_distributions_is_a_line():
    grid = np.linspace(-2, 3, 4001)
    found = weighed(grid, norm.pdf(grid, 0.7, 0.3), norm.pdf(grid, 0.1, 0.3)).fitted(MANY, MANY)
    # (0.7 - 0.1) / 0.3^2, and nothing is said half-way between the two
    assert found.slope == pytest.approx(6.6667, abs=1e-3)
    assert found.intercept == pytest.approx(-0.4 * 6.6667, abs=1e-3)


def test_the_line_is_that_of_logistic_regression():
    linear = pytest.importorskip("sklearn.linear_model")
    scores = random_scores()
    rows, labels = np.tile(scores.scores, 2)[:, None], np.repeat([1, 0], len(scores.scores))
    weights = np.concatenate([scores.genuine, scores.impostor])
    model = linear.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(rows, labels, 1e4 * weights)
    found = scores.fitted(MANY, MANY)
    assert found.slope == pytest.approx(model.coef_[0, 0], rel=1e-4)
    assert found.intercept == pytest.approx(model.intercept_[0], abs=1e-4)


def test_scores_that_do_not_overlap_have_the_ratio_of_their_number():
    """Jeffreys' prior adds half a comparison to each kind: of n in all, n/2 + 1/2 against 1/2."""
    found = weighed([-1, 1], [0, 1], [1, 0]).fitted(people=6, comparisons=4)
    assert found.slope == pytest.approx(math.log(11), abs=1e-6)
    assert found.intercept == pytest.approx(0, abs=1e-6)
    assert found.bounds == pytest.approx((-math.log(7), math.log(5)))


def test_no_ratio_is_beyond_what_the_people_show_or_the_scores_reach():
    assert LINE.bounds == pytest.approx((-5, math.log(400)))  # 10 * -0.2 - 3, which is above -log(300)
    assert LINE.ratios(np.array([-0.9, -0.2, 0.5, 0.9, 1.0])) == pytest.approx(
        [-5, -5, 2, math.log(400), math.log(400)]
    )
    assert [LINE.at(score, 0.5).at_bound for score in (-0.5, 0.5, 0.95)] == [True, False, True]


def test_a_probability_by_bayes_rule():
    at = (3 + math.log(9)) / 10  # the ratio is 9 to 1
    assert LINE.at(at, prior=0.1).probability == pytest.approx(0.5)
    assert LINE.at(at, prior=0.5).probability == pytest.approx(0.9)
    assert str(LINE.at(at, prior=0.5)) == (
        "Probability of one person: 90 %, if it was 50 % before (log-likelihood ratio 2.20)."
    )
    assert str(LINE.at(1.0, prior=0.5)).endswith(
        "99.75 %, if it was 50 % before (log-likelihood ratio 5.99, the bound of this calibration)."
    )


@pytest.mark.parametrize("scale", [1e300, 1e-310])
def test_scores_on_a_scale_that_no_line_can_be_fitted_on_are_refused(scale):
    scores = WeighedScores(scale * np.array([-2.0, 0.1, 1.0]), np.array([0.0, 0.2, 0.8]), np.array([0.7, 0.3, 0.0]))
    with pytest.raises(ValueError, match="too near or too far apart"):
        scores.fitted(10, 10)


@pytest.mark.parametrize("prior", [0.0, 1.0, -1.0, 1.5, math.nan, 1e-320, 1e-13, 1 - 1e-13])
def test_a_prior_that_nothing_could_change_is_refused(prior):
    with pytest.raises(ValueError, match=r"must be from 1e-12 to 1 - 1e-12, such as 0\.5, got"):
        LINE.at(0.5, prior)


@pytest.mark.parametrize("prior", ["0.5", None])
def test_a_prior_that_is_no_number_is_refused(prior):
    with pytest.raises(ValueError, match=r"must be from 1e-12 to 1 - 1e-12, such as 0\.5, got"):
        check_prior(prior)


def test_scores_without_a_map_are_refused():
    with pytest.raises(ValueError, match="no higher than impostor scores"):
        weighed([0, 1], [1, 0], [0, 1]).fitted(10, 10)
    for scores in ([0.5], [0, math.inf], [-math.inf, 0, 1]):
        with pytest.raises(ValueError, match="infinite, or all one and the same"):
            weighed(scores, np.ones(len(scores)), np.ones(len(scores))).fitted(10, 10)
    with pytest.raises(ValueError, match="rises by nan"):
        ScoreProbability(math.nan, 0.0, 0.0, 1.0, 10, 10, 0.5, 0.5)
    with pytest.raises(ValueError, match=r"Cllr 0\.4, at least 0\.5"):
        ScoreProbability(1.0, 0.0, 0.0, 1.0, 10, 10, 0.4, 0.5)
    with pytest.raises(ValueError, match="lie between 0 and 1, got"):
        ScoreProbability(1.0, 0.0, 0.0, 1.0, 10, 10, 0.5, 0.5, (2.0,), (Interval(0.5, 0.4, 0.6, 20),))


def test_reliability_is_that_of_people_redrawn_one_by_one():
    random, people = np.random.default_rng(1), 12
    person = np.repeat(np.arange(8), 3)  # four people have no genuine pair
    genuine = random.normal(1.0, 1, len(person))
    left, right = np.triu_indices(people, 1)
    impostor = np.sort(random.normal(-0.5, 1, len(left)))[::-1]
    order = random.permutation(len(left))
    two = np.stack([left, right], 1)[order]
    borders, redrawing = np.array([-0.5, 0.5, 1.5]), Redrawing(replicates=40, seed=3)
    above = impostor > -0.5
    pairs = PairScores(genuine, person, impostor[above], two[above], np.ones(people, np.int64), down_to=-0.5)
    every = np.sort(np.concatenate([genuine, impostor]))
    scores = WeighedScores(every, np.isin(every, genuine) / len(genuine), np.isin(every, impostor) / len(impostor))
    line = ScoreProbability(2.0, -0.5, every[0], every[-1], 8, 6, 0.5, 0.4)
    found = scores.with_reliability(line, pairs, borders, redrawing, quietly)

    def observed(draws):
        own = draws[person] / draws[:8].sum() / 3
        other = draws[two].prod(1) / draws[two].prod(1).sum()
        sums = [np.bincount(np.searchsorted(borders, *part), weight, 4)
                for part, weight in (((genuine,), own), ((impostor,), other))]  # fmt: skip
        return sums[0] / (sums[0] + sums[1])

    with np.errstate(invalid="ignore"):
        replicates = np.array([observed(draws) for run in draws_of(people, redrawing) for draws in run])
    assert [one.value for one in found.observed] == pytest.approx(observed(np.ones(people)))
    for number, interval in enumerate(found.observed):
        low, high = np.nanquantile(replicates[:, number], [0.025, 0.975])
        assert (interval.lower_95, interval.upper_95) == pytest.approx((low, high))
    place, share = np.searchsorted(borders, every), 1 / (1 + np.exp(-(2 * every - 0.5)))
    share = np.clip(share, 1 / 10, 7 / 8)  # at most 7 to 1 with six comparisons, at least 1 to 9 with eight people
    weight = scores.genuine + scores.impostor
    means = [np.average(share[place == number], weights=weight[place == number]) for number in range(4)]
    assert found.stated == pytest.approx(means)
