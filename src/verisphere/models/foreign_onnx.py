"""ONNX files from elsewhere: read as a whole and checked, with the description of their input and output.

The behaviour of a graph shows only when it runs, which `verisphere.models.first_run` does in a process with limits.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verisphere.backbones.backbone import LARGEST_EMBEDDING, Layout
from verisphere.backbones.onnx_network import Numbers
from verisphere.files.json_values import shown
from verisphere.files.onnx_graph import axes_in_words, axes_of, check_name, only_input, read_graph

#: Pixels of a side of a face, and images that a graph takes at a time.
LARGEST_SIDE, LARGEST_BATCH = 1024, 1024
_NUMBERS: dict[int, Numbers] = {1: "float32", 10: "float16", 2: "uint8"}
_OF_OUTPUT = (1, 10)  # float32, float16


@dataclass(frozen=True)
class GraphEnds:
    """The input and output that a graph declares; None for a part that it leaves open.

    Attributes:
        batch: number of images that the graph declares to take at a time; many graphs take other numbers nevertheless.
        normalises: whether the graph normalises the pixels itself: a subtraction and a multiplication are among the
            first eight nodes by their names, which InsightFace's loader looks for, or are the first two operators that
            change the pixels of the image.
    """

    image_input: str
    numbers: Numbers
    layout: Layout | None
    size: tuple[int, int] | None
    batch: int | None
    embedding_output: str
    embedding_size: int | None
    normalises: bool


#: Operators that select, order or convert pixels without changing them.
_KEEP_PIXELS = ("Cast", "Identity", "Slice", "Transpose")


def read_foreign_onnx(path: Path, output: str | None = None) -> tuple[bytes, GraphEnds]:
    """An ONNX file as one sequence of bytes, weights that lie beside it included, after checks that run nothing."""
    content, model = read_graph(path)
    try:
        return content, _ends(model.graph, output)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _ends(graph: Any, output: str | None) -> GraphEnds:
    image = only_input(graph)
    kind = image.type.tensor_type.elem_type
    axes = axes_of(image)
    if len(axes) != 4 or kind not in _NUMBERS:
        raise ValueError(
            f"its input {shown(image.name)} has {len(axes)} axes and numbers of kind {kind}; an image input has four "
            "axes and float32, float16 or uint8 numbers"
        )
    layout: Layout | None = "NCHW" if axes[1] == 3 else "NHWC" if axes[3] == 3 else None
    if layout is None and axes[1] is not None and axes[3] is not None:
        raise ValueError(f"its input {shown(image.name)} is {axes_in_words(axes)}; one axis of an image has 3 colours")
    height, width = axes[2:4] if layout == "NCHW" else axes[1:3] if layout == "NHWC" else (None, None)
    size = None if height is None or width is None else (height, width)
    if size is not None and max(size) > LARGEST_SIDE:
        raise ValueError(f"its input is {size[0]} x {size[1]} pixels; at most {LARGEST_SIDE} a side are taken")
    if axes[0] is not None and axes[0] > LARGEST_BATCH:
        raise ValueError(f"it takes {axes[0]:,} images at a time; at most {LARGEST_BATCH:,} are allowed")
    embedding = _embedding(graph.output, output)
    check_name("output", embedding.name)
    numbers = axes_of(embedding)[-1] if len(axes_of(embedding)) == 2 else None
    if numbers is not None and numbers > LARGEST_EMBEDDING:
        raise ValueError(f"an embedding of {numbers:,} numbers; at most {LARGEST_EMBEDDING:,} are taken")
    normalises = _normalises(graph, image.name)
    return GraphEnds(image.name, _NUMBERS[kind], layout, size, axes[0], embedding.name, numbers, normalises)


def _normalises(graph: Any, image: str) -> bool:
    names = [node.name for node in graph.node[:8]]
    named = [any(name.startswith(starts) for name in names) for starts in (("Sub", "_minus"), ("Mul", "_mul"))]
    operators, value = [], image
    for node in [node for node in graph.node if node.op_type != "Constant"][:8]:
        if value in node.input and node.output:
            value = node.output[0]
            if node.op_type not in _KEEP_PIXELS:
                operators.append(node.op_type)
    return all(named) or (operators[:1] == ["Sub"] and operators[1:2] in (["Mul"], ["Div"]))


def _embedding(outputs: Any, named: str | None) -> Any:
    """The output with the embeddings: the named one, or the only one of two axes."""
    names = [end.name for end in outputs]
    if named is not None:
        if named not in names:
            raise ValueError(f"it has no output {shown(named)}; there is {', '.join(map(shown, names)) or 'none'}")
        return outputs[names.index(named)]
    flat = [end for end in outputs if len(axes_of(end)) in (0, 2) and end.type.tensor_type.elem_type in _OF_OUTPUT]
    if len(flat) != 1:
        which = f"{len(flat)} of them could be" if flat else "none of them is"
        listed = ", ".join(f"{shown(end.name)} {axes_in_words(axes_of(end))}" for end in outputs)
        raise ValueError(
            f"its outputs are {listed}: {which} an embedding, numbers for each image in two axes; name it by --output"
        )
    return flat[0]
