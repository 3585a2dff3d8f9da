"""From a recipe to a run: a folder with the resolved recipe, checkpoints and metrics."""

import hashlib
import json
import logging
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import yaml

import verisphere
from verisphere.compiling import compiled
from verisphere.data.augment import augment
from verisphere.data.faces import Faces
from verisphere.data.files import write_whole
from verisphere.data.loader import batches, epoch_order
from verisphere.data.memory import in_memory
from verisphere.data.seeds import Stream, mixed_seed
from verisphere.data.select import positions_with_images, require_people
from verisphere.embed.backbone import Backbone
from verisphere.embed.extract import extract
from verisphere.head.head import Head
from verisphere.protocols import all_pairs
from verisphere.train.checkpoint import (
    Checkpoint,
    list_checkpoints,
    load_into,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    save_checkpoint,
)
from verisphere.train.loop import Plan, Sample, train
from verisphere.train.objective import Objective
from verisphere.train.recipe import ReadRecipe, Recipe
from verisphere.vocabulary import Progress, quietly
from verisphere.workflows.device import choose_device

log = logging.getLogger(__name__)

PRECISION = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def train_run(
    read: ReadRecipe,
    out: Path,
    *,
    resume: bool = False,
    device: str | None = None,
    tensorboard: bool = False,
    progress: Progress = quietly,
) -> Objective:
    """Train as a recipe says; `out` receives `recipe.yaml`, `people.txt`, `metrics.jsonl` and `checkpoints/`.

    Ctrl-C and SIGTERM leave a checkpoint after the step under way and raise `TrainingStopped`. The recipe's own
    backbone and loss are trained, so a recipe is read anew for each run.

    Args:
        read: the recipe.
        out: folder of the run; a new one, unless the run is resumed.
        resume: go on from the newest checkpoint in `out`, or from the start where a run was stopped before its first;
            recipe and data must be the run's own.
        device: where to train; a GPU where there is one, by default.
        tensorboard: write TensorBoard events too (extra `track`).
        progress: shown over the steps.

    Raises:
        ValueError: fewer than two people, too few images for a batch, nothing that validation could measure, a run in
            the way, a recipe or data that differ from the run's, a damaged checkpoint.
        TrainingDiverged: a loss or gradient is not finite.
        TrainingStopped: a signal asked to stop.
    """
    recipe = read.recipe
    plan = _plan(recipe)
    place = choose_device(device)
    writer = _event_writer() if tensorboard else None
    objective, optimizer = _objective(recipe, place)
    if recipe.validation is not None:
        _check_validation(objective.backbone, recipe.validation)
    data = _data(recipe.data)
    checkpoint = _open_run(read, out, resume)
    if checkpoint is not None:
        _load(checkpoint, data, objective, optimizer)
        log.info("resuming after step %d of %d", checkpoint.step, plan.steps)
    first_step = 0 if checkpoint is None else checkpoint.step
    _cut_metrics(out / "metrics.jsonl", first_step)
    log.info(
        "%d images of %d people; %s on %s; %d steps",
        len(recipe.data), len(recipe.data.people), type(recipe.backbone).__name__, place, plan.steps,
    )  # fmt: skip
    faces = in_memory(recipe.data, recipe.workers, progress) if recipe.in_memory else recipe.data

    def save(step: int) -> None:
        parts = {
            "backbone": dict(objective.backbone.state_dict()),
            "head": dict(objective.head.state_dict()),
            "optimizer": optimizer_tensors(optimizer),
        }
        state = {
            "backbone": read.resolved["backbone"],
            "seed": recipe.seed,
            "data": data,
            "verisphere": verisphere.__version__,
            "torch": torch.__version__,
        }
        save_checkpoint(out, step, parts, state)

    def validate() -> dict[str, float]:
        assert recipe.validation is not None
        embeddings = extract(objective.backbone, recipe.validation, workers=recipe.workers, progress=progress)
        pooled = replace(embeddings, domains=None)  # one figure for all; a domain may be too small to have its own
        points = all_pairs(pooled, recipe.validation_far).operating_points
        return {f"validation_tar_at_far_{point.far_target}": point.tar for point in points}

    samples = progress(_samples(recipe, faces, place, plan, first_step), "training", plan.steps - first_step)
    with _recorder(out, writer, first_step) as record, _signals() as stopping:
        train(
            objective,
            optimizer,
            samples,
            plan,
            first_step=first_step,
            record=record,
            save=save,
            validate=validate if recipe.validation is not None else None,
            stopping=stopping,
            seed=recipe.seed,
        )
    return objective


