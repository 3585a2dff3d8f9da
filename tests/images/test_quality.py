"""Detail and light of aligned faces, and size and pose by landmarks."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import convolve

from verisphere.images import InMemory, SyntheticFaces
from verisphere.images.detect import TEMPLATES
from verisphere.images.detect.pose import place_of
from verisphere.images.quality import detail_of, light_of, measure

DISC = np.hypot(*np.mgrid[-4:5, -4:5]) <= 4
LINES = {0: np.ones((1, 13)), 45: np.eye(13), 90: np.ones((13, 1)), 135: np.eye(13)[::-1]}


@pytest.fixture(scope="module")
def faces() -> torch.Tensor:
    drawn = SyntheticFaces(people=20, images=2)
    return drawn.images(range(len(drawn)))


def each(images: torch.Tensor, change) -> torch.Tensor:
    changed = [change(image) for image in images.permute(0, 2, 3, 1).numpy()]
    return torch.from_numpy(np.stack(changed)).permute(0, 3, 1, 2)


def blurred(image: np.ndarray, shape: np.ndarray) -> np.ndarray:
    kernel = shape / shape.sum()
    planes = [convolve(image[..., colour].astype(float), kernel, mode="nearest") for colour in range(3)]
    return np.stack(planes, -1).round().astype(np.uint8)


def reduced(image: np.ndarray, side: int) -> np.ndarray:
    small = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
    return np.asarray(small.resize((112, 112), Image.Resampling.BICUBIC))


@pytest.mark.parametrize("side", [12, 20, 32])
def test_a_small_face_that_is_enlarged_lacks_detail(faces: torch.Tensor, side: int):
    assert detail_of(each(faces, lambda image: reduced(image, side))).max() < np.quantile(detail_of(faces), 0.05)


@pytest.mark.parametrize("angle", LINES)
def test_motion_in_any_direction_lacks_detail_in_one(faces: torch.Tensor, angle: int):
    moved = detail_of(each(faces, lambda image: blurred(image, LINES[angle])))
    assert np.mean(moved < np.quantile(detail_of(faces), 0.05)) > 0.95


def test_defocus_lacks_detail(faces: torch.Tensor):
    assert detail_of(each(faces, lambda image: blurred(image, DISC))).max() < np.quantile(detail_of(faces), 0.05)


def test_a_limit_of_some_people_of_lfw_refuses_worse_photographs_of_others(real_data: Path):
    with zipfile.ZipFile(real_data / "lfw_112.zip") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith("_0001.jpg"))[::14]
        opened = [Image.open(io.BytesIO(archive.read(name))).convert("RGB") for name in names]
    images = torch.from_numpy(np.stack([np.asarray(image) for image in opened])).permute(0, 3, 1, 2)
    some, others = images[::2], images[1::2]
    limit = np.quantile(detail_of(some), 0.01)
    assert np.mean(detail_of(others) < limit) < 0.04
    for worse in (
        lambda image: reduced(image, 24),
        lambda image: blurred(image, LINES[45]),
        lambda image: blurred(image, DISC),
    ):
        assert np.mean(detail_of(each(others, worse)) < limit) > 0.95


def test_detail_is_that_of_two_waves_of_known_power():
    across = torch.arange(112) * 2 * torch.pi / 112
    waves = 128 + 40 * torch.cos(6 * across)[None] + 40 * torch.cos(20 * across)[:, None]
    other = 128 + 40 * torch.cos(6 * across)[None] + 20 * torch.cos(20 * across)[:, None]
    noise = torch.from_numpy(np.random.default_rng(0).normal(0, 8, (112, 112)))
    images = torch.stack([wave + noise for wave in (waves, other)])[:, None].expand(-1, 3, -1, -1).round().byte()
    turned = images.transpose(2, 3)
    # the fine wave lies in one direction, so the five others decide, which are those of the noise in both
    assert detail_of(images)[0] == pytest.approx(detail_of(images)[1], abs=0.2)
    assert detail_of(turned) == pytest.approx(detail_of(images), abs=1.0)


def test_brightness_and_contrast_do_not_change_detail(faces: torch.Tensor):
    darker = (faces.float() * 0.5 + 20).round().byte()
    assert detail_of(darker) == pytest.approx(detail_of(faces), abs=0.6)


def test_light_is_that_of_the_middle():
    images = torch.full((3, 3, 112, 112), 255, dtype=torch.uint8)
    images[:, :, 22:90, 22:90] = 100
    images[1, :, 22:56, 22:90] = 200
    images[2, :, 22:56, 22:90] = 0
    light = light_of(images)
    assert light["brightness"] == pytest.approx([100, 150, 50])
    assert light["contrast"] == pytest.approx([0, 50, 50], abs=0.01)
    assert light["clipped"] == pytest.approx([0, 0, 50])


def test_measures_of_a_set_are_those_of_its_images(faces: torch.Tensor):
    names = tuple(map(str, range(300)))
    many = faces[torch.arange(300) % len(faces)]
    measured = measure(InMemory(many, names, names))
    assert measured.keys() == {"detail", "brightness", "contrast", "clipped"}
    assert measured["detail"][:40] == pytest.approx(detail_of(faces))
    assert measured["brightness"][260:] == pytest.approx(light_of(many[260:])["brightness"])


def test_size_and_pose_of_the_template_and_of_a_face_that_is_turned():
    frontal = np.array(TEMPLATES["arcface_112x112"].points)
    turn = np.radians(30)
    tilted = frontal @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) / 2
    profile = np.array([[50.0, 50], [58, 50], [62, 70], [51, 90], [58, 90]])
    looking_down = np.array([[38.0, 52], [74, 52], [56, 82], [42, 92], [71, 92]])
    place = place_of(np.stack([frontal, tilted, profile, looking_down, np.full((5, 2), np.nan)]))
    assert place["size"][:4] == pytest.approx([35.4, 17.7, 40 / 1.15, 36], abs=0.3)  # yaw does not make a face small
    assert place["turned"][:4] == pytest.approx([0, 0, np.degrees(np.arctan(2)), 0], abs=1)
    assert place["nodded"][[0, 3]] == pytest.approx([1, np.degrees(np.arctan(0.5))], abs=1)
    assert place["tilted"][:2] == pytest.approx([0.3, 30], abs=0.4)
    assert all(np.isnan(numbers[4]) for numbers in place.values())
