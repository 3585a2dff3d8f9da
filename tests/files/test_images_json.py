"""images.json: what a set says of its images, read wherever it may lie, and refused where it is none."""

import json
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from verisphere.base.vocabulary import ImageSource, Origin
from verisphere.files.images_json import NAME, described_source, images_json, joint_source, read_source
from verisphere.images.by_light import ByLight
from verisphere.images.decoded_faces import in_memory
from verisphere.images.photos import Photos
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.measure.render import render_zip
from verisphere.ship.align import align_photos

ALIGNED = "arcface_112x112 by MTCNN"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two people's images, all inside one more folder."""
    root = tmp_path / "faces"
    for name in ("Ann/1.png", "Bo/1.png"):
        (root / "all" / name).parent.mkdir(parents=True)
        Image.new("RGB", (112, 112)).save(root / "all" / name)
    return root


def test_of_a_set_without_the_file_nothing_is_known(folder):
    assert Photos(folder).source == ImageSource("faces", drawn=None, alignment=None)


@pytest.mark.parametrize("inside", ["", "all"])
def test_the_file_may_lie_in_any_folder_that_everything_shares(folder, inside, tmp_path):
    (folder / inside / NAME).write_text(images_json(drawn=True, alignment=ALIGNED))
    shutil.make_archive(str(tmp_path / "archive"), "zip", folder)
    for path in (folder, tmp_path / "archive.zip"):
        assert Photos(path).source == ImageSource(path.name, drawn=True, alignment=ALIGNED)


@pytest.mark.parametrize("place", [".", "all"])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_list_finds_the_file_in_the_folders_that_its_images_share(folder, place, absolute):
    above = f"{folder}/" if absolute else ""
    (folder / "people.txt").write_text(f"{above}all/Ann/1.png\tAnn\n{above}all/Bo/1.png\tBo\n")
    (folder / place / NAME).write_text(images_json(drawn=True, alignment=ALIGNED))
    assert Photos(folder / "people.txt").source == ImageSource("people.txt", drawn=True, alignment=ALIGNED)


def test_the_file_speaks_for_the_folders_below_it(folder):
    (folder / NAME).write_text(images_json(drawn=True, alignment=ALIGNED))
    assert Photos(folder / "all").source == ImageSource("all", drawn=True, alignment=ALIGNED)


@pytest.mark.parametrize(
    ("day", "night", "source"),
    [
        ((False, ALIGNED), (False, ALIGNED), (False, ALIGNED)),
        ((False, ALIGNED), (True, "arcface_112x112 by YuNet"), (True, "arcface_112x112 by MTCNN+YuNet")),
        ((None, ALIGNED), (False, "sphereface_112x96"), (None, "arcface_112x112+sphereface_112x96 by MTCNN")),
        ((None, ALIGNED), (True, "the place they are drawn at"), (True, f"the place they are drawn at and {ALIGNED}")),
        ((False, ALIGNED), None, (False, ALIGNED)),
    ],
)
def test_domains_with_files_of_their_own_are_stated_together(tmp_path, day, night, source):
    root = tmp_path / "faces"
    for domain, record in (("day", day), ("night", night)):
        for person in ("Ann", "Bo"):
            (root / domain / person).mkdir(parents=True)
            Image.new("RGB", (112, 112)).save(root / domain / person / "1.png")
        if record is not None:
            (root / domain / NAME).write_text(images_json(*record))
    names = [f"{domain}/{person}/1.png" for domain in ("day", "night") for person in ("Ann", "Bo")]
    (root / "list.txt").write_text("".join(f"{name}\t{name[-7:-6]}\n" for name in names))
    shutil.make_archive(str(tmp_path / "faces"), "zip", root)
    for path in (root, tmp_path / "faces.zip", root / "list.txt"):
        assert read_source(path, names) == ImageSource(path.name, *source)


def test_the_template_of_a_set_is_unknown_where_that_of_some_images_is(folder):
    other = "sphereface_112x96 by YuNet"
    for person, alignment in (("Ann", "the place they are drawn at"), ("Bo", ALIGNED)):
        (folder / "all" / person / NAME).write_text(images_json(True, alignment))
    mixed = read_source(folder, ["all/Ann/1.png", "all/Bo/1.png"])
    assert (mixed.template, mixed.detector) == (None, None)
    ours, theirs = (Origin("ab" * 32, True, "float32", "faces", True, source) for source in (mixed.alignment, other))
    assert ours.differences(theirs) == ()


def test_a_detector_beside_given_landmarks_is_compared():
    parts = [ImageSource("set", None, f"small by {finder}") for finder in ("yunet", "the landmarks in a.csv")]
    assert [part.detector for part in parts] == ["yunet", None]
    assert joint_source("set", parts).detector == "yunet+the landmarks in a.csv"
    assert (
        joint_source("set", [parts[1], replace(parts[1], alignment="small by the landmarks in b.csv")]).detector is None
    )


