"""ONNX files made elsewhere: what is read of them, and broken or hostile ones, each of which ends with one line."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from foreign_graphs import SIDE, SIZE, graph, weights, written
from verisphere.models.first_run import first_run
from verisphere.models.foreign_onnx import GraphEnds, read_foreign_onnx

# ---- what is read


@pytest.mark.parametrize(
    ("model", "ends"),
    [
        (graph(), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, False)),
        (graph("NHWC", "uint8"), GraphEnds("images", "uint8", "NHWC", (SIDE, SIDE), None, "embedding", SIZE, False)),
        (
            graph("NCHW", "float16", 1),
            GraphEnds("images", "float16", "NCHW", (SIDE, SIDE), 1, "embedding", SIZE, False),
        ),
        (graph(side=None), GraphEnds("images", "float32", "NCHW", None, None, "embedding", SIZE, False)),
        (graph(normalised=False), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, True)),
        (
            graph("NHWC", "float16", normalised=False, names=("/a", "/b")),
            GraphEnds("images", "float16", "NHWC", (SIDE, SIDE), None, "embedding", SIZE, True),
        ),
        (graph(listed=True), GraphEnds("images", "float32", "NCHW", (SIDE, SIDE), None, "embedding", SIZE, False)),
    ],
    ids=[
        "plain",
        "NHWC uint8",
        "batch 1 float16",
        "sides open",
        "normalises inside",
        "normalises after a cast",
        "weights among the inputs",
    ],
)
def test_the_ends_of_a_graph(tmp_path: Path, model: onnx.ModelProto, ends: GraphEnds):
    path = written(tmp_path / "net.onnx", model)
    assert read_foreign_onnx(path) == (path.read_bytes(), ends)


def test_weights_beside_the_graph_are_taken_in(tmp_path: Path):
    model = graph()
    onnx.save_model(model, tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    assert (tmp_path / "net.data").is_file()
    content, _ = read_foreign_onnx(tmp_path / "net.onnx")
    (tmp_path / "net.data").unlink()
    whole = onnx.ModelProto.FromString(content)
    assert np.array_equal(numpy_helper.to_array(whole.graph.initializer[0]), weights())


# ---- broken and hostile ones


def changed(change: Callable[[onnx.ModelProto], None], **settings) -> onnx.ModelProto:
    model = graph(**settings)
    change(model)
    return model


def outside(model: onnx.ModelProto, location: str, **where: str) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **where}.items():
        tensor.external_data.add(key=key, value=value)


def add_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("age", TensorProto.FLOAT, ["n", 1]))


def add_output(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("Identity", ["embedding"], ["other"]))
    model.graph.output.append(helper.make_tensor_value_info("other", TensorProto.FLOAT, ["n", SIZE]))


def foreign_operator(model: onnx.ModelProto) -> None:
    model.graph.node[-1].domain = "my.own"


def branch(model: onnx.ModelProto) -> None:
    inner = helper.make_graph([helper.make_node("Identity", ["embedding"], ["x"])], "then", [],
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", SIZE])])  # fmt: skip
    model.graph.node.append(helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner))


def claim_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 50


def no_image(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim.pop()


def of_text(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


def four_colours(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 4


def huge_side(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 1 << 20


def maps(model: onnx.ModelProto) -> None:
    output = model.graph.output[0].type.tensor_type.shape
    output.dim.add(dim_value=7)
    output.dim.add(dim_value=7)


def wide(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1 << 20


def functions(model: onnx.ModelProto) -> None:
    model.functions.add(name="f", domain="my.own")


REFUSED = {
    "loads code": (foreign_operator, r"needs the operator 'MatMul' of 'my\.own', which runs code of its own"),
    "a branch": (branch, r"has the loop or branch 'If'"),
    "functions": (functions, r"has functions, sparse weights or training steps"),
    "two inputs": (add_input, r"its inputs are \['images', 'age'\]; one is allowed, the image"),
    "two embeddings": (add_output, r"2 of them could be an embedding.*name it by --output"),
    "no image": (no_image, r"its input 'images' has 3 axes and numbers of kind 1"),
    "text": (of_text, r"has 4 axes and numbers of kind 8"),
    "four colours": (four_colours, r"its input 'images' is \? x 4 x 8 x 8; one axis of an image has 3 colours"),
    "a huge side": (huge_side, r"its input is 1048576 x 8 pixels; at most 1024 a side"),
    "feature maps": (maps, r"none of them is an embedding"),
    "a wide embedding": (wide, r"an embedding of 1,048,576 numbers; at most 65,536"),
    "weights it has not": (claim_weights, r"its weights 'weights' are \[1125899906842624, 6\] numbers, more than"),
    "above its folder": (lambda model: outside(model, "../secret"), r"lie in '\.\./secret'; only files in the folder"),
    "an absolute path": (
        lambda model: outside(model, "/etc/passwd"),
        r"lie in '/etc/passwd'; only files in the folder",
    ),
    "past the end": (
        lambda model: outside(model, "net.data", offset="90", length="20"),
        r"its weights 'weights' reach past the end of net\.data",
    ),
    "before the start": (lambda model: outside(model, "net.data", offset="-4", length="4"), "reach past the end"),
    "no number": (
        lambda model: outside(model, "net.data", offset="x"),
        "the place of its weights 'weights' is no number",
    ),
}


@pytest.mark.parametrize(("change", "line"), REFUSED.values(), ids=[*REFUSED])
def test_a_graph_is_refused_in_one_line(tmp_path: Path, change: Callable[[onnx.ModelProto], None], line: str):
    (tmp_path / "net.data").write_bytes(bytes(100))
    path = written(tmp_path / "net.onnx", changed(change))
    with pytest.raises(ValueError, match=line) as refused:
        read_foreign_onnx(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x08\x07", bytes(1000)], ids=["empty", "zip", "end", "zeros"]
)
def test_what_is_no_onnx_file(tmp_path: Path, content: bytes):
    (tmp_path / "net.onnx").write_bytes(content)
    with pytest.raises(ValueError, match=r"net\.onnx: not an ONNX file"):
        read_foreign_onnx(tmp_path / "net.onnx")


def test_weights_that_are_not_there_or_a_link(tmp_path: Path):
    path = written(tmp_path / "net.onnx", changed(lambda model: outside(model, "net.data")))
    with pytest.raises(FileNotFoundError, match=r"net\.data: weights of 'weights' should lie there"):
        read_foreign_onnx(path)
    (tmp_path / "other").write_bytes(bytes(10_000))
    (tmp_path / "net.data").symlink_to(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match="in a regular file"):
        read_foreign_onnx(path)


def test_a_named_output(tmp_path: Path):
    path = written(tmp_path / "net.onnx", changed(add_output))
    assert read_foreign_onnx(path, "other")[1].embedding_output == "other"
    with pytest.raises(ValueError, match=r"it has no output 'third'; there is 'embedding', 'other'"):
        read_foreign_onnx(path, "third")


# ---- the first run


def run(path: Path, **more):
    content, ends = read_foreign_onnx(path)
    shape = (3, SIDE, SIDE) if ends.layout == "NCHW" else (SIDE, SIDE, 3)
    asked = {"input": ends.image_input, "output": ends.embedding_output, "shape": shape, "numbers": ends.numbers,
             "mean": 0.0, "scale": 1.0}  # fmt: skip
    return first_run(content, path, asked, ends.batch, **more)


@pytest.mark.parametrize(
    ("model", "batch"),
    [(graph(), None), (graph("NHWC", "uint8", 1), 1), (graph("NCHW", "float16", 4), 4)],
    ids=["any", "one", "four"],
)
def test_a_graph_is_run_once(tmp_path: Path, model: onnx.ModelProto, batch: int | None):
    found = run(written(tmp_path / "net.onnx", model))
    assert (found.embedding_size, found.batch) == (SIZE, batch)
    assert found.seconds > 0


def eats_memory(model: onnx.ModelProto) -> None:
    """A tile of 2^40 numbers, which no size in the file tells."""
    model.graph.initializer.append(numpy_helper.from_array(np.array([1 << 20, 1 << 20], np.int64), "times"))
    model.graph.node[-1].output[0] = "small"
    model.graph.node.append(helper.make_node("Tile", ["small", "times"], ["embedding"]))


def divides_by_zero(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.float32), "zero"))
    model.graph.node[-1].output[0] = "small"
    model.graph.node.append(helper.make_node("Div", ["small", "zero"], ["embedding"]))


def subtracts_the_batch_mean(model: onnx.ModelProto) -> None:
    model.graph.node[-1].output[0] = "own"
    model.graph.node.append(helper.make_node("ReduceMean", ["own"], ["mean"], axes=[0], keepdims=1))
    model.graph.node.append(helper.make_node("Sub", ["own", "mean"], ["embedding"]))


def unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[-1].op_type = "Wish"


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (eats_memory, r"does(n't| not) run"),
        (divides_by_zero, "gives NaN or infinity for images of noise"),
        (subtracts_the_batch_mean, "an image's embedding depends on the other images of its batch"),
        (unknown_operator, "does not run: .*Wish"),
    ],
)
def test_what_a_first_run_refuses(tmp_path: Path, change: Callable[[onnx.ModelProto], None], line: str):
    path = written(tmp_path / "net.onnx", changed(change))
    with pytest.raises(ValueError, match=line) as refused:
        run(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_first_run_has_little_memory_if_so_asked(tmp_path: Path):
    with pytest.raises(ValueError, match=r"does not run( within 0 GB)?"):
        run(written(tmp_path / "net.onnx", graph()), memory=64 << 20)


def test_a_first_run_leaves_nothing(tmp_path: Path):
    path = written(tmp_path / "net.onnx", graph())
    run(path)
    assert [one.name for one in tmp_path.iterdir()] == ["net.onnx"]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(("named", "normalised"), [(True, False), (False, False), (True, True)])
def test_what_normalises_by_itself_is_seen_with_and_without_names(tmp_path: Path, named: bool, normalised: bool):
    model = graph(normalised=normalised)
    for node in model.graph.node if not named else ():
        node.ClearField("name")
    assert read_foreign_onnx(written(tmp_path / "net.onnx", model))[1].normalises is not normalised
