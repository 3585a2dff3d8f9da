"""Paths of images by identity, and what a manifest must add to them."""

import pytest

from verisphere.images.packs.file_names import can_name_a_file, can_name_folders, file_names, people_of, suffix_of
from verisphere.images.packs.pack import Row


def paths(rows: list[Row]) -> list[str]:
    domains = None if rows[0].domain is None else [row.domain or "" for row in rows]
    names = file_names([row.identity for row in rows], domains)
    return [row.name for row in names.named(rows)]


_REFUSED = ["", ".", "..", ".a", "a/b", "a\\b", "a:b", "a\0", "a\n", "a ", " a", "a.", "con", "Aux.png"]


@pytest.mark.parametrize("name", [*_REFUSED, "x" * 201, "__MACOSX", "\udcff"])
def test_a_name_that_no_file_can_have_everywhere(name: str):
    assert not can_name_a_file(name)


@pytest.mark.parametrize("name", ["a", "-1", "Ann Lee", "Zoë 李", "a.b", "x" * 200, "conny"])
def test_a_name_that_a_file_can_have(name: str):
    assert can_name_a_file(name)


def test_folders_differ_in_more_than_case():
    assert can_name_folders(["Ann", "Ben"])
    assert not can_name_folders(["Ann", "ann"])
    assert not can_name_folders(["Zoe\u0308", "Zo\u00eb"])  # one letter or two, which macOS takes for the same


def test_paths_that_are_right_already_stay():
    rows = [Row("Ann/1.png", "Ann", b""), Row("Ben/x.JPG", "Ben", b"")]
    assert paths(rows) == ["Ann/1.png", "Ben/x.JPG"]


def test_other_names_become_paths():
    jpeg, png = b"\xff\xd8\xff", b"\x89PNG"
    rows = [
        Row("7", "Ann", jpeg),
        Row("x/7.png", "Ann", png),
        Row("y/7.PNG", "Ann", png),
        Row("con.png", "Ann", png),
        Row("", "-1", b"?"),
    ]
    assert paths(rows) == ["Ann/7.jpg", "Ann/7.png", "Ann/image 2.png", "Ann/image 3.png", "-1/image 4.jpg"]


def test_a_number_that_is_taken_is_skipped():
    rows = [Row("image 1.png", "Ann", b"\x89PNG"), Row("x/image 1.png", "Ann", b"\x89PNG")]
    assert paths(rows) == ["Ann/image 1.png", "Ann/image 2.png"]


def test_domains_lie_above():
    rows = [Row("1.png", "Ann", b"", "day"), Row("1.png", "Ann", b"", "night")]
    assert paths(rows) == ["day/Ann/1.png", "night/Ann/1.png"]
    assert paths(rows[:1]) == ["Ann/1.png"]  # one alone would be a folder that all images share


def test_people_are_numbered_where_one_is_no_name_of_a_folder():
    rows = [Row("1.png", "b/c", b""), Row("2.png", "-1", b""), Row("3.png", "Ann", b""), Row("4.png", "b/c", b"")]
    assert paths(rows) == ["0/1.png", "-1/2.png", "1/3.png", "0/4.png"]
    assert people_of([row.identity for row in rows]) == ("b/c", "Ann")


@pytest.mark.parametrize(
    ("data", "suffix"),
    [
        (b"\xff\xd8\xff\xe0", ".jpg"),
        (b"\x89PNG\r\n", ".png"),
        (b"RIFF1234WEBPVP8 ", ".webp"),
        (b"II*\0", ".tif"),
        (b"P5 1 1", ".pgm"),
        (b"", ".jpg"),
    ],
)
def test_suffixes_by_the_first_bytes(data: bytes, suffix: str):
    assert suffix_of(data) == suffix
