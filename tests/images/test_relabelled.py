"""Images with the labels of a list: which images, in which order, with which identities and domains."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from verisphere.images import InMemory, Photos, Relabelled

FACES = InMemory(
    torch.arange(3, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 4, 4).contiguous(),
    ("a/1", "a/2", "b/1"),
    ("a", "a", "b"),
    ("x", "y", "x"),
)


def listed(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text(text)
    return path


def test_images_follow_the_list_and_its_identities(tmp_path: Path):
    faces = Relabelled(FACES, listed(tmp_path, "name,identity,true_identity\nb/1,a,b\na/2,c,c\n"))
    assert (faces.names, faces.identities, faces.domains) == (("b/1", "a/2"), ("a", "c"), ("x", "y"))
    assert faces.true_identities == ("b", "c")
    assert faces.images([0, 1])[:, 0, 0, 0].tolist() == [2, 1]
    assert faces.select([1]).true_identities == ("c",)


def test_every_image_keeps_its_domain(tmp_path: Path):
    assert Relabelled(FACES, listed(tmp_path, "name,identity\na/2,c\nb/1,a\n")).domains == ("y", "x")


def test_domains_of_the_list_replace_those_of_the_set(tmp_path: Path):
    assert Relabelled(FACES, listed(tmp_path, "name,identity,domain\na/1,a,night\n")).domains == ("night",)


def test_a_crowd_under_unknown_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    faces = InMemory(FACES.images([0]).expand(24, -1, -1, -1), tuple(map(str, range(24))), ("a",) * 24)
    people = [("unknown" if row < 12 else f"p{row // 2}") for row in range(24)]
    Relabelled(
        faces, listed(tmp_path, "name,identity\n" + "".join(f"{row},{name}\n" for row, name in enumerate(people)))
    )
    assert (
        "labels.csv: 'unknown' holds 12 images, where the median person has 2: are they all one person?" in caplog.text
    )


def test_an_image_that_the_set_lacks_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"labels.csv: 1 of 2 images are not in the set, the first is 'c/1'.* 'a/1'"):
        Relabelled(FACES, listed(tmp_path, "name,identity\na/1,a\nc/1,c\n"))


def test_photos_take_a_list_before_their_restrictions(tmp_path: Path):
    for person, number in (("Ann", 1), ("Ann", 2), ("Ben", 1), ("Ben", 2)):
        (tmp_path / "faces" / person).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (112, 112), (number, 0, 0)).save(tmp_path / "faces" / person / f"{number}.png")
    labels = listed(tmp_path, "name,identity\nBen/2.png,Cid\nAnn/1.png,Cid\nAnn/2.png,Ann\n")
    photos = Photos(tmp_path / "faces", labels=labels, min_images=2)
    assert tuple(photos.names) == ("Ben/2.png", "Ann/1.png")
    assert tuple(photos.identities) == ("Cid", "Cid")
    assert photos.images([0, 1])[:, 0, 0, 0].tolist() == [2, 1]
