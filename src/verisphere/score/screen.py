"""Products of low precision that place each pair's score between bounds which hold.

A screen keeps the rows rounded to a faster type. The product of two rounded rows differs from the exact score by no
more than the lengths that rounding took from the rows allow (Cauchy and Schwarz), and what summing in float32 adds.
Every product then becomes a key of 15 bits that never falls as the product rises, so that "certainly above" and "may
lie in between" are comparisons of small integers, and counting keys takes a nanosecond a pair.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int16, Int64
from torch import Tensor

Precision = Literal["bfloat16", "float32", "float64"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

KEYS = 1 << 15  # keys are 1 .. KEYS - 1; 0 marks what is no pair
_SIGNIFICAND = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
PART = 1 << 8  # rows measured at once: they stay in a core's cache
_CHECKED = 64  # rows of each side whose bound is tried when a screen is made


@contextmanager
def full_float32() -> Iterator[None]:
    """Products of float32 in float32: not in a shorter type, whatever the process has allowed PyTorch otherwise."""
    backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]  # not in its stubs
    before = [backend.fp32_precision for backend in backends]
    try:
        for backend in backends:
            backend.fp32_precision = "ieee"
        yield
    finally:
        for backend, precision in zip(backends, before, strict=True):
            backend.fp32_precision = precision


@dataclass(frozen=True, eq=False)
class Rounded:
    """Rows in the type that products are made of, and the most that rounding took from a row.

    Attributes:
        rows: rounded rows.
        lost: the largest length of a row less its rounded form.
        longest: the largest length of a rounded row.
    """

    rows: Tensor
    lost: float
    longest: float


def rounded(units: Float32[Tensor, "rows dim"], precision: Precision, first: int = 0) -> Rounded:
    """Unit rows in the type of the screening products, and the most that rounding took from one.

    Lengths are measured in float32, where a row less its rounded form is exact, and widened by what that may lose.

    Args:
        units: rows of length 1.
        precision: the type.
        first: number of the first row, for the error.

    Raises:
        ValueError: a row has not length 1.
    """
    rows = units.to(getattr(torch, precision))
    widened = 1 + units.shape[1] * 2.0**-23
    lost, longest = 0.0, 0.0
    for start, exact, kept in zip(range(0, len(rows), PART), units.split(PART), rows.split(PART), strict=True):
        length = torch.linalg.vector_norm(exact, dim=1)
        wrong = (~((length - 1).abs() < 1e-3)).nonzero()[:, 0]
        if len(wrong):
            row, found = first + start + int(wrong[0]), float(length[wrong[0]])
            raise ValueError(f"row {row} has length {found:.6g}, not 1; rows come from `unit_rows`")
        longest = max(longest, float(length.max()) * widened)
        if precision == "bfloat16":
            lost = max(lost, float(torch.linalg.vector_norm(exact - kept.float(), dim=1).max()) * widened)
    return Rounded(rows, lost, longest + lost)


class Screen:
    """Keys of all pairs of two sets of rows, and which keys the pairs of given exact scores can have."""

    def __init__(self, left: Rounded, right: Rounded, lowest: float = -1.0, highest: float = 1.0) -> None:
        """Prepare for products of these rows.

        Args:
            left: rows on one side.
            right: rows on the other, of the same type.
            lowest: keys of float32 and float64 products are spread evenly from here
            highest: to here; they are coarse beyond.

        Raises:
            RuntimeError: products of this device are less exact than they must be.
        """
        self.left, self.right = left.rows, right.rows
        self.dtype, dim = self.left.dtype, self.left.shape[1]
        # Two roundings a term cover a product that is not fused with its sum, and any order of summing.
        unit = _SIGNIFICAND[torch.float64 if self.dtype == torch.float64 else torch.float32]
        growth = 2 * dim * unit / (1 - 2 * dim * unit)
        lengths = left.longest * right.longest
        exact = 2 * dim * 2.0**-53 * lengths  # of the score itself, a float64 sum
        self.error = left.lost * (right.longest + right.lost) + left.longest * right.lost + growth * lengths + exact
        # bfloat16 products leave a CPU as bfloat16, and are sorted by their bits; a GPU writes them as float32.
        self.product_type = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.by_bits = self.dtype == torch.bfloat16 and self.left.device.type == "cpu"
        width = max(highest - lowest, 1e-12)
        self.centre, self.scale = (lowest + highest) / 2, (KEYS - 2048) / width
        self.room = self.left.new_empty(0)  # products are written to one place, which stays in the cache
        self._check()

    def keys(self, left: slice, right: slice, positive: bool = False) -> Int16[Tensor, "left right"]:
        """The key of each pair, left rows by right rows; valid until the next call.

        Args:
            left: rows on the left.
            right: rows on the right.
            positive: only keys above KEYS / 2 matter and `shift` has been taken from them; the others are 0 or less.
        """
        product = self.product(self.left[left], self.right[right], self.room)
        if positive and self.by_bits:
            return product.view(torch.int16)  # the bits of positive numbers rise with them; negative ones stay below
        return self.key(product)

    def shift(self, lowest: int) -> int:
        """What may be taken from all keys where none below this one matters: that saves most of their making."""
        return KEYS // 2 if self.by_bits and lowest > KEYS // 2 else 0

    def between(self, low: float, high: float) -> tuple[int, int]:
        """The lowest and highest key that pairs with exact scores from low to high can have, both included.

        A pair with a lower key scores less than low for certain, one with a higher key more than high.
        """
        ends = torch.tensor([low - self.error, high + self.error], dtype=torch.float64, device=self.left.device)
        # Rounding never changes an order, so what is true of the ends is true of their keys.
        ends = ends.clamp(-1.5, 1.5).to(torch.bfloat16 if self.by_bits else self.product_type)
        first, last = self.key(ends).tolist()
        if self.by_bits and ends[0] == 0:
            first = KEYS // 2 - 1  # the key of -0.0, which is the same number
        return (1 if low == -torch.inf else first), (KEYS - 1 if high == torch.inf else last)

    def product(self, left: Tensor, right: Tensor, room: Tensor | None = None) -> Tensor:
        """Products of rounded rows, in one place in memory where `room` is given: valid until the next call."""
        if self.dtype == torch.bfloat16 and not self.by_bits:
            return torch.mm(left, right.T, out_dtype=torch.float32)
        if room is None or not self.by_bits:
            return left @ right.T
        size = len(left), len(right)
        if room.numel() < len(left) * len(right):
            room.resize_(len(left) * len(right))
        return torch.mm(left, right.T, out=room[: len(left) * len(right)].view(size))

    def key(self, product: Tensor) -> Int16[Tensor, "*shape"]:
        """The key of each product."""
        if self.by_bits:
            bits = product.view(torch.int16)
            # The bits of a negative number fall as it rises: all but the sign are turned round.
            return ((bits >> 15) & 0x7FFF).bitwise_xor_(bits).add_(KEYS // 2)
        key = product.sub(self.centre).mul_(self.scale).add_(KEYS // 2)
        return key.clamp_(1, KEYS - 1).to(torch.int16)

    def _check(self) -> None:
        left, right = self.left[:_CHECKED], self.right[-_CHECKED:]
        off = (self.product(left, right).double() - left.double() @ right.double().T).abs().max()
        allowed = self.error + (2.0**-7 if self.by_bits else 0)
        if len(left) and not off <= allowed:
            raise RuntimeError(f"products in {self.dtype} are off by {float(off):.2g}, which is more than they may be")


def true_places(mask: Bool[Tensor, "*shape"]) -> Int64[Tensor, " true"]:
    """Places of what is true, counted through the flattened mask."""
    if mask.device.type == "cpu":  # numpy finds them several times faster than torch
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.flatten().nonzero()[:, 0]
