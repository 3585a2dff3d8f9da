"""How the images of a list are found in a set whose names are spelt otherwise."""

import re
import tracemalloc

import pytest

from verisphere.files.image_names import find_rows, rows_named
from verisphere.files.pair_lists.pair_list import PairList

PEOPLE = ["Ann/Ann_0001.jpg", "Bo/Bo_0002.jpg"]
FLAT = ["Ann_0001.jpg", "Bo_0002.jpg"]


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        (PEOPLE, ["Bo/Bo_0002.jpg", "Ann/Ann_0001.jpg"]),
        (PEOPLE, ["Bo/Bo_0002.png", "Ann/Ann_0001.BMP"]),  # another suffix
        (PEOPLE, ["Bo/Bo_0002", "Ann/Ann_0001"]),  # none
        (PEOPLE, ["Bo/Bo_0002.png", "Ann/Ann_0001.jpg", "Ann/Ann_0001.png"]),  # the exact name comes first
        (["Ann/Ann_0001", "Bo/Bo_0002"], ["Bo/Bo_0002.jpg", "Ann/Ann_0001.jpg"]),
        (["lfw_112x112/" + name for name in PEOPLE], ["Bo/Bo_0002.jpg", "Ann/Ann_0001.jpg"]),
        (["a/b/" + name for name in PEOPLE], ["b/Bo/Bo_0002.jpg", "b/Ann/Ann_0001.jpg"]),
        (PEOPLE, ["test/data/Bo/Bo_0002.png", "test/data/Ann/Ann_0001.png"]),
        (FLAT, ["aligned images/Bo_0002.jpg", "aligned images/Ann_0001.jpg"]),
        (FLAT, ["Bo/Bo_0002.png", "Ann/Ann_0001.png"]),  # a folder for each person
        (FLAT, ["x/Bo/Bo_0002.png", "x/Ann/Ann_0001.png"]),
        (PEOPLE, ["Bo_0002.png", "Ann_0001.png"]),
        ([f"Data/Images/001/{view}/01.jpg" for view in ("frontal", "profile")],
         [f"001/{view}/01.jpg" for view in ("profile", "frontal")]),
        (["African/m.0a/m.0a_0001.jpg", "African/m.0/m.0_0002.jpg"], ["m.0/m.0_0002.jpg", "m.0a/m.0a_0001.jpg"]),
    ],
)  # fmt: skip
def test_every_spelling_of_two_images(listed: list[str], names: list[str]):
    """Each set begins with the second image."""
    found = find_rows(listed, names)
    assert (found.rows, found.missing, found.ambiguous) == ({listed[0]: 1, listed[1]: 0}, [], {})


def test_folders_must_be_the_same_for_all():
    """Half from one set and half from another would be no evaluation of either."""
    found = find_rows(PEOPLE, ["lfw/Ann/Ann_0001.jpg", "xqlfw/Bo/Bo_0002.jpg"])
    assert found.missing == ["Bo/Bo_0002.jpg"]
    assert find_rows(["x/Ann/1.jpg", "y/Bo/1.jpg"], ["Ann/1.jpg", "Bo/1.jpg"]).missing == ["x/Ann/1.jpg", "y/Bo/1.jpg"]


def test_what_fits_several_images_is_ambiguous():
    found = find_rows(["Ann/1.jpg", "Bo/1.jpg"], ["Ann/1.png", "Ann/1.bmp", "Bo/1.jpg"])
    assert found.ambiguous == {"Ann/1.jpg": ["Ann/1.png", "Ann/1.bmp"]}
    both = [f"{folder}/{name}" for folder in ("lfw", "xqlfw") for name in PEOPLE]
    assert find_rows(PEOPLE, both).ambiguous == {PEOPLE[0]: [both[0], both[2]]}


def test_the_spelling_that_finds_the_most_says_what_is_missing():
    listed = [*PEOPLE, "Cy/Cy_0001.jpg"]
    assert find_rows(listed, ["faces/Ann/Ann_0001.png", "faces/Bo/Bo_0002.png"]).missing == ["Cy/Cy_0001.jpg"]
    assert find_rows(listed, ["faces/Bo/Bo_0002.png", "faces/Cy/Cy_0001.jpg"]).missing == ["Ann/Ann_0001.jpg"]


def test_many_folders_with_some_of_the_names_take_little_memory():
    """Two of 200 listed names lie in each of 500 folders; the names below every folder would be 100,000 strings."""
    listed = [f"{number:04d}.jpg" for number in range(200)]
    names = [f"person{person}/{number:04d}.jpg" for person in range(500) for number in range(2)]
    tracemalloc.start()
    found = find_rows(listed, names)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found.missing) == 198
    assert most < 2e6  # 0.3 MB; 100,000 strings are more than 5 MB


