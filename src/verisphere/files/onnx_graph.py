"""ONNX files: read whole and checked without running them, and sessions that run them (extra: export).

The behaviour of a graph shows only when it runs, which `verisphere.files.limited_run` does in a process with limits.
"""

import importlib.util
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from verisphere.base.words import install_extra
from verisphere.files.disk import check_file, read_file
from verisphere.files.json_values import shown

#: Bytes of an ONNX file; a protocol buffer ends at 2 GB.
LARGEST_ONNX = 2**31 - 1
#: Two names of the set of ONNX's own operators, and the sets that are built into onnxruntime.
OWN_OPERATORS = ("", "ai.onnx")
KNOWN_OPERATORS = (*OWN_OPERATORS, "com.microsoft")
_EXTERNAL = 1  # TensorProto.EXTERNAL
#: Letters of the name of an input or output.
LONGEST_NAME = 200
_FILES = ("EPContext",)  # operators that take a compiled network from another file


def read_graph(path: Path, sealed: bool = False) -> tuple[bytes, Any]:
    """An ONNX file from elsewhere, as one sequence of bytes and as onnx's ModelProto, after checks that run nothing.

    Weights in files beside the graph are copied into it, or refused where a digest covers the file (`sealed`).
    """
    require_onnx()
    import onnx

    check_file(path)
    content = read_file(path, LARGEST_ONNX)
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ValueError(f"{path}: not an ONNX file: {first_line(error)}") from None
    if not model.graph.node:
        raise ValueError(f"{path}: not an ONNX file: it holds no graph")
    try:
        _check_operators(model)
        beside = _take_in(model, path.parent, sealed)
        content = model.SerializeToString(deterministic=True) if beside else content
        check_weights(model, len(content))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return content, model


def _check_operators(model: Any) -> None:
    for node in model.graph.node:
        if node.domain not in KNOWN_OPERATORS:
            raise ValueError(f"it needs the operator {shown(node.op_type)} of {shown(node.domain)}, which runs code "
                             "of its own; only operators of ONNX and onnxruntime are taken")  # fmt: skip
        if node.op_type in _FILES:
            raise ValueError(f"it has the operator {shown(node.op_type)}, which runs a network out of another file")
        if any(attribute.HasField("sparse_tensor") or attribute.sparse_tensors for attribute in node.attribute):
            raise ValueError("it has sparse weights; those of a network here are dense")
    check_one_graph(model)


def check_one_graph(model: Any) -> None:
    """Refuse loops, branches and functions, which hold graphs of their own, and parts that are no network's."""
    for node in model.graph.node:
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise ValueError(f"it has the loop or branch {shown(node.op_type)}; a network here is one graph")
    if model.functions or model.graph.sparse_initializer or model.training_info:
        raise ValueError("it has functions, sparse weights or training steps; a network here is one graph")


def version_of(model: Any) -> int:
    """The version of ONNX's own operators; 0 if there is none."""
    return max((entry.version for entry in model.opset_import if entry.domain in OWN_OPERATORS), default=0)


def tensors_of(graph: Any) -> Iterator[Any]:
    """The weights of a graph, and the tensors among its attributes."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _take_in(model: Any, folder: Path, sealed: bool) -> bool:
    """Move weights from files beside the graph into it; returns whether there were any."""
    outside = [
        tensor for tensor in tensors_of(model.graph) if tensor.data_location == _EXTERNAL or tensor.external_data
    ]
    if sealed and outside:
        raise ValueError(f"its weights {shown(outside[0].name)} lie in another file, which no digest covers")
    held: dict[Path, bytes] = {}
    total = 0
    for tensor in outside:
        where = {entry.key: entry.value for entry in tensor.external_data}
        name = where.get("location", "")
        if name in ("", ".", "..") or Path(name).name != name:
            raise ValueError(
                f"its weights {shown(tensor.name)} lie in {shown(name)}; only files in the folder of the graph are read"
            )
        file = folder / name
        if file.is_symlink() or not file.is_file():
            raise FileNotFoundError(f"{file}: weights of {shown(tensor.name)} should lie there, in a regular file")
        if file not in held:
            held[file] = read_file(file, LARGEST_ONNX)
        try:
            offset, length = int(where.get("offset", 0)), int(where.get("length", len(held[file])))
        except ValueError:
            raise ValueError(f"the place of its weights {shown(tensor.name)} is no number") from None
        if offset < 0 or length < 0 or offset + length > len(held[file]):
            raise ValueError(f"its weights {shown(tensor.name)} reach past the end of {file.name}")
        total += length
        if total > LARGEST_ONNX - 2**24:
            raise ValueError("its weights take 2 GB or more, and one ONNX file holds less")
        tensor.raw_data = held[file][offset : offset + length]
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
    return bool(outside)


def check_weights(model: Any, length: int) -> None:
    """Refuse weights with more numbers than a file of this length holds."""
    for tensor in tensors_of(model.graph):
        # the smallest number types take four bits
        if any(size < 0 for size in tensor.dims) or prod(tensor.dims) > 2 * length:
            raise ValueError(
                f"its weights {shown(tensor.name)} are {list(tensor.dims)} numbers, more than the file holds"
            )


def only_input(graph: Any) -> Any:
    """The input of a graph that has one."""
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [end for end in graph.input if end.name not in weights]  # older files list weights among the inputs
    if len(inputs) != 1:
        raise ValueError(f"its inputs are {shown([end.name for end in inputs])}; one is allowed, the image")
    check_name("input", inputs[0].name)
    return inputs[0]


def check_name(what: str, name: str | bytes) -> None:
    """Refuse a name that cannot be passed on: bytes that are no text, or an empty, very long or unprintable name."""
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= LONGEST_NAME:
        raise ValueError(
            f"the name of its {what}, {shown(name)}, is no name of 1 to {LONGEST_NAME} letters that can be shown"
        )


def axes_of(end: Any) -> list[int | None]:
    """Sizes of the axes; None for an axis of open size."""
    return [axis.dim_value if axis.HasField("dim_value") and axis.dim_value > 0 else None
            for axis in end.type.tensor_type.shape.dim]  # fmt: skip


def axes_in_words(axes: list[int | None]) -> str:
    """Sizes of axes in words, such as `? x 3 x 112 x 112`."""
    return " x ".join("?" if axis is None else str(axis) for axis in axes) or "of no known shape"


def require_onnx(*further: str) -> None:
    """Check that the packages of the extra `export` that reading ONNX needs, and further ones, are installed."""
    missing = [one for one in ("onnx", *further, "onnxruntime") if importlib.util.find_spec(one) is None]
    if missing:
        raise ValueError(f"ONNX needs {' and '.join(missing)}, not installed here; {install_extra('export')}")


def open_session(content: bytes, file: Path) -> Any:
    """A session of onnxruntime on the CPU, whose runs take one thread each; several may run at a time."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its messages bypass our logging; failures are raised
    options.intra_op_num_threads = 1
    try:
        # the bytes that were checked, not the file, which could have been replaced since
        return onnxruntime.InferenceSession(
            content,
            options,
            providers=["CPUExecutionProvider"],
            enable_fallback=False,  # the fallback prints and tries again
        )
    except Exception as error:  # onnxruntime's exceptions have no common base of their own
        raise ValueError(f"{file}: not an ONNX file that can be run: {first_line(error)}") from None


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or the name of its class if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
