"""SLLFW's layout: one image a line, two lines a pair, the folders say who it is."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs

FOLD = ["Ann/Ann_0001.jpg", "Ann/Ann_0004.jpg", "Bo/Bo_0002.jpg", "Cy/Cy_0001.jpg"]
OTHER = ["Di/Di_0001.jpg", "Di/Di_0002.jpg", "Di/Di_0001.jpg", "Ed/Ed_0001.jpg"]


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_two_lines_make_a_pair(tmp_path: Path, end: str):
    pairs = read_pairs(write_list(tmp_path, end.join(FOLD + OTHER)))
    assert pairs.left == ("Ann/Ann_0001.jpg", "Bo/Bo_0002.jpg", "Di/Di_0001.jpg", "Di/Di_0001.jpg")
    assert pairs.right == ("Ann/Ann_0004.jpg", "Cy/Cy_0001.jpg", "Di/Di_0002.jpg", "Ed/Ed_0001.jpg")
    assert (pairs.genuine, pairs.folds) == ((True, False, True, False), (0, 0, 1, 1))
    assert pairs.lines == (1, 3, 5, 7)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (FOLD + OTHER[:3], "line 7: an image without a second one; this layout has two lines for each pair"),
        # shifted by one: Ann and Bo, Cy and Di
        (FOLD[1:] + OTHER + FOLD[:1], "line 3: a fold begins with 2 impostor pairs"),
        (FOLD[:2] + FOLD + OTHER, "line 3: ends 2 genuine pairs in a row, but each fold .* here 1"),
        ([*FOLD, "Di/", *OTHER[1:]], "line 5: 'Di/' is not an image"),
        ([*FOLD, *OTHER[:3], "Ed Ed_0001.jpg"], "line 8: .* is not an image `Name/Name_0001.jpg`"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, lines: list[str], message: str):
    refuse_list(read_pairs, write_list(tmp_path, "\n".join(lines)), message)
