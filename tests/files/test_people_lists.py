"""Lists of people, pairs and images."""

from pathlib import Path

import pytest

from verisphere.files.image_lists import faults_of_images, read_images
from verisphere.files.pair_lists.layouts import read_pairs
from verisphere.files.pair_lists.pair_list import PairList
from verisphere.files.people_lists import read_people


def write(folder: Path, text: str, name: str = "list.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(read, path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 400


# --- people ---


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("2\nAda\t3\nBo\t1\n", ("Ada", "Bo")),
        ("2\r\nAda\t3\r\nBo\t1", ("Ada", "Bo")),
        ("2\n1\nAda\t3\n2\nBo\t1\n0045\t2\n", ("Ada", "Bo", "0045")),
        ("Ada Lovelace\n\nBo\n", ("Ada Lovelace", "Bo")),
        ("\ufeffZoë\n", ("Zoë",)),
        ("0000045\n0000046\n", ("0000045", "0000046")),  # identities that are numbers are no header
    ],
)
def test_people_of_each_layout(tmp_path: Path, text: str, people: tuple[str, ...]):
    assert read_people(write(tmp_path, text)) == people


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no people; the file is empty"),
        ("3\nAda\t3\nBo\t1\n", "line 1: announces 3 people, but 2 follow"),
        ("2\n1\nAda\t3\n2\nBo\t1\n", "line 4: announces 2 people, but 1 follow"),
        ("3\n1\nAda\t3\n1\nBo\t1\n", "line 1: announces 3 sections, but 2 follow"),
        ("Ada\t3\nBo\t1\n", "line 1: 'Ada.t3' where LFW's layout has the count"),
        ("2\nAda\t3\nBo\n", "line 3: 'Bo' is neither a count nor"),
        ("1\nAda\tmany\n", "line 2: .* is not `Name<TAB>images`"),
        ("1\nAda\t0\n", "line 2: .* with one image or more"),
        ("2\nAda\t3\nAda\t3\n", "line 3: 'Ada' is already on line 2"),
        ("Ada\nBo\nAda\n", "line 3: 'Ada' is already on line 1"),
    ],
)
def test_malformed_people_name_the_line(tmp_path: Path, text: str, message: str):
    refused(read_people, write(tmp_path, text), message)


def test_a_list_that_is_not_text(tmp_path: Path):
    path = tmp_path / "list.txt"
    path.write_bytes(b"Ada\nZo\xeb\n")
    refused(read_people, path, "not UTF-8 text \\(byte 6\\)")


def test_the_people_of_lfw(real_data: Path):
    lists = real_data / "lfw_protocol"
    train, test = read_people(lists / "peopleDevTrain.txt"), read_people(lists / "peopleDevTest.txt")
    assert (len(train), len(test)) == (4038, 1711)
    assert not set(train) & set(test)
    assert len(read_people(lists / "people.txt")) == 5749


# --- pairs ---

FOLDS = "2\t1\nAda\t1\t2\nAda\t1\tBo\t3\nBo\t3\t12\nBo\t1\tCy\t1\n"


def test_lfw_pairs_with_folds(tmp_path: Path):
    pairs = read_pairs(write(tmp_path, FOLDS))
    assert pairs.left == ("Ada/Ada_0001.jpg", "Ada/Ada_0001.jpg", "Bo/Bo_0003.jpg", "Bo/Bo_0001.jpg")
    assert pairs.right == ("Ada/Ada_0002.jpg", "Bo/Bo_0003.jpg", "Bo/Bo_0012.jpg", "Cy/Cy_0001.jpg")
    assert pairs.genuine == (True, False, True, False)
    assert pairs.folds == (0, 0, 1, 1)
    assert pairs.lines == (2, 3, 4, 5)


def test_lfw_pairs_without_folds(tmp_path: Path):
    pairs = read_pairs(write(tmp_path, "1\nAda\t1\t2\nAda\t1\tBo\t3\n"))
    assert pairs.genuine == (True, False)
    assert pairs.folds is None


def test_csv_pairs(tmp_path: Path):
    text = "\ufefffold,label,note,right,left\r\n0,1,x,b.jpg,a.jpg\r\n\r\n7,0,,c.jpg,a.jpg\r\n"
    pairs = read_pairs(write(tmp_path, text, "pairs.csv"))
    assert (pairs.left, pairs.right) == (("a.jpg", "a.jpg"), ("b.jpg", "c.jpg"))
    assert (pairs.genuine, pairs.folds, pairs.lines) == ((True, False), (0, 7), (2, 4))
    assert read_pairs(write(tmp_path, "left,right,label\na,b,1\n")).folds is None
    assert read_pairs(write(tmp_path, "\nleft,right,label,note\n\na,b,1\n")).lines == (4,)  # a line may end early


def test_a_name_that_is_listed_often_is_held_once(tmp_path: Path):
    pairs = read_pairs(write(tmp_path, "left,right,label\ntemplate 1,template 2,1\ntemplate 2, template 1,0\n"))
    assert pairs.left[0] is pairs.right[1]
    assert pairs.right[0] is pairs.left[1]


def test_a_long_csv_that_turns_out_not_to_be_text(tmp_path: Path):
    path = tmp_path / "pairs.csv"
    text = b"left,right,label\n" + b"a,b,1\n" * 50_000
    path.write_bytes(text + b"Zo\xeb,b,1\n")
    refused(read_pairs, path, rf"not UTF-8 text \(byte {len(text) + 2}\)$")


