"""Small ONNX graphs as others make them: a linear map of the pixels, in any layout, number type and batch."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE, SIZE = 8, 6
KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "uint8": TensorProto.UINT8}


def weights(seed: int = 0) -> np.ndarray:
    """Of the map from 3 x SIDE x SIDE pixels to an embedding; no two colours are treated alike."""
    return np.random.default_rng(seed).normal(size=(3 * SIDE * SIDE, SIZE)).astype(np.float32)


def graph(
    layout: str = "NCHW",
    numbers: str = "float32",
    batch: int | None = None,
    *,
    side: int | None = SIDE,
    normalised: bool = True,
    names: tuple[str, str] = ("Sub_0", "Mul_1"),
    listed: bool = False,
) -> onnx.ModelProto:
    """An embedding (n, SIZE) of images: their pixels times `weights`, whatever the layout.

    Args:
        layout: order of the axes.
        numbers: number type of the input.
        batch: number of images; None for any.
        side: declared height and width; None leaves them open.
        normalised: whether it takes pixels that have been normalised; else it subtracts 127.5 and divides by 128.
        names: names of the nodes that subtract and divide.
        listed: whether the weights stand among the inputs too, as older exporters write them.
    """
    places = (3, side, side) if layout == "NCHW" else (side, side, 3)
    nodes, last = [], "images"
    if numbers != "float32":
        nodes.append(helper.make_node("Cast", [last], ["cast"], to=TensorProto.FLOAT))
        last = "cast"
    constants = [numpy_helper.from_array(weights(), "weights")]
    if not normalised:
        constants += [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in
                      (("mean", 127.5), ("scale", 1 / 128))]  # fmt: skip
        nodes += [
            helper.make_node("Sub", [last, "mean"], ["centred"], name=names[0]),
            helper.make_node("Mul", ["centred", "scale"], ["scaled"], name=names[1]),
        ]
        last = "scaled"
    if layout == "NHWC":
        nodes.append(helper.make_node("Transpose", [last], ["planes"], perm=[0, 3, 1, 2]))
        last = "planes"
    nodes += [
        helper.make_node("Flatten", [last], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["embedding"]),
    ]
    inputs = [helper.make_tensor_value_info("images", KINDS[numbers], [batch or "n", *places])]
    if listed:
        inputs.append(helper.make_tensor_value_info("weights", TensorProto.FLOAT, [3 * SIDE * SIDE, SIZE]))
    made = helper.make_graph(
        nodes,
        "elsewhere",
        inputs,
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, [batch or "n", SIZE])],
        constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def convolutions() -> onnx.ModelProto:
    """A small network as exporters write one: convolution, batch norm, PReLU, pooling, a computed reshape."""
    generator = np.random.default_rng(0)

    def numbers(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(generator.uniform(0.1, 1, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["images", "filters", "bias"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"], epsilon=1e-3),
        helper.make_node("PRelu", ["n", "slopes"], ["p"]),
        helper.make_node("Conv", ["p", "depthwise"], ["d"], group=4, auto_pad="SAME_UPPER"),
        helper.make_node("Add", ["p", "d"], ["s"]),
        helper.make_node("AveragePool", ["s"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Shape", ["q"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "axis"], ["first"]),
        helper.make_node("Concat", ["first", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["q", "sizes"], ["flat"]),
        helper.make_node("Gemm", ["flat", "matrix", "last"], ["embedding"], transB=1),
    ]
    constants = [
        numbers("filters", 4, 3, 3, 3), numbers("bias", 4), numbers("slopes", 4, 1, 1),
        numbers("depthwise", 4, 1, 2, 2),
        *(numbers(name, 4) for name in "gbmv"), numbers("matrix", SIZE, 16), numbers("last", SIZE),
        *(numpy_helper.from_array(np.array(value, np.int64), name)
          for name, value in (("zero", 0), ("axis", [0]), ("rest", [-1]))),
    ]  # fmt: skip
    made = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["n", SIZE])],
        constants,
    )
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written(path: Path, model: onnx.ModelProto) -> Path:
    """The path, after the model was written there."""
    path.write_bytes(model.SerializeToString())
    return path


def expected(images: np.ndarray, mean: float, scale: float, colour: str = "RGB") -> np.ndarray:
    """Embeddings of uint8 RGB images (n, SIDE, SIDE, 3) by `weights`, worked out in float64."""
    pixels = images[..., ::-1] if colour == "BGR" else images
    flat = ((pixels.astype(np.float64) - mean) / scale).transpose(0, 3, 1, 2).reshape(len(images), -1)
    return flat @ weights().astype(np.float64)


def attributes(node: Any) -> dict[str, Any]:
    """The attributes of a node by name."""
    return {one.name: helper.get_attribute_value(one) for one in node.attribute}
