"""What a head asks of an engine: one batch's look at the centers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.dense import Dense
from verisphere.head.passes import CenterGradient
from verisphere.head.streamed import Precision, Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.contract import ClassLoss, Similarity


@runtime_checkable
class View(Protocol):
    """The centers as one batch needs them; made by an engine, used by the head for that batch alone."""

    @property
    def own_centers(self) -> Float[Tensor, "batch subcenters columns"]:
        """The centers of each row's class as they are stored, with gradient; of any class for a row labelled -1."""
        ...

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none.

        Args:
            loss: whose `others` are reduced.
            query: rows ready for comparison with the centers.
            context: of `loss`, one number a row each.
            row_gradient: where the gradient of the whole in this result is known beforehand but for one factor, the
                gradient without that factor: an engine may then do with a single pass.
        """
        ...

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers, by the first `columns` columns."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Looks at every center; a head leaves that to it, and does all that is a matter of rows alone."""

    def view(
        self,
        centers: Float[Tensor, "classes subcenters columns"],
        labels: Int64[Tensor, "batch"],
        subcenters: SubCenters,
        similarity: Similarity,
        dtype: torch.dtype,
        take: Callable[[CenterGradient], None] | None = None,
    ) -> View:
        """The centers for a batch.

        Args:
            centers: as stored.
            labels: of the rows; -1 is no class, and leaves no class out.
            subcenters: how the cosines of a class become one.
            similarity: how centers are compared.
            dtype: of the rows, and to compute in.
            take: receives the gradient of the centers before it is made, for an update without it. An engine may give
                the gradient to autograd all the same.
        """
        ...


@dataclass(frozen=True)
class Auto:
    """Dense while the logits are few, else streamed.

    Attributes:
        streamed: the engine beyond.
        logits: the largest batch x centers that is computed at once.
    """

    streamed: Streamed = field(default_factory=Streamed)
    logits: int = 2**22

    def view(
        self,
        centers: Float[Tensor, "classes subcenters columns"],
        labels: Int64[Tensor, "batch"],
        subcenters: SubCenters,
        similarity: Similarity,
        dtype: torch.dtype,
        take: Callable[[CenterGradient], None] | None = None,
    ) -> View:
        """The centers for a batch, by either engine."""
        few = len(labels) * centers.shape[:2].numel() <= self.logits
        engine: Engine = Dense() if few else self.streamed
        return engine.view(centers, labels, subcenters, similarity, dtype, take)


#: Engines by the name that a recipe spells, made for a precision of their products.
ENGINES: dict[str, Callable[[Precision], Engine]] = {
    "dense": lambda precision: Dense(),
    "streamed": Streamed,
    "auto": lambda precision: Auto(Streamed(precision)),
}
