"""Schedules by hand: who is trained in each round, from whom, how far."""

import numpy as np
import pytest

from verisphere.study.search import (
    EachEpoch,
    Linear,
    Method,
    PopulationBased,
    SearchSchedule,
    SuccessiveHalving,
    WholeTrainings,
)
from verisphere.study.search.rounds import Round
from verisphere.study.search.space import Space

SPACE = Space(("margin",), (Linear(0.0, 1.0),))


class Numbered(Method):
    """Draws 0.01, 0.02 and so on, and keeps what it was told."""

    def __init__(self) -> None:
        self.asked, self.told = 0, list[tuple[list[float], list[float]]]()

    def ask(self, count: int) -> np.ndarray:
        self.asked += count
        return np.arange(self.asked - count + 1, self.asked + 1, dtype=np.float64)[:, None] / 100

    def tell(self, draws: np.ndarray, rewards: np.ndarray) -> None:
        self.told.append((draws[:, 0].tolist(), rewards.tolist()))


def begun(schedule: SearchSchedule, epochs: float, seed: int = 0) -> SearchSchedule:
    schedule.begin(epochs, SPACE, seed)
    return schedule


def rounds_of(schedule: SearchSchedule, epochs: float, rewards: list[list[float | None]] | None = None) -> list[Round]:
    """All rounds of a search; without rewards the draw is its own."""
    begun(schedule, epochs)
    method, rounds = Numbered(), list[Round]()
    while starts := schedule.next(rounds, method):
        given = rewards[len(rounds)] if rewards else [start.draw[0] for start in starts]
        rounds.append(Round(starts, tuple(given)))
    return rounds


def untils(rounds: list[Round]) -> list[float]:
    assert all(len({start.until for start in of_round.starts}) == 1 for of_round in rounds)
    return [of_round.starts[0].until for of_round in rounds]


def parents(rounds: list[Round]) -> list[list[int | None]]:
    return [[start.parent for start in of_round.starts] for of_round in rounds]


def test_each_epoch_continues_the_best():
    schedule = EachEpoch(candidates=3)
    rounds = rounds_of(schedule, 3.0, [[0.1, 0.3, 0.2], [0.4, None, 0.4], [None, 0.1, 0.2]])
    assert untils(rounds) == [1.0, 2.0, 3.0]
    assert parents(rounds) == [[None] * 3, [1] * 3, [0] * 3]
    assert schedule.result(rounds) == (2, 2)  # of the last round, whatever the rewards before


def test_each_epoch_tells_every_round_but_the_last_before_the_next():
    schedule, method = begun(EachEpoch(candidates=2), 2.0), Numbered()
    first = Round(schedule.next([], method), (0.5, None))
    second = Round(schedule.next([first], method), (0.1, 0.2))
    assert method.told == [([0.01, 0.02], [0.5, 0.5])]
    assert schedule.next([first, second], method) == ()
    assert method.told[1:] == [([0.03, 0.04], [0.1, 0.2])]


@pytest.mark.parametrize(
    ("every", "epochs", "expected"),
    [
        (1.0, 2.5, [1.0, 2.0, 2.5]),
        (0.5, 1.5, [0.5, 1.0, 1.5]),
        (5.0, 2.0, [2.0]),
        (0.7, 2.1, [0.7, 1.4, 2.1]),  # 3 * 0.7 is a little below 2.1: no fourth round without a step
        (0.1, 0.3, [0.1, 0.2, 0.3]),
    ],
)
@pytest.mark.parametrize("make", [EachEpoch, PopulationBased])
def test_the_last_round_ends_with_the_training(make, every, epochs, expected):
    rounds = rounds_of(make(every=every), epochs)
    assert untils(rounds) == expected
    assert rounds[-1].starts[0].until == epochs


def test_whole_trainings_in_groups():
    schedule = WholeTrainings(trainings=5, at_once=2)
    rounds = rounds_of(schedule, 4.0, [[0.1, 0.7], [0.2, None], [0.7]])
    assert [len(of_round.starts) for of_round in rounds] == [2, 2, 1]
    assert untils(rounds) == [4.0] * 3
    assert parents(rounds) == [[None] * 2, [None] * 2, [None]]
    assert schedule.result(rounds) == (0, 1)  # of equal rewards the earliest


def test_whole_trainings_select_none_that_diverged():
    schedule = WholeTrainings(trainings=4, at_once=2)
    rounds = rounds_of(schedule, 1.0, [[None, -0.5], [-0.7, -0.6]])
    assert schedule.result(rounds) == (0, 1)


def test_halving_of_16():
    # 16 for 1 epoch, 8 to 2, 4 to 4, 2 to 8: 16 + 8 + 8 + 8 epochs, each rung after the first the same
    rounds = rounds_of(SuccessiveHalving(trainings=16), 8.0)
    assert [len(of_round.starts) for of_round in rounds] == [16, 8, 4, 2]
    assert untils(rounds) == [1.0, 2.0, 4.0, 8.0]
    # the draw is the reward, so the later half goes on each time, with its own draws
    assert parents(rounds)[1:] == [list(range(8, 16)), list(range(4, 8)), [2, 3]]
    assert rounds[-1].draws[:, 0].tolist() == [0.15, 0.16]


def test_halving_as_in_the_papers_of_hyperband():
    # 81 trainings, a third of which goes on, from 1 to 81 epochs (Li et al. 2018, table 1, bracket 4)
    rounds = rounds_of(SuccessiveHalving(trainings=81, keep_one_of=3), 81.0)
    assert [len(of_round.starts) for of_round in rounds] == [81, 27, 9, 3, 1]
    assert untils(rounds) == [1.0, 3.0, 9.0, 27.0, 81.0]


