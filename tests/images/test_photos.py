"""Face images from folders, archives and lists."""

import logging
import os
import pickle
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from verisphere.images.photos import Photos

# Sorted by person, then name: as bare strings "Ann-Marie/" would come before "Ann/".
NAMES = ("Ann/1.png", "Ann/2.png", "Ann/3.png", "Ann-Marie/1.png", "Bo/1.png", "Bo/2.png")


def pixels_of(name: str) -> np.ndarray:
    seed = int.from_bytes(name.encode(), "little") % 2**32
    return np.random.default_rng(seed).integers(0, 256, (6, 5, 3), np.uint8)


def fill(folder: Path, names: tuple[str, ...] = NAMES) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels_of(name.rsplit("//", maxsplit=1)[-1])).save(path, "PNG")
    return folder


def pack(folder: Path, archive: Path, prefix: str = "", compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(archive, "w", compression) as file:
        for path in sorted(folder.rglob("*")):
            file.write(path, prefix + path.relative_to(folder).as_posix())
    return archive


def check(photos: Photos) -> None:
    assert photos.names == NAMES
    assert photos.identities == tuple(name.split("/")[0] for name in NAMES)
    assert photos.people == ("Ann", "Ann-Marie", "Bo")
    assert photos.labels.tolist() == [0, 0, 0, 1, 2, 2]
    batch = photos.images([5, 0, 0])
    assert batch.dtype == torch.uint8
    for image, name in zip(batch, (NAMES[5], NAMES[0], NAMES[0]), strict=True):
        assert np.array_equal(image.permute(1, 2, 0).numpy(), pixels_of(name))


@pytest.mark.parametrize("above", ["", "faces/", "a/b/"])
def test_a_folder(tmp_path: Path, above: str):
    fill(tmp_path / above)
    check(Photos(tmp_path, size=(6, 5)))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("prefix", ["", "faces/", "a/b/"])
def test_an_archive(tmp_path: Path, prefix: str, compression: int):
    archive = pack(fill(tmp_path / "in"), tmp_path / "faces.ZIP", prefix, compression)
    check(Photos(archive, size=(6, 5)))


def test_a_list(tmp_path: Path):
    fill(tmp_path)
    (tmp_path / "all.lst").write_text("".join(f"{name}\n" for name in NAMES))
    check(Photos(tmp_path / "all.lst", size=(6, 5)))


def test_a_list_keeps_its_order_and_its_identities(tmp_path: Path):
    fill(tmp_path / "in")
    (tmp_path / "some.csv").write_text("in/Bo/2.png,b\nin/Ann/1.png,a\n")
    photos = Photos(tmp_path / "some.csv", size=(6, 5))
    assert photos.names == ("in/Bo/2.png", "in/Ann/1.png")
    assert photos.identities == ("b", "a")
    assert photos.labels.tolist() == [1, 0]
    assert np.array_equal(photos.images([0])[0].permute(1, 2, 0).numpy(), pixels_of("Bo/2.png"))


def test_hidden_files_and_other_files_are_passed_over(tmp_path: Path):
    folder = fill(tmp_path / "in", (*NAMES, ".cache/x/1.png", "Ann/.1.png", "__MACOSX/Ann/1.png"))
    (folder / "readme.txt").touch()
    (folder / "Ann" / "landmarks.json").touch()
    check(Photos(pack(folder, tmp_path / "faces.zip"), size=(6, 5)))
    (folder / "__MACOSX" / "Ann" / "1.png").unlink()
    check(Photos(folder, size=(6, 5)))


@pytest.mark.parametrize("kind", ["folder", "archive", "list"])
def test_restrictions(tmp_path: Path, kind: str):
    folder = fill(tmp_path / "in")
    (tmp_path / "all.txt").write_text("".join(f"in/{name}\n" for name in NAMES))
    (tmp_path / "people.txt").write_text("Ann\nBo\n")
    path = {"folder": folder, "archive": pack(folder, tmp_path / "f.zip"), "list": tmp_path / "all.txt"}[kind]
    photos = Photos(path, people=tmp_path / "people.txt", min_images=2, max_images=2, size=(6, 5))
    assert [name.removeprefix("in/") for name in photos.names] == ["Ann/1.png", "Ann/2.png", "Bo/1.png", "Bo/2.png"]
    assert photos.people == ("Ann", "Bo")
    assert np.array_equal(photos.images([2])[0].permute(1, 2, 0).numpy(), pixels_of("Bo/1.png"))


def test_other_sizes_are_resampled(tmp_path: Path):
    assert Photos(fill(tmp_path)).images([0]).shape == (1, 3, 112, 112)
    assert Photos(tmp_path, size=(4, 3)).images([0, 1]).shape == (2, 3, 4, 3)


def one_photo(folder: Path, width: int, height: int) -> Path:
    (folder / "Ann").mkdir(parents=True)
    stripes = np.zeros((height, width, 3), np.uint8)
    stripes[:, 1::2] = 200
    Image.fromarray(stripes).save(folder / "Ann" / "1.png")
    return folder


def test_resampling_averages_and_does_not_pick(tmp_path: Path):
    image = Photos(one_photo(tmp_path, width=30, height=40), size=(4, 3)).images([0])
    assert image[0, :, :, 1].unique().tolist() == [100]  # halfway between the stripes, away from the borders


@pytest.mark.parametrize(
    ("width", "height", "factor"), [(4000, 300, "13.3"), (300, 4000, "13.3"), (640, 360, "1.78"), (169, 112, "1.51")]
)
def test_a_photo_that_would_be_squeezed_is_refused(tmp_path: Path, width: int, height: int, factor: str):
    message = rf"^/.*Ann/1\.png: {width} x {height} pixels, which 112 x 112 would stretch by a factor of {factor}, "
    unreadable(Photos(one_photo(tmp_path, width, height)), 0, message + "more than 1.5; .* aligned crops of faces")


@pytest.mark.parametrize(("width", "height"), [(92, 112), (250, 250), (96, 112), (168, 112), (112, 168)])
def test_crops_of_other_aspect_ratios_are_taken(tmp_path: Path, width: int, height: int):
    assert Photos(one_photo(tmp_path, width, height)).images([0]).shape == (1, 3, 112, 112)


def test_how_much_stretching_is_taken(tmp_path: Path):
    one_photo(tmp_path, 64, 32)
    assert Photos(tmp_path, max_stretch=2.0).images([0]).shape == (1, 3, 112, 112)
    assert Photos(tmp_path, size=(24, 48), max_stretch=1.0).images([0]).shape == (1, 3, 24, 48)  # 2 : 1 as well
    unreadable(Photos(tmp_path, size=(24, 32), max_stretch=1.4), 0, "64 x 32 pixels, which 32 x 24 would stretch")
    refused(tmp_path, "max_stretch is 0.5; allowed is 1", max_stretch=0.5)
    refused(tmp_path, "max_stretch is nan", max_stretch=float("nan"))


def test_an_upright_photo_is_measured_upright(tmp_path: Path):
    (tmp_path / "Ann").mkdir()
    exif = Image.Exif()
    exif[0x0112] = 6  # stored lying, shown standing
    Image.new("RGB", (64, 32)).save(tmp_path / "Ann" / "1.jpg", exif=exif)
    assert Photos(tmp_path, size=(64, 32), max_stretch=1.0).images([0]).shape == (1, 3, 64, 32)


@pytest.mark.parametrize("archived", [False, True])
def test_a_copy_reads_by_itself_and_nothing_stays_open(tmp_path: Path, archived: bool):
    folder = fill(tmp_path / "in")
    photos = Photos(pack(folder, tmp_path / "f.zip") if archived else folder, size=(6, 5))
    before = len(os.listdir("/proc/self/fd"))
    photos.images([0, 1])
    assert len(os.listdir("/proc/self/fd")) == before
    check(pickle.loads(pickle.dumps(photos)))


# --- what is refused when a set is opened ---


def refused(path: Path, message: str, **options: object) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Photos(path, **options)
    assert "\n" not in str(caught.value)


def test_nothing_there(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="nowhere: no such folder, archive, list or pack"):
        Photos(tmp_path / "nowhere")
    (tmp_path / "faces.xyz").touch()
    refused(tmp_path / "faces.xyz", r"no set of images; allowed are .*a folder with .*; a \.zip archive .*; a list")


def test_no_images_says_what_was_seen(tmp_path: Path):
    refused(tmp_path, "no images; .* Name/image.jpg, and found was: no file at all")
    for name in ("a.txt", "b.txt", "c.npy", "d"):
        (tmp_path / name).touch()
    refused(tmp_path, r"found was: \.txt 2, \.npy 1, none 1")
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as file:
        file.writestr("a/b.txt", "")
    refused(tmp_path / "f.zip", r"found was: \.txt 1")


@pytest.mark.parametrize("odd", ["stray.png", "Ann/more/1.png"])
def test_an_image_at_another_depth_is_named(tmp_path: Path, odd: str):
    refused(fill(tmp_path, (*NAMES, odd)), re.escape(f"{odd!r} is not Name/image"))


def test_images_of_one_person_are_that_persons(tmp_path: Path):
    assert Photos(fill(tmp_path, ("all/Ann/1.png", "all/Ann/2.png"))).people == ("Ann",)


def test_links_are_followed_but_not_in_circles(tmp_path: Path):
    fill(tmp_path / "in")
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "Zoe").symlink_to(tmp_path / "in" / "Ann")
    assert Photos(tmp_path / "some").names == ("Zoe/1.png", "Zoe/2.png", "Zoe/3.png")
    (tmp_path / "in" / "again").symlink_to(tmp_path / "in")
    refused(tmp_path / "in", "does a link point back")


