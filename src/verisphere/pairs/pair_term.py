"""What a pair term sees of a training step, and what it gives: a loss beside the class-center loss, or weights in it.

A term compares the batch's embeddings with each other or with a memory of earlier ones. It knows nothing of losses,
engines or loops. Under several processes a batch is what they have together: each passes its own rows and gets back the
same loss, whose gradient in its rows is that of the whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any

import torch
from jaxtyping import Float, Float32, Int64, Shaped
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from verisphere.collectives import agreed, counts, gathered, gathered_with_gradient
from verisphere.distributed import world
from verisphere.score.cosine import unit

#: The label of an image whose person is none of the classes.
NO_CLASS = -1


@dataclass(frozen=True)
class Training:
    """What is known of a training before it begins.

    Attributes:
        classes: number of identities, N.
        embedding_size: numbers in an embedding, d.
        batch_size: images a step, of all processes.
        domains: names of the data's domains; None where it knows none.
        side: further columns that the backbone gives in training.
        epochs: length of the training.

    Raises:
        ValueError: a count below 1.
    """

    classes: int
    embedding_size: int
    batch_size: int
    domains: tuple[str, ...] | None = None
    side: int = 0
    epochs: float = inf

    def __post_init__(self) -> None:
        for name in ("classes", "embedding_size", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def check_begins(self, term: str, after: float) -> None:
        """Refuse a term whose time would never come.

        Raises:
            ValueError: it is to begin after so many epochs as the training has, or more.
        """
        if after >= self.epochs:
            raise ValueError(
                f"{term}: after is {after:g} epochs but the training has {self.epochs:g}, so it would never act; lower "
                "after"
            )


@dataclass(frozen=True, eq=False)
class GlobalBatch:
    """The rows of all processes, as constants, and the way of a gradient back to one's own.

    Attributes:
        units: of length 1, as evaluation has them: divided in float64, rounded once to float32.
        labels: number of each row's identity, or -1.
        own: this process's rows at length 1, with gradient.
        sizes: how many rows each process has.
    """

    units: Float32[Tensor, "batch dim"]
    labels: Int64[Tensor, " batch"]
    own: Float[Tensor, "rows dim"]
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, embeddings: Float[Tensor, "rows dim"], labels: Int64[Tensor, " rows"]) -> "GlobalBatch":
        """From each process's own rows."""
        own = unit(embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)))
        sizes = counts(len(labels))
        units = gathered(unit(embeddings.detach().double()).float(), sizes)
        return cls(units, gathered(labels, sizes), own, tuple(sizes))

    @property
    def mine(self) -> slice:
        """Which rows are this process's."""
        first = sum(self.sizes[: world().rank])
        return slice(first, first + len(self.own))

    @property
    def spoilt(self) -> bool:
        """Whether a row has no direction: it is not finite, or of length 0. The same on every process."""
        return not bool(((self.units * self.units).sum(1) > 0.5).all())

    def everyones(self, rows: Shaped[Tensor, "rows *shape"]) -> Shaped[Tensor, "batch *shape"]:
        """Something of each row of all processes, without gradient."""
        return gathered(rows, list(self.sizes))

    def with_gradient(self, rows: Float[Tensor, "rows *shape"]) -> Float[Tensor, "batch *shape"]:
        """The same with gradient, for what every process then computes alike."""
        return agreed(gathered_with_gradient(rows, list(self.sizes)))

    def loss(self, value: Float[Tensor, ""], gradient: Float[Tensor, "batch dim"]) -> Float[Tensor, ""]:
        """A loss with this gradient in the unit rows of all processes; every process knows both."""
        return _Known.apply(self.own, value.to(self.own), gradient[self.mine].to(self.own))


@dataclass(frozen=True, eq=False)
class Step:
    """A step as a term sees it; rows are this process's own.

    Attributes:
        batch: the rows of all processes.
        embeddings: as the backbone gives them, with gradient.
        labels: number of each row's identity, or -1.
        number: steps made before.
        epoch: how far the training has come, in epochs.
        domains: number of each row's domain; None where the data knows none.
        side: further columns of the backbone's, with gradient.
        centers: (held, K, d) of the classes that this process holds, as stored; for terms that compare with them.
        held: which classes these are.
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


@dataclass(frozen=True, eq=False)
class Given:
    """What a term makes of a step.

    Attributes:
        loss: added to the class-center loss; alike on every process. None adds nothing.
        weights: of this process's rows in the class-center loss, constants; None leaves them.
        figures: for the log; alike on every process.
    """

    loss: Float[Tensor, ""] | None = None
    weights: Float[Tensor, " rows"] | None = None
    figures: Mapping[str, float] = field(default_factory=dict)


class PairTerm(nn.Module):
    """Base of the pair terms. A subclass fills in `forward`, and `prepare` if it keeps anything.

    What a term keeps between steps are buffers: they are in every checkpoint, and a resumed run goes on with them.

    Attributes:
        copies_centers: whether a step takes a copy of the class centers, in float32.
    """

    copies_centers: bool = False

    def prepare(self, training: Training) -> None:
        """Make room for what is kept; called once, before the training, on every process.

        Raises:
            ValueError: the training is none for this term.
        """

    def forward(self, step: Step) -> Given:
        """Loss, weights and figures of a step."""
        raise NotImplementedError(f"{type(self).__name__} has no forward(); a pair term computes there")

    def held(self) -> dict[str, range]:
        """Names in `state_dict` of tensors whose rows are split over the processes, and the rows that are here.

        Of any other tensor every process has the same.
        """
        return {}


class _Known(torch.autograd.Function):
    """A value whose gradient has been computed beside it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return value.detach().clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * by_value, None, None
