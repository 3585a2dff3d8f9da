"""The loop of sub-center ArcFace: train K sub-centers, clean by them, train one center a class from the start.

Deng et al. 2021 (arXiv:1801.07698v4, section 3.2): a head with K = 3 finds the noise, and after the noise is dropped a
network is trained anew with K = 1. The folder of a loop:

OUT/loop.json                 what was asked for
OUT/first/                    the run with sub-centers
OUT/cleaned/                  kept.txt, clean.json
OUT/second/                   the run with one center a class, on the images of kept.txt
"""

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.device import choose_device
from verisphere.base.distributed import world
from verisphere.base.identity import decided
from verisphere.base.vocabulary import Progress, quietly
from verisphere.files.disk import real_path, write_text
from verisphere.files.documents import read_json_file
from verisphere.files.work import WORK, begun_before, changed_fields, result_folder
from verisphere.images.faces import Faces
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.study.clean.cleaning import JSON, KEPT, Cleaning, cleaned_data
from verisphere.study.clean.from_run import found_in_run
from verisphere.study.clean.page import write_result
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.sub_classes import SamplesInSubClasses
from verisphere.study.clean.truth import truth_of_list
from verisphere.train.loop import TrainingStopped
from verisphere.train.preparation import length_of
from verisphere.train.recipe import ReadRecipe, read_recipe, resolve_recipe
from verisphere.train.session import Measure, train_run

log = logging.getLogger(__name__)

FIRST, CLEANED, SECOND = "first", "cleaned", "second"
#: Sub-centers of the first training if neither the recipe nor the caller states more than 1 (ArcFace, table 3).
SUB_CENTERS = 3
_PLAN = "loop.json"


@dataclass(frozen=True)
class CleanOptions:
    """The settings of the cleaning in the loop; without a list `truth`, true identities are those of the data."""

    rule: Rule
    truth: Path | None = None
    rank_1: bool = False
    batch_size: int = 128

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"--batch-size {self.batch_size}: allowed is 1 image at a time or more")


def clean_folder(
    out: Path, options: CleanOptions, find: Callable[[Path], tuple[SamplesInSubClasses, Faces | None]], title: str
) -> Cleaning:
    """Find sub-classes and write the folder of a cleaning: kept.txt, clean.json and a page. All ranks enter it."""
    with result_folder(out) as work:
        found, faces = find(work)
        truth = options.truth
        if truth is not None:
            known = found.names, found.identities, found.names_rule
            found = replace(found, true_identities=on_every_rank(lambda: truth_of_list(truth, *known)))
        cleaning = Cleaning.by(options.rule, found)
        on_first_rank(lambda: write_result(cleaning, faces, out, title))
    return cleaning


def clean_loop(
    recipe: str | Path,
    overrides: Sequence[str],
    out: Path,
    options: CleanOptions,
    *,
    measure: Measure | None = None,
    device: str | None = None,
    threads: int | None = None,
    progress: Progress = quietly,
) -> Cleaning | None:
    """Train with sub-centers, clean, and train anew on the kept images; a stopped loop continues where it was.

    The second recipe is the first one with one center a class and the data restricted by `Relabelled`; if it starts
    from another run, it takes only the backbone, since classes may be lost. The ranks of a joined group work together,
    and rank 0 writes. The result is None if an earlier call finished the cleaning.
    """
    first = on_every_rank(lambda: _first_recipe(recipe, list(overrides)))
    truth = options.truth
    if truth is not None:  # first, since a list that is refused after a training would waste that training
        data = first.recipe.data
        on_every_rank(lambda: truth_of_list(truth, data.names, data.identities, data.names_rule))
    measured = {"truth": None if truth is None else str(real_path(truth)), "rank_1": options.rank_1}
    asked = {"recipe": first.resolved, "names": first.recipe.data.names_rule}
    on_first_rank(lambda: _open(out, {**asked, "rule": asdict(options.rule), "measured": measured}))
    session: dict[str, Any] = {"measure": measure, "device": device, "threads": threads, "progress": progress}
    _train(first, out / FIRST, session)
    done = on_first_rank(lambda: "done" if _is_clean(out / CLEANED) else "")
    cleaning = None
    if done:
        log.info("%s: finished before", out / CLEANED)
    else:
        find = partial(
            found_in_run,
            out / FIRST,
            first.recipe.data,
            device=choose_device(device),
            batch_size=options.batch_size,
            workers=first.recipe.workers,
            trust=True,  # trusted: its recipe, including its code, was given for training
            rank_1=options.rank_1,
            progress=progress,
        )
        cleaning = clean_folder(out / CLEANED, options, lambda work: (find(work=work), first.recipe.data), str(recipe))
    on_first_rank(lambda: _write_second(first, out))
    _train(on_every_rank(lambda: read_recipe(out / SECOND / "recipe.yaml", [])), out / SECOND, session)
    return cleaning


def _first_recipe(recipe: str | Path, overrides: list[str]) -> ReadRecipe:
    """The recipe with sub-centers, which states how the caller takes names where it leaves this open."""
    stated = resolve_recipe(recipe, overrides)
    subcenters = stated["subcenters"] if stated["subcenters"] > 1 else SUB_CENTERS
    how, arguments = decided(), stated["data"].get("init_args", {})
    rule = [f"--data.init_args.names={how}"] if how is not None and arguments.get("names", how) is None else []
    return read_recipe(recipe, [*overrides, f"--subcenters={subcenters}", *rule])


def _open(out: Path, asked: dict[str, Any]) -> None:
    """Create the folder of a loop, or check that it is that of the same one."""
    plan, asked = out / _PLAN, json.loads(json.dumps(asked))
    if not begun_before(plan, "loop", lambda: changed_fields(read_json_file(plan), asked)):
        write_text(plan, json.dumps(asked, indent=2) + "\n")


def _is_clean(folder: Path) -> bool:
    return (folder / KEPT).is_file() and (folder / JSON).is_file() and not (folder / WORK).exists()


def _train(read: ReadRecipe, folder: Path, session: dict[str, Any]) -> None:
    """Train, from the newest checkpoint if there is one; a finished training is not repeated."""

    def state() -> str:
        newest = list_checkpoints(folder)
        if newest and read_checkpoint(newest[-1]).step >= length_of(read.recipe).steps:
            return "finished"
        return "begun" if (folder / "recipe.yaml").is_file() else ""

    before = on_first_rank(state)
    if before == "finished":
        log.info("%s: finished before", folder)
        return
    if world().first:
        log.info("%s: training", folder)
    try:
        train_run(read, folder, resume=before == "begun", **session)
    except TrainingStopped as stopped:
        stopped.advice = "the same command continues"
        raise


def _write_second(first: ReadRecipe, out: Path) -> None:
    """Write the recipe of the second training, unless it is there."""
    path = out / SECOND / "recipe.yaml"
    if path.is_file():
        return
    data = cleaned_data(first.resolved["data"], real_path(out / CLEANED))
    fields = {**first.resolved, "subcenters": 1, "data": data}
    if fields["start"] is not None:
        fields["start_head"] = False
    write_text(path, replace(first, resolved=fields).yaml)
