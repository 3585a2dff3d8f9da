"""Checks of an ONNX file before a runtime loads it: one graph, complete in the file, with sizes known beforehand.

The digest in a file shows damage, but an editor of the file can compute it again. The metadata are therefore compared
with the graph, and the sizes in the graph are inferred before anything is allocated.
"""

from math import prod
from typing import Any

from verisphere.files.json_values import shown
from verisphere.files.onnx_graph import OWN_OPERATORS, check_one_graph, check_weights, first_line, tensors_of

#: Most numbers in one tensor of a graph for one image; 2^26 are 256 MB as float32, and SEResNet has 1.3 million.
MOST_NUMBERS = 2**26


def check_graph(model: Any, length: int, images: tuple[str, tuple[int, int]], embeddings: tuple[str, int]) -> None:
    """Check that a graph has the input and output of its metadata, and needs no unreasonable amount of memory."""
    for node in model.graph.node:
        if node.domain not in OWN_OPERATORS:
            raise ValueError(f"it needs operators of {shown(node.domain)}, which are not part of ONNX")
    check_one_graph(model)
    for tensor in tensors_of(model.graph):
        if tensor.external_data or tensor.data_location:
            raise ValueError(
                f"its weights {shown(tensor.name)} lie in another file, which nothing seals; `verisphere export` "
                "writes one file"
            )
    check_weights(model, length)
    name, size = images
    _check_end("input", model.graph.input, name, (3, *size))
    _check_end("output", model.graph.output, embeddings[0], (embeddings[1],))
    _check_sizes(model)


def _check_end(kind: str, ends: Any, name: str, shape: tuple[int, ...]) -> None:
    """Check that the graph has one input or output: a float32 batch of this shape."""
    names = [end.name for end in ends]
    if names != [name]:
        raise ValueError(f"its {kind}s are {shown(names)}, not {name} alone")
    tensor = ends[0].type.tensor_type
    sizes = tuple(axis.dim_value if axis.HasField("dim_value") else None for axis in tensor.shape.dim[1:])
    if tensor.elem_type != 1 or len(tensor.shape.dim) != len(shape) + 1 or sizes != shape:
        raise ValueError(
            f"its {kind} is a batch of {shown(sizes)} numbers of kind {tensor.elem_type}, but its metadata says "
            f"{shape} of kind 1 (float32); was one of them edited?"
        )


def _check_sizes(model: Any) -> None:
    """Refuse a graph in which a tensor has more than `MOST_NUMBERS` numbers for a batch of one image."""
    import onnx

    one_image = onnx.ModelProto()
    one_image.CopyFrom(model)
    del one_image.graph.value_info[:]  # sizes that the file claims
    one_image.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    one_image.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 1
    try:
        inferred = onnx.shape_inference.infer_shapes(one_image, check_type=True, strict_mode=True, data_prop=True)
    except Exception as error:  # onnx's exceptions have no common base of their own
        raise ValueError(f"its sizes do not fit together: {first_line(error)}") from None
    values = (*inferred.graph.value_info, *inferred.graph.output)
    known = {value.name: value.type.tensor_type.shape.dim for value in values}
    for node in inferred.graph.node:
        for name in filter(None, node.output):
            if name not in known or not all(axis.HasField("dim_value") for axis in known[name]):
                raise ValueError(f"the size of what {shown(node.op_type)} gives cannot be known beforehand")
            sizes = [axis.dim_value for axis in known[name]]
            if prod(sizes) > MOST_NUMBERS:
                raise ValueError(
                    f"{shown(node.op_type)} gives {sizes} numbers for one image; at most {MOST_NUMBERS:,} are computed"
                )
