"""The pages of a column of a parquet file, by their headers: what each unpacks to is known before anything is decoded.

Layout: Apache Parquet format 2 (github.com/apache/parquet-format: README.md, and parquet.thrift for PageHeader).
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from verisphere.files.parquet_footer import Compact

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
    """The pages of one column in one row group, between two bytes of an open file; all together have so many values."""
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
