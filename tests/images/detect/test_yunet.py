"""YuNet: its decoding by hand, a stand-in with its ends on pictures, and files that are no YuNet."""

import hashlib
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from blue_squares import PLACES, SIDE, blue_squares, photo, write_blue_squares
from foreign_graphs import graph
from verisphere.images.detect.yunet import OUTPUTS, YuNet, decoded


@pytest.fixture(scope="module")
def any_size(tmp_path_factory: pytest.TempPathFactory) -> YuNet:
    return YuNet(write_blue_squares(tmp_path_factory.mktemp("yunet") / "any.onnx"))


def outputs(height: int, width: int) -> dict[str, np.ndarray]:
    """No face anywhere."""
    widths = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
    return {
        name: np.zeros((1, height * width // int(name.split("_")[1]) ** 2, widths[name.split("_")[0]]), np.float32)
        for name in OUTPUTS
    }


def test_the_decoding_by_hand():
    given = outputs(32, 64)
    # stride 8: 4 rows of 8 cells; cell 11 is row 1, column 3
    given["cls_8"][0, 11], given["obj_8"][0, 11] = 0.9025, 1  # score 0.95
    given["bbox_8"][0, 11] = 0.5, 0.25, np.log(2), np.log(4)  # centre (28, 10), 16 x 32
    given["kps_8"][0, 11] = [0.5, 1.0] * 4 + [-1.0, 0.0]  # (28, 16) and (16, 8)
    # stride 32: 1 row of 2 cells; cell 1 is row 0, column 1; above 1 both are clipped
    given["cls_32"][0, 1], given["obj_32"][0, 1] = 1.3, 2
    given["cls_16"][0, 3], given["obj_16"][0, 3] = 0.8, 1  # score 0.894: too low
    boxes, landmarks, scores = decoded(given, 32, 64)
    np.testing.assert_allclose(boxes, [[20, -6, 36, 26], [16, -16, 48, 16]], atol=1e-5)
    np.testing.assert_allclose(landmarks[0], [[28, 16]] * 4 + [[16, 8]], atol=1e-5)
    np.testing.assert_allclose(landmarks[1], [[32, 0]] * 5, atol=1e-5)
    np.testing.assert_allclose(scores, [0.95, 1], atol=1e-6)


def test_numbers_too_large_for_an_image_stay_finite():
    given = outputs(32, 32)
    given["cls_32"][:], given["obj_32"][:] = 1, 1
    given["bbox_32"][:], given["kps_32"][:] = 3e38, -3e38
    boxes, landmarks, _ = decoded(given, 32, 32)
    assert np.isfinite(boxes).all()
    assert (landmarks == -1e6).all()


def test_a_picture_of_any_size(any_size):
    # 70 x 100 is searched as 96 x 128; what lies on the right and below is black
    two, none = any_size.detect([photo(70, 100, (32, 32), (64, 0)), photo(20, 30)])
    assert len(none) == 0
    order = np.argsort(two.boxes[:, 0])
    assert two.boxes[order].tolist() == [[32, 32, 64, 64], [64, 0, 96, 32]]
    np.testing.assert_allclose(two.landmarks[order[0]], 32 + PLACES * SIDE, atol=1e-4)
    np.testing.assert_allclose(two.scores, 1, atol=1e-6)


def test_the_pixels_are_blue_first(any_size):
    picture = photo(64, 64, (32, 32))
    assert len(any_size.detect([picture])[0]) == 1
    assert len(any_size.detect([picture[..., ::-1].copy()])[0]) == 0


def test_a_large_picture_is_searched_in_a_smaller_copy(any_size):
    (faces,) = any_size.detect([photo(800, 1280, (128, 64), side=64)])  # halved: 32 pixels at (64, 32)
    assert faces.boxes.tolist() == [[128, 64, 192, 128]]
    np.testing.assert_allclose(faces.landmarks[0], 2 * (np.array([64, 32]) + PLACES * SIDE) + 0.5, atol=1e-4)


def test_where_no_face_is_found_half_the_size_is_searched(any_size, monkeypatch):
    run, searched = any_size._run, []

    def blind_at_first(image: np.ndarray) -> dict[str, np.ndarray]:
        searched.append(image.shape[:2])
        given = run(image)
        return given if len(searched) > 1 else {name: 0 * value for name, value in given.items()}

    monkeypatch.setattr(any_size, "_run", blind_at_first)
    (faces,) = any_size.detect([photo(320, 640, (128, 64), side=64)])
    assert searched == [(320, 640), (160, 320)]
    assert faces.boxes.tolist() == [[128, 64, 192, 128]]
    assert any_size.how_searched(320, 640) == "searched with longer sides of 640 and 320 pixels"
    assert any_size.how_searched(200, 250) == "searched with longer sides of 250 pixels"


def test_a_graph_of_one_size_and_the_smallest_face(tmp_path):
    path = write_blue_squares(tmp_path / "fixed.onnx", 64, 96)
    detector = YuNet(path)
    assert detector.name == f"YuNet ({hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"
    picture = photo(128, 128, (64, 64), side=64)  # fits as 64 x 64
    assert detector.detect([picture])[0].boxes.tolist() == [[64, 64, 128, 128]]
    detector.min_face = 33  # of the searched pixels
    assert len(detector.detect([picture])[0]) == 0


# ---- what is no YuNet


def without_boxes() -> onnx.ModelProto:
    model = blue_squares()
    del model.graph.output[2]
    return model


def with_code() -> onnx.ModelProto:
    model = blue_squares()
    model.graph.node[0].domain = "my.own"
    return model


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (graph(), "no YuNet: it has no output cls_8; a detector in an ONNX file is the YuNet of OpenCV's model zoo"),
        (without_boxes(), "no YuNet: it has no output bbox_8"),
        (with_code(), "needs the operator 'Slice' of 'my.own', which runs code of its own"),
        (blue_squares(100, 100), "no YuNet: its input is 100 x 100 pixels; allowed are multiples of 32 up to 4096"),
        (blue_squares(batch=4), "no YuNet: its input 'input' is 4 x 3 x ? x ? with numbers of kind 1; 1 x 3 x height"),
    ],
    ids=["an embedding", "no boxes", "code", "its size", "its batch"],
)
def test_another_graph_is_refused_in_one_line(tmp_path: Path, model: onnx.ModelProto, line: str):
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=re.escape(line)) as refused:
        YuNet(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_a_graph_that_eats_memory_does_so_in_a_process_with_limits(tmp_path):
    model = blue_squares()
    model.graph.initializer.append(numpy_helper.from_array(np.array([1 << 30, 1, 1, 1], np.int64), "times"))
    nodes = list(model.graph.node)
    nodes[1].input[0] = "small"  # of the division after the first node
    tiled = helper.make_node("Tile", ["blue", "times"], ["large"])  # 2^42 numbers, which no size in the file tells
    nodes[1:1] = [tiled, helper.make_node("ReduceMax", ["large"], ["small"], axes=[0], keepdims=1)]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    (tmp_path / "large.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"large\.onnx: does not run"):
        YuNet(tmp_path / "large.onnx")


def test_outputs_of_another_size_are_refused(any_size, monkeypatch):
    class Session:
        def run(self, names, given):
            return [np.zeros((1, 5, 1), np.float32) for _ in names]

    monkeypatch.setattr(any_size, "_session", Session())
    with pytest.raises(
        ValueError, match=r"no YuNet: its output cls_8 has shape \(1, 5, 1\) .* of shape \(1, 16, 1\) are due"
    ):
        any_size.detect([photo(32, 32)])


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        YuNet(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ValueError, match=r"text\.onnx: not an ONNX file"):
        YuNet(tmp_path / "text.onnx")
