"""Files and folders are written whole or not at all."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from verisphere.data.files import check_writable, refuse_overwriting, write_whole


def test_a_file_is_written_and_replaced(tmp_path: Path):
    path = tmp_path / "made" / "on the way" / "a.txt"
    write_whole(path, lambda partial: partial.write_text("one"))
    write_whole(path, lambda partial: partial.write_text("two"))
    assert path.read_text() == "two"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_the_temporary_name_keeps_the_suffix_and_the_folder(tmp_path: Path):
    seen = []
    write_whole(tmp_path / "a.npz", lambda partial: (seen.append(partial), np.savez(partial, x=np.arange(3))))
    assert seen[0].parent == tmp_path
    assert seen[0].suffix == ".npz"
    assert seen[0].name.startswith(".")
    assert np.load(tmp_path / "a.npz")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_content_and_nothing_else(tmp_path: Path, error: type[BaseException]):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def stop_halfway(partial: Path) -> None:
        partial.write_text("ne")
        raise error

    with pytest.raises(error):
        write_whole(path, stop_halfway)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def make_folder(partial: Path) -> None:
    (partial / "inner").mkdir(parents=True)
    (partial / "inner" / "a").write_text("a")
    (partial / "b").write_text("b")


def test_a_folder_appears_whole(tmp_path: Path):
    write_whole(tmp_path / "run", make_folder)
    assert (tmp_path / "run" / "inner" / "a").read_text() == "a"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_an_interrupted_folder_is_removed(tmp_path: Path):
    def stop_halfway(partial: Path) -> None:
        make_folder(partial)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_whole(tmp_path / "run", stop_halfway)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_gives_way_to_a_folder_but_not_to_a_file(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_whole(tmp_path / "a", make_folder)
    assert (tmp_path / "a" / "b").read_text() == "b"
    with pytest.raises(FileExistsError, match="b: a folder, and a file was to be written") as caught:
        write_whole(tmp_path / "b", lambda partial: partial.write_text("b"))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "b").is_dir()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


def test_a_folder_with_content_is_refused_before_anything_is_written(tmp_path: Path):
    write_whole(tmp_path / "run", make_folder)
    with pytest.raises(FileExistsError, match="run: a folder that is not empty"):
        write_whole(tmp_path / "run", lambda partial: pytest.fail("must not be called"))


def test_a_folder_does_not_replace_a_file(tmp_path: Path):
    (tmp_path / "run").write_text("old")
    with pytest.raises(FileExistsError, match="run: a file"):
        write_whole(tmp_path / "run", make_folder)
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]


def test_a_write_that_writes_nothing_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"a\.txt: nothing was written"):
        write_whole(tmp_path / "a.txt", lambda partial: None)


# --- links and devices ---


def test_a_link_stays_one_and_what_it_points_at_is_written(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "real").write_text("old")
    for target in ("real", "new"):
        (tmp_path / f"{target}.txt").symlink_to(Path("disk") / target)
        write_whole(tmp_path / f"{target}.txt", lambda partial: partial.write_text("new"))
        assert (tmp_path / f"{target}.txt").is_symlink()
        assert (tmp_path / "disk" / target).read_text() == "new"
    assert len(list((tmp_path / "disk").iterdir())) == 2


def test_the_temporary_name_has_the_suffix_of_the_link(tmp_path: Path):
    (tmp_path / "a.npz").symlink_to(tmp_path / "data.bin")
    write_whole(tmp_path / "a.npz", lambda partial: np.savez(partial, x=np.arange(3)))
    assert np.load(tmp_path / "a.npz")["x"].tolist() == [0, 1, 2]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.npz", "data.bin"]


def test_a_link_to_an_empty_folder(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to("disk")
    write_whole(tmp_path / "run", make_folder)
    assert (tmp_path / "run").is_symlink()
    assert (tmp_path / "disk" / "b").read_text() == "b"
    with pytest.raises(FileExistsError, match="run: a folder that is not empty"):
        write_whole(tmp_path / "run", make_folder)


def circle(path: Path) -> None:
    path.symlink_to(path.with_name("other"))
    path.with_name("other").symlink_to(path)


@pytest.mark.parametrize("make", [os.mkfifo, circle, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_file_is_refused_before_anything_is_written(tmp_path: Path, make: Callable[[Path], None]):
    make(tmp_path / "a.json")
    before = (tmp_path / "a.json").lstat()
    with pytest.raises(FileExistsError, match=r"a\.json: neither a file nor a folder") as caught:
        write_whole(tmp_path / "a.json", lambda partial: pytest.fail("must not be called"))
    assert "\n" not in str(caught.value)
    after = (tmp_path / "a.json").lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)


def test_the_names_of_open_pipes_are_refused():
    reader, writer = os.pipe()  # as /dev/stdout is, at the head of a pipeline
    with pytest.raises(FileExistsError, match="neither a file nor a folder"):
        write_whole(f"/dev/fd/{writer}", lambda partial: pytest.fail("must not be called"))
    os.close(reader)
    os.close(writer)


def test_what_is_read_is_not_written_over(tmp_path: Path):
    photos, marks = tmp_path / "photos", tmp_path / "marks.json"
    photos.mkdir()
    marks.write_text("{}")
    (tmp_path / "link").symlink_to(marks)
    for out in (marks, tmp_path / "link", photos / ".." / "marks.json", photos, tmp_path):
        with pytest.raises(FileExistsError, match="which is read here; write to another name"):
            refuse_overwriting(out, [None, photos, marks])
    for out in (photos / "crops", tmp_path / "new", tmp_path / "marks.jso"):
        refuse_overwriting(out, [None, photos, marks])
    refuse_overwriting(marks, [])


def test_what_can_be_written_is_asked_without_a_trace(tmp_path: Path):
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    for name in ("new", "old", "deep/er/new", "link"):
        check_writable(tmp_path / name)
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["link", "old"]
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("empty", FileExistsError, "empty: a folder, and a file was to be written under its name"),
        ("full", FileExistsError, "full: a folder that is not empty"),
        ("to_empty", FileExistsError, "to_empty: a folder, and a file"),
        ("null", FileExistsError, "null: neither a file nor a folder"),
        ("full/a/x.csv", NotADirectoryError, r"full/a/x\.csv: cannot be written, for .*full/a is a file, no folder"),
        ("full/a/b/x.csv", NotADirectoryError, r"x\.csv: cannot be written, for .*full/a is a file, no folder"),
    ],
)
def test_what_cannot_be_written_is_told_as_by_the_writing(tmp_path: Path, name: str, error: type[OSError], says: str):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("a")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "to_empty").symlink_to("empty")
    before = sorted(tmp_path.rglob("*"))
    for refuse in (check_writable, lambda path: write_whole(path, lambda partial: partial.write_text("text"))):
        with pytest.raises(error, match=says) as caught:
            refuse(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_in_which_nothing_may_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)  # the superuser may write anywhere
    with pytest.raises(PermissionError, match=r"a/b: cannot be written, for nothing may be made in .*") as caught:
        check_writable(tmp_path / "a" / "b")
    assert str(caught.value).endswith(str(tmp_path))


def test_a_file_in_the_way_is_named(tmp_path: Path):
    (tmp_path / "afile").write_text("mine")
    with pytest.raises(NotADirectoryError, match=r"afile/x/y: cannot be written, for .*afile is a file, no folder"):
        write_whole(tmp_path / "afile" / "x" / "y", lambda partial: partial.write_text("text"))
    assert (tmp_path / "afile").read_text() == "mine"


def test_an_error_names_the_final_path_and_not_the_temporary_one(tmp_path: Path):
    for inside in ("", "/inner.txt"):
        with pytest.raises(FileNotFoundError) as caught:
            write_whole(tmp_path / "out", lambda partial, end=inside: Path(f"{partial}{end}").read_text())
        assert caught.value.filename == f"{tmp_path / 'out'}{inside}"
    with pytest.raises(FileNotFoundError, match="elsewhere") as caught:
        write_whole(tmp_path / "out", lambda partial: (tmp_path / "elsewhere").read_text())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_told_with_the_name_of_the_file(tmp_path: Path, number: int):
    def no_room(partial: Path) -> None:
        partial.write_text("ha")
        raise OSError(number, os.strerror(number))  # as a write of an open file raises it

    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        write_whole(tmp_path / "out", no_room)
    assert (caught.value.errno, caught.value.filename) == (number, str(tmp_path / "out"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_of_a_copy_that_runs_out_of_room_the_copy_is_named(tmp_path: Path, number: int):
    def copy(partial: Path) -> None:
        partial.mkdir()
        raise OSError(number, os.strerror(number), str(tmp_path / "source"), None, str(partial / "copy"))

    with pytest.raises(OSError, match=os.strerror(number)) as caught:
        write_whole(tmp_path / "out", copy)
    assert caught.value.filename == str(tmp_path / "out" / "copy")
    assert not list(tmp_path.iterdir())


def test_another_error_without_a_name_stays_as_it_is(tmp_path: Path):
    def broken(partial: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with pytest.raises(OSError, match="Input/output error") as caught:
        write_whole(tmp_path / "out", broken)
    assert caught.value.filename is None
