"""Five landmarks to a template: the similarity against the general solution, and crops against plain sampling."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verisphere.images.detect.alignment import TEMPLATES, Template, align, inverse, similarity, template_named

ARCFACE = TEMPLATES["arcface_112x112"]
POINTS = np.array(ARCFACE.points)


def moved(points: np.ndarray, angle: float, scale: float, shift: tuple[float, float]) -> np.ndarray:
    turn = scale * np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    return points @ turn.T + np.array(shift)


def umeyama(points: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The general solution, eqs. 38 to 43 of the paper, in any number of dimensions."""
    here, there = points - points.mean(0), targets - targets.mean(0)
    u, d, v = np.linalg.svd(there.T @ here / len(points))
    sign = np.diag([1, np.sign(np.linalg.det(u) * np.linalg.det(v))])
    rotation = u @ sign @ v
    scale = (d * np.diag(sign)).sum() / (here**2).sum() * len(points)
    return np.column_stack([scale * rotation, targets.mean(0) - scale * rotation @ points.mean(0)])


def noise(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


# --- templates ---


def test_the_narrow_template_is_the_square_one_without_its_sides():
    image, landmarks = noise(200, 200), moved(POINTS, 0.2, 0.9, (40, 40))
    narrow = align(image, landmarks, TEMPLATES["sphereface_112x96"])
    assert narrow.shape == (112, 96, 3)
    assert np.abs(narrow.astype(int) - align(image, landmarks, ARCFACE)[:, 8:104]).max() <= 1  # rounding


def test_the_large_template_shows_the_same_part_of_the_photo():
    image = np.zeros((112, 112, 3), np.uint8)
    image[:, :56] = 255
    image[:28] = 255
    large = align(image, POINTS, TEMPLATES["arcface_144x144"])
    assert large.shape == (144, 144, 3)
    assert (large[1:35, 1:-1] >= 250).all()  # 28 / 112 = 36 / 144; at the very edge it fades into the black outside
    assert (large[1:-1, 1:71] >= 250).all()
    assert (large[38:, 73:] == 0).all()


def test_a_template_must_be_one():
    with pytest.raises(
        ValueError, match=r"'arcface' is not known; allowed are arcface_112x112, sphereface_112x96, arc"
    ):
        template_named("arcface")
    with pytest.raises(ValueError, match="template mine: 0 x 112 pixels"):
        Template("mine", 0, 112, ARCFACE.points)
    with pytest.raises(ValueError, match="are not five points"):
        Template("mine", 112, 112, ARCFACE.points[:4])


# --- the similarity ---


def test_by_hand():
    # Twice as large, a quarter turn (x -> y, y -> -x), then (10, 20) on: a point (1, 0) comes to (10, 22).
    points = np.array([[0, 0], [1, 0], [0, 1], [2, 0], [0, 2.0]])
    targets = np.array([[10, 20], [10, 22], [8, 20], [10, 24], [6, 20.0]])
    assert similarity(points, targets) == pytest.approx(np.array([[0, -2, 10], [2, 0, 20]]), abs=1e-12)


@given(
    angle=st.floats(-math.pi, math.pi),
    scale=st.floats(0.05, 20),
    shift=st.tuples(st.floats(-500, 500), st.floats(-500, 500)),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_same_as_the_general_solution(angle, scale, shift, seed):
    points = moved(POINTS + np.random.default_rng(seed).normal(0, 4, (5, 2)), angle, scale, shift)
    found = similarity(points, POINTS)
    assert found == pytest.approx(umeyama(points, POINTS), rel=1e-6, abs=1e-6)
    assert np.linalg.det(found[:, :2]) > 0
    back = np.vstack([found, [0, 0, 1]]) @ np.vstack([inverse(found), [0, 0, 1]])
    assert back == pytest.approx(np.eye(3), abs=1e-6)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.full((5, 2), 7.0), r"landmarks must be apart, got \(7, 7\) \(7, 7\) .*failed detection"),
        (np.where(np.eye(5, 2) > 0, np.nan, POINTS), r"landmarks must be finite, got \(nan, 51.6963\)"),
        (np.where(np.eye(5, 2) > 0, np.inf, POINTS), r"landmarks must be finite, got \(inf, 51.6963\)"),
        (POINTS * [-1, 1], r"landmarks \(-38.2946, 51.6963\).* not shaped like a face's; their order must be left eye"),
        (POINTS[[1, 0, 2, 4, 3]], "not shaped like a face's"),
    ],
)
def test_points_that_are_no_face_are_refused(points, message):
    with pytest.raises(ValueError, match=message) as error:
        similarity(points, POINTS)
    assert "\n" not in str(error.value)


