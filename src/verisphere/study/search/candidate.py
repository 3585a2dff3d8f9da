"""A candidate of a search: a run that begins with the checkpoint of another, trained for a round, and measured.

Its folder is that of a run as `train` writes it. Candidates of a round see the same images in the same order, with the
same augmentation, since both follow from the recipe's seed and the number of the step.
"""

import json
import logging
import shutil
from dataclasses import dataclass
from math import isnan
from pathlib import Path

import numpy as np

from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Progress, quietly
from verisphere.files.disk import remove_whole, write_text, write_whole
from verisphere.files.documents import LARGEST_JSON, read_json, read_text
from verisphere.files.json_values import from_json
from verisphere.models.checkpoint import list_checkpoints
from verisphere.study.search.reward import Measured, Reward
from verisphere.train.loop import TrainingDiverged
from verisphere.train.recipe import ReadRecipe, Settings, changed_recipe
from verisphere.train.session import train_run

log = logging.getLogger(__name__)

REWARD = "reward.json"


@dataclass(frozen=True)
class Computing:
    """The devices and threads (see `train_run`), and groups of ranks that train candidates side by side."""

    device: str | None = None
    threads: int | None = None
    progress: Progress = quietly
    groups: int = 1


def train_candidate(
    read: ReadRecipe,
    values: Settings,
    folder: Path,
    *,
    parent: Path | None,
    until: int,
    reward: Reward,
    computing: Computing,
) -> None:
    """Train and measure a candidate up to step `until`, and write its reward; all ranks call it together."""
    if on_first_rank(lambda: "measured" if (folder / REWARD).is_file() else ""):
        return
    own = on_every_rank(lambda: changed_recipe(read, values))
    on_first_rank(lambda: _begin(own, folder, parent))
    try:
        train_run(
            own,
            folder,
            resume=True,
            until=until,
            device=computing.device,
            threads=computing.threads,
            progress=computing.progress,
        )
        measured: Measured | None = reward.measure(folder, choose_device(computing.device), computing.progress)
        note = ""
    except TrainingDiverged as error:
        measured, note = None, str(error)
        log.warning("%s: %s", folder, error)
    on_first_rank(lambda: _write(measured, note, folder / REWARD))


def _begin(read: ReadRecipe, folder: Path, parent: Path | None) -> None:
    """Write the recipe of a candidate, and give it the checkpoint of its parent."""
    if parent is not None and not list_checkpoints(folder):
        if not list_checkpoints(parent):
            raise ValueError(
                f"{parent}: its checkpoint, with which {folder.name} begins, is gone; search into another --out"
            )
        newest = list_checkpoints(parent)[-1]
        # the same file under two names where the disk can: a checkpoint is never written to
        write_whole(folder / "checkpoints" / newest.name, lambda partial: copy_folder(newest, partial))
    people = "\n".join(read.recipe.data.people) + "\n"
    write_text(folder / "people.txt", people)
    write_text(folder / "recipe.yaml", read.yaml)


def copy_folder(folder: Path, to: Path) -> None:
    """Copy a checkpoint, or a candidate that is finished, by links where the file system has them."""
    shutil.copytree(folder, to, copy_function=_linked)


def _linked(source: str, target: str) -> None:
    try:
        Path(target).hardlink_to(source)
    except OSError:
        shutil.copyfile(source, target)


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a candidate that no other continues; its log and its reward stay."""
    if (folder / "checkpoints").is_dir():
        remove_whole(folder / "checkpoints")


def _write(measured: Measured | None, note: str, path: Path) -> None:
    fields = (
        {"reward": None, "diverged": note}
        if measured is None
        else {
            "reward": measured.reward,
            "replicates": [None if isnan(number) else number for number in measured.replicates.tolist()],
        }
    )
    write_text(path, json.dumps(fields) + "\n")


def read_reward(folder: Path) -> Measured | None:
    """The reward in a candidate's folder; None for one that diverged."""
    return reward_in(reward_text(folder), folder / REWARD)


def reward_text(folder: Path) -> str:
    """The text of a candidate's `reward.json`."""
    return read_text(folder / REWARD, LARGEST_JSON)


def reward_in(text: str, path: Path) -> Measured | None:
    """See `read_reward`; the text is that of the file, whose path is named in errors."""
    try:
        fields = from_json(_InFile, read_json(text))
    except ValueError as error:
        raise ValueError(f"{path}: {error}; not a reward as a search writes it: was it changed?") from None
    if fields.reward is None:
        return None
    return Measured(fields.reward, np.array(fields.replicates, np.float64))  # None becomes NaN


@dataclass(frozen=True)
class _InFile:
    """The content of `reward.json`; a redrawing in which the reward has no value is null."""

    reward: float | None
    replicates: tuple[float | None, ...] = ()
