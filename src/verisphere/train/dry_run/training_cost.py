"""The cost of a training before it begins: memory, communication and work of one rank, for any number of classes.

Bytes of weights, centers and their momentum are exact. What autograd keeps is measured on a few images and scaled. The
loss of the allocator between blocks is a share derived from measured peaks; tests compare the total with peaks.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from math import ceil
from typing import Literal

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from verisphere.base.distributed import World
from verisphere.head import Auto, Streamed, SubCenters
from verisphere.head.passes import chunk_size, known_shift
from verisphere.head.sampled import SAMPLE_RATE, sample_size
from verisphere.head.sparse import why_not_sparse
from verisphere.head.streamed import CHUNK_ELEMENTS
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.similarity_kl import TeacherNormaliser
from verisphere.pairs.pair_term import PairTerm
from verisphere.score.batch_pairs import fastest
from verisphere.score.cosine import unit
from verisphere.train.distill.taught import embeds_batches
from verisphere.train.distill.teachers import open_teachers
from verisphere.train.dry_run.measured import (
    BackboneCost,
    DenseCost,
    TeacherCost,
    copied_loss,
    measure_backbone,
    measure_dense,
    measure_teachers,
)
from verisphere.train.preparation import loss_of, terms_of, training_without_data
from verisphere.train.processes import divided
from verisphere.train.recipe import Recipe
from verisphere.train.recipe_head import centers_and_engine

FLOAT = 4
#: Bytes for each product of a chunk while a loss works on it, and for each number of the chunk's centers.
_PER_PRODUCT, _PER_CENTER_NUMBER = 24, 10
#: Bytes that the sparse engine knows of a center: its length, momentum, rounding, and step, and how far it has turned.
_KNOWN_OF_A_CENTER = 32


def states(recipe: Recipe) -> int:
    """The number of values that the optimizer keeps for each weight."""
    return 2 if recipe.optimizer.name == "adamw" else int(recipe.optimizer.momentum > 0)


class HeadWork:
    """The head of one rank, with the classes that the rank holds, for one part of the global batch.

    Attributes:
        seen: number of classes that a step compares with.
        batch: rows of the largest part of the global batch.
        deferred: whether the head updates its centers itself, without their gradient.
    """

    def __init__(self, recipe: Recipe, held: int, device: str, teacher_size: int = 0) -> None:
        self.recipe, self.held, self.teacher_size = recipe, held, teacher_size
        self.batch = ceil(recipe.batch_size / recipe.accumulate)
        self.columns = recipe.backbone.embedding_size + recipe.loss.class_bias
        sampled = recipe.engine == "sampled"
        self.seen = sample_size(recipe.sample_rate, held, min(self.batch, held)) if sampled else held
        fused = recipe.optimizer.name == "sgd" and recipe.accumulate == 1
        centers = SubCenters(recipe.subcenters, recipe.pooling, recipe.temperature, recipe.pull_together)
        many = recipe.engine == "auto" and self.products > Auto().dense_before_sparse(device)
        sparse = fused and (recipe.engine == "sparse" or many) and why_not_sparse(recipe.loss, centers) is None
        few = recipe.engine == "auto" and self.products <= Auto().logits and not sparse
        self.dense = recipe.engine == "dense" or few
        self.engine = "sampled" if sampled else "sparse" if sparse else "dense" if self.dense else "streamed"
        self.deferred = fused and (sampled or not self.dense)
        self._device, self._elements = device, CHUNK_ELEMENTS.get(device, CHUNK_ELEMENTS["cuda"])

    @property
    def row(self) -> int:
        """Bytes of a class's centers."""
        return self.recipe.subcenters * self.columns * FLOAT

    @property
    def centers(self) -> int:
        """Bytes of the centers of the held classes."""
        return self.held * self.row

    @property
    def center_gradient(self) -> int:
        """Bytes of the centers' gradient: 0 if it is deferred; with several parts, one gradient beside their sum."""
        return 0 if self.deferred else self.centers * (1 if self.recipe.accumulate == 1 else 2)

    @property
    def update(self) -> int:
        """Bytes of a copy of the gradient with the weight decay, or of AdamW's denominator and step."""
        return 0 if self.deferred else self.centers * (2 if self.recipe.optimizer.name == "adamw" else 1)

    @property
    def sampled(self) -> int:
        """Bytes of the drawn classes' centers, of their gradient if computed, and of their momentum in the update."""
        return (1 + self.dense + states(self.recipe)) * self.seen * self.row if self.engine == "sampled" else 0

    @property
    def screen(self) -> int:
        """Bytes of the sparse engine's screen, and of what it knows of each center; a screen in float32 has no copy."""
        if self.engine != "sparse":
            return 0
        number = {"int8": 1, "bfloat16": 2, "float32": 0}[fastest(self._device, self.columns, None)]
        return self.held * self.recipe.subcenters * (number * self.columns + _KNOWN_OF_A_CENTER)

    @property
    def products(self) -> int:
        """Number of pairs of a row and a center, in one part of the batch."""
        return self.batch * self.seen * self.recipe.subcenters

    @property
    def one_pass(self) -> bool:
        """Whether the streamed engine's first pass computes the centers' gradient; a deferred one is computed later."""
        return self.recipe.loss.one_pass(self.recipe.pull_together) and not self.deferred

    @property
    def terms(self) -> Iterator[tuple[ClassLoss, bool]]:
        """The losses that compare with other centers, and whether exponentials are kept, as by `StreamedView.rest`."""
        budget = Streamed().keep_bytes
        for _, loss in self.recipe.loss.terms:
            if loss.query == "none":
                continue
            bfloat16 = self.recipe.head_precision == "bfloat16" and not loss.exact_products
            keeps = bfloat16 and not self.one_pass and 2 * self.products <= budget
            keeps = keeps and not self.dense
            budget -= 2 * self.products * keeps
            yield loss, keeps

    @property
    def kept(self) -> int:
        """Bytes of the exponentials that are kept for the second pass."""
        return sum(2 * self.products for _, keeps in self.terms if keeps)

    def logits(self, cost: DenseCost) -> int:
        """Bytes that dense autograd keeps, and those of its backward: two numbers a product, a copy of the centers."""
        saved = cost.saved(self.batch, self.seen)
        return saved + 2 * FLOAT * self.products + self.seen * self.row

    @property
    def chunks(self) -> int:
        """Bytes of one chunk of classes while it is processed, and of the lengths of all centers."""
        if self.dense:
            return 0
        most = max(self._elements // (self.recipe.subcenters * max(self.batch, self.columns)), 64)
        centers = chunk_size(self.seen, most, self._device) * self.recipe.subcenters
        lengths = self.seen * self.recipe.subcenters * FLOAT
        return centers * (self.batch * _PER_PRODUCT + self.columns * _PER_CENTER_NUMBER) + lengths

    @property
    def rows(self) -> int:
        """Bytes of embeddings, unit rows, own centers, unit own centers, and the gradients of all of them."""
        return self.batch * self.columns * FLOAT * (4 + 4 * self.recipe.subcenters)

    @property
    def flops(self) -> int:
        """Floating-point operations of a step's products, a multiplication and its addition counting as two."""
        each = 2 * self.products * self.columns
        if self.engine == "sparse":  # the screened product; those of the few classes that remain are not counted
            return each * self.recipe.accumulate
        count = of_teacher = 0
        for loss, keeps in self.terms:
            again = not (keeps or self.one_pass or self.dense)
            count += 3 + again + loss.teacher  # a teacher's normaliser takes a pass of its own
            count += loss.nearest > 0
            of_teacher += loss.teacher * (2 + again)
        with_teacher = 2 * self.batch * self.seen * self.teacher_size
        return (count * each + of_teacher * with_teacher) * self.recipe.accumulate


_PLACEHOLDER_DOMAINS = "one", "other"  # a dry run does not read the data


def prepared_terms(recipe: Recipe, classes: int, teacher_size: int | None = None) -> list[PairTerm]:
    """Copies of the recipe's pair terms, prepared for a number of classes on the meta device."""
    training = training_without_data(recipe, classes, _PLACEHOLDER_DOMAINS, teacher_size=teacher_size)
    terms = copy.deepcopy(recipe.pair_terms)
    with torch.device("meta"):
        for term in terms:
            term.prepare(training)
    return terms


def center_copies(terms: list[PairTerm], centers: int) -> int:
    """Bytes of the copies that terms make of the centers in a step: one, and another while it is normalised."""
    return 2 * centers if any(term.copies_centers for term in terms) else 0


def memories(terms: list[PairTerm], processes: int) -> int:
    """Bytes of the terms' memories on the process with the largest share."""
    total = 0
    for term in terms:
        shared = term.held()
        for name, buffer in term.named_buffers():
            total += -(-buffer.nbytes // processes) if name in shared else buffer.nbytes
    return total


Kind = Literal["gather", "scatter", "sum", "maximum", "broadcast"]
_FLOAT, _LABEL, _COUNT, _DOUBLE, _FLAG = 4, 8, 8, 8, 4


@dataclass(frozen=True)
class Collective:
    """A collective between the ranks.

    Attributes:
        kind: "gather" (every rank gets the rows of all ranks), "scatter" (every rank gets the sum for its own rows),
            "sum" or "maximum" (every rank gets the result), or "broadcast" (every rank gets the values of rank 0).
        payload: bytes that a rank contributes during a step, summed over all `times`.
    """

    what: str
    kind: Kind
    payload: int
    times: int = 1

    def __post_init__(self) -> None:
        if self.payload < 1 or self.times < 1:
            raise ValueError(f"{self.what}: {self.payload} bytes, {self.times} times, is no exchange")

    def sent(self, processes: int) -> int:
        """Bytes that a rank sends in a step, if this many ranks exchange them in a ring.

        >>> Collective("gradients", "sum", 1000).sent(4)  # each part goes round once to be summed, and once to be known
        1500
        """
        others = processes - 1
        if self.kind == "gather":
            return self.payload * others
        rounds = 1 if self.kind in ("scatter", "broadcast") else 2
        return rounds * self.payload * others // processes


def collectives(recipe: Recipe, processes: int, teacher_size: int = 0) -> tuple[Collective, ...]:
    """Those of a training step by several processes, at least 2."""
    return (*head_collectives(recipe, processes, teacher_size), *_backbone(recipe))


def head_collectives(recipe: Recipe, processes: int, teacher_size: int = 0) -> Iterator[Collective]:
    """Those of the head, as the table at `verisphere.head.sharded.Sharded` has them."""
    parts = recipe.accumulate
    sizes = [World(size=parts).share(recipe.batch_size, part) for part in range(parts)]
    most = sum(len(World(size=processes).share(len(size), 0)) for size in sizes)  # shares are padded to the largest
    row, column = recipe.backbone.embedding_size * _FLOAT, recipe.batch_size * _FLOAT
    loss = recipe.loss

    yield Collective("numbers of rows", "gather", _COUNT * parts, parts)
    yield Collective("embeddings", "gather", most * row, parts)
    yield Collective("labels", "gather", most * _LABEL, parts)
    if any(term.teacher for _, term in loss.terms):
        yield Collective("the teacher's embeddings", "gather", most * teacher_size * _FLOAT, parts)
        scale = max(term.scale for _, term in loss.terms if term.teacher)
        if known_shift(TeacherNormaliser(scale), 1) is None:
            yield Collective("the teacher's largest logits", "maximum", column, parts)
        yield Collective("the teacher's sums over the classes", "sum", column, parts)
    if loss.partial_losses(recipe.pull_together):
        yield Collective("losses of the rows", "sum", column, parts)
    else:
        yield from _softmax(recipe, column, parts)
    for _, term in loss.terms:
        for a_row in _learned_context(term, recipe.backbone.embedding_size):
            yield Collective("gradient of the loss's context", "sum", column if a_row else _FLOAT * parts, parts)
    if any(_reaches_embeddings(term, recipe.backbone.embedding_size) for _, term in loss.terms):
        yield Collective("gradients of the embeddings", "scatter", most * processes * row, parts)


def _softmax(recipe: Recipe, column: int, parts: int) -> Iterator[Collective]:
    """The collectives of losses that reduce each row over all classes, or that need the own cosines first."""
    loss, columns = recipe.loss, recipe.backbone.embedding_size + recipe.loss.class_bias
    yield Collective("own cosines", "sum", column, parts)
    by_centers = sum(term.query == "own_center" for _, term in loss.terms)
    if by_centers:
        yield Collective("own centers", "sum", column * columns, parts)
        yield Collective("gradients of the own centers", "sum", column * columns * by_centers, parts * by_centers)
    if nearest := max(term.nearest for _, term in loss.terms):
        yield Collective("nearest other classes", "gather", column * nearest, parts)
    for _, term in loss.terms:
        if term.query == "none":
            continue
        if term.reduce == "logsumexp" and known_shift(term, 1) is None:
            yield Collective("largest logits", "maximum", column, parts)
        yield Collective("sums over the classes", "sum", column, parts)
    if recipe.pull_together:
        yield Collective("spread of the sub-centers", "sum", _FLOAT * parts, parts)


def _learned_context(loss: ClassLoss, embedding_size: int) -> Iterator[bool]:
    """For each item of the context that needs a gradient, whether the item has a number for each row."""
    if loss.query == "none":
        return
    rows = _example_rows(loss, embedding_size)
    for item in copied_loss(loss, 2).context(rows):
        if item.requires_grad:
            yield item.ndim > 0


def _reaches_embeddings(loss: ClassLoss, embedding_size: int) -> bool:
    """Whether the loss has a gradient in the embeddings; a loss that compares only centers with centers has none."""
    if loss.query == "embedding":
        return True
    rows, prepared = _example_rows(loss, embedding_size), copied_loss(loss, 2)
    prepared.requires_grad_(False).prepare(2)
    context = tuple(item.expand(2) for item in prepared.context(rows))
    own = prepared.own(rows.own, *context)
    return prepared.finish(own, torch.zeros(2), *context).requires_grad


def _example_rows(loss: ClassLoss, embedding_size: int) -> Rows:
    """Two rows whose embeddings need a gradient; they show which results of the loss depend on embeddings."""
    embeddings = torch.ones(2, embedding_size, requires_grad=True)
    own = embeddings[:, 0] * 0.5
    nearest = torch.zeros(2, loss.nearest) if loss.nearest else None
    labels = torch.zeros(2, dtype=torch.int64)
    length, teacher = torch.linalg.vector_norm(embeddings, dim=1), torch.zeros(2) if loss.teacher else None
    return Rows(own, length, unit(embeddings), labels, nearest, teacher=teacher)


def _backbone(recipe: Recipe) -> Iterator[Collective]:
    """The collectives of DistributedDataParallel, of synchronised batch norm, and of the check before the update."""
    trained = [one for one in recipe.backbone.parameters() if one.requires_grad]
    buffers = sum(one.nbytes for one in recipe.backbone.buffers())
    norms = [one.num_features for one in recipe.backbone.modules() if isinstance(one, _BatchNorm)]
    parts = recipe.accumulate
    if recipe.sync_batch_norm and norms:
        forward = sum(2 * channels + 1 for channels in norms) * _DOUBLE
        yield Collective("batch statistics", "gather", forward * parts, len(norms) * parts)
        yield Collective("their gradients", "sum", sum(norms) * 2 * _DOUBLE * parts, len(norms) * parts)
    if trained:
        yield Collective("gradients of the backbone", "sum", sum(one.nbytes for one in trained))
        yield Collective("which parameters were used", "sum", len(trained) * _FLAG)
        if buffers:
            yield Collective("running means", "broadcast", buffers)
    yield Collective("is all finite, and shall we stop", "maximum", 4 * _FLOAT)


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
        optimizer, center_state: momentum, or AdamW's two averages, of these weights, and of the centers.
        buckets: buffers in which gradients are summed over the ranks.
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
        held: number of classes of the process that holds most.
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
    """The cost of a recipe's training, whose data are not read; a compiled backbone may need less."""
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