def test_a_part_of_the_people_has_the_record_of_their_images_alone(folder, tmp_path):
    (folder / "all" / NAME).write_text(images_json(False, ALIGNED))
    (folder / "all" / "Bo" / NAME).write_text(images_json(True, "sphereface_112x96"))
    (folder / "list.txt").write_text("all/Ann/1.png\tAnn\nall/Bo/1.png\tBo\n")
    (tmp_path / "people.txt").write_text("Ann\n")
    shutil.make_archive(str(tmp_path / "faces"), "zip", folder)
    for path in (folder, tmp_path / "faces.zip", folder / "list.txt"):
        assert Photos(path).source.template == "arcface_112x112+sphereface_112x96"
        assert Photos(path, people=tmp_path / "people.txt").source == ImageSource(path.name, False, ALIGNED)


def test_a_photograph_has_the_file_of_the_folder_that_holds_its_person_s(folder):
    (folder / "all" / NAME).write_text(images_json(False, ALIGNED))
    photograph = folder / "all" / "Ann" / "1.png"
    assert read_source(photograph, (photograph.name,)) == ImageSource("1.png", False, ALIGNED)


def test_the_nearest_file_above_an_image_counts_however_far_up(folder, tmp_path):
    deep = tmp_path / "above" / "set"
    shutil.copytree(folder, deep)
    (tmp_path / NAME).write_text('["a file of something else"]')
    (tmp_path / "above" / NAME).write_text(images_json(True, ALIGNED))
    person = deep / "all" / "Ann"
    (person / "list.txt").write_text("1.png\tAnn\n")
    names = ["all/Ann/1.png", "all/Bo/1.png"]
    for path, images in (
        (deep, names),
        (deep / "all", ["Ann/1.png", "Bo/1.png"]),
        (person, ["1.png"]),
        (person / "1.png", ["1.png"]),
        (person / "list.txt", ["1.png"]),
    ):
        assert read_source(path, images) == ImageSource(path.name, True, ALIGNED)
    (person / NAME).write_text(images_json(True, "sphereface_112x96"))
    assert read_source(deep, names).alignment == "arcface_112x112+sphereface_112x96 by MTCNN"
    assert read_source(person / "1.png", ["1.png"]).alignment == "sphereface_112x96"
    beside = tmp_path / "beside"  # its record is not of images elsewhere that a list names
    beside.mkdir()
    (beside / NAME).write_text(images_json(True, "sphereface_112x96"))
    for above in ("../above/set", str(deep)):
        assert read_source(beside / "list.txt", [f"{above}/all/Bo/1.png"]).alignment == ALIGNED
    (deep / "linked").symlink_to(person)
    assert read_source(deep, ["linked/1.png"]).alignment == "sphereface_112x96"
    (person / NAME).write_text("{")
    with pytest.raises(ValueError, match=r"images\.json: not what"):
        read_source(deep, names)


@pytest.mark.parametrize("drawn", [True, False, None])
def test_aligned_crops_keep_the_word_of_their_photographs_wherever_it_lies(folder, drawn, tmp_path):
    if drawn is not None:
        (folder / "all" / NAME).write_text(images_json(drawn=drawn, alignment=None))
    points = [[38.3, 51.7], [73.5, 51.5], [56.0, 71.7], [41.5, 92.4], [70.7, 92.2]]
    landmarks = {f"all/{name}/1.png": {"landmarks": points} for name in ("Ann", "Bo")}
    (tmp_path / "points.json").write_text(json.dumps(landmarks))
    align_photos(folder, tmp_path / "crops", landmarks=tmp_path / "points.json")
    assert Photos(tmp_path / "crops").source == ImageSource(
        "crops", drawn=drawn, alignment="arcface_112x112 by the landmarks in points.json"
    )


def test_a_recipe_shows_what_its_set_is_made_of():
    drawn = {"class_path": "verisphere.images.SyntheticFaces", "init_args": {"people": 3}}
    photos = {"class_path": "verisphere.images.Photos", "init_args": {"path": "/home/me/lfw.zip"}}
    assert described_source(drawn) == SyntheticFaces(4, 2, size=48).source
    assert described_source(drawn | {"class_path": "verisphere.images.synthetic.synthetic_faces.SyntheticFaces"}).drawn
    assert described_source(photos) == ImageSource("lfw.zip")
    for inner in (drawn, photos):
        by_light = {"class_path": "verisphere.images.ByLight", "init_args": {"faces": inner}}
        assert described_source(by_light) == described_source(inner)
    assert described_source({"class_path": "mine.Faces"}) == ImageSource("mine.Faces")


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
        ("{", "images.json: not what `verisphere align` or `data render` writes"),
        ('{"format": 2, "drawn": false, "alignment": null}', "its format is 2, this version reads 1"),
        ('{"format": 1, "drawn": "no", "alignment": null}', "drawn must be true or false, got 'no'"),
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
    with pytest.raises(ValueError, match=r"images\.json: damaged archive entry"):
        read_source(tmp_path / "a.zip", ["all/Ann/1.png"])


def test_an_origin_keeps_the_last_part_of_the_path():
    origin = Origin("ab" * 32, True, "float32", "/home/somebody/photos.zip", False, ALIGNED)
    assert origin.source == ImageSource("photos.zip", False, ALIGNED)
    assert json.loads(images_json(True, None)) == {"format": 1, "drawn": True, "alignment": None}
