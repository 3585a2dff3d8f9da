"""Operators of a `GraphNetwork` that have weights; see `verisphere.backbones.graph_operator`."""

import math
import operator
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from verisphere.backbones.graph_functions import Clip, Pad, Sizes, window_pads
from verisphere.backbones.graph_operator import BATCH, Computed, OnnxReader, check_sizes


def Conv(
    weight: Sizes,
    bias: bool = False,
    strides: Sizes = (1, 1),
    pads: Sizes = (0, 0),
    dilations: Sizes = (1, 1),
    group: int = 1,
) -> nn.Module:
    """Cross-correlation of images; strides, dilations, and pads on either side are vertical, then horizontal.

    The sizes of the filters are outputs, inputs of a group, height, width.
    """
    check_sizes("weight", weight, 4)
    check_sizes("strides", strides, 2)
    check_sizes("pads", pads, 2, least=0)
    check_sizes("dilations", dilations, 2)
    outputs, inputs, height, width = weight
    if group < 1 or outputs % group:
        raise ValueError(f"group is {group}; it must divide the {outputs} outputs")
    windows: Any = {"kernel_size": (height, width), "stride": strides, "padding": pads, "dilation": dilations}
    return nn.Conv2d(inputs * group, outputs, **windows, groups=group, bias=bias)


def _read_conv(graph: OnnxReader) -> None:
    """If the pads of two sides differ, a separate operator pads before the convolution."""
    known = graph.attributes(auto_pad="NOTSET", dilations=[1, 1], group=1, kernel_shape=None, pads=None, strides=[1, 1])
    weight, bias = graph.due(1), graph.constant(2)
    if weight.ndim != 4:
        raise ValueError(f"its filters have {weight.ndim} axes; images are convolved with filters of 4")
    before, after = window_pads(graph, known, weight.shape[2:])
    source, pads = graph.first, before
    if before != after:
        sides = [0, 0, before[0], after[0], before[1], after[1]]
        source, pads = graph.add(Pad, pads=sides), [0, 0]
    taken = {name: known[name] for name in ("strides", "dilations", "group")}
    arrays = {"weight": weight, "bias": bias}
    graph.add(Conv, arrays, [source], weight=weight.shape, bias=bias is not None, pads=pads, **taken)


def Gemm(weight: Sizes, bias: bool = False) -> nn.Module:
    """A matrix times the last axis; its sizes are the numbers of outputs and of inputs."""
    check_sizes("weight", weight, 2)
    outputs, inputs = weight
    return nn.Linear(inputs, outputs, bias)


def _read_gemm(graph: OnnxReader) -> None:
    """The factors become a part of the weights."""
    known: dict[str, Any] = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    known |= graph.attributes(**(known if graph.kind == "Gemm" else {}))
    matrix, bias = graph.due(1), graph.constant(2)
    if known["transA"] or matrix.ndim != 2:
        raise ValueError(f"it is no product of an embedding and a matrix; its constant has {matrix.ndim} axes")
    weight = known["alpha"] * (matrix if known["transB"] else matrix.T).astype(np.float32)
    if bias is not None:
        if bias.size not in (1, len(weight)) or (bias.size > 1 and bias.shape[-1] != len(weight)):
            raise ValueError(f"what it adds has the shape {[*bias.shape]}; a number for each column is due, or one")
        bias = known["beta"] * np.broadcast_to(bias.astype(np.float32).reshape(-1), len(weight))
    graph.add(Gemm, {"weight": weight, "bias": bias}, weight=weight.shape, bias=bias is not None)


def BatchNormalization(channels: int, axes: int = 4, epsilon: float = 1e-5, momentum: float = 0.1) -> nn.Module:
    """Batch norm of PyTorch, which `sync_batch_norm` can replace; running statistics are used in evaluation.

    `axes` counts those of the input, including the batch. Momentum is the share of a batch in the new running
    statistics, as in PyTorch; in ONNX it is the share of the old.
    """
    check_sizes("channels", (channels,))
    if axes not in (2, 3, 4):
        raise ValueError(f"axes is {axes}; batch norm takes 2, 3 or 4")
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum is {momentum}; it is a share, from 0 to 1")
    if epsilon < 0:
        raise ValueError(f"epsilon is {epsilon}; a variance cannot become negative")
    kind = nn.BatchNorm2d if axes == 4 else nn.BatchNorm1d
    return kind(channels, epsilon, momentum)


def _read_batch_norm(graph: OnnxReader) -> None:
    """Only batch norm in evaluation mode is read."""
    known = graph.attributes(epsilon=1e-5, momentum=0.9, spatial=1, training_mode=0)
    if known["training_mode"] or not known["spatial"]:
        raise ValueError(
            "it normalises by the images of the batch, as in training; export the graph in evaluation mode"
        )
    names = ("weight", "bias", "running_mean", "running_var")
    arrays = {name: graph.due(place) for place, name in enumerate(names, start=1)}
    settings: dict[str, Any] = {"epsilon": float(known["epsilon"]), "momentum": round(1 - float(known["momentum"]), 6)}
    graph.add(BatchNormalization, arrays, channels=arrays["weight"].size, axes=len(graph.shape) + 1, **settings)


def PRelu(slopes: int) -> nn.Module:
    """x, or a trained slope times x where x is negative; there is one slope, or one a channel."""
    check_sizes("slopes", (slopes,))
    return nn.PReLU(slopes)


