"""Which face of a photo is meant, and the one line where there is none."""

import importlib.util

import numpy as np
import pytest

from verisphere.images.detect import TEMPLATES, Detections, Detector, choose_face, crop_face, why_none

ARCFACE = TEMPLATES["arcface_112x112"]
needs_weights = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")


def faces(*boxes: tuple[float, float, float, float]) -> Detections:
    rows = np.array(boxes, np.float32).reshape(-1, 4)
    points = (np.array(ARCFACE.points) / 112).astype(np.float32)
    landmarks = rows[:, None, :2] + points * (rows[:, None, 2:] - rows[:, None, :2])
    return Detections(rows, landmarks.astype(np.float32), np.linspace(1, 0.9, len(rows), dtype=np.float32))


@pytest.mark.parametrize(
    ("boxes", "chosen"),
    [
        ([(0, 0, 9, 9)], 0),
        ([(0, 0, 90, 90), (140, 90, 160, 110)], 1),  # of a photo 300 x 200: the middle is (150, 100)
        ([(140, 90, 160, 110), (100, 50, 180, 150)], 1),  # both hold the middle: the larger
        ([(100, 50, 180, 150), (140, 90, 160, 110)], 0),
        ([(0, 0, 140, 200), (155, 80, 175, 120)], 1),  # 10 and 5 pixels away
        ([(155, 80, 175, 120), (100, 80, 145, 125)], 1),  # 5 away both: the larger
        ([(0, 0, 100, 60), (200, 140, 230, 170)], 0),  # by corners, sqrt(50^2 + 40^2) away both: the larger
    ],
)
def test_the_most_central_then_the_largest(boxes, chosen):
    assert choose_face(faces(*boxes), 200, 300) == chosen


def test_no_face_no_choice():
    with pytest.raises(ValueError, match="there is no face to choose from"):
        choose_face(faces(), 10, 10)


def test_the_crop_is_of_the_chosen_face():
    image = np.zeros((200, 300, 3), np.uint8)
    image[60:140, 110:190] = 200
    found = faces((0, 0, 60, 60), (110, 60, 190, 140))
    crop = crop_face(image, found, ARCFACE)
    assert crop.pixels.shape == (112, 112, 3)
    assert (crop.pixels[1:-1, 1:-1] == 200).all()
    assert crop.faces == 2
    assert np.array_equal(crop.landmarks, found.landmarks[1])
    assert crop.box.tolist() == [110, 60, 190, 140]
    assert crop.score == pytest.approx(0.9)


@needs_weights
def test_why_a_photo_shows_no_face():
    assert why_none(Detector(), 60, 90) == "no face found in 90 x 60 pixels (looked for from 20 pixels a side)"
    assert why_none(Detector(min_face=30, max_side=1000), 3000, 4000).endswith("(looked for from 120 pixels a side)")
