"""The contents of the page about a search, as plain data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class Tried:
    """A candidate of a search.

    Attributes:
        at: place on the horizontal axis: the epoch up to which the candidate was trained, or the number of a whole
            training.
        values: searched values of the candidate, by name.
        reward: reward of the candidate; None if its training diverged.
        spread: standard deviation of the reward over redrawn people; None if there is none.
        best: whether the candidate is the best of its round.
        descends: whether the candidate is the result or an ancestor of it.
        losses: epoch and loss of each entry of its log, after the last one of the candidate that it continued.
    """

    at: float
    values: Mapping[str, float]
    reward: float | None
    spread: float | None
    best: bool
    descends: bool
    losses: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class RoundShown:
    """A round of a search.

    Attributes:
        title: the round in words, such as "2, to epoch 1".
        tried: candidates of the round.
        another_wins: share of the redrawings of the people in which another candidate would have been the best.
        too_high: lower bound of how much too high the best reward is because it was selected.
    """

    title: str
    tried: Sequence[Tried]
    another_wins: float
    too_high: float

    @property
    def best(self) -> Tried:
        """The best candidate."""
        return next(one for one in self.tried if one.best)


@dataclass(frozen=True)
class LossCurve:
    """A loss as a function of the softmax probability of the own class (Wang et al. 2020, figure 1).

    Attributes:
        name: name of the curve.
        probability: softmax probability p of the own class.
        lowered: exp(-loss) at this probability, p_m in the paper.
    """

    name: str
    probability: Float64[np.ndarray, " points"]
    lowered: Float64[np.ndarray, " points"]


@dataclass(frozen=True)
class SearchFindings:
    """The contents of the page about a search.

    Attributes:
        title: title of the page.
        version: version of verisphere.
        reward: the reward in words, such as "TAR at FAR 1e-3".
        method, schedule: names of their classes.
        position: label of the horizontal axes.
        rounds: the finished rounds.
        means: for each searched value the mean of the method's distribution before each round, and after the last one
            of a search that has ended; place on the horizontal axis and value. Empty for a method without one.
        logarithmic: names of the values that are drawn on a logarithmic scale.
        curves: the loss at the start of the search and the loss of its result, if they have such a curve.
        ended: whether the search has ended.
        epochs: epochs trained over all candidates.
        of_one: epochs of one training.
    """

    title: str
    version: str
    reward: str
    method: str
    schedule: str
    position: str
    rounds: Sequence[RoundShown]
    means: Mapping[str, Sequence[tuple[float, float]]]
    logarithmic: frozenset[str]
    curves: Sequence[LossCurve]
    ended: bool
    epochs: float
    of_one: float

    @property
    def tried(self) -> list[Tried]:
        """The candidates of all rounds."""
        return [one for entry in self.rounds for one in entry.tried]

    @property
    def selected(self) -> bool:
        """Whether the result is the best of several candidates; whole trainings count as one round."""
        return any(len(entry.tried) > 1 for entry in self.rounds)

    @property
    def result(self) -> Tried:
        """The result; for a search that has not ended, the result of the finished rounds."""
        return [one for one in self.tried if one.descends][-1]
