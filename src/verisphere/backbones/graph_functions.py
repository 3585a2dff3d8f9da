"""Operators of a `GraphNetwork` without weights; see `verisphere.backbones.graph_operator`."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from verisphere.backbones.graph_operator import BATCH, LARGEST_WHOLE_NUMBER, Computed, OnnxReader, check_sizes
from verisphere.files.json_values import shown

Sizes: TypeAlias = tuple[int, ...]

_MOST_PLACES = 64  # places of an axis that are selected one by one
_FLOATS = (1, 10, 11)  # float32, float16, float64

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "Relu": F.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "HardSwish": F.hardswish,
    "Sqrt": torch.sqrt,
    "Abs": torch.abs,
    "Neg": torch.neg,
}


def Function(function: Literal["Relu", "Sigmoid", "Tanh", "HardSwish", "Sqrt", "Abs", "Neg"]) -> Computed:
    """A function of ONNX, by its name, that is applied to each number."""
    return Computed(_FUNCTIONS[function])


def _read_function(graph: OnnxReader) -> None:
    """A function has no attributes."""
    graph.attributes()
    graph.add(Function, function=graph.kind)


def LeakyRelu(slope: float = 0.01) -> Computed:
    """x, or a fixed slope times x where x is negative."""
    return Computed(lambda x: F.leaky_relu(x, slope))


def _read_leaky_relu(graph: OnnxReader) -> None:
    """ONNX's name of the slope is alpha."""
    graph.add(LeakyRelu, slope=graph.attributes(alpha=0.01)["alpha"])


def HardSigmoid(alpha: float = 0.2, beta: float = 0.5) -> Computed:
    """alpha x + beta, within 0 and 1."""
    return Computed(lambda x: (alpha * x + beta).clamp(0, 1))


def _read_hard_sigmoid(graph: OnnxReader) -> None:
    """The attributes are those of ONNX."""
    known = graph.attributes(alpha=0.2, beta=0.5)
    graph.add(HardSigmoid, alpha=known["alpha"], beta=known["beta"])


def Clip(low: float | None = None, high: float | None = None) -> Computed:
    """x, within bounds; None for no bound."""
    if low is None and high is None:
        raise ValueError("neither low nor high is given; one of them bounds a number")
    return Computed(lambda x: x.clamp(low, high))


def _read_clip(graph: OnnxReader) -> None:
    """Infinite bounds are none."""
    known = graph.attributes(min=None, max=None)
    given = {"low": graph.given(1, known["min"]), "high": graph.given(2, known["max"])}
    bounds = {name: float(np.reshape(bound, ())) for name, bound in given.items() if bound is not None}
    bounds = {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
    if bounds:
        graph.add(Clip, low=bounds.get("low"), high=bounds.get("high"))
    else:
        graph.same()


def Pool(
    function: Literal["AveragePool", "MaxPool"],
    kernel: Sizes,
    strides: Sizes = (1, 1),
    pads: Sizes = (0, 0),
    count_include_pad: bool = False,
) -> Computed:
    """The mean or the maximum of each window; kernel, strides, pads (on either side) are vertical, then horizontal."""
    check_sizes("kernel", kernel, 2)
    check_sizes("strides", strides, 2)
    check_sizes("pads", pads, 2, least=0)
    if function == "MaxPool":
        return Computed(lambda x: F.max_pool2d(x, kernel, strides, pads))
    return Computed(lambda x: F.avg_pool2d(x, kernel, strides, pads, False, count_include_pad))


def _read_pool(graph: OnnxReader) -> None:
    """Pads must be the same on both sides."""
    known = graph.attributes(
        auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=[1, 1], kernel_shape=[], pads=None,
        storage_order=0, strides=[1, 1],
    )  # fmt: skip
    if known["ceil_mode"] or [*known["dilations"]] != [1, 1]:
        raise ValueError("its ceil_mode or dilations are not read here")
    kernel, strides, counted = known["kernel_shape"], known["strides"], bool(known["count_include_pad"])
    pads, after = window_pads(graph, known, kernel)
    if pads != after:
        raise ValueError("its pads differ between two sides, which is not read here")
    graph.add(Pool, function=graph.kind, kernel=kernel, strides=strides, pads=pads, count_include_pad=counted)


def window_pads(graph: OnnxReader, known: dict[str, Any], kernel: Sequence[int]) -> tuple[list[int], list[int]]:
    """Pads before and after the rows and the columns, of the current node, whose windows have this kernel."""
    before, after = [0, 0], [0, 0]
    if known["auto_pad"] in ("SAME_UPPER", "SAME_LOWER"):
        for axis, (size, stride) in enumerate(zip(graph.shape[1:], known["strides"], strict=True)):
            reach = (kernel[axis] - 1) * known["dilations"][axis] + 1
            total = max((math.ceil(size / stride) - 1) * stride + reach - size, 0)
            few, many = total // 2, total - total // 2
            before[axis], after[axis] = (few, many) if known["auto_pad"] == "SAME_UPPER" else (many, few)
    elif known["auto_pad"] == "NOTSET" and known["pads"]:
        before, after = [*known["pads"][:2]], [*known["pads"][2:]]
    elif known["auto_pad"] not in ("NOTSET", "VALID"):
        raise ValueError(f"its auto_pad is {shown(known['auto_pad'])}")
    return before, after


_REDUCTIONS: dict[str, Callable[..., Tensor]] = {
    "ReduceMean": torch.mean,
    "ReduceSum": torch.sum,
    "ReduceMax": torch.amax,
    "ReduceL2": torch.linalg.vector_norm,
}
_GLOBAL = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}


