"""Lines of text files: as they stand, one at a time, and none without end."""

import csv
import tracemalloc
from pathlib import Path

import pytest

from verisphere.files.text import LONGEST_LINE, _first_wrong, text_lines


def test_lines_keep_their_ends(tmp_path: Path):
    path = tmp_path / "some.txt"
    path.write_bytes("\ufeffä\r\n\nb\rc".encode())
    with text_lines(path) as lines:
        assert list(lines) == ["ä\r\n", "\n", "b\r", "c"]
    path.write_bytes(b'"two\r\nlines",x\r\n')
    with text_lines(path) as lines:
        assert list(csv.reader(lines)) == [["two\r\nlines", "x"]]


def test_the_longest_line_passes_and_a_longer_one_is_named(tmp_path: Path):
    path = tmp_path / "some.txt"
    path.write_text("a\n" + "b" * (LONGEST_LINE - 1) + "\n" + "c" * (LONGEST_LINE + 1))
    with text_lines(path) as lines:
        assert [len(next(lines)), len(next(lines))] == [2, LONGEST_LINE]
        with pytest.raises(ValueError, match=r"some.txt: line 3: longer than 1,048,576 characters; is it a list"):
            next(lines)


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf", "ä".encode(), b"x" * 100_000 + b"\n"])
def test_the_first_wrong_byte_is_counted_from_the_beginning(tmp_path: Path, before: bytes):
    path = tmp_path / "some.txt"
    path.write_bytes(before + b"Zo\xeb\n" + b"more\n" * 50_000)
    with text_lines(path) as lines, pytest.raises(ValueError, match=rf"not UTF-8 text \(byte {len(before) + 2}\)"):
        list(lines)


def test_a_large_file_that_is_no_text_is_searched_in_portions(tmp_path: Path):
    path = tmp_path / "some.txt"
    with path.open("wb") as file:
        file.write(b"a" * 8_388_607 + "\u00e4".encode())  # a character across two portions
        file.seek(24_000_000)
        file.write(b"\xff")
    tracemalloc.start()
    with text_lines(path) as lines, pytest.raises(ValueError, match="line 1: longer than"):
        list(lines)
    assert _first_wrong(path) == 24_000_000
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 12_000_000  # 4.2 MB; the file is 24 MB


def test_text_that_ends_within_a_character_is_refused_there(tmp_path: Path):
    path = tmp_path / "some.txt"
    path.write_bytes(b"abc\xc3")
    with text_lines(path) as lines, pytest.raises(ValueError, match=r"not UTF-8 text \(byte 3\)"):
        list(lines)
