"""What no layout looks like, and what is said of it."""

from pathlib import Path

import pytest

from verisphere.files.pair_lists.layouts import LAYOUTS, read_pairs


def test_a_matlab_file_says_what_to_do(tmp_path: Path):
    (tmp_path / "04_FINAL_protocol_30_years.mat").write_bytes(b"MATLAB 5.0")
    with pytest.raises(
        ValueError, match="MATLAB files are not read; write the pairs as CSV with left,right,label,fold"
    ):
        read_pairs(tmp_path / "04_FINAL_protocol_30_years.mat")


def test_an_unknown_file_and_an_unknown_folder_name_every_layout(tmp_path: Path):
    (tmp_path / "list.txt").write_text("who knows?\n")
    for path, begins in ((tmp_path / "list.txt", "begins with 'who knows?'"), (tmp_path, "a folder")):
        with pytest.raises(ValueError, match="no known layout of a list of pairs") as caught:
            read_pairs(path)
        assert begins in str(caught.value)
        assert all(layout.name in str(caught.value) for layout in LAYOUTS)
