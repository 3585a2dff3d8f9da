"""The detector: on drawn faces, whose place is known roughly, and on photos against another detector's landmarks."""

import importlib.util
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.images.decode import decode
from verisphere.images.detect import TEMPLATES, Detections, Detector, choose_face, similarity
from verisphere.images.detect.alignment import inverse
from verisphere.images.detect.detector import _crops, _scaled, shrunk
from verisphere.images.detect.sample import halvings
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")


@pytest.fixture(scope="module")
def faces() -> list[np.ndarray]:
    drawn = SyntheticFaces(people=10, images=1, difficulty="easy").images(range(10))
    return [image.permute(1, 2, 0).contiguous().numpy() for image in drawn]


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


def photo(face: np.ndarray, side: int = 120, left: int = 60, top: int = 30, size: tuple[int, int] = (200, 280)):
    """A grey picture of (height, width) with a face in it."""
    canvas = np.full((*size, 3), 110, np.uint8)
    canvas[top : top + side, left : left + side] = np.asarray(Image.fromarray(face).resize((side, side)))
    return canvas


def same(one: Detections, other: Detections, tolerance: float = 0.01) -> None:
    assert len(one) == len(other)
    assert np.abs(one.boxes - other.boxes).max(initial=0) < tolerance
    assert np.abs(one.landmarks - other.landmarks).max(initial=0) < tolerance
    assert np.abs(one.scores - other.scores).max(initial=0) < 1e-4


# --- drawn faces ---


def test_a_drawn_face_is_found_where_it_is(detector, faces):
    for found in detector.detect([photo(face) for face in faces]):
        assert len(found) == 1
        left, top, right, bottom = found.boxes[0]
        assert 50 < left < right < 190
        assert 20 < top < bottom < 160
        left_eye, right_eye, nose, left_mouth, right_mouth = found.landmarks[0]
        assert left_eye[0] < nose[0] < right_eye[0]
        assert left_mouth[0] < right_mouth[0]
        assert max(left_eye[1], right_eye[1]) < nose[1] < min(left_mouth[1], right_mouth[1])
        assert 0.8 < found.scores[0] <= 1


def test_what_is_found_does_not_depend_on_the_other_images(detector, faces):
    images = [
        photo(faces[0]), np.full((200, 280, 3), 30, np.uint8), photo(faces[1], 80, 10, 90),
        faces[2], photo(faces[3], size=(300, 300)), photo(faces[4], left=150),
    ]  # fmt: skip
    together = detector.detect(images)
    assert [len(found) for found in together] == [1, 0, 1, 1, 1, 1]
    for image, found in zip(images, together, strict=True):
        same(detector.detect([image])[0], found)
    for first, second in zip(together, detector.detect(images), strict=True):
        assert np.array_equal(first.landmarks, second.landmarks)  # and the same call gives the same bits
    assert detector.detect([]) == []


def test_several_faces_the_surest_first(detector, faces):
    image = photo(faces[4], 120, 20, 40, (200, 420))
    image[60:180, 270:390] = photo(faces[9], 120, 0, 0, (120, 120))
    (found,) = detector.detect([image])
    assert len(found) == 2
    assert found.scores[0] >= found.scores[1]
    assert sorted((found.boxes[:, 0] > 200).tolist()) == [False, True]


def test_a_shifted_picture_gives_shifted_faces(detector, faces):
    one, other = detector.detect([photo(faces[5], left=60, top=30), photo(faces[5], left=92, top=46)])
    assert np.abs(other.landmarks - one.landmarks - [32, 16]).mean() < 4  # the pyramid's grid is not the pixels'


def test_a_large_picture_is_searched_smaller_and_reported_at_its_own_size(faces):
    small = photo(faces[6])
    large = np.asarray(Image.fromarray(small).resize((1120, 800), Image.Resampling.BICUBIC))
    (plain,) = Detector().detect([small])
    (found,) = Detector(max_side=280).detect([large])
    assert len(found) == 1
    assert np.abs(found.boxes / 4 - plain.boxes).max() < 4
    assert np.abs((found.landmarks + 0.5) / 4 - 0.5 - plain.landmarks).max() < 2


def test_a_face_smaller_than_looked_for_is_not_found(faces):
    image = photo(faces[7], 60)
    assert len(Detector(min_face=20).detect([image])[0]) == 1
    assert len(Detector(min_face=120).detect([image])[0]) == 0


def test_a_face_that_fills_its_picture_is_found_inside_a_border(faces):
    close = [np.ascontiguousarray(face[30:95, 24:88]) for face in faces]  # eyes to mouth, no more
    without = sum(len(found) > 0 for found in Detector(border=0).detect(close))
    inside = Detector().detect(close)
    assert sum(len(found) > 0 for found in inside) > without
    for found in inside:  # the border's width is taken off again
        assert ((found.landmarks > -20) & (found.landmarks < 85)).all()


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 300, 3), (11, 400, 3), (13, 12, 3), (2000, 3, 3)])
def test_pictures_too_small_for_a_face_have_none(detector, shape):
    assert len(detector.detect([np.zeros(shape, np.uint8)])[0]) == 0


