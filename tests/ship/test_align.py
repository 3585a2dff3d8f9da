"""Photos to aligned crops: what is written, what is skipped and why, and nothing half done."""

import csv
import hashlib
import importlib.util
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from blue_squares import SIDE, photo, write_blue_squares
from verisphere.base.work import working
from verisphere.files.landmarks import read_landmarks
from verisphere.files.work import WorkFolder
from verisphere.images import Photos
from verisphere.images.detect import TEMPLATES, align
from verisphere.images.detect.from_function import FunctionDetector
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.ship import align as ship_align
from verisphere.ship.align import LIST, align_photos, crop_names
from verisphere.ship.face_search import Skipped

needs_weights = pytest.mark.skipif(importlib.util.find_spec("mtcnn") is None, reason="no extra `detect`")
ARCFACE = TEMPLATES["arcface_112x112"]
POINTS = np.array(ARCFACE.points)


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def noise(seed: int, height: int = 150, width: int = 140) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


@pytest.fixture
def photos(tmp_path) -> Path:
    """Four photos at three depths, one of them no image at all, beside a file that is none."""
    folder = tmp_path / "photos"
    for seed, name in enumerate(("Ann/1.png", "Ann/2.png", "Bo/trip/1.png", "top.png")):
        save(folder / name, noise(seed))
    (folder / "Ann" / "broken.jpg").write_bytes(b"\xff\xd8\xff not a photo")
    (folder / "notes.txt").write_text("hello")
    return folder


@pytest.fixture
def landmarks(tmp_path) -> Path:
    path = tmp_path / "marks.json"
    one = {"landmarks": (POINTS + np.array([10, 20])).tolist()}
    central, large = {"landmarks": (POINTS + 14).tolist()}, {"landmarks": (POINTS * 1.2 - 20).tolist()}
    path.write_text(
        json.dumps(
            {
                "Ann/1.png": one,
                "Ann/2.png": [large | {"box": [0, 0, 60, 150]}, central | {"box": [50, 50, 30, 30], "score": 0.5}],
                "Bo/trip/1.png": [],
                "Ann/broken.jpg": one,
                "gone.png": one,
            }
        )
    )
    return path


def rows(folder: Path) -> dict[str, dict[str, str]]:
    with open(folder / LIST, newline="") as file:
        return {row["name"]: row for row in csv.DictReader(file)}


def test_every_face_is_a_crop_with_its_photograph(photos, landmarks, tmp_path):
    out = tmp_path / "out"
    result = align_photos(photos, out, landmarks=landmarks, every_face=True)
    assert (result.aligned, result.crops) == (2, 3)
    assert "faces: 3; photographs.csv, in the result, says which are on one photo" in result.text()
    with open(out / "photographs.csv", newline="") as file:
        shared = [(row["name"], row["photograph"]) for row in csv.DictReader(file)]
    assert shared == [("Ann/1_1.png", "Ann/1.png"), ("Ann/2_1.png", "Ann/2.png"), ("Ann/2_2.png", "Ann/2.png")]
    one = tmp_path / "one"
    align_photos(photos, one, landmarks=landmarks)
    assert not (one / "photographs.csv").exists()
    assert (out / "Ann" / "2_1.png").read_bytes() == (one / "Ann" / "2.png").read_bytes()  # the most central is first
    large = align(np.asarray(Image.open(photos / "Ann" / "2.png")), (POINTS * 1.2 - 20).astype(np.float32), ARCFACE)
    np.testing.assert_array_equal(np.asarray(Image.open(out / "Ann" / "2_2.png")), large)
    with open(out / LIST, newline="") as file:
        crops = [(row["name"], row["crop"], row["box_width"]) for row in csv.DictReader(file) if row["crop"]]
    assert crops[1:] == [("Ann/2.png", "Ann/2_1.png", "30.00"), ("Ann/2.png", "Ann/2_2.png", "60.00")]


