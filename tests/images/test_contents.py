"""The digest by which a stopped work knows its images again: another one for other images, and only for them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.images import Faces, InMemory, Photos, Relabelled, SyntheticFaces
from verisphere.images.packs.image_files import image_files
from verisphere.measure.suite.images import SetFaces, SetImages


def folder(place: Path, change: int | None = None) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), np.uint8)
    if change is not None:
        pixels[change, 3, 3, 1] ^= 1
    for number, image in enumerate(pixels):
        path = place / f"p{number // 4}" / f"{number:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return place


def in_memory(place: Path, size: int = 16) -> Faces:
    photos = Photos(place, size=(size, size))
    return InMemory(photos.images(range(len(photos))), photos.names, photos.identities)


def relabelled(place: Path, size: int = 16) -> Faces:
    photos = Photos(place, size=(size, size))
    lines = [f"{name},{person}" for name, person in zip(photos.names[::-1], photos.identities[::-1], strict=True)]
    (place.parent / "list.csv").write_text("\n".join(["name,identity", *lines]))
    return Relabelled(photos, place.parent / "list.csv")


def of_a_suite(place: Path, size: int = 16) -> Faces:
    files, photos = image_files(place), Photos(place)
    return SetFaces(SetImages(files, tuple(files.names), tuple(photos.identities), photos.source), (size, size))


SETS: list[Callable[..., Faces]] = [
    lambda place, size=16: Photos(place, size=(size, size)),
    in_memory,
    relabelled,
    of_a_suite,
    lambda place, size=16: in_memory(place, size).select(range(0, 40)),
]


@pytest.mark.parametrize("made", SETS)
def test_one_changed_pixel_or_another_size_is_another_digest(made: Callable[..., Faces], tmp_path: Path):
    same, again = (made(folder(tmp_path / name / "images")).contents(range(40)) for name in ("one", "two"))
    assert same == again
    assert made(folder(tmp_path / "three" / "images", change=7)).contents(range(40)) != same
    assert made(folder(tmp_path / "one" / "images"), 32).contents(range(40)) != same
    faces = made(folder(tmp_path / "one" / "images"))
    assert faces.contents(range(39)) != same != faces.contents([1, 0, *range(2, 40)])


def test_a_part_has_the_digest_of_its_images(tmp_path: Path):
    photos = Photos(folder(tmp_path / "images"), size=(16, 16))
    assert photos.select([5, 3]).contents([1]) == photos.contents([3])


def test_drawn_faces_are_known_by_what_they_are_drawn_by():
    faces = [SyntheticFaces(people=people, images=2, seed=seed, size=48) for people, seed in ((4, 0), (6, 0), (4, 1))]
    assert faces[0].contents(range(8)) == faces[1].contents(range(8))  # more people change no image
    assert torch.equal(faces[0].images(range(8)), faces[1].images(range(8)))
    assert faces[0].contents(range(8)) != faces[2].contents(range(8))
