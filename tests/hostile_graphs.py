"""ONNX files that are broken, or made to harm: each is written into a folder as `net.onnx`."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from foreign_graphs import SIDE, SIZE, graph, written

#: Writes the files of an attack into a folder.
Attack = Callable[[Path], object]
#: A name with what would clear a terminal.
ESCAPES = "x\x1b[2J\x07\n" * 3


def changed(change: Callable[[onnx.ModelProto], object], **settings: Any) -> Attack:
    """The graph of `foreign_graphs` after a change."""

    def write(folder: Path) -> None:
        model = graph(**settings)
        change(model)
        written(folder / "net.onnx", model)

    return write


def content(data: bytes) -> Attack:
    """These bytes."""
    return lambda folder: (folder / "net.onnx").write_bytes(data)


def constant(model: onnx.ModelProto, name: str, values: Any) -> str:
    """Adds a constant, and returns its name."""
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(values), name))
    return name


def then(*operators: tuple[str, list[Any], dict[str, Any]]) -> Attack:
    """Operators after the embedding, each with constants as further inputs and attributes; the last gives it anew."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.node[-1].output[0] = value = "step 0"
        for place, (operator, constants, attributes) in enumerate(operators, start=1):
            last = place == len(operators)
            inputs = [constant(model, f"constant {place} {number}", one) for number, one in enumerate(constants)]
            result = "embedding" if last else f"step {place}"
            model.graph.node.append(helper.make_node(operator, [value, *inputs], [result], **attributes))
            value = result

    return changed(change)


def nodes(*made: onnx.NodeProto) -> Attack:
    """These operators in place of the graph's own."""

    def change(model: onnx.ModelProto) -> None:
        del model.graph.node[:]
        model.graph.node.extend(made)

    return changed(change)


def outside(location: str, **where: str) -> Callable[[onnx.ModelProto], None]:
    """Weights that lie in another file."""

    def change(model: onnx.ModelProto) -> None:
        tensor = model.graph.initializer[0]
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": location, **where}.items():
            tensor.external_data.add(key=key, value=value)

    return change


def beside(make: Callable[[Path], object]) -> Attack:
    """Weights in `net.data`, which is made so."""

    def write(folder: Path) -> None:
        make(folder / "net.data")
        changed(outside("net.data"))(folder)

    return write


def memory_address(model: onnx.ModelProto) -> None:
    """Sparse weights whose place is what onnxruntime takes for an address in its own memory."""
    values = TensorProto(name="values", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "*/_ORT_MEM_ADDR_/*", "offset": "4096", "length": "16"}.items():
        values.external_data.add(key=key, value=value)
    indices = numpy_helper.from_array(np.arange(4), "indices")
    sparse = onnx.SparseTensorProto(values=values, indices=indices, dims=[8])
    model.graph.node.insert(0, helper.make_node("Constant", [], ["unused"], sparse_value=sparse))


