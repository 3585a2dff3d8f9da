"""Engines by their names, and the choice between them by size."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.dense import Dense
from verisphere.head.interface import Engine, View, Waiting, Weighing, WholeEngine
from verisphere.head.sampled import Sampled
from verisphere.head.streamed import Precision, Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import Similarity


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
        class_weights: Float[Tensor, "classes"] | None = None,
    ) -> View:
        """The centers for a batch, by either engine."""
        few = len(labels) * centers.shape[:2].numel() <= self.logits
        engine: Weighing = Dense() if few else self.streamed
        return engine.view(centers, labels, subcenters, similarity, dtype, take, class_weights)


#: Engines by the name that a recipe spells.
ENGINES = "dense", "streamed", "auto", "sampled"

#: Share of the classes that the sampled engine looks at, where nothing else is said; that of PartialFC's tables.
SAMPLE_RATE = 0.1


def engine_named(
    name: str, precision: Precision = "float32", sample_rate: float = SAMPLE_RATE, seed: int = 0
) -> Engine:
    """The engine that a recipe spells.

    Args:
        name: one of `ENGINES`.
        precision: of the products.
        sample_rate: of "sampled": the share of the classes that a step looks at.
        seed: of "sampled": of its draws.

    Raises:
        ValueError: an unknown name, a number outside its range, or a precision that the dense engine does not know.
    """
    if name not in ENGINES:
        raise ValueError(f"engine is {name!r}; allowed are {', '.join(ENGINES)}")
    if name == "dense" and precision != "float32":
        raise ValueError(f"precision is {precision!r} with engine 'dense', which knows float32 only; use 'streamed'")
    if name == "dense":
        return Dense()
    streamed = Streamed(precision)
    if name == "streamed":
        return streamed
    return Auto(streamed) if name == "auto" else Sampled(sample_rate, streamed, seed)
