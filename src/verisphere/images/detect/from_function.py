"""A function from outside verisphere as a detector; its results are checked."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from verisphere.images.detect.alignment import TEMPLATES, similarity
from verisphere.images.detect.detections import Detections, Image, faces_from

_FORM = "a list of (box, score, points) is due: left, top, right, bottom; a number; five (x, y)"
_SWAPPED = (1, 0, 2, 4, 3)  # left for right
_ORDER = "left eye, right eye, nose, left and right mouth corner, left and right as seen in the image"


class FunctionDetector:
    """Finds faces by a function of one image.

    Args:
        function: takes a uint8 RGB image (height, width, 3) and returns a list with (box, score, points) of each face:
            left, top, right and bottom; a number, higher for a more certain face; (x, y) of left eye, right eye, nose,
            left and right mouth corner as seen in the image; all in pixels.
        name: name of the function in messages and in `images.json`; `detector_named` adds the first 12 letters of the
            SHA-256 of its source file, so that other code is another detector.
        min_face: side of the smallest face that is returned, in pixels.
    """

    def __init__(self, function: Callable[[np.ndarray], Any], name: str, min_face: int = 20) -> None:
        self.function, self.name, self.min_face = function, name, min_face

    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """The faces in each image; the function gets a copy of it."""
        return [self._detect(image) for image in images]

    def how_searched(self, height: int, width: int) -> str:
        """The name of the function."""
        return f"searched by {self.name}"

    def _detect(self, image: Image) -> Detections:
        try:
            returned = self.function(image.copy())
        except Exception as error:  # code from outside
            reason = " ".join(str(error).split())[:200]
            raise ValueError(f"detector {self.name} raised {type(error).__name__}: {reason}") from error
        try:
            faces = [self._checked(face, *image.shape[:2]) for face in returned]
        except (TypeError, ValueError) as error:
            size = f"an image of {image.shape[1]} x {image.shape[0]} pixels"
            raise ValueError(f"detector {self.name} returned for {size} what is no list of faces: {error}") from None
        boxes, landmarks, scores = (
            np.array([face[column] for face in faces], np.float32).reshape(-1, *shape)
            for column, shape in enumerate(((4,), (5, 2), ()))
        )
        return faces_from(boxes, landmarks, scores, self.min_face)

    def _checked(self, face: Any, height: int, width: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Box, landmarks and score of a face."""
        if not isinstance(face, Sequence) or len(face) != 3:
            raise ValueError(f"{_FORM}; a face has {len(face) if hasattr(face, '__len__') else type(face).__name__}")
        box, score, points = np.asarray(face[0], np.float64), float(face[1]), np.asarray(face[2], np.float64)
        if box.shape != (4,) or points.shape != (5, 2):
            raise ValueError(f"{_FORM}; a box has shape {box.shape}, its points {points.shape}")
        if not (np.isfinite(box).all() and np.isfinite(points).all() and np.isfinite(score)):
            raise ValueError("NaN or infinity in a box, a score or points")
        if not (box[:2] < box[2:]).all():
            raise ValueError(f"the box {box.tolist()} has its right or lower edge before the other; {_FORM}")
        near = max(height, width) / 2  # a box can extend beyond the image if the edge cuts the face
        low, high = np.array([-near, -near]), np.array([width + near, height + near])
        places = np.concatenate([points, box.reshape(2, 2)])
        if not ((low <= places) & (places <= high)).all():
            raise ValueError(f"a face far outside the image: box {box.tolist()}, points {points.tolist()}")
        if not _like_a_face(points) and _like_a_face(points[list(_SWAPPED)]):
            raise ValueError(f"points in another order, with left for right; due are {_ORDER}")
        return box, points, score


def _like_a_face(points: np.ndarray) -> bool:
    try:
        similarity(points, np.array(next(iter(TEMPLATES.values())).points))
    except ValueError:
        return False
    return True
