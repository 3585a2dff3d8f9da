"""Lists of pairs: LFW's own layout, CSV, and the positions of their images in a set."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList

FOLDS = "2\t1\nAda\t1\t2\nAda\t1\tBo\t3\nBo\t3\t12\nBo\t1\tCy\t1\n"


def test_lfw_pairs_with_folds(tmp_path: Path):
    pairs = read_pairs(write_list(tmp_path, FOLDS))
    assert pairs.left == ("Ada/Ada_0001.jpg", "Ada/Ada_0001.jpg", "Bo/Bo_0003.jpg", "Bo/Bo_0001.jpg")
    assert pairs.right == ("Ada/Ada_0002.jpg", "Bo/Bo_0003.jpg", "Bo/Bo_0012.jpg", "Cy/Cy_0001.jpg")
    assert pairs.genuine == (True, False, True, False)
    assert pairs.folds == (0, 0, 1, 1)
    assert pairs.lines == (2, 3, 4, 5)


def test_lfw_pairs_without_folds(tmp_path: Path):
    pairs = read_pairs(write_list(tmp_path, "1\nAda\t1\t2\nAda\t1\tBo\t3\n"))
    assert pairs.genuine == (True, False)
    assert pairs.folds is None


def test_csv_pairs(tmp_path: Path):
    text = "\ufefffold,label,note,right,left\r\n0,1,x,b.jpg,a.jpg\r\n\r\n7,0,,c.jpg,a.jpg\r\n"
    pairs = read_pairs(write_list(tmp_path, text, "pairs.csv"))
    assert (pairs.left, pairs.right) == (("a.jpg", "a.jpg"), ("b.jpg", "c.jpg"))
    assert (pairs.genuine, pairs.folds, pairs.lines) == ((True, False), (0, 7), (2, 4))
    assert read_pairs(write_list(tmp_path, "left,right,label\na,b,1\n")).folds is None
    assert read_pairs(write_list(tmp_path, "\nleft,right,label,note\n\na,b,1\n")).lines == (4,)  # a line may end early


def test_a_name_that_is_listed_often_is_held_once(tmp_path: Path):
    pairs = read_pairs(write_list(tmp_path, "left,right,label\ntemplate 1,template 2,1\ntemplate 2, template 1,0\n"))
    assert pairs.left[0] is pairs.right[1]
    assert pairs.right[0] is pairs.left[1]


def test_a_long_csv_that_turns_out_not_to_be_text(tmp_path: Path):
    path = tmp_path / "pairs.csv"
    text = b"left,right,label\n" + b"a,b,1\n" * 50_000
    path.write_bytes(text + b"Zo\xeb,b,1\n")
    refuse_list(read_pairs, path, rf"not UTF-8 text \(byte {len(text) + 2}\)$")


def test_a_fold_with_a_control_character_behind_it(tmp_path: Path):
    """White space to `str.strip`, and none to `int`."""
    assert read_pairs(write_list(tmp_path, "left,right,label,fold\na,b,1,3\x1f\n")).folds == (3,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no pairs; the file is empty"),
        ("2\t1\nAda\t1\t2\n", r"line 1: announces 2 x \(2 x 1\) = 4 pairs, but 1 follow"),
        (FOLDS.replace("Ada\t1\t2", "Ada\t1\tBo\t2"), "line 2: .* where the header puts a genuine pair"),
        (FOLDS.replace("Ada\t1\tBo\t3", "Ada\t1\t3"), "line 3: .* where the header puts an impostor pair"),
        (FOLDS.replace("3\t12", "3\tx"), "line 4: .* where the header puts a genuine pair"),
        (FOLDS.replace("Cy", "Bo"), "line 5: .* cannot be an impostor pair"),
        ("first,second,label\na,b,1\n", "line 1: no column 'left' among"),
        ("left,right,label\na,b,1\na,b,2\n", "line 3: label '2'; allowed are 1"),
        ("left,right,label\na,b,1.0\n", "line 2: label '1.0'"),
        ("left,right,label\na,b\n", "line 2: label None"),
        ("left,right,label\na,,1\n", "line 2: no image in column 'right'"),
        ("left,right,label,fold\na,b,1,x\n", "line 2: fold 'x' is not a whole number"),
        ("left,right,label,fold\na,b,1,99999999999999999999\n", "line 2: fold '9{20}' is not .* at most 18 digits"),
        (f"left,right,label,fold\na,b,1,{'9' * 5000}\n", r"line 2: fold '9+\.\.\. is not a whole number"),
        (f"left,{'x' * 5000},label\na,b,1\n", "line 1: no column 'right' among"),
        (f"{'9' * 5000}\nAda\t1\t2\n", "line 1: no known layout of a list of pairs: begins with '9+"),
        ("a " * 700_000, "line 1: longer than 1,048,576 characters; is it a list"),
        ("left,right,label\na,b,1\n" + "," * 1_100_000, "line 3: longer than 1,048,576 characters"),
        ("left,right,label\n", "no pairs"),
    ],
)
def test_malformed_pairs_name_the_line(tmp_path: Path, text: str, message: str):
    refuse_list(read_pairs, write_list(tmp_path, text), message)


def test_an_image_with_itself_is_for_the_protocol_to_refuse(tmp_path: Path):
    """Which it does for lists of every layout, and may be told to keep it."""
    assert read_pairs(write_list(tmp_path, FOLDS.replace("Ada\t1\t2", "Ada\t2\t2"))).left[0] == "Ada/Ada_0002.jpg"


def test_positions_of_pairs():
    pairs = PairList(left=("a", "b"), right=("b", "c"), genuine=(True, False))
    left, right = pairs.positions(["c", "b", "a"])
    assert (left.tolist(), right.tolist()) == ([2, 1], [1, 0])


def test_missing_images_are_counted_and_the_first_is_named(tmp_path: Path):
    path = write_list(tmp_path, FOLDS)
    with pytest.raises(ValueError, match="3 images are not in the set") as caught:
        read_pairs(path).positions(["Ada/Ada_0001.png", "Ada/Ada_0001.jpg", "Ada/Ada_0002.jpg", "Bo/Bo_0012.jpg"])
    assert str(caught.value) == (
        f"{path}: 3 images are not in the set, first 'Bo/Bo_0003.jpg' on line 3; names there look like "
        "'Ada/Ada_0001.png'"
    )
    with pytest.raises(ValueError, match="pairs: 2 images are not in the set, first 'a'; the set is empty"):
        PairList(left=("a",), right=("b",), genuine=(True,)).positions([])


def test_a_pair_list_checks_itself():
    with pytest.raises(ValueError, match="pairs: no pairs"):
        PairList(left=(), right=(), genuine=())
    with pytest.raises(ValueError, match="folds has 2 entries but left has 1"):
        PairList(left=("a",), right=("b",), genuine=(True,), folds=(0, 1))


def test_the_pairs_of_lfw(real_data: Path):
    lists = real_data / "lfw_protocol"
    view2 = read_pairs(lists / "pairs.txt")
    assert (len(view2), sum(view2.genuine)) == (6000, 3000)
    assert [view2.folds.count(fold) for fold in range(10)] == [600] * 10
    for name, count in (("pairsDevTest.txt", 1000), ("pairsDevTrain.txt", 2200)):
        pairs = read_pairs(lists / name)
        assert (len(pairs), sum(pairs.genuine), pairs.folds) == (count, count // 2, None)
