"""A table in CSV that others are still writing: its complete lines, from where an earlier call stopped."""

import csv
import hashlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from verisphere.files.disk import check_file, regular
from verisphere.files.text import LONGEST_LINE


@dataclass
class Place:
    """How far a table was read, in bytes, and their digest in hexadecimal."""

    position: int = 0
    sha256: str = ""


def growing_rows(path: Path, place: Place) -> Iterator[tuple[int, list[str]]]:
    """The header, and each row after a place, with the number of its line; `place` becomes the end of these.

    A last line without its line end is left for the next call. Standard input, `-`, is read to its end, from any place.
    """
    piped, position, known, header = path == Path("-"), 0, hashlib.sha256(), True
    before = 0 if piped else place.position
    changed = ValueError(f"{path}: its first {before:,} bytes are not those read before; a file may only grow")
    if not piped:
        check_file(path)
    with nullcontext(sys.stdin.buffer) if piped else open(path, "rb", opener=regular) as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if not line.endswith(b"\n") and not piped and len(line) < LONGEST_LINE:
                break
            known.update(line)
            start, position = position, position + len(line)
            if start < before <= position and (position > before or known.hexdigest() != place.sha256):
                raise changed
            if header or position > before:
                row = _row(path, number, line)
                if any(cell.strip() for cell in row):
                    header = False
                    yield number, row
    if position < before:
        raise changed
    if not piped:
        place.position, place.sha256 = position, known.hexdigest()


def _row(path: Path, number: int, line: bytes) -> list[str]:
    try:
        if len(line) == LONGEST_LINE:
            raise csv.Error(f"longer than {LONGEST_LINE:,} bytes")
        return next(csv.reader([line.decode("utf-8-sig" if number == 1 else "utf-8")], strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: line {number}: not a line of CSV in UTF-8: {error}") from None
