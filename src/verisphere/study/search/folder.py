"""The folder of a search.

FOLDER/search.json            what was asked for, and each round that is whole: draws, values, rewards
FOLDER/rounds/R/C/            candidate C of round R: a run as `train` writes it, and reward.json
FOLDER/recipe.yaml, ...       when the search has ended: the run of its result, which any other command takes

Checkpoints of a candidate are kept until no later round can begin with them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import verisphere
from verisphere.files.class_paths import present_names
from verisphere.files.disk import write_text
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json, shown
from verisphere.files.work import begun_before, changed_fields
from verisphere.study.search.definition import Search
from verisphere.study.search.rounds import Round, Start

SEARCH_JSON = "search.json"
#: The definition of a search inside its folder, and the recipe that it names, where an experiment starts it.
SEARCH_YAML, SEARCHED_RECIPE = "search.yaml", "searched_recipe.yaml"
_BESIDE = ("log.txt", SEARCH_YAML, SEARCHED_RECIPE)
FORMAT = 1


@dataclass(frozen=True)
class Candidate:
    """A candidate of a finished round."""

    draw: tuple[float, ...]
    values: dict[str, Any]
    parent: int | None  # number in the round before, from 1; None began anew
    reward: float | None  # None for a candidate that diverged
    spread: float | None  # standard deviation of the reward over redrawn people

    def __post_init__(self) -> None:
        if len(self.draw) != len(self.values):
            raise ValueError(f"a candidate has {len(self.draw)} draws and {len(self.values)} values")
        for name, value in self.values.items():
            if type(value) not in (int, float):
                raise ValueError(f"{name} must be a number, got {shown(value)}")


@dataclass(frozen=True)
class WholeRound:
    """A round whose candidates were all trained and measured, as `search.json` has it."""

    until_epoch: float
    best: int  # number of the candidate with the highest reward, from 1
    another_wins: float  # share of the redrawings of the people in which another candidate is the best
    method: dict[str, float]  # figures that it had learned before the round
    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError("candidates is empty")
        if self.round.best + 1 != self.best:
            raise ValueError(f"best is {self.best}, and candidate {self.round.best + 1} has the highest reward")

    @property
    def round(self) -> Round:
        """The candidates and their rewards, as schedules and methods take them; candidates count from 0 there."""
        starts = (
            Start(one.draw, None if one.parent is None else one.parent - 1, self.until_epoch) for one in self.candidates
        )
        return Round(tuple(starts), tuple(one.reward for one in self.candidates))

    @property
    def values(self) -> tuple[dict[str, float | int], ...]:
        """The values of the searched fields of each candidate."""
        return tuple(one.values for one in self.candidates)


@dataclass(frozen=True)
class _File:
    format: int
    asked: dict[str, Any]
    rounds: tuple[WholeRound, ...]

    def __post_init__(self) -> None:
        if self.format != FORMAT:
            raise ValueError(f"format is {self.format}, and this version reads {FORMAT}")
        for number, (before, after) in enumerate(pairwise(self.rounds), start=1):
            parents = [one.parent for one in after.candidates if one.parent is not None]
            if any(not 1 <= parent <= len(before.candidates) for parent in parents):
                raise ValueError(f"rounds[{number}]: a parent is no candidate of the round before")


def candidate_folder(out: Path, number: int, candidate: int) -> Path:
    """Folder of a candidate; rounds and candidates count from 0 here, and from 1 on the disk."""
    return out / "rounds" / f"{number + 1:04d}" / f"{candidate + 1}"


def described(search: Search) -> dict[str, Any]:
    """The definition of a search, as `search.json` has it."""
    return {"recipe": search.read.resolved, **search.described}


def open_search(search: Search, out: Path) -> None:
    """Open the folder of a search: a new one, or that of the same search."""
    path, asked = out / SEARCH_JSON, json.loads(json.dumps(described(search)))
    if not begun_before(path, "search", lambda: changed_fields(read_search_json(path)[0], asked), _BESIDE):
        write_search(search, [], out)


def write_search(
    search: Search, rounds: Sequence[WholeRound], out: Path, learned: Mapping[str, float] | None = None
) -> None:
    """Write `search.json` completely, or not at all; what the method has learned is None before the search is over."""
    content = {
        "format": FORMAT,
        "verisphere": verisphere.__version__,
        "asked": described(search),
        "reward": search.reward.title,
        "rounds": [asdict(whole) for whole in rounds],
        "learned": learned,
    }
    text = json.dumps(content, indent=1) + "\n"
    write_text(out / SEARCH_JSON, text)


def read_search_json(path: Path) -> tuple[dict[str, Any], list[WholeRound]]:
    """The definition of a search, and its finished rounds."""
    try:
        read = from_json(_File, read_json_file(path))
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}; not what a search writes: was it changed, or is it of a later version?"
        ) from None
    return present_names(read.asked), list(read.rounds)
