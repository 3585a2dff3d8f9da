"""The folder of a result while it is made, and the blocks that are kept in it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from verisphere.files.work_files import WorkFiles, result_folder


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
        with result_folder(out):
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
