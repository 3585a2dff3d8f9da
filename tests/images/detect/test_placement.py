"""Aligned crops, loose photographs and drawings are told apart on a sample of a set."""

import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.images.detect import TEMPLATES, Detector
from verisphere.images.detect.placement import (
    SAMPLE,
    checking_detector,
    displacement,
    doubt_alignment,
    doubt_shape,
    eye_contrast,
    template_of_size,
)
from verisphere.images.synthetic.synthetic_faces import DOMAINS, SyntheticFaces

needs_weights = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")
ARCFACE = TEMPLATES["arcface_112x112"]
POINTS = np.array(ARCFACE.points)


@pytest.fixture(scope="module", params=["landmarks", "brightness"])
def detector(request: pytest.FixtureRequest) -> Detector | None:
    """Both ways of judging."""
    if request.param == "landmarks" and importlib.util.find_spec("mtcnn") is None:
        pytest.skip("no extra `detect`")
    return checking_detector() if request.param == "landmarks" else None


def from_archive(path: Path, keep: float = 1.0, size: tuple[int, int] = (112, 112)) -> list[np.ndarray]:
    """Evenly spaced images of an archive: their middle, resampled to (height, width)."""

    def read() -> Iterator[np.ndarray]:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith((".jpg", ".pgm")))
            for row in np.linspace(0, len(names) - 1, SAMPLE).round().astype(int):
                image = Image.open(io.BytesIO(archive.read(names[row]))).convert("RGB")
                edge = image.width * (1 - keep) / 2
                box = (edge, edge, image.width - edge, image.height - edge)
                yield np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR, box=box))

    return list(read())


def drawn(difficulty: str, domain: str | None = None) -> list[np.ndarray]:
    faces = SyntheticFaces(
        people=SAMPLE, images=1, seed=3, difficulty=difficulty, domains=(domain,) if domain else tuple(DOMAINS)
    )
    return [image.permute(1, 2, 0).numpy() for image in faces.images(range(SAMPLE))]


def test_displacement_is_the_distance_from_the_template():
    assert displacement(POINTS, ARCFACE) == pytest.approx(0, abs=1e-9)
    assert displacement(POINTS + np.array([3, 4]), ARCFACE) == pytest.approx(5)
    assert displacement(np.zeros((5, 2)), ARCFACE) == 112  # no face's shape


def test_eye_contrast_of_a_face_of_two_tones():
    image = np.full((112, 112, 3), 200, np.uint8)
    for x, y in POINTS[:2].round().astype(int):
        image[y - 4 : y + 5, x - 7 : x + 8] = 40  # the eyes alone are dark
    deviation = image[..., 0].std() + 0.255
    assert eye_contrast(image, ARCFACE) == pytest.approx(2 * 160 / deviation, rel=0.02)
    assert eye_contrast(np.full((112, 112, 3), 90, np.uint8), ARCFACE) == 0


def test_templates_are_known_by_their_size():
    assert template_of_size((112, 112)) is ARCFACE
    assert template_of_size((112, 96)) is TEMPLATES["sphereface_112x96"]
    assert template_of_size((112, 113)) is None


def test_aligned_crops_raise_no_doubt(real_data: Path, detector: Detector | None):
    assert doubt_alignment(from_archive(real_data / "lfw_112.zip"), ARCFACE, detector) is None


def test_whole_photographs_do(real_data: Path, detector: Detector | None):
    images = from_archive(real_data / "lfw_raw_sample.zip")
    doubt = doubt_alignment(images, ARCFACE, detector)
    assert doubt is not None
    assert len(set(doubt.examples)) > SAMPLE / 2
    if detector is not None:
        assert "in 64 of 64 images lie 14 pixels from their places in arcface_112x112 (median" in doubt.reason


def test_faces_cut_out_but_not_aligned_do(real_data: Path, detector: Detector | None):
    assert doubt_alignment(from_archive(real_data / "lfw_raw_sample.zip", 0.6), ARCFACE, detector) is not None


@needs_weights
def test_close_portraits_do_where_there_is_a_detector(real_data: Path):
    assert doubt_alignment(from_archive(real_data / "orl.zip"), ARCFACE, checking_detector()) is not None


@needs_weights
def test_one_loose_photograph_does_where_it_is_known_to_be_one(real_data: Path):
    aligned, loose = (from_archive(real_data / name)[:1] for name in ("lfw_112.zip", "lfw_raw_sample.zip"))
    detector = checking_detector()
    assert doubt_alignment(loose, ARCFACE, detector, photographs=True) is not None
    assert doubt_alignment(aligned, ARCFACE, detector, photographs=True) is None
    assert doubt_alignment(loose, ARCFACE, detector) is None


@pytest.mark.parametrize("difficulty", ["easy", "medium", "hard"])
def test_drawn_faces_raise_no_doubt(difficulty: str, detector: Detector | None):
    assert doubt_alignment(drawn(difficulty), ARCFACE, detector) is None


@needs_weights
def test_nothing_is_said_of_images_without_faces():
    noise = np.random.default_rng(0).integers(0, 256, (16, 112, 112, 3), np.uint8)
    assert doubt_alignment(list(noise), ARCFACE, checking_detector()) is None


def test_few_images_say_nothing_by_their_brightness():
    noise = np.random.default_rng(0).integers(0, 256, (31, 112, 112, 3), np.uint8)
    assert doubt_alignment(list(noise), ARCFACE, None) is None
    assert doubt_alignment([*noise, noise[0]], ARCFACE, None) is not None


@needs_weights
def test_the_detector_draws_no_random_numbers_of_a_training():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    assert checking_detector() is not None
    assert torch.equal(torch.rand(3), expected)


def test_faces_that_are_stretched_alike_are_doubted_by_their_shape():
    template, draw = TEMPLATES["arcface_112x112"], np.random.default_rng(0)
    points = np.array(template.points)
    faces = [points + draw.normal(0, 2, points.shape) for _ in range(40)]
    assert doubt_shape(faces, template) is None
    wide = [face * (1.4, 1) for face in faces]
    doubt = doubt_shape(wide, template)
    assert doubt is not None
    assert "40 images are 1.38 times as wide" in doubt.reason
    assert doubt_shape([face * (1, 1.4) for face in faces], template) is not None
    assert doubt_shape([face @ np.array([[0, 1.0], [-1.0, 0]]) for face in faces], template) is None  # turned alone
    assert doubt_shape(wide[:15], template) is None
