"""Engines by their names, and the choice between them by size."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.contract import Engine, View, Waiting, WholeEngine
from verisphere.head.dense import Dense
from verisphere.head.streamed import Precision, Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.contract import Similarity


@dataclass(frozen=True)
class Auto(WholeEngine):
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
        take: Callable[[Waiting], None] | None = None,
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
