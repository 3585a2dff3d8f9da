"""The random numbers that a loss asks for: the same on every rank, so that all ranks compute one value."""

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor, nn

from verisphere.base.seeds import Stream, mixed_seed

#: Rows whose numbers come from one generator; part of the sequence, so another value gives other numbers.
_BLOCK = 1024


def standard_normal(seed: int, rows: range, columns: int) -> Float64[Tensor, "rows columns"]:
    """The numbers of a range of rows of a fixed sequence, on the CPU; each row is independent of the range.

    >>> bool((standard_normal(3, range(2000), 2)[1000:] == standard_normal(3, range(1000, 2000), 2)).all())
    True
    """
    blocks = range(rows.start // _BLOCK, -(-rows.stop // _BLOCK))
    drawn = [
        torch.randn(
            _BLOCK,
            columns,
            dtype=torch.float64,
            generator=torch.Generator().manual_seed(mixed_seed(Stream.NOISE, seed, block)),
        )
        for block in blocks
    ]
    first = blocks.start * _BLOCK
    return torch.cat(drawn)[rows.start - first : rows.stop - first]


class Noise(nn.Module):
    """Standard normal numbers for each row of the global batch, in training.

    The n-th row that a head receives in training gets the n-th numbers of a sequence that follows from the seed alone.
    So a value depends neither on the rank, the number of ranks, the engine nor the device, and a batch has the same
    numbers as a whole and in parts that follow one another. A further forward pass gets further numbers.

    The seed, the same on every rank, is a setting; only the number of rows is state. A resumed training continues the
    sequence where it stopped.
    """

    rows: Int64[Tensor, ""]

    def __init__(self, columns: int, seed: int = 0) -> None:
        super().__init__()
        if seed < 0:
            raise ValueError(f"seed is {seed}; it must be a number >= 0")
        self.columns, self.seed = columns, seed
        self.register_buffer("rows", torch.tensor(0))

    def forward(self, batch: Float[Tensor, "batch"]) -> Float[Tensor, "batch columns"] | None:
        """The numbers of the next rows, with the type and device of `batch`, one of whose numbers stands for a row."""
        if not self.training:
            return None
        first = int(self.rows)
        self.rows += len(batch)
        return standard_normal(self.seed, range(first, first + len(batch)), self.columns).to(batch)

    def extra_repr(self) -> str:
        """What `print(head)` shows."""
        return f"columns={self.columns}, seed={self.seed}"
