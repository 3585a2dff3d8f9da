"""Q-learning of numeric fields, in the manner of RL-RBN (Wang and Deng 2020, CVPR, arXiv:1911.10692).

The paper moves the margin of each race by reinforcement learning. Only its abstract was available. We assume the
following of the rest, unverified: a state is a race, its margin and its bias to Caucasians; an action keeps the margin,
or makes it larger or smaller; the reward is the fall of the bias; a deep Q-network learns from samples that were
gathered first. Here the values are in a table, any field can be moved, the training continues between the moves, and
all numbers are ours.
"""

from collections.abc import Mapping
from math import floor, isfinite

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.base.seeds import Stream, mixed_seed, numpy_generator
from verisphere.study.search.method import Draws, Method, Rewards

#: Place of the field, level of its draw, bin of the reward; None before the first reward.
State = tuple[int, int, int | None]

#: Actions, as changes of the level: smaller, stay, larger.
ACTIONS = (-1, 0, 1)


def updated(value: float, rise: float, best_next: float, rate: float, discount: float) -> float:
    """Q + rate * (rise + discount * max Q of the next state - Q), the update of Q-learning (Watkins 1989).

    >>> updated(0.0, rise=0.2, best_next=1.0, rate=0.5, discount=0.9)
    0.55
    """
    return value + rate * (rise + discount * best_next - value)


class QLearning(Method):
    """Moves the draw of each field by steps: Q-learning over a table for each field.

    The state of a field is the level of its draw, on a grid from 0 to 1, and the bin of the last reward. Each candidate
    begins at the draws of the best candidate of the previous round, and in the first round at the start; for each field
    it takes one of three actions: stay, or become larger or smaller by a step, within the grid. With probability
    `explore` the action is drawn evenly, otherwise it is one with the highest value, drawn evenly among equal ones.

    The reward of an action is the rise: the candidate's reward less that of the candidate that it began at. Each field
    of a candidate attributes the same rise to its own action; candidates are processed in order. The first round has no
    earlier reward and updates nothing. Then the best candidate, the first of equal ones, becomes the current one even
    if its reward fell, because `EachEpoch` continues from it.

    Rises of a single round that differ by less than their noise teach nothing: see `another_wins` of a search.

    Args:
        step: distance of two levels; 1 / step is a whole number.
        bin_width: width of a bin of the reward.
        explore: probability of an action at random, in [0, 1].
        rate: learning rate of the values, in (0, 1].
        discount: factor on the value of the next state, in [0, 1).
    """

    def __init__(
        self,
        step: float = 0.125,
        bin_width: float = 0.05,
        explore: float = 0.2,
        rate: float = 0.5,
        discount: float = 0.5,
    ) -> None:
        if not (0 < step <= 1 and abs(1 / step - round(1 / step)) < 1e-9):
            raise ValueError(f"step is {step}; the steps from 0 to 1 must be a whole number of them, such as 0.125")
        if not (isfinite(bin_width) and bin_width > 0):
            raise ValueError(f"bin_width is {bin_width}; it must be a positive number")
        if not 0 <= explore <= 1:
            raise ValueError(f"explore is {explore}; a probability must be in [0, 1]")
        if not 0 < rate <= 1:
            raise ValueError(f"rate is {rate}; it must be in (0, 1]")
        if not 0 <= discount < 1:
            raise ValueError(f"discount is {discount}; it must be in [0, 1)")
        self.step, self.bin_width, self.explore, self.rate, self.discount = step, bin_width, explore, rate, discount

    def begin(self, start: Float64[np.ndarray, " fields"], seed: int) -> None:
        """Begin a search at the levels nearest to the start, with values of 0."""
        super().begin(start, seed)
        self._last = round(1 / self.step)
        self._present = self._levels(start)
        self._reward: float | None = None
        self._values: dict[tuple[State, int], float] = {}
        self._generator = numpy_generator(mixed_seed(Stream.SEARCH, seed))

    @property
    def values(self) -> Mapping[tuple[State, int], float]:
        """The value of each action (-1, 0 or 1) in each state in which it was updated; all others are 0."""
        return dict(self._values)

    def ask(self, count: int) -> Draws:
        """The current draws, each moved by an action."""
        chances = self._generator.random((count, len(self._present), 2)).tolist()
        levels = np.array(
            [
                [level + self._action(self._state(field), *chances[row][field]) for field, level in self._places()]
                for row in range(count)
            ],
            np.int64,
        )
        return levels.reshape(count, len(self._present)) / self._last

    def tell(self, draws: Draws, rewards: Rewards) -> None:
        """Update the values of the actions that were taken, and make the best candidate the current one."""
        levels = np.array([self._levels(draw) for draw in draws])
        if self._reward is not None:
            for reached, reward in zip(levels, rewards.tolist(), strict=True):
                for field, level in self._places():
                    self._update(field, int(reached[field]) - level, int(reached[field]), reward - self._reward, reward)
        best = int(rewards.argmax())
        self._present, self._reward = levels[best], float(rewards[best])

    def figures(self) -> Mapping[str, float]:
        """The current draw of each field."""
        return {f"mean_{field}": level / self._last for field, level in self._places()}

    def _update(self, field: int, action: int, level: int, rise: float, reward: float) -> None:
        if action not in ACTIONS:  # `ask` did not return this draw, as after another schedule's move
            return
        key, reached = (self._state(field), action), (field, level, self._bin(reward))
        best = max(self._values.get((reached, following), 0.0) for following in self._allowed(level))
        new = updated(self._values.get(key, 0.0), rise, best, self.rate, self.discount)
        if new:
            self._values[key] = new
        else:
            self._values.pop(key, None)

    def _action(self, state: State, chance: float, which: float) -> int:
        """An action by two random numbers in [0, 1): one decides whether it is drawn evenly, the other selects it."""
        actions = self._allowed(state[1])
        if chance >= self.explore:
            of_actions = {action: self._values.get((state, action), 0.0) for action in actions}
            actions = [action for action in actions if of_actions[action] == max(of_actions.values())]
        return actions[int(which * len(actions))]

    def _allowed(self, level: int) -> list[int]:
        return [action for action in ACTIONS if 0 <= level + action <= self._last]

    def _state(self, field: int) -> State:
        return field, int(self._present[field]), None if self._reward is None else self._bin(self._reward)

    def _bin(self, reward: float) -> int:
        return floor(reward / self.bin_width)

    def _places(self) -> list[tuple[int, int]]:
        return list(enumerate(self._present.tolist()))

    def _levels(self, draw: Float64[np.ndarray, " fields"]) -> Int64[np.ndarray, " fields"]:
        return np.rint(np.clip(draw, 0.0, 1.0) * self._last).astype(np.int64)