def test_restrictions_that_cannot_be(tmp_path: Path):
    fill(tmp_path)
    refused(tmp_path, r"size is \(0, 5\)", size=(0, 5))
    (tmp_path / "people.txt").write_text("Ann\nCy\nDi\n")
    refused(
        tmp_path,
        r"people.txt, the list of people .--people.: 2 of 3 people are not in the set, first 'Cy'",
        people=tmp_path / "people.txt",
    )


@pytest.mark.parametrize("name", ["../Ann/1.png", "/Ann/1.png", "Ann/../1.png", "C:/Ann/1.png", "Ann//1.png"])
def test_unsafe_names_in_an_archive(tmp_path: Path, name: str):
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as file:
        file.writestr(name, b"")
    refused(tmp_path / "f.zip", "has an unsafe name")


def test_a_name_twice_and_a_symbolic_link_in_an_archive(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as file:
        file.writestr("Ann/1.png", b"")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("Ann/1.png", b"")
    refused(tmp_path / "f.zip", "two entries are named 'Ann/1.png'")
    link = zipfile.ZipInfo("Ann/1.png")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as file:
        file.writestr(link, b"/etc/passwd")
    refused(tmp_path / "f.zip", "'Ann/1.png' is a symbolic link")


# --- what is refused when an image is read ---


def unreadable(photos: Photos, index: int, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        photos.images([index])
    assert "\n" not in str(caught.value)


def test_an_image_that_is_none(tmp_path: Path):
    fill(tmp_path / "in")
    (tmp_path / "in" / "Ann" / "2.png").write_bytes(b"hello")
    unreadable(
        Photos(tmp_path / "in"), 1, "^/.*in/Ann/2.png: not an image: the file's first bytes match no known format"
    )
    archive = pack(tmp_path / "in", tmp_path / "f.zip")
    unreadable(Photos(archive), 1, "^/.*f.zip/Ann/2.png: not an image: the file's first bytes match no known format")


def test_an_image_file_that_is_too_large(tmp_path: Path):
    fill(tmp_path)
    with open(tmp_path / "Ann" / "2.png", "r+b") as file:
        file.truncate(300_000_000)  # sparse: takes no room
    unreadable(Photos(tmp_path), 1, r"Ann/2\.png: 300,000,000 bytes, more than the 256,000,000 allowed")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_an_archive_that_changed(tmp_path: Path, compression: int):
    path = pack(fill(tmp_path / "in"), tmp_path / "f.zip", compression=compression)
    photos = Photos(path, size=(6, 5))
    whole = path.read_bytes()
    for damaged in (bytearray(whole), bytearray(whole)):
        damaged[whole.index(b"Ann/2.png") + 30] ^= 0xFF  # inside the entry's data
        path.write_bytes(damaged)
        unreadable(photos, 1, r"f\.zip/Ann/2\.png: damaged archive entry")
    path.write_bytes(b"x" * len(whole))
    unreadable(photos, 1, r"f\.zip/Ann/2\.png: no archive entry at byte \d+; has the archive changed")
    path.unlink()
    unreadable(photos, 1, r"f\.zip: cannot be read")


# --- real faces ---


def test_lfw(real_data: Path):
    archive, lists = real_data / "lfw_112.zip", real_data / "lfw_protocol"
    photos = Photos(archive)
    assert (len(photos), len(photos.people)) == (13_233, 5_749)
    assert photos.names[0] == "AJ_Cook/AJ_Cook_0001.jpg"
    train, test = (Photos(archive, people=lists / f"peopleDev{part}.txt") for part in ("Train", "Test"))
    assert (len(train), len(train.people)) == (9_525, 4_038)
    assert (len(test), len(test.people)) == (3_708, 1_711)
    assert not set(train.people) & set(test.people)
    assert len(Photos(archive, people=lists / "peopleDevTrain.txt", min_images=2).people) == 1_184
    first, last = photos.images([0, 13_232])
    assert first.shape == (3, 112, 112)
    assert not torch.equal(first, last)


def test_photographs_of_formats_that_are_not_read_are_counted_and_named(tmp_path: Path, caplog):
    fill(tmp_path / "set")
    for name in ("Ann/0.gif", "Ann/4.DNG", "Bo/0.gif"):
        (tmp_path / "set" / name).write_bytes(b"")
    pack(tmp_path / "set", tmp_path / "set.zip")
    for path in (tmp_path / "set", tmp_path / "set.zip"):
        with caplog.at_level(logging.WARNING):
            check(Photos(path, size=(6, 5)))
            Photos(path)  # said once
        assert caplog.messages == [
            f"{path}: 3 photographs are not read (.gif 2, .dng 1), the first Ann/0.gif: .gif is not read; save it as "
            "PNG or JPEG"
        ]
        caplog.clear()


def test_where_no_photograph_is_read_it_is_said_why(tmp_path: Path):
    (tmp_path / "Ann").mkdir()
    (tmp_path / "Ann" / "1.gif").write_bytes(b"")
    with pytest.raises(
        ValueError, match=r"no images; .* found was: \.gif 1; 1 photograph is not read \(\.gif 1\), the"
    ):
        Photos(tmp_path)


# --- domains, and nobody who is known ---


def test_folders_of_domains(tmp_path: Path):
    names = ("dark/Ann/1.png", "dark/Ben/1.png", "light/-1/1.png", "light/Ann/1.png", "light/Ann/2.png")
    for place in (fill(tmp_path / "faces", names), fill(tmp_path / "nested", [f"in/all/{name}" for name in names])):
        photos = Photos(place)
        assert photos.names == names
        assert photos.identities == ("Ann", "Ben", "-1", "Ann", "Ann")
        assert photos.domains == ("dark", "dark", "light", "light", "light")
        assert (photos.people, photos.labels.tolist()) == (("Ann", "Ben"), [0, 1, -1, 0, 0])
    assert Photos(tmp_path / "faces", min_images=2).domains == ("dark", "light", "light", "light")
    assert Photos(fill(tmp_path / "one", ("dark/Ann/1.png", "dark/Ben/1.png"))).domains is None


@pytest.mark.parametrize("separator", [",", "\t"])
def test_lists_of_domains(tmp_path: Path, separator: str):
    fill(tmp_path, ("x/1.png", "x/2, old.png", "y/1.png"))
    rows = [("domain", "note", "name", "identity"), ("dark", "", "x/1.png", "Ann B"), ("light", "-", "y/1.png", "-1")]
    lines = (
        "\n".join(separator.join(row) for row in rows) + f'\nlight{separator}{separator}"x/2, old.png"{separator}7\n'
    )
    (tmp_path / "list.csv").write_text(lines)
    photos = Photos(tmp_path / "list.csv")
    assert photos.names == ("x/1.png", "y/1.png", "x/2, old.png")
    assert (photos.identities, photos.domains) == (("Ann B", "-1", "7"), ("dark", "light", "light"))
    assert photos.images([2]).shape == (1, 3, 112, 112)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,identity\nx/9.png,a\n", "line 2: no file .*x/9.png; paths are relative to the list"),
        ("name,identity,identity\nx/1.png,a,b\n", "line 1: two columns are named 'identity'"),
        ("name,identity\n", "no images below the header"),
    ],
)
def test_lists_with_a_header_name_the_line(tmp_path: Path, text: str, message: str):
    fill(tmp_path, ("x/1.png",))
    (tmp_path / "list.csv").write_text(text)
    refused(tmp_path / "list.csv", message)
