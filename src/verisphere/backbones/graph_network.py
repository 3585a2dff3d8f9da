"""A network described by the list of its operators, so that a network made elsewhere can be trained further."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone, Colour, Layout
from verisphere.backbones.graph_functions import FUNCTIONS
from verisphere.backbones.graph_layers import LAYERS
from verisphere.backbones.graph_operator import IMAGES, MOST_WEIGHTS, Computed, Operator, operator_from
from verisphere.files.json_values import shown
from verisphere.files.onnx_graph import first_line

#: Operators of a network; a ResNet-200 has some 700.
MOST_OPERATORS = 4096
#: Numbers among the results of all operators for one image, 1 GB; an IResNet-100 of 112 x 112 faces has 2^25.
MOST_RESULTS = 2**28
_KINDS: tuple[Callable[..., nn.Module], ...] = (*LAYERS, *FUNCTIONS)
OPERATORS = {kind.__name__: kind for kind in sorted(_KINDS, key=lambda kind: kind.__name__)}


class GraphNetwork(Backbone):
    """A network as a list of operators, in the order in which they are computed; it is trained like any other backbone.

    `verisphere adopt --trainable` reads such a list out of an ONNX file. The list is data: it names operators and holds
    no code. Images are RGB in NCHW, as for every backbone, and are converted here to the pixels that the network takes.

    >>> mean = [{"operator": "Reduce", "inputs": [0], "function": "ReduceMean", "axes": [2, 3], "keepdims": False}]
    >>> GraphNetwork(3, mean, height=8, width=8)(torch.ones(1, 3, 8, 8))
    tensor([[1., 1., 1.]])

    Args:
        embedding_size: numbers in an embedding.
        operators: for each its name, `operator`; its `inputs`, where 0 is the image and n the result of the n-th
            operator; and its attributes, explained in `verisphere.backbones.graph_layers` and `graph_functions`. The
            last result is the embedding.
        height, width: size of a face, in pixels.
        mean: value that is subtracted from a pixel in [0, 255]; 0 for a network that normalises by itself.
        scale: value by which the difference is divided; 1 for a network that normalises by itself.
        colour: order of the colours.
        layout: order of the axes of the network's image.

    Raises:
        ValueError: an operator is unknown or does not fit its inputs, a number is out of bounds, or the result is no
            embedding; names the operator by its place, from 1.
    """

    def __init__(
        self,
        embedding_size: int,
        operators: list[Any],
        height: int = 112,
        width: int = 112,
        mean: float = 127.5,
        scale: float = 127.5,
        colour: Colour = "RGB",
        layout: Layout = "NCHW",
    ) -> None:
        super().__init__(embedding_size)
        if min(height, width) < 1:
            raise ValueError(f"a face of {height} x {width} pixels; both sides have at least one")
        if scale == 0 or not (math.isfinite(scale) and math.isfinite(mean)):
            raise ValueError(f"mean is {mean:g} and scale {scale:g}; pixels cannot be normalised by them")
        if not 1 <= len(operators) <= MOST_OPERATORS:
            raise ValueError(f"operators has {len(operators):,} entries; 1 to {MOST_OPERATORS:,} are allowed")
        self.input_size, self.mean, self.scale = (height, width), float(mean), float(scale)
        self.colour, self.layout = colour, layout
        with torch.device("meta"):  # layers without memory, before any is taken
            steps = [_step(entry, place) for place, entry in enumerate(operators, start=1)]
            shapes = nn.ModuleList(operator.layer() for operator, _ in steps).eval()
        #: Each operator with the numbers of its inputs; two networks with equal steps and weights compute the same.
        self.steps = tuple(steps)
        self._inputs = [inputs for _, inputs in steps]
        self._released = _released(self._inputs)
        listed = hashlib.sha256(json.dumps(operators, sort_keys=True).encode()).hexdigest()
        #: The list in short: equal weights under another list of operators are another network.
        self.embedding_output = f"operator {len(steps)} of {listed[:12]}"
        if sum(tensor.numel() for tensor in shapes.state_dict().values()) > MOST_WEIGHTS:
            raise ValueError(f"operators have more than {MOST_WEIGHTS:,} weights")
        embeddings = self._run(shapes, torch.empty(IMAGES, 3, height, width, device="meta"), checked=True)
        if embeddings.shape != (IMAGES, embedding_size):
            raise ValueError(
                f"the last operator gives {_sizes(embeddings)} for an image, where an embedding of {embedding_size} "
                "numbers is due"
            )
        self.layers = nn.ModuleList(operator.layer() for operator, _ in steps)

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The result of the last operator."""
        return self._run(self.layers, images)

    def _run(self, layers: nn.ModuleList, images: Tensor, checked: bool = False) -> Tensor:
        images = images.flip(1) if self.colour == "BGR" else images
        values: list[Tensor | None] = [images.permute(0, 2, 3, 1) if self.layout == "NHWC" else images]
        numbers = 0
        for place, (layer, inputs, released) in enumerate(zip(layers, self._inputs, self._released, strict=True), 1):
            given = [values[number] for number in inputs]
            result = self._checked(layer, given, place) if checked else layer(*given)
            values.append(result)
            for number in released:
                values[number] = None
            if checked:
                numbers += result.numel() // IMAGES
                if numbers > MOST_RESULTS:
                    raise ValueError(f"operator {place}: results so far are more than {MOST_RESULTS:,} for an image")
        return result

    def _checked(self, layer: nn.Module, given: Sequence[Tensor | None], place: int) -> Tensor:
        """The shape of a result, after checks that the operator fits its inputs and can be computed."""
        name = self.steps[place - 1][0].kind.__name__ if isinstance(layer, Computed) else type(layer).__name__
        try:
            result = layer(*given)
        except (RuntimeError, ValueError, IndexError, TypeError) as error:  # PyTorch's of a shape that does not fit
            inputs = " and ".join(_sizes(value) for value in given if value is not None)
            raise ValueError(f"operator {place} ({name}) does not take {inputs}: {first_line(error)[:150]}") from None
        if result.ndim < 1 or result.shape[0] != IMAGES:
            raise ValueError(
                f"operator {place} ({name}) gives no result for each image; the batch stays the first axis"
            )
        if not result.numel():
            raise ValueError(f"operator {place} ({name}) gives nothing")
        return result


