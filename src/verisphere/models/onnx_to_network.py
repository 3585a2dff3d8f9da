"""An ONNX graph as a `GraphNetwork`, whose weights can be trained; the graph has been checked, and is not run.

Constants are computed first. Shapes may be computed from the image's, whose first axis, the batch, stays free. If an
exporter has folded a batch norm into the convolution before it, the network is trained without that batch norm. Weights
that several operators share become a copy for each.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.graph_functions import FUNCTION_READERS
from verisphere.backbones.graph_layers import LAYER_READERS
from verisphere.backbones.graph_network import MOST_OPERATORS, GraphNetwork
from verisphere.backbones.graph_operator import BATCH, IMAGES, OnnxReader
from verisphere.backbones.onnx_network import OnnxNetwork
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.onnx_graph import OWN_OPERATORS, first_line, version_of
from verisphere.models.onnx_file import smooth_images

#: Largest difference between network and graph, as a share of the largest number of the embeddings. Measured: 2e-6. A
#: graph in float16 has 11 bits, and every layer rounds to them.
FARTHEST, FARTHEST_FLOAT16 = 1e-4, 2e-2

_OLDEST_OPERATORS = 7  # version of ONNX; in earlier ones operators broadcast by other rules
_FLOAT16 = 10  # TensorProto.FLOAT16
_READERS = LAYER_READERS | FUNCTION_READERS
#: ONNX's operators on constants and shapes alone, which onnx computes: those that move numbers, and those that compute
#: with at most this many.
_MOVED = ("Constant", "Identity", "Cast", "Reshape", "Transpose")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div")
_COMPUTED = (*_ARITHMETIC, "Gather", "Concat", "Slice", "Unsqueeze", "Squeeze")
_MOST_COMPUTED = 4096
_INTEGERS, _FLOATS = (6, 7), (1, 10, 11)  # int32, int64; float32, float16, float64
#: NumPy's and PyTorch's errors for constants and shapes that do not fit, beside ours.
_FAILURES = (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class GraphContent:
    """What a `GraphNetwork` is built from: the weights of a graph in float32, and whether it computes in float16."""

    arguments: dict[str, Any]
    weights: dict[str, Tensor]
    half: bool

    def network(self) -> GraphNetwork:
        """The network, in evaluation mode on the CPU."""
        network = GraphNetwork(**self.arguments)
        network.load_state_dict(self.weights)
        return network.eval()


def read_network(content: bytes, pixels: OnnxNetwork) -> GraphContent:
    """The operators and weights of a graph with all its weights, which `read_foreign_onnx` has checked."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    version = version_of(model)
    if version < _OLDEST_OPERATORS:
        raise ValueError(f"its operators are of version {version}; version {_OLDEST_OPERATORS} and later can be read")
    height, width = pixels.input_size
    places = (3, height, width) if pixels.layout == "NCHW" else (height, width, 3)
    reader = OnnxReader(pixels.batch)
    reader.values[pixels.image_input] = 0
    reader.results.append(torch.empty(IMAGES, *places, device="meta"))
    for tensor in model.graph.initializer:
        reader.constants[tensor.name] = _array_of(tensor)
    nodes = _needed(model.graph, pixels.embedding_output)
    if len(nodes) > 4 * MOST_OPERATORS:  # the others are constants and shapes
        raise ValueError(f"it has {len(nodes):,} operators; at most {MOST_OPERATORS:,} are trained on here")
    for node in nodes:
        try:
            _read(reader, node, version)
        except _UnknownOperator as error:
            raise ValueError(str(error)) from None
        except _FAILURES as error:
            where = f" {shown(node.name)}" if node.name else ""
            raise ValueError(f"its operator {shown(node.op_type)}{where}: {first_line(error)}") from None
    last = reader.values.get(pixels.embedding_output)
    if last is None or last != len(reader.operators) or last == 0:
        raise ValueError(f"its output {shown(pixels.embedding_output)} is computed from no image")
    arguments = {
        **{"embedding_size": pixels.embedding_size, "operators": reader.operators},
        **{"height": height, "width": width, "mean": pixels.mean, "scale": pixels.scale},
        **{"colour": pixels.colour, "layout": pixels.layout},
    }
    half = pixels.numbers == "float16" or any(tensor.data_type == _FLOAT16 for tensor in model.graph.initializer)
    return GraphContent(arguments, reader.weights, half)


