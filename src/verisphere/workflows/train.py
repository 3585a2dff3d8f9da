"""From a recipe to a run: a folder with the resolved recipe, checkpoints and metrics."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
import yaml

import verisphere
from verisphere.data.augment import augment
from verisphere.data.faces import Faces
from verisphere.data.files import write_whole
from verisphere.data.loader import batches, epoch_order
from verisphere.data.memory import in_memory
from verisphere.data.select import require_people
from verisphere.embed.compiling import compiled
from verisphere.embed.extract import extract
from verisphere.head.head import Head
from verisphere.protocols import all_pairs
from verisphere.train.checkpoint import (
    list_checkpoints,
    load_into,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    save_checkpoint,
)
from verisphere.train.loop import Sample, Settings, train
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

    Ctrl-C and SIGTERM leave a checkpoint after the step under way and raise `TrainingStopped`.

    Args:
        read: the recipe.
        out: folder of the run; a new one, unless the run is resumed.
        resume: go on from the newest checkpoint in `out`; the recipe must be the run's own.
        device: where to train; a GPU where there is one, by default.
        tensorboard: write TensorBoard events too (extra `track`).
        progress: shown over the steps.

    Raises:
        ValueError: fewer than two people, too few images for a batch, a run in the way, a recipe that differs.
        TrainingDiverged: a loss or gradient is not finite.
        TrainingStopped: a signal asked to stop.
    """
    recipe = read.recipe
    require_people(recipe.data)
    steps_per_epoch = len(recipe.data) // recipe.batch_size
    if not steps_per_epoch:
        raise ValueError(f"{len(recipe.data)} images do not fill one batch of {recipe.batch_size}; lower batch_size")
    settings = Settings(
        steps_per_epoch=steps_per_epoch,
        epochs=recipe.epochs,
        rate=recipe.optimizer.rate,
        schedule=recipe.schedule,
        clip=recipe.clip,
        log_every=recipe.log_every,
        save_every=max(round(recipe.save_every * steps_per_epoch), 1),
        validate_every=round(recipe.validate_every * steps_per_epoch),
    )
    place = choose_device(device)
    objective, optimizer = _objective(recipe, place)
    first_step = _prepare_folder(read, out, resume)
    if first_step:
        checkpoint = read_checkpoint(out)
        load_into(objective.backbone, checkpoint.tensors("backbone"), str(checkpoint.path))
        load_into(objective.head, checkpoint.tensors("head"), str(checkpoint.path))
        load_optimizer(optimizer, checkpoint.tensors("optimizer"))
        log.info("resuming after step %d of %d", first_step, settings.steps)
    log.info(
        "%d images of %d people; %s on %s; %d steps",
        len(recipe.data), len(recipe.data.people), type(recipe.backbone).__name__, place, settings.steps,
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
            "classes": len(faces.people),
            "verisphere": verisphere.__version__,
            "torch": torch.__version__,
        }
        save_checkpoint(out, step, parts, state)

    def validate() -> dict[str, float]:
        assert recipe.validation is not None
        embeddings = extract(objective.backbone, recipe.validation, workers=recipe.workers, progress=progress)
        points = all_pairs(embeddings, recipe.validation_far).operating_points
        return {f"validation_tar_at_far_{point.far_target}": point.tar for point in points}

    samples = progress(
        _samples(recipe, faces, place, settings, first_step),
        "training",
        settings.steps - first_step,
    )
    with _recorder(out, tensorboard) as record, _signals() as stopping:
        train(
            objective,
            optimizer,
            samples,
            settings,
            first_step=first_step,
            record=record,
            save=save,
            validate=validate if recipe.validation is not None else None,
            stopping=stopping,
            seed=recipe.seed,
        )
    return objective


