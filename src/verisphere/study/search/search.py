"""The search: rounds of candidates, each trained from weights that the schedule chooses, until it ends."""

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from verisphere.base.collectives import gather_text, on_every_rank, on_first_rank
from verisphere.base.device import choose_device
from verisphere.base.distributed import Groups, world
from verisphere.base.vocabulary import Progress
from verisphere.files.disk import MAX_TABLE, read_file, remove_whole, write_whole
from verisphere.files.lock import alone_in
from verisphere.files.metrics import METRICS
from verisphere.images.decoded_faces import in_memory
from verisphere.images.select import warn_of_shared_people
from verisphere.models.checkpoint import list_checkpoints
from verisphere.report.tables import table
from verisphere.study.search.candidate import (
    REWARD,
    Computing,
    copy_folder,
    remove_checkpoints,
    reward_in,
    reward_text,
    train_candidate,
)
from verisphere.study.search.definition import Search
from verisphere.study.search.folder import (
    SEARCH_JSON,
    Candidate,
    WholeRound,
    candidate_folder,
    open_search,
    read_search_json,
    write_search,
)
from verisphere.study.search.page import write_page
from verisphere.study.search.reward import Measured, another_wins, spread
from verisphere.study.search.rounds import Round, Start, all_alike, epochs_trained, selects
from verisphere.train.loop import TrainingStopped
from verisphere.train.preparation import length_of
from verisphere.train.stopping import stop_requests

log = logging.getLogger(__name__)

T = TypeVar("T")

_SHOWN_EVERY = 60.0  # seconds between two writings of the page while the search continues


