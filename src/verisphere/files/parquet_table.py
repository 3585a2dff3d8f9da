"""Columns of a parquet table, decoded a row group at a time; first their pages are checked for what they unpack to.

A few hundred kilobytes of parquet can state gigabytes: pages are compressed, values that repeat are stored once, and
pyarrow allocates what a header states. So the limit of archives holds here too (`verisphere.files.npz.most_unpacked`),
and it is compared with the footer and the page headers before pyarrow decodes anything.

pyarrow ends the process on some damaged footers (a compression that it does not know), so the footer is read and
checked here before pyarrow sees the file. Layout: Apache Parquet format 2 (github.com/apache/parquet-format, README.md,
and parquet.thrift: FileMetaData, SchemaElement, RowGroup, ColumnMetaData, PageHeader), in the compact protocol of
Apache Thrift (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
"""

import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from verisphere.base.words import install_extra
from verisphere.files.disk import check_file, regular
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import most_unpacked

BYTE_ARRAY, UNCOMPRESSED = 6, 0
_CODECS = range(8)  # none, snappy, gzip, lzo, brotli, lz4, zstd, lz4 raw
_TYPES = range(8)
_REPEATED = 2
_MAGIC = b"PAR1"
_LONGEST_FOOTER = 64 * 2**20
_LONGEST_BINARY = 4096
_DEEPEST = 16


class ColumnChunk(NamedTuple):
    """One column in one row group."""

    kind: int  # physical type, such as BYTE_ARRAY
    codec: int  # compression, such as UNCOMPRESSED
    values: int  # including nulls
    begin: int
    end: int  # byte behind the last page


class Footer(NamedTuple):
    """What the footer states, checked against the file."""

    rows: list[int]  # of each row group
    groups: list[dict[str, ColumnChunk]]  # columns of each row group, by path
    levels: dict[str, int]  # nullable levels of each column, by path; -1 for a column in a list


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


def _chunks(group: dict[int, Any], leaves: list[str], end_of_data: int) -> dict[str, ColumnChunk]:
    """The columns of a row group, which must be those of the schema, in the same order."""
    chunks: dict[str, ColumnChunk] = {}
    for column in group[1]:
        content = column[3]
        path = ".".join(part.decode() for part in content[3])
        begin = _count(content[9])
        if content.get(11):
            begin = min(begin, _count(content[11]))
        chunk = ColumnChunk(content[1], content[4], _count(content[5]), begin, begin + _count(content[7]))
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


DATA, DICTIONARY, DATA_V2 = 0, 2, 3
PLAIN, PREFIXED = 0, 7  # encodings; the second (DELTA_BYTE_ARRAY) unpacks without a limit
_FIRST_TRY, _LONGEST_HEADER = 256, 1 << 20  # bytes; a header can hold the smallest and the largest value of its page
_MOST_TIMES, _ALWAYS = 1000, 16 * 2**20  # a page may unpack to this multiple of its size and this many bytes


class DataPage(NamedTuple):
    """One page of a column."""

    kind: int  # DATA, DICTIONARY, DATA_V2, or another number for a page without values
    values: int  # including nulls
    encoding: int
    offset: int  # byte of the file at which the content begins
    size: int  # bytes of the content as it lies in the file
    unpacked: int  # bytes of the content when it is decompressed


def pages_of(descriptor: int, begin: int, end: int, values: int) -> Iterator[DataPage]:
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


def _page(descriptor: int, place: int, end: int) -> DataPage:
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
    return DataPage(kind, values, encoding, offset, size, unpacked)


def _whole(fields: object, number: int, place: int) -> int:
    value = fields.get(number) if isinstance(fields, dict) else None
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"a malformed page header at byte {place}: its field {number} is {value}")
    return value


_ROWS = 1 << 12  # rows that are decoded at a time
_WIDTH = 8  # bytes of a decoded number, or of the code of a text, at most


