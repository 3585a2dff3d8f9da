"""The footer of a parquet file: its columns, and where the pages of each column lie.

pyarrow ends the process on some damaged footers (a compression that it does not know), so the footer is read and
checked here before pyarrow sees the file. Layout: Apache Parquet format 2 (github.com/apache/parquet-format,
parquet.thrift: FileMetaData, SchemaElement, RowGroup, ColumnMetaData), in the compact protocol of Apache Thrift
(github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

import os
from typing import Any, NamedTuple

from verisphere.files.json_values import shown

BYTE_ARRAY, UNCOMPRESSED = 6, 0
_CODECS = range(8)  # none, snappy, gzip, lzo, brotli, lz4, zstd, lz4 raw
_TYPES = range(8)
_REPEATED = 2
_MAGIC = b"PAR1"
_LONGEST_FOOTER = 64 * 2**20
_LONGEST_BINARY = 4096
_DEEPEST = 16


class Chunk(NamedTuple):
    """One column in one row group.

    Attributes:
        kind: physical type, such as BYTE_ARRAY.
        codec: compression, such as UNCOMPRESSED.
        values: number of values, including nulls.
        begin: byte at which the first page begins.
        end: byte behind the last page.
    """

    kind: int
    codec: int
    values: int
    begin: int
    end: int


class Footer(NamedTuple):
    """What the footer states, checked against the file.

    Attributes:
        rows: number of rows in each row group.
        groups: columns of each row group, by path.
        levels: number of nullable levels of each column, by path; -1 for a column in a list.
    """

    rows: list[int]
    groups: list[dict[str, Chunk]]
    levels: dict[str, int]


def read_footer(descriptor: int, size: int) -> Footer:
    """The footer of a file of `size` bytes."""
    tail = os.pread(descriptor, 8, max(size - 8, 0))
    if size < 12 or os.pread(descriptor, 4, 0) != _MAGIC or tail[4:] != _MAGIC:
        raise ValueError(f"not a parquet file: it ends with {shown(tail[4:])}, not with PAR1; is it cut short?")
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= min(size - 12, _LONGEST_FOOTER):
        raise ValueError(f"a footer of {length:,} bytes in a file of {size:,} bytes; allowed are {_LONGEST_FOOTER:,}")
    try:
        fields: Any = Compact(os.pread(descriptor, length, size - 8 - length)).struct(0)
        levels = _levels(fields[2])
        rows = [_count(group[3]) for group in fields[4]]
        groups = [_chunks(group, list(levels), size - 8 - length) for group in fields[4]]
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"a malformed footer of {length:,} bytes ({type(error).__name__})") from None
    if fields.get(3) != sum(rows) or sum(rows) > size:
        raise ValueError(f"{shown(fields.get(3))} rows in {size:,} bytes, and {sum(rows):,} in its row groups")
    return Footer(rows, groups, levels)


def _levels(elements: list[dict[int, Any]]) -> dict[str, int]:
    """The nullable levels of each leaf of the schema, which is a tree in preorder."""
    leaves: dict[str, int] = {}
    above: list[tuple[int, list[str], int]] = [(_count(elements[0][5]), [], 0)]  # children that follow, path, levels
    for element in elements[1:]:
        while above and above[-1][0] == 0:
            above.pop()
        remaining, path, levels = above.pop()
        above.append((remaining - 1, path, levels))
        path = [*path, element[4].decode()]
        repetition = element[3]
        levels = -1 if levels < 0 or repetition == _REPEATED else levels + (repetition == 1)
        children = element.get(5, 0)
        if children:
            above.append((_count(children), path, levels))
        elif leaves.setdefault(".".join(path), levels) is not levels or len(path) > _DEEPEST:
            raise ValueError(f"two columns are called {shown('.'.join(path))}")
    if any(remaining for remaining, _, _ in above):
        raise ValueError("a schema with fewer columns than it states")
    return leaves


def _chunks(group: dict[int, Any], leaves: list[str], end_of_data: int) -> dict[str, Chunk]:
    """The columns of a row group, which must be those of the schema, in the same order."""
    chunks: dict[str, Chunk] = {}
    for column in group[1]:
        content = column[3]
        path = ".".join(part.decode() for part in content[3])
        begin = _count(content[9])
        if content.get(11):
            begin = min(begin, _count(content[11]))
        chunk = Chunk(content[1], content[4], _count(content[5]), begin, begin + _count(content[7]))
        if chunk.codec not in _CODECS or chunk.kind not in _TYPES:
            raise ValueError(f"column {shown(path)} has the type {chunk.kind} and the compression {chunk.codec}")
        if (chunk.values and not 4 <= chunk.begin <= chunk.end <= end_of_data) or 1 in column:
            raise ValueError(f"column {shown(path)} lies at bytes {chunk.begin} to {chunk.end} of {end_of_data}")
        chunks[path] = chunk
    if list(chunks) != leaves or len(group[1]) != len(leaves):
        raise ValueError(
            f"a row group with the columns {shown(list(chunks), 200)}, but the schema has {shown(leaves, 200)}"
        )
    return chunks


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"a malformed footer: {shown(value)} where a number is needed")
    return value


class Compact:
    """A reader of Thrift's compact protocol that allocates no more than the data take; long binary values are None."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place = data, 0

    def struct(self, depth: int) -> dict[int, object]:
        """Number and value of each field; raises IndexError if the data end too early."""
        fields: dict[int, object] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (7, 8):
            size = self._fitting(8 if kind == 7 else self._unsigned())
            self.place += size
            return self._data[self.place - size : self.place] if size <= _LONGEST_BINARY else None
        if kind in (9, 10):
            head = self._byte()
            entries = head >> 4 if head >> 4 < 15 else self._unsigned()
            return [self._entry(head & 15, depth) for _ in range(self._fitting(entries))]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError(f"a value of the type {kind}")

    def _entry(self, kind: int, depth: int) -> object:
        """A value in a list; a boolean in a list takes one byte."""
        return self._byte() == 1 if kind in (1, 2) else self._value(kind, depth + 1)

    def _fitting(self, entries: int) -> int:
        """A number of entries, each of at least one byte; raises IndexError if the data are too short for so many."""
        if entries > len(self._data) - self.place:
            raise IndexError
        return entries

    def _byte(self) -> int:
        self.place += 1
        return self._data[self.place - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        number = self._unsigned()
        return number >> 1 ^ -(number & 1)
