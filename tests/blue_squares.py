"""A stand-in for YuNet's ONNX file, whose weights cannot be had here: it finds blue squares of 32 pixels.

Its ends are those of face_detection_yunet_2023mar.onnx. The score of a cell of stride 32 is the root of its mean blue,
so only a blue square that fills a cell is a face; its box is the cell, and its landmarks lie in the cell as those of
the template arcface_112x112 do in a crop. The cells of the other strides see as much blue, and hold no object.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from verisphere.images.detect import TEMPLATES

SIDE = 32
#: Landmarks in sides of the square.
PLACES = (np.array(TEMPLATES["arcface_112x112"].points) / 112).astype(np.float32)


def blue_squares(height: int | None = None, width: int | None = None, batch: int | None = 1) -> onnx.ModelProto:
    """The graph, for one size of images or for any."""
    constants = {
        "first": np.array([0], np.int64),
        "second": np.array([1], np.int64),
        "colours": np.array([1], np.int64),
        "white": np.array(255, np.float32),
        "cells": np.array([1, -1, 1], np.int64),
        "none": np.array(0, np.float32),
        "all": np.array(1, np.float32),
        "box": np.array([[0.5, 0.5, 0, 0]], np.float32),
        "points": PLACES.reshape(1, 10),
    }
    node = helper.make_node
    nodes = [
        node("Slice", ["input", "first", "second", "colours"], ["blue"]),
        node("Div", ["blue", "white"], ["share"]),
    ]
    outputs = []
    for stride in (8, 16, 32):
        of_stride = f"_{stride}"
        nodes += [
            node("AveragePool", ["share"], ["mean" + of_stride], kernel_shape=[stride] * 2, strides=[stride] * 2),
            node("Reshape", ["mean" + of_stride, "cells"], ["cls" + of_stride]),
            node("Mul", ["cls" + of_stride, "none"], ["zero" + of_stride]),
            node("Add", ["zero" + of_stride, "all"], ["one" + of_stride]),
            node("Identity", [("one" if stride == SIDE else "zero") + of_stride], ["obj" + of_stride]),
            node("MatMul", ["one" + of_stride, "box"], ["bbox" + of_stride]),
            node("MatMul", ["one" + of_stride, "points"], ["kps" + of_stride]),
        ]
        outputs += [(kind + of_stride, size) for kind, size in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))]
    graph = helper.make_graph(
        nodes,
        "blue_squares",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, height, width])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None, size]) for name, size in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def write_blue_squares(path: Path, height: int | None = None, width: int | None = None) -> Path:
    """The path, after the graph was written there."""
    path.write_bytes(blue_squares(height, width).SerializeToString())
    return path


def photo(height: int, width: int, *corners: tuple[int, int], side: int = SIDE) -> np.ndarray:
    """A red and green picture, RGB, with a blue square at each (left, top)."""
    pixels = np.full((height, width, 3), (200, 90, 0), np.uint8)
    for left, top in corners:
        pixels[top : top + side, left : left + side] = (0, 0, 255)
    return pixels
