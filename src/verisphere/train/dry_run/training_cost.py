"""The cost of a training before it begins: memory, communication and work of one rank, for any number of classes.

Bytes of weights, centers and their momentum are exact. What autograd keeps is measured on a few images and scaled. The
loss of the allocator between blocks is a share derived from measured peaks; tests compare the total with peaks.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import torch

from verisphere.base.distributed import World
from verisphere.head.sampled import SAMPLE_RATE
from verisphere.train.distill.taught import embeds_batches
from verisphere.train.distill.teachers import open_teachers
from verisphere.train.dry_run.head import FLOAT, HeadWork, states
from verisphere.train.dry_run.measured import (
    BackboneCost,
    DenseCost,
    TeacherCost,
    measure_backbone,
    measure_dense,
    measure_teachers,
)
from verisphere.train.dry_run.terms import center_copies, memories, prepared_terms
from verisphere.train.dry_run.traffic import Collective, collectives
from verisphere.train.preparation import loss_of, terms_of
from verisphere.train.processes import divided
from verisphere.train.recipe import Recipe
from verisphere.train.recipe_head import centers_and_engine

#: Memory that an allocator takes beyond what is requested, as a share of what is allocated and freed in a step: for
#: glibc's heap 0.35 to 0.75 were measured, with or without keeping freed memory; for PyTorch's on a GPU it is assumed.
ALLOCATOR = {"cpu": 0.6, "cuda": 0.2}
#: Bytes of PyTorch itself: its libraries on a CPU, a context and its kernels on a GPU.
RUNTIME = 2**29
#: Products of a layer: one in the forward, two in the backward.
_FORWARD_AND_BACKWARD = 3
#: Bytes that a pair term uses at most besides its memory; measured by `benchmarks/pair_terms.py`.
PAIR_WORK = 2**27
_MOST_PROCESSES = 4096
#: Beyond any training, and small enough that counts of bytes and products do not overflow.
MOST_CLASSES = MOST_IMAGES = 2**40


@dataclass(frozen=True)
class Memory:
    """Bytes of one process by their use, for the process with the largest shares.

    Gradients are allocated while activations are freed; they are counted as if both existed at once.

    Attributes:
        weights: weights and buffers of backbone and loss, and weights of pair terms.
        gradients: gradients of these weights.
        optimizer, center_state: momentum, or AdamW's two averages, of these weights, and of the centers.
        buckets: buffers in which gradients are summed over the ranks.
        centers: centers of the classes that the process holds.
        center_gradient: gradient of the centers, unless it is deferred.
        activations: tensors that the backbone keeps for its backward.
        kept: exponentials that the streamed engine keeps for its second pass.
        logits: tensors that the dense engine keeps for its backward, and uses in it.
        sampled: the sampled engine's copies of centers and momentum.
        screen: the sparse engine's rounded copy of the centers, and what it knows of each.
        chunks: tensors of one chunk of classes.
        memories: the process's share of the memories of pair terms.
        pairs: tensors that a pair term uses in a step, and copies of the centers that it makes.
        rows: embeddings of the whole batch, their gradients, and the own centers of the rows.
        images: images of a batch, as read and as normalised.
        teacher: weights of the teachers and the forward of a batch, and their centers of the classes held.
        update: tensors of the optimizer during the update of the centers, when activations and logits are freed.
        allocator: memory lost between blocks; an estimate.
    """

    weights: int
    gradients: int
    optimizer: int
    buckets: int
    centers: int
    center_state: int
    center_gradient: int
    activations: int
    kept: int
    logits: int
    sampled: int
    screen: int
    chunks: int
    memories: int
    pairs: int
    rows: int
    images: int
    teacher: int
    update: int
    allocator: int

    def __post_init__(self) -> None:
        for entry in fields(self):
            if getattr(self, entry.name) < 0:
                raise ValueError(f"{entry.name} is {getattr(self, entry.name)}; a number of bytes is not negative")

    @property
    def total(self) -> int:
        """The largest sum at one time: `update` does not exist at the same time as activations and logits."""
        before_update = self.activations + self.logits
        everything = sum(getattr(self, entry.name) for entry in fields(self))
        return everything - min(before_update, self.update)


@dataclass(frozen=True)
class TrainingCost:
    """Memory, communication and work of a training.

    Attributes:
        engine: engine that runs the head on the classes of a process: dense, streamed, sparse, or sampled.
        held: number of classes of the process that holds most.
        batch, local_batch: images a step, of all processes and of one.
        runtime: bytes of PyTorch itself.
        backbone_flops, head_flops, teacher_flops: operations of a process in a step, of the head in its products.
        available: bytes that a process has; None if unknown.
        would_fit: single changes with which the training would fit; empty if it fits, or if no single change suffices.
    """

    backbone: str
    loss: str
    engine: str
    classes: int
    held: int
    processes: int
    batch: int
    local_batch: int
    memory: Memory
    runtime: int
    traffic: tuple[Collective, ...]
    backbone_flops: int
    head_flops: int
    teacher_flops: int = 0
    available: int | None = None
    would_fit: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Bytes of one process, PyTorch included."""
        return self.memory.total + self.runtime

    @property
    def fits(self) -> bool | None:
        """Whether the total is at most `available`; None if that is unknown."""
        return None if self.available is None else self.total <= self.available


