"""Lists of people and images."""

from pathlib import Path

import pytest

from list_files import refuse_list, write_list
from verisphere.files.image_lists import faults_of_images, read_images
from verisphere.files.people_lists import read_people

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
    assert read_people(write_list(tmp_path, text)) == people


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no people; the file is empty"),
        (
            "Ada\nNaN\n",
            "1 of 2 rows .* the first is 'NaN' .line 2.: name a person for every row, or leave the line out",
        ),
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
    refuse_list(read_people, write_list(tmp_path, text), message)


def test_the_people_of_lfw(real_data: Path):
    lists = real_data / "lfw_protocol"
    train, test = read_people(lists / "peopleDevTrain.txt"), read_people(lists / "peopleDevTest.txt")
    assert (len(train), len(test)) == (4038, 1711)
    assert not set(train) & set(test)
    assert len(read_people(lists / "people.txt")) == 5749


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
    listed = read_images(write_list(photos, "\n".join(separator.join(row) for row in rows)))
    assert listed.paths == ("Ada Lovelace/1.jpg", "Bo/1, old.png", "Bo/2.JPG", "3.jpg")
    assert listed.identities == ("Ada L.", "b", "b", "7")


def test_identities_are_taken_from_folders(photos: Path):
    listed = read_images(write_list(photos, "Ada Lovelace/1.jpg\nBo/2.JPG\n"))
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
    refuse_list(read_images, write_list(photos, text), message)


def test_every_wrong_line_of_a_list_is_found(photos: Path):
    text = "3.jpg\ta\n9.jpg\ta\nwhat?\n3.jpg\tb\nBo/2.JPG\n"
    faults = faults_of_images(write_list(photos, text))
    assert [(number, image) for number, image, _ in faults] == [(2, "9.jpg"), (3, ""), (4, "3.jpg"), (5, "Bo/2.JPG")]
    assert [reason.split(" ")[0] for _, _, reason in faults] == ["no", "'what?'", "'3.jpg'", "no"]


def test_every_wrong_row_below_a_header_is_found(photos: Path):
    text = "name,identity\n3.jpg,\n9.jpg,a\na\nx.txt,b\n,c\nBo/2.JPG,b\n"
    faults = faults_of_images(write_list(photos, text))
    assert [number for number, _, _ in faults] == [2, 3, 4, 5, 6]


def test_a_sound_list_has_no_fault_and_bytes_that_are_no_text_are_one(photos: Path):
    assert faults_of_images(write_list(photos, "3.jpg\ta\n")) == []
    path = write_list(photos, "3.jpg\ta\n")
    path.write_bytes(b"3.jpg\ta\n\xff\n")
    ((number, _, reason),) = faults_of_images(path)
    assert (number, reason) == (0, "not UTF-8 text (byte 8)")
