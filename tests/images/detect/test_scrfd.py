"""SCRFD and RetinaFace through a stand-in for the package insightface, which is not installed where this is tested."""

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from blue_squares import blue_squares, write_blue_squares
from verisphere.images.detect.scrfd import InsightFaceDetector

# The calls and results of insightface 0.7: model_zoo/retinaface.py, model_zoo/model_zoo.py, app/face_analysis.py.
ZOO = """
import numpy as np

class Detector:
    taskname = "detection"

    def __init__(self, model_file):
        self.model_file, self.use_kps = model_file, True

    def prepare(self, ctx_id, **settings):
        self.asked = (ctx_id, settings)
        print("set det-size:", settings["input_size"])

    def detect(self, img, input_size=None, max_num=0, metric="default"):
        assert img.dtype == np.uint8 and img.flags.c_contiguous
        if img[0, 0, 0] != 255:  # the first colour is blue
            return np.zeros((0, 5), np.float32), np.zeros((0, 5, 2), np.float32)
        faces = np.array([[10, 10, 20, 20, 0.6], [30, 40, 60, 80, 0.9], [1, 1, 11, 22, 0.7]], np.float32)
        points = np.arange(30, dtype=np.float32).reshape(3, 5, 2)
        return faces, points if self.use_kps else None

def get_model(name, **kwargs):
    if "broken" in name:
        raise AssertionError("model_file should be file")
    if "recognition" in name:
        model = Detector(name)
        model.taskname = "recognition"
        return model
    return Detector(name)
"""
APP = """
from pathlib import Path
from insightface.model_zoo import Detector

class FaceAnalysis:
    def __init__(self, name="buffalo_l", root="~/.insightface", allowed_modules=None):
        assert allowed_modules == ["detection"]
        if name == "antelopev2":
            raise OSError("cannot fetch it")
        print("find model:", name)
        file = Path(__file__).with_name(name + ".onnx")
        file.write_bytes(b"weights")
        self.det_model = Detector(str(file))

    def prepare(self, ctx_id, det_thresh=0.5, det_size=(640, 640)):
        self.det_model.prepare(ctx_id, input_size=det_size, det_thresh=det_thresh)
"""


def forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "insightface"]:
        del sys.modules[name]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if importlib.util.find_spec("insightface") is not None:
        pytest.skip("insightface itself is installed, and is not to be replaced")
    folder = tmp_path / "site" / "insightface"
    folder.mkdir(parents=True)
    for name, text in (("__init__", ""), ("model_zoo", ZOO), ("app", APP)):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder.parent)
    yield folder
    forget()


BLUE = np.zeros((100, 120, 3), np.uint8)
BLUE[..., 2] = 255


def test_the_detector_of_a_pack(package, capsys):
    detector = InsightFaceDetector(min_face=11)
    assert detector.name == f"insightface buffalo_l ({hashlib.sha256(b'weights').hexdigest()[:12]})"
    assert detector._model.asked == (-1, {"input_size": (640, 640), "det_thresh": 0.5})
    faces, none = detector.detect([BLUE, BLUE[..., ::-1]])
    assert len(none) == 0
    assert faces.boxes.tolist() == [[30, 40, 60, 80], [1, 1, 11, 22]]  # the best first; 10 pixels are too small
    assert faces.landmarks[0].tolist() == np.arange(10, 20).reshape(5, 2).tolist()
    np.testing.assert_allclose(faces.scores, [0.9, 0.7])
    assert detector.how_searched(100, 120).startswith("fitted into 640 x 640 pixels for insightface buffalo_l")
    assert capsys.readouterr() == ("", "")


def test_a_detector_in_a_file(package, tmp_path):
    path = write_blue_squares(tmp_path / "det.onnx")  # any graph: the stand-in opens none
    detector = InsightFaceDetector(str(path))
    assert detector.name == f"insightface det.onnx ({hashlib.sha256(path.read_bytes()).hexdigest()[:12]})"
    detector._model.use_kps = False
    with pytest.raises(ValueError, match=r"insightface det\.onnx .* gives boxes without landmarks"):
        detector.detect([BLUE])


@pytest.mark.parametrize(
    ("model", "line"),
    [
        ("buffalo_x", "there is no pack of insightface 'buffalo_x' (did you mean buffalo_"),
        ("antelopev2", "insightface cannot load antelopev2: cannot fetch it"),
        ("recognition.onnx", "recognition.onnx: it is no detector, but recognition"),
        ("broken.onnx", "broken.onnx: model_file should be file"),
    ],
)
def test_what_cannot_be_loaded_ends_with_one_line(package, tmp_path, monkeypatch, model, line):
    monkeypatch.chdir(tmp_path)
    for name in ("recognition.onnx", "broken.onnx"):
        write_blue_squares(tmp_path / name)
    with pytest.raises(ValueError, match=re.escape(line)) as refused:
        InsightFaceDetector(model)
    assert "\n" not in str(refused.value)


def test_a_file_is_checked_before_the_package_runs_it(package, tmp_path):
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ValueError, match=r"text\.onnx: not an ONNX file"):
        InsightFaceDetector(str(tmp_path / "text.onnx"))
    model = blue_squares()
    model.graph.node[0].op_type = "Wish"
    (tmp_path / "wish.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"wish\.onnx: does not run: .*Wish"):
        InsightFaceDetector(str(tmp_path / "wish.onnx"))
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        InsightFaceDetector(str(tmp_path / "none.onnx"))


def test_without_the_package(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "insightface" else find(name))
    with pytest.raises(ValueError, match=r"not installed here; .*pip install '\.\[insightface\]'"):
        InsightFaceDetector()
