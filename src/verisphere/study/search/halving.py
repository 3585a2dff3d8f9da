"""Successive halving (Jamieson and Talwalkar 2016, arXiv:1502.07943): short trainings, the best of which continue."""

from collections.abc import Sequence

from verisphere.base.words import check_at_least, check_positive
from verisphere.study.search.method import Method
from verisphere.study.search.rounds import Round, Start, starts_of
from verisphere.study.search.schedule import SearchSchedule, is_over
from verisphere.study.search.space import Space


class SuccessiveHalving(SearchSchedule):
    """Trainings that end early where others of the same length are better; the result is the best of the last round.

    All are trained for `first` epochs; the best 1 / `keep_one_of` of them, rounded down, continue to `keep_one_of`
    times as many epochs, and so on, up to the end of the training. A training that diverged does not continue, and when
    a single one remains, it is trained to the end at once. Rates follow the whole length from the start.

    Args:
        trainings: number of trainings in the first round.
        keep_one_of: number of trainings of which one continues; 2 halves them, as the paper does. Hyperband (Li et al.
            2017) calls it eta.
        first: length of the first round in epochs.
    """

    def __init__(self, trainings: int = 16, keep_one_of: int = 2, first: float = 1.0) -> None:
        check_at_least("trainings", trainings, 1)
        check_at_least("keep_one_of", keep_one_of, 2)
        check_positive("first", first)
        self.trainings, self.keep_one_of, self.first = trainings, keep_one_of, first

    @property
    def shortest(self) -> float:
        """Length of the first round."""
        return self.first

    def begin(self, epochs: float, space: Space, seed: int) -> None:
        """Begin a search."""
        super().begin(epochs, space, seed)
        if self.first > epochs:
            raise ValueError(f"first is {self.first:g} epochs, longer than a training of {epochs:g}")

    def next(self, rounds: Sequence[Round], method: Method) -> tuple[Start, ...]:
        """All trainings, or the best ones of the previous round."""
        if not rounds:
            return starts_of(method.ask(self.trainings), [None] * self.trainings, self.first)
        before = rounds[-1]
        if is_over(rounds, self.epochs):
            return ()
        going_on = sorted(before.ranked[: max(len(before.starts) // self.keep_one_of, 1)])
        until = min(before.starts[0].until * self.keep_one_of, self.epochs) if len(going_on) > 1 else self.epochs
        return starts_of(before.draws[going_on], going_on, until)
