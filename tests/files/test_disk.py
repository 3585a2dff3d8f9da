"""Files and folders are written whole or not at all."""

import errno
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from processes import forked
from verisphere.files import disk as files
from verisphere.files import lock
from verisphere.files.disk import (
    check_file,
    check_writable,
    digest,
    read_file,
    refuse_overwriting,
    regular,
    replace_whole,
    write_whole,
    write_with_companions,
)
from verisphere.files.lock import alone_at, alone_in


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


def test_a_file_is_on_the_disk_before_its_name_and_its_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    done: list[tuple[str, int]] = []
    sync, rename = os.fsync, os.replace

    def syncing(descriptor: int) -> None:
        sync(descriptor)
        done.append(("synced", os.fstat(descriptor).st_ino))

    def renaming(source: Path, target: Path) -> None:
        rename(source, target)
        done.append(("renamed", os.stat(target).st_ino))

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "replace", renaming)
    path = tmp_path / "a.txt"
    write_whole(path, lambda partial: partial.write_text("one"))
    file, folder = path.stat().st_ino, tmp_path.stat().st_ino
    assert done == [("synced", file), ("renamed", file), ("synced", folder)]


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


# --- reading regular files alone ---


def open_as_regular(path: Path) -> None:
    with open(path, "rb", opener=regular) as file:
        file.read(1)


READERS = (open_as_regular, check_file, read_file, digest)


def special_files(folder: Path) -> dict[str, Path]:
    """Everything but a file that a name can stand for without privileges."""
    os.mkfifo(folder / "pipe")
    (folder / "endless").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
    return {"a pipe": folder / "pipe", "a character device": folder / "endless", "a socket": folder / "socket"}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("read", READERS)
def test_a_pipe_a_device_or_a_socket_is_refused_by_name_and_nothing_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[[Path], object]
):
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    for kind, path in special_files(Path()).items():
        with pytest.raises(ValueError, match=f"{path}: {kind}, not a regular file; save what it gives to a file first"):
            read(path)


@pytest.mark.timeout(10)
def test_the_pipe_of_a_process_substitution_is_refused():
    reading, writing = os.pipe()
    try:
        with pytest.raises(ValueError, match=f"/dev/fd/{reading}: a pipe, not a regular file"):
            read_file(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.timeout(10)
def test_a_pipe_that_takes_the_name_after_the_check_is_refused_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "a"
    os.mkfifo(path)
    (tmp_path / "file").touch()
    ordinary = os.stat(tmp_path / "file")
    monkeypatch.setattr("verisphere.files.disk.os.stat", lambda path: ordinary)
    with pytest.raises(ValueError, match="a: a pipe"):
        open_as_regular(path)


def test_a_regular_file_or_a_link_to_one_is_read(tmp_path: Path):
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\rthree\n")
    (tmp_path / "link").symlink_to("a.txt")
    check_file(tmp_path / "link")
    assert read_file(tmp_path / "link") == b"one\r\ntwo\rthree\n"
    assert digest(tmp_path / "link") == digest(tmp_path / "a.txt")


def test_a_file_larger_than_allowed_is_refused_unread(tmp_path: Path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"sparse: 1,099,511,627,776 bytes, more than the 67,108,864 allowed"):
        read_file(tmp_path / "sparse")
    (tmp_path / "a").write_bytes(b"12345")
    assert read_file(tmp_path / "a", 5) == b"12345"
    with pytest.raises(ValueError, match="5 bytes, more than the 4 allowed"):
        read_file(tmp_path / "a", 4)


def test_nothing_or_a_folder_is_no_file(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"absent: there is no such recipe$"):
        check_file(tmp_path / "absent", "recipe")
    with pytest.raises(FileNotFoundError, match=r"there is no such file, it is a folder"):
        check_file(tmp_path)
    for read in (open_as_regular, read_file, digest):
        with pytest.raises(FileNotFoundError, match="absent"):
            read(tmp_path / "absent")
        with pytest.raises(IsADirectoryError, match=tmp_path.name):
            read(tmp_path)


# --- a folder that takes another's place ---


def write_new(partial: Path) -> None:
    (partial / "inner").mkdir(parents=True)
    (partial / "inner" / "new").write_text("new")


@pytest.mark.parametrize("offered", [True, False], ids=["exchange", "two renames"])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: bool):
    if not offered:
        monkeypatch.setattr(files, "_exchanged", lambda left, right: False)
    replace_whole(tmp_path / "run", make_folder)  # nothing is there yet
    replace_whole(tmp_path / "run", write_new)
    assert [str(entry.relative_to(tmp_path)) for entry in sorted(tmp_path.rglob("*"))] == [
        "run", "run/inner", "run/inner/new"]  # fmt: skip