def Reduce(
    function: Literal["ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2"], axes: Sizes, keepdims: bool = True
) -> Computed:
    """Reduces all numbers along some axes to one number; axes are counted from 1, since axis 0 is the batch."""
    check_sizes("axes", axes)
    if not axes:
        raise ValueError("axes is empty; name at least one")
    return Computed(lambda x: _REDUCTIONS[function](x, dim=axes, keepdim=keepdims))


def _read_reduce(graph: OnnxReader) -> None:
    """The pooling of a whole image reduces all axes but those of the batch and the channels."""
    if graph.kind in _GLOBAL:
        graph.attributes()
        graph.add(Reduce, function=_GLOBAL[graph.kind], axes=[*range(2, len(graph.shape) + 1)])
        return
    known = graph.attributes(axes=None, keepdims=1, noop_with_empty_axes=0)
    axes = graph.given(1, known["axes"])
    if axes is None:
        raise ValueError("it reduces all axes, those of the batch too")
    graph.add(Reduce, function=graph.kind, axes=graph.axes(axes), keepdims=bool(known["keepdims"]))


def Reshape(sizes: Sizes) -> Computed:
    """The same numbers in axes of other lengths, the batch excluded; those of an image stay together."""
    check_sizes("sizes", sizes)
    return Computed(lambda x: x.reshape(x.shape[0], *sizes))


