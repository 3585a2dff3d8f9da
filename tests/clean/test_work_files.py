"""The folder of a result while it is made, and the blocks that are kept in it."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.clean.work_files import WorkFiles, cleaning_folder


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_the_folder_appears_with_the_result_alone(tmp_path: Path):
    out = tmp_path / "new" / "out"
    with cleaning_folder(out) as work:
        WorkFiles.open(work, {"a": 1}).save("rows", 0, rows=np.arange(3))
        (out / "kept.txt").touch()
        assert names(out) == [".work", ".work/.lock", ".work/about.json", ".work/rows-00000000.npz", "kept.txt"]
    assert names(out) == ["kept.txt"]
    with pytest.raises(FileExistsError, match=r"out: a folder that is not empty"), cleaning_folder(out):
        pass
    with pytest.raises(FileExistsError, match=r"kept.txt: a file"), cleaning_folder(out / "kept.txt"):
        pass
    assert names(out) == ["kept.txt"]


def test_an_error_before_any_work_leaves_nothing(tmp_path: Path):
    def fail(out: Path) -> None:
        with cleaning_folder(out):
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
        with cleaning_folder(tmp_path) as work:
            WorkFiles.open(work, {"a": 1}).save("rows", 1, rows=np.arange(3))
            (tmp_path / ".part-1234-kept.txt").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with cleaning_folder(tmp_path) as work:
        files = WorkFiles.open(work, {"a": 1})
        assert files.done("rows", 3) == [False, True, False]
        assert files.load("rows", 1, "rows").tolist() == [0, 1, 2]
    assert names(tmp_path) == []


def test_work_of_something_else_is_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    WorkFiles.open(tmp_path / "work", {"a": (1, 2)}).save("rows", 0, rows=np.arange(3))
    assert WorkFiles.open(tmp_path / "work", {"a": (1, 2)}).done("rows", 1) == [True]
    with caplog.at_level("INFO"):
        assert WorkFiles.open(tmp_path / "work", {"a": (1, 3)}).done("rows", 1) == [False]
    assert "work of another checkpoint, data or options: it begins anew" in caplog.text
    assert names(tmp_path / "work") == ["about.json"]


@pytest.mark.parametrize("length", [0, 100])
def test_a_damaged_file_is_named(tmp_path: Path, length: int):
    files = WorkFiles.open(tmp_path, {"a": 1})
    files.save("rows", 2, rows=np.arange(3))
    path = tmp_path / "rows-00000002.npz"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ValueError, match=r"rows-00000002\.npz: a damaged work file .* made anew"):
        files.load("rows", 2, "rows")
