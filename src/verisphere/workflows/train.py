"""From a recipe to a run: a folder with the resolved recipe, checkpoints and metrics."""

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch

import verisphere
from verisphere.compiling import compiled
from verisphere.data.augment import augment
from verisphere.data.documents import read_text
from verisphere.data.faces import Faces
from verisphere.data.files import MAX_TABLE
from verisphere.data.json_values import shown
from verisphere.data.loader import batches, grouped_order
from verisphere.data.memory import in_memory
from verisphere.data.seeds import Stream, mixed_seed
from verisphere.data.select import positions_with_images, require_people
from verisphere.distributed import world
from verisphere.embed.backbone import Backbone
from verisphere.embed.batch_norm import synchronised
from verisphere.embed.extract import extract
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.pairs.contract import Training
from verisphere.protocols import all_pairs
from verisphere.report.outcome import VALIDATION
from verisphere.train.checkpoint import (
    Checkpoint,
    load_into,
    load_optimizer,
    optimizer_tensors,
    read_checkpoint,
    save_checkpoint,
    shared_rows,
)
from verisphere.train.image_sources import record_sources, recorded_sources
from verisphere.train.loop import Plan, train
from verisphere.train.objective import Objective
from verisphere.train.processes import Division, added_up, divided, first_alone, share_buffers, together, told
from verisphere.train.recipe import ReadRecipe, Recipe
from verisphere.train.recipe_head import centers_and_engine
from verisphere.train.sample import Part, Sample
from verisphere.vocabulary import ImageSource, Progress, quietly
from verisphere.workflows.device import choose_device
from verisphere.workflows.run_folder import (
    Record,
    alone_in,
    cut_metrics,
    event_writer,
    open_run,
    recorder,
    require_run_still_there,
)
from verisphere.workflows.stopping import stop_requests
from verisphere.workflows.unaligned import warn_if_unaligned

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

    Ctrl-C, SIGTERM and SIGHUP leave a checkpoint after the step under way and raise `TrainingStopped`. The recipe's own
    backbone and loss are trained, so a recipe is read anew for each run.

    Processes that have been joined train together, each on its share of every batch and with its share of the classes;
    the first one writes, but for the centers, and all must see the same folder. A run can go on with another number
    of them.

    Args:
        read: the recipe.
        out: folder of the run; a new one, unless the run is resumed.
        resume: go on from the newest checkpoint in `out`, or from the start where a run was stopped before its first;
            recipe and data must be the run's own.
        device: where to train; a GPU where there is one, by default.
        tensorboard: write TensorBoard events too (extra `track`).
        progress: shown over the steps.

    Raises:
        FileNotFoundError: the run's folder was removed while it trained.
        ValueError: fewer than two people, too few images for a batch, nothing that validation could measure, a run in
            the way, a recipe or data that differ from the run's, a damaged checkpoint.
        TrainingDiverged: a loss or gradient is not finite.
        TrainingStopped: a signal asked to stop.
    """
    recipe, here = read.recipe, world()
    plan, division, place, data = together(lambda: _prepared(recipe, device, tensorboard))
    _check_alike(read, data)
    objective, optimizer = _objective(recipe, place)
    holding = ExitStack()

    def begin() -> str:
        holding.enter_context(alone_in(out))
        return str(open_run(read, out, resume) or "")

    found = first_alone(begin)
    checkpoint = together(lambda: _loaded(Path(found), data, objective, optimizer)) if found else None
    first_step = 0 if checkpoint is None else checkpoint.step
    if checkpoint is None and recipe.start is not None:
        together(lambda: _begin_with(recipe, objective, optimizer))
    if checkpoint is not None:
        log.info("resuming after step %d of %d", checkpoint.step, plan.steps)
    elif here.first:
        warn_if_unaligned(recipe.data, recipe.validation)
    log.info(
        "%d images of %d people; %s on %s%s; %d steps",
        len(recipe.data), len(recipe.data.people), type(recipe.backbone).__name__, place,
        f" and {here.size - 1} more" if here.size > 1 else "", plan.steps,
    )  # fmt: skip
    faces = together(lambda: in_memory(recipe.data, recipe.workers, progress)) if recipe.in_memory else recipe.data

    figures = {} if checkpoint is None else _figures(checkpoint)
    sources = _sources(recipe) if checkpoint is None else recorded_sources(checkpoint)

    def check_folder() -> str:
        require_run_still_there(out)
        return ""

    def save(step: int) -> None:
        first_alone(check_folder)
        parts = {
            "backbone": dict(objective.backbone.state_dict()),
            "head": dict(objective.head.state_dict()),
            "optimizer": optimizer_tensors(optimizer),
        }
        if len(objective.terms):
            parts["pairs"] = dict(objective.terms.state_dict())
        state = {
            "backbone": read.resolved["backbone"],
            "seed": recipe.seed,
            "data": data,
            **record_sources(sources),
            "verisphere": verisphere.__version__,
            "torch": torch.__version__,
        }
        if figures:
            state["figures"] = figures
        save_checkpoint(out, step, parts, state, held=shared_rows(objective.head, optimizer, objective.terms))

    def validate() -> dict[str, float]:
        assert recipe.validation is not None
        share_buffers(objective.backbone)
        embeddings = extract(
            objective.backbone, recipe.validation, workers=recipe.workers, progress=progress, here=here
        )
        pooled = replace(embeddings, domains=None)  # one figure for all; a domain may be too small to have its own
        points = all_pairs(pooled, recipe.validation_far).operating_points
        return {f"{VALIDATION}{point.far_target}": point.tar for point in points}

    samples = _samples(recipe, faces, place, plan, division, first_step)
    with stop_requests() as stopping, holding, _recording(out, tensorboard, first_step) as record:
        train(
            objective,
            optimizer,
            progress(samples, "training", plan.steps - first_step),
            plan,
            first_step=first_step,
            record=record,
            save=save,
            validate=validate if recipe.validation is not None else None,
            stopping=stopping,
            seed=recipe.seed,
            figures_since=figures,
        )
        first_alone(check_folder)  # the last validation may have taken a while
    return objective


def _prepared(
    recipe: Recipe, device: str | None, tensorboard: bool
) -> tuple[Plan, Division, torch.device, dict[str, int | str]]:
    """What each process can say by itself, before anything is written: how long, on which images, where, of what data.

    Raises:
        ValueError: what is wrong with the recipe and its data.
    """
    plan, place = _plan(recipe), choose_device(device)
    division = divided(recipe.batch_size, recipe.accumulate)
    if tensorboard and world().first:
        event_writer()
    if recipe.validation is not None:
        _check_validation(recipe.backbone.to(place), recipe.validation)
    return plan, division, place, _data(recipe.data)


def _check_alike(read: ReadRecipe, data: dict[str, int | str]) -> None:
    """Refuse processes that would train on different things.

    Raises:
        ValueError: the recipe or the data that a process sees are not the first one's.
    """
    said = told(json.dumps([hashlib.sha256(read.yaml.encode()).hexdigest(), data]))
    for rank, text in enumerate(said):
        if text != said[0]:
            what = "data" if json.loads(text)[0] == json.loads(said[0])[0] else "recipe"
            raise ValueError(f"process {rank} has another {what} than process 0; all must read the same files")


@contextmanager
def _recording(out: Path, tensorboard: bool, first_step: int) -> Iterator[Record]:
    """The log of the first process, cut to where it goes on; the others keep none."""
    if not world().first:
        yield lambda step, figures: None
        return
    cut_metrics(out / "metrics.jsonl", first_step)
    with recorder(out, event_writer() if tensorboard else None, first_step) as record:
        yield record


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
    centers, engine = centers_and_engine(recipe)
    head = Head(
        recipe.loss,
        len(recipe.data.people),
        recipe.backbone.embedding_size,
        centers=centers,
        engine=Sharded(engine) if world().size > 1 else engine,
    )
    domains = None if recipe.data.domains is None else tuple(sorted(set(recipe.data.domains)))
    for term in recipe.pair_terms:
        term.prepare(
            Training(
                len(recipe.data.people),
                recipe.backbone.embedding_size,
                recipe.batch_size,
                domains,
                recipe.backbone.side_columns,
                recipe.epochs,
            )
        )
    backbone = recipe.backbone.to(memory_format=torch.channels_last).to(device)  # type: ignore[call-overload]
    if recipe.sync_batch_norm and world().size > 1:
        synchronised(backbone)
    run = compiled(backbone, device) if recipe.compile else None
    summed = added_up(backbone, run)
    objective = Objective(
        backbone,
        head,
        PRECISION[recipe.precision],
        run if summed is None else summed,
        nullcontext if summed is None else summed.apart,
        recipe.pair_terms,
    ).to(device)
    # of gradients that gather over parts the centers' must exist, for only the last part is followed by a step
    return objective, recipe.optimizer.build(objective, head if recipe.accumulate == 1 else None)


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


def _sources(recipe: Recipe) -> tuple[ImageSource, ...]:
    """The images of the run that the recipe starts from, where it names one, and its own."""
    before = () if recipe.start is None else recorded_sources(read_checkpoint(Path(recipe.start)))
    return (*before, recipe.data.source)


def _loaded(
    path: Path, data: dict[str, int | str], objective: Objective, optimizer: torch.optim.Optimizer
) -> Checkpoint:
    """The checkpoint at this path, which backbone, head and optimizer now go on from."""
    checkpoint = read_checkpoint(path)
    before = checkpoint.state.get("data")
    if before != data:
        held = f"{before['images']} images of {before['people']} people" if isinstance(before, dict) else "unknown data"
        raise ValueError(
            f"{checkpoint.path} was trained on {held} but the recipe's data are now {data['images']} of "
            f"{data['people']}, or others; restore them, or start another run"
        )
    rows = shared_rows(objective.head, optimizer, objective.terms) if world().size > 1 else None
    load_into(objective.backbone, checkpoint.tensors("backbone"), f"{checkpoint.path}: backbone")
    load_into(objective.head, checkpoint.tensors("head", rows), f"{checkpoint.path}: head")
    if len(objective.terms):
        load_into(objective.terms, checkpoint.tensors("pairs", rows), f"{checkpoint.path}: pairs")
    load_optimizer(optimizer, checkpoint.tensors("optimizer", rows), f"{checkpoint.path}: optimizer")
    return checkpoint


def _figures(checkpoint: Checkpoint) -> dict[str, list[float]]:
    """Losses and figures of pair terms that no entry of the log holds yet.

    Raises:
        ValueError: the checkpoint has something else in their place.
    """
    found = checkpoint.state.get("figures", {})
    if isinstance(found, dict) and all(
        isinstance(values, list) and values and all(isinstance(one, int | float) for one in values)
        for values in found.values()
    ):
        return found
    raise ValueError(f"{checkpoint.path / 'state.json'}: figures is {shown(found)}; each has a list of numbers")


def _begin_with(recipe: Recipe, objective: Objective, optimizer: torch.optim.Optimizer) -> None:
    """Take backbone and centers over from the run that the recipe starts from.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: it is another backbone's; or other people's, and the centers are wanted.
    """
    assert recipe.start is not None
    checkpoint = read_checkpoint(Path(recipe.start))
    where = f"start: {checkpoint.path}"
    load_into(objective.backbone, checkpoint.tensors("backbone"), f"{where}: backbone")
    if not recipe.start_head:
        return
    listed = checkpoint.path.parent.parent / "people.txt"
    if not listed.is_file():
        raise ValueError(
            f"{where}: its run has no people.txt to say whose centers these are; name a run, or take the backbone "
            "alone by --start_head false"
        )
    before = read_text(listed, MAX_TABLE).removesuffix("\n").split("\n")
    if before != list(recipe.data.people):
        raise ValueError(
            f"{where} was trained on {len(before)} people but the recipe's data are of {len(recipe.data.people)}, or "
            "others; --start_head false takes the backbone alone"
        )
    rows = shared_rows(objective.head, optimizer) if world().size > 1 else None
    found, own = checkpoint.tensors("head", rows), objective.head.state_dict()
    # a loss of another kind keeps other numbers; those that both know go over
    fitting = {name: one for name, one in found.items() if name in own and own[name].shape == one.shape}
    if "centers" not in fitting:
        raise ValueError(
            f"{where}: its centers are {tuple(found['centers'].shape)}, this head's {tuple(own['centers'].shape)}; "
            "--start_head false takes the backbone alone"
        )
    objective.head.load_state_dict(own | fitting)


def _samples(
    recipe: Recipe, faces: Faces, device: torch.device, plan: Plan, division: Division, first_step: int
) -> Iterator[Sample]:
    """This process's rows of the batches from `first_step` to the end, whether or not the run was interrupted there."""
    labels, domains, places = faces.labels, _domain_numbers(faces), division.places
    parts = tuple(Part(len(own), weight) for own, weight in zip(division.own, division.weights, strict=True))
    workers = 0 if recipe.in_memory else recipe.workers  # taking rows of a tensor is no work for another process
    step = first_step
    while step < plan.steps:
        epoch, inside = divmod(step, plan.steps_per_epoch)
        order = grouped_order(labels, recipe.images_per_identity, recipe.seed, epoch)
        order = order[: plan.steps_per_epoch * recipe.batch_size]
        own = order.view(plan.steps_per_epoch, recipe.batch_size)[inside:, places].flatten()
        for batch in batches(faces, own, len(places), workers, pin=device.type == "cuda"):
            images = augment(
                batch.images.to(device, non_blocking=True),
                recipe.augment,
                mixed_seed(Stream.AUGMENTATION, recipe.seed, step),
                recipe.backbone.mean,
                recipe.backbone.scale,
                places,
            )

            def records(positions: Sequence[int], indices: torch.Tensor = batch.indices) -> list[str]:
                return [faces.names[int(indices[position])] for position in positions]

            own_labels = labels[batch.indices].to(device, non_blocking=True)
            own_domains = None if domains is None else domains[batch.indices].to(device, non_blocking=True)
            yield Sample(images, own_labels, records, parts, recipe.batch_size, own_domains)
            step += 1
            if step == plan.steps:
                return


def _domain_numbers(faces: Faces) -> torch.Tensor | None:
    """Number of each image's domain, among the names sorted."""
    if faces.domains is None:
        return None
    number = {name: place for place, name in enumerate(sorted(set(faces.domains)))}
    return torch.tensor([number[name] for name in faces.domains], dtype=torch.int64)
