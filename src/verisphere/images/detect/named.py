"""Detectors by their names on the command line."""

from pathlib import Path

import torch

from verisphere.base.words import did_you_mean
from verisphere.files.named_function import find_function
from verisphere.images.detect.detections import FaceDetector
from verisphere.images.detect.detector import Detector
from verisphere.images.detect.from_function import FunctionDetector
from verisphere.images.detect.scrfd import PACKS, InsightFaceDetector
from verisphere.images.detect.yunet import YuNet

_OF_INSIGHTFACE = ("scrfd", "retinaface")
_FORMS = (
    "mtcnn, scrfd or retinaface (both also with :PACK or :FILE.onnx), the path of YuNet's .onnx, or module:function"
)


def detector_named(
    name: str, device: torch.device | str = "cpu", min_face: int = 20, trust_code: bool = False
) -> FaceDetector:
    """The detector with this name.

    Args:
        name: `mtcnn`; `scrfd` or `retinaface`, by themselves (the pack buffalo_l) or with `:PACK` or `:FILE.onnx`; the
            path of an ONNX file of YuNet; or `module:function` (see `FunctionDetector`).
        min_face: side of the smallest face that is found, in pixels.
    """
    if name == "mtcnn":
        return Detector(device, min_face=min_face)
    kind, colon, model = name.partition(":")
    if kind in _OF_INSIGHTFACE:
        return InsightFaceDetector(model if colon else PACKS[0], device, min_face)
    if name.endswith(".onnx") or Path(name).is_file():
        return YuNet(Path(name), min_face)
    if colon:
        function, _, digest = find_function(name, trust_code, "detector")
        return FunctionDetector(function, f"{name} ({digest[:12]})", min_face)
    if name == "yunet":
        raise ValueError("detector 'yunet' is named by its file, such as face_detection_yunet_2023mar.onnx of OpenCV's "
                         "model zoo")  # fmt: skip
    near = did_you_mean(name, ("mtcnn", *_OF_INSIGHTFACE, "yunet"))
    raise ValueError(f"there is no detector {name!r}{near}; allowed are {_FORMS}")