def test_a_fold_with_a_control_character_behind_it(tmp_path: Path):
    """White space to `str.strip`, and none to `int`."""
    assert read_pairs(write(tmp_path, "left,right,label,fold\na,b,1,3\x1f\n")).folds == (3,)


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
        (f"left,right,label\na,b,{'9' * 5000}\n", r"line 2: label '9+\.\.\.; allowed are 1"),
        (f"left,{'x' * 5000},label\na,b,1\n", "line 1: no column 'right' among"),
        (f"{'9' * 5000}\nAda\t1\t2\n", "line 1: no known layout of a list of pairs: begins with '9+"),
        (FOLDS.replace("3\t12", "3\t" + "1" * 5000), r"line 4: 'Bo\\t3\\t1+\.\.\. where the header puts"),
        ("a " * 700_000, "line 1: longer than 1,048,576 characters; is it a list"),
        ("left,right,label\na,b,1\n" + "," * 1_100_000, "line 3: longer than 1,048,576 characters"),
        ("left,right,label\n", "no pairs"),
    ],
)
def test_malformed_pairs_name_the_line(tmp_path: Path, text: str, message: str):
    refused(read_pairs, write(tmp_path, text), message)


def test_an_image_with_itself_is_for_the_protocol_to_refuse(tmp_path: Path):
    """Which it does for lists of every layout, and may be told to keep it."""
    assert read_pairs(write(tmp_path, FOLDS.replace("Ada\t1\t2", "Ada\t2\t2"))).left[0] == "Ada/Ada_0002.jpg"


def test_positions_of_pairs():
    pairs = PairList(left=("a", "b"), right=("b", "c"), genuine=(True, False))
    left, right = pairs.positions(["c", "b", "a"])
    assert (left.tolist(), right.tolist()) == ([2, 1], [1, 0])


def test_missing_images_are_counted_and_the_first_is_named(tmp_path: Path):
    path = write(tmp_path, FOLDS)
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


# --- images ---


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("Ada Lovelace/1.jpg", "Bo/1, old.png", "Bo/2.JPG", "3.jpg"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize("separator", ["\t", ",", ", ", "  "])
def test_images_with_identities(photos: Path, separator: str):
    rows = (("Ada Lovelace/1.jpg", "Ada L."), ("Bo/1, old.png", "b"), ("./Bo//2.JPG", "b"), ("3.jpg", "7"))
    listed = read_images(write(photos, "\n".join(separator.join(row) for row in rows)))
    assert listed.paths == ("Ada Lovelace/1.jpg", "Bo/1, old.png", "Bo/2.JPG", "3.jpg")
    assert listed.identities == ("Ada L.", "b", "b", "7")


def test_identities_are_taken_from_folders(photos: Path):
    listed = read_images(write(photos, "Ada Lovelace/1.jpg\nBo/2.JPG\n"))
    assert listed.identities == ("Ada Lovelace", "Bo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no images; the file is empty"),
        ("3.jpg\ta\n9.jpg\ta\n", "line 2: no file .*9.jpg; paths are relative to the list"),
        ("3.jpg\ta\nBo/2.JPG\tb\n3.jpg\tb\n", "line 3: '3.jpg' is already on line 1"),
        ("3.jpg\ta\n./3.jpg\ta\n", "line 2: '3.jpg' is already on line 1"),
        ("path,identity\n3.jpg,a\n", "line 1: 'path,identity' is not .*a header names `name` and `identity`"),
        ("0\t12\t3.jpg\n", "line 1: .* is not `image path<TAB>identity`"),
        ("3.jpg\tBo/2.JPG\n", "line 1: two images, .* list of pairs"),
        ("3.jpg a\nBo/2.JPG\n", "line 2: no identity after 'Bo/2.JPG', though other lines have one"),
        (f"3.jpg\t{'a' * 256}\n", "line 1: identity 'aaa.* has 256 characters; allowed are 255"),
        ("3.jpg\n", "line 1: '3.jpg' has neither an identity nor a folder"),
    ],
)
def test_malformed_image_lists_name_the_line(photos: Path, text: str, message: str):
    refused(read_images, write(photos, text), message)


def test_every_wrong_line_of_a_list_is_found(photos: Path):
    text = "3.jpg\ta\n9.jpg\ta\nwhat?\n3.jpg\tb\nBo/2.JPG\n"
    faults = faults_of_images(write(photos, text))
    assert [(number, image) for number, image, _ in faults] == [(2, "9.jpg"), (3, ""), (4, "3.jpg"), (5, "Bo/2.JPG")]
    assert [reason.split(" ")[0] for _, _, reason in faults] == ["no", "'what?'", "'3.jpg'", "no"]


def test_every_wrong_row_below_a_header_is_found(photos: Path):
    text = "name,identity\n3.jpg,\n9.jpg,a\na\nx.txt,b\n,c\nBo/2.JPG,b\n"
    faults = faults_of_images(write(photos, text))
    assert [number for number, _, _ in faults] == [2, 3, 4, 5, 6]


def test_a_sound_list_has_no_fault_and_bytes_that_are_no_text_are_one(photos: Path):
    assert faults_of_images(write(photos, "3.jpg\ta\n")) == []
    path = write(photos, "3.jpg\ta\n")
    path.write_bytes(b"3.jpg\ta\n\xff\n")
    ((number, _, reason),) = faults_of_images(path)
    assert (number, reason) == (0, "not UTF-8 text (byte 8)")