def read_trainable(content: bytes, graph: OnnxNetwork, file: Path) -> tuple[dict[str, Any], bytes]:
    """The arguments of a `GraphNetwork` and its weights as a safetensors file, after a comparison with the graph."""
    with errors_naming(file):
        read = read_network(content, graph)
        network = read.network()
    graph.read(content, file)
    with errors_naming(file):
        check_equal(network, graph, read.half)
    return read.arguments, save(read.weights)


def check_equal(network: Backbone, graph: OnnxNetwork, half: bool = False, batch: int = 4) -> float:
    """Run network and graph on the same images, and return the largest difference as a share of the largest number."""
    images = network.normalise(smooth_images(batch, network.input_size))
    with torch.inference_mode():
        wanted, given = graph(images).double(), network(images).double()
    difference = float((wanted - given).abs().max() / wanted.abs().max())
    allowed = FARTHEST_FLOAT16 if half else FARTHEST
    if not difference <= allowed:  # NaN is a difference too
        raise ValueError(
            f"the network that was read differs from the graph by {difference:.2g} of the largest number (allowed "
            f"{allowed:g}); adopt the graph without --trainable"
        )
    return difference


class _UnknownOperator(ValueError):
    """An operator that cannot be read."""


def _read(reader: OnnxReader, node: Any, version: int) -> None:
    """Read a node, after those on which it depends."""
    constant = node.op_type in (*_MOVED, *_COMPUTED)
    if not (constant or node.op_type in _READERS) or node.domain not in OWN_OPERATORS:
        domain = f" of {shown(node.domain)}" if node.domain else ""
        raise _UnknownOperator(f"its operator {shown(node.op_type)}{domain} cannot be trained on here; adopt the graph "
                               "without --trainable")  # fmt: skip
    for name in node.input:
        if name and name not in reader.values and name not in reader.constants:
            raise ValueError(f"its input {shown(name)} is computed nowhere before")
    reader.node = node
    node.domain = ""  # the two names of ONNX's own operators become one
    if constant and not any(name in reader.values for name in node.input):
        reader.constants[node.output[0]] = _worked_out(reader, version)
    elif node.op_type in _READERS:
        _READERS[node.op_type](reader)
    else:
        raise ValueError("it is read where it computes with constants and shapes, not with what depends on the image")


def _worked_out(reader: OnnxReader, version: int) -> np.ndarray:
    """The first output of the current node, whose inputs are constants, by onnx's own definition of the operator."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    node, inputs = reader.node, {name: reader.constants[name] for name in reader.node.input if name}
    version = max(version, 12) if node.op_type == "Constant" else version  # lists of numbers are younger than the rest
    if node.op_type == "Constant" and not node.attribute[0].name.startswith("value"):
        raise ValueError("it holds no numbers")
    kind = reader.attributes(to=1, saturate=1)["to"] if node.op_type == "Cast" else None
    if node.op_type not in _MOVED and any(array.size > _MOST_COMPUTED for array in inputs.values()):
        raise ValueError(f"it computes with constants of more than {_MOST_COMPUTED:,} numbers")
    if kind not in (None, *_INTEGERS, *_FLOATS):
        raise ValueError(f"it makes numbers of kind {kind}")
    if (node.op_type in _ARITHMETIC or kind in _FLOATS) and any(np.any(one == BATCH) for one in inputs.values()):
        raise ValueError("it computes with the number of images")
    if node.op_type == "Div" and (inputs[node.input[1]] == 0).any():
        raise ValueError("it divides by 0")
    before, after = ([helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, node.output))
    try:
        alone = ReferenceEvaluator(helper.make_graph([node], "alone", before, after[:1]), opsets={"": version})
        (array,) = alone.run(None, inputs)
    except Exception as error:  # any error that numbers in the file can cause
        raise ValueError(first_line(error)) from None
    return _of_numbers(array, node.output[0])


def _array_of(tensor: Any) -> np.ndarray:
    from onnx import numpy_helper

    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:  # any error that numbers in the file can cause
        raise ValueError(f"its weights {shown(tensor.name)} cannot be read: {first_line(error)}") from None
    return _of_numbers(array, tensor.name)


def _of_numbers(array: Any, name: str) -> np.ndarray:
    if not isinstance(array, np.ndarray | np.generic) or array.dtype.kind not in "fiub":
        raise ValueError(f"its weights {shown(name)} are {getattr(array, 'dtype', 'a list')}, which are no numbers")
    return np.asarray(array)


def _needed(graph: Any, output: str) -> list[Any]:
    """The nodes on which an output depends, in their order."""
    needed, nodes = {output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= {name for name in node.input if name}
    return nodes[::-1]
