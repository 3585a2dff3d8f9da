"""Pose and size of a face from five landmarks."""

import numpy as np
from jaxtyping import Float, Float64

Numbers = Float64[np.ndarray, " faces"]
Places = Float64[np.ndarray, "faces 2"]


def yaw_of(landmarks: Float[np.ndarray, "faces 5 2"]) -> Numbers:
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
    return _angle(points[:, 0], points[:, 1], points[:, 2])


def place_of(landmarks: Float[np.ndarray, "faces 5 2"]) -> dict[str, Numbers]:
    """Size of each face in its photograph, in pixels between the eyes, and by how many degrees it is turned away.

    `turned` is the yaw without its sign, `nodded` the pitch, by the equation of yaw between the middle of the eyes and
    that of the mouth, and `tilted` the roll. Where yaw shortens the distance of the eyes, that to the mouth counts.
    """
    points = landmarks.astype(np.float64)
    (x, y), eyes, mouth = (points[:, 1] - points[:, 0]).T, points[:, :2].mean(1), points[:, 3:].mean(1)
    return {
        "size": np.maximum(np.hypot(x, y), np.linalg.norm(mouth - eyes, axis=1) / 1.15),  # as in the templates
        "turned": abs(yaw_of(points)),
        "nodded": abs(_angle(eyes, mouth, points[:, 2])),
        "tilted": abs(np.degrees(np.arctan2(y, x))),
    }


def _angle(first: Places, last: Places, nose: Places) -> Numbers:
    """Angle by the place of the nose on the line from a first to a last point; NaN if the two are at one point."""
    between = last - first
    squared = (between**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        place = ((nose - first) * between).sum(axis=1) / squared
    return np.where(squared > 0, np.degrees(np.arctan(2 * place - 1)), np.nan)