@pytest.mark.parametrize("offered", [True, False], ids=["exchange", "two renames"])
def test_a_replacement_that_fails_leaves_the_old_folder_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: bool
):
    replace_whole(tmp_path / "run", make_folder)
    before = sorted(tmp_path.rglob("*"))
    rename = os.replace

    def refused(source: Path, target: Path) -> None:
        if Path(source).name.startswith(".part-") and target == tmp_path / "run":
            raise OSError(errno.EIO, "Input/output error", str(target))
        rename(source, target)

    def exchange(left: Path, right: Path) -> bool:
        if offered:
            raise OSError(errno.EIO, "Input/output error", str(right))
        return False

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(files, "_exchanged", exchange)
    with pytest.raises(OSError, match="Input/output error"):
        replace_whole(tmp_path / "run", write_new)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_does_not_give_way_to_a_folder(tmp_path: Path):
    (tmp_path / "run").write_text("old")
    with pytest.raises(FileExistsError, match="run: a file"):
        replace_whole(tmp_path / "run", write_new)


KILLED = """
import os, sys
from pathlib import Path
from verisphere.files import disk as files

def write(word):
    def into(partial):
        partial.mkdir()
        for name in "ab":
            (partial / name).write_text(word)
    return into

def dying(function, when):
    \"\"\"As a process that is killed before or after so many calls.\"\"\"
    def called(*arguments):
        global left
        if left == 0 and when == "before":
            os._exit(9)
        result = function(*arguments)
        if left == 0:
            os._exit(9)
        left -= 1
        return result
    return called

folder = Path(sys.argv[1])
if sys.argv[2] == "two renames":
    files._exchanged = lambda left, right: False
for when in ("before", "after"):
    moment, code = 0, 9
    while code == 9:
        place = folder / f"{when}-{moment}" / "report"
        place.parent.mkdir()
        files.write_whole(place, write("old"))
        child = os.fork()
        if not child:
            left = moment
            os.replace, os.fsync = dying(os.replace, when), dying(os.fsync, when)
            files._exchanged, files._remove = dying(files._exchanged, when), dying(files._remove, when)
            files.replace_whole(place, write("new"))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(when, moment, code, flush=True)
        moment += 1
"""


OLD, NEW = dict.fromkeys("ab", "old"), dict.fromkeys("ab", "new")


@pytest.mark.parametrize("offered", ["exchange", "two renames"])
def test_a_replacement_that_is_killed_leaves_the_old_or_the_new_folder_whole(tmp_path: Path, offered: str):
    """At every call that brings something to the disk: where names can be exchanged, under the name that was given."""
    words = [*forked(), "-c", KILLED, tmp_path, offered]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert said.stdout.count(" 9\n") >= 12
    for place in tmp_path.iterdir():
        whole = [
            entry
            for entry in place.iterdir()
            if entry.is_dir() and {file.name: file.read_text() for file in entry.iterdir()} in (OLD, NEW)
        ]
        assert whole
        if offered == "exchange":
            assert place / "report" in whole
        if place / "report" in whole:  # and not killed between two renames, which leaves both folders to choose from
            replace_whole(place / "report", lambda partial: (partial.mkdir(), (partial / "c").touch()))
            assert sorted(str(entry.relative_to(place)) for entry in place.rglob("*")) == ["report", "report/c"]


