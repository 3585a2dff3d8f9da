"""Folders and archives with one folder a person: what is written, what a manifest adds, and every fault."""

import json
import os
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from verisphere.files.errors import Fault
from verisphere.images.packs.folders import FOLDER, ZIP, read_folder
from verisphere.images.packs.manifest import read_manifest
from verisphere.images.packs.pack import Row

ROWS = (Row("Ann/1.png", "Ann", b"one"), Row("Ann/2.png", "Ann", b"two"), Row("Ben/1.png", "Ben", b"three"))


@pytest.mark.parametrize(("form", "name"), [(FOLDER, "faces"), (ZIP, "faces.zip")], ids=["folder", "zip"])
def test_rows_are_written_and_read(form, name: str, tmp_path: Path):
    form.write(tmp_path / name, iter(ROWS))
    pack = form.read(tmp_path / name)
    assert (pack.names, pack.identities, pack.domains) == (
        ("Ann/1.png", "Ann/2.png", "Ben/1.png"),
        ("Ann", "Ann", "Ben"),
        None,
    )
    assert [data for _, data in pack.files.read([2, 0])] == [b"three", b"one"]
    assert list(form.faults(tmp_path / name)) == []
    with pytest.raises(FileExistsError):
        form.write(tmp_path / name, iter(ROWS))


def test_an_archive_is_stored_and_has_no_date(tmp_path: Path):
    ZIP.write(tmp_path / "faces.zip", ROWS)
    with zipfile.ZipFile(tmp_path / "faces.zip") as file:
        assert [(info.filename, info.compress_type, info.date_time[0]) for info in file.infolist()] == [
            (row.name, zipfile.ZIP_STORED, 1980) for row in ROWS
        ]


def test_a_manifest_of_another_program_is_passed_over(tmp_path: Path):
    FOLDER.write(tmp_path / "faces", ROWS)
    for content in ({"name": "an app", "icons": []}, [1, 2], "text"):
        (tmp_path / "faces" / "manifest.json").write_text(json.dumps(content))
        assert read_manifest(tmp_path / "faces") is None
        assert len(FOLDER.read(tmp_path / "faces")) == 3


def test_an_empty_file_and_a_pipe_are_faults(tmp_path: Path):
    FOLDER.write(tmp_path / "faces", ROWS)
    (tmp_path / "faces" / "Ann" / "empty.png").touch()
    os.mkfifo(tmp_path / "faces" / "Ann" / "pipe.png")
    faults = {fault.record: fault.reason for fault in FOLDER.faults(tmp_path / "faces")}
    assert set(faults) == {"Ann/empty.png", "Ann/pipe.png"}
    assert faults["Ann/pipe.png"] == "a pipe, a socket or a device, not a regular file"


def test_folders_without_an_end(tmp_path: Path):
    (tmp_path / "Ann").mkdir()
    (tmp_path / "Ann" / "1.png").write_bytes(b"x")
    (tmp_path / "Ann" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert any("does a link point back" in fault.reason for fault in FOLDER.faults(tmp_path))


def test_a_folder_without_images_says_what_was_looked_for(tmp_path: Path):
    (fault,) = FOLDER.faults(tmp_path)
    assert fault.reason.startswith("no images; they are looked for as Name/image.jpg")


def test_several_faults_of_one_entry_are_all_found(tmp_path: Path):
    ZIP.write(tmp_path / "faces.zip", ROWS)
    content = bytearray((tmp_path / "faces.zip").read_bytes())
    entry = content.index(b"Ben/1.png", content.index(b"PK\x01\x02")) - 46
    content[entry + 8] |= 1
    content[entry + 10] = 14
    (tmp_path / "faces.zip").write_bytes(content)
    offset = content.index(b"Ben/1.png") - 30
    assert list(ZIP.faults(tmp_path / "faces.zip")) == [
        Fault(str(tmp_path / "faces.zip"), "Ben/1.png", offset, "is encrypted; unpack it and use the folder"),
        Fault(str(tmp_path / "faces.zip"), "Ben/1.png", offset, "is compressed by method 14; use store or deflate"),
    ]


def test_bytes_behind_an_archive_are_a_fault(tmp_path: Path):
    path = tmp_path / "faces.zip"
    ZIP.write(path, [Row("Ann/1.png", "Ann", b"1")])
    sound = path.read_bytes()
    assert list(ZIP.faults(path)) == []
    path.write_bytes(sound + bytes(7))
    (fault,) = ZIP.faults(path)
    assert (fault.offset, fault.reason) == (len(sound), "7 bytes behind the end of the archive")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Ann/1.png", b"1")
        archive.comment = b"of faces" * 100
    assert list(ZIP.faults(path)) == []


def test_an_entry_with_a_dot_for_a_folder_is_excluded_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with zipfile.ZipFile(tmp_path / "dots.zip", "w") as archive:
        for name in ("a/1.png", "b/1.png", "a/./2.png", "./b/3.png", "a/./notes.txt", "a/.hidden.png"):
            archive.writestr(name, b"image")
    pack = read_folder(tmp_path / "dots.zip")
    assert list(pack.names) == ["a/1.png", "b/1.png"]
    assert list(pack.files.unread) == ["./b/3.png", "a/./2.png"]
    (line,) = caplog.messages
    assert "2 photographs are not read (.png 2), the first ./b/3.png: a path with a part . is not read" in line


@pytest.mark.parametrize(("form", "name"), [(FOLDER, "faces"), (ZIP, "faces.zip")], ids=["folder", "zip"])
def test_a_pack_holds_little_of_each_image(form, name: str, tmp_path: Path):
    """Tuples of texts, names twice, took 250 bytes an image of a folder and 280 of an archive."""
    count = 2000
    form.write(tmp_path / name, (Row(f"{n // 5:06d}/{n:08d}.png", str(n // 5), b"one") for n in range(count)))
    read_folder(tmp_path / name)
    tracemalloc.start()
    try:
        pack = read_folder(tmp_path / name)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert (len(pack), pack.names[count - 1], pack.identities[count - 1]) == (count, "000399/00001999.png", "000399")
    assert held / count < 130