def test_noise_and_plain_colours_hold_no_face(detector):
    rng = np.random.default_rng(0)
    images = [
        rng.integers(0, 256, (120, 160, 3), np.uint8),
        *(np.full((90, 90, 3), v, np.uint8) for v in (0, 128, 255)),
    ]
    assert [len(found) for found in detector.detect(images)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_face": 11}, "min_face is 11; allowed is 12 or more"),
        ({"max_side": 19}, r"max_side is 19; allowed is min_face \(20\) or more"),
        ({"thresholds": (0.6, 0.7, 1.0)}, r"thresholds are \(0.6, 0.7, 1.0\); allowed are probabilities"),
        ({"border": -0.1}, r"border is -0.1; allowed is 0 \(no second search\) to 2"),
    ],
)
def test_arguments_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        Detector(**arguments)


def test_detections_must_agree():
    with pytest.raises(Exception, match=r"faces|2 boxes"):  # by the annotations in a full run, else by a ValueError
        Detections(np.zeros((2, 4), np.float32), np.zeros((1, 5, 2), np.float32), np.zeros(1, np.float32))


# --- parts ---


def test_one_scale_of_the_pyramid():
    copies = halvings(torch.rand(1, 3, 101, 203), 3)
    images, pixel = _scaled(copies, 0.3)
    assert tuple(images.shape) == (1, 3, 31, 61)  # of 102 x 204, what the halved copy covers
    assert pixel.tolist() == pytest.approx([204 / 61, 102 / 31])


def test_a_picture_is_shrunk_by_its_longer_side_only_if_it_is_longer():
    image = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    assert torch.equal(shrunk(image, 50), torch.from_numpy(image).permute(2, 0, 1))
    assert tuple(shrunk(image, 20).shape) == (3, 12, 20)


def test_crops_come_from_the_right_image_and_place():
    images = torch.zeros(2, 3, 64, 64)
    images[0, :, 16:40, 8:32] = 1
    images[1, :, :48, :48] = 2
    boxes = np.array([[8, 16, 32, 40], [0, 0, 48, 48], [-24, 0, 0, 24], [0, 0, 24, 24]], np.float32)
    crops = _crops(halvings(images, 1), np.array([0, 1, 1, 1]), boxes, 24)
    assert crops[0].eq(1).all()
    assert torch.allclose(crops[1], torch.tensor(2.0))  # from the halved copy
    assert not crops[2].any()
    assert crops[3].eq(2).all()


# --- photos, against another detector's landmarks ---


def against(real_data: Path, names: slice) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Images with a face, and of each chosen face the landmark distance, rotation (degrees) and shift (pixels).

    The distance is the mean over the five points, as a share of the inter-eye distance. Rotation and shift are between
    the crops that the two detectors' landmarks give: the shift is how far one moves the template's five points against
    the other, on average, in pixels of the crop.
    """
    with zipfile.ZipFile(real_data / "lfw_raw_sample.zip") as archive:
        listed = dict(list(json.loads(archive.read("landmarks.json")).items())[names])
        images = [decode(archive.read(name), name) for name in listed]
    template = np.array(TEMPLATES["arcface_112x112"].points)
    rows = []
    for image, entry, found in zip(images, listed.values(), Detector().detect(images), strict=True):
        if not len(found):
            continue
        ours, theirs = found.landmarks[choose_face(found, *image.shape[:2])], np.array(entry["landmarks"])
        distance = np.linalg.norm(ours - theirs, axis=1).mean() / np.linalg.norm(theirs[0] - theirs[1])
        to_ours, from_theirs = similarity(ours, template), inverse(similarity(theirs, template))
        both = to_ours[:, :2] @ from_theirs[:, :2]
        moved = (template @ from_theirs[:, :2].T + from_theirs[:, 2]) @ to_ours[:, :2].T + to_ours[:, 2]
        rows.append(
            (
                distance,
                abs(np.degrees(np.arctan2(both[1, 0], both[0, 0]))),
                np.linalg.norm(moved - template, axis=1).mean(),
            )
        )
    return len(listed), *(np.array(column) for column in zip(*rows, strict=True))


def check_gates(total: int, distance: np.ndarray, rotation: np.ndarray, shift: np.ndarray) -> None:
    assert len(distance) >= 0.98 * total
    assert np.median(distance) <= 0.09
    assert np.median(rotation) <= 3
    assert np.median(shift) <= 4
    assert (distance > 0.3).sum() <= 0.02 * total  # another face


def test_some_photos(real_data: Path):
    total, *measures = against(real_data, slice(None, None, 5))
    assert total == 61
    check_gates(total, *measures)


@pytest.mark.slow
def test_all_photos(real_data: Path):
    total, *measures = against(real_data, slice(None))
    assert total == 301
    check_gates(total, *measures)


@pytest.mark.slow
def test_tight_grey_faces_are_found(real_data: Path, detector):
    with zipfile.ZipFile(real_data / "orl.zip") as archive:
        names = [name for name in archive.namelist() if name.endswith(".pgm")]
        images = [np.asarray(Image.open(io.BytesIO(archive.read(name))).convert("RGB")) for name in names]
    found = detector.detect(images)
    assert sum(len(each) > 0 for each in found) >= 0.98 * len(names) == 392


@pytest.mark.cuda
def test_the_same_faces_on_a_gpu(detector, faces):
    images = [photo(face) for face in faces]
    for one, other in zip(detector.detect(images), Detector("cuda").detect(images), strict=True):
        same(one, other, tolerance=1)
