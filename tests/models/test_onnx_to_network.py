"""ONNX graphs read into networks that can be trained: the same embeddings, and refusals that name the operator."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from foreign_graphs import SIDE, SIZE, expected, graph, written
from verisphere.backbones import GraphNetwork, OnnxNetwork
from verisphere.models.foreign_onnx import read_foreign_onnx
from verisphere.models.onnx_to_network import GraphContent, check_equal, read_network

DATA = Path(__file__).parents[3] / "shared" / "data"
IMAGES = np.random.default_rng(1).integers(0, 256, (4, SIDE, SIDE, 3), dtype=np.uint8)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def small(nodes: list, constants: dict[str, np.ndarray], layout: str = "NCHW", version: int = 17) -> onnx.ModelProto:
    """A graph of `nodes` from images (n, 3, 6, 5) to "last", and from there to a flat embedding."""
    places = (3, 6, 5) if layout == "NCHW" else (6, 5, 3)
    arrays = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    made = helper.make_graph(
        [*nodes, helper.make_node("Flatten", ["last"], ["embedding"])],
        "small",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", *places])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", None])],
        arrays,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", version)], ir_version=8)


def node(kind: str, *inputs: str, to: str = "last", **attributes) -> onnx.NodeProto:
    return helper.make_node(kind, ["images", *inputs], [to], **attributes)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def pixels_of(model: onnx.ModelProto, embedding_size: int, layout: str = "NCHW") -> OnnxNetwork:
    made = OnnxNetwork(embedding_size, 6, 5, 0.0, 1.0, layout=layout, image_input="images")
    made.read(model.SerializeToString(), Path("net.onnx"))
    return made


def read(model: onnx.ModelProto, layout: str = "NCHW") -> tuple[GraphContent, np.ndarray, np.ndarray]:
    """What was read, the graph's embeddings of three images, and those of the network."""
    images = normal(3, 3, 6, 5, seed=3)
    given = images if layout == "NCHW" else images.transpose(0, 2, 3, 1)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"images": given})
    content = read_network(model.SerializeToString(), pixels_of(model, wanted.shape[1], layout))
    assert json.loads(json.dumps(content.arguments)) == content.arguments  # plain data
    with torch.no_grad():
        return content, wanted, content.network()(torch.from_numpy(images)).numpy()


