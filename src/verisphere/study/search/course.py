"""The course of a search, for its page: the candidates of each round, with their rewards and losses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from verisphere.files.metrics import METRICS, read_metrics
from verisphere.study.search.candidate import read_reward
from verisphere.study.search.definition import Search
from verisphere.study.search.folder import WholeRound, candidate_folder
from verisphere.study.search.maps import Logarithmic
from verisphere.study.search.noise import another_wins, too_high
from verisphere.study.search.reward import Measured


@dataclass(frozen=True)
class Tried:
    """A candidate of a search.

    Attributes:
        at: place on the horizontal axis: the epoch up to which the candidate was trained, or the number of a whole
            training.
        reward: reward of the candidate; None if its training diverged.
        spread: standard deviation of the reward over redrawn people; None if there is none.
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
    """A round of a search, and how often another candidate than the best would win, and how much too high it may be."""

    title: str
    tried: Sequence[Tried]
    another_wins: float
    too_high: float

    @property
    def best(self) -> Tried:
        """The best candidate."""
        return next(one for one in self.tried if one.best)


class Course:
    """The course of a search; see `write_page` for the arguments."""

    def __init__(
        self,
        search: Search,
        whole: Sequence[WholeRound],
        ancestors: Mapping[int, int],
        learned: Mapping[str, float] | None,
        out: Path,
    ) -> None:
        self.search, self.whole, self.ancestors, self.learned, self._out = search, whole, ancestors, learned, out

    @cached_property
    def rounds(self) -> list[RoundShown]:
        """The rounds; whole trainings count as one round, since the result is the best of all of them."""
        shown: list[RoundShown] = []
        for number, entry in enumerate(self.whole):
            tried = []
            for place, start in enumerate(entry.round.starts):
                continued = () if start.parent is None else shown[-1].tried[start.parent].losses[-1:]
                readable = self.search.space.readable(entry.values[place])
                tried.append(
                    Tried(
                        at=float(start.until),
                        values={name: float(value) for name, value in readable.items()},
                        reward=entry.round.measured[place],
                        spread=entry.candidates[place].spread,
                        best=place == entry.round.best,
                        descends=self.ancestors.get(number) == place,
                        losses=[*continued, *_losses(candidate_folder(self._out, number, place))],
                    )
                )
            title = f"{number + 1}, to epoch {entry.round.starts[0].until:g}"
            shown.append(RoundShown(title, tried, entry.another_wins, too_high(self._measured(number))))
        if not self.search.schedule.whole:
            return shown
        measured = [one for number in range(len(shown)) for one in self._measured(number)]
        tried = [one for entry in shown for one in entry.tried]
        tried = [replace(one, at=float(number), best=one.descends) for number, one in enumerate(tried, start=1)]
        best = next(place for place, one in enumerate(tried) if one.best)
        return [RoundShown("all", tried, another_wins(measured, best), too_high(measured))]

    @cached_property
    def tried(self) -> list[Tried]:
        """The candidates of all rounds."""
        return [one for entry in self.rounds for one in entry.tried]

    @property
    def several(self) -> list[RoundShown]:
        """The rounds of several candidates, of which the best was selected."""
        return [entry for entry in self.rounds if len(entry.tried) > 1]

    @property
    def position(self) -> str:
        """Label of the horizontal axes."""
        return "number of the training" if self.search.schedule.whole else "epoch"

    @property
    def logarithmic(self) -> set[str]:
        """Names of the values that are drawn on a logarithmic scale."""
        space = self.search.space
        start = space.values(space.start.tolist())
        shown_by = [  # the map of each shown value; a modulating factor is shown as a margin, too
            of_field
            for field, of_field in zip(space.fields, space.maps, strict=True)
            for _ in of_field.readable(start[field])
        ]
        names = zip(space.readable(start), shown_by, strict=True)
        return {name for name, of_field in names if isinstance(of_field, Logarithmic)}

    @cached_property
    def means(self) -> dict[str, list[tuple[float, float]]]:
        """The mean of the method's distribution, if it has one, in values of the fields, by round and at the end."""
        space = self.search.space
        states = [*(entry.method for entry in self.whole), *([] if self.learned is None else [self.learned])]
        if self.search.schedule.whole:
            at = np.cumsum([0, *(len(entry.round.starts) for entry in self.whole)]).tolist()
        else:
            at = [0.0, *(entry.round.starts[0].until for entry in self.whole)]
        means: dict[str, list[tuple[float, float]]] = {}
        for place, state in zip(at, states, strict=False):
            names = [f"mean_{number}" for number in range(len(space.fields))]
            if any(name not in state for name in names):
                return {}
            for name, value in space.readable(space.values([state[name] for name in names])).items():
                means.setdefault(name, []).append((place, value))
        return means

    def _measured(self, number: int) -> list[Measured | None]:
        count = len(self.whole[number].round.starts)
        return [read_reward(candidate_folder(self._out, number, place)) for place in range(count)]


def _losses(folder: Path) -> list[tuple[float, float]]:
    logged = [(entry.get("epoch"), entry.get("loss")) for entry in read_metrics(folder / METRICS)]
    return [(float(epoch), float(loss)) for epoch, loss in logged if epoch is not None and loss is not None]
