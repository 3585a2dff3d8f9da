"""A training run, from a recipe to a folder with the resolved recipe, checkpoints and metrics."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.batch_norm import synchronised
from verisphere.backbones.extract import extract
from verisphere.base.collectives import gather_text, on_every_rank, on_first_rank
from verisphere.base.compiling import compiled
from verisphere.base.device import choose_device
from verisphere.base.distributed import world
from verisphere.base.seeds import Stream, mixed_seed
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.base.work import shared_by_ranks
from verisphere.decide import Far
from verisphere.files.errors import errors_naming
from verisphere.files.lock import alone_in
from verisphere.files.metrics import METRICS, cut_metrics, read_metrics
from verisphere.head.checks import check_labels
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.images.decoded_faces import in_memory
from verisphere.images.detect.unaligned import warn_if_unaligned
from verisphere.images.faces import Faces
from verisphere.images.loader import UnreadableImages
from verisphere.images.select import positions_with_images, require_people, warn_of_shared_people
from verisphere.models.checkpoint import list_checkpoints, optimizer_tensors, save_checkpoint, shared_rows
from verisphere.models.image_sources import record_sources, recorded_sources
from verisphere.models.trained_on import PART, as_tensors
from verisphere.train.distill.taught import FOLDER, Taught
from verisphere.train.distill.teachers import Teachers, open_teachers
from verisphere.train.images_seen import ImagesSeen, trained_before, warn_of_other_images, warn_of_people_before
from verisphere.train.loop import Length, train
from verisphere.train.objective import Objective
from verisphere.train.preparation import domains_for_loss, length_of, loss_of, terms_of, training_of
from verisphere.train.processes import Division, divided, share_buffers, summed_backbone
from verisphere.train.recipe import ReadRecipe, Recipe
from verisphere.train.recipe_head import centers_and_engine
from verisphere.train.restore import (
    TEACHER_ORIGINS,
    TEACHERS,
    begin_with,
    check_teachers,
    data_digest,
    image_sources,
    loaded,
    plateau_of,
    set_centers,
    unlogged_figures,
)
from verisphere.train.run_folder import (
    Record,
    event_writer,
    open_run,
    recorder,
    require_run_still_there,
    versions,
    write_run_json,
)
from verisphere.train.samples import KEY as UNREADABLE
from verisphere.train.samples import batches_from, samples, unreadable_before, unreadable_of_ranks
from verisphere.train.schedule import Plateau
from verisphere.train.stopping import stop_requests
from verisphere.train.threads import record_threads, training_threads

log = logging.getLogger(__name__)

#: Takes embeddings and target FARs; returns figures by name, for the log of a run.
Measure = Callable[[Embeddings, Sequence[Far]], dict[str, float]]

PRECISION = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def train_run(
    read: ReadRecipe,
    out: Path,
    *,
    measure: Measure | None = None,
    resume: bool = False,
    device: str | None = None,
    threads: int | None = None,
    tensorboard: bool = False,
    until: int | None = None,
    progress: Progress = quietly,
) -> Objective:
    """Train as a recipe says; `out` receives `recipe.yaml`, `people.txt`, `run.json`, `metrics.jsonl`, `checkpoints/`.

    On Ctrl-C, SIGTERM and SIGHUP a checkpoint is saved after the step under way, and `TrainingStopped` is raised. The
    backbone and the loss of the recipe are trained in place, so a recipe must be read anew for each run.

    The ranks of a joined group train together, each on its share of every batch and with its share of the classes.
    Rank 0 writes everything but the centers, and all ranks must see the same folder. A run can be resumed with another
    world size.

    Args:
        measure: computes the figures of the validation set from its embeddings and the recipe's `validation_far`;
            required if the recipe has a validation set. The verb `train` passes
            `verisphere.measure.validation.validation_figures`.
        threads: number of CPU threads of each rank, on which the last bits of sums depend. By default a resumed run
            takes the number of its checkpoint if the world size is the same, and any other run that of PyTorch.
        until: number of steps after which to save a checkpoint and return; a call without it continues from there. None
            trains to the end.
    """
    recipe, here = read.recipe, world()
    if recipe.validation is not None and measure is None:
        raise ValueError("the recipe has a validation set; `measure` must say what to measure on it")
    length, division, place, data = on_every_rank(lambda: _prepared(recipe, device, tensorboard))
    length = replace(length, until=until)
    _check_alike(read, data)
    teachers = on_every_rank(lambda: _teachers(recipe, place))
    objective, optimizer = _objective(recipe, place, teachers)
    if recipe.start is not None and on_first_rank(lambda: "" if resume and list_checkpoints(out) else "from the start"):
        on_every_rank(lambda: begin_with(recipe, objective, optimizer))  # before the folder is made: this may refuse
    lock = ExitStack()

    def begin() -> str:
        lock.enter_context(alone_in(out))
        return str(open_run(read, out, resume) or "")

    newest = on_first_rank(begin)
    checkpoint = on_every_rank(lambda: loaded(Path(newest), data, objective, optimizer)) if newest else None
    first_step = 0 if checkpoint is None else checkpoint.step
    check_teachers(teachers, checkpoint)
    if checkpoint is not None:
        log.info("resuming after step %d of %d", checkpoint.step, length.steps)
        if here.first and checkpoint.state.get("seed") == recipe.seed:  # else other images may have come before
            used = batches_from(recipe, recipe.data.labels, length, checkpoint.step - 1)[0]
            warn_of_other_images(recipe.data, checkpoint, used)
    elif here.first:
        warn_if_unaligned(recipe.data, recipe.validation)
        if recipe.validation is not None:
            warn_of_shared_people(recipe.validation, "validation", recipe.data, "the validation")
            warn_of_people_before(recipe)
    log.info(
        "%d images of %d people; %s on %s%s; %d steps",
        len(recipe.data), len(recipe.data.people), type(recipe.backbone).__name__, place,
        f" and {here.size - 1} more" if here.size > 1 else "", length.steps,
    )  # fmt: skip
    unreadable = UnreadableImages(recipe.max_unreadable, () if checkpoint is None else unreadable_before(checkpoint))
    faces = recipe.data
    if recipe.in_memory:
        faces = on_every_rank(lambda: in_memory(recipe.data, recipe.workers, progress, unreadable))

    taught = None
    if teachers is not None:
        folder = out / FOLDER if recipe.distill.cache is None else Path(recipe.distill.cache)
        digest = str(data["sha256"])
        taught = Taught(teachers, faces, recipe.augment, folder, digest, recipe.workers, progress)
        set_centers(objective.head, taught.centers, start=recipe.distill.start_centers and checkpoint is None)

    figures = {} if checkpoint is None else unlogged_figures(checkpoint)
    plateau = plateau_of(recipe, checkpoint)
    sources = image_sources(recipe) if checkpoint is None else recorded_sources(checkpoint)
    seen = ImagesSeen(recipe.data, on_every_rank(lambda: trained_before(recipe, checkpoint)))

    about: dict[str, Any] = {
        "backbone": read.resolved["backbone"],
        "seed": recipe.seed,
        "data": data,
        **record_sources(sources),
    }
    if teachers is not None:
        about[TEACHERS] = list(teachers.sha256)
        about[TEACHER_ORIGINS] = [None if origin is None else asdict(origin) for origin in teachers.origins]
    validate = None
    if recipe.validation is not None and measure is not None:
        validate = partial(_validated, recipe, objective, measure, progress)
    saves = _Saves(out, objective, optimizer, about, seen, unreadable, figures, plateau)
    rows = samples(recipe, faces, place, length, division, first_step, unreadable, taught, seen)
    with (
        stop_requests() as stopping,
        lock,
        training_threads(threads, checkpoint) as threads_of_ranks,
        _recording(out, tensorboard, first_step) as write,
    ):
        saves.threads = threads_of_ranks
        on_first_rank(lambda: write_run_json(out, threads_of_ranks))
        train(
            objective,
            optimizer,
            progress(rows, "training", length.end, first_step),
            length,
            first_step=first_step,
            record=partial(_record, write, unreadable),
            save=saves.save,
            validate=validate,
            stopping=stopping,
            seed=recipe.seed,
            figures_since=figures,
            plateau=plateau,
        )
        on_first_rank(lambda: require_run_still_there(out))  # the last validation may have taken a while
    return objective


@dataclass(eq=False)
class _Saves:
    """The checkpoints of a run; `about` is what each says of the run, and `figures` are not in the log yet."""

    out: Path
    objective: Objective
    optimizer: torch.optim.Optimizer
    about: dict[str, Any]
    seen: ImagesSeen
    unreadable: UnreadableImages
    figures: dict[str, list[float]]
    plateau: Plateau | None
    threads: list[int] = field(default_factory=list)

    def save(self, step: int) -> None:
        """Save a checkpoint; all ranks call this together."""
        on_first_rank(lambda: require_run_still_there(self.out))
        objective = self.objective
        parts = {
            "backbone": dict(objective.backbone.state_dict()),
            "head": dict(objective.head.state_dict()),
            "optimizer": optimizer_tensors(self.optimizer),
            PART: as_tensors(self.seen.record()),
        }
        if len(objective.terms):
            parts["pairs"] = dict(objective.terms.state_dict())
        state = {**self.about, **record_threads(self.threads), **versions()}
        if self.figures:
            state["figures"] = self.figures
        if self.plateau is not None:
            state["plateau"] = self.plateau.state()
        if self.unreadable.allowed:
            state[UNREADABLE] = sorted(unreadable_of_ranks(self.unreadable))
        save_checkpoint(self.out, step, parts, state, held=shared_rows(objective.head, self.optimizer, objective.terms))


def _record(write: Record, unreadable: UnreadableImages, step: int, figures: dict[str, float]) -> None:
    """Write an entry of the log, with the number of unreadable images where some are allowed."""
    if unreadable.allowed:
        figures = {**figures, "unreadable_images": len(unreadable_of_ranks(unreadable))}
    write(step, figures)


def _validated(recipe: Recipe, objective: Objective, measure: Measure, progress: Progress) -> dict[str, float]:
    assert recipe.validation is not None
    share_buffers(objective.backbone)
    with shared_by_ranks():
        embeddings = extract(objective.backbone, recipe.validation, workers=recipe.workers, progress=progress)
    return measure(embeddings, recipe.validation_far)


def _prepared(
    recipe: Recipe, device: str | None, tensorboard: bool
) -> tuple[Length, Division, torch.device, dict[str, int | str]]:
    """The values that each rank computes before anything is written: length, rows of a batch, device, data digest."""
    length, place = length_of(recipe), choose_device(device)
    with errors_naming("data"):
        check_labels(recipe.data.labels, len(recipe.data.people), recipe.loss)
        _check_size(recipe.backbone, recipe.data)
        domains = domains_for_loss(recipe)
    if domains is not None:
        recipe.loss.prepare_domains(domains)
    division = divided(recipe.batch_size, recipe.accumulate)
    if tensorboard and world().first:
        event_writer()
    if recipe.validation is not None:
        _check_validation(recipe.backbone.to(place), recipe.validation)
    return length, division, place, data_digest(recipe.data, domains)


def _check_alike(read: ReadRecipe, data: dict[str, int | str]) -> None:
    """Refuse ranks that have read another recipe or other data than rank 0."""
    digests = gather_text(json.dumps([hashlib.sha256(read.yaml.encode()).hexdigest(), data]))
    for rank, text in enumerate(digests):
        if text != digests[0]:
            what = "data" if json.loads(text)[0] == json.loads(digests[0])[0] else "recipe"
            raise ValueError(f"process {rank} has another {what} than process 0; all must read the same files")


@contextmanager
def _recording(out: Path, tensorboard: bool, first_step: int) -> Iterator[Record]:
    """The log of rank 0, cut to the step that the run continues from; other ranks keep no log."""
    if not world().first:
        yield lambda step, figures: None
        return
    cut_metrics(out / METRICS, first_step)
    last = next(reversed(read_metrics(out / METRICS)), {})
    with recorder(out, event_writer() if tensorboard else None, first_step) as record:
        # a validation that a resumed training makes again may be in the log already
        yield lambda step, figures: None if last == {"step": step, **figures} else record(step, figures)


def _teachers(recipe: Recipe, device: torch.device) -> Teachers | None:
    """The teachers of a distillation; None without teachers."""
    if not recipe.distill.teachers:
        return None
    return open_teachers(recipe.distill, recipe.data, recipe.backbone, device)


def _objective(
    recipe: Recipe, device: torch.device, teachers: Teachers | None
) -> tuple[Objective, torch.optim.Optimizer]:
    # A separate seed: the centers must not depend on random numbers that were drawn since the recipe was read.
    torch.manual_seed(mixed_seed(Stream.CENTERS, recipe.seed))
    centers, engine = centers_and_engine(recipe)
    head = Head(
        loss_of(recipe),
        len(recipe.data.people),
        recipe.backbone.embedding_size,
        centers=centers,
        engine=Sharded(engine) if world().size > 1 else engine,
        seed=recipe.seed,
    )
    training, terms = training_of(recipe, None if teachers is None else teachers.size), terms_of(recipe)
    for term in terms:
        term.prepare(training)
    backbone = recipe.backbone.to(memory_format=torch.channels_last).to(device)  # type: ignore[call-overload]
    if recipe.sync_batch_norm and world().size > 1:
        synchronised(backbone)
    run = compiled(backbone, device) if recipe.compile else None
    over_ranks = summed_backbone(backbone, run)
    objective = Objective(
        backbone,
        head,
        PRECISION[recipe.precision],
        run if over_ranks is None else over_ranks,
        nullcontext if over_ranks is None else over_ranks.local_gradients,
        terms,
    ).to(device)
    # with several parts the gradient of the centers must exist to be accumulated, so the head must not defer it
    return objective, recipe.optimizer.build(objective, head if recipe.accumulate == 1 else None)


def _check_size(backbone: Backbone, faces: Faces) -> None:
    """Refuse, before the training, images of a size that the backbone refuses; the first one stands for all."""
    try:
        first = faces.images([0])
    except (ValueError, OSError):  # the training reports it, or skips it
        return
    backbone.check_size(*first.shape[2:])


def _check_validation(backbone: Backbone, faces: Faces) -> None:
    """Refuse, before the training, a validation set without pairs, or with images that the backbone refuses."""
    try:
        require_people(faces)
        positions_with_images(faces.settled(), at_least=2)
        extract(backbone, faces.select([0]))
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error