@dataclass
class Measurements:
    """Measurements of a recipe's backbone, by precision, and loss; each is made when it is first needed, and kept."""

    backbones: dict[str, BackboneCost] = field(default_factory=dict)
    dense: DenseCost | None = None
    teachers: TeacherCost | None = None

    def of_teachers(self, recipe: Recipe) -> TeacherCost:
        """The cost of the recipe's teachers, which are opened for it; all zeros without teachers."""
        if not recipe.distill.teachers:
            return TeacherCost(0, 0, 0, 0)
        if self.teachers is None:
            opened = open_teachers(recipe.distill, None, recipe.backbone, torch.device("cpu"))
            self.teachers = measure_teachers(opened, embeds_batches(opened, recipe.augment))
        return self.teachers

    def backbone(self, recipe: Recipe) -> BackboneCost:
        """The cost of the backbone in the recipe's precision."""
        if recipe.precision not in self.backbones:
            self.backbones[recipe.precision] = measure_backbone(recipe.backbone, getattr(torch, recipe.precision))
        return self.backbones[recipe.precision]

    def logits(self, recipe: Recipe) -> DenseCost:
        """The cost of the recipe's loss and sub-centers with the dense engine."""
        if self.dense is None:
            centers, _ = centers_and_engine(recipe)
            self.dense = measure_dense(recipe.loss, centers, recipe.backbone.embedding_size)
        return self.dense


def training_cost(
    recipe: Recipe,
    classes: int,
    processes: int = 1,
    available: int | None = None,
    device: str = "cpu",
    measurements: Measurements | None = None,
) -> TrainingCost:
    """The cost of a recipe's training, whose data are not read; a compiled backbone may need less.

    Each process has its share of every batch and of the classes, and `available` bytes. Chunks of classes are larger on
    a GPU. Several calls for one backbone and loss may share their measurements.
    """
    if classes < 1:
        raise ValueError(f"classes is {classes}; a dry run needs at least 1")
    if classes > MOST_CLASSES:
        raise ValueError(f"classes is {classes}; a dry run takes at most 2^40")
    if processes < 1:
        raise ValueError(f"processes is {processes}; a dry run needs at least 1")
    if processes > classes:
        raise ValueError(
            f"processes is {processes}, but there are {classes} classes; each process must hold at least one"
        )
    if available is not None and available <= 0:
        raise ValueError(f"available is {available}; it must be a positive number of bytes")
    measured = Measurements() if measurements is None else measurements
    cost = _cost(recipe, classes, processes, available, device, measured)
    if cost.fits is not False:
        return cost
    return replace(cost, would_fit=tuple(_changes(recipe, cost, device, measured)))


