"""What an operator of a `GraphNetwork` is, and how the operators of an ONNX graph are read into a list of them.

An operator is a function of its attributes, which are plain data: it checks them and returns the layer. Operators have
the names of ONNX's (https://onnx.ai/onnx/operators). Sizes do not include the batch, which is always the first axis and
has any length.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from verisphere.files.json_values import as_kind, shown

#: Whole numbers in a description: sizes, axes, strides.
LARGEST_WHOLE_NUMBER = 2**24
#: Numbers among the weights: 2 GB of float32, as many as an ONNX file holds.
MOST_WEIGHTS = 2**29
#: Number of images with which shapes are worked out.
IMAGES = 2
#: Stands for the number of images where a graph computes shapes; it fits into 32 bits, as shapes may be cast.
BATCH = -(2**30) - 41
_MOST_NUMBERS = 16  # of one attribute; no axes of a network take so many


class Computed(nn.Module):
    """A layer without weights; the arity is the number of its inputs, None for one or more."""

    def __init__(self, function: Callable[..., Tensor], arity: int | None = 1) -> None:
        super().__init__()
        self.function, self.arity = function, arity

    def forward(self, *values: Tensor) -> Tensor:
        """The result."""
        return self.function(*values)


@dataclass(frozen=True, repr=False)
class Operator:
    """An operator with its attributes; equal ones with equal weights compute the same."""

    kind: Callable[..., nn.Module]
    attributes: dict[str, Any]

    def layer(self) -> nn.Module:
        """A module that computes the operator, with initial weights."""
        return self.kind(**self.attributes)

    def __repr__(self) -> str:
        return f"{self.kind.__name__}({', '.join(f'{name}={value}' for name, value in self.attributes.items())})"


def operator_from(kind: Callable[..., nn.Module], entry: Mapping[str, Any]) -> Operator:
    """An operator with the attributes of an entry in a description, whose values have the kinds that they must have."""
    hints, known, attributes = get_type_hints(kind), inspect.signature(kind).parameters, {}
    unknown = sorted(map(str, entry.keys() - known.keys() - {"operator", "inputs"}))
    if unknown:
        has = ", ".join(sorted(known)) or "none"
        raise ValueError(f"{kind.__name__} has no attribute {shown(unknown[0])}; it has {has}")
    for name, parameter in known.items():
        value = entry.get(name, parameter.default)
        if value is inspect.Parameter.empty:
            raise ValueError(f"{name} is missing")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}; numbers are finite")
        if isinstance(value, list) and len(value) > _MOST_NUMBERS:
            raise ValueError(f"{name} has {len(value):,} numbers; at most {_MOST_NUMBERS} are allowed")
        attributes[name] = as_kind(hints[name], value, name) if name in entry else value
    return Operator(kind, attributes)


def check_sizes(name: str, sizes: tuple[int, ...], count: int | None = None, least: int = 1) -> None:
    """Refuse whole numbers that are no sizes of a network; without `count`, there may be any number of them."""
    count = len(sizes) if count is None else count
    few = len(sizes) == count and all(least <= size <= LARGEST_WHOLE_NUMBER for size in sizes)
    if not few or math.prod(size or 1 for size in sizes) > MOST_WEIGHTS:
        raise ValueError(
            f"{name} is {shown(list(sizes))}; {count} whole numbers from {least} to {LARGEST_WHOLE_NUMBER:,}, whose "
            f"product is at most {MOST_WEIGHTS:,}, are due"
        )


@dataclass
class OnnxReader:
    """The state of reading an ONNX graph, node by node, into the description of a `GraphNetwork`.

    Errors name the part of the current node; the caller names the node.

    Attributes:
        batch: number of images that the graph takes at a time; None for any.
        constants: values that depend on no image, by name.
        values: numbers of the other values, by name: 0 is the image, n the result of operator n.
        results: results of the operators on images without content, from which shapes are known.
    """

    batch: int | None
    node: Any = None
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    results: list[Tensor] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(
        self,
        kind: Callable[..., nn.Module],
        weights: Mapping[str, np.ndarray | None] | None = None,
        inputs: Sequence[int] | None = None,
        **attributes: Any,
    ) -> int:
        """Add an operator whose result is the first output of the node.

        Weights have the names of parameters or buffers of its layer; inputs are numbers of values, by default the first
        input of the node. Attributes at the operator's defaults are not written down.
        """
        numbers = [self.first] if inputs is None else [*inputs]
        listed = {name: [*value] if isinstance(value, tuple) else value for name, value in attributes.items()}
        operator = operator_from(kind, listed)
        kept = {
            name: listed[name]
            for name, parameter in inspect.signature(kind).parameters.items()
            if operator.attributes[name] != parameter.default
        }
        with torch.device("meta"):
            layer = operator.layer().eval()
            result = layer(*(self.results[number] for number in numbers))
        if result.ndim < 1 or result.shape[0] != IMAGES:
            raise ValueError("its result is not one for each image")
        self._fill(layer, weights or {})
        self.operators.append({"operator": kind.__name__, "inputs": numbers, **kept})
        self.results.append(result)
        self.values[self.node.output[0]] = place = len(self.operators)
        return place

    def _fill(self, layer: nn.Module, weights: Mapping[str, np.ndarray | None]) -> None:
        for name, tensor in layer.state_dict().items():
            array = np.zeros((), np.int64) if name == "num_batches_tracked" else np.asarray(weights[name], np.float32)
            if array.size != tensor.numel():
                raise ValueError(f"its {name} has {array.size} numbers, where {tensor.numel()} are due")
            # a copy: an array out of a file cannot be written to
            value = torch.from_numpy(np.array(array, order="C")).reshape(tensor.shape)
            self.weights[f"layers.{len(self.operators)}.{name}"] = value

    @property
    def kind(self) -> str:
        """Name of the node's operator in ONNX."""
        return self.node.op_type

    @property
    def first(self) -> int:
        """The number of the node's first input, which must depend on the image."""
        return self.number(self.node.input[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the node's first input, the batch excluded."""
        return tuple(self.results[self.first].shape[1:])

    def number(self, name: str) -> int:
        """The number of a value that depends on the image."""
        if name not in self.values:
            raise ValueError(f"its input {shown(name)} is a constant, where something of the image is due")
        return self.values[name]

    def same(self) -> None:
        """The result of the node is its first input."""
        self.values[self.node.output[0]] = self.first

    def constant(self, place: int) -> np.ndarray | None:
        """An input that must be a constant; None if the node does not have it."""
        name = self.node.input[place] if place < len(self.node.input) else ""
        if name and name not in self.constants:
            raise ValueError(f"its input {place + 1}, {shown(name)}, is computed; only a constant is read")
        return self.constants[name] if name else None

    def due(self, place: int) -> np.ndarray:
        """An input that must exist and be a constant."""
        array = self.constant(place)
        if array is None:
            raise ValueError(f"it has no input {place + 1}")
        return array

    def given(self, place: int, value: Any) -> Any:
        """A constant input, as newer versions of ONNX have it, or in its absence the value of an attribute."""
        array = self.constant(place)
        return value if array is None else array

    def axes(self, axes: Any) -> list[int]:
        """Axes of the first input counted from the front; the batch is refused."""
        count, listed = len(self.shape) + 1, [int(axis) for axis in np.atleast_1d(axes)]
        positive = [axis + count * (axis < 0) for axis in listed]
        if any(not 1 <= axis < count for axis in positive):
            raise ValueError(f"its axes are {shown(listed)}; those of an image are due")
        return positive

    def attributes(self, **known: Any) -> dict[str, Any]:
        """The attributes of the node, of which those with these names and defaults may be there."""
        from onnx import helper

        for attribute in self.node.attribute:
            if attribute.name not in known:
                raise ValueError(f"its attribute {shown(attribute.name)} is not read here")
            value = helper.get_attribute_value(attribute)
            known[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return known
