"""YouTube Faces' list: split, number, two videos, label."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs

ROWS = [
    "1, 1, Ann/1, Ann/5, 1",
    "1, 2, Bo/1, Cy/0, 0",
    "2, 1, Di/0, Di/1, 1",
    "2, 2, Di/0, Ed/2, 0",
]


@pytest.mark.parametrize("header", [[], ["split number, index, first name, second name, is same"]])
def test_splits_are_folds_and_names_are_videos(tmp_path: Path, header: list[str]):
    pairs = read_pairs(write_list(tmp_path, "\r\n".join(header + ROWS)))
    assert (pairs.left, pairs.right) == (("Ann/1", "Bo/1", "Di/0", "Di/0"), ("Ann/5", "Cy/0", "Di/1", "Ed/2"))
    assert (pairs.genuine, pairs.folds, pairs.videos) == ((True, False, True, False), (1, 1, 2, 2), True)
    assert pairs.lines == tuple(range(1 + len(header), 5 + len(header)))
    assert pairs.people == (("Ann", "Ann"), ("Bo", "Cy"), ("Di", "Di"), ("Di", "Ed"))


def test_the_label_decides_and_not_the_names(tmp_path: Path):
    assert read_pairs(write_list(tmp_path, "\n".join(ROWS).replace("5, 1", "5, 0"))).genuine[0] is False


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (ROWS[:3], "line 3: ends 1 pairs of split 2, but split 1 has 2; is a line missing"),
        ([ROWS[0], *ROWS[2:]], "line 3: ends 2 pairs of split 2, but split 1 has 1"),
        (ROWS[1:], "line 1: pair 2 of split 1, where pair 1 follows"),
        ([*ROWS[:3], "2, 2, Di/0, Ed/2, -1"], "line 4: label '-1'; allowed are 1 .genuine. and 0 .impostor."),
        ([*ROWS[:3], "2, 2, Di/0, Ed/2"], "line 4: .* is not `split, number, Name/3, Other/0, label`"),
        ([*ROWS[:3], "2, 2, Di, Ed/2, 0"], "line 4: .* is not `split, number"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, lines: list[str], message: str):
    refuse_list(read_pairs, write_list(tmp_path, "\r\n".join(lines)), message)
