"""The dry run of one training: its options, and the cost as text and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from verisphere.base.device import choose_device, memory_of
from verisphere.files.results import Result
from verisphere.report.tables import table
from verisphere.train.dry_run.training_cost import MOST_CLASSES, MOST_IMAGES, Memory, TrainingCost, training_cost
from verisphere.train.preparation import check_plateau, epochs_of
from verisphere.train.recipe import Recipe, Settings, read_recipe

GIB = 2**30
#: Far beyond any machine: an exbibyte.
_MOST_MEMORY = 2**30
#: Take the place of a recipe's images and validation if the number of classes is given; they are not read.
NO_DATA: Settings = {"data": "verisphere.images.SyntheticFaces", "data.init_args.people": 2, "validation": None}
_NAMES = {
    "weights": "backbone and loss: weights",
    "gradients": "their gradients",
    "optimizer": "their optimizer state",
    "buckets": "gradients on their way to the others",
    "centers": "class centers",
    "center_state": "their optimizer state",
    "center_gradient": "their gradient",
    "activations": "activations",
    "kept": "exponentials kept",
    "logits": "logits, several times over",
    "sampled": "copies of sampled centers",
    "screen": "screen of the centers",
    "chunks": "a chunk of classes at work",
    "memories": "memories of pair terms",
    "pairs": "pairs at work (at most)",
    "rows": "embeddings and own centers",
    "images": "images",
    "teacher": "the teacher",
    "update": "centers' update",
    "allocator": "lost between blocks (estimate)",
}


@dataclass(frozen=True)
class DryRunOptions:
    """The data and the machine that a dry run takes.

    Attributes:
        classes: number of classes; None counts the people in the data and reads nothing else of them. With a number the
            data need not exist.
        images: number of images, from which the steps of an epoch follow, with `classes` alone; None is unknown.
        memory: GiB that each process has; None takes all memory of a GPU, or the free memory of the machine, as for
            one process.
    """

    classes: int | None = None
    images: int | None = None
    processes: int = 1
    memory: float | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        if self.memory is not None and not 0 < self.memory <= _MOST_MEMORY:
            raise ValueError(f"--memory is {self.memory}; it must be a positive number of GiB, at most 2^30")
        for name, number, most in (("classes", self.classes, MOST_CLASSES), ("images", self.images, MOST_IMAGES)):
            if number is not None and number < 1:
                raise ValueError(f"--{name} is {number}; a dry run needs at least 1")
            if number is not None and number > most:
                raise ValueError(f"--{name} is {number}; a dry run takes at most 2^40")
        if self.images is not None and self.classes is None:
            raise ValueError("--images needs --classes beside it; without them the data are counted")

    @property
    def place(self) -> torch.device:
        """The device of the training."""
        return choose_device(self.device)

    @property
    def available(self) -> int:
        """Bytes that a process has: the given GiB, or what `memory_of` finds."""
        return memory_of(self.place) if self.memory is None else max(int(self.memory * GIB), 1)

    def sizes(self, recipe: Recipe) -> tuple[int, int | None]:
        """Classes and images of a training: the given ones, or those of its data; None for unknown images."""
        return (len(recipe.data.people), len(recipe.data)) if self.classes is None else (self.classes, self.images)

    def cost(self, recipe: Recipe) -> tuple[TrainingCost, int | None]:
        """The cost of a training, and its number of images."""
        place = self.place  # before the data are counted
        classes, images = self.sizes(recipe)
        return training_cost(recipe, classes, self.processes, self.available, place.type), images


@dataclass(frozen=True, eq=False)
class DryRun(Result):
    """The cost of a recipe's training, with the batches in an epoch; None if the number of images is unknown."""

    cost: TrainingCost
    recipe: Recipe
    steps_per_epoch: int | None = None

    def text(self) -> str:
        """The cost as paragraphs and tables."""
        head = _head(self.cost, self.recipe, self.steps_per_epoch)
        return "\n\n".join([head, _memory(self.cost), *_traffic(self.cost), _work(self.cost), *_verdict(self.cost)])

    def fields(self) -> dict[str, Any]:
        """The fields of the cost, its total, and whether it fits."""
        return {**vars(self.cost), "total": self.cost.total, "fits": self.cost.fits}


