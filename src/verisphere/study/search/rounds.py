"""Rounds of a search: candidates that begin together, each with its draw, and their rewards."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from verisphere.study.search.method import Draws, Rewards
from verisphere.train.recipe import Settings


@dataclass(frozen=True)
class Start:
    """The start of a candidate, and the position up to which it is trained."""

    draw: tuple[float, ...]  # a number for each field of the space
    parent: int | None  # of the previous round, whose training this one continues; None begins anew
    until: float  # position in epochs up to which it is trained


@dataclass(frozen=True)
class Round:
    """Candidates that were trained and measured; the reward of a training that diverged is None."""

    starts: tuple[Start, ...]
    measured: tuple[float | None, ...]

    @property
    def rewards(self) -> Rewards:
        """The rewards; a training that diverged gets the lowest reward of the trainings of its round that did not."""
        worst = min(reward for reward in self.measured if reward is not None)
        return np.array([worst if reward is None else reward for reward in self.measured])

    @property
    def draws(self) -> Draws:
        """The draws, a row for each candidate."""
        return np.array([start.draw for start in self.starts], np.float64)

    @property
    def told(self) -> tuple[Draws, Rewards]:
        """Draws and rewards for a method; trainings that diverged come last, so that none is the first of the best."""
        order = sorted(range(len(self.measured)), key=lambda place: self.measured[place] is None)
        return self.draws[order], self.rewards[order]

    @property
    def ranking(self) -> list[int]:
        """The candidates, the best first; equal rewards stay in order, and diverged candidates come last."""
        return sorted(range(len(self.measured)), key=lambda place: _order(self.measured[place]))

    @property
    def ranked(self) -> list[int]:
        """The candidates that did not diverge, the best first."""
        return [place for place in self.ranking if self.measured[place] is not None]

    @property
    def best(self) -> int:
        """The candidate with the highest reward."""
        return self.ranking[0]


def _order(reward: float | None) -> tuple[bool, float]:
    return (True, 0.0) if reward is None else (False, -reward)


def first_alike(
    starts: Sequence[Start], values: Sequence[Settings] | None = None, before: Sequence[int] = ()
) -> list[int]:
    """For each candidate of a round, the first one whose training is the same; equal trainings are made once.

    The values of the fields may agree where the draws do not. `before` is the answer for the round before.

    >>> first_alike([Start((0.5,), None, 1.0), Start((0.7,), None, 1.0), Start((0.5,), None, 1.0)])
    [0, 1, 0]
    """
    compared = [start.draw for start in starts] if values is None else [tuple(of_one.items()) for of_one in values]
    first: dict[object, int] = {}
    parents = [before[one.parent] if before and one.parent is not None else one.parent for one in starts]
    trainings = zip(compared, parents, (start.until for start in starts), strict=True)
    return [first.setdefault(training, place) for place, training in enumerate(trainings)]


def all_alike(rounds: Sequence[Sequence[Start]], values: Sequence[Sequence[Settings]] | None = None) -> list[list[int]]:
    """For each round of a search the answer of `first_alike`."""
    alike: list[list[int]] = []
    for number, starts in enumerate(rounds):
        alike.append(first_alike(starts, None if values is None else values[number], alike[-1] if alike else ()))
    return alike


def epochs_trained(rounds: Sequence[Round], values: Sequence[Sequence[Settings]] | None = None) -> float:
    """Epochs of training over all candidates of all rounds; see `first_alike`."""
    epochs = 0.0
    for number, alike in enumerate(all_alike([of_round.starts for of_round in rounds], values)):
        for place, first in enumerate(alike):
            start = rounds[number].starts[place]
            before = 0.0 if start.parent is None else rounds[number - 1].starts[start.parent].until
            epochs += start.until - before if place == first else 0.0
    return epochs


def selects(rounds: Sequence[Round]) -> bool:
    """Whether the result is the best of several: of the candidates of a round, or of trainings that begin anew.

    >>> one = Round((Start((0.5,), None, 1.0),), (0.7,))
    >>> selects([one, Round((Start((0.5,), 0, 2.0),), (0.8,))]), selects([one, one])
    (False, True)
    """
    anew = [start for number, entry in enumerate(rounds) for start in entry.starts if number and start.parent is None]
    return bool(anew) or any(len(entry.starts) > 1 for entry in rounds)


def starts_of(draws: Draws, parents: Sequence[int | None], until: float) -> tuple[Start, ...]:
    """Candidates with these draws, each continuing its parent, trained up to one position."""
    return tuple(
        Start(tuple(float(number) for number in draw), parent, until)
        for draw, parent in zip(draws, parents, strict=True)
    )
