"""The results of a face detector, boxes with five landmarks, and the interface of all detectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32, UInt8

Image = UInt8[np.ndarray, "_ _ 3"]


@dataclass(frozen=True, eq=False)
class Detections:
    """The faces found in one image, the highest score first.

    Attributes:
        boxes: left, top, right and bottom of each face, in pixels from the edge of the image; can extend beyond it.
        landmarks: (x, y) of left eye, right eye, nose, left and right mouth corner as seen in the image, in pixels; the
            centre of the first pixel is (0, 0).
        scores: confidence of the detector in each face; for MTCNN the probability from the last network.
    """

    boxes: Float32[np.ndarray, "faces 4"]
    landmarks: Float32[np.ndarray, "faces 5 2"]
    scores: Float32[np.ndarray, " faces"]

    def __post_init__(self) -> None:
        if not len(self.boxes) == len(self.landmarks) == len(self.scores):
            raise ValueError(f"{len(self.boxes)} boxes, {len(self.landmarks)} landmarks, {len(self.scores)} scores")

    def __len__(self) -> int:
        return len(self.boxes)


@runtime_checkable
class FaceDetector(Protocol):
    """Finds faces and their five landmarks; detectors that find different points have different names."""

    name: str

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """The faces in each image: RGB, [0, 255], of any size."""
        ...

    def how_searched(self, height: int, width: int) -> str:
        """How an image of this size is searched, in a few words for the reason why no face was found."""
        ...


def faces_from(
    boxes: Float32[np.ndarray, "faces 4"],
    landmarks: Float32[np.ndarray, "faces 5 2"],
    scores: Float32[np.ndarray, " faces"],
    min_face: int,
) -> Detections:
    """The faces whose box has a longer side of `min_face` pixels or more, the highest score first."""
    order = np.argsort(-scores, kind="stable")
    large = (boxes[:, 2:] - boxes[:, :2]).max(axis=1) >= min_face
    rows = order[large[order]]
    return Detections(boxes[rows], landmarks[rows], scores[rows])
