"""The folder of a result while it is made, the blocks that are kept in it, and the state of a scan."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from verisphere.files.work import ScanState, WorkFiles, result_folder


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_folder_appears_with_the_result_alone(tmp_path: Path):
    out = tmp_path / "new" / "out"
    with result_folder(out) as work:
        WorkFiles.open(work, {"a": 1}).save("rows", 0, rows=np.arange(3))
        (out / "kept.txt").touch()
        assert names(out) == [".work", ".work/.lock", ".work/about.json", ".work/rows-00000000.npz", "kept.txt"]
    assert names(out) == ["kept.txt"]
    with pytest.raises(FileExistsError, match=r"out: a folder that is not empty"), result_folder(out):
        pass
    with pytest.raises(FileExistsError, match=r"kept.txt: a file"), result_folder(out / "kept.txt"):
        pass
    assert names(out) == ["kept.txt"]


def test_an_error_before_any_work_leaves_nothing(tmp_path: Path):
    def fail(out: Path) -> None:
        with result_folder(out) as work:
            WorkFiles.open(work, {"a": 1})  # it says what the work would be, and none is done
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail(tmp_path / "new" / "out")
    assert names(tmp_path) == []
    (tmp_path / "there").mkdir()  # a folder of the user's stays
    with pytest.raises(ValueError, match="wrong"):
        fail(tmp_path / "there")
    assert names(tmp_path) == ["there"]


def test_an_unfinished_folder_is_opened_again(tmp_path: Path):
    def interrupted() -> None:
        with result_folder(tmp_path) as work:
            WorkFiles.open(work, {"a": 1}).save("rows", 1, rows=np.arange(3))
            (tmp_path / ".part-1234-kept.txt").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with result_folder(tmp_path) as work:
        files = WorkFiles.open(work, {"a": 1})
        assert files.done("rows", 3) == [False, True, False]
        assert files.load("rows", 1, "rows").tolist() == [0, 1, 2]
    assert names(tmp_path) == []


def test_work_of_something_else_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    work = tmp_path / "new" / "work"
    with caplog.at_level("INFO"):
        WorkFiles.open(work, {"a": (1, 2)}).save("rows", 0, rows=np.arange(3))
        assert WorkFiles.open(work, {"a": (1, 2)}).done("rows", 1) == [True]
        assert "begins anew" not in caplog.text
        (work / ".lock").touch()
        assert WorkFiles.open(work, {"a": (1, 3)}).done("rows", 1) == [False]
    assert "new: work of another checkpoint, data or options: it begins anew" in caplog.text
    assert names(work) == [".lock", "about.json"]


def with_an_object(path: Path) -> None:
    np.savez(path, rows=np.array([{}], dtype=object))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.write_text("no file of arrays"),
        lambda path: np.savez(path, columns=np.arange(3)),
        with_an_object,
    ],
    ids=["empty", "cut", "text", "another array", "an object of Python"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Callable[[Path], object]):
    files = WorkFiles.open(tmp_path, {"a": 1})
    files.save("rows", 2, rows=np.arange(3))
    damage(tmp_path / "rows-00000002.npz")
    with pytest.raises(ValueError, match=r"rows-00000002\.npz: a damaged work file .* made anew"):
        files.load("rows", 2, "rows")


def test_what_is_kept_comes_back(tmp_path: Path):
    file = ScanState(tmp_path / "of.scan")
    assert file.load() is None
    file.save({"done": np.array([True, False]), "windows": np.array(3)})
    file.save({"done": np.array([True, True]), "windows": np.array(4)})
    loaded = file.load()
    assert loaded is not None
    assert (loaded["done"].tolist(), int(loaded["windows"])) == ([True, True], 4)
    assert [path.name for path in tmp_path.iterdir()] == ["of.scan"]  # no other name, nothing half-written
    assert str(file) == str(tmp_path / "of.scan")


def test_another_kind_of_file_is_refused(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"notes.txt: not an .npz file of plain arrays"):
        ScanState(path).load()


@pytest.mark.parametrize(
    "edit",
    [
        {"done": np.array([True, True])},
        {"done": np.array([1, 0], np.uint8)},
        {"windows": np.array([3])},
        {"windows": np.array(4)},
        {"more": np.array(0)},
        {"done": None},
        {"seal": np.zeros(32, np.uint8)},
        {"seal": np.array("no seal")},
        {"seal": None},
    ],
)
def test_an_edited_file_is_refused(tmp_path: Path, edit: dict[str, np.ndarray | None]):
    file = ScanState(tmp_path / "of.npz")
    file.save({"done": np.array([True, False]), "windows": np.array(3)})
    with np.load(file.path) as archive:
        state = {**archive, **edit}
    np.savez(file.path, **{name: array for name, array in state.items() if array is not None})
    says = "not the state of an interrupted scan, or written by" if edit.get("seal", 0) is None else "edited or damaged"
    with pytest.raises(ValueError, match=rf"of\.npz: .*{says}"):
        file.load()


def test_truths_are_zero_or_one(tmp_path: Path):
    """A byte of 2 is true to numpy, and counts as two in a sum."""
    file = ScanState(tmp_path / "of.npz")
    file.save({"done": np.array([2, 0], np.uint8).view(bool)})
    with pytest.raises(ValueError, match=r"of\.npz: .*array 'done': it holds truths in bytes other than 0 and 1"):
        file.load()
