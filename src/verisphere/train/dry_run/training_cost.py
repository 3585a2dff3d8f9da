"""The cost of a training before it begins: what one process holds, sends and computes, for any number of classes.

Bytes of weights, centers and their momentum are exact. What autograd keeps is measured on a few images and scaled. What
an allocator loses between blocks is a share, from measured peaks, to which tests hold the whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import torch

from verisphere.distributed import World
from verisphere.head.sampled import SAMPLE_RATE
from verisphere.train.dry_run.head import FLOAT, HeadWork, states
from verisphere.train.dry_run.measured import BackboneCost, DenseCost, measure_backbone, measure_dense
from verisphere.train.dry_run.terms import center_copies, memories, prepared_terms
from verisphere.train.dry_run.traffic import Collective, collectives
from verisphere.train.processes import divided
from verisphere.train.recipe import Recipe
from verisphere.train.recipe_head import centers_and_engine

#: What an allocator takes beyond what it is asked for, as a share of what comes and goes in a step. glibc's heap was
#: seen to take 0.35 to 0.75, whether it keeps freed memory or not; for PyTorch's own on a GPU it is an assumption.
ALLOCATOR = {"cpu": 0.6, "cuda": 0.2}
#: PyTorch itself: its libraries on a CPU, a context and its kernels on a GPU.
RUNTIME = 2**29
#: Walks forward and back: the backward of a layer makes two products for the forward's one.
_FORWARD_AND_BACKWARD = 3
#: What a pair term works with beside its memory, at most; `benchmarks/pair_terms.py` measures it.
PAIR_WORK = 2**27
_MOST_PROCESSES = 4096
#: Far beyond any training, and small enough for every count of bytes and products.
MOST_CLASSES = MOST_IMAGES = 2**40


@dataclass(frozen=True)
class Memory:
    """Bytes of one process, by what they are for; of the process whose shares are the largest.

    Gradients come as activations go, and are counted as if all were there at once.

    Attributes:
        weights: of backbone and loss, buffers included.
        gradients: of them.
        optimizer: momentum, or AdamW's two averages, of them.
        buckets: in which gradients are summed over the processes.
        centers: of the classes that the process holds.
        center_state: their momentum, or AdamW's two averages.
        center_gradient: where the head does not update its centers itself.
        activations: what the backbone keeps for its backward.
        kept: exponentials that the streamed engine keeps for its second pass.
        logits: what the dense engine keeps for its backward, and works with in it.
        sampled: the sampled engine's copies of centers and momentum.
        chunks: what a chunk of classes takes while it is worked on.
        memories: what pair terms remember, their share of it; parameters of theirs count among the weights.
        pairs: what a pair term works with in a step.
        rows: embeddings of the whole batch, their gradients, and their own centers.
        images: of a batch, as read and as normalised.
        update: what the optimizer takes while it works on the centers, after activations and logits have gone.
        allocator: what it loses between blocks; an estimate.
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
    chunks: int
    memories: int
    pairs: int
    rows: int
    images: int
    update: int
    allocator: int

    def __post_init__(self) -> None:
        for one in fields(self):
            if getattr(self, one.name) < 0:
                raise ValueError(f"{one.name} is {getattr(self, one.name)}; a number of bytes is not negative")

    @property
    def total(self) -> int:
        """The most that is there at once: activations and logits, and the optimizer's copies, are not."""
        apart = self.activations + self.logits
        whole = sum(getattr(self, one.name) for one in fields(self))
        return whole - min(apart, self.update)


@dataclass(frozen=True)
class TrainingCost:
    """What a training takes.

    Attributes:
        backbone: its class.
        loss: its class.
        engine: that runs the head on a process's classes: dense, streamed, or sampled.
        classes: in all.
        held: on the process that holds most.
        processes: how many train together.
        batch: images a step, of all processes.
        local_batch: images a step of one process.
        memory: of one process.
        runtime: bytes of PyTorch itself.
        traffic: collectives of a step.
        backbone_flops: floating-point operations of a process's step in the backbone.
        head_flops: those in the head's products.
        available: bytes that a process has; None where that was not asked.
        would_fit: single changes with which it would fit; empty where it does, or where none does.
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
    available: int | None = None
    would_fit: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Bytes of one process, PyTorch included."""
        return self.memory.total + self.runtime

    @property
    def fits(self) -> bool | None:
        """Whether the total lies within what is available."""
        return None if self.available is None else self.total <= self.available


