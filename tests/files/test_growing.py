"""A table that others are still writing: each row is given once, and what was read may not change."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from verisphere.files.growing import Place, growing_rows
from verisphere.files.text import LONGEST_LINE


def rows(path: Path, place: Place) -> list[tuple[int, list[str]]]:
    return list(growing_rows(path, place))


def test_rows_are_given_once_and_the_header_always(tmp_path: Path):
    path, place = tmp_path / "log.csv", Place()
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n\r\n1,2\r\n")
    assert rows(path, place) == [(1, ["a", "b"]), (3, ["1", "2"])]
    assert place.position == path.stat().st_size
    assert rows(path, place) == [(1, ["a", "b"])]
    with path.open("ab") as file:
        file.write(b'3,"4, or 5"\n')
    assert rows(path, place) == [(1, ["a", "b"]), (4, ["3", "4, or 5"])]


def test_a_line_that_is_still_being_written_waits_for_the_next_call(tmp_path: Path):
    path, place = tmp_path / "log.csv", Place()
    path.write_text("a\n1\n2")
    assert rows(path, place) == [(1, ["a"]), (2, ["1"])]
    path.write_text("a\n1\n25\n")
    assert rows(path, place) == [(1, ["a"]), (3, ["25"])]
    path.write_text("a")
    assert rows(path, Place()) == []


@pytest.mark.parametrize("content", ["a\n2\n", "a\n1", "", "a\n", "a\n1 \n", "a\n12\n"])
def test_what_was_read_may_not_change(tmp_path: Path, content: str):
    path, place = tmp_path / "log.csv", Place()
    path.write_text("a\n1\n")
    rows(path, place)
    before = place.position
    path.write_text(content)
    with pytest.raises(ValueError, match=r"log.csv: its first 4 bytes are not those read before; a file may only grow"):
        rows(path, place)
    assert place.position == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a\n1\n\xff\n", "line 3: not a line of CSV in UTF-8: .*0xff"),
        (b'a\n"1\n', "line 2: not a line of CSV in UTF-8: unexpected end of data"),
        (b"a\n" + b"x" * (LONGEST_LINE + 5), "line 2: .*longer than 1,048,576 bytes"),
    ],
)
def test_a_line_that_is_none(tmp_path: Path, content: bytes, says: str):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"log.csv: {says}"):
        rows(path, Place())


def test_standard_input_is_read_to_its_end_and_changes_no_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n1\n2")))
    place = Place(7, "seal")
    assert rows(Path("-"), place) == [(1, ["a"]), (2, ["1"]), (3, ["2"])]
    assert place == Place(7, "seal")
