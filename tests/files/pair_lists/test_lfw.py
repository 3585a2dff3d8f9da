"""LFW's layout as it circulates: without its header, with the names of columns, with commas, with other line ends."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs

ROWS = (
    "Ann\t1\t4",
    "Bo\t2\t1",
    "Ann\t1\tBo\t3",
    "Bo\t1\tCy\t1",
    "Cy\t3\t12",
    "Cy\t1\t2",
    "Cy\t1\tDi\t1",
    "Di\t1\tEd\t2",
)
KINDS = (True, True, False, False) * 2


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("2\t2\n" + "\n".join(ROWS) + "\n", 2),
        ("2 2\n" + "\n".join(ROWS).replace("\t", " ") + "\n", 2),  # a header with a space
        ("\n".join(ROWS) + "\n", 1),  # no header
        ("\r\n".join(ROWS), 1),  # nor a last line end
        ("name\tnr\tname2\tnr2\n" + "\n".join(ROWS), 2),
        ("\ufeffname,imagenum1,matchnum2,\r\n" + "\r\n".join(ROWS).replace("\t", ",").replace("12\r", "12,\r"), 2),
    ],
)
def test_copies_of_one_list_are_read_alike(tmp_path: Path, text: str, first: int):
    pairs = read_pairs(write_list(tmp_path, text))
    assert pairs.left[:3] == ("Ann/Ann_0001.jpg", "Bo/Bo_0002.jpg", "Ann/Ann_0001.jpg")
    assert pairs.right[:3] == ("Ann/Ann_0004.jpg", "Bo/Bo_0001.jpg", "Bo/Bo_0003.jpg")  # not sorted: XQLFW's i > j
    assert pairs.right[4] == "Cy/Cy_0012.jpg"
    assert (pairs.genuine, pairs.folds) == (KINDS, (0, 0, 0, 0, 1, 1, 1, 1))
    assert pairs.lines == tuple(range(first, first + 8))


def test_one_run_of_each_kind_states_no_folds(tmp_path: Path):
    assert read_pairs(write_list(tmp_path, "\n".join(ROWS[:4]))).folds is None


def test_a_first_pair_whose_second_number_is_1_is_no_label(tmp_path: Path):
    """`Bo 2 1` is a genuine pair, and not the images `Bo` and `2` with the label 1."""
    rows = ["Bo\t2\t1", "Cy\t3\t1", "Bo\t1\tCy\t1", "Cy\t1\tDi\t1"]
    assert read_pairs(write_list(tmp_path, "\n".join(rows))).left[0] == "Bo/Bo_0002.jpg"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ((*ROWS[:4], *ROWS[5:]), "line 5: ends 1 genuine pairs in a row, but each fold of this layout .* here 2"),
        ((*ROWS[:2], *ROWS[3:]), "line 3: ends 1 impostor pairs in a row"),
        (ROWS[:6], "line 6: the list ends without the 2 impostor pairs of its last fold"),
        (ROWS[2:], "line 2: a fold begins with 2 impostor pairs; genuine ones come first"),
        ((*ROWS[:3], "Bo\t1"), "line 4: 'Bo.t1' is not a genuine pair, `Name i j` or an impostor pair"),
        ((*ROWS[:3], "Bo\tone\tCy\t1"), "line 4: .* is not an impostor pair, `Name i Other j`"),
        ((*ROWS[:3], "Bo\t1\tBo\t2"), "line 4: .* cannot be an impostor pair"),
        ((*ROWS[:3], "Bo\t1\tCy\t1\t5"), "line 4: .* is not a genuine pair"),
    ],
)
def test_a_wrong_line_without_header_is_named(tmp_path: Path, rows: tuple[str, ...], message: str):
    refuse_list(read_pairs, write_list(tmp_path, "\n".join(rows)), message)


def test_a_header_of_columns_alone(tmp_path: Path):
    refuse_list(read_pairs, write_list(tmp_path, "name\tnr\tname2\tnr2\n"), "line 1: no known layout")