def _read_prelu(graph: OnnxReader) -> None:
    """Slopes of single pixels are refused."""
    graph.attributes()
    slopes, shape = graph.due(1), graph.shape
    a_channel = (slopes.size, *[1] * (len(shape) - 1))
    if slopes.size > 1 and (slopes.size != shape[0] or slopes.shape[-len(shape) :] != a_channel):
        raise ValueError(f"its slopes have shape {slopes.shape}; one, or one a channel, is read")
    graph.add(PRelu, {"weight": slopes}, slopes=slopes.size)


def Dropout(ratio: float = 0.5) -> nn.Module:
    """In training, zeros in random places, `ratio` of all; the identity in evaluation."""
    if not 0 <= ratio < 1:
        raise ValueError(f"ratio is {ratio}; it must be in [0, 1)")
    return nn.Dropout(ratio)


def _read_dropout(graph: OnnxReader) -> None:
    """Dropout that drops in evaluation too is refused."""
    known, training = graph.attributes(ratio=0.5, seed=0), graph.constant(2)
    if training is not None and training.any():
        raise ValueError("it drops in evaluation too; export the graph in evaluation mode")
    graph.add(Dropout, ratio=float(np.reshape(graph.given(1, known["ratio"]), ())))


_ARITHMETIC: dict[str, Callable[[Any, Any], Tensor]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "Max": torch.maximum,
    "Min": torch.minimum,
}


def Arithmetic(
    function: Literal["Add", "Sub", "Mul", "Div", "Pow", "Max", "Min"],
    constant: float | None = None,
    sizes: Sizes | None = None,
    constant_first: bool = False,
    trained: bool = False,
) -> nn.Module:
    """Two values, broadcast to each other; one of them can be a constant.

    Args:
        sizes: sizes of the other value, if that is an array, whose numbers are among the weights.
        constant_first: whether the constant stands to the left, as in 1 - x.
        trained: whether the array is trained, as the bias of the layer before is.
    """
    if constant is not None and sizes is not None:
        raise ValueError("constant and sizes are given; a constant is one number or an array")
    if constant is not None and function in ("Max", "Min"):
        raise ValueError(f"{function} with one number; Clip does that")
    if sizes is None and trained:
        raise ValueError("trained, but without sizes; an array is trained")

    def compute(first: Tensor, second: Any = constant) -> Tensor:
        return _ARITHMETIC[function](*((second, first) if constant_first else (first, second)))

    if sizes is None:
        return Computed(compute, arity=2 if constant is None else 1)
    check_sizes("sizes", sizes)
    # initial values change nothing; one axis, so that the optimizer gives a bias no weight decay
    start = torch.full((math.prod(sizes),), 0.0 if function in ("Add", "Sub") else 1.0)
    return _WithArray(compute, sizes, start, trained)


class _WithArray(Computed):
    """An operation with a constant array."""

    def __init__(self, function: Callable[..., Tensor], sizes: Sizes, start: Tensor, trained: bool) -> None:
        super().__init__(function)
        self.sizes = sizes
        if trained:
            self.constant: Tensor = nn.Parameter(start)
        else:
            self.register_buffer("constant", start)

    def forward(self, *values: Tensor) -> Tensor:
        return self.function(*values, self.constant.view(self.sizes))


def _read_arithmetic(graph: OnnxReader) -> None:
    """A constant of one number becomes an attribute, and an array a part of the weights."""
    graph.attributes()
    if len(graph.node.input) != 2:
        raise ValueError(f"it has {len(graph.node.input)} inputs; 2 are read")
    value, other = graph.node.input
    constant_first = value in graph.constants
    if constant_first:
        value, other = other, value
    place, given = graph.number(value), {"function": graph.kind}
    if other not in graph.constants:
        graph.add(Arithmetic, None, [place, graph.number(other)], **given)
        return
    array, axes = graph.constants[other], graph.results[place].ndim
    if np.any(array == BATCH):
        raise ValueError("it computes with the number of images")
    if array.ndim > axes or (array.size > 1 and array.ndim == axes and array.shape[0] != 1):
        raise ValueError(f"its constant has shape {array.shape}, which is more than one image")
    if array.size != 1:
        sizes = array.shape[1:] if array.ndim == axes else array.shape
        trained = graph.kind == "Add" and _without_bias(graph, place)
        named: dict[str, Any] = {"sizes": sizes, "constant_first": constant_first, "trained": trained}
        graph.add(Arithmetic, {"constant": array}, [place], **given, **named)
    elif graph.kind in ("Max", "Min"):
        graph.add(Clip, None, [place], **{"low" if graph.kind == "Max" else "high": float(array.reshape(()))})
    else:
        number = float(array.reshape(()))
        graph.add(Arithmetic, None, [place], **given, constant=number, constant_first=constant_first)


def _without_bias(graph: OnnxReader, place: int) -> bool:
    """Whether a value is the result of a layer whose bias may be added after it."""
    entry = graph.operators[place - 1] if place else {}
    return entry.get("operator") in ("Conv", "Gemm") and not entry.get("bias")


LAYERS = (Arithmetic, BatchNormalization, Conv, Dropout, Gemm, PRelu)
#: What reads the nodes of an ONNX graph, by the names of their operators.
LAYER_READERS: dict[str, Callable[[OnnxReader], None]] = {
    **{"Conv": _read_conv, "Gemm": _read_gemm, "MatMul": _read_gemm, "BatchNormalization": _read_batch_norm},
    **{"PRelu": _read_prelu, "Dropout": _read_dropout, **dict.fromkeys(_ARITHMETIC, _read_arithmetic)},
}
