"""SCRFD and RetinaFace through InsightFace's package (extra: insightface).

Guo et al. 2021 (arXiv:2105.04714) and Deng et al. 2019 (arXiv:1905.00641). The package decodes the networks' outputs,
and downloads the files of a pack on first use; its models are for non-commercial research.
"""

import contextlib
import hashlib
import importlib.util
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere.base.words import install_extra, unknown_name
from verisphere.files.disk import read_file
from verisphere.files.limited_run import run_limited
from verisphere.files.onnx_graph import LARGEST_ONNX, axes_of, first_line, only_input, read_graph
from verisphere.images.detect.detections import Detections, Image, faces_from

#: Packs whose detector is an SCRFD (insightface's python-package/README.md); the first is the default.
PACKS = ("buffalo_l", "buffalo_m", "buffalo_s", "buffalo_sc", "antelopev2")
_SIDE = 640  # side of the square that an image is fitted into, as in the package's examples
_LEAST_SCORE = 0.5  # the package's default


class InsightFaceDetector:
    """Finds faces and their five landmarks by a detector that the package insightface runs."""

    def __init__(self, model: str = PACKS[0], device: torch.device | str = "cpu", min_face: int = 20) -> None:
        path = Path(model) if model.endswith(".onnx") else None
        if path is None and model not in PACKS:
            raise ValueError(unknown_name("pack of insightface", model, PACKS) + ", or the path of an .onnx file")
        if importlib.util.find_spec("insightface") is None:
            raise ValueError(
                "SCRFD and RetinaFace need the package insightface, not installed here; " + install_extra("insightface")
            )
        if path is not None:
            _check_graph(path)
        place = torch.device(device)
        gpu = -1 if place.type == "cpu" else place.index or 0
        with _one_line(f"insightface cannot load {model}"), _silent():
            self._model = _from_file(path, gpu) if path else _from_pack(model, gpu)
        file = getattr(self._model, "model_file", None)
        digest = f" ({hashlib.sha256(read_file(Path(file), LARGEST_ONNX)).hexdigest()[:12]})" if file else ""
        self.name = f"insightface {path.name if path else model}{digest}"
        self.min_face = min_face

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """The faces in each image; images are searched one by one."""
        return [self._detect(image) for image in images]

    def how_searched(self, height: int, width: int) -> str:
        """The size of the copy that is searched."""
        return f"fitted into {_SIDE} x {_SIDE} pixels for {self.name}"

    def _detect(self, image: Image) -> Detections:
        with _one_line(f"{self.name} fails on {image.shape[1]} x {image.shape[0]} pixels"), _silent():
            faces, landmarks = self._model.detect(np.ascontiguousarray(image[..., ::-1]))  # it takes BGR
        rows = np.asarray(faces, np.float32).reshape(-1, 5)  # left, top, right, bottom, score
        if landmarks is None:
            raise ValueError(f"{self.name} gives boxes without landmarks; choose a detector with five points")
        # the order of the package: eyes, nose, corners of the mouth, of each pair the one on the image's left first
        points = np.asarray(landmarks, np.float32).reshape(-1, 5, 2)
        return faces_from(rows[:, :4], points, rows[:, 4], self.min_face)


def _check_graph(path: Path) -> None:
    """Check a file like every graph from elsewhere, before the package runs it without limits."""
    content, model = read_graph(path)
    try:
        image = only_input(model.graph)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    sides = [side or _SIDE for side in axes_of(image)[2:]]
    asked = {"input": image.name, "outputs": [end.name for end in model.graph.output], "shape": [3, *sides],
             "numbers": "float32", "mean": 127.5, "scale": 128.0}  # fmt: skip
    run_limited(content, path, asked, [1])


def _from_file(path: Path, gpu: int) -> Any:
    from insightface.model_zoo import get_model

    model = get_model(str(path))
    if getattr(model, "taskname", None) != "detection":
        raise ValueError(f"it is no detector, but {getattr(model, 'taskname', None) or 'of no kind known there'}")
    model.prepare(ctx_id=gpu, input_size=(_SIDE, _SIDE), det_thresh=_LEAST_SCORE)
    return model


def _from_pack(name: str, gpu: int) -> Any:
    from insightface.app import FaceAnalysis

    analysis = FaceAnalysis(name=name, allowed_modules=["detection"])
    analysis.prepare(ctx_id=gpu, det_thresh=_LEAST_SCORE, det_size=(_SIDE, _SIDE))
    return analysis.det_model


@contextlib.contextmanager
def _one_line(what: str) -> Iterator[None]:
    """The message of any error of the package, in one line."""
    try:
        yield
    except Exception as error:  # the package raises errors of all kinds, failed assertions among them
        raise ValueError(f"{what}: {first_line(error)}") from None


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silence standard output, which is for results: the package prints there what it loads."""
    with contextlib.redirect_stdout(io.StringIO()):
        yield