def test_given_landmarks_one_line_a_photo(photos, landmarks, tmp_path):
    out = tmp_path / "out"
    result = align_photos(photos, out, landmarks=landmarks)
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()) == [
        "Ann/1.png", "Ann/2.png", LIST, "images.json",
    ]  # fmt: skip
    for name, seed, shift in (("Ann/1.png", 0, [10, 20]), ("Ann/2.png", 1, 14)):
        expected = align(noise(seed), (POINTS + shift).astype(np.float32), TEMPLATES["arcface_112x112"])
        assert np.array_equal(np.asarray(Image.open(out / name)), expected)
    assert (result.aligned, result.several, result.no_face, result.unreadable) == (2, 1, 2, 1)
    assert result.unused == ("gone.png",)
    assert [photo.name for photo in result.skipped] == ["Ann/broken.jpg", "Bo/trip/1.png", "top.png"]
    assert result.skipped[1:] == (
        Skipped("Bo/trip/1.png", f"listed without a face in {landmarks}"),
        Skipped("top.png", f"not listed in {landmarks}"),
    )
    assert result.skipped[0].reason.startswith("not an image that can be decoded")
    listed = rows(out)
    assert list(listed) == ["Ann/1.png", "Ann/2.png", "Ann/broken.jpg", "Bo/trip/1.png", "top.png"]
    assert [row["status"] for row in listed.values()] == ["aligned", "aligned", "unreadable", "no face", "no face"]
    two = listed["Ann/2.png"]
    assert (two["crop"], two["faces"], two["score"]) == ("Ann/2.png", "2", "0.5000")
    assert [two[f"box_{side}"] for side in ("left", "top", "width", "height")] == ["50.00", "50.00", "30.00", "30.00"]
    assert float(two["left_eye_x"]) == pytest.approx(POINTS[0, 0] + 14, abs=0.01)
    assert listed["top.png"]["reason"] == f"not listed in {landmarks}"


def test_the_text_says_what_became_of_them(photos, landmarks, tmp_path):
    lines = align_photos(photos, tmp_path / "out", landmarks=landmarks).text().splitlines()
    assert lines[0] == f"{tmp_path / 'out'}: 2 of 5 photos aligned to arcface_112x112"
    assert lines[1:4] == [
        "several faces, of which the most central was taken: 1",
        "skipped, no face found: 2",
        "skipped as unreadable: 1",
    ]
    assert lines[4].startswith("  Ann/broken.jpg: not an image that can be decoded")
    assert lines[-2] == f"with landmarks, but not in {photos}: 1, first gone.png"
    assert lines[-1] == "align.csv, in the result, says of every photo what became of it"


def test_the_list_serves_as_a_landmarks_file(photos, landmarks, tmp_path):
    first = align_photos(photos, tmp_path / "first", landmarks=landmarks)
    again = align_photos(photos, tmp_path / "again", landmarks=tmp_path / "first" / LIST)
    assert (again.aligned, again.no_face + again.unreadable) == (first.aligned, 3)
    for name in ("Ann/1.png", "Ann/2.png"):
        one, other = (np.asarray(Image.open(tmp_path / run / name)).astype(int) for run in ("first", "again"))
        assert np.abs(one - other).max() <= 6  # a hundredth of a pixel in noise
    assert list(read_landmarks(tmp_path / "first" / LIST)) == list(rows(tmp_path / "first"))


