"""CFP's lists: two lists of images, and folders of folds with pairs of their numbers."""

from pathlib import Path

import pytest

from verisphere.files.pair_lists.layouts import read_pairs


@pytest.fixture
def protocol(tmp_path: Path) -> Path:
    """Three people with two frontal images and one profile each; two folds of one genuine and one impostor pair."""
    folder = tmp_path / "Protocol"
    for view, letter, images in (("frontal", "F", 2), ("profile", "P", 1)):
        names = [
            f"../Data/Images/00{person}/{view}/0{image + 1}.jpg" for person in (1, 2, 3) for image in range(images)
        ]
        folder.mkdir(exist_ok=True)
        (folder / f"Pair_list_{letter}.txt").write_text("".join(f"{n} {name}\n" for n, name in enumerate(names, 1)))
    for fold, kind, pairs in (
        ("FP/01", "same", "1,1"),  # person 1 and person 1
        ("FP/01", "diff", "2,3"),  # person 1 and person 3
        ("FP/02", "same", "3,2"),  # person 2 and person 2
        ("FP/02", "diff", "6,2\r"),  # person 3 and person 2
        ("FF/01", "same", "1,2"),
        ("FF/01", "diff", "1,3"),
        ("FF/02", "same", "5,6"),
        ("FF/02", "diff", "5,4"),
    ):
        place = folder / "Split" / fold / f"{kind}.txt"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{pairs}\n")
    return folder


def test_frontal_against_profile(protocol: Path):
    pairs = read_pairs(protocol / "Split" / "FP")
    images = "Data/Images/"
    assert pairs.left == tuple(
        f"{images}00{name}.jpg" for name in ("1/frontal/01", "1/frontal/02", "2/frontal/01", "3/frontal/02")
    )
    assert pairs.right == tuple(
        f"{images}00{name}.jpg" for name in ("1/profile/01", "3/profile/01", "2/profile/01", "2/profile/01")
    )
    assert (pairs.genuine, pairs.folds) == ((True, False, True, False), (0, 0, 1, 1))
    assert pairs.place(3) == "line 1 of 02/diff.txt"
    assert pairs.people is not None
    assert pairs.people[1] == ("CFP 001", "CFP 003")
    assert len(pairs.files) == 6


def test_frontal_against_frontal(protocol: Path):
    pairs = read_pairs(protocol / "Split" / "FF")
    assert pairs.right == tuple(
        f"Data/Images/00{name}.jpg" for name in ("1/frontal/02", "2/frontal/01", "3/frontal/02", "2/frontal/02")
    )
    assert "130" in pairs.remark


def test_ten_folds_stand_in_the_order_of_their_numbers(protocol: Path):
    """Not of their names: 10 comes after 2."""
    split = protocol / "Split" / "FF"
    for number in range(3, 11):
        (split / f"{number}").mkdir()
        for kind in ("same", "diff"):
            (split / f"{number}" / f"{kind}.txt").write_text((split / "01" / f"{kind}.txt").read_text())
    pairs = read_pairs(split)
    assert pairs.folds == tuple(fold for fold in range(10) for _ in range(2))
    assert pairs.place(19) == "line 1 of 10/diff.txt"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("Split/FP/02/same.txt", "3,2\n3,2\n", r"02/same.txt: 2 pairs, but FP/01/same.txt has 1"),
        ("Split/FP/02/same.txt", "", r"02/same.txt: 0 pairs, but FP/01/same.txt has 1"),
        ("Split/FP/02/same.txt", "3 2\n", r"02/same.txt: line 1: '3 2' is not a pair of numbers"),
        ("Split/FP/02/same.txt", "0,2\n", r"02/same.txt: line 1: there is no image 0 among the 6 listed, from 1"),
        ("Split/FP/02/same.txt", "3,4\n", r"02/same.txt: line 1: there is no image 4 among the 3 listed"),
        (
            "Split/FP/02/same.txt",
            "3,1\n",
            r"02/same.txt: line 1: '3,1' is .*002/frontal.*001/profile.* show two people",
        ),
        ("Split/FP/02/diff.txt", "3,2\n", r"02/diff.txt: line 1: '3,2' is .* which show one person"),
        ("Pair_list_P.txt", "2 ../Data/Images/001/profile/01.jpg\n", r"_P.txt: line 1: .* where `1 ../Data"),
        ("Pair_list_P.txt", "1 ../../001/01.jpg\n", r"_P.txt: line 1: .* where"),
    ],
)
def test_a_wrong_line_is_named(protocol: Path, file: str, text: str, message: str):
    (protocol / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(protocol / "Split" / "FP")


def test_a_fold_or_a_file_that_lacks(protocol: Path):
    split = protocol / "Split" / "FP"
    (split / "02" / "diff.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"diff.txt"):
        read_pairs(split)
    (split / "01" / "same.txt").unlink()
    with pytest.raises(ValueError, match=r"the folder of fold 1 is missing; the next one is 02"):
        read_pairs(split)
    (protocol / "Pair_list_P.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"Pair_list_P.txt"):
        read_pairs(split)


@pytest.mark.parametrize("part", ["Pair_list_F.txt", "Split/FP/01/same.txt"])
def test_a_part_of_the_lists_says_what_to_name(protocol: Path, part: str):
    with pytest.raises(ValueError, match=r"a part of CFP's lists; name the folder Protocol/Split/FP or"):
        read_pairs(protocol / part)


def test_another_name_of_the_folder(protocol: Path):
    (protocol / "Split" / "FP").rename(protocol / "Split" / "profile")
    with pytest.raises(ValueError, match=r"a folder of CFP's lists is called FP or FF"):
        read_pairs(protocol / "Split" / "profile")
