"""Synthetic faces as an archive: what is in it, the truth beside wrong labels, and the contact sheet."""

import csv
import zipfile
from pathlib import Path

import pytest
import torch
from PIL import Image

from verisphere.images.photos import Photos
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces, contact_sheet
from verisphere.measure.render import render_zip

SIZE = 48


def few(people: int = 6, images: int = 3, **options: object) -> SyntheticFaces:
    return SyntheticFaces(people, images, size=SIZE, **options)


def truth(path: Path) -> list[dict[str, str]]:
    with zipfile.ZipFile(path) as archive:
        return list(csv.DictReader(archive.read("truth.csv").decode().splitlines()))


def test_the_archive_reads_back_as_the_same_faces(tmp_path: Path):
    faces = few()
    said = render_zip(faces, tmp_path / "faces.zip")
    assert said == f"{tmp_path / 'faces.zip'}: 18 images of 6 people"
    photos = Photos(tmp_path / "faces.zip", size=(SIZE, SIZE))
    rows = truth(tmp_path / "faces.zip")
    assert [row["name"] for row in rows] == [f"{row['identity']}/{row['name'].split('/')[1]}" for row in rows]
    places = [photos.names.index(row["name"]) for row in rows]
    assert sorted(places) == list(range(18))
    assert [photos.identities[place] for place in places] == list(faces.identities)
    assert torch.equal(photos.images(places), faces.images(range(18)))  # PNG loses nothing


def test_the_truth_of_correct_labels(tmp_path: Path):
    faces = few()
    render_zip(faces, tmp_path / "faces.zip")
    rows = truth(tmp_path / "faces.zip")
    assert list(rows[0]) == ["name", "identity", "true_identity", "domain"]
    assert all(row["identity"] == row["true_identity"] for row in rows)
    assert [row["domain"] for row in rows] == list(faces.domains)


def test_wrong_labels_keep_their_truth(tmp_path: Path):
    faces = few(people=12, label_noise=0.25)
    said = render_zip(faces, tmp_path / "faces.zip")
    assert said.endswith("36 images of 12 people")
    rows = truth(tmp_path / "faces.zip")
    wrong = [row for row in rows if row["identity"] != row["true_identity"]]
    assert len(wrong) == 9  # a quarter of 36
    assert all(row["name"].startswith(f"{row['identity']}/") for row in rows)  # the folder is what a training sees
    assert [row["true_identity"] for row in rows] == list(few(12).identities)


def test_the_same_bytes_each_time_and_others_for_another_seed(tmp_path: Path):
    for name, seed in (("a.zip", 1), ("b.zip", 1), ("c.zip", 2)):
        render_zip(few(seed=seed), tmp_path / name)
    first, again, other = ((tmp_path / name).read_bytes() for name in ("a.zip", "b.zip", "c.zip"))
    assert first == again
    assert first != other


def test_more_than_one_batch(tmp_path: Path):
    faces = few(people=5, images=14)  # 70 images, batches of 64
    seen = []

    def progress(batches, description, total):
        for batch in batches:
            seen.append(len(batch.indices))
            yield batch
        assert (description, total) == ("rendering", len(seen))

    render_zip(faces, tmp_path / "faces.zip", progress=progress)
    assert seen == [64, 6]
    assert len(truth(tmp_path / "faces.zip")) == 70


@pytest.mark.parametrize(("people", "images", "shown"), [(3, 2, (3, 2)), (9, 11, (8, 10))])
def test_the_sheet_shows_the_first_faces(tmp_path: Path, people: int, images: int, shown: tuple[int, int]):
    faces = few(people, images)
    render_zip(faces, tmp_path / "faces.zip", tmp_path / "sheet.PNG")
    with Image.open(tmp_path / "sheet.PNG") as sheet:
        assert sheet.format == "PNG"
        assert sheet.size == (shown[1] * SIZE, shown[0] * SIZE)
        pixels = torch.tensor(list(sheet.tobytes()), dtype=torch.uint8).view(sheet.height, sheet.width, 3)
    assert torch.equal(pixels.permute(2, 0, 1), contact_sheet(faces, *shown))


@pytest.mark.parametrize(
    ("name", "sheet", "message"),
    [
        ("faces.tar", None, r"faces\.tar: .* an archive that ends in \.zip"),
        ("faces", None, r"faces: .* ends in \.zip"),
        ("faces.zip", "sheet.webm", r"sheet\.webm: the contact sheet is a picture that ends in \.png"),
        ("faces.zip", "sheet", r"sheet: the contact sheet"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_drawn(
    tmp_path: Path, name: str, sheet: str | None, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(SyntheticFaces, "images", lambda *_: pytest.fail("must not be drawn"))
    with pytest.raises(ValueError, match=message) as caught:
        render_zip(few(), tmp_path / name, sheet and tmp_path / sheet)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_sheet_that_cannot_be_written_is_refused_before_anything_is_drawn(tmp_path: Path):
    (tmp_path / "taken.png").mkdir()
    (tmp_path / "file").touch()
    for sheet in (tmp_path / "taken.png", tmp_path / "file" / "sheet.png"):
        with pytest.raises(OSError, match=sheet.name):
            render_zip(few(), tmp_path / "faces.zip", sheet)
    assert not (tmp_path / "faces.zip").exists()
