"""ONNX's operators on values that depend on the image, each read into operators of a `GraphNetwork`.

A function reads one node: it finds its inputs and attributes, refuses what a `GraphNetwork` cannot compute, and adds to
the description. Errors name the part of the node; the caller names the node.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from verisphere.files.json_values import shown
from verisphere.models.graph_reader import BATCH, GraphReader, attributes

_FLOATS = (1, 10, 11)  # float32, float16, float64
_MOST_PLACES = 64  # places of an axis that are selected one by one


def _conv(reader: GraphReader, node: Any) -> None:
    known = attributes(node, auto_pad="NOTSET", dilations=[1, 1], group=1, kernel_shape=None, pads=None,
                        strides=[1, 1])  # fmt: skip
    weight, bias = reader.due(node, 1), reader.constant(node, 2)
    if weight.ndim != 4:
        raise ValueError(f"its filters have {weight.ndim} axes; images are convolved with filters of 4")
    source, pads = _padded(reader, node, known, list(weight.shape[2:]), known["dilations"])
    reader.add(
        node,
        "Conv",
        [source],
        {"weight": weight, "bias": bias},
        weight=[*weight.shape],
        bias=bias is not None,
        strides=[*known["strides"]],
        pads=pads,
        dilations=[*known["dilations"]],
        group=known["group"],
    )


def _padded(
    reader: GraphReader, node: Any, known: dict[str, Any], kernel: list[int], dilations: list[int]
) -> tuple[str | int, list[int]]:
    """The input of a window operator and its pads; if two sides differ, a separate operator pads before it."""
    shape = reader.shape(node.input[0])
    before, after = [0, 0], [0, 0]
    if known["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        for axis, (size, stride) in enumerate(zip(shape[1:], known["strides"], strict=True)):
            total = max((math.ceil(size / stride) - 1) * stride + (kernel[axis] - 1) * dilations[axis] + 1 - size, 0)
            few, many = total // 2, total - total // 2
            before[axis], after[axis] = (few, many) if known["auto_pad"] == "SAME_UPPER" else (many, few)
    elif known["auto_pad"] == "NOTSET" and known["pads"]:
        before, after = [*known["pads"][:2]], [*known["pads"][2:]]
    elif known["auto_pad"] not in ("NOTSET", "VALID"):
        raise ValueError(f"its auto_pad is {shown(known['auto_pad'])}")
    if before == after:
        return node.input[0], before
    if node.op_type != "Conv":
        raise ValueError("its pads differ between two sides, which is not read here")
    pads = [0, 0, before[0], after[0], before[1], after[1]]
    return reader.add(node, "Pad", [node.input[0]], pads=pads), [0, 0]


def _gemm(reader: GraphReader, node: Any) -> None:
    known = attributes(node, alpha=1.0, beta=1.0, transA=0, transB=0)
    matrix, bias = reader.due(node, 1), reader.constant(node, 2)
    if known["transA"] or matrix.ndim != 2:
        raise ValueError("it is no product of an embedding and a matrix")
    weight = known["alpha"] * (matrix if known["transB"] else matrix.T).astype(np.float32)
    if bias is not None:
        if bias.size not in (1, len(weight)) or (bias.size > 1 and bias.shape[-1] != len(weight)):
            raise ValueError(f"what it adds has the shape {list(bias.shape)}; a number for each column is due, or one")
        bias = known["beta"] * np.broadcast_to(bias.astype(np.float32).reshape(-1), len(weight))
    weights = {"weight": weight, "bias": bias}
    reader.add(node, "Gemm", [node.input[0]], weights, weight=[*weight.shape], bias=bias is not None)


def _matmul(reader: GraphReader, node: Any) -> None:
    attributes(node)
    matrix = reader.due(node, 1)
    if matrix.ndim != 2:
        raise ValueError(f"its matrix has {matrix.ndim} axes; 2 are due")
    reader.add(node, "Gemm", [node.input[0]], {"weight": matrix.T}, weight=[*matrix.T.shape])


def _batch_norm(reader: GraphReader, node: Any) -> None:
    known = attributes(node, epsilon=1e-5, momentum=0.9, spatial=1, training_mode=0)
    if known["training_mode"] or not known["spatial"]:
        raise ValueError(
            "it normalises by the images of the batch, as in training; export the graph in evaluation mode"
        )
    arrays = [reader.due(node, place) for place in range(1, 5)]
    reader.add(
        node,
        "BatchNormalization",
        [node.input[0]],
        dict(zip(("weight", "bias", "running_mean", "running_var"), arrays, strict=True)),
        channels=arrays[0].size,
        axes=len(reader.shape(node.input[0])) + 1,
        epsilon=float(known["epsilon"]),
        momentum=round(1 - float(known["momentum"]), 6),
    )


def _prelu(reader: GraphReader, node: Any) -> None:
    attributes(node)
    slopes, shape = reader.due(node, 1), reader.shape(node.input[0])
    a_channel = (slopes.size, *[1] * (len(shape) - 1))
    if slopes.size > 1 and (slopes.size != shape[0] or slopes.shape[-len(shape) :] != a_channel):
        raise ValueError(f"its slopes have shape {slopes.shape}; one, or one a channel, is read")
    reader.add(node, "PRelu", [node.input[0]], {"weight": slopes}, slopes=slopes.size)


def _function(reader: GraphReader, node: Any) -> None:
    attributes(node)
    reader.add(node, "Function", [node.input[0]], function=node.op_type)


def _leaky_relu(reader: GraphReader, node: Any) -> None:
    reader.add(node, "LeakyRelu", [node.input[0]], slope=attributes(node, alpha=0.01)["alpha"])


def _hard_sigmoid(reader: GraphReader, node: Any) -> None:
    reader.add(node, "HardSigmoid", [node.input[0]], **attributes(node, alpha=0.2, beta=0.5))


def _clip(reader: GraphReader, node: Any) -> None:
    known = attributes(node, min=None, max=None)
    low, high = reader.constant(node, 1), reader.constant(node, 2)
    bounds = {
        name: float(value if array is None else array.reshape(()))
        for name, array, value in (("low", low, known["min"]), ("high", high, known["max"]))
        if array is not None or value is not None
    }
    bounds = {name: value for name, value in bounds.items() if math.isfinite(value)}
    if bounds:
        reader.add(node, "Clip", [node.input[0]], **bounds)
    else:
        reader.values[node.output[0]] = reader.number(node.input[0])


def _arithmetic(reader: GraphReader, node: Any) -> None:
    attributes(node)
    if len(node.input) != 2:
        raise ValueError(f"it has {len(node.input)} inputs; 2 are read")
    constant_first = node.input[0] in reader.constants
    value, other = (node.input[1], node.input[0]) if constant_first else (node.input[0], node.input[1])
    if other not in reader.constants:
        reader.add(node, "Arithmetic", [value, other], function=node.op_type)
        return
    axes = len(reader.shape(value)) + 1
    array, first = reader.constants[other], {"constant_first": True} if constant_first else {}
    if np.any(array == BATCH):
        raise ValueError("it computes with the number of images")
    if array.ndim > axes:
        raise ValueError(f"its constant has shape {array.shape}, more axes than the other input")
    if array.size == 1 and node.op_type in ("Max", "Min"):
        bound = {"low" if node.op_type == "Max" else "high": float(array.reshape(()))}
        reader.add(node, "Clip", [value], **bound)
    elif array.size == 1:
        reader.add(node, "Arithmetic", [value], function=node.op_type, constant=float(array.reshape(())), **first)
    else:
        sizes = array.shape[1:] if array.ndim == axes and array.shape[0] == 1 else array.shape
        if len(sizes) >= axes:
            raise ValueError(f"its constant has shape {array.shape}, more than one image")
        trained = {"trained": True} if node.op_type == "Add" and _without_bias(reader, value) else {}
        entries = {"sizes": [*sizes], **first, **trained}
        reader.add(node, "Arithmetic", [value], {"constant": array}, function=node.op_type, **entries)


def _without_bias(reader: GraphReader, name: str) -> bool:
    """Whether a value is the result of a layer whose bias may be added after it."""
    place = reader.number(name)
    entry = reader.operators[place - 1] if place else {}
    return entry.get("operator") in ("Conv", "Gemm") and not entry.get("bias")


def _reshape(reader: GraphReader, node: Any) -> None:
    known = attributes(node, allowzero=0)
    shape, target = reader.shape(node.input[0]), [int(size) for size in reader.due(node, 1)]
    sizes = [
        (BATCH if place == 0 else shape[place - 1]) if size == 0 and not known["allowzero"] else size
        for place, size in enumerate(target)
    ]
    if not sizes or sizes[0] not in (BATCH, -1, reader.batch) or BATCH in sizes[1:]:
        raise ValueError(f"it reshapes to {shown(target)}; the first axis must stay the batch")
    _to_sizes(reader, node, sizes[1:])


def _to_sizes(reader: GraphReader, node: Any, sizes: list[int]) -> None:
    """A reshape to sizes of all axes but the batch; one of them can be -1, for the rest."""
    total = math.prod(reader.shape(node.input[0]))
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        sizes = [total // max(rest, 1) if size == -1 else size for size in sizes]
    if math.prod(sizes) != total:
        raise ValueError(f"it reshapes {total} numbers of an image to {shown(sizes)}")
    reader.add(node, "Reshape", [node.input[0]], sizes=sizes)


def _flatten(reader: GraphReader, node: Any) -> None:
    if attributes(node, axis=1)["axis"] != 1:
        raise ValueError("its axis is not 1; the batch must stay the first axis")
    _to_sizes(reader, node, [math.prod(reader.shape(node.input[0]))])


def _squeeze(reader: GraphReader, node: Any) -> None:
    axes = _axes_of(reader, node, attributes(node, axes=None))
    shape = reader.shape(node.input[0])
    gone = [place for place, size in enumerate(shape, 1) if size == 1] if axes is None else axes
    gone = reader.axes(gone, node.input[0]) if len(gone) else []
    if any(shape[axis - 1] != 1 for axis in gone):
        raise ValueError(f"it removes axes {gone}, one of which has more than one place")
    _to_sizes(reader, node, [size for place, size in enumerate(shape, 1) if place not in gone])


def _unsqueeze(reader: GraphReader, node: Any) -> None:
    axes = _axes_of(reader, node, attributes(node, axes=None))
    sizes = [*reader.shape(node.input[0])]
    count = len(sizes) + 1 + len(axes if axes is not None else ())
    for axis in sorted(int(axis) + count * (axis < 0) for axis in (axes if axes is not None else ())):
        if not 1 <= axis < count:
            raise ValueError(f"it adds axis {axis}; the batch must stay the first axis")
        sizes.insert(axis - 1, 1)
    _to_sizes(reader, node, sizes)


def _axes_of(reader: GraphReader, node: Any, known: dict[str, Any]) -> Any:
    """Axes from an attribute, or from the second input as newer versions have it."""
    second = reader.constant(node, 1)
    return known["axes"] if second is None else second


def _transpose(reader: GraphReader, node: Any) -> None:
    order = attributes(node, perm=[*range(len(reader.shape(node.input[0])), -1, -1)])["perm"]
    reader.add(node, "Transpose", [node.input[0]], order=[*order])


def _expand(reader: GraphReader, node: Any) -> None:
    attributes(node)
    shape, target = reader.shape(node.input[0]), [int(size) for size in reader.due(node, 1)]
    if len(target) != len(shape) + 1 or target[0] not in (BATCH, 1, reader.batch):
        raise ValueError(f"it repeats to {shown(target)}; the first axis must stay the batch")
    sizes = [max(size, wanted) for size, wanted in zip(shape, target[1:], strict=True)]
    reader.add(node, "Expand", [node.input[0]], sizes=sizes)


def _pool(reader: GraphReader, node: Any) -> None:
    known = attributes(node, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=[1, 1], kernel_shape=[],
                        pads=None, storage_order=0, strides=[1, 1])  # fmt: skip
    if known["ceil_mode"] or [*known["dilations"]] != [1, 1]:
        raise ValueError("its ceil_mode or dilations are not read here")
    source, pads = _padded(reader, node, known, [*known["kernel_shape"]], [1, 1])
    entries = {"kernel": [*known["kernel_shape"]], "strides": [*known["strides"]], "pads": pads}
    counted = {"count_include_pad": True} if known["count_include_pad"] else {}
    reader.add(node, "Pool", [source], function=node.op_type, **entries, **counted)


def _global_pool(reader: GraphReader, node: Any) -> None:
    attributes(node)
    function = "ReduceMean" if node.op_type == "GlobalAveragePool" else "ReduceMax"
    axes = [*range(2, len(reader.shape(node.input[0])) + 1)]
    reader.add(node, "Reduce", [node.input[0]], function=function, axes=axes)


def _reduce(reader: GraphReader, node: Any) -> None:
    known = attributes(node, axes=None, keepdims=1, noop_with_empty_axes=0)
    axes = _axes_of(reader, node, known)
    if axes is None:
        raise ValueError("it reduces all axes, those of the batch too")
    names = {"function": node.op_type, "axes": reader.axes(axes, node.input[0]), "keepdims": bool(known["keepdims"])}
    reader.add(node, "Reduce", [node.input[0]], **names)


def _pad(reader: GraphReader, node: Any) -> None:
    known = attributes(node, mode="constant", pads=None, value=0.0)
    second, third = reader.constant(node, 1), reader.constant(node, 2)
    pads = [int(size) for size in (known["pads"] if second is None else second)]
    value = float(known["value"] if third is None else third.reshape(()))
    count = len(reader.shape(node.input[0])) + 1
    if known["mode"] != "constant" or reader.constant(node, 3) is not None or len(pads) != 2 * count:
        raise ValueError("only a constant around all axes is read")
    if pads[0] or pads[count]:
        raise ValueError("it pads the batch")
    sides = [pads[side] for axis in range(1, count) for side in (axis, axis + count)]
    reader.add(node, "Pad", [node.input[0]], pads=sides, value=value)


def _slice(reader: GraphReader, node: Any) -> None:
    known = attributes(node, starts=None, ends=None, axes=None)
    starts, ends, axes, steps = (reader.constant(node, place) for place in range(1, 5))
    starts = np.atleast_1d(known["starts"] if starts is None else starts)
    ends = np.atleast_1d(known["ends"] if ends is None else ends)
    named = known["axes"] if axes is None else axes
    places = reader.axes(np.arange(len(starts)) if named is None else named, node.input[0])
    every = [1] * len(starts) if steps is None else [int(step) for step in steps]
    if not len(starts) == len(ends) == len(places) == len(every):
        raise ValueError("its starts, ends, axes and steps are not equally many")
    value = reader.number(node.input[0])
    for axis, start, end, step in zip(places, starts, ends, every, strict=True):
        if step < 1:
            raise ValueError(f"its step is {step}; only 1 and more is read")
        start, end, _ = slice(int(start), int(end)).indices(reader.results[value].shape[axis])
        value = reader.add(node, "Slice", [value], axis=axis, start=start, end=end, step=step)


def _gather(reader: GraphReader, node: Any) -> None:
    """A few places of an axis, such as the colours in another order."""
    (axis,) = reader.axes(attributes(node, axis=0)["axis"], node.input[0])
    places, shape = reader.due(node, 1), reader.shape(node.input[0])
    if places.ndim > 1 or not 1 <= places.size <= _MOST_PLACES:
        raise ValueError(f"it takes {places.size} places of an axis; 1 to {_MOST_PLACES}, in one row, are read")
    starts = [place + shape[axis - 1] * (place < 0) for place in map(int, np.atleast_1d(places))]
    parts: list[str | int] = [
        reader.add(node, "Slice", [node.input[0]], axis=axis, start=start, end=start + 1) for start in starts
    ]
    if places.ndim:
        reader.add(node, "Concat", parts, axis=axis)
    else:
        reader.add(node, "Reshape", parts, sizes=[size for place, size in enumerate(shape, 1) if place != axis])


def _concat(reader: GraphReader, node: Any) -> None:
    (axis,) = reader.axes(attributes(node, axis=1)["axis"], node.input[0])
    reader.add(node, "Concat", [*node.input], axis=axis)


def _dropout(reader: GraphReader, node: Any) -> None:
    known = attributes(node, ratio=0.5, seed=0)
    ratio, training = reader.constant(node, 1), reader.constant(node, 2)
    if training is not None and training.any():
        raise ValueError("it drops in evaluation too; export the graph in evaluation mode")
    share = float(known["ratio"] if ratio is None else ratio.reshape(()))
    reader.add(node, "Dropout", [node.input[0]], ratio=share)


def _same(reader: GraphReader, node: Any) -> None:
    if node.op_type == "Cast" and attributes(node, to=1, saturate=1)["to"] not in _FLOATS:
        raise ValueError("it makes whole numbers, through which no gradient goes")
    reader.values[node.output[0]] = reader.number(node.input[0])


def _shape(reader: GraphReader, node: Any) -> None:
    known = attributes(node, start=0, end=None)
    sizes = [BATCH, *reader.shape(node.input[0])][slice(known["start"], known["end"])]
    reader.constants[node.output[0]] = np.array(sizes, np.int64)


READERS: dict[str, Callable[[GraphReader, Any], None]] = {
    **{"Conv": _conv, "Gemm": _gemm, "MatMul": _matmul, "BatchNormalization": _batch_norm, "PRelu": _prelu},
    **dict.fromkeys(("Relu", "Sigmoid", "Tanh", "HardSwish", "Sqrt", "Abs", "Neg"), _function),
    **{"LeakyRelu": _leaky_relu, "HardSigmoid": _hard_sigmoid, "Clip": _clip, "Dropout": _dropout},
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"), _arithmetic),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    **dict.fromkeys(("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"), _reduce),
    **{"Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze, "Expand": _expand},
    **{"Transpose": _transpose, "Pad": _pad, "Slice": _slice, "Concat": _concat, "Gather": _gather},
    **{"Identity": _same, "Cast": _same, "Shape": _shape},
}
