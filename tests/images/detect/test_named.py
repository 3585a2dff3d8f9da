"""Detectors by name: which word makes which, and one line for a word that makes none."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import pytest

from blue_squares import write_blue_squares
from verisphere.base.provenance import Origin
from verisphere.images.detect import Detector, FaceDetector, detector_named
from verisphere.images.detect.from_function import FunctionDetector
from verisphere.images.detect.yunet import YuNet

needs_weights = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")


@needs_weights
def test_mtcnn():
    detector = detector_named("mtcnn", min_face=33)
    assert isinstance(detector, Detector)
    assert isinstance(detector, FaceDetector)
    assert (detector.name, detector.min_face) == ("MTCNN", 33)


def test_a_file_and_a_function(tmp_path):
    by_file = detector_named(str(write_blue_squares(tmp_path / "blue.onnx")), min_face=33)
    by_name = detector_named("json:loads", min_face=33, trust_code=True)
    assert isinstance(by_file, YuNet)
    assert isinstance(by_name, FunctionDetector)
    for detector in (by_file, by_name):
        assert isinstance(detector, FaceDetector)
        assert detector.min_face == 33
    assert re.fullmatch(r"json:loads \([0-9a-f]{12}\)", by_name.name)


def test_other_code_is_another_detector(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    names = []
    for code in ("[]", "[]", "[*()]"):
        (tmp_path / "of_people.py").write_text(f"def find(image):\n    return {code}\n")
        names.append(detector_named("of_people:find", trust_code=True).name)
    assert names[0] == names[1] != names[2]
    made = [Origin("ab" * 32, False, "float32", "a.zip", None, f"arcface_112x112 by {name}") for name in names]
    assert made[0].differences(made[1]) == ()
    assert made[0].differences(made[2]) == (f"detector {names[0]} against {names[2]}",)
    before = replace(made[0], alignment="arcface_112x112 by of_people:find")  # without the digest
    assert before.differences(made[2]) == made[2].differences(before) == ()


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("mtcn", r"^there is no detector 'mtcn' \(did you mean mtcnn\?\); allowed are mtcnn, scrfd or retinaface "),
        ("haar", r"^there is no detector 'haar'; allowed are mtcnn, scrfd"),
        ("", r"^there is no detector ''; allowed are mtcnn"),
        ("yunet", r"^detector 'yunet' is named by its file, such as face_detection_yunet_2023mar\.onnx"),
        ("json:loads", r"^detector 'json:loads' is not part of verisphere; .* allow it by --trust-code$"),
    ],
)
def test_a_word_that_names_none(name: str, line: str):
    with pytest.raises(ValueError, match=line):
        detector_named(name)


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"gone\.onnx"):
        detector_named(str(tmp_path / "gone.onnx"))