def _read_reshape(graph: OnnxReader) -> None:
    """The sizes are those of ONNX's result; the numbers of an image stay together."""
    sizes = _RESHAPED[graph.kind](graph)
    total = math.prod(graph.shape)
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        sizes = [total // max(rest, 1) if size == -1 else size for size in sizes]
    if math.prod(sizes) != total:
        raise ValueError(f"it reshapes {total} numbers of an image to {shown(sizes)}")
    graph.add(Reshape, sizes=sizes)


def _reshaped(graph: OnnxReader) -> list[int]:
    known, shape = graph.attributes(allowzero=0), (BATCH, *graph.shape)
    target = [int(size) for size in graph.due(1)]
    sizes = [shape[place] if size == 0 and not known["allowzero"] else size for place, size in enumerate(target)]
    if not sizes or sizes[0] not in (BATCH, -1, graph.batch) or BATCH in sizes[1:]:
        raise ValueError(f"it reshapes to {shown(target)}; the first axis must stay the batch")
    return sizes[1:]


def _flattened(graph: OnnxReader) -> list[int]:
    if graph.attributes(axis=1)["axis"] != 1:
        raise ValueError("its axis is not 1; the batch must stay the first axis")
    return [-1]


def _squeezed(graph: OnnxReader) -> list[int]:
    axes, shape = graph.given(1, graph.attributes(axes=None)["axes"]), graph.shape
    removed = [place for place, size in enumerate(shape, 1) if size == 1] if axes is None else graph.axes(axes)
    if any(shape[axis - 1] != 1 for axis in removed):
        raise ValueError(f"it removes axes {removed}, one of which has more than one place")
    return [size for place, size in enumerate(shape, 1) if place not in removed]


def _unsqueezed(graph: OnnxReader) -> list[int]:
    axes = [int(axis) for axis in np.atleast_1d(graph.given(1, graph.attributes(axes=())["axes"]))]
    sizes, count = [*graph.shape], len(graph.shape) + 1 + len(axes)
    for axis in sorted(axis + count * (axis < 0) for axis in axes):
        if not 1 <= axis < count:
            raise ValueError(f"it adds axis {axis}; the batch must stay the first axis")
        sizes.insert(axis - 1, 1)
    return sizes


_RESHAPED = {"Reshape": _reshaped, "Flatten": _flattened, "Squeeze": _squeezed, "Unsqueeze": _unsqueezed}


def Expand(sizes: Sizes) -> Computed:
    """Repeats axes of size 1, up to lengths of all axes but the batch."""
    check_sizes("sizes", sizes)
    return Computed(lambda x: x.expand(x.shape[0], *sizes))


def _read_expand(graph: OnnxReader) -> None:
    """ONNX's sizes may be smaller than those of the input."""
    graph.attributes()
    shape, target = graph.shape, [int(size) for size in graph.due(1)]
    if len(target) != len(shape) + 1 or target[0] not in (BATCH, 1, graph.batch):
        raise ValueError(f"it repeats to {shown(target)}; the first axis must stay the batch")
    graph.add(Expand, sizes=[max(size, wanted) for size, wanted in zip(shape, target[1:], strict=True)])


def Transpose(order: Sizes) -> Computed:
    """Axes in another order: for each axis of the result, its number in the input; the batch stays first."""
    if sorted(order) != [*range(len(order))] or order[:1] != (0,):
        raise ValueError(f"order is {shown(order)}; it holds each axis once, 0 first")
    return Computed(lambda x: x.permute(order))


def _read_transpose(graph: OnnxReader) -> None:
    """ONNX's name of the order is perm."""
    graph.add(Transpose, order=graph.attributes(perm=[*range(len(graph.shape), -1, -1)])["perm"])


def Pad(pads: Sizes, value: float = 0.0) -> Computed:
    """A constant around the numbers.

    Pads are numbers of constants before and after, for each axis but the batch, from the second axis to the last.
    """
    check_sizes("pads", pads, least=0)
    if len(pads) % 2:
        raise ValueError(f"pads has {len(pads)} numbers; each axis takes two")
    # PyTorch begins with the last axis
    backwards = [pads[side] for axis in reversed(range(0, len(pads), 2)) for side in (axis, axis + 1)]
    return Computed(lambda x: F.pad(x, backwards, value=value))


def _read_pad(graph: OnnxReader) -> None:
    """ONNX names the pads before all axes, and then those after."""
    known = graph.attributes(mode="constant", pads=None, value=0.0)
    pads = [int(size) for size in graph.given(1, known["pads"])]
    value = float(np.reshape(graph.given(2, known["value"]), ()))
    count = len(graph.shape) + 1
    if known["mode"] != "constant" or graph.constant(3) is not None or len(pads) != 2 * count:
        raise ValueError("only a constant around all axes is read")
    if pads[0] or pads[count]:
        raise ValueError("it pads the batch")
    graph.add(Pad, pads=[pads[side] for axis in range(1, count) for side in (axis, axis + count)], value=value)


def Slice(axis: int, start: int, end: int, step: int = 1) -> Computed:
    """A part of an axis, from `start` to before `end`; axes are counted from 1, since axis 0 is the batch."""
    check_sizes("axis and step", (axis, step))
    if not 0 <= start < end <= LARGEST_WHOLE_NUMBER:
        raise ValueError(f"start is {start} and end {end}; a part of an axis holds something")

    def compute(x: Tensor) -> Tensor:
        if end > x.shape[axis]:
            raise ValueError(f"end is {end}, but axis {axis} has {x.shape[axis]} places")
        return x[(*[slice(None)] * axis, slice(start, end, step))]

    return Computed(compute)


def _read_slice(graph: OnnxReader) -> None:
    """Each axis is cut by an operator of its own."""
    known = graph.attributes(starts=None, ends=None, axes=None)
    starts, ends = (np.atleast_1d(graph.given(place, known[name])) for place, name in ((1, "starts"), (2, "ends")))
    axes = graph.axes(graph.given(3, np.arange(len(starts)) if known["axes"] is None else known["axes"]))
    steps = [int(step) for step in graph.given(4, [1] * len(starts))]
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError("its starts, ends, axes and steps are not equally many")
    value = graph.first
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 1:
            raise ValueError(f"its step is {step}; only 1 and more is read")
        start, end, _ = slice(int(start), int(end)).indices(graph.results[value].shape[axis])
        value = graph.add(Slice, None, [value], axis=axis, start=start, end=end, step=step)


def Concat(axis: int) -> Computed:
    """Values one after the other along an axis, from 1; axis 0 is the batch."""
    check_sizes("axis", (axis,))
    return Computed(lambda *values: torch.cat(values, axis), arity=None)


def _read_concat(graph: OnnxReader) -> None:
    """A gather of a few places of an axis, such as the colours in another order, joins a part for each."""
    gathered = graph.kind == "Gather"
    (axis,) = graph.axes(graph.attributes(axis=0 if gathered else 1)["axis"])
    if not gathered:
        graph.add(Concat, None, [graph.number(name) for name in graph.node.input], axis=axis)
        return
    places, shape = graph.due(1), graph.shape
    if places.ndim > 1 or not 1 <= places.size <= _MOST_PLACES:
        raise ValueError(f"it takes {places.size} places of an axis; 1 to {_MOST_PLACES}, in one row, are read")
    image, size = graph.first, shape[axis - 1]
    starts = [place + size * (place < 0) for place in map(int, np.atleast_1d(places))]
    parts = [graph.add(Slice, None, [image], axis=axis, start=start, end=start + 1) for start in starts]
    if places.ndim:
        graph.add(Concat, None, parts, axis=axis)
    else:
        graph.add(Reshape, None, parts, sizes=[*shape[: axis - 1], *shape[axis:]])


def _read_same(graph: OnnxReader) -> None:
    """Identity, and Cast from one kind of fractions to another."""
    if graph.kind == "Cast" and graph.attributes(to=1, saturate=1)["to"] not in _FLOATS:
        raise ValueError("it makes whole numbers, through which no gradient goes")
    graph.same()


def _read_shape(graph: OnnxReader) -> None:
    """Shape, whose result is a constant but for the number of images."""
    known = graph.attributes(start=0, end=None)
    sizes = [BATCH, *graph.shape][slice(known["start"], known["end"])]
    graph.constants[graph.node.output[0]] = np.array(sizes, np.int64)


FUNCTIONS = (Clip, Concat, Expand, Function, HardSigmoid, LeakyRelu, Pad, Pool, Reduce, Reshape, Slice, Transpose)
#: What reads the nodes of an ONNX graph, by the names of their operators.
FUNCTION_READERS: dict[str, Callable[[OnnxReader], None]] = {
    **dict.fromkeys(_FUNCTIONS, _read_function),
    **{"LeakyRelu": _read_leaky_relu, "HardSigmoid": _read_hard_sigmoid, "Clip": _read_clip, "Expand": _read_expand},
    **dict.fromkeys(("AveragePool", "MaxPool"), _read_pool),
    **dict.fromkeys((*_REDUCTIONS, *_GLOBAL), _read_reduce),
    **dict.fromkeys(_RESHAPED, _read_reshape),
    **{"Transpose": _read_transpose, "Pad": _read_pad, "Slice": _read_slice, "Concat": _read_concat},
    **{"Gather": _read_concat, "Identity": _read_same, "Cast": _read_same, "Shape": _read_shape},
}
