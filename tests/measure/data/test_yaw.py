"""Yaw from five landmarks."""

import numpy as np
import pytest

from verisphere.files.landmarks import ListedFaces, points_of_images
from verisphere.images.detect.pose import yaw_of


def seen(yaw: float, roll: float = 0.0, size: float = 1.0) -> np.ndarray:
    """A head, seen from afar, whose nose stands out by half the distance of the eyes; angles in degrees."""
    head = np.array([[-1.0, 0, 0], [1, 0, 0], [0, 1, 1], [-0.7, 2, 0], [0.7, 2, 0]])  # right, down, towards the camera
    turn, tilt = np.radians(yaw), np.radians(roll)
    right = head[:, 0] * np.cos(turn) + head[:, 2] * np.sin(turn)
    down = head[:, 1]
    x, y = right * np.cos(tilt) - down * np.sin(tilt), right * np.sin(tilt) + down * np.cos(tilt)
    return 100 + size * np.stack([x, y], axis=1)


@pytest.mark.parametrize("roll", [0.0, 25.0, -70.0])
@pytest.mark.parametrize("yaw", [-60.0, -10.0, 0.0, 5.0, 45.0, 80.0])
def test_a_head_that_is_turned(yaw: float, roll: float):
    assert yaw_of(seen(yaw, roll, size=30.0)[None]) == pytest.approx([yaw], abs=1e-9)


def test_eyes_at_one_point_have_no_yaw():
    points = seen(0.0)
    points[1] = points[0]
    assert np.isnan(yaw_of(points[None])).all()


def listed(*points: np.ndarray) -> ListedFaces:
    boxes = np.array([[*face.min(axis=0), *face.max(axis=0)] for face in points], np.float32).reshape(-1, 4)
    landmarks = np.array(points, np.float32).reshape(-1, 5, 2)
    return ListedFaces(boxes, landmarks, np.full(len(points), np.nan, np.float32), "here")


def test_an_image_is_found_by_its_name_or_without_its_suffix():
    faces = {
        "a/1.jpg": listed(seen(10.0)),
        "a/2.jpg": listed(seen(20.0, size=5.0), seen(30.0, size=9.0)),  # the larger one counts
        "b/1.jpg": listed(seen(40.0)),
        "b/1.png": listed(seen(50.0)),
        "c/1.jpg": listed(),
    }
    yaws = yaw_of(points_of_images(["a/1.jpg", "a/2.png", "b/1.png", "b/1.bmp", "c/1.jpg", "d/1.jpg"], faces))
    assert yaws[:3] == pytest.approx([10.0, 30.0, 50.0], abs=1e-3)
    assert np.isnan(yaws[3:]).all()
