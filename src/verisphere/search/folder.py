"""The folder of a search.

FOLDER/search.json            what was asked for, and each round that is whole: draws, values, rewards
FOLDER/rounds/R/C/            candidate C of round R: a run as `train` writes it, and reward.json
FOLDER/recipe.yaml, ...       when the search has ended: the run of its result, which any other command takes

Checkpoints of a candidate are kept until no later round can begin with them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import verisphere
from verisphere.files.class_paths import present_names
from verisphere.files.disk import write_text
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import from_json, shown
from verisphere.search.definition import Search
from verisphere.search.rounds import Round, Start
from verisphere.train.settings import changed_values

SEARCH_JSON = "search.json"
#: The definition of a search inside its folder, and the recipe that it names, where an experiment starts it.
SEARCH_YAML, SEARCHED_RECIPE = "search.yaml", "searched_recipe.yaml"
_BESIDE = (".lock", "log.txt", SEARCH_YAML, SEARCHED_RECIPE)
FORMAT = 1


@dataclass(frozen=True)
class WholeRound:
    """A round whose candidates were all trained and measured.

    Attributes:
        round: the candidates and their rewards.
        values: fields of each candidate.
        spreads: standard deviation of each reward over redrawn people; None for a candidate that diverged.
        another_wins: share of the redrawings of the people in which another candidate would have been the best.
        method: figures that the method had learned before the round.
    """

    round: Round
    values: tuple[dict[str, float | int], ...]
    spreads: tuple[float | None, ...]
    another_wins: float
    method: dict[str, float]


def candidate_folder(out: Path, number: int, candidate: int) -> Path:
    """Folder of a candidate; rounds and candidates count from 0 here, and from 1 on the disk."""
    return out / "rounds" / f"{number + 1:04d}" / f"{candidate + 1}"


def described(search: Search) -> dict[str, Any]:
    """The definition of a search, as `search.json` has it."""
    return {"recipe": search.read.resolved, **search.described}


def open_search(search: Search, out: Path) -> None:
    """Open the folder of a search: a new one, or that of the same search."""
    path = out / SEARCH_JSON
    asked = json.loads(json.dumps(described(search)))
    if not path.is_file():
        if out.is_dir() and any(entry.name not in _BESIDE for entry in out.iterdir()):
            raise ValueError(f"{out}: it holds something, and no search; choose another --out")
        write_search(search, [], out)
        return
    before, _ = read_search_json(path)
    differing = [text for name in asked for text in changed_values(name, before.get(name), asked[name])]
    if differing:
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ValueError(
            f"{path}: this folder holds another search: {'; '.join(differing[:3])}{more}; choose another --out"
        )


def write_search(
    search: Search, rounds: Sequence[WholeRound], out: Path, learned: Mapping[str, float] | None = None
) -> None:
    """Write `search.json` completely, or not at all.

    Args:
        search: the search.
        rounds: the finished rounds.
        out: folder of the search.
        learned: figures that the method has learned after the last round; None while the search continues.
    """
    content = {
        "format": FORMAT,
        "verisphere": verisphere.__version__,
        "asked": described(search),
        "reward": search.reward.title,
        "rounds": [_plain(whole) for whole in rounds],
        "learned": learned,
    }
    text = json.dumps(content, indent=1) + "\n"
    write_text(out / SEARCH_JSON, text)


def _plain(whole: WholeRound) -> dict[str, Any]:
    return {
        "until_epoch": whole.round.starts[0].until,
        "best": whole.round.best + 1,
        "another_wins": whole.another_wins,
        "method": whole.method,
        "candidates": [
            {
                "draw": list(start.draw),
                "values": values,
                "parent": None if start.parent is None else start.parent + 1,
                "reward": reward,
                "spread": spread,
            }
            for start, values, reward, spread in zip(
                whole.round.starts, whole.values, whole.round.measured, whole.spreads, strict=True
            )
        ],
    }


def read_search_json(path: Path) -> tuple[dict[str, Any], list[WholeRound]]:
    """The definition of a search, and its finished rounds."""
    try:
        read = from_json(_File, read_json_file(path))
        if read.format != FORMAT:
            raise ValueError(f"format is {read.format}, and this version reads {FORMAT}")
        rounds = [_round(entry, number) for number, entry in enumerate(read.rounds)]
        for number, (before, after) in enumerate(pairwise(rounds), start=1):
            parents = [start.parent for start in after.round.starts if start.parent is not None]
            if any(not 0 <= parent < len(before.round.starts) for parent in parents):
                raise ValueError(f"rounds[{number}]: a parent is no candidate of the round before")
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}; not what a search writes: was it changed, or is it of a later version?"
        ) from None
    return present_names(read.asked), rounds


@dataclass(frozen=True)
class _Candidate:
    draw: tuple[float, ...]
    values: dict[str, Any]
    parent: int | None
    reward: float | None
    spread: float | None


@dataclass(frozen=True)
class _RoundInFile:
    until_epoch: float
    best: int
    another_wins: float
    method: dict[str, float]
    candidates: tuple[_Candidate, ...]


@dataclass(frozen=True)
class _File:
    format: int
    asked: dict[str, Any]
    rounds: tuple[_RoundInFile, ...]


def _round(entry: _RoundInFile, number: int) -> WholeRound:
    where = f"rounds[{number}]"
    if not entry.candidates:
        raise ValueError(f"{where}.candidates is empty")
    for candidate in entry.candidates:
        if len(candidate.draw) != len(candidate.values):
            raise ValueError(f"{where}: a candidate has {len(candidate.draw)} draws and {len(candidate.values)} values")
        for name, value in candidate.values.items():
            if type(value) not in (int, float):
                raise ValueError(f"{where}: {name} is {shown(value)}, not a number")
    starts = tuple(
        Start(one.draw, None if one.parent is None else one.parent - 1, entry.until_epoch) for one in entry.candidates
    )
    whole = WholeRound(
        Round(starts, tuple(one.reward for one in entry.candidates)),
        tuple(one.values for one in entry.candidates),
        tuple(one.spread for one in entry.candidates),
        entry.another_wins,
        entry.method,
    )
    if whole.round.best + 1 != entry.best:
        raise ValueError(f"{where}.best is {entry.best}, and candidate {whole.round.best + 1} has the highest reward")
    return whole