def loop(model: onnx.ModelProto) -> None:
    """A loop of 2^62 turns."""
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["value"], ["next"])],
        "body",
        [helper.make_tensor_value_info("turn", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("value", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model.graph.node[-1].output[0] = "before"
    constant(model, "turns", np.int64(1 << 62))
    model.graph.node.append(helper.make_node("Loop", ["turns", "", "before"], ["embedding"], body=body))


def nested(model: onnx.ModelProto) -> None:
    """Branches within branches."""
    inner = helper.make_graph([], "end", [], [])
    for depth in range(20):
        branch = helper.make_node("If", ["c"], [f"y{depth}"], then_branch=inner)
        inner = helper.make_graph([branch], f"depth {depth}", [], [])
    model.graph.node.append(branch)


def nested_bytes(folder: Path) -> None:
    """The same 500 deep, which no library writes: graph, node and attribute in one another."""
    data = b""
    for number in (*(6, 5, 1) * 500, 7):  # AttributeProto.g, NodeProto.attribute, GraphProto.node; ModelProto.graph
        length, left = b"", len(data)
        while left > 127:
            length, left = length + bytes([left & 127 | 128]), left >> 7
        data = bytes([number << 3 | 2]) + length + bytes([left]) + data
    (folder / "net.onnx").write_bytes(written(folder / "net.onnx", graph()).read_bytes() + data)


def function(model: onnx.ModelProto) -> None:
    """An operator whose body stands in the file."""
    body = [helper.make_node("Function", ["x"], ["y"], domain="own")]  # which calls itself
    model.functions.append(helper.make_function("own", "Function", ["x"], ["y"], body, [helper.make_opsetid("own", 1)]))
    model.graph.node[-1].op_type = "Function"


def renamed(of_what: str, name: str) -> Callable[[onnx.ModelProto], None]:
    """Another name for the input or the output."""

    def change(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            node.input[:] = [name if one == of_what else one for one in node.input]
            node.output[:] = [name if one == of_what else one for one in node.output]
        for end in (*model.graph.input, *model.graph.output):
            if end.name == of_what:
                end.name = name

    return change


def not_text(folder: Path) -> None:
    """Names that are no UTF-8."""
    written(folder / "net.onnx", graph())
    data = (folder / "net.onnx").read_bytes()
    (folder / "net.onnx").write_bytes(data.replace(b"images", b"im\xff\xfees").replace(b"MatMul", b"Mat\xff\xfel"))


def of_kind(which: str, change: Callable[[Any], object]) -> Attack:
    """Another kind of input or output."""
    return changed(lambda model: change(getattr(model.graph, which)[0].type))


def sequence(kind: Any) -> None:
    kind.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None)))


def optional(kind: Any) -> None:
    kind.CopyFrom(helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None)))


def size_of(which: str, place: int, size: int) -> Attack:
    """Another size of an axis."""
    return of_kind(which, lambda kind: setattr(kind.tensor_type.shape.dim[place], "dim_value", size))


def set_field(name: str, value: Any) -> Attack:
    return changed(lambda model: setattr(model, name, value))


def operators(version: int) -> Attack:
    return changed(lambda model: setattr(model.opset_import[0], "version", version))


def foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node[-1].domain = "my.own"


def second_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("age", TensorProto.FLOAT, ["n", 1]))


def second_output(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Identity", ["embedding"], ["other"]))
    model.graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, ["n", SIZE]))


def short_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]


def negative_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -3 * SIDE * SIDE