@pytest.mark.parametrize(
    ("trainings", "keep", "first", "epochs", "counts", "ends"),
    [
        (7, 2, 1.0, 5.0, [7, 3, 1], [1.0, 2.0, 5.0]),  # rounded down; the last one is alone and goes to the end
        (4, 2, 1.0, 64.0, [4, 2, 1], [1.0, 2.0, 64.0]),
        (8, 2, 1.0, 3.0, [8, 4, 2], [1.0, 2.0, 3.0]),  # the last rung is shorter
        (5, 2, 3.0, 3.0, [5], [3.0]),
        (1, 2, 1.0, 3.0, [1, 1], [1.0, 3.0]),
        (3, 4, 1.0, 8.0, [3, 1], [1.0, 8.0]),
        (4, 2, 0.5, 1.5, [4, 2, 1], [0.5, 1.0, 1.5]),
    ],
)
def test_halving_of_other_counts(trainings, keep, first, epochs, counts, ends):
    rounds = rounds_of(SuccessiveHalving(trainings, keep, first), epochs)
    assert [len(of_round.starts) for of_round in rounds] == counts
    assert untils(rounds) == ends


def test_halving_continues_none_that_diverged():
    schedule = SuccessiveHalving(trainings=4)
    rounds = rounds_of(schedule, 4.0, [[None, None, -0.2, None], [0.3]])
    assert parents(rounds) == [[None] * 4, [2]]
    assert untils(rounds) == [1.0, 4.0]
    assert schedule.result(rounds) == (1, 0)


def test_halving_longer_than_a_training():
    with pytest.raises(ValueError, match=r"^first is 3 epochs, longer than a training of 2$"):
        begun(SuccessiveHalving(first=3.0), 2.0)


@pytest.mark.parametrize(
    ("share", "rewards", "expected"),
    [
        (0.2, [0.5, 0.1, 0.9, 0.3, 0.4], [0, 2, 2, 3, 4]),  # one of five goes on with the third's weights
        (0.5, [0.5] * 4, [0, 1, 2, 3]),  # equal rewards
        (0.2, [None, 0.1, None, 0.3, None], [3, 1, 3, 3, 3]),  # all that diverged
        (0.5, [0.2, 0.1, 0.3], [0, 2, 2]),  # half of three is one, or the middle would be replaced and copied
    ],
)
def test_population_replaces_the_worst_by_the_best(share, rewards, expected):
    rounds = rounds_of(PopulationBased(len(rewards), share=share, factors=(1.2,)), 2.0, [rewards, [0.0] * len(rewards)])
    assert parents(rounds)[1] == expected
    drawn = [(parent + 1) / 100 * (1.2 if parent != place else 1) for place, parent in enumerate(expected)]
    assert rounds[1].draws[:, 0].tolist() == pytest.approx(drawn)


def test_population_draws_source_and_factor_evenly():
    first = rounds_of(PopulationBased(members=5, share=0.4), 1.0, [[0.1, 0.2, 0.3, 0.8, 0.9]])
    seen = set()
    for seed in range(60):
        schedule = begun(PopulationBased(members=5, share=0.4), 2.0, seed)
        for start in schedule.next(first, Numbered())[:2]:
            assert start.parent is not None
            seen.add((start.parent, round(start.draw[0] * 100 / (start.parent + 1), 6)))
    assert seen == {(3, 0.8), (3, 1.2), (4, 0.8), (4, 1.2)}


def test_population_stays_in_its_range():
    schedule = PopulationBased(members=2, factors=(3.0,))
    rounds = rounds_of(schedule, 9.0, [[0.1, 0.2], *([[0.2, 0.1], [0.1, 0.2]] * 4)])
    draws = np.concatenate([of_round.draws for of_round in rounds])
    assert draws.max() == 1.0
    assert draws.min() >= 0.0


@pytest.mark.parametrize("make", [EachEpoch, WholeTrainings, SuccessiveHalving, PopulationBased])
def test_a_schedule_is_a_function_of_the_rounds_and_the_seed(make):
    rounds = rounds_of(make(), 4.0)
    schedule, method = begun(make(), 4.0), Numbered()
    assert [schedule.next(rounds[:number], method) for number in range(len(rounds) + 1)] == [
        *(of_round.starts for of_round in rounds),
        (),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EachEpoch(candidates=0), "candidates must be at least 1, got 0"),
        (lambda: EachEpoch(every=0.0), "every must be a positive number, got 0.0"),
        (lambda: WholeTrainings(trainings=0), "trainings must be at least 1, got 0"),
        (lambda: WholeTrainings(at_once=0), "at_once must be at least 1, got 0"),
        (lambda: SuccessiveHalving(trainings=0), "trainings must be at least 1, got 0"),
        (lambda: SuccessiveHalving(keep_one_of=1), "keep_one_of must be at least 2, got 1"),
        (lambda: SuccessiveHalving(first=float("inf")), "first must be a positive number, got inf"),
        (lambda: PopulationBased(members=1), "members must be at least 2, got 1"),
        (lambda: PopulationBased(every=float("nan")), "every must be a positive number, got nan"),
        (lambda: PopulationBased(share=0.6), r"share must lie in \(0, 0.5\], got 0.6"),
        (lambda: PopulationBased(share=0.0), r"share must lie in \(0, 0.5\], got 0.0"),
        (lambda: PopulationBased(factors=()), "factors is empty; name at least one"),
        (lambda: PopulationBased(factors=(1.2, -1.0)), r"factors\[1\] must be a positive number, got -1.0"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()