def _plan(recipe: Recipe) -> Plan:
    """How long and how often, in steps."""
    require_people(recipe.data)
    steps_per_epoch = len(recipe.data) // recipe.batch_size
    if not steps_per_epoch:
        raise ValueError(f"{len(recipe.data)} images do not fill one batch of {recipe.batch_size}; lower batch_size")
    return Plan(
        steps_per_epoch=steps_per_epoch,
        epochs=recipe.epochs,
        rate=recipe.optimizer.rate,
        schedule=recipe.schedule,
        clip=recipe.clip,
        log_every=recipe.log_every,
        save_every=max(round(recipe.save_every * steps_per_epoch), 1),
        validate_every=max(round(recipe.validate_every * steps_per_epoch), 1) if recipe.validate_every else 0,
    )


def _objective(recipe: Recipe, device: torch.device) -> tuple[Objective, torch.optim.Optimizer]:
    # A seed of their own: the centers depend on the recipe alone, not on what drew random numbers since it was read.
    torch.manual_seed(mixed_seed(Stream.CENTERS, recipe.seed))
    head = Head(
        recipe.loss,
        len(recipe.data.people),
        recipe.backbone.embedding_size,
        recipe.subcenters,
        recipe.engine,
        recipe.head_precision,
        recipe.pooling,
        pull_together=recipe.pull_together,
    )
    backbone = recipe.backbone.to(memory_format=torch.channels_last).to(device)  # type: ignore[call-overload]
    run = compiled(backbone, device) if recipe.compile else None
    objective = Objective(backbone, head, PRECISION[recipe.precision], run).to(device)
    return objective, recipe.optimizer.build(objective, head)


def _check_validation(backbone: Backbone, faces: Faces) -> None:
    """Refuse before the training what would fail after it: a set without pairs, or images that the backbone refuses."""
    try:
        require_people(faces)
        positions_with_images(faces.identities, at_least=2)
        extract(backbone, faces.select([0]))
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error


def _data(faces: Faces) -> dict[str, int | str]:
    """What a resumed run must find again: the same images of the same people in the same order."""
    digest = hashlib.sha256()
    for name, person in zip(faces.names, faces.identities, strict=True):
        digest.update(f"{name}\t{person}\n".encode())
    return {"images": len(faces), "people": len(faces.people), "sha256": digest.hexdigest()}


def _open_run(read: ReadRecipe, out: Path, resume: bool) -> Checkpoint | None:
    """Make the run's folder; or check that it holds this recipe's run, and find its newest checkpoint."""
    recipe_file = out / "recipe.yaml"
    if resume:
        if not recipe_file.is_file():
            raise ValueError(f"{out} holds no run to resume (no recipe.yaml); start one without --resume")
        _check_same_recipe(read, recipe_file)
        if list_checkpoints(out):
            return read_checkpoint(out)
        log.info("%s has no checkpoint yet: starting from the beginning", out)
    elif list_checkpoints(out) or _logged(out):  # a run that failed before it did anything is not in the way
        raise ValueError(f"{out} already holds a run; go on with --resume, or choose another --out")
    people = "\n".join(read.recipe.data.people) + "\n"
    write_whole(out / "people.txt", lambda path: path.write_text(people))
    write_whole(recipe_file, lambda path: path.write_text(read.yaml))
    return None


def _logged(out: Path) -> bool:
    metrics = out / "metrics.jsonl"
    return metrics.exists() and metrics.stat().st_size > 0


