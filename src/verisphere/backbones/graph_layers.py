"""Operators of a `GraphNetwork` that have weights: each is plain data, checked once, and makes a layer.

The operators are those of ONNX (https://onnx.ai/onnx/operators). Sizes do not include the batch, which is always the
first axis and has any length.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from verisphere.files.json_values import shown

#: Whole numbers in a description: sizes, axes, strides.
LARGEST_WHOLE_NUMBER = 2**24
#: Numbers among the weights: 2 GB of float32, as many as an ONNX file holds.
MOST_WEIGHTS = 2**29


class Operator:
    """Base class of operators; a subclass is a frozen dataclass with `compute`, or with `layer` if it has weights."""

    #: Number of the operator's inputs; None for one or more.
    arity: int | None = 1

    def compute(self, *values: Tensor) -> Tensor:
        """The result, of an operator without weights."""
        raise NotImplementedError(f"{type(self).__name__} has no compute(); an operator without weights has its own")

    def layer(self) -> nn.Module:
        """A module that computes the operator, with initial weights."""
        return _Computed(self)


class _Computed(nn.Module):
    """An operator without weights."""

    def __init__(self, computed: Operator) -> None:
        super().__init__()
        self.operator = computed

    def forward(self, *values: Tensor) -> Tensor:
        return self.operator.compute(*values)


def check_sizes(name: str, sizes: tuple[int, ...], count: int, least: int = 1) -> None:
    """Refuse whole numbers that are no sizes of a network."""
    few = len(sizes) == count and all(least <= size <= LARGEST_WHOLE_NUMBER for size in sizes)
    if not few or math.prod(size or 1 for size in sizes) > MOST_WEIGHTS:
        raise ValueError(
            f"{name} is {shown(list(sizes))}; {count} whole numbers from {least} to {LARGEST_WHOLE_NUMBER:,}, whose "
            f"product is at most {MOST_WEIGHTS:,}, are due"
        )


@dataclass(frozen=True)
class Conv(Operator):
    """Cross-correlation of images.

    Attributes:
        weight: sizes of the filters: outputs, inputs of a group, height, width.
        bias: whether a number is added to each output.
        strides, dilations: vertical and horizontal.
        pads: zeros on either side, vertical and horizontal.
        group: number of groups of channels.
    """

    weight: tuple[int, ...]
    bias: bool = False
    strides: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (0, 0)
    dilations: tuple[int, ...] = (1, 1)
    group: int = 1

    def __post_init__(self) -> None:
        check_sizes("weight", self.weight, 4)
        check_sizes("strides", self.strides, 2)
        check_sizes("pads", self.pads, 2, least=0)
        check_sizes("dilations", self.dilations, 2)
        if self.group < 1 or self.weight[0] % self.group:
            raise ValueError(f"group is {self.group}; it must divide the {self.weight[0]} outputs")

    def layer(self) -> nn.Module:
        """A convolution."""
        outputs, inputs, height, width = self.weight
        (down, right), (top, left), (tall, wide) = self.strides, self.pads, self.dilations
        return nn.Conv2d(
            inputs * self.group,
            outputs,
            (height, width),
            (down, right),
            (top, left),
            (tall, wide),
            self.group,
            self.bias,
        )


@dataclass(frozen=True)
class Gemm(Operator):
    """A matrix times the last axis.

    Attributes:
        weight: number of outputs and of inputs.
        bias: whether a number is added to each output.
    """

    weight: tuple[int, ...]
    bias: bool = False

    def __post_init__(self) -> None:
        check_sizes("weight", self.weight, 2)

    def layer(self) -> nn.Module:
        """A fully connected layer."""
        outputs, inputs = self.weight
        return nn.Linear(inputs, outputs, self.bias)


@dataclass(frozen=True)
class BatchNormalization(Operator):
    """Batch norm; its running statistics are used in evaluation and updated in training.

    Attributes:
        channels: size of the second axis.
        axes: number of axes of the input, including the batch.
        epsilon: added to the variance.
        momentum: share of a batch in the new running statistics, as in PyTorch; in ONNX it is the share of the old.
    """

    channels: int
    axes: int = 4
    epsilon: float = 1e-5
    momentum: float = 0.1

    def __post_init__(self) -> None:
        check_sizes("channels", (self.channels,), 1)
        if self.axes not in (2, 3, 4):
            raise ValueError(f"axes is {self.axes}; batch norm takes 2, 3 or 4")
        if not 0 <= self.momentum <= 1:
            raise ValueError(f"momentum is {self.momentum}; it is a share, from 0 to 1")
        if self.epsilon < 0:
            raise ValueError(f"epsilon is {self.epsilon}; a variance cannot become negative")

    def layer(self) -> nn.Module:
        """Batch norm of PyTorch, which `sync_batch_norm` can replace."""
        kind = nn.BatchNorm2d if self.axes == 4 else nn.BatchNorm1d
        return kind(self.channels, self.epsilon, self.momentum)


@dataclass(frozen=True)
class PRelu(Operator):
    """x, or a trained slope times x where x is negative.

    Attributes:
        slopes: number of slopes: one, or one a channel.
    """

    slopes: int

    def __post_init__(self) -> None:
        check_sizes("slopes", (self.slopes,), 1)

    def layer(self) -> nn.Module:
        """The activation with its slopes."""
        return nn.PReLU(self.slopes)


@dataclass(frozen=True)
class Dropout(Operator):
    """In training, zeros in random places.

    Attributes:
        ratio: share of zeros.
    """

    ratio: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.ratio < 1:
            raise ValueError(f"ratio is {self.ratio}; it must be in [0, 1)")

    def layer(self) -> nn.Module:
        """Dropout, the identity in evaluation."""
        return nn.Dropout(self.ratio)


_ARITHMETIC: dict[str, Callable[[Any, Any], Tensor]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "Max": torch.maximum,
    "Min": torch.minimum,
}


@dataclass(frozen=True)
class Arithmetic(Operator):
    """Two values, broadcast to each other; one of them can be a constant.

    Attributes:
        function: name of the function in ONNX.
        constant: the other value, if that is one number.
        sizes: sizes of the other value, if that is an array, whose numbers are among the weights.
        constant_first: whether the constant stands to the left, as in 1 - x.
        trained: whether the array is trained, as the bias of the layer before is.
    """

    function: Literal["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"]
    constant: float | None = None
    sizes: tuple[int, ...] | None = None
    constant_first: bool = False
    trained: bool = False

    def __post_init__(self) -> None:
        if self.constant is not None and self.sizes is not None:
            raise ValueError("constant and sizes are given; a constant is one number or an array")
        if self.constant is not None and self.function in ("Max", "Min"):
            raise ValueError(f"{self.function} with one number; Clip does that")
        if self.sizes is not None:
            check_sizes("sizes", self.sizes, len(self.sizes))
        elif self.trained:
            raise ValueError("trained, but without sizes; an array is trained")

    @property
    def arity(self) -> int:  # type: ignore[override]  # a constant among the attributes is no input
        """Number of inputs."""
        return 2 if self.constant is None and self.sizes is None else 1

    def compute(self, *values: Tensor) -> Tensor:
        """The result; a constant array is the last of the values."""
        first, second = values if self.constant is None else (*values, self.constant)
        return _ARITHMETIC[self.function](*((second, first) if self.constant_first else (first, second)))

    def layer(self) -> nn.Module:
        """The operation, with its array."""
        return super().layer() if self.sizes is None else _WithArray(self, self.sizes)


class _WithArray(nn.Module):
    """An operation with a constant array, whose initial values change nothing."""

    def __init__(self, arithmetic: Arithmetic, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.operator, self.sizes = arithmetic, sizes
        # one axis, so that the optimizer gives a bias no weight decay
        start = torch.full((math.prod(sizes),), 0.0 if arithmetic.function in ("Add", "Sub") else 1.0)
        if arithmetic.trained:
            self.constant: Tensor = nn.Parameter(start)
        else:
            self.register_buffer("constant", start)

    def forward(self, value: Tensor) -> Tensor:
        return self.operator.compute(value, self.constant.view(self.sizes))
