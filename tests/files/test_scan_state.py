"""The file that an interrupted scan is kept in."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.files.scan_state import ScanState


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