def test_a_file_that_cannot_be_read_is_skipped_where_pieces_are_kept_too(photos, landmarks, tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for name in ("Ann/1.png", "Ann/2.png"):
            archive.write(photos / name, name)
    content = bytearray((tmp_path / "photos.zip").read_bytes())
    content[2000] ^= 1  # inside the first file, which then has another checksum
    (tmp_path / "photos.zip").write_bytes(content)
    alone = align_photos(tmp_path / "photos.zip", tmp_path / "one", landmarks=landmarks)
    with working(WorkFolder(tmp_path / "work")):
        kept = align_photos(tmp_path / "photos.zip", tmp_path / "two", landmarks=landmarks)
    assert (kept.aligned, kept.unreadable, kept.skipped) == (1, 1, alone.skipped)
    assert (tmp_path / "one" / LIST).read_bytes() == (tmp_path / "two" / LIST).read_bytes()


@pytest.mark.parametrize("packed", [False, True])
def test_an_archive_gives_what_a_folder_gives(photos, landmarks, tmp_path, packed):
    source = photos
    if packed:
        source = tmp_path / "photos.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for path in sorted(photos.rglob("*.*")):
                archive.write(path, path.relative_to(photos).as_posix())
    align_photos(source, tmp_path / "out", landmarks=landmarks)
    result = align_photos(source, tmp_path / "out.zip", landmarks=landmarks)
    with zipfile.ZipFile(result.out) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert sorted(archive.namelist()) == ["Ann/1.png", "Ann/2.png", LIST, "images.json"]
        for name in archive.namelist():
            assert archive.read(name) == (tmp_path / "out" / name).read_bytes()
    before = (tmp_path / "out.zip").read_bytes()
    align_photos(source, tmp_path / "out.zip", landmarks=landmarks)
    assert (tmp_path / "out.zip").read_bytes() == before  # the same crops, the same bytes


@pytest.mark.parametrize("out", ["out", "out.zip"])
def test_the_result_is_read_as_a_set_of_faces(photos, landmarks, tmp_path, out):
    align_photos(photos, tmp_path / out, landmarks=landmarks)
    faces = Photos(tmp_path / out, max_stretch=1.0)
    assert faces.names == ("Ann/1.png", "Ann/2.png")  # the list at the top is passed over
    assert faces.images([0, 1]).shape == (2, 3, 112, 112)


def test_formats(photos, landmarks, tmp_path):
    png, jpg = (
        align_photos(photos, tmp_path / suffix, landmarks=landmarks, image_format=suffix, template="sphereface_112x96")
        for suffix in ("png", "jpg")
    )
    exact = np.asarray(Image.open(tmp_path / "png/Ann/1.png")).astype(int)
    with Image.open(tmp_path / "jpg/Ann/1.jpg") as image:
        assert image.format == "JPEG"
        assert image.size == (96, 112)
        assert np.abs(np.asarray(image).astype(int) - exact).mean() < 12  # noise, the worst there is for JPEG
    assert (png.template, png.aligned, jpg.aligned) == ("sphereface_112x96", 2, 2)
    with pytest.raises(ValueError, match="image_format is 'gif'; allowed are png, jpg"):
        # Beneath the check of annotations, which speaks first in a test run.
        getattr(align_photos, "__wrapped__", align_photos)(photos, tmp_path / "x", image_format="gif")


def test_names_of_crops():
    assert crop_names(["a/1.JPG", "a/1.b.jpeg", "b/1"], ".png") == ("a/1.png", "a/1.b.png", "b/1.png")
    assert crop_names(["a/1.jpg", "a/1.bmp", "b/1.jpg"], ".jpg") == ("a/1.jpg.jpg", "a/1.bmp.jpg", "b/1.jpg")
    with pytest.raises(ValueError, match=r"'a\.jpg' and 'a\.jpg\.bmp' would both become 'a\.jpg\.png'; rename one"):
        crop_names(["a.jpg", "a.bmp", "a.jpg.bmp"], ".png")


# --- errors leave nothing behind ---


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in ("photos", "marks.json"))


def test_no_face_at_all_is_an_error(photos, landmarks, tmp_path):
    landmarks.write_text(json.dumps({"top.png": []}))
    with pytest.raises(
        ValueError, match=r"none of its 5 photos gives a crop; the first, Ann/1\.png: not listed in "
    ) as e:
        align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert "\n" not in str(e.value)
    assert left_behind(tmp_path) == []


def test_landmarks_of_other_photos(photos, landmarks, tmp_path):
    landmarks.write_text(json.dumps({"photos/Ann/1.png": {"landmarks": POINTS.tolist()}}))
    with pytest.raises(
        ValueError, match=r"none of its 1 photos is in .*like 'photos/Ann/1\.png', .* like 'Ann/1\.png'"
    ):
        align_photos(photos, tmp_path / "out", landmarks=landmarks)
    landmarks.write_text(json.dumps({"Ann/1.png": {"landmarks": (POINTS * 4).tolist()}}))
    with pytest.raises(
        ValueError, match=r"'Ann/1\.png': landmarks .* lie outside the photo's 140 x 150 pixels; were they"
    ):
        align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert left_behind(tmp_path) == []


def test_landmarks_that_are_no_face_s_skip_the_photo(photos, landmarks, tmp_path):
    listed = json.loads(landmarks.read_text())
    listed["top.png"] = {"landmarks": [[60, 20], [62, 20], [130, 25], [60, 30], [62, 30]]}  # the nose far to one side
    landmarks.write_text(json.dumps(listed))
    result = align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert (result.aligned, result.no_face) == (2, 2)
    assert result.skipped[-1].name == "top.png"
    assert "are not shaped like a face's" in result.skipped[-1].reason