FOUR = {"b": normal(4), "w": normal(4, 3, 3, 3)}
NORM = {name: np.abs(normal(3, seed=seed)) + 0.5 for seed, name in enumerate(("g", "o", "m", "v"))}
CASES = {
    "Conv": ([node("Conv", "w", "b", pads=[1, 0, 1, 0], strides=[2, 1])], FOUR),
    "Conv dilated": ([node("Conv", "w", dilations=[2, 1])], FOUR),
    "Conv in groups": ([node("Conv", "w", group=3, pads=[1, 1, 1, 1])], {"w": normal(6, 1, 3, 3)}),
    "Conv with unequal pads": ([node("Conv", "w", pads=[0, 1, 2, 1])], FOUR),
    "Conv SAME_UPPER": ([node("Conv", "w", auto_pad="SAME_UPPER", strides=[2, 2])], FOUR),
    "Conv SAME_LOWER": ([node("Conv", "w", auto_pad="SAME_LOWER", strides=[2, 2])], FOUR),
    "BatchNormalization": ([node("BatchNormalization", "g", "o", "m", "v", epsilon=1e-3, momentum=0.8)], NORM),
    "PRelu a channel": ([node("PRelu", "s")], {"s": normal(3, 1, 1)}),
    "PRelu one": ([node("PRelu", "s")], {"s": normal(1)}),
    "Relu": ([node("Relu")], {}),
    "Sigmoid": ([node("Sigmoid")], {}),
    "LeakyRelu": ([node("LeakyRelu", alpha=0.3)], {}),
    "HardSigmoid": ([node("HardSigmoid")], {}),
    "Clip": ([node("Clip", "", "high")], {"high": np.float32(0.5)}),
    "Sub from the left": ([helper.make_node("Sub", ["one", "images"], ["last"])], {"one": np.float32(1)}),
    "Div by an array": ([node("Div", "d")], {"d": normal(3, 1, 1) + 9}),
    "Mul by one image": ([node("Mul", "d")], {"d": normal(1, 3, 6, 5)}),
    "Add a constant": ([node("Add", "c")], {"c": normal(5)}),
    "Max": ([node("Max", "c")], {"c": np.float32(0.1)}),
    "Pow": ([node("Pow", "two")], {"two": np.float32(2)}),
    "two values": ([node("Sigmoid", to="gate"), node("Mul", "gate")], {}),
    "Gemm": (
        [node("Flatten", to="flat"), helper.make_node("Gemm", ["flat", "w", "c"], ["last"], alpha=0.5, beta=2.0)],
        {"w": normal(90, 4), "c": normal(1, 4)},
    ),
    "Gemm transposed": (
        [node("Flatten", to="flat"), helper.make_node("Gemm", ["flat", "w"], ["last"], transB=1)],
        {"w": normal(4, 90)},
    ),
    "MatMul of a transposed constant": (
        [node("Flatten", to="flat"), helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
         helper.make_node("MatMul", ["flat", "t"], ["product"]), helper.make_node("Add", ["product", "c"], ["last"])],
        {"w": normal(4, 90), "c": normal(4)},
    ),
    "GlobalAveragePool": ([node("GlobalAveragePool")], {}),
    "AveragePool": ([node("AveragePool", kernel_shape=[2, 2], strides=[2, 1], pads=[1, 0, 1, 0])], {}),
    "AveragePool with zeros": ([node("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)], {}),
    "MaxPool": ([node("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)], {}),
    "ReduceMean": ([node("ReduceMean", axes=[-1], keepdims=0)], {}),
    "length 1": (
        [node("ReduceL2", axes=[1], to="l"), helper.make_node("Shape", ["images"], ["s"]),
         helper.make_node("Expand", ["l", "s"], ["e"]), node("Div", "e")],
        {},
    ),
    "Reshape by shape": (
        [node("Shape", to="s"), helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
         helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
         helper.make_node("Concat", ["n1", "rest"], ["sizes"], axis=0), node("Reshape", "sizes")],
        {"zero": np.array(0, np.int64), "axes": ints(0), "rest": ints(5, -1)},
    ),
    "Reshape with 0": ([node("Reshape", "sizes")], {"sizes": ints(0, 0, -1)}),
    "Squeeze": ([node("Unsqueeze", "one", to="more"), helper.make_node("Squeeze", ["more", "one"], ["last"])],
                {"one": ints(2)}),
    "Slice": ([node("Slice", "s", "e", "a", "t")],
              {"s": ints(1, -4), "e": ints(6, 99), "a": ints(2, 3), "t": ints(2, 1)}),
    "Slice from a computed place": (
        [helper.make_node("Div", ["p", "q"], ["d"]), helper.make_node("Reshape", ["d", "zero"], ["s"]),
         node("Slice", "s", "e", "a")],
        {"p": ints(-7), "q": ints(2), "zero": ints(0), "e": ints(99), "a": ints(3)},
    ),
    "Pad": ([node("Pad", "p", "v")], {"p": ints(0, 0, 1, 0, 0, 1, 0, 2), "v": np.float32(0.5)}),
    "Gather": ([node("Gather", "bgr", axis=1)], {"bgr": ints(2, 1, -3)}),
    "Gather one": ([node("Gather", "row", axis=-2)], {"row": np.array(4, np.int64)}),
    "Concat": ([node("Concat", "images", axis=1)], {}),
    "Dropout": ([node("Dropout", "r")], {"r": np.float32(0.4)}),
    "Constant": ([helper.make_node("Constant", [], ["c"], value_float=2.0), node("Mul", "c")], {}),
    "Cast and Identity": ([node("Cast", to="cast"), helper.make_node("Identity", ["cast"], ["last"])], {}),
}  # fmt: skip
# helper's own argument for the kind of number has the name of ours for the output
CASES["Cast and Identity"][0][0].attribute.append(helper.make_attribute("to", TensorProto.FLOAT))


@pytest.mark.parametrize(("nodes", "constants"), CASES.values(), ids=[*CASES])
def test_every_operator_gives_what_onnxruntime_gives(nodes, constants):
    _, wanted, given = read(small(nodes, constants))
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_nhwc_operators_between_transposes():
    nodes = [node("Transpose", to="planes", perm=[0, 3, 1, 2]), helper.make_node("Conv", ["planes", "w"], ["made"]),
             helper.make_node("Transpose", ["made"], ["last"], perm=[0, 2, 3, 1])]  # fmt: skip
    _, wanted, given = read(small(nodes, FOUR, "NHWC"), "NHWC")
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("numbers", ["float32", "uint8", "float16"])
def test_layouts_number_types_and_a_fixed_batch(tmp_path, layout, numbers):
    path = written(tmp_path / "net.onnx", graph(layout, numbers, 1))
    content, _ = read_foreign_onnx(path)
    pixels = OnnxNetwork(SIZE, SIDE, SIDE, 0.0, 1.0, "BGR", layout, numbers, 1, "images")
    network = read_network(content, pixels).network()
    given = network(network.normalise(torch.from_numpy(IMAGES).permute(0, 3, 1, 2))).detach().numpy()
    wanted = expected(IMAGES, 0.0, 1.0, "BGR")
    np.testing.assert_allclose(given, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_what_is_trained_and_what_is_not():
    nodes, constants = CASES["MatMul of a transposed constant"]
    content, *_ = read(small([node("Sub", "m", to="images_"), *nodes], {**constants, "m": normal(3, 1, 1)}))
    network = content.network()
    assert {name for name, _ in network.named_parameters()} == {"layers.1.weight", "layers.2.constant"}
    content, *_ = read(small(*CASES["BatchNormalization"]))
    assert content.arguments["operators"][0] == {
        "operator": "BatchNormalization", "inputs": [0], "channels": 3, "epsilon": pytest.approx(1e-3), "momentum": 0.2,
    }  # fmt: skip
    assert {name for name, _ in content.network().named_buffers()} >= {"layers.0.running_mean"}


def test_only_what_the_embedding_needs_is_read():
    content, *_ = read(small([node("Relu"), node("Wish", to="unused")][:1], {}))
    model = small([node("Relu"), node("Wish", to="unused")], {})
    assert (
        read_network(model.SerializeToString(), pixels_of(small([node("Relu")], {}), 90)).arguments == content.arguments
    )


REFUSED = {
    "unknown": ([node("LSTM", "w")], FOUR, "its operator 'LSTM' cannot be trained on here; adopt the graph without"),
    "of another domain": ([node("FusedConv", "w", domain="com.microsoft")], FOUR,
                          "its operator 'FusedConv' of 'com.microsoft' cannot be trained on here"),
    "an attribute": ([node("Relu", alpha=1.0)], {}, "its operator 'Relu': its attribute 'alpha' is not read here"),
    "weights computed": ([node("Conv", "images")], {}, "'Conv': its input 2, 'images', is computed"),
    "a constant as image": ([helper.make_node("Relu", ["w"], ["last"])], FOUR, "'Relu': its input 'w' is a constant"),
    "a number for each image": (
        [node("Flatten", to="flat"), helper.make_node("Gemm", ["flat", "w", "c"], ["last"])],
        {"w": normal(90, 4), "c": normal(4, 1)}, r"'Gemm': what it adds has the shape \[4, 1\]",
    ),
    "three axes": ([node("Conv", "w")], {"w": normal(4, 3, 3)}, "its filters have 3 axes"),
    "channels": ([node("Conv", "w")], {"w": normal(4, 2, 3, 3)}, "'Conv': "),
    "training": ([node("BatchNormalization", "g", "o", "m", "v", training_mode=1)], NORM,
                 "export the graph in evaluation mode"),
    "too few statistics": ([node("BatchNormalization", "g", "o", "m", "m2")], {**NORM, "m2": normal(2)},
                           "its running_var has 2 numbers, where 3 are due"),
    "no statistics": ([node("BatchNormalization", "g", "o")], NORM, "it has no input 4"),
    "slopes of pixels": ([node("PRelu", "s")], {"s": normal(3, 6, 5)}, r"its slopes have shape \(3, 6, 5\)"),
    "slopes along the width": ([node("PRelu", "s")], {"s": normal(5)}, r"its slopes have shape \(5,\)"),
    "over the batch": ([node("ReduceMean", axes=[0])], {}, r"its axes are \[0\]; those of an image are due"),
    "over all": ([node("ReduceMean")], {}, "it reduces all axes"),
    "the batch reshaped": ([node("Reshape", "s")], {"s": ints(2, -1)}, "the first axis must stay the batch"),
    "reshaped to more": ([node("Reshape", "s")], {"s": ints(-1, 91)}, "it reshapes 90 numbers of an image to"),
    "the batch permuted": ([node("Transpose", perm=[1, 0, 2, 3])], {}, r"order is \(1, 0, 2, 3\)"),
    "the batch sliced": ([node("Slice", "s", "e", "a")], {"s": ints(0), "e": ints(1), "a": ints(0)}, "its axes are"),
    "backwards": ([node("Slice", "s", "e", "a", "t")], {"s": ints(4), "e": ints(0), "a": ints(2), "t": ints(-1)},
                  "its step is -1"),
    "many places": ([node("Gather", "p", axis=3)], {"p": ints(*[0] * 65)}, "it takes 65 places of an axis; 1 to 64"),
    "places of the batch": ([node("Gather", "p", axis=0)], {"p": ints(0)}, r"its axes are \[0\]"),
    "the number of images": ([node("Shape", to="s"), helper.make_node("Cast", ["s"], ["f"], to=1), node("Mul", "f")],
                             {}, "it computes with the number of images"),
    "text": ([node("Add", "t")], {"t": np.array(["a"], object)}, "its weights 't'"),
    "whole numbers": ([helper.make_node("Cast", ["images"], ["last"], to=7)], {}, "through which no gradient goes"),
    "from nowhere": ([node("Add", "ghost")], {}, "its input 'ghost' is computed nowhere before"),
    "a constant embedding": ([helper.make_node("Identity", ["w"], ["last"])], FOUR, "'Flatten': its input"),
    "a repeated huge constant": ([helper.make_node("Concat", ["w", "w"], ["c"], axis=0), node("Add", "c")],
                                 {"w": normal(5000)}, "constants of more than 4,096 numbers"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "constants", "line"), REFUSED.values(), ids=[*REFUSED])
def test_a_graph_is_refused_by_the_operator_that_cannot_be_read(nodes, constants, line):
    pixels = OnnxNetwork(90, 6, 5, 0.0, 1.0, image_input="images")
    with pytest.raises(ValueError, match=line) as refused:
        read_network(small(nodes, constants).SerializeToString(), pixels)
    assert "\n" not in str(refused.value)


def test_operators_of_an_old_version_are_refused():
    with pytest.raises(ValueError, match="its operators are of version 6; version 7 and later can be read"):
        read_network(small([node("Relu")], {}, version=6).SerializeToString(), OnnxNetwork(90, 6, 5))


def test_a_network_that_differs_from_the_graph_is_refused():
    model = small([node("Conv", "w")], FOUR)
    pixels = pixels_of(model, 48)
    network = read_network(model.SerializeToString(), pixels).network()
    assert check_equal(network, pixels) < 1e-6
    with torch.no_grad():
        network.layers[0].weight[0] *= 1.001
    with pytest.raises(
        ValueError, match=r"differs from the graph by 0\.0\S+ of the largest number \(allowed 0\.0001\)"
    ):
        check_equal(network, pixels)


# ---- real networks


@pytest.fixture(params=["pretrained_mobilefacenet.onnx", "second_mobilefacenet.onnx"])
def real(request) -> tuple[OnnxNetwork, GraphContent]:
    path = DATA / request.param
    if not path.is_file():
        pytest.skip("the pretrained networks are not here")
    content, ends = read_foreign_onnx(path)
    names = {"image_input": ends.image_input, "embedding_output": ends.embedding_output}
    pixels = OnnxNetwork(128, 112, 112, 0.0, 1.0, **names)
    pixels.read(content, path)
    return pixels, read_network(content, pixels)


def test_a_pretrained_network_is_read_to_1e_5_and_trained(real):
    pixels, content = real
    network = content.network()
    assert check_equal(network, pixels) < 1e-5
    assert check_equal(network.to(memory_format=torch.channels_last), pixels) < 1e-5
    if (DATA / "lfw_112.zip").is_file():
        faces = lfw_faces(3)
        with torch.no_grad():
            wanted, given = pixels(faces), network(faces)
        assert (wanted - given).abs().max() < 1e-5 * wanted.abs().max()
    noise = 255 * torch.rand(8, 3, 112, 112, generator=torch.Generator().manual_seed(0))
    (network.train()(noise) * torch.randn(8, 128, generator=torch.Generator().manual_seed(1))).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad.abs().max() > 0, name
    again = GraphNetwork(**content.arguments).to(memory_format=torch.channels_last)
    again.load_state_dict(network.state_dict())
    with torch.no_grad():
        assert torch.equal(again.eval()(noise[:1]), network.eval()(noise[:1]))


def lfw_faces(count: int) -> torch.Tensor:
    import zipfile
    from io import BytesIO

    from PIL import Image

    with zipfile.ZipFile(DATA / "lfw_112.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".jpg")][:count]
        faces = [np.asarray(Image.open(BytesIO(archive.read(name))).convert("RGB")) for name in names]
    return torch.from_numpy(np.stack(faces)).permute(0, 3, 1, 2).float()
