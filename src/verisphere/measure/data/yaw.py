"""Yaw of a face from five landmarks, by the position of the nose between the eyes."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float, Float64

from verisphere.files.landmarks import ListedFaces

ESTIMATOR = "yaw = arctan(2 a - 1), a = the nose's place from the left eye (0) to the right eye (1) on their line"


def yaw_of(landmarks: Float[np.ndarray, "faces 5 2"]) -> Float64[np.ndarray, " faces"]:
    """Estimated yaw in degrees, from -90 to 90; positive where the nose is nearer to the eye on the right of the photo.

    The nose is projected on the line through the eyes; a is its position there, 0 at the left and 1 at the right eye.
    Let the nose stand out from the line of the eyes by half the distance of the eyes, and the head be seen from afar
    and turned by the yaw t: in units of that half distance the nose moves by sin t, and each eye lies at cos t, so 2 a
    - 1 = tan t. Roll, size and position of the face do not matter, so points of the photograph and of an aligned crop
    give the same angle.

    Limits: noses stand out by about 0.7 to 1.1 of that half distance, which scales the tangent by the same factor;
    pitch and a near camera add a few degrees; in a profile the two eyes coincide, and errors of the landmarks dominate.
    The estimate is for distributions, not for the pose of one face. It is NaN if the two eyes are at one point.

    >>> frontal = np.array([[38.0, 52], [74, 52], [56, 72], [42, 92], [71, 92]])
    >>> turned = np.array([[38.0, 52], [74, 52], [74, 72], [42, 92], [71, 92]])
    >>> yaw_of(np.stack([frontal, turned])).round(1).tolist()
    [0.0, 45.0]

    Args:
        landmarks: (x, y) of left eye, right eye, nose, left and right mouth corner, as seen in the photo.
    """
    points = landmarks.astype(np.float64)
    left, right, nose = points[:, 0], points[:, 1], points[:, 2]
    between = right - left
    squared = (between**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        place = ((nose - left) * between).sum(axis=1) / squared
    return np.where(squared > 0, np.degrees(np.arctan(2 * place - 1)), np.nan)


def yaws_of_images(names: Sequence[str], listed: Mapping[str, ListedFaces]) -> Float64[np.ndarray, " images"]:
    """Yaw of the largest face of each image in degrees; NaN for an image without landmarks.

    An image is found by its name; or else, since crops have another suffix than their photographs, by its name without
    the suffix, if only one photograph has that name.

    Args:
        names: name of each image.
        listed: faces of each photograph.
    """
    by_stem: dict[str, ListedFaces | None] = {}
    for photo, of_photo in listed.items():
        stem = _stem(photo)
        by_stem[stem] = None if stem in by_stem else of_photo
    yaws = np.full(len(names), np.nan)
    for row, name in enumerate(names):
        faces = listed[name] if name in listed else by_stem.get(_stem(name))
        if faces is not None and len(faces.landmarks):
            boxes = faces.boxes
            largest = int(((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).argmax())
            yaws[row] = yaw_of(faces.landmarks[largest : largest + 1])[0]
    return yaws


def _stem(name: str) -> str:
    folder, _, base = name.rpartition("/")
    return f"{folder}/{base.rpartition('.')[0] or base}"