def test_what_is_refused_before_any_work(photos, landmarks, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(FileExistsError, match="full: a folder that is not empty"):
        align_photos(photos, tmp_path / "full", landmarks=landmarks)
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder or archive"):
        align_photos(tmp_path / "nowhere", tmp_path / "out", landmarks=landmarks)
    with pytest.raises(FileNotFoundError, match=r"none\.json: there is no such file"):
        align_photos(photos, tmp_path / "out", landmarks=tmp_path / "none.json")
    with pytest.raises(ValueError, match="template 'mine' is not known"):
        align_photos(photos, tmp_path / "out", landmarks=landmarks, template="mine")


# --- looking for faces ---


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Path:
    """Drawn faces on grey, one photo with two, one of nothing, one turned by its EXIF tag."""
    folder = tmp_path_factory.mktemp("found")
    drawn = SyntheticFaces(people=10, images=1, difficulty="easy").images(range(10)).permute(0, 2, 3, 1).numpy()

    def photo(*places: tuple[int, int]) -> np.ndarray:
        canvas = np.full((200, 420, 3), 110, np.uint8)
        for index, left in places:
            canvas[40:160, left : left + 120] = np.asarray(Image.fromarray(drawn[index]).resize((120, 120)))
        return canvas

    save(folder / "Ann/1.png", photo((9, 60)))
    save(folder / "Ann/two.png", photo((4, 20), (9, 270)))
    save(folder / "Bo/empty.png", np.full((90, 120, 3), 128, np.uint8))
    turned = Image.Exif()
    turned[0x0112] = 6  # the camera was held upright: to be turned clockwise by a quarter
    Image.fromarray(np.rot90(photo((9, 60))).copy()).save(folder / "Bo/turned.jpg", quality=95, exif=turned)
    return folder


@needs_weights
def test_faces_are_found_and_what_has_none_is_named(found, tmp_path):
    shown = []

    def progress(items, description, total=None):
        shown.append((description, total))
        return items

    result = align_photos(found, tmp_path / "out", progress=progress)
    assert shown == [("aligning", 4)]
    assert (result.aligned, result.several, result.no_face, result.unreadable) == (3, 1, 1, 0)
    assert result.skipped == (
        Skipped("Bo/empty.png", "no face found in 120 x 90 pixels (looked for from 20 pixels a side)"),
    )
    listed = rows(tmp_path / "out")
    assert listed["Ann/two.png"]["faces"] == "2"
    upright, turned = (
        np.asarray(Image.open(tmp_path / "out" / name)).astype(int) for name in ("Ann/1.png", "Bo/turned.png")
    )
    assert np.abs(upright - turned).mean() < 12  # the same face, through JPEG
    assert (upright[40:60, 30:80].std(), upright.std()) > (10, 10)  # eyes, not grey


def test_another_detector_finds_the_faces_and_is_recorded(tmp_path):
    weights = write_blue_squares(tmp_path / "squares.onnx")
    save(tmp_path / "photos" / "Ann" / "1.png", photo(96, 128, (64, 32)))
    save(tmp_path / "photos" / "Ann" / "2.png", photo(96, 128))
    result = align_photos(tmp_path / "photos", tmp_path / "out", detector=str(weights))
    assert result.aligned == 1
    assert result.skipped == (
        Skipped("Ann/2.png", "no face found in 128 x 96 pixels (searched with longer sides of 128 pixels)"),
    )
    expected = align(photo(96, 128, (64, 32)), (POINTS / 112 * SIDE + [64, 32]).astype(np.float32), ARCFACE)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "out" / "Ann" / "1.png")), expected)
    recorded = json.loads((tmp_path / "out" / "images.json").read_text())["alignment"]
    assert recorded == f"arcface_112x112 by YuNet ({hashlib.sha256(weights.read_bytes()).hexdigest()[:12]})"


def test_a_detector_may_be_an_object_but_not_beside_landmarks(photos, landmarks, tmp_path):
    def find(image: np.ndarray) -> list[tuple]:
        return [((0, 0, 112, 112), 1.0, POINTS)]

    result = align_photos(photos, tmp_path / "out", detector=FunctionDetector(find, "the same place"))
    assert (result.aligned, result.unreadable) == (4, 1)
    assert (
        json.loads((tmp_path / "out" / "images.json").read_text())["alignment"] == "arcface_112x112 by the same place"
    )
    with pytest.raises(ValueError, match="landmarks and detector are both given"):
        align_photos(photos, tmp_path / "both", landmarks=landmarks, detector="mtcnn")