def dry_run(path: Path, overrides: Sequence[str], options: DryRunOptions) -> DryRun:
    """Compute what a recipe's training would take; nothing is trained."""
    read = read_recipe(path, overrides, () if options.classes is None else [*NO_DATA.items()])
    if options.classes is None:  # else the validation set is not read either
        check_plateau(read.recipe)
    cost, images = options.cost(read.recipe)
    return DryRun(cost, read.recipe, None if images is None else images // read.recipe.batch_size)


def _head(cost: TrainingCost, recipe: Recipe, steps_per_epoch: int | None) -> str:
    precisions = f"backbone in {recipe.precision}, head products in {recipe.head_precision}"
    if cost.processes == 1:
        share = f"one process, {cost.batch} images a step"
    else:
        share = (
            f"{cost.processes} processes, each with up to {cost.local_batch} of {cost.batch} images a step and "
            f"{cost.held:,} classes"
        )
    engine = f"engine {cost.engine}" + (f" at rate {recipe.sample_rate:g}" if cost.engine == "sampled" else "")
    about = f"{cost.backbone} and {cost.loss} over {cost.classes:,} classes; {engine}; {precisions}"
    return f"{about}\n{share}\n{_length(recipe, steps_per_epoch)}"


def _length(recipe: Recipe, steps_per_epoch: int | None) -> str:
    """The length of the training in steps and in epochs, as far as the number of images is known."""
    if not steps_per_epoch:
        stated = f"{recipe.epochs:g} epochs" if recipe.steps is None else f"{recipe.steps:,} steps"
        reason = "needs the number of images" if steps_per_epoch is None else "has no whole batch in an epoch"
        return f"{stated}; the other unit {reason}"
    epochs = epochs_of(recipe, steps_per_epoch)
    steps = max(round(epochs * steps_per_epoch), 1)
    return f"{steps:,} steps, which are {epochs:g} epochs of {steps_per_epoch:,} steps"


def _memory(cost: TrainingCost) -> str:
    rows = [
        [_NAMES[one.name], gib(getattr(cost.memory, one.name))]
        for one in fields(Memory)
        if getattr(cost.memory, one.name)
    ]
    rows += [["PyTorch itself", gib(cost.runtime)], ["all together", gib(cost.total)]]
    return table(["memory of one process", "GiB"], rows)


def _traffic(cost: TrainingCost) -> list[str]:
    if not cost.traffic:
        return []
    rows = [
        [one.what, one.kind, str(one.times), f"{one.payload:,}", f"{one.sent(cost.processes):,}"]
        for one in cost.traffic
    ]
    put_in = sum(one.payload for one in cost.traffic)
    sent = sum(one.sent(cost.processes) for one in cost.traffic)
    times = sum(one.times for one in cost.traffic)
    rows.append(["all together", "", str(times), f"{put_in:,}", f"{sent:,}"])
    return [table(["collectives of a step", "kind", "times", "bytes put in", "bytes sent in a ring"], rows)]


def _work(cost: TrainingCost) -> str:
    return (
        f"work of one process in a step: {cost.backbone_flops / 1e9:,.1f} GFLOP in the backbone, "
        + (f"{cost.teacher_flops / 1e9:,.1f} in the teacher, " if cost.teacher_flops else "")
        + f"{cost.head_flops / 1e9:,.1f} in the head's products"
        + ("; exchanges and products of pair terms are not counted" if cost.memory.pairs else "")
    )


def _verdict(cost: TrainingCost) -> list[str]:
    if cost.available is None:
        return []
    if cost.fits:
        return [f"it fits: {gib(cost.total)} of {gib(cost.available)} GiB"]
    line = f"it does not fit: {gib(cost.total)} GiB are needed, {gib(cost.available)} are there"
    if cost.would_fit:
        return [f"{line}; it would with " + ", or ".join(cost.would_fit)]
    return [f"{line}; no single change of engine, precision, accumulate, batch_size or processes is enough"]


def gib(count: int) -> str:
    """Bytes as GiB.

    >>> gib(3 * 2**29), gib(1000)
    ('1.50', '0.00')
    """
    return f"{count / GIB:.2f}" if count < 100 * GIB else f"{count / GIB:.0f}"
