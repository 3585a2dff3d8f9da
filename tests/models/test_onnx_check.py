"""ONNX files that somebody edited and sealed again: what they claim is checked before a runtime sees them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from verisphere.backbones import Backbone
from verisphere.models.onnx_file import InputFormat, OnnxBackbone, _seal, read_onnx, write_onnx

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
from onnx import helper, numpy_helper  # noqa: E402


class Small(Backbone):
    """Two layers, so that an export takes a second."""

    input_size = (16, 12)

    def __init__(self) -> None:
        super().__init__(5)
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.Flatten(), nn.Linear(4 * 7 * 5, 5))

    def embed(self, images):
        return self.layers(images)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    backbone = Small().eval()
    write_onnx(path, backbone, InputFormat(backbone.input_size, "own", True, 5, "ab" * 32, "0.1.0"))
    return path


def resealed(source: Path, path: Path, edit: Callable) -> Path:
    """The file after an edit, with a seal that fits again."""
    model = onnx.ModelProto.FromString(source.read_bytes())
    del model.metadata_props[-1]
    edit(model)
    content = model.SerializeToString()
    path.write_bytes(content + _seal(content))
    return path


def says(**changed: str) -> Callable:
    def edit(model) -> None:
        for entry in model.metadata_props:
            entry.value = changed.get(entry.key, entry.value)

    return edit


def last_input(model) -> str:
    """The embedding, under another name, so that a further node can come after it."""
    model.graph.node[-1].output[0] = "before"
    return "before"


def outside(model) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")


def outside_in_a_node(model) -> None:
    value = numpy_helper.from_array(np.zeros(2, np.float32), "hidden")
    value.external_data.add(key="location", value="/etc/hostname")
    model.graph.node.append(helper.make_node("Constant", [], ["unused"], value=value))


def claimed(model) -> None:
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].dims[:] = [200_000, 200_000]


def less_than_none(model) -> None:
    model.graph.initializer[0].dims[:] = [-1, -(2**40)]


def expanded(model) -> None:
    """The 160 GB: the embedding is repeated to 40 billion numbers, and their sum taken."""
    shape = numpy_helper.from_array(np.array([40_000_000_000 // 5, 1, 5], np.int64), "shape")
    model.graph.initializer.append(shape)
    before = last_input(model)
    model.graph.node.append(helper.make_node("Expand", [before, "shape"], ["wide"]))
    model.graph.node.append(helper.make_node("ReduceMax", ["wide"], ["embeddings"], axes=[0], keepdims=0))


def filled(model) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array([200_000, 200_000], np.int64), "shape"))
    model.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["unused"]))


def of_unknown_size(model) -> None:
    model.graph.node.append(helper.make_node("NonZero", ["embeddings"], ["unused"]))


def foreign(model) -> None:
    before = last_input(model)
    model.graph.node.append(helper.make_node("Run", [before], ["embeddings"], domain="com.example"))
    model.opset_import.add(domain="com.example", version=1)


def looping(model) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["goes"])],
        "body",
        [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, [])],
        [helper.make_tensor_value_info("goes", 9, [])],
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(2**62, np.int64), "times"))
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "begin"))
    model.graph.node.append(helper.make_node("Loop", ["times", "begin"], [], body=body))


def another_input(model) -> None:
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info("more", 1, [1]))


def whole_numbers(model) -> None:
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (says(input_size="112x112"), r"its input is a batch of \(3, 16, 12\) .* its metadata says \(3, 112, 112\)"),
        (says(input_size="200000x200000"), r"its metadata says \(3, 200000, 200000\)"),
        (says(input_size="-1x-1"), r"its metadata says \(3, -1, -1\)"),
        (says(embedding_size="512"), r"its output is a batch of \(5,\) .* its metadata says \(512,\)"),
        (says(embedding_size="9" * 5000), "its metadata is not what"),
        (whole_numbers, "numbers of kind 2, but its metadata says"),
        (another_input, r"its inputs are \['images', 'more'\], not images alone"),
        (outside, "its weights .* lie in another file, which nothing seals"),
        (outside_in_a_node, "its weights 'hidden' lie in another file"),
        (claimed, r"are \[200000, 200000\] numbers, more than the file holds"),
        (less_than_none, "more than the file holds"),
        (expanded, r"'Expand' gives \[8000000000, 1, 5\] numbers for one image; at most 67,108,864"),
        (filled, r"'ConstantOfShape' gives \[200000, 200000\] numbers"),
        (of_unknown_size, "the size of what 'NonZero' gives cannot be known beforehand"),
        (foreign, "it needs operators of 'com.example'"),
        (looping, "it has the loop or branch 'Loop'"),
        (lambda model: model.functions.add(name="f"), "it has functions"),
    ],
)
def test_a_resealed_file_that_claims_something_else_gets_one_line(whole, tmp_path, edit, message):
    path = resealed(whole, tmp_path / "edited.onnx", edit)
    with pytest.raises(ValueError, match=message) as caught:
        read_onnx(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_the_same_content_sealed_again_is_read(whole, tmp_path):
    file = read_onnx(resealed(whole, tmp_path / "same.onnx", lambda model: None))
    assert file.embed(np.zeros((2, 16, 12, 3), np.uint8)).shape == (2, 5)


class Failing:
    """A runtime that has no memory for what it is asked."""

    def run(self, *_: object) -> None:
        raise RuntimeError("Failed to allocate memory for requested buffer of size 171798691840\n  at line 3")


class Wide:
    def run(self, *_: object) -> list[np.ndarray]:
        return [np.zeros((1, 6), np.float32)]


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (
            Failing(),
            "does not run on a batch of 1: Failed to allocate memory for requested buffer of size 171798691840",
        ),
        (Wide(), r"gives float32 numbers \(1, 6\), where float32 \(1, 5\) are due"),
    ],
)
def test_what_goes_wrong_while_it_runs_names_the_file(whole, session, message):
    file = read_onnx(whole)
    file.session.runtime = session
    with pytest.raises(ValueError, match=message) as caught:
        file.embed(np.zeros((1, 16, 12, 3), np.uint8))
    assert str(caught.value).startswith(f"{whole}: ")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=message):
        OnnxBackbone(file).embed(torch.zeros(1, 3, 16, 12))
