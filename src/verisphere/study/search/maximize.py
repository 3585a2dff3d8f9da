"""The methods and schedules of a search over a Python function, where no training is needed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite

from verisphere.study.search.method import Method
from verisphere.study.search.rounds import Round
from verisphere.study.search.schedule import SearchSchedule
from verisphere.study.search.space import Map, Space
from verisphere.train.recipe import Settings


@dataclass(frozen=True)
class Maximum:
    """The best values of `maximize`, as the schedule selects them, their reward, and the candidates as tried."""

    values: Settings
    reward: float
    rounds: tuple[Round, ...]


def maximize(
    function: Callable[[Settings], float],
    maps: Mapping[str, Map],
    *,
    method: Method,
    schedule: SearchSchedule,
    epochs: float = 1.0,
    seed: int = 0,
) -> Maximum:
    """Search for the values at which a function is highest, as a search of a recipe does.

    >>> from verisphere.study.search import Linear, RandomDraws, WholeTrainings
    >>> found = maximize(
    ...     lambda values: -((values["margin"] - 0.35) ** 2),
    ...     {"margin": Linear(0.0, 1.0)},
    ...     method=RandomDraws(),
    ...     schedule=WholeTrainings(trainings=100),
    ... )
    >>> abs(found.values["margin"] - 0.35) < 0.05
    True

    Args:
        function: called with the values by name. A result that is not finite counts as a training that diverged.
        method: chooses the draws; it cannot be used again.
        schedule: plans the rounds; it cannot be used again. In a later round the function is called with each
            candidate's own values alone, not with those of its parent.
        epochs: length of a training for the schedule; with `EachEpoch` and `PopulationBased` the number of rounds.
    """
    space = Space(tuple(maps), tuple(maps.values()))
    schedule.begin(epochs, space, seed)
    method.begin(space.start, seed)
    rounds: list[Round] = []
    while starts := schedule.next(rounds, method):
        rewards = [float(function(space.values(start.draw))) for start in starts]
        measured = tuple(reward if isfinite(reward) else None for reward in rewards)
        if all(reward is None for reward in measured):
            raise ValueError(f"round {len(rounds) + 1}: the function was finite for none of {len(starts)} candidates")
        rounds.append(Round(starts, measured))
    number, candidate = schedule.result(rounds)
    reward = rounds[number].measured[candidate]
    assert reward is not None
    return Maximum(space.values(rounds[number].starts[candidate].draw), reward, tuple(rounds))