def check_pyarrow(path: Path) -> None:
    """Refuses a parquet file where pyarrow is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{path}: parquet needs pyarrow, not installed here; {install_extra('data')}")


def opened_by_pyarrow(path: Path, columns: Sequence[str]) -> Any:
    """The file as pyarrow opens it; the columns named are read as dictionaries."""
    import pyarrow.parquet as parquet

    check_file(path)
    # Neither a mapping, in which a truncated file would end the process, nor whole columns at a time.
    return parquet.ParquetFile(
        str(path), memory_map=False, buffer_size=1 << 20, pre_buffer=False, read_dictionary=list(columns)
    )


@contextmanager
def pyarrow_errors(path: Path) -> Iterator[None]:
    """Turns the errors of pyarrow into one line that names the file."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OverflowError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = shortened((str(error).splitlines() or [type(error).__name__])[0], 200)
        raise ValueError(f"{path}: not a parquet file that can be read: {reason}") from None


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """A parquet file whose footer has been checked against its size; nothing is decoded yet."""

    path: Path
    size: int
    footer: Footer
    schema: Any

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(self.footer.rows)

    def per_row(self, column: str) -> int:
        """Number of values in each row of a column of lists; 0 if the rows cannot all have the same number."""
        leaves = self._leaves([column])
        values = sum(chunks[leaf].values for chunks in self.footer.groups for leaf in leaves)
        return 0 if len(leaves) != 1 or not self.rows or values % self.rows else values // self.rows

    def batches(self, columns: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
        """The rows of these columns as record batches of pyarrow, those of `texts` as dictionaries."""
        with errors_naming(self.path):
            leaves = self._leaves(columns)
            lists = {leaf.partition(".")[0] for leaf in leaves} - set(texts)
            if absent := set(columns) - {*leaves, *lists}:
                raise ValueError(f"column {shown(min(absent))} has not one value in each row")
            self._check_size(leaves)
        with pyarrow_errors(self.path):
            opened = opened_by_pyarrow(self.path, texts)
            for group in range(len(self.footer.rows)):  # one by one, since dictionaries grow from batch to batch
                for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=[*columns], use_threads=False):
                    batch.validate(full=True)  # offsets, and whether text is UTF-8
                    yield batch

    def _leaves(self, columns: Sequence[str]) -> list[str]:
        """The paths of the values of these columns; that of a list `embedding` is `embedding.list.element`."""
        wanted = set(columns)
        return [leaf for leaf in self.footer.levels if leaf in wanted or leaf.partition(".")[0] in wanted]

    def _check_size(self, leaves: Sequence[str]) -> None:
        """Refuse columns that unpack to far more bytes than the file has."""
        unpacked, most = 0, most_unpacked(self.size)
        with open(self.path, "rb", buffering=0, opener=regular) as file:
            for chunk, leaf in ((chunks[leaf], leaf) for chunks in self.footer.groups for leaf in leaves):
                pages = list(pages_of(file.fileno(), chunk.begin, chunk.end, chunk.values)) if chunk.values else []
                if any(page.encoding == PREFIXED for page in pages):
                    raise ValueError(f"column {shown(leaf)} is in the encoding DELTA_BYTE_ARRAY, which is not read")
                unpacked += max(chunk.values * _WIDTH, sum(page.unpacked for page in pages))
        if unpacked > most:
            raise ValueError(
                f"its columns would unpack to {unpacked:,} bytes; from a file of {self.size:,} bytes at most {most:,} "
                "are unpacked; write it with compression='none' and use_dictionary=False"
            )


def open_parquet(path: Path) -> ParquetTable:
    """Opens a parquet file by its footer."""
    check_pyarrow(path)
    check_file(path)
    with errors_naming(path), open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        footer = read_footer(file.fileno(), size)
    with pyarrow_errors(path):
        return ParquetTable(path, size, footer, opened_by_pyarrow(path, ()).schema_arrow)


def longest_text(column: Any) -> int:
    """Bytes of the longest text in the rows of a dictionary of pyarrow; 0 for other columns."""
    import pyarrow
    import pyarrow.compute as compute

    if not isinstance(column, pyarrow.DictionaryArray) or column.null_count == len(column):
        return 0
    return int(compute.max(compute.binary_length(column.dictionary).take(column.indices)).as_py())


def rows_of_lists(column: Any, numbers: int) -> Shaped[np.ndarray, "rows numbers"] | None:
    """The lists of a column as rows, null as NaN; None if a list is null or has another number of entries."""
    import pyarrow.compute as compute

    if column.null_count or not compute.all(compute.equal(compute.list_value_length(column), numbers)).as_py():
        return None
    rows: np.ndarray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), numbers)
    return rows
