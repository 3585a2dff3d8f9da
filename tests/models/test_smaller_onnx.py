"""A graph in float16 and in int8: near the one in float32, smaller, the same bytes again, and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from foreign_graphs import KINDS, SIDE, graph, weights
from verisphere.files.onnx_graph import open_session
from verisphere.models import smaller_onnx
from verisphere.models.smaller_onnx import in_float16, in_int8

FILE = Path("net.onnx")
IMAGES = np.random.default_rng(2).normal(size=(12, 3, SIDE, SIDE)).astype(np.float32)


def run(content: bytes, images: np.ndarray, output: str = "embedding") -> np.ndarray:
    session = open_session(content, FILE)
    return session.run([output], {session.get_inputs()[0].name: images})[0]


def rows_of(content: bytes, output: str, numbers: int) -> np.ndarray:
    rows = run(content, IMAGES, output).astype(np.float64)
    assert rows.shape == (len(IMAGES), numbers)
    return rows


def cosine(rows: np.ndarray, others: np.ndarray) -> float:
    """The mean over images."""
    rows, others = (each.astype(np.float64) for each in (rows, others))
    return float(((rows * others).sum(1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(others, axis=1)).mean())


def convolutions(version: int = 17) -> onnx.ModelProto:
    """A convolution, PReLU, a depthwise convolution with batch norm, and a fully connected layer of unit length.

    The channels between the convolutions have ranges from 1 to 1,000, which the depthwise one takes back.
    """
    random = np.random.default_rng(0)
    ranges = np.logspace(0, 3, 8).astype(np.float32)
    constants = {
        "w1": random.normal(size=(8, 3, 3, 3)) * ranges[:, None, None, None],
        "b1": random.normal(size=8) * ranges,
        "slopes": random.uniform(0.1, 0.4, size=(8, 1, 1)),
        "w2": random.normal(size=(8, 1, 3, 3)) / ranges[:, None, None, None],
        "b2": random.normal(size=8),
        **{"gamma": np.ones(8), "beta": np.zeros(8), "mean": random.normal(size=8), "variance": np.full(8, 4.0)},
        "w3": random.normal(size=(8 * SIDE * SIDE, 6)) * 100,
    }
    nodes = [
        helper.make_node("Conv", ["images", "w1", "b1"], ["a"], pads=[1] * 4),
        helper.make_node("PRelu", ["a", "slopes"], ["b"]),
        helper.make_node("Conv", ["b", "w2", "b2"], ["c"], pads=[1] * 4, group=8),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "variance"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "w3"], ["f"]),
        helper.make_node("ReduceL2", ["f"], ["g"], axes=[1]),
        helper.make_node("Div", ["f", "g"], ["embedding"]),
    ]
    made = helper.make_graph(
        nodes,
        "elsewhere",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", 6])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def test_float16_is_near_and_takes_and_gives_float32(capfd):
    content = convolutions().SerializeToString()
    smaller = in_float16(content, FILE)
    rows, wanted = run(smaller, IMAGES), run(content, IMAGES)
    assert rows.dtype == np.float32
    assert cosine(rows, wanted) > 0.9999
    # sums of squares reach 10^9 here, which float16 does not hold
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-3)
    model = onnx.ModelProto.FromString(smaller)
    onnx.checker.check_model(model)
    kinds = {tensor.data_type for tensor in model.graph.initializer if len(tensor.dims) > 1}
    assert kinds == {TensorProto.FLOAT16}
    assert in_float16(content, FILE) == smaller
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("version", [17, 11])
def test_int8_is_near_and_holds_weights_of_eight_bits(capfd, version):
    content = convolutions(version).SerializeToString()
    smaller = in_int8(content, rows_of, FILE)
    assert cosine(run(smaller, IMAGES), run(content, IMAGES)) > 0.995
    model = onnx.ModelProto.FromString(smaller)
    onnx.checker.check_model(model)
    large = {tensor.data_type for tensor in model.graph.initializer if np.prod(tensor.dims) > 64}
    assert large == {TensorProto.INT8}
    weights = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.data_type == 3]
    assert max(np.abs(values.astype(int)).max() for values in weights if values.size > 64) <= 64  # 7 of 8 bits
    assert len(smaller) < len(content)
    assert in_int8(content, rows_of, FILE) == smaller
    assert capfd.readouterr() == ("", "")


def test_channels_of_different_ranges_are_brought_to_one(monkeypatch):
    content = convolutions().SerializeToString()
    wanted = run(content, IMAGES)
    equalised = cosine(run(in_int8(content, rows_of, FILE), IMAGES), wanted)
    monkeypatch.setattr(smaller_onnx, "_equalise", lambda model, rows_of: None)
    plain = cosine(run(in_int8(content, rows_of, FILE), IMAGES), wanted)
    assert equalised > 0.995 > 0.95 > plain


def fully_connected(alpha: float, beta: float, bias: str = "b", constants: bool = False) -> bytes:
    """One Gemm; its weights may be values of Constant nodes, and its bias may be computed (`c`)."""
    random = np.random.default_rng(4)
    values = {"w": random.normal(size=(3 * SIDE * SIDE, 6)) / 8, "b": random.normal(size=6) * 3}
    tensors = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()]
    nodes = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in tensors] if constants else []
    nodes += [
        helper.make_node("Flatten", ["images"], ["a"]),
        helper.make_node("ReduceMean", ["a"], ["mean"], axes=[1]),
        helper.make_node("Add", ["mean", "b"], ["c"]),
        helper.make_node("Gemm", ["a", "w", bias], ["embedding"], alpha=alpha, beta=beta),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("images", ["n", 3, SIDE, SIDE]), ("embedding", ["n", 6]))
    ]
    made = helper.make_graph(nodes, "elsewhere", ends[:1], ends[1:], [] if constants else tensors)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.mark.parametrize(
    ("alpha", "beta", "bias"), [(0.5, 2.0, "b"), (1.0, 2.0, "b"), (0.5, 1.0, "b"), (2.0, 3.0, "c")]
)
def test_the_factors_of_a_fully_connected_layer_are_kept(alpha, beta, bias):
    content = fully_connected(alpha, beta, bias)
    assert cosine(run(in_int8(content, rows_of, FILE), IMAGES), run(content, IMAGES)) > 0.999


def test_weights_may_be_constants():
    content = fully_connected(1.0, 1.0, constants=True)
    wanted = run(content, IMAGES)
    for smaller in (in_float16(content, FILE), in_int8(content, rows_of, FILE)):
        assert cosine(run(smaller, IMAGES), wanted) > 0.999


@pytest.mark.parametrize(("layout", "numbers"), [("NHWC", "uint8"), ("NCHW", "float16")])
def test_the_input_stays_as_it_is(layout, numbers):
    pixels = np.random.default_rng(3).integers(0, 256, (2, SIDE, SIDE, 3) if layout == "NHWC" else (2, 3, SIDE, SIDE))
    content = graph(layout, numbers, 2).SerializeToString()
    images = pixels.astype(numbers)

    def rows(content: bytes, output: str, count: int) -> np.ndarray:
        return run(content, images, output)

    for smaller in (in_float16(content, FILE), in_int8(content, rows, FILE)):
        (end,) = onnx.ModelProto.FromString(smaller).graph.input
        assert end.type.tensor_type.elem_type == KINDS[numbers]
        assert cosine(run(smaller, images), run(content, images)) > 0.999


def test_what_cannot_be_smaller_is_one_line():
    model = graph()
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights().astype(np.float16), "weights"))
    model.graph.node.insert(0, helper.make_node("Cast", ["images"], ["half"], to=TensorProto.FLOAT16))
    model.graph.node[1].input[0] = "half"
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    for precision, convert in (
        ("float16", in_float16),
        ("int8", lambda content, file: in_int8(content, rows_of, file)),
    ):
        with pytest.raises(ValueError, match="it has no weights in float32") as caught:
            convert(model.SerializeToString(), FILE)
        assert str(caught.value) == f"net.onnx: cannot be written in {precision}: it has no weights in float32"
    model = convolutions()
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Flatten", ["images"], ["flat"]))
    model.graph.node.append(helper.make_node("Einsum", ["flat", "w4"], ["embedding"], equation="ij,jk->ik"))
    model.graph.initializer.append(numpy_helper.from_array(np.ones((3 * SIDE * SIDE, 6), np.float32), "w4"))
    with pytest.raises(ValueError, match="int8: no convolution or fully connected layer with weights of its own"):
        in_int8(model.SerializeToString(), rows_of, FILE)
