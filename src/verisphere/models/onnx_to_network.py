"""An ONNX graph as a `GraphNetwork`, whose weights can be trained; the graph has been checked, and is not run.

Constants are computed first. Shapes may be computed from the image's, whose first axis, the batch, stays free. If an
exporter has folded a batch norm into the convolution before it, the network is trained without that batch norm. Weights
that several operators share become a copy for each.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.graph_network import MOST_OPERATORS, GraphNetwork
from verisphere.backbones.onnx_network import OnnxNetwork, first_line
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.models.graph_reader import IMAGES, GraphReader
from verisphere.models.onnx_constants import CONSTANTS, array_of, worked_out
from verisphere.models.onnx_file import smooth_images
from verisphere.models.onnx_operators import READERS

#: Largest difference between network and graph, as a share of the largest number of the embeddings. Measured: 2e-6. A
#: graph in float16 has 11 bits, and every layer rounds to them.
FARTHEST, FARTHEST_FLOAT16 = 1e-4, 2e-2

_OLDEST_OPERATORS = 7  # version of ONNX; in earlier ones operators broadcast by other rules
_FLOAT16 = 10  # TensorProto.FLOAT16
#: NumPy's and PyTorch's errors for constants and shapes that do not fit, beside ours.
_FAILURES = (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError)


@dataclass(frozen=True, eq=False)
class GraphContent:
    """The content of a graph, from which a `GraphNetwork` is built.

    Attributes:
        arguments: arguments of `GraphNetwork`, as plain data.
        weights: weights of the network, in float32.
        half: whether the graph computes in float16.
    """

    arguments: dict[str, Any]
    weights: dict[str, Tensor]
    half: bool

    def network(self) -> GraphNetwork:
        """The network, in evaluation mode on the CPU."""
        network = GraphNetwork(**self.arguments)
        network.load_state_dict(self.weights)
        return network.eval()


def read_network(content: bytes, pixels: OnnxNetwork) -> GraphContent:
    """The operators and weights of a graph.

    Args:
        content: bytes of an ONNX file, which `read_foreign_onnx` has checked, with all its weights.
        pixels: description of the pixels that the graph takes, and the names of its input and output.
    """
    import onnx

    model = onnx.ModelProto.FromString(content)
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if version < _OLDEST_OPERATORS:
        raise ValueError(f"its operators are of version {version}; version {_OLDEST_OPERATORS} and later can be read")
    height, width = pixels.input_size
    places = (3, height, width) if pixels.layout == "NCHW" else (height, width, 3)
    reader = GraphReader(pixels.batch)
    reader.values[pixels.image_input] = 0
    reader.results.append(torch.empty(IMAGES, *places, device="meta"))
    for tensor in model.graph.initializer:
        reader.constants[tensor.name] = array_of(tensor)
    nodes = _needed(model.graph, pixels.embedding_output)
    if len(nodes) > 4 * MOST_OPERATORS:  # the others are constants and shapes
        raise ValueError(f"it has {len(nodes):,} operators; at most {MOST_OPERATORS:,} are trained on here")
    for node in nodes:
        try:
            _read(reader, node)
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
    """The arguments of a `GraphNetwork` and its weights as a safetensors file, after a comparison with the graph.

    Args:
        content: bytes of the ONNX file, which have been checked and run.
        graph: description of the pixels that the graph takes; the graph is read here.
        file: source of the bytes, for messages.
    """
    with errors_naming(file):
        read = read_network(content, graph)
        network = read.network()
    graph.read(content, file)
    with errors_naming(file):
        check_equal(network, graph, read.half)
    return read.arguments, save(read.weights)


def check_equal(network: Backbone, graph: OnnxNetwork, half: bool = False, batch: int = 4) -> float:
    """Run network and graph on the same images, and return their largest difference as a share of the largest number.

    Args:
        network: network in evaluation mode, on the CPU.
        graph: the graph after reading.
        half: whether the graph computes in float16.
        batch: number of images.
    """
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


def _read(reader: GraphReader, node: Any) -> None:
    """Read a node, after those on which it depends."""
    if node.op_type not in READERS.keys() | CONSTANTS.keys() or node.domain not in ("", "ai.onnx"):
        domain = f" of {shown(node.domain)}" if node.domain else ""
        raise _UnknownOperator(f"its operator {shown(node.op_type)}{domain} cannot be trained on here; adopt the graph "
                               "without --trainable")  # fmt: skip
    for name in node.input:
        if name and name not in reader.values and name not in reader.constants:
            raise ValueError(f"its input {shown(name)} is computed nowhere before")
    if node.op_type in CONSTANTS and not any(name in reader.values for name in node.input):
        reader.constants[node.output[0]] = worked_out(node, [reader.constants.get(name) for name in node.input])
    elif node.op_type in READERS:
        READERS[node.op_type](reader, node)
    else:
        raise ValueError("it is read where it computes with constants and shapes, not with what depends on the image")


def _needed(graph: Any, output: str) -> list[Any]:
    """The nodes on which an output depends, in their order."""
    needed, nodes = {output}, []
    for node in reversed(graph.node):
        if needed & set(node.output):
            nodes.append(node)
            needed |= {name for name in node.input if name}
    return nodes[::-1]