@dataclass
class Measurements:
    """A recipe's backbone and loss, measured where a dry run asks for it, and then remembered.

    Attributes:
        backbones: by precision.
        dense: of the loss.
    """

    backbones: dict[str, BackboneCost] = field(default_factory=dict)
    dense: DenseCost | None = None

    def backbone(self, recipe: Recipe) -> BackboneCost:
        """Of the recipe's precision."""
        if recipe.precision not in self.backbones:
            self.backbones[recipe.precision] = measure_backbone(recipe.backbone, getattr(torch, recipe.precision))
        return self.backbones[recipe.precision]

    def logits(self, recipe: Recipe) -> DenseCost:
        """Of the recipe's loss and sub-centers."""
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
    """What a training by this recipe takes; a compiled backbone may take less.

    Args:
        recipe: its data are not looked at.
        classes: identities in all.
        processes: how many train together, each with its share of every batch and of the classes.
        available: bytes that one process has.
        device: type of it, cpu or cuda: chunks of classes are larger on a GPU.
        measurements: of the recipe's backbone and loss, where they are to be shared by several calls.

    Raises:
        ValueError: a number outside its range, or a batch that so many processes cannot share.
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
    world = World(size=processes)
    work = HeadWork(recipe, len(world.share(classes, 0)), device)
    division = divided(recipe.batch_size, recipe.accumulate, world)
    local, part = len(division.places), max(len(one) for one in division.own)
    backbone_cost = measured.backbone(recipe)
    row = recipe.backbone.embedding_size * FLOAT
    terms = prepared_terms(recipe, classes)
    modules = (recipe.backbone, recipe.loss, *terms)
    weights = sum(one.nbytes for module in modules for one in module.parameters())
    weights += sum(one.nbytes for module in modules[:2] for one in module.buffers())
    trained = sum(one.nbytes for module in modules for one in module.parameters() if one.requires_grad)
    per_weight = states(recipe)
    comes_and_goes = {
        "gradients": trained,
        "center_gradient": work.center_gradient,
        "activations": backbone_cost.saved(part),
        "kept": work.kept,
        "logits": work.logits(measured.logits(recipe)) if work.dense else 0,
        "sampled": work.sampled,
        "chunks": work.chunks,
        "pairs": (PAIR_WORK if terms else 0) + center_copies(terms, work.held * recipe.subcenters * row),
        "rows": work.rows * (2 if processes > 1 else 1),
        "images": local * 3 * recipe.backbone.input_size[0] * recipe.backbone.input_size[1] * (FLOAT + 1),
    }
    memory = Memory(
        weights=weights,
        optimizer=per_weight * trained,
        buckets=trained if processes > 1 else 0,
        centers=work.centers,
        memories=memories(terms, processes),
        center_state=per_weight * work.centers,
        **comes_and_goes,
        update=work.update,
        allocator=round(ALLOCATOR.get(device, ALLOCATOR["cuda"]) * sum(comes_and_goes.values())),
    )
    return TrainingCost(
        backbone=type(recipe.backbone).__name__,
        loss=type(recipe.loss).__name__,
        engine=work.engine,
        classes=classes,
        held=work.held,
        processes=processes,
        batch=recipe.batch_size,
        local_batch=local,
        memory=memory,
        runtime=RUNTIME,
        traffic=collectives(recipe, processes) if processes > 1 else (),
        backbone_flops=_FORWARD_AND_BACKWARD * backbone_cost.flops * local,
        head_flops=work.flops,
        available=available,
    )


def _changes(recipe: Recipe, cost: TrainingCost, device: str, measured: Measurements) -> Iterator[str]:
    """Single changes that make a training fit that does not fit."""

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
