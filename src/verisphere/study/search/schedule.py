"""Schedules of a search: they choose the candidates of each round, their start weights, and how far they are trained.

Like a method, a schedule is a function of the rounds that it has seen and of its seed; see
`verisphere.study.search.method`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import ceil, inf
from typing import ClassVar

import numpy as np

from verisphere.base.words import check_at_least, check_positive
from verisphere.study.search.method import Method
from verisphere.study.search.rounds import Round, Start, starts_of
from verisphere.study.search.space import Space


class SearchSchedule(ABC):
    """Plans the rounds of a search.

    Attributes:
        whole: whether each candidate is a whole training, so that candidates can also differ in the recipe's seed.
    """

    whole: ClassVar[bool] = False
    epochs: float
    space: Space
    seed: int

    def begin(self, epochs: float, space: Space, seed: int) -> None:
        """Begin a search; called once, before everything else.

        Args:
            epochs: length of a whole training.
            space: the fields that are searched.
            seed: seed of the schedule's own draws.
        """
        self.epochs, self.space, self.seed = epochs, space, seed

    @property
    def shortest(self) -> float:
        """Length of the shortest round in epochs; by default that of a whole training."""
        return self.epochs

    @abstractmethod
    def next(self, rounds: Sequence[Round], method: Method) -> tuple[Start, ...]:
        """The candidates of the next round; empty at the end. It is called once for each number of rounds, in order.

        Args:
            rounds: the rounds that are finished.
            method: chooses draws, and learns rewards.
        """

    def result(self, rounds: Sequence[Round]) -> tuple[int, int]:
        """Round and candidate of the search's result: by default the best candidate of the last round."""
        return len(rounds) - 1, rounds[-1].best


class EachEpoch(SearchSchedule):
    """Several candidates in every epoch, all continuing the best of the previous one (Wang et al. 2020, algorithm 1).

    The best candidate's weights, centers, loss state and momentum are the start of all candidates of the next epoch;
    the result is the best candidate of the last one. A search costs as many trainings as an epoch has candidates.

    Args:
        candidates: candidates of an epoch; the paper's B.
        every: length of a round in epochs.
    """

    def __init__(self, candidates: int = 4, every: float = 1.0) -> None:
        check_at_least("candidates", candidates, 1)
        check_positive("every", every)
        self.candidates, self.every = candidates, every

    @property
    def shortest(self) -> float:
        """Length of a round."""
        return self.every

    def next(self, rounds: Sequence[Round], method: Method) -> tuple[Start, ...]:
        """Candidates that continue the best one."""
        if rounds:
            method.tell(*rounds[-1].told)
        if is_over(rounds, self.epochs):
            return ()
        best = rounds[-1].best if rounds else None
        until = end_of_round(len(rounds), self.every, self.epochs)
        return starts_of(method.ask(self.candidates), [best] * self.candidates, until)


class WholeTrainings(SearchSchedule):
    """Whole trainings, each with values that do not change; the result is the best of all.

    With `RandomDraws` it is random search, with `Optuna` the usual tuning by Optuna. No other schedule can search
    `seed`; a search must be compared with the best of several seeds.

    Args:
        trainings: number of trainings.
        at_once: number of trainings whose draws are chosen before any of them has a reward; they can be trained side by
            side.
    """

    whole = True

    def __init__(self, trainings: int = 16, at_once: int = 4) -> None:
        check_at_least("trainings", trainings, 1)
        check_at_least("at_once", at_once, 1)
        self.trainings, self.at_once = trainings, at_once

    def next(self, rounds: Sequence[Round], method: Method) -> tuple[Start, ...]:
        """The next trainings, from the beginning to the end."""
        known = [reward for entry in rounds for reward in entry.measured if reward is not None]
        if rounds and rounds[-1].ranked:
            method.tell(*rounds[-1].told)
        elif known:  # all trainings of the round diverged
            method.tell(rounds[-1].draws, np.full(len(rounds[-1].starts), min(known)))
        count = min(self.trainings - len(rounds) * self.at_once, self.at_once)
        return starts_of(method.ask(count), [None] * count, self.epochs) if count > 0 else ()

    def result(self, rounds: Sequence[Round]) -> tuple[int, int]:
        """The best of all rounds; of equal rewards the earliest."""
        highest = [max((one for one in entry.measured if one is not None), default=-inf) for entry in rounds]
        number = highest.index(max(highest))
        return number, rounds[number].best


def is_over(rounds: Sequence[Round], epochs: float) -> bool:
    """Whether the last round went to the end of the training."""
    return bool(rounds) and rounds[-1].starts[0].until >= epochs


def end_of_round(number: int, every: float, epochs: float) -> float:
    """Position in epochs at which a round ends, counted from 0; the last one ends with the training.

    >>> [end_of_round(number, 0.7, 2.1) for number in range(3)]  # 3 * 0.7 is a little below 2.1
    [0.7, 1.4, 2.1]
    """
    end = (number + 1) * every
    return end if end < epochs * (1 - 1e-9) else epochs


def share_of(share: float, count: int) -> int:
    """A share of a number of candidates, rounded up, at least one and at most half.

    >>> [share_of(0.2, 8), share_of(0.2, 10), share_of(0.5, 3), share_of(0.07, 100)]
    [2, 2, 1, 7]
    """
    return max(min(ceil(share * count - 1e-9), count // 2), 1)  # 0.07 * 100 is a little above 7
