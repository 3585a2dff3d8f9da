"""YuNet, a small detector given as an ONNX file (extra: export).

Wu, Peng and Yu 2023 ("YuNet: A Tiny Millisecond-level Face Detector", Machine Intelligence Research 20). The decoding
is that of OpenCV's FaceDetectorYN (modules/objdetect/src/face_detect.cpp), for the graph that its model zoo publishes
as face_detection_yunet_2023mar.onnx: BGR pixels in [0, 255]; outputs `cls_S`, `obj_S`, `bbox_S` and `kps_S` for the
strides S = 8, 16, 32, a row for each cell of the grid, row by row.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, UInt8

from verisphere.files.json_values import shown
from verisphere.files.limited_run import run_limited
from verisphere.files.onnx_graph import axes_in_words, axes_of, first_line, only_input, open_session, read_graph
from verisphere.images.detect.boxes import without_overlaps
from verisphere.images.detect.detections import Detections, Image, faces_from
from verisphere.images.detect.detector import shrunk

STRIDES = (8, 16, 32)
_WIDTHS = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
OUTPUTS = tuple(f"{kind}_{stride}" for kind in _WIDTHS for stride in STRIDES)
# FaceDetectorYN's own limits: the least score of a face, and the overlap above which the worse of two boxes is dropped.
_LEAST_SCORE, _MOST_OVERLAP = 0.9, 0.3
# It was trained on faces of 10 to 300 pixels (README of the model zoo): larger ones are found in a smaller copy.
_SIDES = (640, 320)
_LARGEST_SIDE = 4096
_FARTHEST = 1e6  # pixels
_MULTIPLE = max(STRIDES)
_FLOAT = 1  # TensorProto.FLOAT


class YuNet:
    """Finds faces and their five landmarks by an ONNX file of YuNet, with onnxruntime on the CPU.

    An image is searched with its longer side shrunk to at most 640 pixels and, if no face is found, to 320.
    """

    def __init__(self, path: Path, min_face: int = 20) -> None:
        content, model = read_graph(path)
        try:
            self._input, self._size = _ends(model.graph)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        side = self._size or (64, 64)
        asked = {"input": self._input, "outputs": OUTPUTS, "shape": [3, *side], "numbers": "float32",
                 "mean": 0.0, "scale": 1.0}  # fmt: skip
        run_limited(content, path, asked, [1])
        self.path, self.min_face = path, min_face
        self.name = f"YuNet ({hashlib.sha256(content).hexdigest()[:12]})"
        self._session: Any = open_session(content, path)

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """The faces in each image; images are searched one by one."""
        return [self._detect(image) for image in images]

    def how_searched(self, height: int, width: int) -> str:
        """The longer side of the copies that are searched."""
        return "searched with longer sides of " + " and ".join(map(str, self._sides(height, width))) + " pixels"

    def _sides(self, height: int, width: int) -> list[int]:
        """Longer sides of the copies of an image, the larger first."""
        fitting = min(1, self._size[0] / height, self._size[1] / width) if self._size else 1
        longest = max(1, int(max(height, width) * fitting))
        return sorted({min(side, longest) for side in _SIDES}, reverse=True)

    def _detect(self, image: Image) -> Detections:
        faces = Detections(*(np.zeros((0, *shape), np.float32) for shape in ((4,), (5, 2), ())))
        for side in self._sides(*image.shape[:2]):
            small = shrunk(image, side).permute(1, 2, 0).numpy()
            boxes, landmarks, scores = decoded(self._run(small), *self._canvas(*small.shape[:2]))
            rows = without_overlaps(boxes, scores, _MOST_OVERLAP)
            faces = faces_from(boxes[rows], landmarks[rows], scores[rows], self.min_face)
            if len(faces):
                scale = np.array([image.shape[1] / small.shape[1], image.shape[0] / small.shape[0]], np.float32)
                return Detections(faces.boxes * np.tile(scale, 2), (faces.landmarks + 0.5) * scale - 0.5, faces.scores)
        return faces

    def _canvas(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of the input for an image: the fixed ones, or the next multiples of the largest stride."""
        if self._size:
            return self._size
        return -(-height // _MULTIPLE) * _MULTIPLE, -(-width // _MULTIPLE) * _MULTIPLE

    def _run(self, image: UInt8[np.ndarray, "height width 3"]) -> dict[str, np.ndarray]:
        """The outputs for an image, with zeros below it and on its right."""
        height, width = self._canvas(*image.shape[:2])
        pixels = np.zeros((1, 3, height, width), np.float32)
        pixels[0, :, : image.shape[0], : image.shape[1]] = image[..., ::-1].transpose(2, 0, 1)
        try:
            given = dict(zip(OUTPUTS, self._session.run(list(OUTPUTS), {self._input: pixels}), strict=True))
        except Exception as error:  # onnxruntime's exceptions have no common base of their own
            raise ValueError(f"{self.path}: does not run on {width} x {height} pixels: {first_line(error)}") from None
        for name, output in given.items():
            kind, _, stride = name.partition("_")
            due = (height * width // int(stride) ** 2, _WIDTHS[kind])
            if output.shape[-2:] != due or output.size != due[0] * due[1] or not np.isfinite(output).all():
                raise ValueError(
                    f"{self.path}: no YuNet: its output {name} has shape {output.shape} for an image of {width} x "
                    f"{height} pixels, or NaN or infinity in it; finite numbers of shape {(1, *due)} are due"
                )
        return given


def decoded(
    outputs: Mapping[str, np.ndarray], height: int, width: int
) -> tuple[Float32[np.ndarray, "faces 4"], Float32[np.ndarray, "faces 5 2"], Float32[np.ndarray, " faces"]]:
    """Boxes, landmarks and scores of the cells with a score of 0.9 or more, in pixels of the input.

    For the cell in column c and row r of a stride S: score sqrt(cls obj), both clipped to [0, 1]; centre of the box ((c
    + b0) S, (r + b1) S), its width exp(b2) S and height exp(b3) S; landmark k ((c + x_k) S, (r + y_k) S). The landmarks
    come in the order of the image: the eye, and the corner of the mouth, on its left before those on its right. Sides
    of the input are multiples of 32; the outputs, by name, have a row for each cell.
    """
    parts = []
    for stride in STRIDES:
        rows, columns = height // stride, width // stride
        of_cell = {kind: outputs[f"{kind}_{stride}"].reshape(rows * columns, size) for kind, size in _WIDTHS.items()}
        scores = np.sqrt(np.clip(of_cell["cls"], 0, 1) * np.clip(of_cell["obj"], 0, 1))[:, 0]
        sure = np.flatnonzero(scores >= _LEAST_SCORE)
        corner = np.stack([sure % columns, sure // columns], axis=1)  # (cells, 2)
        box = of_cell["bbox"][sure]
        centre, half = (corner + box[:, :2]) * stride, np.exp(np.minimum(box[:, 2:], 20)) * stride / 2
        landmarks = (corner[:, None] + of_cell["kps"][sure].reshape(-1, 5, 2)) * stride
        parts.append((np.concatenate([centre - half, centre + half], axis=1), landmarks, scores[sure]))
    # clipped, so that no number from a graph is too large for float32
    boxes, points, sureness = (
        np.concatenate(column).clip(-_FARTHEST, _FARTHEST).astype(np.float32) for column in zip(*parts, strict=True)
    )
    return boxes, points, sureness


def _ends(graph: Any) -> tuple[str, tuple[int, int] | None]:
    """Name of the input, and its (height, width) if they are fixed."""
    names = {end.name for end in graph.output}
    missing = [name for name in OUTPUTS if name not in names]
    if missing:
        raise ValueError(
            f"no YuNet: it has no output {missing[0]}; a detector in an ONNX file is the YuNet of OpenCV's model zoo, "
            "face_detection_yunet_2023mar.onnx"
        )
    image = only_input(graph)
    axes, kind = axes_of(image), image.type.tensor_type.elem_type
    if len(axes) != 4 or kind != _FLOAT or axes[0] not in (None, 1) or axes[1] not in (None, 3):
        raise ValueError(
            f"no YuNet: its input {shown(image.name)} is {axes_in_words(axes)} with numbers of kind {kind}; 1 x 3 x "
            "height x width of float32 are due"
        )
    height, width = axes[2:]
    if height is None or width is None:
        return image.name, None
    if height % _MULTIPLE or width % _MULTIPLE or max(height, width) > _LARGEST_SIDE:
        raise ValueError(
            f"no YuNet: its input is {height} x {width} pixels; allowed are multiples of {_MULTIPLE} up to "
            f"{_LARGEST_SIDE}"
        )
    return image.name, (height, width)
