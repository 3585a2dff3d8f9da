"""Arms of an experiment that train on the cleaned data of another arm.

An arm states this beside its fields:

    cleaned: {arm: K = 3, angle: 75.0, only_dominant: false, min_images: 1}

Its images are those of the recipe that the rule keeps by the sub-centers of the other arm's training at the same seed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from verisphere.base.words import unknown_name
from verisphere.files.definitions import build, complete
from verisphere.files.disk import write_text
from verisphere.files.documents import read_json_file
from verisphere.files.errors import errors_naming
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.from_run import found_in_run
from verisphere.study.clean.rules import Rule
from verisphere.train.recipe import Settings, read_recipe

CLEANED = "cleaned"
#: Written into the folder of a training after `kept.txt` and `clean.json`, so that both are complete where it exists.
DONE = "cleaned.json"


@dataclass(frozen=True)
class CleanedFrom(Rule):
    """The rule by which the trainings of an arm, by its name, clean the data of another one: the entry of that one."""

    arm: str = field(kw_only=True)


def split_arms(arms: Mapping[str, Settings], key: str) -> tuple[dict[str, Settings], dict[str, Any]]:
    """Split arms into their fields and what they state under a key.

    >>> split_arms({"K = 3": {"subcenters": 3}, "anew": {"cleaned": {"arm": "K = 3"}, "epochs": 2}}, "cleaned")
    ({'K = 3': {'subcenters': 3}, 'anew': {'epochs': 2}}, {'anew': {'arm': 'K = 3'}})
    """
    plain = {name: {own: given[own] for own in given if own != key} for name, given in arms.items()}
    return plain, {name: given[key] for name, given in arms.items() if key in given}


def split_cleaned(arms: Mapping[str, Settings]) -> tuple[dict[str, Settings], dict[str, CleanedFrom]]:
    """Split arms into their fields and their `cleaned` entries."""
    plain, entries = split_arms(arms, CLEANED)
    cleaned: dict[str, CleanedFrom] = {}
    for name, given in entries.items():
        with errors_naming(f"arm {name!r}: {CLEANED}"):
            cleaned[name] = build(CleanedFrom, complete(CleanedFrom, given))
    return plain, cleaned


def over_grid(
    cleaned: Mapping[str, CleanedFrom], arms: Sequence[str], crossing: Sequence[str]
) -> dict[str, CleanedFrom]:
    """The `cleaned` entries of arms that a grid crosses: each point is cleaned by the same point of the other arm."""
    points = len(crossing) // len(arms)
    results = {}
    for name, entry in cleaned.items():
        if entry.arm not in arms:
            raise ValueError(f"arm {name!r}: cleaned: {unknown_name('arm', entry.arm, list(arms))}")
        ours, theirs = arms.index(name) * points, arms.index(entry.arm) * points
        for point in range(points):
            results[crossing[ours + point]] = replace(entry, arm=crossing[theirs + point])
    return results


def waves(arms: Sequence[str], cleaned: Mapping[str, CleanedFrom]) -> list[list[str]]:
    """The arms in the order of their training: those of a wave need only arms of earlier ones.

    >>> one = {"b": CleanedFrom(arm="a"), "c": CleanedFrom(arm="b")}
    >>> waves(["c", "a", "b", "d"], one)
    [['a', 'd'], ['b'], ['c']]
    """
    for name, entry in cleaned.items():
        if entry.arm not in arms:
            raise ValueError(f"arm {name!r}: cleaned: {unknown_name('arm', entry.arm, list(arms))}")
    ordered: list[list[str]] = []
    done: set[str] = set()
    waiting = list(arms)
    while waiting:
        ready = [name for name in waiting if name not in cleaned or cleaned[name].arm in done]
        if not ready:
            circle = waiting[:1]
            while circle[-1] not in circle[:-1]:
                circle.append(cleaned[circle[-1]].arm)
            circle = circle[circle.index(circle[-1]) :]
            raise ValueError(f"cleaned: the arms {' <- '.join(map(repr, circle))} are a circle; one must come first")
        ordered.append(ready)
        done.update(ready)
        waiting = [name for name in waiting if name not in done]
    return ordered


def clean_for(folder: Path, entry: CleanedFrom, source: Path, device: torch.device) -> None:
    """Write `kept.txt` and `clean.json` into a training's folder; anew only while nothing was trained on them."""
    about = {**asdict(entry), "checkpoint": read_checkpoint(source).sha256}
    if (folder / DONE).is_file() and (list_checkpoints(folder) or read_json_file(folder / DONE).get("by") == about):
        return
    # trusted: its recipe, including its code, was given for training
    faces = read_recipe(source / "recipe.yaml", []).recipe.data
    found = found_in_run(source, faces, device=device, trust=True)
    rule = Rule(entry.angle, entry.only_dominant, entry.min_images)
    cleaning = Cleaning.by(rule, found)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DONE).unlink(missing_ok=True)
    cleaning.write(folder)
    result = {"by": about, "figures": _figures(cleaning)}
    write_text(folder / DONE, json.dumps(result, indent=2) + "\n")


def _figures(cleaning: Cleaning) -> dict[str, float]:
    """The figures of a cleaning, as they stand beside those of the training; precision and recall where known."""
    figures = {
        "images_kept": float(cleaning.kept.sum()),
        "images_dropped": float((~cleaning.kept).sum()),
        "identities_lost": float(len(cleaning.lost)),
    }
    if (agreement := cleaning.agreement) is not None:
        names = "precision", "recall", "noise_before", "noise_after"
        figures |= {f"cleaning_{name}": getattr(agreement, name) for name in names}
    return {name: value for name, value in figures.items() if isfinite(value)}


def cleaning_figures(folder: Path) -> dict[str, float]:
    """The figures of the cleaning of a training's data; none where they were not cleaned."""
    path = folder / DONE
    if not path.is_file():
        return {}
    try:
        return {name: float(value) for name, value in read_json_file(path)["figures"].items()}
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{path}: not what an experiment keeps of a cleaning ({error}); was it changed?") from None