def _cost(
    recipe: Recipe, classes: int, processes: int, available: int | None, device: str, measured: Measurements
) -> TrainingCost:
    world, name = World(size=processes), type(recipe.loss).__name__
    teachers = measured.of_teachers(recipe)
    recipe = replace(recipe, loss=loss_of(recipe), pair_terms=terms_of(recipe))
    work = HeadWork(recipe, len(world.share(classes, 0)), device, teachers.size)
    division = divided(recipe.batch_size, recipe.accumulate, world)
    local, part = len(division.places), max(len(places) for places in division.own)
    backbone_cost = measured.backbone(recipe)
    row = recipe.backbone.embedding_size * FLOAT
    terms = prepared_terms(recipe, classes, teachers.size or None)
    modules = (recipe.backbone, recipe.loss, *terms)
    weights = sum(weight.nbytes for module in modules for weight in module.parameters())
    weights += sum(buffer.nbytes for module in modules[:2] for buffer in module.buffers())
    trained = sum(weight.nbytes for module in modules for weight in module.parameters() if weight.requires_grad)
    per_weight = states(recipe)
    comes_and_goes = {
        "gradients": trained,
        "center_gradient": work.center_gradient,
        "activations": backbone_cost.saved(part),
        "kept": work.kept,
        "logits": work.logits(measured.logits(recipe)) if work.dense else 0,
        "sampled": work.sampled,
        "screen": work.screen,
        "chunks": work.chunks,
        "pairs": (PAIR_WORK if terms else 0) + center_copies(terms, work.held * recipe.subcenters * row),
        "rows": work.rows * (2 if processes > 1 else 1),
        "images": local * 3 * recipe.backbone.input_size[0] * recipe.backbone.input_size[1] * (FLOAT + 1),
    }
    of_teacher = local * (teachers.per_image + teachers.size * FLOAT)
    teacher_centers = work.held * teachers.size * FLOAT if recipe.distill.needs_centers else 0
    memory = Memory(
        weights=weights,
        optimizer=per_weight * trained,
        buckets=trained if processes > 1 else 0,
        centers=work.centers,
        memories=memories(terms, processes),
        center_state=per_weight * work.centers,
        **comes_and_goes,
        teacher=teachers.weights + teacher_centers + of_teacher,
        update=work.update,
        allocator=round(ALLOCATOR.get(device, ALLOCATOR["cuda"]) * (sum(comes_and_goes.values()) + of_teacher)),
    )
    return TrainingCost(
        backbone=type(recipe.backbone).__name__,
        loss=_with_teachers(name, len(recipe.distill.teachers)),
        engine=work.engine,
        classes=classes,
        held=work.held,
        processes=processes,
        batch=recipe.batch_size,
        local_batch=local,
        memory=memory,
        runtime=RUNTIME,
        traffic=collectives(recipe, processes, teachers.size) if processes > 1 else (),
        backbone_flops=_FORWARD_AND_BACKWARD * backbone_cost.flops * local,
        head_flops=work.flops,
        teacher_flops=teachers.flops * local,
        available=available,
    )


def _with_teachers(loss: str, teachers: int) -> str:
    return loss if not teachers else f"{loss} with {teachers} teacher{'s' if teachers > 1 else ''}"


def _changes(recipe: Recipe, cost: TrainingCost, device: str, measured: Measurements) -> Iterator[str]:
    """Single changes of the recipe or the world size with which the training would fit."""

    def fits(changed: Recipe, processes: int = cost.processes) -> bool:
        return bool(_cost(changed, cost.classes, processes, cost.available, device, measured).fits)

    if cost.engine == "dense" and fits(replace(recipe, engine="streamed")):
        yield "engine streamed"
    may_sample = recipe.optimizer.name == "sgd" and recipe.accumulate == 1 and recipe.engine != "sampled"
    if may_sample and fits(replace(recipe, engine="sampled")):
        yield f"engine sampled at rate {SAMPLE_RATE:g}"
    if recipe.precision == "float32" and fits(replace(recipe, precision="bfloat16")):
        yield "precision bfloat16"
    parts = 2 * recipe.accumulate
    while recipe.engine != "sampled" and recipe.batch_size // parts >= 2 * cost.processes:
        if fits(replace(recipe, accumulate=parts)):
            yield f"accumulate {parts}"
            break
        parts *= 2
    batch = recipe.batch_size // 2
    while batch >= 2 * cost.processes * recipe.accumulate:
        if fits(replace(recipe, batch_size=batch)):
            yield f"batch_size {batch}"
            break
        batch //= 2
    processes = 2 * cost.processes
    while processes <= min(recipe.batch_size // (2 * recipe.accumulate), cost.classes, _MOST_PROCESSES):
        if fits(recipe, processes):
            yield f"{processes} processes"
            break
        processes *= 2