class NoCandidate(ValueError):
    """Every candidate of a round diverged, so that none can be continued."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """A search that has ended."""

    rounds: tuple[WholeRound, ...]
    number: int
    candidate: int  # from 0, as is the number of the round
    epochs: float  # those of all candidates
    ancestors: dict[int, int]  # by round, the candidate from which the result descends

    @property
    def values(self) -> dict[str, float | int]:
        """Values of the searched fields in the last round of the result."""
        return self.rounds[self.number].values[self.candidate]

    @property
    def reward(self) -> float:
        """Reward of the result; if it was selected by it, another set of people tends to show a lower one."""
        reward = self.rounds[self.number].round.measured[self.candidate]
        assert reward is not None
        return reward


def run_search(search: Search, out: Path, computing: Computing) -> SearchResult:
    """Search, or continue a search that was stopped; `out` becomes the run of the result."""
    groups = Groups(computing.groups)
    if world().first:
        warn_of_shared_people(search.reward.measured_set.faces, "reward", search.read.recipe.data, "the reward")
    on_every_rank(lambda: choose_device(computing.device))  # on all ranks, so that two groups never share a GPU
    first = replace(search, reward=on_every_rank(lambda: search.reward.in_memory(computing.progress)))
    if search.read.recipe.in_memory:  # once for all candidates
        recipe = search.read.recipe
        held = on_every_rank(lambda: in_memory(recipe.data, recipe.workers, computing.progress))
        first = replace(first, read=replace(search.read, recipe=replace(recipe, data=held)))
    with ExitStack() as lock:

        def begin() -> None:
            lock.enter_context(alone_in(out))
            open_search(first, out)

        on_first_rank(begin)
        rounds = on_every_rank(lambda: read_search_json(out / SEARCH_JSON)[1])
        with stop_requests():
            return _search(first, out, rounds, groups, computing)


def _search(search: Search, out: Path, whole: list[WholeRound], groups: Groups, computing: Computing) -> SearchResult:
    done: list[WholeRound] = []
    page = _Page(search, out)
    length = length_of(search.read.recipe)
    while True:
        starts = search.schedule.next([entry.round for entry in done], search.method)
        learned = dict(search.method.figures())
        if not starts:
            break
        number = len(done)
        if number < len(whole):
            if starts != whole[number].round.starts:
                raise ValueError(f"{out}: round {number + 1} was drawn otherwise; was it made by another version?")
            done.append(whole[number])
            continue
        values = [*(entry.values for entry in done), [search.space.values(start.draw) for start in starts]]
        alike = all_alike([*(entry.round.starts for entry in done), starts], values)[-1]
        measured = _train_round(search, out, number, starts, alike, length.steps_per_epoch, groups, computing)
        if all(reward is None for reward in measured) and not search.schedule.whole:
            raise NoCandidate(
                f"{out}: every candidate of round {number + 1} diverged; narrow the space, or lower the rate"
            )
        of_round = Round(starts, tuple(None if one is None else one.reward for one in measured))
        done.append(
            WholeRound(
                starts[0].until,
                of_round.best + 1,
                another_wins(measured, of_round.best),
                learned,
                tuple(
                    Candidate(
                        start.draw,
                        search.space.values(start.draw),
                        None if start.parent is None else start.parent + 1,
                        reward,
                        spread(one),
                    )
                    for start, reward, one in zip(starts, of_round.measured, measured, strict=True)
                ),
            )
        )
        on_first_rank(lambda: _keep(search, out, done))
        log.info("%s", round_text(search, done[-1], number))
        on_first_rank(lambda: page.show(done))
    if not any(entry.round.ranked for entry in done):
        raise NoCandidate(f"{out}: every training diverged; narrow the space, or lower the rate")
    result = _result(search, done)
    on_first_rank(lambda: _publish(out, result))
    on_first_rank(lambda: page.show(done, learned))
    return result


def _train_round(
    search: Search,
    out: Path,
    number: int,
    starts: Sequence[Start],
    alike: Sequence[int],
    steps_per_epoch: int,
    groups: Groups,
    computing: Computing,
) -> list[Measured | None]:
    """Train the candidates of a round, those of each group of ranks one after another, and those alike once."""
    failure: ValueError | OSError | None = None
    signal = ""
    with groups.apart():
        try:
            for place in range(groups.number, len(starts), groups.count):
                if alike[place] != place:
                    continue
                start, title = starts[place], f"round {number + 1}, candidate {place + 1} of {len(starts)}"
                train_candidate(
                    search.read,
                    search.space.values(start.draw),
                    candidate_folder(out, number, place),
                    parent=None if start.parent is None else candidate_folder(out, number - 1, start.parent),
                    until=round(start.until * steps_per_epoch),
                    reward=search.reward,
                    computing=replace(computing, progress=_titled(computing.progress, title)),
                )
        except TrainingStopped as stopped:
            signal = str(stopped.reason)
        except (ValueError, OSError) as error:
            failure = error
    with groups.together():
        on_every_rank(partial(_fail, failure))
        signals = [int(text) for text in gather_text(signal) if text]
    if signals:
        request = TrainingStopped(signals[0])
        request.advice = "the same command continues"
        raise request
    on_first_rank(lambda: _copy_alike(alike, partial(candidate_folder, out, number)))
    return [_reward_for_all(candidate_folder(out, number, place)) for place in range(len(starts))]


def _copy_alike(alike: Sequence[int], folder: Callable[[int], Path]) -> None:
    """Give each candidate whose training is that of an earlier one of its round the files of that one."""
    for place, first in enumerate(alike):
        if first != place and not (folder(place) / REWARD).is_file():
            if folder(place).exists():
                remove_whole(folder(place))
            write_whole(folder(place), partial(copy_folder, folder(first)))


def _reward_for_all(folder: Path) -> Measured | None:
    return reward_in(on_first_rank(lambda: reward_text(folder)), folder / REWARD)


def _fail(failure: ValueError | OSError | None) -> None:
    if failure is not None:
        raise failure


def round_text(search: Search, whole: WholeRound, number: int) -> str:
    """A round in one line."""
    best = whole.round.best
    rewards = ", ".join("diverged" if reward is None else f"{reward:.4f}" for reward in whole.round.measured)
    values = ", ".join(f"{name} {value:.4g}" for name, value in search.space.readable(whole.values[best]).items())
    return (
        f"round {number + 1}, to epoch {whole.round.starts[0].until:g}: {search.reward.title} {rewards}; best "
        f"{best + 1} ({values}); on redrawn people another would win {whole.another_wins:.0%}"
    )


def _titled(progress: Progress, title: str) -> Progress:
    def shown(items: Iterable[T], description: str, total: int | None = None, done: int = 0) -> Iterable[T]:
        return progress(items, f"{title}: {description}", total, done)

    return shown


def _keep(search: Search, out: Path, done: list[WholeRound]) -> None:
    """Record a round, and remove the checkpoints that no later round can begin with."""
    write_search(search, done, out)
    kept = search.schedule.result([entry.round for entry in done])
    for number in range(len(done) - 1):
        for place in range(len(done[number].round.starts)):
            if (number, place) != kept:
                remove_checkpoints(candidate_folder(out, number, place))


class _Page:
    """The page of a search, written anew after a round, but not more often than once a minute, and at the end."""

    def __init__(self, search: Search, out: Path) -> None:
        self._search, self._out, self._written = search, out, time.monotonic()

    def show(self, done: list[WholeRound], learned: Mapping[str, float] | None = None) -> None:
        """Write the page, and at the end the figures that the method has learned."""
        if learned is not None:
            write_search(self._search, done, self._out, learned)
        elif time.monotonic() - self._written < _SHOWN_EVERY or not any(entry.round.ranked for entry in done):
            return
        write_page(self._search, done, _result(self._search, done).ancestors, learned, self._out)
        self._written = time.monotonic()


def _result(search: Search, done: list[WholeRound]) -> SearchResult:
    number, candidate = search.schedule.result([entry.round for entry in done])
    ancestors: dict[int, int] = {}
    at, place = number, candidate
    while True:
        ancestors[at] = place
        parent = done[at].round.starts[place].parent
        if parent is None:
            break
        at, place = at - 1, parent
    epochs = epochs_trained([entry.round for entry in done], [entry.values for entry in done])
    return SearchResult(tuple(done), number, candidate, epochs, ancestors)


def _publish(out: Path, result: SearchResult) -> None:
    """Turn the folder of the search into the run of its result: recipe, log of its ancestors, and checkpoint."""
    winner = candidate_folder(out, result.number, result.candidate)
    newest = list_checkpoints(winner)[-1] if list_checkpoints(winner) else None
    if newest is not None and not (out / "checkpoints" / newest.name).is_dir():
        write_whole(out / "checkpoints" / newest.name, partial(copy_folder, newest))
    for name in ("people.txt", "run.json", "recipe.yaml"):
        write_whole(out / name, partial(shutil.copyfile, winner / name))
    logs = [candidate_folder(out, number, result.ancestors[number]) / METRICS for number in sorted(result.ancestors)]
    write_whole(out / METRICS, lambda path: path.write_bytes(b"".join(read_file(log, MAX_TABLE) for log in logs)))
    for number, whole in enumerate(result.rounds):
        for place in range(len(whole.round.starts)):
            remove_checkpoints(candidate_folder(out, number, place))


def result_text(search: Search, result: SearchResult) -> str:
    """The rounds as a table, the result, and its cost."""
    names = list(search.space.readable(result.values))
    head = ["round", "to epoch", "candidates", "best", *names, search.reward.title, "spread", "another wins"]
    rows = []
    for number, whole in enumerate(result.rounds):
        best = whole.round.best
        reward, spread = whole.round.measured[best], whole.candidates[best].spread
        rows.append(
            [
                str(number + 1),
                f"{whole.round.starts[0].until:g}",
                str(len(whole.round.starts)),
                str(best + 1),
                *(f"{value:.4g}" for value in search.space.readable(whole.values[best]).values()),
                "diverged" if reward is None else f"{reward:.4f}",
                "" if spread is None else f"{spread:.4f}",
                f"{whole.another_wins:.0%}",
            ]
        )
    values = ", ".join(f"{name} {value:.4g}" for name, value in search.space.readable(result.values).items())
    return "\n".join(
        [
            table(head, rows),
            f"result: candidate {result.candidate + 1} of round {result.number + 1}, {values}; {search.reward.title} "
            f"{result.reward:.4f}, {_selection(result)}",
            f"{result.epochs:g} epochs were trained, {result.epochs / search.schedule.epochs:.3g} times as many as of "
            "one training",
        ]
    )


def _selection(result: SearchResult) -> str:
    """Whether the reward of the result is too high because the result was selected by it."""
    if not selects([whole.round for whole in result.rounds]):
        return "by which nothing was selected, since there was one candidate at a time"
    return "by which it was selected: expect less on people of neither the training nor the reward"
