"""Detectors by name: which word makes which, and one line for a word that makes none."""

import importlib.util
from pathlib import Path

import pytest

from blue_squares import write_blue_squares
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
    assert by_name.name == "json:loads"


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
