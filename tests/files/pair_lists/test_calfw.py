"""The layout of CALFW and CPLFW: an image and a number a line, two lines a pair."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs


def lines_of(genuine: list[int], impostors: int) -> list[str]:
    """Genuine pairs of Ann with these numbers, then impostor pairs of Ann and Bo; each pair has images of its own."""
    rows = [f"Ann_{place}{image}.jpg {number}" for place, number in enumerate(genuine) for image in (1, 2)]
    return rows + [f"{name}_{place}3.jpg 0" for place in range(impostors) for name in ("Ann", "Bo")]


def test_calfw_states_the_folds_of_genuine_pairs(tmp_path: Path):
    """Folds 1, 1, 2, 2; so the first two impostor pairs are of fold 1, the next two of fold 2."""
    pairs = read_pairs(write_list(tmp_path, "\n".join(lines_of([1, 1, 2, 2], 4))))
    assert pairs.genuine == (True,) * 4 + (False,) * 4
    assert pairs.folds == (0, 0, 1, 1, 0, 0, 1, 1)
    assert (pairs.left[1], pairs.right[1], pairs.left[4], pairs.right[4]) == (
        "Ann_11.jpg",
        "Ann_12.jpg",
        "Ann_03.jpg",
        "Bo_03.jpg",
    )
    assert pairs.people is not None
    assert pairs.people[3:5] == (("Ann", "Ann"), ("Ann", "Bo"))
    assert pairs.lines == (1, 3, 5, 7, 9, 11, 13, 15)


@pytest.mark.parametrize("header", [[], ["name same_person"]])
def test_cplfw_has_a_label_and_ten_blocks(tmp_path: Path, header: list[str]):
    pairs = read_pairs(write_list(tmp_path, "\r\n".join(header + lines_of([1] * 10, 10))))
    assert (sum(pairs.genuine), len(pairs), pairs.folds) == (10, 20, None)
    assert pairs.lines is not None
    assert pairs.lines[0] == 1 + len(header)


@pytest.mark.parametrize("number", [0, 1])
def test_spellings_of_a_person_are_for_the_rule_of_names(tmp_path: Path, number: int):
    """Names that differ in case are one person or two, as `--names` says."""
    lines = lines_of([1] * 10, 10)
    lines[0 if number else 20] = lines[0 if number else 20].replace("Ann", "ANN")
    lines[1 if number else 21] = lines[1 if number else 21].replace("Bo", "Ann")
    pairs = read_pairs(write_list(tmp_path, "\n".join(lines)))
    assert pairs.people is not None
    assert pairs.people[0 if number else 10] == ("ANN", "Ann")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (lines_of([1, 1, 2, 2], 4)[:-1], "line 15: an image without a second one"),
        (lines_of([1, 1, 2], 4), "line 5: fold 2 has 1 genuine pairs, but fold 1 has 2"),
        (lines_of([1, 1, 3, 3], 4), "line 15: fold 2 has 0 genuine pairs, but fold 1 has 2"),
        (lines_of([10**17, 10**17], 2), "line 1: fold 10+, but no genuine pair is in fold 1"),
        (lines_of([1, 1, 2, 2], 3), "line 13: ends 3 impostor pairs, but 2 folds of 2 genuine pairs have as many, 4"),
        (lines_of([1] * 10, 9), "line 37: ends 10 genuine and 9 impostor pairs, which do not make ten folds"),
        (lines_of([1] * 9, 9), "line 35: ends 9 genuine and 9 impostor pairs"),
        (["Ann_1.jpg 1", "Ann_2.jpg 0"], "line 2: 0, but the other image of the pair has 1"),
        (["Ann_1.jpg 1", "Bo_2.jpg 1"], "line 1: 'Ann_1.jpg' and 'Bo_2.jpg' have 1, which says .* one person, but"),
        (["Ann_1.jpg 0", "Ann_2.jpg 0"], "line 1: .* have 0, which says that they show two people, but their names"),
        (["Ann_1.jpg 1", "Ann_2.jpg -1"], "line 2: 'Ann_2.jpg -1' is not `image.jpg N`"),
        (["Ann_1.jpg 1", "Ann_2.jpg"], "line 2: 'Ann_2.jpg' is not `image.jpg N`"),
        (["Ann.jpg 1", "Ann_2.jpg 1"], "line 1: 'Ann.jpg' does not name a person, as `Name_0001.jpg` does"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, lines: list[str], message: str):
    refuse_list(read_pairs, write_list(tmp_path, "\n".join(lines)), message)


def test_a_list_of_people_with_counts_is_no_list_of_pairs(tmp_path: Path):
    refuse_list(read_pairs, write_list(tmp_path, "Ann 3\nBo 1\n"), "line 1: no known layout")