def _with_companion(path: Path) -> None:
    path.write_text("main")
    path.with_suffix(".idx").write_text("index")


def test_a_file_and_its_companions_appear_together(tmp_path: Path):
    write_with_companions(tmp_path / "a.rec", _with_companion)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.rec": "main", "a.idx": "index"}


def test_the_main_file_is_renamed_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Whatever stops the renames, nothing has the main name; an error and Ctrl-C leave nothing at all."""
    really = os.rename

    def stopped(source: Path, target: Path) -> None:
        if Path(target).name == "a.rec":
            assert (tmp_path / "a.idx").exists()
            raise KeyboardInterrupt
        really(source, target)

    monkeypatch.setattr(os, "rename", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_with_companions(tmp_path / "a.rec", _with_companion)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("taken", ["a.rec", "a.idx"])
def test_neither_a_file_nor_a_companion_is_overwritten(tmp_path: Path, taken: str):
    (tmp_path / taken).write_text("mine")
    with pytest.raises(FileExistsError, match=rf"{taken}: exists already, and is never overwritten"):
        write_with_companions(tmp_path / "a.rec", _with_companion)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {taken: "mine"}


def test_a_companion_of_the_same_bytes_is_what_a_killed_process_has_left(tmp_path: Path):
    (tmp_path / "a.idx").write_text("index")
    write_with_companions(tmp_path / "a.rec", _with_companion)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.rec": "main", "a.idx": "index"}
    (tmp_path / "b.idx").symlink_to(tmp_path / "a.idx")
    with pytest.raises(FileExistsError, match=r"b\.idx: exists already, and is never overwritten"):
        write_with_companions(tmp_path / "b.rec", _with_companion)


def test_what_another_process_has_written_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    really, out = os.rename, tmp_path / "faces"

    def late(source: Path, target: Path) -> None:
        if Path(target) == out:
            out.mkdir()
            (out / "theirs").touch()
        really(source, target)

    monkeypatch.setattr(os, "rename", late)
    with pytest.raises(OSError, match="not empty"):
        write_with_companions(out, lambda partial: (partial.mkdir(), partial.with_suffix(".idx").touch()))
    assert [path.name for path in tmp_path.rglob("*")] == ["faces", "theirs"]


def test_companions_without_the_main_file_are_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"a\.rec: nothing was written"):
        write_with_companions(tmp_path / "a.rec", lambda path: path.with_suffix(".idx").touch())
    assert not list(tmp_path.iterdir())


def test_a_read_only_disk_names_the_file_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """On such a disk, to remove a file that is not there is an error too."""

    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def write(path: Path) -> None:
        refused(path)

    monkeypatch.setattr(Path, "unlink", refused)
    for writer in (write_whole, write_with_companions):
        with pytest.raises(OSError, match="Read-only") as error:
            writer(tmp_path / "x", write)
        assert error.value.filename == str(tmp_path / "x")


# --- what a killed process leaves ---


def _file(partial: Path) -> None:
    partial.write_text("whole")


def _pair(partial: Path) -> None:
    partial.write_text("whole")
    partial.with_suffix(".idx").write_text("index")


def _killed_in(write_to: Callable[..., None], path: Path, write: Callable[[Path], None]) -> None:
    """In a copy of this process that is killed when `write` has written."""
    if not (child := os.fork()):
        write_to(path, lambda partial: (write(partial), os.kill(os.getpid(), signal.SIGKILL)))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


WRITERS = [
    (write_whole, _file),
    (write_whole, make_folder),
    (replace_whole, make_folder),
    (write_with_companions, _pair),
]


@pytest.mark.parametrize(("write_to", "write"), WRITERS)
def test_the_next_write_removes_what_a_killed_one_has_left_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, write_to: Callable[..., None], write: Callable[[Path], None]
):
    path = tmp_path / "out.x"
    if write_to is replace_whole:
        write_whole(path, make_folder)
    for _ in range(2):
        _killed_in(write_to, path, write)
    left = {entry.name for entry in tmp_path.iterdir()} - {"out.x"}
    assert len(left) >= 2
    assert all(name.startswith(".part-") for name in left)
    with caplog.at_level("INFO", "verisphere"):
        write_whole(tmp_path / "another.x", _file)  # of another name: not its own
        assert left <= {entry.name for entry in tmp_path.iterdir()}
        assert caplog.messages == []
        write_to(path, write)
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".")]
    assert caplog.messages == [f"{path}: removed an unfinished copy that a killed process had left there"] or (
        caplog.messages == [f"{path}: removed 2 unfinished copies that a killed process had left there"]
    )


def test_the_copy_of_a_process_that_is_alive_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "out.txt"
    begun, go_on = os.pipe(), os.pipe()
    if not (child := os.fork()):

        def slowly(partial: Path) -> None:
            partial.write_text("child")
            os.write(begun[1], b"x")
            os.read(go_on[0], 1)

        write_whole(path, slowly)
        os._exit(0)
    os.read(begun[0], 1)
    before = sorted(tmp_path.iterdir())
    with caplog.at_level("INFO", "verisphere"):
        write_whole(path, lambda partial: partial.write_text("parent"))
    assert sorted(tmp_path.iterdir()) == [*before, path]
    assert caplog.messages == []
    os.write(go_on[1], b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]
    assert path.read_text() == "child"


def test_a_write_inside_a_write_of_the_same_name_leaves_its_copy(tmp_path: Path):
    def twice(partial: Path) -> None:
        partial.write_text("outer")
        write_whole(tmp_path / "out.txt", _file)

    write_whole(tmp_path / "out.txt", twice)
    assert (tmp_path / "out.txt").read_text() == "outer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_a_lock_that_its_holder_removed_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Between opening the file and locking it, its holder ends, and a third process makes and locks a new one."""
    path, real = tmp_path / "one.lock", lock._locked

    def late(file: int) -> bool | None:
        path.unlink()
        path.write_text("of a third")
        return real(file)

    monkeypatch.setattr(lock, "_locked", late)
    with lock.lock_file(path) as is_free:
        assert not is_free
    assert path.read_text() == "of a third"


