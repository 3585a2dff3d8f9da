"""Image files below a folder or in an archive, at any depth."""

import os
import struct
import sys
import zipfile
from pathlib import Path

import pytest

from verisphere.files import archives
from verisphere.images.packs.image_files import FilesOnDisk, image_files

NAMES = ("a.jpg", "deep/er/c.PNG", "deep/b.bmp", "deep b/a.jpg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name in (*NAMES, "deep/notes.txt", ".hidden/d.jpg", "deep/.e.jpg"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())
    return root


@pytest.fixture
def archive(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "photos.zip"
    with zipfile.ZipFile(path, "w") as file:
        for entry in sorted(folder.rglob("*"), reverse=True):
            if entry.is_file():
                file.write(entry, entry.relative_to(folder).as_posix())
        file.writestr("__MACOSX/a.jpg", "fork")
    return path


def test_images_at_any_depth_sorted_part_by_part(folder, archive):
    # "deep" before "deep b", though " " sorts before "/"
    expected = ("a.jpg", "deep/b.bmp", "deep/er/c.PNG", "deep b/a.jpg")
    for place in (folder, archive):
        files = image_files(place)
        assert tuple(files.names) == expected
        assert [data.decode() for _, data in files.read(range(4))] == list(expected)
        assert [name for name, _ in files.read([2])] == [f"{place}/deep/er/c.PNG"]
        assert files.keep((2, 0)).names == ("deep/er/c.PNG", "a.jpg")
        kept = files.keep([3, 0])
        assert [data.decode() for _, data in kept.read([0, 1])] == ["deep b/a.jpg", "a.jpg"]


def test_nothing_to_read(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"no images; they are looked for as Name/x\.jpg, and found was: \.txt 1$"):
        image_files(tmp_path, "Name/x.jpg")
    with pytest.raises(ValueError, match=r"notes\.txt: neither a folder nor a \.zip archive"):
        image_files(tmp_path / "notes.txt")
    with pytest.raises(FileNotFoundError, match="no such folder or archive"):
        image_files(tmp_path / "absent")


def test_a_file_that_has_gone(tmp_path):
    files = FilesOnDisk(tmp_path, ["gone.jpg"])
    with pytest.raises(ValueError, match=r"gone\.jpg: cannot be read \(No such file"):
        list(files.read([0]))


@pytest.mark.skipif(sys.platform == "darwin", reason="the file system refuses such a name")
def test_a_name_that_is_not_unicode_is_named_at_once(folder):
    os.close(os.open(os.fsencode(folder) + b"/Zo\xeb.jpg", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(ValueError, match=r"the file name 'Zo\\udceb\.jpg' is not UTF-8, .*rename the file") as caught:
        image_files(folder)
    assert "\n" not in str(caught.value)
    str(caught.value).encode()  # can be printed


def test_what_is_looked_for_is_said(tmp_path):
    with pytest.raises(ValueError, match=r"no images; they are looked for as files at any depth that end in \.bmp, "):
        image_files(tmp_path)


@pytest.mark.parametrize("number", [1 << 62, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("place", [20, 24, 42], ids=["stored size", "size", "offset"])
def test_sizes_of_zip64_that_no_archive_has(tmp_path: Path, place: int, number: int):
    """The directory says 0xFFFFFFFF where an extra field of 8 bytes has the number."""
    info = zipfile.ZipInfo("a/1.png")
    info.extra = struct.pack("<HHQ", 0x7777, 8, number)
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, b"x" * 100)
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02")
    content[start:] = content[start:].replace(b"\x77\x77\x08\x00", b"\x01\x00\x08\x00")
    content[start + place : start + place + 4] = b"\xff" * 4
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.zip.*a/1\.png.*(bytes, more than the|behind the end of the archive)"):
        image_files(path)


def test_a_directory_that_states_a_place_past_its_end(tmp_path: Path):
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/1.png", b"x" * 100)
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.index(b"PK\x05\x06") + 16, 1 << 20)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.zip: entry 'a/1\.png' lies before the archive"):
        image_files(path)


def test_a_directory_is_parsed_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archives, "_BLOCK", 200)  # bytes, of which an entry takes some 52
    path, names = tmp_path / "some.zip", [f"{number % 3}/{number}.png" for number in range(20)]
    with path.open("wb") as file:
        file.write(b"before the archive")
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = b"a comment"
            for name in names:
                archive.writestr(zipfile.ZipInfo(name), name)
    with zipfile.ZipFile(path) as archive:
        known = {info.filename: archives.numbers_of(info) for info in archive.infolist()}
        assert {info.filename: archives.numbers_of(info) for info in archives.archive_entries(path)} == known
    files = image_files(path)
    assert list(files.names) == sorted(names)
    assert [data.decode() for _, data in files.read(range(20))] == sorted(names)


def test_a_directory_that_is_cut_short(tmp_path: Path):
    path = tmp_path / "some.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/1.png", b"x" * 100)
    content = path.read_bytes()
    start, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    path.write_bytes(content[: start + 30] + content[end : end + 12] + struct.pack("<LLH", 30, start, 0))
    with pytest.raises(ValueError, match=r"some\.zip: not a zip archive .* \(Truncated central directory"):
        image_files(path)


def test_an_entry_without_a_name(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo("a"), b"x")
    content = (tmp_path / "some.zip").read_bytes().replace(b"a", b"\0")  # where a name ends
    (tmp_path / "some.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.zip: entry '' has an unsafe name"):
        image_files(tmp_path / "some.zip")