def _objective(recipe: Recipe, device: torch.device) -> tuple[Objective, torch.optim.Optimizer]:
    head = Head(recipe.loss, len(recipe.data.people), recipe.backbone.embedding_size, recipe.subcenters, recipe.engine)
    objective = Objective(recipe.backbone, head, PRECISION[recipe.precision])
    objective.backbone.to(memory_format=torch.channels_last)
    objective.to(device)
    if recipe.compile:
        objective.run_backbone = compiled(objective.backbone, device)
    return objective, recipe.optimizer.build(objective)


def _prepare_folder(read: ReadRecipe, out: Path, resume: bool) -> int:
    """Make the run's folder, or check that it holds this recipe's run; returns the steps made already."""
    recipe_file, held = out / "recipe.yaml", list_checkpoints(out)
    if recipe_file.exists() and not resume:
        raise ValueError(f"{out} already holds a run; go on with --resume, or choose another --out")
    if resume and not held:
        raise ValueError(f"{out} has no checkpoint to resume from")
    if resume:
        before = yaml.safe_load(recipe_file.read_text())
        differing = sorted(name for name in read.resolved if read.resolved[name] != before.get(name))
        if differing:
            raise ValueError(f"{recipe_file} differs from the recipe given in: {', '.join(differing)}")
        step = read_checkpoint(out).step
        _cut_metrics(out / "metrics.jsonl", step)
        return step
    out.mkdir(parents=True, exist_ok=True)
    write_whole(recipe_file, lambda path: path.write_text(read.yaml))
    people = "\n".join(read.recipe.data.people) + "\n"
    write_whole(out / "people.txt", lambda path: path.write_text(people))
    return 0


def _cut_metrics(path: Path, step: int) -> None:
    """Drop what was logged after the checkpoint: those steps are made again."""
    if not path.exists():
        return
    kept = []
    for line in path.read_text().splitlines():
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            break  # the last line of a killed run
        if entry["step"] <= step:
            kept.append(line)
    write_whole(path, lambda partial: partial.write_text("".join(line + "\n" for line in kept)))


def _samples(
    recipe: Recipe, faces: Faces, device: torch.device, settings: Settings, first_step: int
) -> Iterator[Sample]:
    labels = faces.labels
    step = first_step
    while step < settings.steps:
        epoch, inside = divmod(step, settings.steps_per_epoch)
        order = epoch_order(len(faces), recipe.seed, epoch)[inside * recipe.batch_size :]
        for batch in batches(faces, order, recipe.batch_size, recipe.workers, drop_last=True):
            images = augment(
                batch.images.to(device, non_blocking=True),
                recipe.augment,
                (recipe.seed << 32) + step,
                recipe.backbone.mean,
                recipe.backbone.scale,
            )

            def records(positions: Sequence[int], indices: torch.Tensor = batch.indices) -> list[str]:
                return [faces.names[int(indices[position])] for position in positions]

            yield Sample(images, labels[batch.indices].to(device, non_blocking=True), records)
            step += 1
            if step == settings.steps:
                return


@contextmanager
def _recorder(out: Path, tensorboard: bool) -> Iterator[Callable[[dict[str, float]], None]]:
    """Appends entries to `metrics.jsonl`, and to TensorBoard where that is asked for."""
    writer = None
    if tensorboard:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError("TensorBoard is not installed: pip install 'verisphere[track]'") from None
        writer = SummaryWriter(str(out / "tensorboard"))
    with (out / "metrics.jsonl").open("a") as file:

        def record(entry: dict[str, float]) -> None:
            whole = {name: int(value) if name == "step" else value for name, value in entry.items()}
            file.write(json.dumps(whole) + "\n")
            file.flush()
            if writer is not None:
                for name, value in entry.items():
                    if name != "step":
                        writer.add_scalar(name, value, int(entry["step"]))

        try:
            yield record
        finally:
            if writer is not None:
                writer.close()


@contextmanager
def _signals() -> Iterator[Callable[[], int | None]]:
    """Turns Ctrl-C and SIGTERM into a request; a second one ends the process as it would have."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])
        log.warning("stopping after this step, with a checkpoint")

    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: received[0] if received else None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
