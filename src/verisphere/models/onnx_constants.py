"""The parts of an ONNX graph that depend only on constants and shapes, computed once, within limits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verisphere.backbones.onnx_network import first_line
from verisphere.files.json_values import shown
from verisphere.models.graph_reader import BATCH, attributes

_LARGEST = 4096  # numbers in a computation; weights are only moved
_INTEGERS, _FLOATS = (6, 7), {1: np.float32, 10: np.float16, 11: np.float64}


def array_of(tensor: Any) -> np.ndarray:
    """The numbers of a constant."""
    from onnx import numpy_helper

    try:
        array = numpy_helper.to_array(tensor)
    except Exception as error:  # any error that numbers in the file can cause
        raise ValueError(f"its weights {shown(tensor.name)} cannot be read: {first_line(error)}") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"its weights {shown(tensor.name)} are {array.dtype}, which are no numbers")
    return array


def worked_out(node: Any, arrays: Sequence[np.ndarray | None]) -> np.ndarray:
    """The first output of a node.

    Args:
        node: a node with a name in `CONSTANTS`.
        arrays: inputs of the node; None for a missing one.
    """
    if node.op_type not in _MOVED and any(array is not None and array.size > _LARGEST for array in arrays):
        raise ValueError(f"it computes with constants of more than {_LARGEST:,} numbers")
    return CONSTANTS[node.op_type](node, *arrays)


def _constant(node: Any) -> np.ndarray:
    known = attributes(node, value=None, value_float=None, value_floats=None, value_int=None, value_ints=None)
    if known["value"] is not None:
        return array_of(known["value"])
    number = next((value for value in known.values() if value is not None), None)
    if number is None:
        raise ValueError("it holds no numbers")
    return np.array(number, np.float32 if known["value_ints"] is None and known["value_int"] is None else np.int64)


def _cast(node: Any, array: np.ndarray) -> np.ndarray:
    to = attributes(node, to=1, saturate=1)["to"]
    if to in _INTEGERS:
        return array.astype(np.int64)
    if to not in _FLOATS:
        raise ValueError(f"it makes numbers of kind {to}")
    return _without_batch(array).astype(_FLOATS[to])


def _without_batch(array: np.ndarray) -> np.ndarray:
    if np.any(array == BATCH):
        raise ValueError("it computes with the number of images")
    return array


def _gather(node: Any, array: np.ndarray, places: np.ndarray) -> np.ndarray:
    return np.asarray(np.take(array, places.astype(np.int64), attributes(node, axis=0)["axis"]))


def _concat(node: Any, *arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays, attributes(node, axis=0)["axis"])


def _reshape(node: Any, array: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    if attributes(node, allowzero=0)["allowzero"]:
        return array.reshape([int(size) for size in sizes])
    return array.reshape([int(size) or array.shape[place] for place, size in enumerate(sizes)])  # 0 keeps a size


def _transpose(node: Any, array: np.ndarray) -> np.ndarray:
    return array.transpose(attributes(node, perm=None)["perm"])


def _axes(node: Any, second: np.ndarray | None) -> tuple[int, ...] | None:
    axes = attributes(node, axes=None)["axes"] if second is None else second
    return None if axes is None else tuple(int(axis) for axis in np.atleast_1d(axes))


def _unsqueeze(node: Any, array: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
    return np.expand_dims(array, _axes(node, second) or ())


def _squeeze(node: Any, array: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
    return array.squeeze(_axes(node, second))


def _slice(node: Any, array: np.ndarray, *places: np.ndarray | None) -> np.ndarray:
    known = attributes(node, starts=None, ends=None, axes=None)
    given: list[Any] = [*places, *[None] * (4 - len(places))]
    named = [known["starts"], known["ends"], known["axes"], None]
    starts, ends, axes, steps = (other if value is None else value for value, other in zip(given, named, strict=True))
    cut = [slice(None)] * array.ndim
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        axis = place if axes is None else int(axes[place])
        cut[axis] = slice(int(start), int(end), 1 if steps is None else int(steps[place]))
    return array[tuple(cut)]


def _arithmetic(node: Any, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    attributes(node)
    return np.asarray(_ARITHMETIC[node.op_type](_without_batch(first), _without_batch(second)))


def _divided(first: np.ndarray, second: np.ndarray) -> Any:
    if (second == 0).any():
        raise ValueError("it divides by 0")
    whole = first.dtype.kind in "iu"
    return np.trunc(first / second).astype(first.dtype) if whole else first / second  # toward 0, unlike NumPy's //


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _divided,
}
_MOVED = ("Constant", "Identity", "Cast", "Reshape", "Transpose")
CONSTANTS: dict[str, Callable[..., np.ndarray]] = {
    **{"Constant": _constant, "Identity": lambda _, array: array, "Cast": _cast, "Reshape": _reshape},
    **{"Transpose": _transpose, "Gather": _gather, "Concat": _concat, "Slice": _slice},
    **{"Unsqueeze": _unsqueeze, "Squeeze": _squeeze},
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
}
