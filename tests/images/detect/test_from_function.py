"""A function as a detector: what it is given, what it gives, and what it must not give."""

import numpy as np
import pytest

from verisphere.images.detect.from_function import FunctionDetector

IMAGE = np.zeros((80, 100, 3), np.uint8)
BOX = (20.0, 10.0, 60.0, 70.0)
POINTS = [(30, 30), (50, 30), (40, 42), (32, 55), (48, 55)]


def detector(returned, **settings) -> FunctionDetector:
    return FunctionDetector(lambda image: returned, "people:find", **settings)


def test_faces_as_they_are_returned_the_best_first():
    small = ((40, 40, 59, 55), 0.99, np.array(POINTS) * 0.5 + 25)
    faces, again = detector([(BOX, 0.5, POINTS), [np.array(BOX) + 1, 0.8, POINTS], small]).detect([IMAGE, IMAGE])
    np.testing.assert_allclose(faces.scores, [0.8, 0.5])  # a face of 19 pixels is too small
    assert faces.boxes.tolist() == [[21, 11, 61, 71], [20, 10, 60, 70]]
    assert faces.landmarks[1].tolist() == [list(map(float, point)) for point in POINTS]
    assert again.boxes.tolist() == faces.boxes.tolist()
    (none,) = detector(()).detect([IMAGE])
    assert len(none) == 0
    assert none.landmarks.shape == (0, 5, 2)
    assert detector(()).how_searched(80, 100) == "searched by people:find"


def test_the_function_has_a_copy_of_the_image():
    def draws(image: np.ndarray) -> list[tuple]:
        assert image.shape == (80, 100, 3)
        assert image.dtype == np.uint8
        image[:] = 255
        return []

    FunctionDetector(draws, "draws").detect([IMAGE])
    assert not IMAGE.any()


@pytest.mark.parametrize(
    ("returned", "line"),
    [
        (None, "what is no list of faces: 'NoneType' object is not iterable"),
        (
            [POINTS],
            "a list of (box, score, points) is due: left, top, right, bottom; a number; five (x, y); a face has 5",
        ),
        ([{"box": BOX}], "a face has 1"),
        ([(BOX[:3], 1, POINTS)], "a box has shape (3,), its points (5, 2)"),
        ([(BOX, 1, POINTS[:4])], "a box has shape (4,), its points (4, 2)"),
        ([(BOX, "sure", POINTS)], "could not convert string to float: 'sure'"),
        ([(BOX, float("nan"), POINTS)], "NaN or infinity in a box, a score or points"),
        ([((60, 10, 20, 70), 1, POINTS)], "its right or lower edge before the other"),
        ([((20, 10, 60, 700), 1, POINTS)], "a face far outside the image"),
        ([(BOX, 1, np.array(POINTS)[[1, 0, 2, 4, 3]])], "with left for right; due are left eye, right eye, nose, left"),
    ],
)
def test_nonsense_ends_with_one_line(returned, line):
    with pytest.raises(ValueError, match=r"^detector people:find returned for an image of 100 x 80 pixels") as refused:
        detector(returned).detect([IMAGE])
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_error_inside_the_function_names_it():
    def fails(image: np.ndarray) -> list[tuple]:
        raise RuntimeError("no such\nlayer")

    with pytest.raises(ValueError, match=r"^detector people:find raised RuntimeError: no such layer$"):
        FunctionDetector(fails, "people:find").detect([IMAGE])