def test_the_image_of_a_dotted_name_keeps_its_end():
    assert find_rows(["m.0abc"], ["m.0xyz"]).missing == ["m.0abc"]


# --- through a list ---


def test_a_list_says_what_was_spelt_otherwise():
    pairs = PairList(("Ann/1.jpg",), ("Bo/1.jpg",), (False,))
    left, right, note = pairs.positions_and_note(["Bo/1.jpg", "Ann/1.png"])
    assert (left.tolist(), right.tolist()) == ([1], [0])
    assert note == ("1 of 2 images are found under names that are spelt otherwise, such as 'Ann/1.png' for 'Ann/1.jpg'")
    assert pairs.positions_and_note(["Bo/1.jpg", "Ann/1.jpg"])[2] == ""


def test_an_ambiguous_image_is_an_error_with_its_line():
    pairs = PairList(("Ann/1.jpg",), ("Bo/1.jpg",), (False,), lines=(7,), source="pairs.txt")
    with pytest.raises(ValueError, match=r"pairs.txt: line 7: 'Ann/1.jpg' could be 'Ann/1.png' or 'Ann/1.bmp'"):
        pairs.positions(["Ann/1.png", "Ann/1.bmp", "Bo/1.jpg"])


def test_two_listed_images_are_never_one():
    pairs = PairList(("Ann/1.jpg",), ("Ann/1.png",), (True,), source="pairs.txt")
    with pytest.raises(ValueError, match=r"pairs.txt: 'Ann/1.jpg' and 'Ann/1.png' are two images, but both names fit"):
        pairs.positions(["Ann/1.bmp"])


def test_groups_lose_their_folders_apart():
    """RFW's African and Indian images in a set that has no groups; a person of both groups cannot be told apart."""
    pairs = PairList(
        ("African/m.1/m.1_0001.jpg", "Indian/m.2/m.2_0001.jpg"),
        ("African/m.1/m.1_0002.jpg", "Indian/m.2/m.2_0002.jpg"),
        (True, True),
        domains=("African", "Indian"),
    )
    names = ["m.2/m.2_0002.jpg", "m.1/m.1_0001.jpg", "m.1/m.1_0002.jpg", "m.2/m.2_0001.jpg"]
    left, right = pairs.positions(names)
    assert (left.tolist(), right.tolist()) == ([1, 3], [2, 0])
    shared = PairList(
        ("African/m.1/m.1_0001.jpg", "Indian/m.1/m.1_0001.jpg"),
        ("African/m.1/m.1_0002.jpg", "Indian/m.1/m.1_0002.jpg"),
        (True, True),
        domains=("African", "Indian"),
    )
    with pytest.raises(ValueError, match=r"'African/m.1/m.1_0001.jpg' and 'Indian/m.1/m.1_0001.jpg' are two images"):
        shared.positions(names)


# --- strictly --------------------------------------------------------------------------------------------------


def found(wanted: str, names: str) -> list[int]:
    return rows_named(wanted.split(), names.split(), "meta.txt", "e.npz").tolist()


@pytest.mark.parametrize(
    ("wanted", "names", "rows"),
    [
        ("b a", "a b c", [1, 0]),
        ("b a", "crop/a crop/b", [1, 0]),
        ("b a", "ijbc/crop/a ijbc/crop/b ijbc/crop/c", [1, 0]),
        ("crop/b", "ijbc/crop/a ijbc/crop/b", [1]),
        ("b", "ijbc/crop/b", [0]),
        ("x/a y/b", "r/x/a r/y/b", [0, 1]),
        ("a/1", "a/1 a/a/1", [0]),  # the exact name comes first
    ],
)
def test_an_image_is_found_exactly_or_below_the_shared_folder(wanted: str, names: str, rows: list[int]):
    assert found(wanted, names) == rows


@pytest.mark.parametrize(
    ("wanted", "names", "says"),
    [
        ("a d", "a b c", "e.npz: no embedding of 1 of 2 images of meta.txt, first 'd'; names there look like 'a'"),
        ("a", "x/a y/a", "no embedding of 1 of 1 images"),  # no folder is shared, so none is left out
        ("a.jpg", "a.png", "first 'a.jpg'; names there look like 'a.png'"),
        ("a d", "crop/a crop/b", "no embedding of 1 of 2 images of meta.txt, first 'd'"),
    ],
)
def test_an_image_without_a_row_is_named(wanted: str, names: str, says: str):
    with pytest.raises(ValueError, match=re.escape(says)):
        found(wanted, names)


def test_images_below_two_folders_are_refused():
    with pytest.raises(ValueError, match="lie below 'a/' and below 'a/a/'; rename"):
        found("a/1", "a/a/1 a/a/a/1")
