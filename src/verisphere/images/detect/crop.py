"""The choice of a face on a photo, and its aligned crop."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float32, UInt8

from verisphere.images.detect.alignment import Template, align
from verisphere.images.detect.detections import Detections, FaceDetector, Image


@dataclass(frozen=True, eq=False)
class Crop:
    """An aligned face, RGB, [0, 255], of the template's size; its place, as in `Detections`, of so many on a photo."""

    pixels: UInt8[np.ndarray, "height width 3"]
    landmarks: Float32[np.ndarray, "5 2"]
    box: Float32[np.ndarray, "4"]
    score: float
    faces: int


def choose_face(detections: Detections, height: int, width: int) -> int:
    """Position of the most central of one face or more on a photo; of equally central ones, the largest.

    The distance of a face is that from the middle of the photo to its box: 0 for each box that contains the middle.
    """
    if not len(detections):
        raise ValueError("there is no face to choose from")
    low, high = detections.boxes[:, :2], detections.boxes[:, 2:]
    middle = np.array([width / 2, height / 2])
    away = np.linalg.norm(np.maximum(np.maximum(low - middle, middle - high), 0), axis=1)
    return int(np.lexsort((-(high - low).prod(axis=1), away))[0])


def crop_face(image: Image, detections: Detections, template: Template) -> Crop:
    """The aligned crop of the chosen face."""
    return crop_at(image, detections, choose_face(detections, *image.shape[:2]), template)


def crop_at(image: Image, detections: Detections, index: int, template: Template) -> Crop:
    """The aligned crop of the face at this position of the detections."""
    landmarks = detections.landmarks[index]
    return Crop(
        pixels=align(image, landmarks, template),
        landmarks=landmarks,
        box=detections.boxes[index],
        score=float(detections.scores[index]),
        faces=len(detections),
    )


def why_none(detector: FaceDetector, height: int, width: int) -> str:
    """The reason why no face was found on a photo of this size."""
    return f"no face found in {width} x {height} pixels ({detector.how_searched(height, width)})"