def _step(entry: Any, place: int) -> tuple[Operator, tuple[int, ...]]:
    """An operator and the numbers of its inputs."""
    if not isinstance(entry, dict):
        raise ValueError(f"operator {place}: it is {shown(entry)}, not an object")
    try:
        operator = read_operator(entry)
        arity = getattr(operator.layer(), "arity", 1)
    except ValueError as error:
        raise ValueError(f"operator {place}: {error}") from None
    inputs = entry.get("inputs")
    if (
        not isinstance(inputs, list)
        or not 1 <= len(inputs) <= MOST_OPERATORS
        or any(type(number) is not int or not 0 <= number < place for number in inputs)
    ):
        raise ValueError(f"operator {place}: inputs is {shown(inputs)}; 0 is the image, n the result of operator n")
    if arity not in (None, len(inputs)):
        raise ValueError(f"operator {place}: {entry['operator']} takes {arity}, not {len(inputs)} inputs")
    return operator, tuple(inputs)


def read_operator(entry: dict[str, Any]) -> Operator:
    """An operator from its entry in a description, without its inputs."""
    name = entry.get("operator")
    if not isinstance(name, str) or name not in OPERATORS:
        raise ValueError(f"operator is {shown(name)}; known are {', '.join(OPERATORS)}")
    return operator_from(OPERATORS[name], entry)


def _released(inputs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """For each operator, the values that no later operator needs, so that evaluation does not keep them."""
    last = {number: place for place, numbers in enumerate(inputs) for number in numbers}
    return [tuple(number for number in set(numbers) if last[number] == place) for place, numbers in enumerate(inputs)]


def _sizes(value: Tensor) -> str:
    return " x ".join(map(str, value.shape[1:])) or "one number"
