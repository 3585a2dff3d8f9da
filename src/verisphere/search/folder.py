"""The folder of a search.

FOLDER/search.json            what was asked for, and each round that is whole: draws, values, rewards
FOLDER/rounds/R/C/            candidate C of round R: a run as `train` writes it, and reward.json
FOLDER/recipe.yaml, ...       when the search has ended: the run of its result, which any other command takes

Checkpoints of a candidate are kept until no later round can begin with them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import verisphere
from verisphere.files.class_paths import present_names
from verisphere.files.disk import write_whole
from verisphere.files.documents import read_json_file
from verisphere.search.definition import Search
from verisphere.search.rounds import Round, Start

SEARCH_JSON = "search.json"
#: The definition of a search inside its folder, and the recipe that it names, where an experiment starts it.
SEARCH_YAML, SEARCHED_RECIPE = "search.yaml", "searched_recipe.yaml"
_BESIDE = (".lock", "log.txt", SEARCH_YAML, SEARCHED_RECIPE)
FORMAT = 1


@dataclass(frozen=True)
class WholeRound:
    """A round of which every candidate was trained and measured.

    Attributes:
        round: its candidates.
        values: fields of each candidate.
        spreads: standard deviation of each reward over redrawn people; None for a candidate that diverged.
        another_wins: share of the redrawings of the people in which another candidate would have been the best.
        method: what the method had learned before the round.
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
    """What a search was asked for, as it stands in `search.json`."""
    return {"recipe": search.read.resolved, **search.described}


def open_search(search: Search, out: Path) -> None:
    """Open the folder of a search: a new one, or that of the same search.

    Raises:
        ValueError: the folder holds something else, or another search.
    """
    path = out / SEARCH_JSON
    asked = json.loads(json.dumps(described(search)))
    if not path.is_file():
        if out.is_dir() and any(entry.name not in _BESIDE for entry in out.iterdir()):
            raise ValueError(f"{out}: it holds something, and no search; choose another --out")
        write_search(search, [], out)
        return
    before, _ = read_search_json(path)
    differing = [name for name in asked.keys() | before.keys() if asked.get(name) != before.get(name)]
    if differing:
        raise ValueError(f"{path}: this folder holds another search, by its {', '.join(sorted(differing))}")


def write_search(
    search: Search, rounds: Sequence[WholeRound], out: Path, learned: Mapping[str, float] | None = None
) -> None:
    """Write `search.json`, whole or not at all.

    Args:
        search: the search.
        rounds: its rounds that are whole.
        out: folder of the search.
        learned: what the method has learned after the last round; None while the search goes on.
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
    write_whole(out / SEARCH_JSON, lambda partial: partial.write_text(text, encoding="utf-8"))


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
    """What a search was asked for, and the rounds that are whole.

    Raises:
        ValueError: the file is not one that `write_search` writes.
    """
    try:
        content = read_json_file(path)
        if content["format"] != FORMAT:
            raise ValueError
        return present_names(content["asked"]), [_round(entry) for entry in content["rounds"]]
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        raise ValueError(f"{path}: not what a search writes; was it changed, or is it of a later version?") from None


def _round(entry: Mapping[str, Any]) -> WholeRound:
    candidates = entry["candidates"]
    starts = tuple(
        Start(
            tuple(float(number) for number in candidate["draw"]),
            None if candidate["parent"] is None else int(candidate["parent"]) - 1,
            float(entry["until_epoch"]),
        )
        for candidate in candidates
    )
    whole = WholeRound(
        Round(starts, tuple(candidate["reward"] for candidate in candidates)),
        tuple(dict(candidate["values"]) for candidate in candidates),
        tuple(candidate["spread"] for candidate in candidates),
        float(entry["another_wins"]),
        dict(entry["method"]),
    )
    if whole.round.best + 1 != entry["best"]:
        raise ValueError
    return whole
