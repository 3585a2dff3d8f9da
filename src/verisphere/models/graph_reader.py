"""The state of reading an ONNX graph into a `GraphNetwork`: constants, results that depend on the image, operators."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from verisphere.backbones.graph_network import read_operator
from verisphere.files.json_values import shown

#: Stands for the number of images where a graph computes shapes.
BATCH = -(2**40)
#: Number of images with which shapes are worked out.
IMAGES = 2


@dataclass
class GraphReader:
    """The state of one reading.

    Attributes:
        batch: number of images that the graph takes at a time; None for any.
        constants: values that depend on no image, by name.
        values: numbers of the other values, by name: 0 is the image, n the result of operator n.
        results: results of the operators on images without content, from which shapes are known.
        operators: description of the network.
        weights: weights of the network, by name.
    """

    batch: int | None
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    results: list[Tensor] = field(default_factory=list)
    operators: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)

    def add(self, node: Any, operator: str, inputs: list[str | int], weights: Any = None, **attributes: Any) -> int:
        """Add an operator whose result is the first output of a node.

        Args:
            node: the node.
            operator: name of the operator.
            inputs: names in the graph or numbers of values.
            weights: arrays by name of a parameter or buffer of its layer.
            attributes: attributes of the operator; its defaults are not written down.
        """
        numbers = [self.number(name) if isinstance(name, str) else name for name in inputs]
        entry: dict[str, Any] = {"operator": operator, "inputs": numbers, **attributes}
        described = read_operator(entry)
        for attribute in fields(described):  # type: ignore[arg-type]  # all are dataclasses
            if getattr(described, attribute.name) == attribute.default:
                entry.pop(attribute.name, None)
        with torch.device("meta"):
            layer = described.layer().eval()
            result = layer(*(self.results[number] for number in numbers))
        if result.ndim < 1 or result.shape[0] != IMAGES:
            raise ValueError("its result is not one for each image")
        self.operators.append(entry)
        self.results.append(result)
        place = len(self.operators)
        self._fill(place - 1, layer, weights or {})
        self.values[node.output[0]] = place
        return place

    def _fill(self, place: int, layer: torch.nn.Module, weights: dict[str, np.ndarray]) -> None:
        for name, tensor in layer.state_dict().items():
            if name == "num_batches_tracked":
                value = torch.tensor(0)
            else:
                if weights[name].size != tensor.numel():
                    raise ValueError(f"its {name} has {weights[name].size} numbers, where {tensor.numel()} are due")
                # a copy: an array out of a file cannot be written to
                value = torch.from_numpy(np.array(weights[name], np.float32, order="C")).reshape(tensor.shape)
            self.weights[f"layers.{place}.{name}"] = value

    def number(self, name: str) -> int:
        """The number of a value that depends on the image."""
        if name not in self.values:
            raise ValueError(f"its input {shown(name)} is a constant, where something of the image is due")
        return self.values[name]

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value that depends on the image, the batch excluded."""
        return tuple(self.results[self.number(name)].shape[1:])

    def constant(self, node: Any, place: int) -> np.ndarray | None:
        """An input that must be a constant; None if the node does not have it."""
        if len(node.input) <= place or not node.input[place]:
            return None
        if node.input[place] not in self.constants:
            raise ValueError(f"its input {place + 1}, {shown(node.input[place])}, is computed; only a constant is read")
        return self.constants[node.input[place]]

    def due(self, node: Any, place: int) -> np.ndarray:
        """An input that must exist and be a constant."""
        array = self.constant(node, place)
        if array is None:
            raise ValueError(f"it has no input {place + 1}")
        return array

    def axes(self, axes: Any, name: str) -> list[int]:
        """Axes counted from the front; the batch is refused."""
        count = len(self.shape(name)) + 1
        positive = [axis + count * (axis < 0) for axis in map(int, np.atleast_1d(axes))]
        if any(not 1 <= axis < count for axis in positive):
            raise ValueError(f"its axes are {shown(list(map(int, np.atleast_1d(axes))))}; those of an image are due")
        return positive


def attributes(node: Any, **known: Any) -> dict[str, Any]:
    """The attributes of a node.

    Args:
        node: the node.
        known: attributes with their defaults.
    """
    from onnx import helper

    for attribute in node.attribute:
        if attribute.name not in known:
            raise ValueError(f"its attribute {shown(attribute.name)} is not read here")
        value = helper.get_attribute_value(attribute)
        known[attribute.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return known