def test_a_face_from_the_side_is_still_one():
    profile = POINTS.copy()
    profile[:, 0] = 60 + (profile[:, 0] - 56) * 0.1 + [0, 0, -18, 0, 0]  # eyes and mouth edge-on, the nose stands out
    similarity(profile, POINTS)


# --- the crop ---


def test_an_aligned_image_stays_as_it_is():
    image = noise(112, 112)
    assert np.array_equal(align(image, POINTS, ARCFACE), image)
    assert np.array_equal(align(image.copy(), POINTS.astype(np.float32), ARCFACE), image)


def test_a_shifted_face_is_cut_out_and_outside_is_black():
    image = noise(100, 90)
    crop = align(image, POINTS + np.array([10, -20]), ARCFACE)
    assert np.array_equal(crop[20:, :80], image[:92, 10:])
    assert not crop[:19].any()
    assert not crop[:, 81:].any()


def test_a_turned_enlarged_face_against_plain_bilinear_sampling():
    image, landmarks = noise(60, 70), moved(POINTS, 0.5, 0.4, (15, 5))
    crop, back = align(image, landmarks, ARCFACE), inverse(similarity(landmarks, POINTS))
    padded = np.pad(image.astype(float), ((1, 1), (1, 1), (0, 0)))
    for x, y in ((30, 40), (56, 56), (80, 70), (0, 111)):
        across, down = back @ [x, y, 1]
        left, top = math.floor(across), math.floor(down)
        if not (-1 <= left < 70 and -1 <= top < 60):
            assert not crop[y, x].any()
            continue
        right, low, window = across - left, down - top, padded[top + 1 : top + 3, left + 1 : left + 3]
        weights = np.outer([1 - low, low], [1 - right, right])[..., None]
        assert crop[y, x] == pytest.approx((window * weights).sum((0, 1)), abs=0.51)


@pytest.mark.parametrize("scale", [1.9, 4, 9.3, 21])
def test_fine_detail_of_a_large_photo_becomes_grey_and_not_a_pattern(scale):
    side = int(112 * scale)
    image = np.repeat((np.indices((side, side)).sum(0) % 2 * 255).astype(np.uint8)[..., None], 3, 2)  # a chessboard
    inside = align(image, moved(POINTS, 0.1, scale * 0.8, (side * 0.15, side * 0.1)), ARCFACE)[20:-20, 20:-20]
    if scale < 2:
        assert np.abs(inside.astype(int) - 127.5).mean() < 64  # between 1 and 2 it is damped
    else:
        assert np.abs(inside.astype(int) - 127.5).max() <= 2


def test_a_large_face_is_the_mean_of_what_each_pixel_covers():
    small = np.random.default_rng(1).integers(0, 256, (112, 112, 3), np.uint8)
    image = small.repeat(8, 0).repeat(8, 1)
    crop = align(image, (POINTS + 0.5) * 8 - 0.5, ARCFACE)
    assert np.abs(crop.astype(int) - small).max() <= 1


def test_a_crop_is_cut_from_a_part_as_from_the_whole():
    rng = np.random.default_rng(2)
    image = rng.integers(0, 256, (700, 900, 3), np.uint8)
    landmarks = moved(POINTS, -0.3, 2.5, (300, 200))
    moved_by = np.array([96, 48])  # a multiple of what is halved
    part = align(image[48:, 96:], landmarks - moved_by, ARCFACE)
    assert np.abs(part.astype(int) - align(image, landmarks, ARCFACE)).max() <= 1


def test_a_face_outside_the_photo_is_refused():
    with pytest.raises(ValueError, match="put the face outside the 50 x 40 image"):
        align(noise(40, 50), POINTS + 500, ARCFACE)
