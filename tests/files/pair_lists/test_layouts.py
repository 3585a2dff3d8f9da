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
        assert ("line 1" in str(caught.value)) == path.is_file()  # a folder has no lines
        assert all(layout.name in str(caught.value) for layout in LAYOUTS)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('"left","right","label"\n"a.jpg","b.jpg","1"\n', "a.jpg"),  # as pandas quotes text
        ("10 1\n" + "Downey,_Jr 1 4\nDowney,_Jr 1 Ann 2\n" * 10, "Downey,_Jr/Downey,_Jr_0001.jpg"),
        ("1\t\t1\nAnn\t1\t4\nAnn\t1\tBo\t2\n", "Ann/Ann_0001.jpg"),  # no label last in the header
    ],
)
def test_lists_that_could_be_taken_for_another_layout(tmp_path: Path, text: str, left: str):
    (tmp_path / "list.txt").write_text(text)
    assert read_pairs(tmp_path / "list.txt").left[0] == left
