"""Learning rate and margin, with values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verisphere.train.schedule import Plateau, Schedule


def test_the_polynomial_runs_from_the_end_of_the_warmup_to_the_end():
    schedule = Schedule(power=2.0, warmup=2.0)
    assert schedule.rate(1.0, 10.0) == 0.5  # half of the warm-up
    assert schedule.rate(2.0, 10.0) == 1.0
    assert schedule.rate(4.0, 10.0) == pytest.approx((6 / 8) ** 2)
    assert schedule.rate(10.0, 10.0) == 0.0
    assert schedule.rate(11.0, 10.0) == 0.0  # a last epoch that is not whole may overshoot by half a step


def test_steps_fall_at_their_milestones():
    schedule = Schedule(shape="step", milestones=(20.0, 28.0), factor=0.1)
    assert schedule.rate(19.999, 32.0) == 1.0
    assert schedule.rate(20.0, 32.0) == pytest.approx(0.1)
    assert schedule.rate(28.0, 32.0) == pytest.approx(0.01)


def test_constant_stays_once_warm():
    schedule = Schedule(shape="constant", warmup=1.0)
    assert [schedule.rate(epoch, 5.0) for epoch in (0.25, 1.0, 5.0)] == [0.25, 1.0, 1.0]


def test_the_margin_rises_over_its_warmup_and_is_whole_without_one():
    assert [Schedule(margin_warmup=4.0).margin(epoch) for epoch in (0.0, 1.0, 4.0, 9.0)] == [0.0, 0.25, 1.0, 1.0]
    assert Schedule().margin(0.0) == 1.0


def test_a_plateau_multiplies_by_the_factor_for_each_fall():
    schedule = Schedule(shape="plateau", factor=0.5, warmup=2.0)
    assert [schedule.rate(epoch, 9.0, falls=2) for epoch in (1.0, 2.0, 9.0)] == [0.5, 0.25, 0.25]


def test_a_plateau_has_a_lowest_rate():
    schedule = Schedule(shape="plateau", factor=0.1, lowest=0.05)
    assert [schedule.rate(1.0, 9.0, falls) for falls in range(4)] == [1.0, 0.1, 0.05, 0.05]
    with pytest.raises(ValueError, match=r"schedule.lowest must lie in \[0, 1\], got 2.0"):
        Schedule(shape="plateau", lowest=2.0)
    with pytest.raises(ValueError, match=r"schedule.lowest 0.5 is for shape plateau, not constant"):
        Schedule(shape="constant", lowest=0.5)


def test_the_rate_falls_after_so_many_validations_without_a_new_highest_figure():
    plateau = Plateau()
    figures = [0.3, 0.5, 0.5, float("nan"), 0.4, 0.6, 0.1, 0.6]  # equal to the highest is no improvement, nor is NaN
    falls = [plateau.see(10 * number, figure, patience=2) for number, figure in enumerate(figures, 1)]
    assert falls == [False, False, False, True, False, False, False, True]
    assert plateau == Plateau(best=0.6, waited=0, falls=2, step=80)
    assert Plateau.of_state(plateau.state(), "state.json") == plateau


@pytest.mark.parametrize(
    "state", [None, {}, {"best": "0.5", "waited": 0, "falls": 0, "step": 1}, Plateau(falls=-1).state()]
)
def test_the_state_of_no_plateau_is_refused(state):
    with pytest.raises(ValueError, match=r"^state\.json: plateau is .*; it has best, waited, falls and step"):
        Plateau.of_state(state, "state.json")


def test_positions_in_steps_become_epochs():
    schedule = Schedule(shape="step", milestones=(200.0, 280.0), warmup=10.0, margin_warmup=40.0)
    assert schedule.in_epochs("steps", 40) == Schedule(
        shape="step", milestones=(5.0, 7.0), warmup=0.25, margin_warmup=1.0
    )
    assert schedule.in_epochs("epochs", 40) is schedule


@given(
    shape=st.sampled_from(["polynomial", "step", "constant"]),
    warmup=st.floats(0, 6),
    power=st.floats(0, 4),
    epoch=st.floats(0, 12),
    epochs=st.floats(0.5, 10),
)
def test_a_share_lies_between_0_and_1(shape, warmup, power, epoch, epochs):
    schedule = Schedule(shape=shape, warmup=warmup, power=power, milestones=(1.0, 3.0), margin_warmup=warmup)
    assert 0.0 <= schedule.rate(epoch, epochs) <= 1.0
    assert 0.0 <= schedule.margin(epoch) <= 1.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"warmup": -1.0}, "schedule.warmup must be a number and not negative, got -1.0"),
        ({"margin_warmup": float("nan")}, "schedule.margin_warmup must be a number"),
        ({"power": float("inf")}, "schedule.power must be a number"),
        ({"factor": 0.0}, r"schedule.factor must lie in \(0, 1\], got 0.0"),
        ({"milestones": (2.0, 1.0)}, r"schedule.milestones must be positive and ascending, got \[2.0, 1.0\]"),
        ({"milestones": (1.0, 1.0)}, "ascending"),
        ({"milestones": (0.0, 1.0)}, "positive"),
        ({"shape": "step"}, "schedule.milestones is empty"),
        ({"shape": "plateau", "patience": 0}, "schedule.patience must be at least 1 validation, got 0"),
        ({"figure": "loss"}, "schedule.figure 'loss' is for shape plateau, not polynomial"),
    ],
)
def test_refusals(fields, message):
    with pytest.raises(ValueError, match=message):
        Schedule(**fields)
