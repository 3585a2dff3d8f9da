"""What an ONNX file may hold before a runtime is handed it: one graph, whole in the file, of sizes known beforehand.

A seal shows damage; whoever edits a file can seal it again. So what a file says of itself is compared with its graph,
and the graph is asked for its sizes while nothing has been allocated yet.
"""

from collections.abc import Iterator
from math import prod
from typing import Any

from verisphere.files.json_values import shown

#: Numbers of one image that a graph may hold at one place; 2^26 are 256 MB as float32, and SEResNet has 1.3 million.
MOST_NUMBERS = 2**26
_OURS = ("", "ai.onnx")  # two names of ONNX's own operators


def check_graph(model: Any, length: int, images: tuple[str, tuple[int, int]], embeddings: tuple[str, int]) -> None:
    """Pass over a graph that takes and gives what its file says, and asks for no more memory than is reasonable.

    Args:
        model: `onnx.ModelProto`.
        length: of the file, in bytes.
        images: name of the input, and (height, width) as the metadata has it.
        embeddings: name of the output, and its numbers as the metadata has them.

    Raises:
        ValueError: the graph takes or gives something else; weights lie in another file or are more than this one can
            hold; it has operators of another library, loops or branches; or sizes beyond `MOST_NUMBERS`.
    """
    for node in model.graph.node:
        if node.domain not in _OURS:
            raise ValueError(f"it needs operators of {shown(node.domain)}, which are not part of ONNX")
        if any(one.HasField("g") or one.graphs for one in node.attribute):
            raise ValueError(f"it has the loop or branch {shown(node.op_type)}; a network here is one graph")
    if model.functions or model.graph.sparse_initializer or model.training_info:
        raise ValueError("it has functions, sparse weights or training steps; a network here is one graph")
    for tensor in _tensors(model.graph):
        if tensor.external_data or tensor.data_location:
            raise ValueError(
                f"its weights {shown(tensor.name)} lie in another file, which nothing seals; `verisphere export` "
                "writes one file"
            )
        # the smallest kinds of number take four bits
        if any(size < 0 for size in tensor.dims) or prod(tensor.dims) > 2 * length:
            raise ValueError(
                f"its weights {shown(tensor.name)} are {list(tensor.dims)} numbers, more than the file holds"
            )
    name, size = images
    _check_end("input", model.graph.input, name, (3, *size))
    _check_end("output", model.graph.output, embeddings[0], (embeddings[1],))
    _check_sizes(model)


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _check_end(kind: str, found: Any, name: str, shape: tuple[int, ...]) -> None:
    """The graph's one input or output: float32, a batch of this shape."""
    if [one.name for one in found] != [name]:
        raise ValueError(f"its {kind}s are {shown([one.name for one in found])}, not {name} alone")
    tensor = found[0].type.tensor_type
    sizes = tuple(one.dim_value if one.HasField("dim_value") else None for one in tensor.shape.dim[1:])
    if tensor.elem_type != 1 or len(tensor.shape.dim) != len(shape) + 1 or sizes != shape:
        raise ValueError(
            f"its {kind} is a batch of {shown(sizes)} numbers of kind {tensor.elem_type}, but its metadata says "
            f"{shape} of kind 1 (float32); was one of them edited?"
        )


def _check_sizes(model: Any) -> None:
    """Refuse a graph that would hold more than `MOST_NUMBERS` at one place, of a batch of one image."""
    import onnx

    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    del alone.graph.value_info[:]  # what the file says of itself
    alone.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    alone.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    try:
        inferred = onnx.shape_inference.infer_shapes(alone, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ValueError(f"its sizes do not fit together: {first_line(error)}") from None
    known = {one.name: one.type.tensor_type.shape.dim for one in (*inferred.graph.value_info, *inferred.graph.output)}
    for node in inferred.graph.node:
        for name in filter(None, node.output):
            if name not in known or not all(one.HasField("dim_value") for one in known[name]):
                raise ValueError(f"the size of what {shown(node.op_type)} gives cannot be known beforehand")
            sizes = [one.dim_value for one in known[name]]
            if prod(sizes) > MOST_NUMBERS:
                raise ValueError(
                    f"{shown(node.op_type)} gives {sizes} numbers for one image; at most {MOST_NUMBERS:,} are computed"
                )


def first_line(error: BaseException) -> str:
    """The first line of what a library says, or the error's name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
