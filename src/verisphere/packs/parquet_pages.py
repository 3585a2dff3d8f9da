"""The pages of a parquet file, and uncompressed images in them, each of which is read separately.

pyarrow decodes a whole row group to return one of its rows. In a column that is neither compressed nor
dictionary-encoded each value lies in the file as its length (4 bytes) and its bytes, so one row can be read alone once
its page is known. Layout: Apache Parquet format 2 (github.com/apache/parquet-format: README.md, Encodings.md, and
parquet.thrift for PageHeader).
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from verisphere.files.disk import regular
from verisphere.packs.columns import Positions, take
from verisphere.packs.pack import Fault
from verisphere.packs.parquet_footer import Compact
from verisphere.packs.spans import Spans, Stamp, check_stamp, stamp_of

DATA, DICTIONARY, DATA_V2 = 0, 2, 3
PLAIN, PREFIXED = 0, 7  # encodings; the second (DELTA_BYTE_ARRAY) unpacks without a limit
_FIRST_TRY, _LONGEST_HEADER = 256, 1 << 20  # bytes; a header can hold the smallest and the largest value of its page
_MOST_TIMES, _ALWAYS = 1000, 16 * 2**20  # a page may unpack to this multiple of its size and this many bytes


class Page(NamedTuple):
    """One page of a column.

    Attributes:
        kind: DATA, DICTIONARY, DATA_V2, or another number for a page without values.
        values: number of values in the page, including nulls.
        encoding: encoding of the values.
        offset: byte of the file at which the content of the page begins.
        size: bytes of the content as it lies in the file.
        unpacked: bytes of the content when it is decompressed.
    """

    kind: int
    values: int
    encoding: int
    offset: int
    size: int
    unpacked: int


def pages_of(descriptor: int, begin: int, end: int, values: int) -> Iterator[Page]:
    """The pages of one column in one row group.

    Args:
        descriptor: the open file.
        begin: byte at which the first page begins.
        end: byte behind the last page.
        values: number of values that all pages together must have.

    Raises:
        ValueError: a header is malformed, a page ends behind `end`, or the pages have another number of values.
    """
    place, seen = begin, 0
    while place < end:
        page = _page(descriptor, place, end)
        yield page
        if page.kind in (DATA, DATA_V2):
            seen += page.values
        place = page.offset + page.size
    if seen != values:
        raise ValueError(f"{seen:,} values in the pages from byte {begin} on, but {values:,} are stated")


def _page(descriptor: int, place: int, end: int) -> Page:
    for most in (_FIRST_TRY, _LONGEST_HEADER):
        data = os.pread(descriptor, min(most, end - place), place)
        header = Compact(data)
        try:
            fields = header.struct(0)
        except IndexError:
            continue
        except ValueError as error:
            raise ValueError(f"a malformed page header at byte {place}: {error}") from None
        break
    else:
        raise ValueError(f"a page header that does not end at byte {place}; is the file cut short?")
    kind, unpacked, size = (_whole(fields, number, place) for number in (1, 2, 3))
    inside = fields.get({DATA: 5, DICTIONARY: 7, DATA_V2: 8}.get(kind, -1), {})
    if kind in (DATA, DICTIONARY, DATA_V2) and not isinstance(inside, dict):
        raise ValueError(f"a malformed page header at byte {place}")
    values, encoding = 0, -1
    if kind in (DATA, DICTIONARY, DATA_V2):
        values, encoding = _whole(inside, 1, place), _whole(inside, 4 if kind == DATA_V2 else 2, place)
    offset = place + header.place
    if unpacked > _MOST_TIMES * size + _ALWAYS:  # pyarrow allocates what is stated before it unpacks anything
        raise ValueError(f"a page of {size} bytes at byte {offset} states that it unpacks to {unpacked:,} bytes")
    if kind == DICTIONARY and values > unpacked:  # pyarrow allocates room for as many values as are stated, too
        raise ValueError(f"a dictionary of {values:,} values in {unpacked:,} bytes at byte {offset}")
    if size > end - offset:
        raise ValueError(f"a page of {size} bytes at byte {offset}, but its column ends at byte {end}")
    return Page(kind, values, encoding, offset, size, unpacked)


def _whole(fields: object, number: int, place: int) -> int:
    value = fields.get(number) if isinstance(fields, dict) else None
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"a malformed page header at byte {place}: its field {number} is {value}")
    return value


@dataclass(frozen=True, eq=False)
class PlainImages:
    """Images in plain pages of one file, which is opened anew for each request.

    The values of a page are found when the first of them is requested: 4 bytes are read for each value.

    Attributes:
        path: the file.
        names: name of each image.
        rows: row of the file of each image.
        pages: first row, offset, size in bytes and number of rows of each page.
        nullable: whether each page begins with definition levels.
        begins: byte at which the image of each row of the file begins; 0 where it is not known yet.
        lengths: number of bytes of the image of each row of the file; 0 where it is not known yet.
        stamps: stamp of the file when its index was read; taken now if none is given.
        unread: always empty.
    """

    path: Path
    names: Sequence[str]
    rows: Int[np.ndarray, " images"]
    pages: Int[np.ndarray, "pages 4"]
    nullable: bool
    begins: Int[np.ndarray, " rows"]
    lengths: Int[np.ndarray, " rows"]
    stamps: tuple[Stamp, ...] = ()
    unread: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stamps", self.stamps or (stamp_of(self.path),))

    def keep(self, positions: Positions) -> "PlainImages":
        """The images at these positions."""
        rows = self.rows[np.asarray(positions, np.int64)]
        names = take(self.names, positions)
        return replace(self, names=names, rows=rows)

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and place as a text for error messages, and its bytes."""
        chosen = np.asarray(positions, np.int64)
        rows = self.rows[chosen]
        self._find_pages_of(rows)
        names = take(self.names, chosen)
        spans = Spans((self.path,), names, self.begins[rows], self.lengths[rows], stamps=self.stamps)
        yield from spans.read(range(len(chosen)))

    def offset(self, position: int) -> int | None:
        """Byte of the file at which an image begins; None where its page is damaged."""
        row = self.rows[position : position + 1]
        with suppress(ValueError):
            self._find_pages_of(row)
        return int(self.begins[row[0]]) or None

    def _find_pages_of(self, rows: Int[np.ndarray, " images"]) -> None:
        """Finds the images in the pages of these rows of the file, as far as they are not known yet."""
        unknown = rows[self.begins[rows] == 0]
        if not len(unknown):
            return
        check_stamp(self.path, self.stamps[0], stamp_of(self.path))
        places = np.searchsorted(self.pages[:, 0], unknown, side="right") - 1
        try:
            with open(self.path, "rb", buffering=0, opener=regular) as file:
                for page in np.unique(places).tolist():
                    if fault := self.find(file.fileno(), page):
                        raise ValueError(str(fault))
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be read ({error.strerror})") from None

    def find(self, descriptor: int, page: int) -> Fault | None:
        """Finds the images of a page, up to the first with an impossible length; returns the fault of that row."""
        first, place, size, rows = self.pages[page].tolist()
        end = place + size
        if self.nullable:
            place += 4 + int.from_bytes(os.pread(descriptor, 4, place), "little")
        for row in range(first, first + rows):
            length = int.from_bytes(os.pread(descriptor, 4, place), "little") if place + 4 <= end else size
            if place + 4 + length > end:
                null = ", or does a row of it have no image" if self.nullable else ""
                reason = f"no image of {length} bytes, its page ends at byte {end}; is the file damaged{null}?"
                return Fault(str(self.path), str(row), place, reason)
            self.lengths[row] = length
            self.begins[row] = place + 4
            place += 4 + length
        if place != end:
            null = "; does a row of the page have no image?" if self.nullable else ""
            return Fault(
                str(self.path), str(first + rows - 1), place, f"{end - place} bytes behind the last image{null}"
            )
        return None