def _check_same_recipe(read: ReadRecipe, recipe_file: Path) -> None:
    try:
        before = yaml.safe_load(recipe_file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{recipe_file}: not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(before, dict):
        raise ValueError(f"{recipe_file}: not a recipe; was it changed after the run began?")
    names = sorted(read.resolved.keys() | before.keys())
    differing = [name for name in names if read.resolved.get(name) != before.get(name)]
    if differing:
        raise ValueError(f"{recipe_file} differs from the recipe given in: {', '.join(differing)}")


def _load(
    checkpoint: Checkpoint, data: dict[str, int | str], objective: Objective, optimizer: torch.optim.Optimizer
) -> None:
    before = checkpoint.state.get("data")
    if before != data:
        held = f"{before['images']} images of {before['people']} people" if isinstance(before, dict) else "unknown data"
        raise ValueError(
            f"{checkpoint.path} was trained on {held} but the recipe's data are now {data['images']} of "
            f"{data['people']}, or others; restore them, or start another run"
        )
    load_into(objective.backbone, checkpoint.tensors("backbone"), f"{checkpoint.path}: backbone")
    load_into(objective.head, checkpoint.tensors("head"), f"{checkpoint.path}: head")
    load_optimizer(optimizer, checkpoint.tensors("optimizer"), f"{checkpoint.path}: optimizer")


def _cut_metrics(path: Path, step: int) -> None:
    """Drop what was logged after the checkpoint: those steps are made again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            if json.loads(line)["step"] > step:
                break  # steps only grow
        except (ValueError, KeyError, TypeError):
            break  # the last line of a killed run
        kept.append(line)
    write_whole(path, lambda partial: partial.write_bytes(b"".join(kept)))


def _samples(recipe: Recipe, faces: Faces, device: torch.device, plan: Plan, first_step: int) -> Iterator[Sample]:
    """Batches from `first_step` to the end, each the same whether or not the run was interrupted before it."""
    labels = faces.labels
    workers = 0 if recipe.in_memory else recipe.workers  # taking rows of a tensor is no work for another process
    step = first_step
    while step < plan.steps:
        epoch, inside = divmod(step, plan.steps_per_epoch)
        order = epoch_order(len(faces), recipe.seed, epoch)[inside * recipe.batch_size :]
        for batch in batches(faces, order, recipe.batch_size, workers, drop_last=True, pin=device.type == "cuda"):
            images = augment(
                batch.images.to(device, non_blocking=True),
                recipe.augment,
                mixed_seed(Stream.AUGMENTATION, recipe.seed, step),
                recipe.backbone.mean,
                recipe.backbone.scale,
            )

            def records(positions: Sequence[int], indices: torch.Tensor = batch.indices) -> list[str]:
                return [faces.names[int(indices[position])] for position in positions]

            yield Sample(images, labels[batch.indices].to(device, non_blocking=True), records)
            step += 1
            if step == plan.steps:
                return


Record = Callable[[int, dict[str, float]], None]


def _event_writer() -> Callable[..., Any]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("TensorBoard is not installed: pip install 'verisphere[track]'") from None
    return SummaryWriter


@contextmanager
def _recorder(out: Path, event_writer: Callable[..., Any] | None, first_step: int) -> Iterator[Record]:
    """Appends entries to `metrics.jsonl`, and to TensorBoard where that is asked for."""
    events = None
    if event_writer is not None:
        # a resumed run makes some steps again: what was shown for them is replaced
        events = event_writer(str(out / "tensorboard"), purge_step=first_step + 1 if first_step else None)
    with (out / "metrics.jsonl").open("a") as file:

        def record(step: int, figures: dict[str, float]) -> None:
            finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
            file.write(json.dumps({"step": step, **finite}) + "\n")
            file.flush()
            if events is not None:
                for name, value in figures.items():
                    events.add_scalar(name, value, step)

        try:
            yield record
        finally:
            if events is not None:
                events.close()


@contextmanager
def _signals() -> Iterator[Callable[[], int | None]]:
    """Turns Ctrl-C and SIGTERM into a request; a second one ends the process as it would have."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # a signal that is ignored (a job in the background) stays ignored; None is a handler that Python cannot put back
    before = {number: one for number, one in handlers.items() if one not in (signal.SIG_IGN, None)}
    process = os.getpid()

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])
        if os.getpid() == process:  # reading workers inherit this; they go on until the step is done
            log.warning("stopping after this step, with a checkpoint")

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