def test_without_the_extra_one_line_names_it(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install '\.\[detect\]'"):
        align_photos(photos, tmp_path / "out")


def test_photos_are_never_written_over(photos, landmarks, tmp_path):
    archive = tmp_path / "photos.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(photos / "Ann" / "1.png", "Ann/1.png")
    before = archive.read_bytes()
    for source, out, marks in (
        (archive, archive, landmarks),
        (photos, photos, landmarks),
        (photos, tmp_path, landmarks),
        (photos, landmarks, landmarks),
    ):
        with pytest.raises(FileExistsError, match="which is read here; write to another name"):
            align_photos(source, out, landmarks=marks)
    assert archive.read_bytes() == before
    assert json.loads(landmarks.read_text())


def test_a_file_where_a_folder_should_be_is_noticed_before_any_work(photos, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr(ship_align, "image_files", lambda path: pytest.fail("it began"))
    with pytest.raises(FileExistsError, match=r"taken: a file; crops go into a folder, or into an archive"):
        align_photos(photos, tmp_path / "taken")


def test_a_name_that_is_not_unicode_is_named_before_any_work(photos, landmarks, tmp_path):
    os.rename(photos / "top.png", os.fsencode(photos) + b"/\xff.png")
    with pytest.raises(ValueError, match=r"the file name '\\udcff\.png' is not UTF-8"):
        align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert not (tmp_path / "out").exists()


def test_photos_of_formats_that_are_not_read_are_counted_and_named(photos, landmarks, tmp_path):
    for name in ("Ann/0.gif", "Bo/x.AVIF", "z.gif"):
        (photos / name).write_bytes(b"GIF89a")
    result = align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert result.other_format == ("Ann/0.gif", "Bo/x.AVIF", "z.gif")
    assert (result.aligned, result.no_face, result.unreadable) == (2, 2, 1)
    assert [photo.name for photo in result.skipped][:2] == ["Ann/0.gif", "Ann/broken.jpg"]
    first = "the first Ann/0.gif: .gif is not read; save it as PNG or JPEG"
    assert f"skipped by format: 3 photographs are not read (.gif 2, .avif 1), {first}" in result.text()
    assert "2 of 8 photos aligned" in result.text()
    listed = rows(tmp_path / "out")
    assert list(listed) == sorted(listed, key=lambda name: name.split("/"))
    assert (listed["z.gif"]["status"], listed["z.gif"]["crop"]) == ("other format", "")
    assert listed["z.gif"]["reason"] == ".gif is not read; save it as PNG or JPEG"


@pytest.mark.timeout(20)
def test_a_pipe_among_the_photos_is_named_as_unreadable(photos, landmarks, tmp_path):
    os.mkfifo(photos / "Ann" / "3.png")
    result = align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert (result.aligned, result.unreadable) == (2, 2)
    assert "a pipe, not a regular file" in rows(tmp_path / "out")["Ann/3.png"]["reason"]


def test_heic_photos_are_aligned_where_they_can_be_read(photos, landmarks, tmp_path):
    pillow_heif = pytest.importorskip("pillow_heif", reason="the extra `heif` is not installed")
    pillow_heif.register_heif_opener()
    (photos / "Ann" / "1.png").unlink()
    Image.fromarray(noise(0)).save(photos / "Ann" / "1.heic")
    marks = json.loads(landmarks.read_text())
    landmarks.write_text(json.dumps(marks | {"Ann/1.heic": marks["Ann/1.png"]}))
    result = align_photos(photos, tmp_path / "out", landmarks=landmarks)
    assert (result.aligned, result.other_format) == (2, ())
    assert rows(tmp_path / "out")["Ann/1.heic"]["crop"] == "Ann/1.png"


def test_people_are_counted_before_a_face_is_searched_for_and_those_with_a_crop_after(
    photos, landmarks, tmp_path, caplog
):
    caplog.set_level("INFO")
    result = align_photos(photos, tmp_path / "out", landmarks=landmarks, for_far="0.6")
    folders = {path.parent.name for path in photos.rglob("*.*") if path.parent != photos}
    words = "guarantee 'confident' at FAR 0.6 needs 8 people"
    assert f"{photos}: {words}" in caplog.text
    assert f"got {len(folders)} people" in caplog.text
    line = next(line for line in result.text().splitlines() if line.startswith("with a crop: "))
    assert words in line
    assert f"got {result.people} p" in line
    assert result.people == len({path.parent.name for path in (tmp_path / "out").rglob("*.png")} - {"out"})
    with pytest.raises(ValueError, match="a guarantee needs a FAR"):
        align_photos(photos, tmp_path / "none", landmarks=landmarks, for_far="1")
    assert not (tmp_path / "none").exists()
