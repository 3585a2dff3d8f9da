"""Products of low precision that bound each pair's score.

A screen holds the rows rounded to a faster type. The product of two rounded rows differs from the exact score by at
most a bound that follows from the lengths of the rounding errors (Cauchy and Schwarz) and from summing in float32.
Every product then becomes a key of 15 bits that never falls as the product rises, so that "certainly above" and "may
lie in between" are comparisons of small integers, and counting keys takes a nanosecond a pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float32, Float64, Int16, Int32, Int64, Shaped
from torch import Tensor

from verisphere.base.vocabulary import Precision
from verisphere.score.exact.limits import CHECKED_ROWS, INT8_CLIPS, KEY_RANGE, MEASURED_ROWS, UNIT_ROWS

Keys: TypeAlias = Int16[Tensor, "left right"] | Int32[Tensor, "left right"]

_SIGNIFICAND = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}


@dataclass(frozen=True, eq=False)
class Rounded:
    """Rows in the type of the products, and the largest rounding error of a row.

    Attributes:
        lost: the largest length of the difference of a row and its rounded form.
        longest: the largest length of a rounded row.
        unit: the value that 1 in `rows` stands for; 1 except for int8.
    """

    rows: Tensor
    lost: float
    longest: float
    unit: float = 1.0


def rounded(
    units: Float32[Tensor, "rows dim"], precision: Precision, first: int = 0, unit: float | None = None
) -> Rounded:
    """Unit rows in the type of the screening products, and the largest rounding error of a row.

    Lengths are measured in float32, where the difference of a row and its rounded form is exact, and widened by the
    largest rounding error of the measurement. int8 is for a CPU alone, by a unit that suits the rows where none is
    given. `first` is the number of the first row, for the error.
    """
    rows, unit = _in_type(units, precision, unit)
    widened = 1 + units.shape[1] * 2.0**-23
    lost, longest = 0.0, 0.0
    for start, exact, kept in zip(
        range(0, len(rows), MEASURED_ROWS),
        units.split(MEASURED_ROWS),
        rows.split(MEASURED_ROWS),
        strict=True,
    ):
        length = torch.linalg.vector_norm(exact, dim=1)
        wrong = (~((length - 1).abs() < 1e-3)).nonzero()[:, 0]
        if len(wrong):
            row, wrong_length = first + start + int(wrong[0]), float(length[wrong[0]])
            raise ValueError(f"row {row} has length {wrong_length:.6g}, not 1; rows come from `unit_rows`")
        longest = max(longest, float(length.max()) * widened)
        lost = max(lost, _lost(exact, kept, unit, widened))
    return _complete(rows, lost, longest, unit)


#: Share of a number that rounding to bfloat16 takes at most; and a little for numbers too small to have their bits.
_BFLOAT16_LOSES = 2.0**-8 + 1e-6


def rounded_known(
    rows: Shaped[Tensor, "rows dim"],
    longest: float,
    precision: Precision,
    unit: float | None = None,
    room: Shaped[Tensor, "most dim"] | None = None,
) -> Rounded:
    """Rows of at most a known length in the type of the screening products; their lengths are not measured."""
    if precision == "bfloat16":
        if rows.dtype == torch.bfloat16:
            return Rounded(rows, 0.0, longest)
        lost = _BFLOAT16_LOSES * longest
        kept = rows.to(torch.bfloat16) if room is None else room[: len(rows)].copy_(rows)
        return Rounded(kept, lost, longest + lost)
    exact = rows.float()
    kept, unit = _in_type(exact, precision, unit)
    lost, widened = 0.0, 1 + rows.shape[1] * 2.0**-23
    for one, short in zip(exact.split(MEASURED_ROWS), kept.split(MEASURED_ROWS), strict=True):
        lost = max(lost, _lost(one, short, unit, widened))
    return _complete(kept, lost, longest, unit)


def _in_type(
    units: Float32[Tensor, "rows dim"], precision: Precision, unit: float | None
) -> tuple[Shaped[Tensor, "rows dim"], float]:
    """Rows in a type, and the value that 1 in them stands for."""
    if precision != "int8":
        return units.to(getattr(torch, precision)), 1.0
    if units.device.type != "cpu":
        raise ValueError(f"int8 products are made on a CPU; on {units.device} bfloat16 is the fast type")
    unit = int8_unit(units) if unit is None else unit
    return _steps(units, unit).to(torch.int8), unit


def _lost(exact: Float32[Tensor, "rows dim"], kept: Shaped[Tensor, "rows dim"], unit: float, widened: float) -> float:
    """The largest length of the difference of a row and its rounded form."""
    if kept.dtype not in (torch.int8, torch.bfloat16):
        return 0.0
    off = exact - kept.float() * unit if kept.dtype == torch.int8 else exact - kept.float()
    return float(torch.linalg.vector_norm(off, dim=1).max()) * widened if len(off) else 0.0


def _complete(rows: Shaped[Tensor, "rows dim"], lost: float, longest: float, unit: float) -> Rounded:
    if rows.dtype == torch.int8:
        lost += 2.0**-22 * longest  # the product with the unit rounds, and so does the difference
        if rows.shape[1] == 1:  # PyTorch's int8 products of rows with a single number are wrong
            rows = torch.nn.functional.pad(rows, (0, 1))
    return Rounded(rows, lost, longest + lost, unit)


def int8_unit(units: Float32[Tensor, "rows dim"]) -> float:
    """The unit of int8 rows for which the largest rounding error of a row is least.

    Measured on the rows with the largest numbers, which a fine unit clips, and on some of the others.
    """
    if not len(units):
        return 1.0
    peaks = units.abs().amax(1)
    largest = float(peaks.max())
    if not 0 < largest <= 2:  # the rows do not have length 1, which is reported where they are measured
        return 1.0
    some = torch.cat(
        [
            units[peaks.topk(min(UNIT_ROWS, len(units))).indices],
            units[:: max(len(units) // UNIT_ROWS, 1)],
        ]
    )
    tried = [share * largest / 127 for share in INT8_CLIPS]
    lost = [float(torch.linalg.vector_norm(some - _steps(some, unit) * unit, dim=1).max()) for unit in tried]
    return tried[lost.index(min(lost))]


def _steps(units: Float32[Tensor, "rows dim"], unit: float) -> Float32[Tensor, "rows dim"]:
    return (units / unit).round_().clamp_(-127, 127)


@cache
def exact_int8(dim: int) -> bool:
    """Whether this CPU's int8 products are exact, the largest ones included: some instructions saturate."""
    random = np.random.default_rng(0).choice([-127, 127], size=(CHECKED_ROWS, dim))
    random[: CHECKED_ROWS // 2, :], random[0] = np.abs(random[: CHECKED_ROWS // 2]), -127
    rows = torch.from_numpy(random.astype(np.int8))
    return torch.equal(torch._int_mm(rows, rows.T).long(), rows.long() @ rows.long().T)


class Screen:
    """Keys of all pairs of two sets of rows, and which keys the pairs of given exact scores can have."""

    def __init__(
        self,
        left: Rounded,
        right: Rounded,
        lowest: float = -1.0,
        highest: float = 1.0,
        room: Tensor | None = None,
        tried: bool = False,
    ) -> None:
        """Prepare for products of these rows.

        Keys of float32 and float64 products are spread evenly over the range from `lowest` to `highest`, and coarse
        above it. `tried` says that products of such rows were compared with their bound before.
        """
        self.left, self.right = left.rows, right.rows
        self.dtype, dim = self.left.dtype, self.left.shape[1]
        self.unit = left.unit * right.unit  # the value that 1 in the products stands for
        # Two roundings a term cover a product that is not fused with its sum, and any order of summing.
        unit = _SIGNIFICAND[torch.float64 if self.dtype == torch.float64 else torch.float32]
        # Products of int8 are exact; the unit that they are in, and the float32 they may be turned into, round.
        growth = 2.0**-22 if self.dtype == torch.int8 else 2 * dim * unit / (1 - 2 * dim * unit)
        lengths = left.longest * right.longest
        exact = 2 * dim * 2.0**-53 * lengths  # of the score itself, a float64 sum
        self.error = left.lost * (right.longest + right.lost) + left.longest * right.lost + growth * lengths + exact
        # bfloat16 products leave a CPU as bfloat16, and are sorted by their bits; a GPU writes them as float32.
        self.product_type = torch.float64 if self.dtype == torch.float64 else torch.float32
        #: no product lies beyond; rounding by a coarse unit may lengthen rows
        self.reach = max(1.5, 1.001 * lengths)
        #: of int8 products: how many bits of a key are dropped
        self.coarse = (
            max(int(self.reach / self.unit + 2).bit_length() - KEY_RANGE.bit_length() + 2, 0) if self.in_steps else 0
        )
        self.by_bits = self.dtype == torch.bfloat16 and self.left.device.type == "cpu"
        width = max(highest - lowest, 1e-12)
        self.centre, self.scale = (lowest + highest) / 2, (KEY_RANGE - 2048) / width
        # products are written to one place, which stays in the cache
        self.room = self.left.new_empty(0, dtype=product_type(self.dtype)) if room is None else room
        if not tried:
            self._check()

    @property
    def in_steps(self) -> bool:
        """Whether products are whole numbers."""
        return self.dtype == torch.int8

    def keys(self, left: slice, right: slice, positive: bool = False) -> Keys:
        """The key of each pair of left and right rows; valid until the next call.

        With `positive` only keys above half of KEY_RANGE matter, and `shift` is subtracted from them; the others are 0
        or less. Keys then have `fine` more bits.
        """
        product = products(self.left[left], self.right[right], self.room)
        if positive and self.in_steps:
            return product
        if positive and self.by_bits:
            return product.view(torch.int16)  # bits of positive numbers rise with them; negative ones stay below
        return self.key(product)

    def fine(self, positive: bool) -> int:
        """Number of bits by which `keys` are finer than the keys of `between`."""
        return self.coarse if positive else 0

    def shift(self, lowest: int) -> int:
        """The number to subtract from all keys if no key below this one matters, which saves most of their cost."""
        return KEY_RANGE // 2 if (self.by_bits or self.in_steps) and lowest > KEY_RANGE // 2 else 0

    def between(self, low: float, high: float) -> tuple[int, int]:
        """The lowest and highest key that pairs with exact scores from low to high can have, both included.

        A pair with a lower key scores less than low for certain, one with a higher key more than high.
        """
        return self.bands([(low, high)])[0]

    def bands(self, stretches: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
        """`between` of several stretches at once."""
        ends = torch.tensor(stretches, dtype=torch.float64, device=self.left.device).view(-1, 2)
        low, high = (end.clamp(-self.reach, self.reach) for end in (ends[:, 0] - self.error, ends[:, 1] + self.error))
        # keys keep the order of the products, so the keys of both ends bound the keys of all products between them
        dtype = torch.int32 if self.in_steps else torch.bfloat16 if self.by_bits else self.product_type
        lowest, highest = as_product(low, self.unit, dtype, -1), as_product(high, self.unit, dtype, 1)
        first, last = self.key(lowest), self.key(highest)
        if self.by_bits:
            first[lowest == 0] = KEY_RANGE // 2 - 1  # the key of -0.0, which is the same number
        first[ends[:, 0] == -torch.inf], last[ends[:, 1] == torch.inf] = 1, KEY_RANGE - 1
        return list(zip(first.tolist(), last.tolist(), strict=True))

    def key(self, product: Tensor) -> Int16[Tensor, "*shape"]:
        """The key of each product."""
        if self.in_steps:
            return (product >> self.coarse).add_(KEY_RANGE // 2).clamp_(1, KEY_RANGE - 1).to(torch.int16)
        if self.by_bits:
            bits = product.view(torch.int16)
            # The bits of a negative number fall as it rises, so all of them but the sign are inverted.
            return ((bits >> 15) & 0x7FFF).bitwise_xor_(bits).add_(KEY_RANGE // 2)
        key = product.sub(self.centre).mul_(self.scale).add_(KEY_RANGE // 2)
        return key.clamp_(1, KEY_RANGE - 1).to(torch.int16)

    def _check(self) -> None:
        left, right = self.left[:CHECKED_ROWS], self.right[-CHECKED_ROWS:]
        if self.in_steps:
            if not exact_int8(left.shape[1]):
                raise RuntimeError("products in torch.int8 are not exact on this CPU; use another type")
            return
        off = (products(left, right).double() - left.double() @ right.double().T).abs().max()
        allowed = self.error + (2.0**-7 if self.by_bits else 0)
        if len(left) and not off <= allowed:
            raise RuntimeError(f"products in {self.dtype} are off by {float(off):.2g}, which is more than they may be")


def products(left: Tensor, right: Tensor, room: Tensor | None = None) -> Tensor:
    """Products of all rounded rows of two sides, in their units: exact int32 of int8, else in the rows' type.

    `room`, memory for the products, grows where needed; reusing it keeps the products in a cache.
    """
    if left.dtype == torch.bfloat16 and left.device.type != "cpu":
        return torch.mm(left, right.T, out_dtype=torch.float32)
    multiply = torch._int_mm if left.dtype == torch.int8 else torch.mm
    if room is None:
        return multiply(left, right.T)
    if room.numel() < len(left) * len(right):
        room.resize_(len(left) * len(right))
    return multiply(left, right.T, out=room[: len(left) * len(right)].view(len(left), len(right)))


def product_type(dtype: torch.dtype) -> torch.dtype:
    """The type that `products` of rows of this type are written in on a CPU."""
    return torch.int32 if dtype == torch.int8 else dtype


def as_product(
    score: Float64[Tensor, "*shape"], unit: float, dtype: torch.dtype, side: Literal[-1, 1]
) -> Shaped[Tensor, "*shape"]:
    """A score in the unit and type of the products: a lower (-1) or upper (1) bound of the products that equal it.

    For a floating-point type the score is rounded to nearest, which never changes an order; whole numbers are rounded
    outward, and by one more.
    """
    if dtype != torch.int32:
        return score.to(dtype)
    whole = (score / unit).floor() - 1 if side < 0 else (score / unit).ceil() + 1
    return whole.clamp(-(2.0**31 - 1), 2.0**31 - 1).to(torch.int32)


def between(keys: Shaped[Tensor, "*shape"], first: int, last: int | None = None) -> Bool[Tensor, "*shape"]:
    """Which keys lie from first to last, both included, or above; numpy compares ten times faster than torch."""
    if keys.device.type == "cpu":
        reaching = keys.numpy() >= first
        return torch.from_numpy(reaching if last is None else reaching & (keys.numpy() <= last))
    above = keys > first - 1  # first may be one more than the type holds
    return above if last is None else above & (keys <= last)


def true_places(mask: Bool[Tensor, "*shape"]) -> Int64[Tensor, " true"]:
    """Positions of the true entries of the flattened mask."""
    if mask.device.type == "cpu":  # numpy finds them several times faster than torch
        return torch.from_numpy(np.flatnonzero(mask.numpy()))
    return mask.flatten().nonzero()[:, 0]


def true_count(mask: Bool[Tensor, "*shape"]) -> int:
    """Number of true entries; numpy counts several times faster than torch."""
    return int(np.count_nonzero(mask.numpy()) if mask.device.type == "cpu" else mask.sum())
