"""Operators of a `GraphNetwork` without weights; see `verisphere.backbones.graph_layers`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from verisphere.backbones.graph_layers import LARGEST_WHOLE_NUMBER, Operator, check_sizes
from verisphere.files.json_values import shown

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Relu": F.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "HardSwish": F.hardswish,
    "Sqrt": torch.sqrt,
    "Abs": torch.abs,
    "Neg": torch.neg,
}


@dataclass(frozen=True)
class Function(Operator):
    """A function that is applied to each number.

    Attributes:
        function: name of the function in ONNX.
    """

    function: Literal["Relu", "Sigmoid", "Tanh", "HardSwish", "Sqrt", "Abs", "Neg"]

    def compute(self, *values: Tensor) -> Tensor:
        """The function."""
        (x,) = values
        return _FUNCTIONS[self.function](x)


@dataclass(frozen=True)
class LeakyRelu(Operator):
    """x, or a fixed slope times x where x is negative."""

    slope: float = 0.01

    def compute(self, *values: Tensor) -> Tensor:
        """The activation."""
        (x,) = values
        return F.leaky_relu(x, self.slope)


@dataclass(frozen=True)
class HardSigmoid(Operator):
    """alpha x + beta, within 0 and 1."""

    alpha: float = 0.2
    beta: float = 0.5

    def compute(self, *values: Tensor) -> Tensor:
        """The activation."""
        (x,) = values
        return (self.alpha * x + self.beta).clamp(0, 1)


@dataclass(frozen=True)
class Clip(Operator):
    """x, within bounds; None for no bound."""

    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise ValueError("neither low nor high is given; one of them bounds a number")

    def compute(self, *values: Tensor) -> Tensor:
        """Clipped numbers."""
        (x,) = values
        return x.clamp(self.low, self.high)


@dataclass(frozen=True)
class Pool(Operator):
    """The mean or the maximum of each window.

    Attributes:
        function: name of the function in ONNX. kernel, strides: vertical and horizontal values. pads: number of padded
            rows on either side, then of padded columns.
        count_include_pad: whether a mean counts the padded zeros.
    """

    function: Literal["AveragePool", "MaxPool"]
    kernel: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (0, 0)
    count_include_pad: bool = False

    def __post_init__(self) -> None:
        check_sizes("kernel", self.kernel, 2)
        check_sizes("strides", self.strides, 2)
        check_sizes("pads", self.pads, 2, least=0)

    def compute(self, *values: Tensor) -> Tensor:
        """One number a window."""
        (x,) = values
        if self.function == "MaxPool":
            return F.max_pool2d(x, self.kernel, self.strides, self.pads)
        return F.avg_pool2d(x, self.kernel, self.strides, self.pads, False, self.count_include_pad)


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "ReduceMean": torch.mean,
    "ReduceSum": torch.sum,
    "ReduceMax": torch.amax,
    "ReduceL2": torch.linalg.vector_norm,
}


@dataclass(frozen=True)
class Reduce(Operator):
    """Reduces all numbers along some axes to one number.

    Attributes:
        function: name of the function in ONNX.
        axes: axes that are reduced, from 1; axis 0 is the batch.
        keepdims: whether the reduced axes stay, with size 1.
    """

    function: Literal["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"]
    axes: tuple[int, ...]
    keepdims: bool = True

    def __post_init__(self) -> None:
        check_sizes("axes", self.axes, len(self.axes))
        if not self.axes:
            raise ValueError("axes is empty; name at least one")

    def compute(self, *values: Tensor) -> Tensor:
        """The reduced values."""
        (x,) = values
        return _REDUCTIONS[self.function](x, dim=self.axes, keepdim=self.keepdims)


@dataclass(frozen=True)
class _ToSizes(Operator):
    """An operator whose result has given sizes.

    Attributes:
        sizes: length of each axis but the batch.
    """

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        check_sizes("sizes", self.sizes, len(self.sizes))


@dataclass(frozen=True)
class Reshape(_ToSizes):
    """The same numbers in axes of other lengths, `sizes`."""

    def compute(self, *values: Tensor) -> Tensor:
        """The numbers in the new shape; those of an image stay together."""
        (x,) = values
        return x.reshape(x.shape[0], *self.sizes)


@dataclass(frozen=True)
class Expand(_ToSizes):
    """Repeats axes of size 1, up to `sizes`."""

    def compute(self, *values: Tensor) -> Tensor:
        """The repeated numbers."""
        (x,) = values
        return x.expand(x.shape[0], *self.sizes)


@dataclass(frozen=True)
class Transpose(Operator):
    """Axes in another order.

    Attributes:
        order: for each axis of the result, the number of that axis in the input; the batch stays first.
    """

    order: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.order) != [*range(len(self.order))] or self.order[:1] != (0,):
            raise ValueError(f"order is {shown(self.order)}; it holds each axis once, 0 first")

    def compute(self, *values: Tensor) -> Tensor:
        """The permuted axes."""
        (x,) = values
        return x.permute(self.order)


@dataclass(frozen=True)
class Pad(Operator):
    """A constant around the numbers.

    Attributes:
        pads: numbers of constants before and after, for each axis but the batch, from the second axis to the last.
        value: the constant.
    """

    pads: tuple[int, ...]
    value: float = 0.0

    def __post_init__(self) -> None:
        check_sizes("pads", self.pads, len(self.pads), least=0)
        if len(self.pads) % 2:
            raise ValueError(f"pads has {len(self.pads)} numbers; each axis takes two")

    def compute(self, *values: Tensor) -> Tensor:
        """The padded numbers."""
        (x,) = values
        # PyTorch begins with the last axis
        axes = [self.pads[place : place + 2] for place in range(0, len(self.pads), 2)]
        return F.pad(x, [size for axis in reversed(axes) for size in axis], value=self.value)


@dataclass(frozen=True)
class Slice(Operator):
    """A part of an axis.

    Attributes:
        axis: number of the axis, from 1; axis 0 is the batch.
        start, end: first position, and the position after the last.
        step: distance from one position to the next.
    """

    axis: int
    start: int
    end: int
    step: int = 1

    def __post_init__(self) -> None:
        check_sizes("axis and step", (self.axis, self.step), 2)
        if not 0 <= self.start < self.end <= LARGEST_WHOLE_NUMBER:
            raise ValueError(f"start is {self.start} and end {self.end}; a part of an axis holds something")

    def compute(self, *values: Tensor) -> Tensor:
        """The part."""
        (x,) = values
        if self.end > x.shape[self.axis]:
            raise ValueError(f"end is {self.end}, but axis {self.axis} has {x.shape[self.axis]} places")
        return x[(*[slice(None)] * self.axis, slice(self.start, self.end, self.step))]


@dataclass(frozen=True)
class Concat(Operator):
    """Values one after the other along an axis, from 1; axis 0 is the batch."""

    axis: int
    arity = None

    def __post_init__(self) -> None:
        check_sizes("axis", (self.axis,), 1)

    def compute(self, *values: Tensor) -> Tensor:
        """The joined values."""
        return torch.cat(values, self.axis)
