"""The file that an interrupted sweep is kept in."""

from pathlib import Path

import numpy as np
import pytest

from verisphere.data.sweep_file import SweepFile


def test_what_is_kept_comes_back(tmp_path: Path):
    file = SweepFile(tmp_path / "of.sweep")
    assert file.load() is None
    file.save({"done": np.array([True, False]), "windows": np.array(3)})
    file.save({"done": np.array([True, True]), "windows": np.array(4)})
    loaded = file.load()
    assert loaded is not None
    assert (loaded["done"].tolist(), int(loaded["windows"])) == ([True, True], 4)
    assert [path.name for path in tmp_path.iterdir()] == ["of.sweep"]  # no other name, nothing half-written
    assert str(file) == str(tmp_path / "of.sweep")


def test_another_kind_of_file_is_refused(tmp_path: Path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(ValueError, match=r"notes.txt: not an .npz file of plain arrays"):
        SweepFile(path).load()
