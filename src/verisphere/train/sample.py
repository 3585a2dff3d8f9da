"""The input of the training loop: a batch, or one rank's rows of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Consecutive rows of a sample that pass through the network in one forward.

    The weight, of its mean loss, is the part's share of the global batch, over all ranks.
    """

    rows: int
    weight: float


@dataclass(frozen=True, eq=False)
class Sample:
    """One batch on the device: normalised images, labels, and the names of the records for messages.

    Attributes:
        records: returns the names of the images at given positions.
        parts: rows that are processed one after another, accumulating gradients; by default one part with all rows.
        whole: number of images of all ranks; by default that of this sample.
    """

    images: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    records: Callable[[Sequence[int]], list[str]]
    parts: tuple[Part, ...] = ()
    whole: int = 0
    domains: Int64[Tensor, " batch"] | None = None
    teacher: Float[Tensor, "batch teacher_dim"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", self.parts or (Part(len(self.labels), 1.0),))
        object.__setattr__(self, "whole", self.whole or len(self.labels))
        if sum(part.rows for part in self.parts) != len(self.labels):
            raise ValueError(
                f"parts of {', '.join(str(part.rows) for part in self.parts)} rows do not make {len(self.labels)}"
            )