def text_weights(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_type = TensorProto.STRING
    tensor.string_data.extend([ESCAPES.encode()] * 3 * SIDE * SIDE * SIZE)


def cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "embedding"


def twice(model: onnx.ModelProto) -> None:
    model.graph.node.append(model.graph.node[-1])


def microsoft(operator: str, **attributes: Any) -> Attack:
    """An operator of onnxruntime's own."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.node[-1].output[0] = "before"
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        node = helper.make_node(operator, ["before"], ["embedding"], domain="com.microsoft", **attributes)
        model.graph.node.append(node)

    return changed(change)


def joined_with_itself(model: onnx.ModelProto) -> None:
    """Forty times joined with itself: 2^40 times as many numbers."""
    value = "step 0"
    model.graph.node[-1].output[0] = value
    for place in range(40):
        result = f"step {place + 1}" if place < 39 else "embedding"
        model.graph.node.append(helper.make_node("Concat", [value, value], [result], axis=1))
        value = result


def slow(model: onnx.ModelProto) -> None:
    """Products of large matrices, one after the other, in little memory: hours."""
    model.graph.node[-1].output[0] = "last"
    size = constant(model, "size", np.array([2000, 2000], np.int64))
    model.graph.node.append(helper.make_node("ReduceMax", ["last"], ["number"], keepdims=0))
    model.graph.node.append(helper.make_node("Expand", ["number", size], ["square 0"]))
    for place in range(3000):
        given = f"square {place}"
        model.graph.node.append(helper.make_node("MatMul", [given, given], [f"square {place + 1}"]))
    model.graph.node.append(helper.make_node("ReduceMax", ["square 3000"], ["largest"], keepdims=0))
    model.graph.node.append(helper.make_node("Add", ["last", "largest"], ["embedding"]))


def random_noise(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("RandomNormalLike", ["before"], ["noise"], scale=5.0))
    model.graph.node.append(helper.make_node("Add", ["before", "noise"], ["embedding"]))


def of_no_image(model: onnx.ModelProto) -> None:
    """The same numbers whatever the image."""
    model.graph.node[-1].output[0] = "before"
    zero = constant(model, "zero", np.float32(0))
    row = constant(model, "row", np.arange(SIZE, dtype=np.float32))
    model.graph.node.append(helper.make_node("Mul", ["before", zero], ["zeros"]))
    model.graph.node.append(helper.make_node("Add", ["zeros", row], ["embedding"]))


def of_other_images(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = "before"
    model.graph.node.append(helper.make_node("ReduceMean", ["before"], ["mean"], axes=[0], keepdims=1))
    model.graph.node.append(helper.make_node("Sub", ["before", "mean"], ["embedding"]))


def as_map(model: onnx.ModelProto) -> None:
    """An embedding that its graph declares, and another shape that it gives."""
    model.graph.node[-1].output[0] = "before"
    axes = constant(model, "axes", np.array([2, 3], np.int64))
    model.graph.node.append(helper.make_node("Unsqueeze", ["before", axes], ["embedding"]))


def many_nodes(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = value = "step 0"
    for place in range(20_000):
        model.graph.node.append(helper.make_node("Wish", [value], [f"step {place + 1}"]))
        value = f"step {place + 1}"


def huge_file(folder: Path) -> None:
    """A file of 3 GB that takes no room on a disk."""
    with open(folder / "net.onnx", "wb") as file:
        file.truncate(3 << 30)


def random_bytes(folder: Path) -> None:
    (folder / "net.onnx").write_bytes(random.Random(0).randbytes(5000))


def truncated(folder: Path) -> None:
    data = written(folder / "net.onnx", graph()).read_bytes()
    (folder / "net.onnx").write_bytes(data[: len(data) // 2])


def link_to(target: str) -> Attack:
    return lambda folder: (folder / "net.onnx").symlink_to(target)


#: Refused before anything of the graph runs, with a part of the line.
UNREAD: dict[str, tuple[Attack, str]] = {
    "random bytes": (random_bytes, "not an ONNX file"),
    "truncated": (truncated, "not an ONNX file"),
    "empty": (content(b""), "not an ONNX file"),
    "text": (content(b"<html>not found</html>"), "not an ONNX file"),
    "a folder": (lambda folder: (folder / "net.onnx").mkdir(), "it is a folder"),
    "a pipe": (lambda folder: os.mkfifo(folder / "net.onnx"), "a pipe, not a regular file"),
    "an endless device": (link_to("/dev/zero"), "a character device, not a regular file"),
    "a link to itself": (link_to("net.onnx"), "there is no such file"),
    "3 GB": (huge_file, "more than the 2,147,483,647 allowed"),
    "a length of 2 GB": (content(b"\x3a\xff\xff\xff\xff\x07"), "not an ONNX file"),
    "names that are no text": (not_text, "no name of 1 to 200 letters"),
    "a loop": (changed(loop), "the loop or branch 'Loop'"),
    "nested branches": (changed(nested), "the loop or branch 'If'"),
    "nested without end": (nested_bytes, "not an ONNX file"),
    "an operator in the file": (changed(function), "has functions"),
    "weights at an address": (changed(memory_address), "sparse"),
    "an engine in another file": (
        microsoft("EPContext", ep_cache_context="/etc/passwd", embed_mode=0),
        "'EPContext'",
    ),
    "weights in /dev/zero": (changed(outside("/dev/zero")), "only files in the folder of the graph"),
    "weights in a pipe": (beside(os.mkfifo), "in a regular file"),
    "weights behind a link": (beside(lambda path: path.symlink_to("/etc/passwd")), "in a regular file"),
    "weights in a folder": (beside(Path.mkdir), "in a regular file"),
    "weights in a short file": (
        lambda folder: (
            (folder / "net.data").write_bytes(bytes(99)),
            changed(outside("net.data", offset="90", length="4608"))(folder),
        ),
        "reach past the end of net.data",
    ),
    "weights in a file of 9 bytes": (beside(lambda path: path.write_bytes(bytes(9))), "more than the file holds"),
    "negative weights": (changed(negative_weights), "numbers, more than the file holds"),
    "weights above its folder": (changed(outside("../secret")), "only files in the folder of the graph"),
    "weights before the start": (
        lambda folder: (
            (folder / "net.data").write_bytes(bytes(99)),
            changed(outside("net.data", offset="-4", length="4"))(folder),
        ),
        "reach past the end",
    ),
    "weights at no number": (
        lambda folder: (
            (folder / "net.data").write_bytes(bytes(99)),
            changed(outside("net.data", offset="x"))(folder),
        ),
        "the place of its weights 'weights' is no number",
    ),
    "weights that are not there": (changed(outside("net.data")), "weights of 'weights' should lie there"),
    "two inputs": (changed(second_input), "its inputs are ['images', 'age']; one is allowed, the image"),
    "two embeddings": (changed(second_output), "2 of them could be an embedding"),
    "three axes": (
        of_kind("input", lambda kind: kind.tensor_type.shape.dim.pop()),
        "its input 'images' has 3 axes and numbers of kind 1",
    ),
    "four colours": (size_of("input", 1, 4), "is ? x 4 x 8 x 8; one axis of an image has 3 colours"),
    "a map out": (
        of_kind("output", lambda kind: kind.tensor_type.shape.dim.add(dim_value=7)),
        "none of them is an embedding",
    ),
    "a sequence in": (of_kind("input", sequence), "an image input has four axes"),
    "an optional in": (of_kind("input", optional), "an image input has four axes"),
    "text in": (of_kind("input", lambda kind: setattr(kind.tensor_type, "elem_type", 8)), "numbers of kind 8"),
    "a sequence out": (of_kind("output", sequence), "none of them is an embedding"),
    "a huge image": (size_of("input", 2, 1 << 40), "at most 1024 a side"),
    "a huge batch": (size_of("input", 0, 1 << 40), "at most 1,024 are allowed"),
    "a huge embedding": (size_of("output", 1, 1 << 40), "at most 65,536"),
    "a name that steers": (changed(renamed("images", ESCAPES)), "no name of 1 to 200 letters"),
    "an operator's name that steers": (
        changed(lambda model: setattr(model.graph.node[-1], "domain", ESCAPES)),
        r"needs the operator 'MatMul' of 'x\x1b[2J",
    ),
    "a long name": (changed(renamed("images", "x" * (1 << 20))), "no name of 1 to 200 letters"),
    "a long name out": (changed(renamed("embedding", "y" * (1 << 20))), "no name of 1 to 200 letters"),
}
#: Refused by a first run in a process of its own.
UNFIT: dict[str, tuple[Attack, str]] = {
    "operators of the future": (operators(999), "does not run: "),
    "a format of the future": (set_field("ir_version", 999), "does not run: "),
    "no operator of that name": (changed(many_nodes), "does not run: "),
    "a cycle": (changed(cycle), "does not run: "),
    "a name given twice": (changed(twice), "does not run: "),
    "weights of another length": (changed(short_weights), "does not run: "),
    "text as weights": (changed(text_weights), "does not run: "),
    "joined with itself": (changed(joined_with_itself), "does not run"),
    "repeated": (then(("Tile", [np.array([1, 1 << 40])], {})), "does not run"),
    "enlarged": (
        then(
            ("Unsqueeze", [np.array([2, 3])], {}),
            ("Resize", [np.float32([]), np.float32([1, 1, 1 << 20, 1 << 20])], {"mode": "nearest"}),
        ),
        "does not run",
    ),
    "filled": (
        nodes(
            helper.make_node("Constant", [], ["sizes"], value=numpy_helper.from_array(np.array([1 << 20, 1 << 20]))),
            helper.make_node("ConstantOfShape", ["sizes"], ["embedding"]),
        ),
        "does not run",
    ),
    "padded": (then(("Pad", [np.array([0, 0, 0, 1 << 40])], {})), "does not run"),
    "noise": (changed(random_noise), "gives other numbers for the same image"),
    "the same for every image": (changed(of_no_image), "gives the same numbers for every image"),
    "of the other images": (changed(of_other_images), "depends on the other images of its batch"),
    "infinite": (then(("Div", [np.float32(0)], {})), "gives NaN or infinity"),
    "another shape": (changed(as_map), "gives numbers of shape"),
    "too slow": (changed(slow), "of computing"),
}
