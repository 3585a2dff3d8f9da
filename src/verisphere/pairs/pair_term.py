"""The interface of a pair term: input of a step, and output, a loss beside the class-center loss or weights in it.

A term compares the batch's embeddings with each other or with a memory of earlier ones. It does not depend on losses,
engines or loops. On several ranks a batch consists of the rows of all ranks: each rank passes its own rows and receives
the same loss, whose gradient in its rows is that of the whole batch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from verisphere.base.collectives import counts, gathered, gathered_with_gradient, scale_gradient
from verisphere.base.distributed import world
from verisphere.pairs.memory import Memory
from verisphere.score.cosine import unit


@dataclass(frozen=True)
class Training:
    """What a term may know of a training before it starts.

    >>> Training(classes=0, embedding_size=512, batch_size=256)
    Traceback (most recent call last):
        ...
    ValueError: classes is 0; it must be at least 1

    Attributes:
        classes: number of identities, N.
        embedding_size: numbers in an embedding, d.
        batch_size: images a step, over all ranks.
        domains: names of the data's domains; None for data without domains.
        side: number of further columns that the backbone returns in training.
        epochs: length of the training.
        unit: unit of the positions that the recipe states, such as `after`.
        steps_per_epoch: batches in an epoch; None if the data are unknown.
        teacher_size: numbers in an embedding of the teacher; None without a teacher.

    Raises:
        ValueError: a count below 1.
    """

    classes: int
    embedding_size: int
    batch_size: int
    domains: tuple[str, ...] | None = None
    side: int = 0
    epochs: float = inf
    unit: Literal["epochs", "steps"] = "epochs"
    steps_per_epoch: int | None = None
    teacher_size: int | None = None

    def __post_init__(self) -> None:
        for name in ("classes", "embedding_size", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def epoch_of(self, position: float) -> float:
        """A position that the recipe states, in epochs; 0 if it is in steps and the steps of an epoch are unknown."""
        if self.unit == "epochs":
            return position
        return position / self.steps_per_epoch if self.steps_per_epoch else 0.0

    def check_begins(self, term: str, after: float) -> None:
        """Refuse a term that would never act.

        Args:
            term: name of the term.
            after: the position at which it begins to act, in `unit`.

        Raises:
            ValueError: the training ends before `after`, or `after` is in steps and no whole number.
        """
        if self.unit == "steps" and after != int(after):
            raise ValueError(f"{term}: after is {after:g}, but the recipe's unit is steps: state it in whole steps")
        if self.epoch_of(after) >= self.epochs:
            length = self.epochs * (self.steps_per_epoch or 1) if self.unit == "steps" else self.epochs
            raise ValueError(
                f"{term}: after is {after:g} {self.unit} but the training has {length:g}, so it would never act; lower "
                "after"
            )


@dataclass(frozen=True, eq=False)
class GlobalBatch:
    """The rows of all ranks, as constants, and this rank's rows with gradient.

    >>> batch = GlobalBatch.of(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([0, 1]))
    >>> batch.units.tolist()[1], batch.sizes, batch.degenerate
    ([0.0, 1.0], (2,), False)

    Attributes:
        units: rows of all ranks at length 1, as in evaluation: divided in float64, rounded once to float32.
        labels: number of each row's identity, or -1.
        local_units: rows of this rank at length 1, with gradient.
        sizes: number of rows of each rank.
    """

    units: Float32[Tensor, "batch dim"]
    labels: Int64[Tensor, " batch"]
    local_units: Float[Tensor, "rows dim"]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, embeddings: Float[Tensor, "rows dim"], labels: Int64[Tensor, " rows"]) -> "GlobalBatch":
        """Gather the batch from the rows of each rank."""
        local_units = unit(embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)))
        sizes = counts(len(labels))
        units = gathered(unit(embeddings.detach().double()).float(), sizes)
        return cls(units, gathered(labels, sizes), local_units, tuple(sizes))

    @property
    def local_rows(self) -> slice:
        """The rows that this rank contributed."""
        first = sum(self.sizes[: world().rank])
        return slice(first, first + len(self.local_units))

    @property
    def degenerate(self) -> bool:
        """Whether a row has no direction, since it is not finite or has length 0; the same on every rank."""
        return not bool(((self.units * self.units).sum(1) > 0.5).all())

    def gather(self, rows: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "batch *shape"]:
        """Gathers a per-row tensor from all ranks (no gradient)."""
        return gathered(rows, list(self.sizes))

    def gather_with_gradient(self, rows: Float[Tensor, "rows *shape"]) -> Float[Tensor, "batch *shape"]:
        """Gathers a per-row tensor from all ranks with its gradient, for a replicated computation."""
        return scale_gradient(gathered_with_gradient(rows, list(self.sizes)))

    def loss(self, value: Float[Tensor, ""], gradient: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
        """A loss with a known gradient in `units`; both arguments are replicated."""
        return _KnownGradient.apply(
            self.local_units, value.to(self.local_units), gradient[self.local_rows].to(self.local_units)
        )


@dataclass(frozen=True, eq=False)
class Step:
    """A training step as a term sees it; `batch` has the rows of all ranks, all other tensors those of this rank.

    >>> embeddings, labels = torch.eye(2), torch.tensor([0, 1])
    >>> Step(GlobalBatch.of(embeddings, labels), embeddings, labels, number=100, epoch=1.5).epoch
    1.5

    Attributes:
        batch: the rows of all ranks.
        embeddings: output of the backbone, with gradient.
        labels: number of each row's identity, or -1.
        number: number of steps made before.
        epoch: progress of the training, in epochs.
        domains: number of each row's domain; None for data without domains.
        side: further columns of the backbone's output, with gradient.
        centers: (held, K, d) centers of the classes that this rank holds, as stored.
        held: the classes whose centers this rank holds.
        teacher: embeddings of a teacher, without gradient; None without a teacher.
    """

    batch: GlobalBatch
    embeddings: Float[Tensor, "rows dim"]
    labels: Int64[Tensor, " rows"]
    number: int = 0
    epoch: float = 0.0
    domains: Int64[Tensor, " rows"] | None = None
    side: Float[Tensor, "rows side"] | None = None
    centers: Float[Tensor, "held subcenters dim"] | None = None
    held: range = range(0)
    teacher: Float[Tensor, "rows teacher_dim"] | None = None


@dataclass(frozen=True, eq=False)
class PairOutput:
    """The result of a term for one step.

    >>> PairOutput(weights=torch.tensor([1.0, 0.5])).loss is None  # weights alone
    True

    Attributes:
        loss: replicated loss, added to the class-center loss; None adds nothing.
        weights: constant weights of this rank's rows in the class-center loss; None changes none.
        figures: replicated figures for the log.
    """

    loss: Float[Tensor, ""] | None = None
    weights: Float[Tensor, " rows"] | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


class PairTerm(nn.Module):
    """Base of the pair terms. A subclass defines `forward`, and `prepare` if it has state.

    State between steps is kept in buffers: they are in every checkpoint, and a resumed run continues with them.

    >>> class Spread(PairTerm):
    ...     def forward(self, step):
    ...         return PairOutput(loss=step.embeddings.mean(0).square().sum())
    >>> embeddings, labels = torch.eye(2), torch.tensor([0, 1])
    >>> Spread()(Step(GlobalBatch.of(embeddings, labels), embeddings, labels)).loss
    tensor(0.5000)

    Attributes:
        copies_centers: whether a step takes a copy of the class centers, in float32.
    """

    copies_centers: bool = False

    def __call__(self, *inputs: Any, **named: Any) -> PairOutput:
        """Compute a step.

        Raises:
            TypeError: the only argument is not a `Step`; says how to make one.
            ValueError: a term with a memory is computed a second time, inside a backward pass.
        """
        if len(inputs) != 1 or named or not isinstance(inputs[0], Step):
            raise TypeError(
                f"{type(self).__name__} takes one Step of verisphere.pairs: write "
                "term(Step(GlobalBatch.of(embeddings, labels), embeddings, labels))"
            )
        if torch._C._current_graph_task_id() != -1 and any(isinstance(part, Memory) for part in self.children()):
            raise ValueError(
                f"{type(self).__name__} runs a second time inside the backward pass, as under activation "
                "checkpointing, and would insert the batch into its memory again: checkpoint the backbone alone"
            )
        return super().__call__(inputs[0])

    def prepare(self, training: Training) -> None:
        """Allocate the state; called once on every rank, before the training.

        Raises:
            ValueError: the term cannot be used in this training.
        """

    def forward(self, step: Step) -> PairOutput:
        """Compute loss, weights and figures of a step."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); a pair term computes there")

    def held(self) -> dict[str, range]:
        """Names in `state_dict` of the sharded tensors, and the rows of each that this rank holds.

        These are the tensors of its memories; all others are replicated.
        """
        memories = [(name, part) for name, part in self.named_children() if isinstance(part, Memory)]
        return {f"{name}.{tensor}": rows for name, part in memories for tensor, rows in part.held().items()}


class _KnownGradient(torch.autograd.Function):
    """A value with a gradient that was computed beside it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.detach().clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * by_value, None, None
