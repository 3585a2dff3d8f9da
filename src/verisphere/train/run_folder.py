"""The folder of a run: created or reopened, and its log."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

import verisphere
from verisphere.base.words import install_extra
from verisphere.files.class_paths import present_names
from verisphere.files.disk import write_text
from verisphere.files.documents import read_yaml_file
from verisphere.files.metrics import METRICS, metrics_line
from verisphere.models.checkpoint import list_checkpoints
from verisphere.train.recipe import ReadRecipe, with_defaults

log = logging.getLogger(__name__)

#: Files that every run has while it trains, besides its checkpoints.
_ALWAYS_THERE = "recipe.yaml", METRICS

#: Everything that a run writes into its folder.
_OF_A_RUN = (*_ALWAYS_THERE, "people.txt", "run.json", "checkpoints", "tensorboard")


def open_run(read: ReadRecipe, out: Path, resume: bool) -> Path | None:
    """Create the run's folder; or, to resume, check that it holds this recipe's run and find its newest checkpoint."""
    recipe_file = out / "recipe.yaml"
    if resume:
        if not recipe_file.is_file():
            raise ValueError(f"{out} holds no run to resume (no recipe.yaml); start one without --resume")
        _check_same_recipe(read, recipe_file)
        if list_checkpoints(out):
            return list_checkpoints(out)[-1]
        log.info("%s has no checkpoint yet: starting from the beginning", out)
    elif list_checkpoints(out) or _logged(out):  # a run that failed before its first entry may be replaced
        raise ValueError(f"{out} already holds a run; continue it with --resume, or choose another --out")
    elif others := sorted(path.name for path in out.iterdir() if path.name not in _OF_A_RUN and path.name[0] != "."):
        count = "1 file that is" if len(others) == 1 else f"{len(others)} files that are"
        raise ValueError(f"{out} holds {count} not of a run, such as {others[0]}; choose a new folder as --out")
    people = "\n".join(read.recipe.data.people) + "\n"
    write_text(out / "people.txt", people)
    write_text(recipe_file, read.yaml)
    return None


def versions() -> dict[str, str]:
    """Versions of the software that trains, for `run.json` and checkpoints."""
    return {"verisphere": verisphere.__version__, "torch": torch.__version__}


def write_run_json(out: Path, threads: list[int]) -> None:
    """Write how the run is trained, as far as its last bits depend on it; a resumed run replaces the file."""
    text = json.dumps({"format": 1, "threads": threads, **versions()}, indent=2) + "\n"
    write_text(out / "run.json", text)


def require_run_still_there(out: Path) -> None:
    """Refuse to continue in a folder that was removed, moved or emptied while a training wrote to it.

    Files written afterwards would look like a run without its recipe or the beginning of its log.
    """
    missing = [name for name in _ALWAYS_THERE if not (out / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{out}: {' and '.join(missing)} vanished during the training (was the folder removed or moved?); nothing "
            "whole could be left there, so the training was ended; start it again, or continue a moved folder by "
            "--resume"
        )


def _logged(out: Path) -> bool:
    metrics = out / METRICS
    return metrics.exists() and metrics.stat().st_size > 0


def _check_same_recipe(read: ReadRecipe, recipe_file: Path) -> None:
    before = present_names(read_yaml_file(recipe_file))
    if not isinstance(before, dict):
        raise ValueError(f"{recipe_file}: not a recipe; was it changed after the run began?")
    differing = _differing(read.resolved, before)
    if differing:
        with suppress(ValueError):  # fields and arguments that an earlier version did not have yet get their defaults
            differing = _differing(read.resolved, with_defaults(before, read.resolved))
    if differing:
        raise ValueError(f"{recipe_file} differs from the recipe given in: {', '.join(differing)}")


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    return [name for name in sorted(ours.keys() | theirs.keys()) if ours.get(name) != theirs.get(name)]


Record = Callable[[int, dict[str, float]], None]


def event_writer() -> Callable[..., Any]:
    """The event writer of TensorBoard."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(f"TensorBoard is not installed; {install_extra('track')}") from None
    return SummaryWriter


@contextmanager
def recorder(out: Path, writer: Callable[..., Any] | None, first_step: int) -> Iterator[Record]:
    """Append entries to `metrics.jsonl`, and to TensorBoard if a writer is given."""
    events = None
    if writer is not None:
        # a resumed run makes some steps again; TensorBoard then replaces their events
        events = writer(str(out / "tensorboard"), purge_step=first_step + 1 if first_step else None)
    with (out / METRICS).open("a") as file:

        def record(step: int, figures: dict[str, float]) -> None:
            file.write(metrics_line(step, figures))
            file.flush()
            if events is not None:
                for name, value in figures.items():
                    events.add_scalar(name, value, step)

        try:
            yield record
        finally:
            if events is not None:
                events.close()
