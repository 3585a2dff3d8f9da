"""Q-learning: its update by hand, what moves nothing, and a reward with a known best value found from ten starts."""

import numpy as np
import pytest

from verisphere.study.search import EachEpoch, Linear, QLearning, maximize
from verisphere.study.search.q_learning import updated


def begun(start: list[float], seed: int = 0, **arguments: float) -> QLearning:
    method = QLearning(**arguments)
    method.begin(np.array(start), seed)
    return method


def reward(values: dict[str, float]) -> float:
    """Highest at a margin of 0.375 and a weight of 0.75."""
    return -abs(values["margin"] - 0.375) - abs(values["weight"] - 0.75)


def test_an_update_by_hand():
    # 0.4 + 0.5 * (0.1 + 0.9 * 0.2 - 0.4) = 0.4 + 0.5 * -0.12
    assert updated(0.4, rise=0.1, best_next=0.2, rate=0.5, discount=0.9) == pytest.approx(0.34)


def test_three_rounds_by_hand():
    method = begun([0.5], step=0.25, bin_width=0.1, rate=0.5, discount=0.8)
    method.tell(np.array([[0.5]]), np.array([0.55]))  # no reward before it: nothing is learned
    assert method.values == {}
    # from level 2, bin 5: larger rises by 0.2 to level 3, bin 7; smaller falls by 0.1 to level 1, bin 4
    method.tell(np.array([[0.75], [0.25]]), np.array([0.75, 0.45]))
    assert method.values == pytest.approx({((0, 2, 5), 1): 0.1, ((0, 2, 5), -1): -0.05})
    assert method.figures() == {"mean_0": 0.75}
    # from level 3, bin 7: smaller falls by 0.2 to level 2, bin 5, whose best value is 0.1: 0.5 * (-0.2 + 0.8 * 0.1)
    method.tell(np.array([[0.5]]), np.array([0.55]))
    assert method.values[(0, 3, 7), -1] == pytest.approx(-0.06)
    assert method.figures() == {"mean_0": 0.5}


def test_a_known_action_is_taken_where_nothing_is_explored():
    method = begun([0.5], step=0.25, bin_width=0.1, explore=0.0)
    method.tell(np.array([[0.5]]), np.array([0.55]))
    method.tell(np.array([[0.5], [0.75]]), np.array([0.56, 0.45]))  # both in bin 5 and 4; staying rose by 0.01
    assert set(method.ask(50)[:, 0]) == {0.5}
    exploring = begun([0.5], step=0.25, bin_width=0.1, explore=1.0)
    exploring.tell(np.array([[0.5]]), np.array([0.55]))
    exploring.tell(np.array([[0.5], [0.75]]), np.array([0.56, 0.45]))
    assert set(exploring.ask(50)[:, 0]) == {0.25, 0.5, 0.75}


@pytest.mark.parametrize("start", range(10))
@pytest.mark.parametrize("candidates", [4, 8])
def test_it_finds_the_best_from_ten_starts(start, candidates):
    method = QLearning()
    maps = {"margin": Linear(0.0, 1.0, start=start / 9), "weight": Linear(0.0, 1.0, start=1 - start / 9)}
    found = maximize(reward, maps, method=method, schedule=EachEpoch(candidates=candidates), epochs=100.0, seed=start)
    # the result is the best of the last round, in which all four may have taken a step away in one of the fields
    assert found.values == pytest.approx({"margin": 0.375, "weight": 0.75}, abs=0.125)
    assert max(max(of_round.rewards) for of_round in found.rounds[-5:]) == 0.0


@pytest.mark.parametrize("start", range(10))
def test_a_single_candidate_has_the_values_to_lead_it(start):
    """Nothing is chosen among candidates here: where the draw goes is what the values say."""
    method = begun([start / 9], seed=start, bin_width=0.25, explore=0.3)
    for _ in range(1500):
        draws = method.ask(1)
        method.tell(draws, -np.abs(draws[:, 0] - 0.375))
    method.explore = 0.0
    for _ in range(8):
        draws = method.ask(1)
        method.tell(draws, -np.abs(draws[:, 0] - 0.375))
    assert method.figures()["mean_0"] == pytest.approx(0.375, abs=0.125)


def test_equal_rewards_leave_all_values_at_0():
    method = begun([0.5, 0.25])
    for _ in range(20):
        draws = method.ask(4)
        method.tell(draws, np.full(4, 0.7))
    assert method.values == {}


@pytest.mark.parametrize("seed", range(3))
def test_the_same_questions_have_the_same_answers(seed):
    def asked(seed: int) -> np.ndarray:
        method, draws = begun([0.5, 0.2, 1.0], seed), []
        for count in (4, 1, 8, 2, 4):
            draws.append(method.ask(count))
            method.tell(draws[-1], -((draws[-1] - 0.3) ** 2).sum(1))
        return np.concatenate(draws)

    assert (asked(seed) == asked(seed)).all()
    assert (asked(seed) != asked(seed + 1)).any()


def test_draws_lie_on_the_grid_a_step_from_the_present_ones():
    method = begun([-1.0, 0.45, 7.0], explore=1.0)  # starts outside of [0, 1] are held in it
    draws = method.ask(200)
    assert method.figures() == {"mean_0": 0.0, "mean_1": 0.5, "mean_2": 1.0}
    levels = [{0.0, 0.125}, {0.375, 0.5, 0.625}, {0.875, 1.0}]
    assert [set(column) for column in draws.T] == levels


def test_a_draw_that_was_not_asked_for_teaches_nothing():
    method = begun([0.5])
    method.tell(np.array([[0.5]]), np.array([0.2]))
    method.tell(np.array([[0.0]]), np.array([0.9]))
    assert method.values == {}
    assert method.figures() == {"mean_0": 0.0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0.3}, "step is 0.3; the steps from 0 to 1 must be a whole number of them"),
        ({"step": 0.0}, "step is 0.0"),
        ({"step": float("nan")}, "step is nan"),
        ({"bin_width": 0.0}, "bin_width is 0.0; it must be a positive number"),
        ({"bin_width": float("inf")}, "bin_width is inf"),
        ({"explore": 1.5}, r"explore is 1.5; a probability must be in \[0, 1\]"),
        ({"rate": 0.0}, r"rate is 0.0; it must be in \(0, 1\]"),
        ({"discount": 1.0}, r"discount is 1.0; it must be in \[0, 1\)"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        QLearning(**arguments)
