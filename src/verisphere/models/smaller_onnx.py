"""A smaller copy of a network's ONNX graph: in float16, or in 8-bit integers whose ranges come from images.

Both begin with the graph in which constants are computed and batch norms are folded into convolutions. The input and
the output stay as they are. The conversion itself is onnxruntime's; the same graph and images give the same bytes.
"""

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from verisphere.files.onnx_graph import first_line, require_onnx, version_of
from verisphere.models.onnx_file import quiet

#: Runs a graph on the images that set the ranges, and returns a row for each image; takes the bytes of the graph, the
#: name of its output and the length of a row.
RowsOf = Callable[[bytes, str, int], Float64[np.ndarray, "images numbers"]]

#: Operators whose results may exceed the range of float16, such as the sum of squares that normalises an embedding.
_IN_FLOAT32 = ("LpNormalization", "Pow", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Sqrt")
_WITH_WEIGHTS = ("Conv", "Gemm", "MatMul")
#: f(s x) = s f(x) for s > 0, in each channel.
_HOMOGENEOUS = ("LeakyRelu", "PRelu", "Relu")
#: The first version of ONNX's operators with a scale for each channel; from the second on, axes are an input.
_SCALE_PER_CHANNEL, _AXES_AS_INPUT = 13, 18
_ROW = "verisphere/row"
_LOWEST_FACTOR, _SMALLEST = 1e-3, 1e-12  # for channels that are nearly always, or always, zero
_FLOAT = 1  # TensorProto.FLOAT


def in_float16(content: bytes, file: Path) -> bytes:
    """The graph in float16, which holds nothing beyond 65504, with input and output as they are."""
    with _naming(file, "float16"):
        from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16

        model = _folded(content)
        return _finished(
            convert_float_to_float16(model, keep_io_types=True, op_block_list=[*DEFAULT_OP_BLOCK_LIST, *_IN_FLOAT32])
        )


def in_int8(content: bytes, rows_of: RowsOf, file: Path) -> bytes:
    """The graph with 8-bit weights, and 8-bit values at both ends of each convolution and before other layers (QDQ).

    Each output channel of the weights has a scale of its own, in 7 of the 8 bits: sums of products of 8 bits overflow
    on processors without VNNI, where the same file would give other scores. The range of a value ends one standard
    deviation beyond the mean, over images, of an image's least and of its largest number: covering the outliers of
    single images costs more than it gains. The result of a fully connected layer, such as the embedding, stays in
    float32.

    Channels of very different ranges would share one scale. Before a depthwise convolution they are scaled to one range
    by a factor for each channel: the weights before are multiplied by it, the weights after divided. This is
    cross-layer equalization (Nagel et al. 2019, arXiv:1906.04721, section 4.1). Beyond the paper it is restricted to
    depthwise convolutions, whose weights have a scale for each channel, so that no factor costs precision.

    The bytes have been checked; `rows_of` runs graphs on the images that set the ranges.
    """
    with _naming(file, "int8"):
        model = _folded(_with_scales_per_channel(content))
        layers = _layers(model)
        if not layers:
            raise ValueError("no convolution or fully connected layer with weights of its own")
        _take_up_factors(model, layers)
        _equalise(model, rows_of)
        values = list(dict.fromkeys(name for layer in layers for name in (layer.input[0], layer.output[0])))
        rows = rows_of(*_with_row(model, values, 2 * len(values), _range))
        low_high = (rows.mean(0) + rows.std(0) * np.tile([-1, 1], len(values))).reshape(-1, 2)
        return _finished(_quantised(model, dict(zip(values, low_high, strict=True)), [layer.name for layer in layers]))


@contextmanager
def _naming(file: Path, precision: str) -> Iterator[None]:
    """Turn any error inside into a ValueError with file and precision; drop what a converter prints or logs."""
    require_onnx()
    try:
        with quiet():
            yield
    except Exception as error:  # neither onnx's nor onnxruntime's exceptions have a common base of their own
        raise ValueError(f"{file}: cannot be written in {precision}: {first_line(error)}") from error


# --- the graph before ---


def _with_scales_per_channel(content: bytes) -> bytes:
    """The graph in a version of the operators that has a scale for each channel."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    if version_of(model) < _SCALE_PER_CHANNEL:
        model = onnx.version_converter.convert_version(model, _SCALE_PER_CHANNEL)
    return model.SerializeToString(deterministic=True)


def _folded(content: bytes) -> Any:
    """The graph with constants computed, batch norms folded into convolutions, and a name for each node."""
    import onnx
    import onnxruntime

    model = onnx.ModelProto.FromString(content)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [
        end for end in model.graph.input if end.name not in weights
    ]  # those listed could be overridden: not folded
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)  # before, weights had to be listed
    with tempfile.TemporaryDirectory() as room:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC  # ONNX's operators alone
        options.optimized_model_filepath = str(Path(room) / "folded.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        model = onnx.ModelProto.FromString(Path(options.optimized_model_filepath).read_bytes())
    # only now, since weights may have been the values of Constant nodes
    if not any(tensor.data_type == _FLOAT and len(tensor.dims) > 1 for tensor in model.graph.initializer):
        raise ValueError("it has no weights in float32")
    for place, node in enumerate(model.graph.node):
        node.name = f"node_{place}"
    return onnx.shape_inference.infer_shapes(model)


def _layers(model: Any) -> list[Any]:
    """The convolutions and fully connected layers whose weights are float32 constants of the graph."""
    weights = {tensor.name for tensor in model.graph.initializer if tensor.data_type == _FLOAT}
    return [
        node
        for node in model.graph.node
        if node.op_type in _WITH_WEIGHTS and node.input[1] in weights and node.input[0] not in weights
    ]


def _take_up_factors(model: Any, layers: Sequence[Any]) -> None:
    """Bring the factors of each Gemm, alpha and beta, into its weights and bias, in place.

    onnxruntime's quantizer sets beta to 1 and leaves the bias as it was; it does not touch a bias that is computed.
    """
    from onnx import numpy_helper

    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    for gemm in layers:
        if gemm.op_type != "Gemm":
            continue
        for place, kind in ((1, "alpha"), (2, "beta")):
            factor = next((attribute for attribute in gemm.attribute if attribute.name == kind), None)
            tensor = weights.get(gemm.input[place]) if len(gemm.input) > place else None
            if factor is None or tensor is None:
                continue
            values = (numpy_helper.to_array(tensor) * np.float32(factor.f)).astype(np.float32)
            gemm.input[place] = f"verisphere/{gemm.name}/{kind}"  # other nodes may use the former
            model.graph.initializer.append(numpy_helper.from_array(values, gemm.input[place]))
            gemm.attribute.remove(factor)


# --- ranges ---


def _with_row(
    model: Any, values: Sequence[str], numbers: int, nodes_of: Callable[[str, int], tuple[list[Any], list[str]]]
) -> tuple[bytes, str, int]:
    """A copy of the graph whose only output is a row for each image, of the given length, built from these values."""
    import onnx
    from onnx import helper

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    columns: list[str] = []
    for value in values:
        nodes, names = nodes_of(value, version_of(model))
        copy.graph.node.extend(nodes)
        columns += names
    for name, axes in (("verisphere/one", [1]), ("verisphere/plane", [2, 3])):
        copy.graph.initializer.append(onnx.numpy_helper.from_array(np.array(axes), name))
    copy.graph.node.append(helper.make_node("Concat", columns, [_ROW], axis=1))
    del copy.graph.output[:]
    copy.graph.output.append(helper.make_tensor_value_info(_ROW, _FLOAT, None))
    return copy.SerializeToString(), _ROW, numbers


def _range(value: str, version: int) -> tuple[list[Any], list[str]]:
    """Nodes for the least and the largest number of a value in each image, and their names."""
    from onnx import helper

    flat, low, high = (f"verisphere/{value}/{word}" for word in ("flat", "low", "high"))
    return [
        helper.make_node("Flatten", [value], [flat], axis=1),
        _reduced("ReduceMin", flat, low, version, "verisphere/one", [1], keepdims=1),
        _reduced("ReduceMax", flat, high, version, "verisphere/one", [1], keepdims=1),
    ], [low, high]


def _largest_of_channels(value: str, version: int) -> tuple[list[Any], list[str]]:
    """Nodes for the largest distance from zero in each channel of a value, and their name."""
    from onnx import helper

    distance, high = (f"verisphere/{value}/{word}" for word in ("distance", "channels"))
    return [
        helper.make_node("Abs", [value], [distance]),
        _reduced("ReduceMax", distance, high, version, "verisphere/plane", [2, 3], keepdims=0),
    ], [high]


def _reduced(operator: str, value: str, name: str, version: int, axes: str, numbers: list[int], keepdims: int) -> Any:
    from onnx import helper

    if version >= _AXES_AS_INPUT:
        return helper.make_node(operator, [value, axes], [name], keepdims=keepdims)
    return helper.make_node(operator, [value], [name], axes=numbers, keepdims=keepdims)


# --- channels brought to one range ---


def _equalise(model: Any, rows_of: RowsOf) -> None:
    """Scale the channels between a convolution and a depthwise one, in place, so that they have one range."""
    from onnx import numpy_helper

    weights = {tensor.name: tensor for tensor in model.graph.initializer}

    def scale(name: str, factors: np.ndarray) -> None:
        values = numpy_helper.to_array(weights[name])
        shaped = factors.reshape(-1, *[1] * (values.ndim - 1))
        weights[name].CopyFrom(numpy_helper.from_array((values * shaped).astype(np.float32), name))

    pairs = list(_before_depthwise(model, weights.keys()))
    if not pairs:
        return
    between = [before.output[0] for before, _ in pairs]
    channels = [weights[after.input[1]].dims[0] for _, after in pairs]
    means = rows_of(*_with_row(model, between, sum(channels), _largest_of_channels)).mean(0)
    for (before, after), largest in zip(pairs, np.split(means, np.cumsum(channels)[:-1]), strict=True):
        factors = np.clip(largest / max(largest.max(), _SMALLEST), _LOWEST_FACTOR, 1)
        for name in before.input[1:]:  # weights, and bias where there is one
            scale(name, 1 / factors)
        scale(after.input[1], factors)


def _before_depthwise(model: Any, weights: Any) -> Iterator[tuple[Any, Any]]:
    """Each depthwise convolution with the convolution before it, if no other node uses the values between them."""
    made_by = {name: node for node in model.graph.node for name in node.output}
    seen_by: dict[str, list[Any]] = defaultdict(list)
    for node in model.graph.node:
        for name in node.input:
            seen_by[name].append(node)
    shared = {end.name for end in model.graph.output} | {name for name, nodes in seen_by.items() if len(nodes) > 1}
    for after in model.graph.node:
        if after.op_type != "Conv" or _group(after) == 1 or after.input[0] in shared:
            continue
        before = made_by.get(after.input[0])
        if before is not None and before.op_type in _HOMOGENEOUS:
            before = None if before.input[0] in shared else made_by.get(before.input[0])
        if before is None or before.op_type != "Conv" or shared & {*before.input[1:], *after.input[1:]}:
            continue
        if {*before.input[1:], *after.input[1:]} <= weights:
            channels = next(tensor.dims[0] for tensor in model.graph.initializer if tensor.name == before.input[1])
            if channels == _group(after):
                yield before, after


def _group(node: Any) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)


# --- the graph after ---


def _quantised(model: Any, ranges: dict[str, np.ndarray], layers: list[str]) -> Any:
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from onnxruntime.quantization.calibrate import TensorData, TensorsData
    from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

    low_high = {
        name: TensorData(lowest=np.float32(low), highest=np.float32(high)) for name, (low, high) in ranges.items()
    }
    quantizer = QDQQuantizer(
        model,
        True,  # a scale for each channel
        True,  # 7 of 8 bits
        QuantType.QInt8,
        QuantType.QUInt8,
        TensorsData(CalibrationMethod.MinMax, low_high),
        layers,
        [],
        list(_WITH_WEIGHTS),
        {"OpTypesToExcludeOutputQuantization": ["Gemm", "MatMul"]},
    )
    quantizer.quantize_model()
    return quantizer.model.model


def _finished(model: Any) -> bytes:
    """The bytes of a converted graph, its nodes in the order in which they run, without notes of the converter."""
    graph = model.graph
    known = {end.name for end in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
    waiting, nodes = list(graph.node), []
    while waiting:
        ready = [node for node in waiting if known.issuperset(node.input)]
        if not ready:
            raise ValueError("its nodes wait for one another")
        nodes += ready
        known.update(name for node in ready for name in node.output)
        waiting = [node for node in waiting if not known.issuperset(node.output)]
    used = {node.domain for node in nodes} | {""}
    versions = [entry for entry in model.opset_import if entry.domain.removeprefix("ai.onnx") in used]
    for parts in (graph.node, graph.value_info, model.metadata_props, model.opset_import):
        del parts[:]
    graph.node.extend(nodes)
    model.opset_import.extend(versions)
    model.producer_name, model.producer_version = "verisphere", ""
    return model.SerializeToString(deterministic=True)
