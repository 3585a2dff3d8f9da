"""A reward whose best values are known is found by every method and every schedule."""

import numpy as np
import pytest

from verisphere.study.search import (
    EachEpoch,
    Linear,
    Logarithmic,
    Optuna,
    PopulationBased,
    RandomDraws,
    Reinforce,
    SuccessiveHalving,
    WholeTrainings,
    maximize,
)

TEN = range(10)


def reward(values: dict[str, float]) -> float:
    """Highest at a margin of 0.35 and a rate of 0.1."""
    return -((values["margin"] - 0.35) ** 2) - 0.1 * float(np.log10(values["rate"] / 0.1) ** 2)


def maps(start: int = 5) -> dict[str, Linear | Logarithmic]:
    """Ranges of both, with one of ten starts that lie on a diagonal from corner to corner."""
    return {
        "margin": Linear(0.0, 1.0, start=start / 9),
        "rate": Logarithmic(0.01, 1.0, start=10 ** (-2 * start / 9)),
    }


@pytest.mark.parametrize("start", TEN)
def test_reinforce_from_ten_starts(start):
    method = Reinforce()
    maximize(reward, maps(start), method=method, schedule=EachEpoch(candidates=8), epochs=200.0)
    assert method.mean == pytest.approx([0.35, 0.5], abs=0.12)  # its steps of 0.05 do not shrink


@pytest.mark.parametrize("seed", TEN)
@pytest.mark.parametrize("sampler", ["random", "tpe", "cma"])
def test_whole_trainings_of_other_methods(sampler, seed):
    if sampler == "random":
        method, shortfall = RandomDraws(), 0.02
    else:
        pytest.importorskip("optuna")
        pytest.importorskip("cmaes")
        method, shortfall = Optuna(sampler), 0.01
    found = maximize(reward, maps(), method=method, schedule=WholeTrainings(trainings=64), seed=seed)
    assert -shortfall < found.reward <= 0
    assert reward(found.values) == found.reward
    assert found.reward == max(value for of_round in found.rounds for value in of_round.measured)


@pytest.mark.parametrize("seed", TEN)
def test_halving(seed):
    schedule = SuccessiveHalving(trainings=64)
    found = maximize(reward, maps(), method=RandomDraws(), schedule=schedule, epochs=16.0, seed=seed)
    best = max(value for value in found.rounds[0].measured if value is not None)
    assert -0.02 < found.reward == best  # the function does not change with the length, so none is lost


@pytest.mark.parametrize("seed", TEN)
def test_population(seed):
    found = maximize(reward, maps(), method=RandomDraws(), schedule=PopulationBased(members=16), epochs=20.0, seed=seed)
    assert found.reward > -0.02
    assert found.reward >= max(value for value in found.rounds[0].measured if value is not None)


def test_values_that_are_not_finite_are_no_result():
    def holes(values: dict[str, float]) -> float:
        return float("nan") if values["margin"] > 0.3 else values["margin"]

    found = maximize(holes, {"margin": Linear(0.0, 1.0)}, method=RandomDraws(), schedule=WholeTrainings(64, 16))
    assert 0.2 < found.reward <= 0.3
    assert any(value is None for of_round in found.rounds for value in of_round.measured)


def test_a_function_that_is_never_finite():
    with pytest.raises(ValueError, match=r"^round 1: the function was finite for none of 4 candidates$"):
        maximize(
            lambda values: float("inf"),
            {"margin": Linear(0.0, 1.0)},
            method=Reinforce(),
            schedule=EachEpoch(),
            epochs=3.0,
        )
