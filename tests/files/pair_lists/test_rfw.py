"""RFW's lists: one of a group, or the folder of all."""

from pathlib import Path

import pytest

from verisphere.files.pair_lists.layouts import read_pairs

ROWS = ["m.0a_1\t1\t3", "m.0a_1\t2\tm.0b\t1", "m.0c\t1\t2", "m.0c\t1\tm.0d\t4"]


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    for group in ("Indian", "African"):
        place = tmp_path / "txts" / group / f"{group}_pairs.txt"
        place.parent.mkdir(parents=True)
        place.write_text("\n".join(ROWS))
        (place.parent / f"{group}_lmk.txt").write_text("no list of pairs\n")
    return tmp_path / "txts"


def test_one_group(lists: Path):
    pairs = read_pairs(lists / "African" / "African_pairs.txt")
    assert pairs.left[:2] == ("African/m.0a_1/m.0a_1_0001.jpg", "African/m.0a_1/m.0a_1_0002.jpg")
    assert pairs.right[:2] == ("African/m.0a_1/m.0a_1_0003.jpg", "African/m.0b/m.0b_0001.jpg")
    assert (pairs.genuine, pairs.folds, pairs.lines) == ((True, False, True, False), (0, 0, 1, 1), (1, 2, 3, 4))
    assert pairs.domains is None
    assert pairs.people is not None
    assert pairs.people[1] == ("African/m.0a_1", "African/m.0b")


def test_all_groups_are_domains_with_folds_of_their_own(lists: Path):
    pairs = read_pairs(lists)
    assert pairs.domains == ("African",) * 4 + ("Indian",) * 4
    assert pairs.folds == (0, 0, 1, 1) * 2
    assert pairs.left[4] == "Indian/m.0a_1/m.0a_1_0001.jpg"  # the same person under another group has another name
    assert pairs.place(5) == "line 2 of Indian_pairs.txt"
    assert [file.name for file in pairs.files] == ["African_pairs.txt", "Indian_pairs.txt"]


def test_lists_of_groups_side_by_side(lists: Path):
    for group in ("African", "Indian"):
        (lists / group / f"{group}_pairs.txt").rename(lists / f"{group}_pairs.txt")
    assert read_pairs(lists).domains == ("African",) * 4 + ("Indian",) * 4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (ROWS[:2], "Indian_pairs.txt: 2 pairs, but African_pairs.txt has 4; all groups have equally many"),
        (ROWS[:3], "Indian_pairs.txt: line 3: the list ends without the 1 impostor pairs of its last fold"),
        ([ROWS[0], ROWS[2], ROWS[1], ROWS[3]], "Indian_pairs.txt: every list .* has the same number of folds, two or"),
        ([ROWS[0].replace("\t", " "), *ROWS[1:]], "Indian_pairs.txt: line 1: 'm.0a_1 1 3' is not a genuine pair"),
    ],
)
def test_a_wrong_list_is_named(lists: Path, rows: list[str], message: str):
    (lists / "Indian" / "Indian_pairs.txt").write_text("\n".join(rows))
    with pytest.raises(ValueError, match=message):
        read_pairs(lists)


def test_a_group_that_is_there_twice(lists: Path):
    (lists / "Indian_pairs.txt").write_text("\n".join(ROWS))
    with pytest.raises(ValueError, match=r"Indian_pairs.txt is there twice"):
        read_pairs(lists)
