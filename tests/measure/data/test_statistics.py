"""Distributions of a data set: images per identity, domains, yaw; as tables, JSON and a picture."""

import json
from pathlib import Path

import numpy as np
import pytest

from measure.data.planting import folder, image
from verisphere.measure.data.statistics import data_statistics, images_histogram, yaw_histogram


def with_landmarks(root: Path) -> Path:
    """Landmarks of four photographs, named as the images but for the suffix; two of them turned by 45 degrees."""
    eyes, mouth = [[30, 40], [70, 40]], [[35, 80], [65, 80]]
    noses = {"Ann/1.jpg": 50, "Ann/2.jpg": 70, "Ben/1.jpg": 30, "Cem/1.jpg": 55}
    content = {name: {"landmarks": [*eyes, [nose, 60], *mouth]} for name, nose in noses.items()}
    (root / "landmarks.json").write_text(json.dumps(content | {"Ben/2.jpg": []}))
    return root / "landmarks.json"


def test_distributions_of_a_set(tmp_path: Path):
    figures = data_statistics(folder(tmp_path), with_landmarks(tmp_path))
    assert (figures.images, figures.identities, figures.yaw_images) == (6, 3, 4)
    assert [(row.first, row.last, row.count, row.images) for row in figures.images_per_identity] == [
        (1, 1, 0, 0),
        (2, 2, 3, 6),
    ]
    assert figures.yaw is not None
    # arctan of 0, 1, -1 and 0.25: 0, 45, -45 and 14.04 degrees
    assert {row.first: row.count for row in figures.yaw if row.count} == {-45: 1, 0: 2, 45: 1}
    assert figures.yaw_within_30 == 0.5
    text = figures.text()
    assert "| 2                   |          3 | 100.0% |      6 |" in text
    assert "| -45 to -30   |      1 | 25.0% |" in text
    assert "4 of 6 images have landmarks; 50.0% within 30 degrees" in text
    assert "arctan(2 a - 1)" in text


def test_without_landmarks_there_is_no_yaw(tmp_path: Path):
    figures = data_statistics(folder(tmp_path))
    assert (figures.yaw, figures.yaw_images, figures.yaw_within_30) == (None, 0, None)
    assert "no yaw: --landmarks FILE" in figures.text()


def test_landmarks_of_another_set_are_refused(tmp_path: Path):
    path = folder(tmp_path)
    landmarks = with_landmarks(tmp_path)
    landmarks.write_text(landmarks.read_text().replace("/", "-"))
    with pytest.raises(ValueError, match=r"none of its 5 photos is an image of .* it names 'Ann-1.jpg' where the set"):
        data_statistics(path, landmarks)


def test_domains_are_counted(tmp_path: Path):
    for number, name in enumerate(["day/Ann/1.png", "night/Ann/1.png", "night/Ben/1.png"]):
        (tmp_path / "set" / name).parent.mkdir(parents=True)
        (tmp_path / "set" / name).write_bytes(image(number))
    figures = data_statistics(tmp_path / "set")
    assert figures.domains == {"night": 2, "day": 1}
    assert "| night  |      2 |" in figures.text()


def test_a_folder_has_a_picture_and_the_figures(tmp_path: Path):
    figures = data_statistics(folder(tmp_path), with_landmarks(tmp_path))
    figures.write_folder(tmp_path / "out")
    assert (tmp_path / "out" / "statistics.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "out" / "statistics.json").read_text())["yaw_images"] == 4


@pytest.mark.parametrize(("images", "row"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (1024, 10)])
def test_intervals_of_images(images: int, row: int):
    rows = images_histogram(np.array([images]))
    assert [one.count for one in rows] == [0] * row + [1]
    assert rows[-1].images == images


@pytest.mark.parametrize(("degrees", "first"), [(-90.0, -90), (-0.1, -15), (0.0, 0), (14.9, 0), (15.0, 15), (90.0, 75)])
def test_intervals_of_yaw(degrees: float, first: int):
    (row,) = [row for row in yaw_histogram(np.array([degrees])) if row.count]
    assert row.first == first
