"""images.json: what a set says of its images, read wherever it may lie, and refused where it is none."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from PIL import Image

from verisphere.data.by_light import ByLight
from verisphere.data.images_json import NAME, images_json, read_source
from verisphere.data.memory import in_memory
from verisphere.data.photos import Photos
from verisphere.data.synthetic import SyntheticFaces
from verisphere.vocabulary import ImageSource, Origin
from verisphere.workflows.render import render_zip

ALIGNED = "arcface_112x112 by MTCNN"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two people's images, all inside one more folder."""
    root = tmp_path / "faces"
    for name in ("Ann/1.png", "Bo/1.png"):
        (root / "all" / name).parent.mkdir(parents=True)
        Image.new("RGB", (112, 112)).save(root / "all" / name)
    return root


def test_a_set_without_the_file_is_read_from_files_and_nothing_more_is_known(folder):
    assert Photos(folder).source == ImageSource("faces", drawn=False, alignment=None)


@pytest.mark.parametrize("inside", ["", "all"])
def test_the_file_may_lie_in_any_folder_that_everything_shares(folder, inside, tmp_path):
    (folder / inside / NAME).write_text(images_json(drawn=True, alignment=ALIGNED))
    shutil.make_archive(str(tmp_path / "archive"), "zip", folder)
    for path in (folder, tmp_path / "archive.zip"):
        assert Photos(path).source == ImageSource(path.name, drawn=True, alignment=ALIGNED)


def test_a_list_has_the_file_beside_it(folder):
    (folder / "people.txt").write_text("all/Ann/1.png\tAnn\nall/Bo/1.png\tBo\n")
    (folder / NAME).write_text(images_json(drawn=False, alignment=ALIGNED))
    assert Photos(folder / "people.txt").source == ImageSource("people.txt", drawn=False, alignment=ALIGNED)


def test_rendered_archives_say_that_they_are_drawn(tmp_path):
    faces = SyntheticFaces(4, 2, size=48)
    render_zip(faces, tmp_path / "drawn.zip")
    found = Photos(tmp_path / "drawn.zip", size=(48, 48)).source
    assert found == ImageSource("drawn.zip", drawn=True, alignment=faces.source.alignment)


def test_parts_and_copies_of_a_set_keep_its_source():
    faces = SyntheticFaces(4, 2, size=48)
    assert faces.source.drawn
    for made in (faces.select([0, 3]), in_memory(faces), ByLight(faces)):
        assert made.source == faces.source


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("{", "images.json: not what `verisphere align` or `render` writes"),
        ('{"format": 2, "drawn": false, "alignment": null}', "its format is 2, this version reads 1"),
        ('{"format": 1, "drawn": "no", "alignment": null}', "drawn is 'no', not true or false"),
        ('{"format": 1, "alignment": null}', "drawn is missing"),
        ("[" * 5000, "images.json: not what"),
        (" " * 70_000, "70,000 bytes, more than the 65,536 allowed"),
    ],
)
def test_another_file_of_this_name_is_refused(folder, content, fault, tmp_path):
    (folder / NAME).write_text(content)
    shutil.make_archive(str(tmp_path / "archive"), "zip", folder)
    for path in (folder, tmp_path / "archive.zip"):
        with pytest.raises(ValueError, match=r"images\.json: ") as refused:
            Photos(path)
        assert fault in str(refused.value)


def test_a_damaged_entry_of_an_archive_is_refused(folder, tmp_path):
    (folder / NAME).write_text(images_json(drawn=False, alignment=ALIGNED))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.write(path, path.relative_to(folder).as_posix())
    content = bytearray((tmp_path / "a.zip").read_bytes())
    content[content.index(b'"drawn"') + 1] ^= 1
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"images\.json: cannot be read from the archive"):
        read_source(tmp_path / "a.zip")


def test_an_origin_keeps_the_last_part_of_the_path():
    origin = Origin("ab" * 32, True, "float32", "/home/somebody/photos.zip", False, ALIGNED)
    assert origin.source == ImageSource("photos.zip", False, ALIGNED)
    assert json.loads(images_json(True, None)) == {"format": 1, "drawn": True, "alignment": None}
