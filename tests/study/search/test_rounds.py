"""Rounds: order, ties, trainings that diverged; and the noise of their rewards."""

import numpy as np
import pytest

from verisphere.study.search.reward import Measured, another_wins
from verisphere.study.search.rounds import Round, Start, all_alike, epochs_trained, first_alike, starts_of

NAN = float("nan")


def a_round(*measured: float | None) -> Round:
    draws = np.arange(len(measured), dtype=np.float64)[:, None]
    return Round(starts_of(draws, [None] * len(measured), 1.0), measured)


def redrawn(*replicates: float, reward: float = 0.0) -> Measured:
    return Measured(reward, np.array(replicates))


def test_order_with_ties_and_divergence():
    of_five = a_round(0.3, None, 0.5, 0.5, -0.1)
    assert of_five.ranking == [2, 3, 0, 4, 1]
    assert of_five.ranked == [2, 3, 0, 4]
    assert of_five.best == 2  # of equal ones the earlier
    assert of_five.rewards.tolist() == [0.3, -0.1, 0.5, 0.5, -0.1]  # the diverged one has the worst of the others


def test_equal_settings_that_continue_other_candidates_are_other_trainings():
    starts = [Start((0.5,), parent, 2.0) for parent in (0, 1, 0, None)]
    assert first_alike(starts) == [0, 1, 0, 3]


def test_equal_settings_that_continue_copies_of_one_parent_are_one_training():
    first = [Start((draw,), None, 1.0) for draw in (0.5, 0.7, 0.5)]
    second = [Start((0.5,), parent, 2.0) for parent in (0, 1, 2)]
    third = [Start((0.5,), parent, 3.0) for parent in (2, 0, 1)]
    assert all_alike([first, second, third]) == [[0, 1, 0], [0, 1, 0], [0, 0, 2]]
    rounds = [Round(tuple(starts), (0.1, 0.2, 0.1)) for starts in (first, second, third)]
    assert epochs_trained(rounds) == 6.0
    assert all_alike([first, second], [[{"a": 1.0}] * 3, [{"a": 1.0}] * 3]) == [[0, 0, 0]] * 2


def test_another_wins_by_hand():
    best = redrawn(0.5, 0.5, 0.5, 0.5)
    assert another_wins([best, redrawn(0.4, 0.6, 0.5, 0.4), redrawn(0.4, 0.4, 0.4, 0.7)], 0) == 0.5
    assert another_wins([redrawn(0.9, 0.9, 0.9, 0.9), best], 0) == 0.0
    assert another_wins([redrawn(0.9, 0.9, 0.9, 0.9), best], 1) == 1.0


def test_another_wins_without_others():
    best = redrawn(0.5, 0.5)
    assert another_wins([best], 0) == 0.0
    assert another_wins([None, best, None], 1) == 0.0


def test_another_wins_where_a_redrawing_has_no_figure():
    best = redrawn(0.5, NAN, 0.5, 0.5)
    # of three redrawings that count the first is lost; in the last nobody else has a figure
    assert another_wins([best, redrawn(0.6, 0.9, 0.4, NAN)], 0) == pytest.approx(1 / 3)
    assert another_wins([redrawn(NAN, NAN), redrawn(0.6, 0.9)], 0) == 0.0


def test_of_equal_rewards_none_that_diverged_is_told_first():
    of_round = a_round(None, 0.5, None, 0.5)
    draws, rewards = of_round.told
    assert rewards.tolist() == [0.5] * 4
    assert draws.tolist() == of_round.draws[[1, 3, 0, 2]].tolist()
