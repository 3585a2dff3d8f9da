"""What the training loop takes: a batch, or a process's rows of one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Float, Int64
from torch import Tensor


@dataclass(frozen=True)
class Part:
    """Some rows of a sample, which go through the network together.

    Attributes:
        rows: how many, after those of the parts before.
        weight: share of the global batch that the part is over all processes; its mean loss counts so much.
    """

    rows: int
    weight: float


@dataclass(frozen=True, eq=False)
class Sample:
    """One batch, on the device: normalised images, labels, and what to call each record in a message.

    Attributes:
        images: of this process.
        labels: of the images.
        records: names of the images at these positions.
        parts: rows that are worked through one after another, gradients gathering; all at once by default.
        whole: images of all processes together; by default these are all.
        domains: number of each image's domain; None where the data knows none.

    Raises:
        ValueError: the parts do not add up to the images.
    """

    images: Float[Tensor, "batch 3 height width"]
    labels: Int64[Tensor, " batch"]
    records: Callable[[Sequence[int]], list[str]]
    parts: tuple[Part, ...] = ()
    whole: int = 0
    domains: Int64[Tensor, " batch"] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", self.parts or (Part(len(self.labels), 1.0),))
        object.__setattr__(self, "whole", self.whole or len(self.labels))
        if sum(part.rows for part in self.parts) != len(self.labels):
            raise ValueError(
                f"parts of {', '.join(str(part.rows) for part in self.parts)} rows do not make {len(self.labels)}"
            )
