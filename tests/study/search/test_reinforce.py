"""REINFORCE: its gradient against that of the expected reward, and the first steps of Adam by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from verisphere.study.search import Reinforce
from verisphere.study.search.reinforce import reinforce_gradient, standardised

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()  # of a standard normal distribution
DEVIATION = 0.2


def expected(reward: Callable[[np.ndarray], np.ndarray], mean: float) -> float:
    """The expected reward under N(mean, 0.2^2), by quadrature."""
    return float((WEIGHTS * reward(mean + DEVIATION * NODES)).sum())


def gradient(reward: Callable[[np.ndarray], np.ndarray], mean: float) -> float:
    """The REINFORCE gradient over the quadrature's nodes, whose weights go into the rewards."""
    draws = mean + DEVIATION * NODES
    weighted = len(NODES) * WEIGHTS * reward(draws)
    return float(reinforce_gradient(draws[:, None], weighted, np.array([mean]), DEVIATION)[0])


def begun(start: list[float], seed: int = 0) -> Reinforce:
    method = Reinforce()
    method.begin(np.array(start), seed)
    return method


@pytest.mark.parametrize("mean", [-1.0, 0.0, 0.3, 0.7, 2.0])
def test_gradient_of_a_quadratic_reward_in_closed_form(mean):
    # E[-(x - 0.7)^2] = -(mean - 0.7)^2 - 0.2^2, whose derivative in the mean is -2 (mean - 0.7)
    def reward(x):
        return -((x - 0.7) ** 2)

    assert expected(reward, mean) == pytest.approx(-((mean - 0.7) ** 2) - 0.04)
    assert gradient(reward, mean) == pytest.approx(-2 * (mean - 0.7), abs=1e-9)


@pytest.mark.parametrize("mean", [-1.0, 0.0, 0.3, 0.7, 2.0])
def test_gradient_equals_the_numerical_one_of_the_expected_reward(mean):
    def reward(x):
        return 1 / (1 + np.exp(-3 * x)) + 0.2 * np.sin(2 * x)

    numerical = (expected(reward, mean + 1e-4) - expected(reward, mean - 1e-4)) / 2e-4
    assert gradient(reward, mean) == pytest.approx(numerical, abs=1e-7)


def test_gradient_of_drawn_candidates_in_two_fields():
    # The reward is -(x - 1)^2 - 3 y, whose expectation has the gradient (-2 (0.5 - 1), -3) at (0.5, 2). One draw has a
    # deviation of at most 25 in each field, so 400,000 have one of 0.04.
    mean = np.array([0.5, 2.0])
    method = begun([0.5, 2.0])
    draws = method.ask(400_000)
    rewards = -((draws[:, 0] - 1) ** 2) - 3 * (draws[:, 1] - 2)
    assert reinforce_gradient(draws, rewards, mean, DEVIATION) == pytest.approx([1.0, -3.0], abs=0.08)


def test_standardised_by_hand():
    # mean 3, deviations -2, -1, 0, 3, variance 14 / 4
    assert standardised(np.array([1.0, 2.0, 3.0, 6.0])) == pytest.approx(
        [-1.069045, -0.534522, 0.0, 1.603567], abs=1e-6
    )


def test_equal_rewards_have_no_rounding_left():
    assert not standardised(np.full(3, 0.1)).any()  # 0.1 + 0.1 + 0.1 is not 3 * 0.1
    assert not standardised(np.array([0.7])).any()


def test_two_steps_of_adam_by_hand():
    method = begun([1.0])
    # scores 1 and -1: (1 * 0.1 + -1 * -0.1) / 2 / 0.04 = 2.5; Adam's first step is the rate in the gradient's direction
    method.tell(np.array([[1.1], [0.9]]), np.array([0.7, 0.5]))
    assert method.mean == pytest.approx([1.05], abs=1e-9)
    # scores -1 and 1: (-1 * 0.2 + 1 * 0) / 2 / 0.04 = -2.5. Adam: m = 0.9 * 0.25 - 0.1 * 2.5 = -0.025, over 1 - 0.81
    # -0.1315789; v = 0.999 * 0.00625 + 0.00625 = 0.01249375, over 1 - 0.998001 6.25; step 0.05 * -0.1315789 / 2.5
    method.tell(np.array([[1.25], [1.05]]), np.array([0.2, 0.6]))
    assert method.mean == pytest.approx([1.0473684], abs=1e-7)


@pytest.mark.parametrize("better", [0, 1])
def test_the_mean_moves_toward_the_better_draw(better):
    method = begun([1.0, 1.0])
    draws = np.array([[1.3, 0.9], [0.8, 1.2]])
    method.tell(draws, np.eye(2)[better])
    assert (np.sign(method.mean - 1.0) == np.sign(draws[better] - 1.0)).all()


def test_equal_rewards_move_nothing_and_are_not_counted():
    with_equal, without = begun([1.0]), begun([1.0])
    first, second = np.array([[1.1], [0.9]]), np.array([[1.25], [1.05]])
    for method in (with_equal, without):
        method.tell(first, np.array([0.7, 0.5]))
    before = with_equal.mean
    with_equal.tell(first, np.array([0.5, 0.5]))  # Adam alone would go on by its momentum
    with_equal.tell(first, np.array([0.1, 0.1]))
    assert (with_equal.mean == before).all()
    for method in (with_equal, without):
        method.tell(second, np.array([0.2, 0.6]))
    assert (with_equal.mean == without.mean).all()


def test_a_single_candidate_moves_nothing():
    method = begun([1.0])
    method.tell(method.ask(1), np.array([0.9]))
    assert method.mean == pytest.approx([1.0], abs=0)


def test_draws_have_the_deviation_around_the_mean():
    draws = begun([1.0, -2.0]).ask(100_000)
    assert draws.mean(0) == pytest.approx([1.0, -2.0], abs=0.004)
    assert draws.std(0) == pytest.approx([0.2, 0.2], rel=0.02)


def test_defaults_are_the_papers():
    method = Reinforce()
    assert (method.deviation, method.rate) == (0.2, 0.05)


def test_figures_are_the_mean_of_each_field():
    assert begun([1.0, 0.5]).figures() == {"mean_0": 1.0, "mean_1": 0.5}


@pytest.mark.parametrize("name", ["deviation", "rate"])
@pytest.mark.parametrize("value", [0.0, -0.1, float("nan"), float("inf")])
def test_bad_arguments(name, value):
    with pytest.raises(ValueError, match=f"^{name} must be a positive number, got {value}$"):
        Reinforce(**{name: value})
