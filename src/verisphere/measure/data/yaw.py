"""Yaw of a face from five landmarks, by the position of the nose between the eyes."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64

from verisphere.files.landmarks import ListedFaces, points_of_images
from verisphere.images.detect.pose import yaw_of

ESTIMATOR = "yaw = arctan(2 a - 1), a = the nose's place from the left eye (0) to the right eye (1) on their line"


def yaws_of_images(names: Sequence[str], listed: Mapping[str, ListedFaces]) -> Float64[np.ndarray, " images"]:
    """Yaw of the largest face of each image in degrees; NaN for an image without landmarks (`points_of_images`)."""
    return yaw_of(points_of_images(names, listed))