@pytest.mark.parametrize("doubt", ["no locks", "another machine", "another user", "no lock file"])
def test_in_doubt_a_copy_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, doubt: str):
    path = tmp_path / "out.txt"
    _killed_in(write_whole, path, _file)
    (lock,) = tmp_path.glob("*.lock")
    if doubt == "no locks":

        def none(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(fcntl, "flock", none)
    elif doubt == "another machine":
        lock.write_text("elsewhere")
    elif doubt == "another user":
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    else:
        lock.unlink()
    left = set(tmp_path.iterdir())
    write_whole(path, _file)
    assert set(tmp_path.iterdir()) == left | {path}


def test_what_is_replaced_keeps_its_permissions(tmp_path: Path):
    path = tmp_path / "secret.json"
    write_whole(path, _file)
    path.chmod(0o600)
    write_whole(path, _file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    folder = tmp_path / "report"
    replace_whole(folder, make_folder)
    inside = next(entry for entry in folder.rglob("*") if entry.is_file())
    folder.chmod(0o700)
    inside.chmod(0o640)
    replace_whole(folder, make_folder)
    assert [stat.S_IMODE(entry.stat().st_mode) for entry in (folder, inside)] == [0o700, 0o640]


def test_one_process_at_a_time_replaces_a_folder(tmp_path: Path):
    out = tmp_path / "new" / "report"
    with alone_at(out):
        with pytest.raises(ValueError, match=r"report: another process is writing it"), alone_at(out):
            pass
        with alone_at(tmp_path / "new" / "other"):
            pass
    with alone_at(out):
        pass
    assert list((tmp_path / "new").iterdir()) == []


def test_one_process_at_a_time_writes_in_a_folder(tmp_path: Path):
    out = tmp_path / "run"
    out.mkdir()
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    words = [sys.executable, "-S", "-c", hold, str(out / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == b"\n"
        with pytest.raises(ValueError, match=r"run: another process is writing there"), alone_in(out):
            pass
        other.stdin.close()
    with alone_in(out):
        pass
