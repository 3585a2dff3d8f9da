"""Reads text lists and CSV tables, with errors that name file and line, and checks their entries.

Tables and lines are read one at a time, so that a list of millions is never in memory as text; `numbered_lines` alone
holds all lines.
"""

import codecs
import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TextIO

from verisphere.files.disk import check_file, regular
from verisphere.files.json_values import shown

Line = tuple[int, str]  # number, from 1; text without the line end

MOST_DIGITS = 18  # most digits of a whole number, which 64 bits can hold
LONGEST_LINE = 1 << 20  # characters; a line of pairs or scores has about a hundred
_BYTES_AT_ONCE = 1 << 20
#: Characters of the name of a person or a domain. Every entry of an array of text takes the space of the longest one:
#: without a limit, one long name in a small file could take all memory.
LONGEST_NAME = 255


@contextmanager
def text_lines(path: str | Path) -> Iterator[Iterator[str]]:
    """Open a UTF-8 file for its lines with their line ends, as `csv.reader` expects; a byte-order mark is skipped."""
    with open(path, encoding="utf-8-sig", newline="", opener=regular) as file:
        yield _lines(path, file)


def _lines(path: str | Path, file: TextIO) -> Iterator[str]:
    number = 0
    try:
        while line := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(line) > LONGEST_LINE:
                raise ValueError(
                    f"{path}: line {number}: longer than {LONGEST_LINE:,} characters; is it a list or a table at all?"
                )
            yield line
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8 text (byte {_first_wrong(path)})") from None


def _first_wrong(path: str | Path) -> int:
    """Position of the first byte that is not UTF-8, found in portions, since the file may be of any size."""
    decoder, read = codecs.getincrementaldecoder("utf-8")(), 0
    with open(path, "rb", opener=regular) as file:
        while True:
            waiting = len(decoder.getstate()[0])  # bytes of a character that the portion before has begun
            portion = file.read(_BYTES_AT_ONCE)
            try:
                decoder.decode(portion, final=not portion)
            except UnicodeDecodeError as error:
                return read - waiting + error.start
            if not portion:
                return 0  # the file has changed meanwhile
            read += len(portion)


def numbered_lines(path: str | Path) -> list[Line]:
    """Number and text of each line that is not blank."""
    with text_lines(path) as lines:
        return [(number, line.strip()) for number, line in enumerate(lines, start=1) if line.strip()]


def csv_rows(path: str | Path, tabs: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV that are not empty, with their lines; on request tabs separate cells, if the first line has one."""
    check_file(path)
    with text_lines(path) as lines:
        first = next(lines, "")
        reader = csv.reader(chain([first], lines), delimiter="\t" if tabs and "\t" in first else ",")
        try:
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None


def table_rows(
    path: str | Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    about: str = "",
    rows: Iterator[tuple[int, list[str]]] | None = None,
) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """The columns of a CSV that are wanted, and their cells in each row that is not empty, with the number of its line.

    Its first line that is not empty names the columns, in any order; an error about it says what such a file holds. The
    rows are those of `csv_rows`, where they are not read in another way.
    """
    rows = csv_rows(path) if rows is None else rows
    number, header = next(rows, (1, []))
    columns = [cell.strip() for cell in header]
    if absent := next((name for name in required if name not in columns), None):
        raise ValueError(f"{path}: line {number}: no column {absent!r} among {shown(columns, 200)}; {about}")
    wanted = [name for name in (*required, *optional) if name in columns]
    if twice := next((name for name in wanted if columns.count(name) > 1), None):
        raise ValueError(f"{path}: line {number}: two columns are named {twice!r}")
    places = [columns.index(name) for name in wanted]

    def below() -> Iterator[tuple[int, list[str]]]:
        for line, row in rows:
            if len(row) != len(columns):
                raise ValueError(f"{path}: line {line}: {len(row)} values where the header has {len(columns)} columns")
            yield line, [row[place] for place in places]

    return wanted, below()


def as_number(text: str, what: str) -> float:
    """The number in a cell of the column `what`; NaN is refused."""
    try:
        number = float(text if text.isascii() and "_" not in text else "")  # Python reads 1_000 and other scripts
    except ValueError:
        raise ValueError(f"{what} must be a number, got {shown(text)}") from None
    if number != number:
        raise ValueError(f"{what} is NaN; leave such comparisons out, or count them as non-matches by -inf")
    return number


def refuse_repeats(path: str | Path, named: Sequence[Line]) -> None:
    """Refuse a list that has an entry twice."""
    first: dict[str, int] = {}
    for number, name in named:
        if name in first:
            raise ValueError(f"{path}: line {number}: {shown(name, 200)} is already on line {first[name]}")
        first[name] = number


def is_count(text: str) -> bool:
    """Whether a text is a whole number from 0 in ASCII digits that 64 bits can hold.

    >>> is_count("12"), is_count("-1"), is_count("\u0665")
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
