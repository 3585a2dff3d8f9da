"""Parquet tables of images: columns `image` (bytes), `identity` (text or whole number) and perhaps `name`, `domain`.

Layout: Apache Parquet format 2 (github.com/apache/parquet-format). Image sets of Hugging Face are read too: there
`image` is a struct with `bytes` and `path`, of which only the bytes are used, and the identity is called `label`.

pyarrow (extra: data) reads the columns of text when the file is opened. Images that are neither compressed nor
dictionary-encoded are then read one row at a time, in microseconds: each value lies in the file as its length (4 bytes)
and its bytes (Encodings.md there), so that it can be read alone once its page is known
(`verisphere.files.parquet_table`). pyarrow unpacks all others, a row group at a time: in random order, an image then
costs as much as its row group, unless that row group was read lately and is kept (up to 256 MiB). `write_parquet`
writes images of the first kind.
"""

import os
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, Int64

from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError, caught, errors_naming, fault_of
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.json_values import shortened, shown
from verisphere.files.parquet_table import (
    BYTE_ARRAY,
    DATA,
    DATA_V2,
    DICTIONARY,
    PLAIN,
    PREFIXED,
    UNCOMPRESSED,
    ColumnChunk,
    DataPage,
    check_pyarrow,
    opened_by_pyarrow,
    pages_of,
    pyarrow_errors,
    read_footer,
)
from verisphere.files.text import LONGEST_NAME
from verisphere.images.packs.columns import Coded, GrowingTexts, Numbers, Positions, Texts, take
from verisphere.images.packs.image_files import ImageFiles
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.records import LONGEST_IMAGE_NAME, as_text, repeated, source_of, text_fault
from verisphere.images.packs.spans import Spans, Stamp, check_stamp, stamp_of

LARGEST_GROUP = 2 * 2**30
"""Most bytes of images in a row group; to read one image, its whole row group is unpacked."""

_KEPT = 256 * 2**20  # bytes of row groups that are kept
_IMAGES = 16  # images that pyarrow decodes at a time


def wrong_size(image: bytes | None) -> str | None:
    """The reason why a row holds no image, by the number of its bytes; None if an image can have so many."""
    if image is not None and 0 < len(image) <= MAX_BYTES:
        return None
    size = "no image" if image is None else f"an image of {len(image)} bytes"
    return f"{size}; allowed are 1 to {MAX_BYTES} bytes"


class GroupedImages:
    """Images that pyarrow unpacks, a row group at a time; the last row groups are kept, up to 256 MiB."""

    def __init__(
        self,
        path: Path,
        names: Sequence[str],
        rows: Int[np.ndarray, " images"],
        group_ends: Int64[np.ndarray, " groups"],
        leaf: str,
        stamp: Stamp | None = None,
    ) -> None:
        self.path, self.names, self.rows, self._group_ends, self._leaf = path, names, rows, group_ends, leaf
        self.unread: Sequence[str] = ()
        self._stamp = stamp_of(path) if stamp is None else stamp
        self._kept: OrderedDict[int, list[bytes | None]] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_kept": OrderedDict()}

    def keep(self, positions: Positions) -> "GroupedImages":
        """The images at these positions."""
        rows = self.rows[np.asarray(positions, np.int64)]
        return GroupedImages(self.path, take(self.names, positions), rows, self._group_ends, self._leaf, self._stamp)

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and row group as a text for error messages, and its bytes."""
        for position in positions:
            row = int(self.rows[position])
            group = int(np.searchsorted(self._group_ends, row, side="right"))
            first = int(self._group_ends[group - 1]) if group else 0
            name = f"{self.path}: record {shortened(self.names[position], 200)} in row group {group}"
            images = self.group(group)
            image = images[row - first] if row - first < len(images) else None
            if image is None or not 0 < len(image) <= MAX_BYTES:
                raise ValueError(f"{name}: {wrong_size(image)}")
            yield name, image

    def place(self, position: int) -> tuple[str, None]:
        """The file."""
        return str(self.path), None

    def group(self, group: int) -> list[bytes | None]:
        """The images of a row group; None where a row has none."""
        if group in self._kept:
            self._kept.move_to_end(group)
            return self._kept[group]
        check_stamp(self.path, self._stamp, stamp_of(self.path))
        images: list[bytes | None] = []
        size = 0
        with pyarrow_errors(self.path):
            batches = opened_by_pyarrow(self.path, ()).iter_batches(
                _IMAGES, row_groups=[group], columns=[self._leaf], use_threads=False
            )
            for batch in batches:
                batch.validate(full=True)
                column = batch.column(0)
                size += column.nbytes
                if size > LARGEST_GROUP:
                    raise ValueError(f"{self.path}: row group {group} unpacks to more than {LARGEST_GROUP:,} bytes")
                images += (column if self._leaf == "image" else column.flatten()[0]).to_pylist()
        self._kept[group] = images
        while len(self._kept) > 1 and self._bytes_kept() > _KEPT:
            self._kept.popitem(last=False)
        return images

    def _bytes_kept(self) -> int:
        return sum(len(image or b"") for images in self._kept.values() for image in images)


@dataclass(frozen=True, eq=False)
class PlainImages:
    """Images in plain pages of one file, which is opened anew for each request.

    The values of a page are found when the first of them is requested. A page has its first row, offset, size in bytes
    and number of rows; it begins with definition levels where `nullable`. `begins` and `lengths` are 0 where not known.
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

    def place(self, position: int) -> tuple[str, int | None]:
        """The file, and the byte at which an image begins; None where its page is damaged."""
        row = self.rows[position : position + 1]
        with suppress(ValueError):
            self._find_pages_of(row)
        return str(self.path), int(self.begins[row[0]]) or None

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
                        raise FaultError(fault)
        except OSError as error:
            raise FaultError(Fault(str(self.path), "", None, f"cannot be read ({error.strerror})")) from None

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


_ROWS = 1 << 16  # rows of text that are decoded at a time, and rows of a row group at most
_GROUP = 64 * 2**20  # bytes of images in a row group that is written
_LARGEST_PAGE = 256 * 2**20  # bytes of a page of text; writers end a page at about 1 MiB
_LARGEST_DICTIONARY = 64 * 2**20  # bytes; each of its images can stand in any number of rows


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The images of a parquet table, in the order of its rows; without a column `name`, row numbers are the names."""
    table = _Table(path)
    table.open()
    for step in (table.texts, table.images, table.lengths) if thorough else (table.texts, table.images):
        yield from caught(step(), path)
    return None if thorough else table.pack()


class _Table:
    """The content of a table, filled step by step; each step yields the faults that it finds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: Numbers | Texts | None = None
        self._columns: dict[str, Coded] = {}
        self._files: ImageFiles | None = None

    def open(self) -> None:
        """Reads the footer, and checks the columns and the size of each page against the file."""
        check_pyarrow(self.path)
        with errors_naming(self.path), open(self.path, "rb", buffering=0, opener=regular) as file:
            self._footer = read_footer(file.fileno(), os.fstat(file.fileno()).st_size)
        with pyarrow_errors(self.path):
            schema = opened_by_pyarrow(self.path, ()).schema_arrow
        with errors_naming(self.path):
            self._wanted, self._image = _wanted(schema)
            self._rows = sum(self._footer.rows)
            if absent := {*self._wanted.values(), self._image} - set(self._footer.levels):
                raise ValueError(f"no values of the column {min(absent)}; there are {[*self._footer.levels]}")
            if not self._rows:
                raise ValueError("no images")

    def _fault(self, reason: str, record: str = "", offset: int | None = None) -> Fault:
        return Fault(str(self.path), record, offset, reason)

    def _pages(self, leaf: str) -> Iterator[tuple[int, ColumnChunk, list[DataPage]] | Fault]:
        """Each row group, its column with this path, and the pages of that column; or the fault of the pages."""
        with open(self.path, "rb", buffering=0, opener=regular) as file:
            for group, chunks in enumerate(self._footer.groups):
                chunk, rows = chunks[leaf], self._footer.rows[group]
                try:
                    if chunk.values != rows:
                        raise ValueError(f"{chunk.values:,} values in {rows:,} rows")
                    if rows:
                        yield group, chunk, list(pages_of(file.fileno(), chunk.begin, chunk.end, rows))
                except ValueError as error:
                    yield self._fault(f"row group {group}: column {leaf}: {error}")

    def texts(self) -> Iterator[Fault]:
        """Reads the columns of text."""
        is_whole = True
        for leaf in self._wanted.values():
            for found in self._pages(leaf):
                if isinstance(found, Fault):
                    is_whole = False
                    yield found
                elif any(page.unpacked > _LARGEST_PAGE or page.encoding == PREFIXED for page in found[2]):
                    is_whole = False
                    largest = max(page.unpacked for page in found[2])
                    yield self._fault(
                        f"row group {found[0]}: a page of column {leaf} unpacks to {largest:,} bytes; allowed are "
                        f"{_LARGEST_PAGE:,}, and no encoding DELTA_BYTE_ARRAY"
                    )
        if not is_whole:
            return  # pyarrow sees only what has been checked
        names, values = GrowingTexts(), {column: dict[str, int]() for column in self._wanted}
        codes: dict[str, list[Int64[np.ndarray, " rows"]]] = {column: [] for column in self._wanted}
        row = 0
        for batch in self._batches():
            for column, place in self._wanted.items():
                if column == "name" and (quick := _short_texts(batch.column(place))):
                    names.extend(quick)
                    continue
                texts, inside = _coded(batch.column(place))
                numbers = np.zeros(len(texts) + 1, np.int64)
                for code in np.unique(inside).tolist():
                    text = texts[code] if code >= 0 else None
                    longest = LONGEST_IMAGE_NAME if column == "name" else LONGEST_NAME
                    if reason := text_fault(column, text, longest):
                        for wrong in np.flatnonzero(inside == code).tolist():
                            yield self._fault(reason, str(row + wrong))
                    elif column != "name":
                        numbers[code] = values[column].setdefault(str(text), len(values[column]))
                if column == "name":
                    names.extend(Texts.of(str(texts[code]) if code >= 0 else "" for code in inside.tolist()))
                else:
                    codes[column].append(numbers[inside].astype(np.int32))
            row += batch.num_rows
        if row != self._rows:
            yield self._fault(f"{row:,} rows of text, but {self._rows:,} are stated")
        self._columns = {
            column: Coded(tuple(values[column]), np.concatenate([np.empty(0, np.int32), *codes[column]]))
            for column in self._wanted
            if column != "name"
        }
        self._names = Numbers(np.arange(self._rows))
        if "name" in self._wanted:
            self._names = names.texts()
            for first, again in repeated(self._names):
                yield self._fault(f"the name is already that of row {first}; names are unique", self._names[again])

    def _batches(self) -> Iterator[Any]:
        """Rows of the columns of text; text stays dictionary-encoded, so that no small page unpacks to a large one."""
        import pyarrow

        columns = list(self._wanted.values())
        with pyarrow_errors(self.path):
            opened = opened_by_pyarrow(self.path, columns)
            for group in range(len(self._footer.rows)):  # one by one, since dictionaries grow from batch to batch
                for batch in opened.iter_batches(_ROWS, row_groups=[group], columns=columns, use_threads=False):
                    batch.validate(full=True)
                    yield batch
            pyarrow.default_memory_pool().release_unused()

    def images(self) -> Iterator[Fault]:
        """Finds the pages of the images, and decides how they are read."""
        is_plain, table = True, np.empty((0, 4), np.int64)
        group_ends = np.cumsum(np.array(self._footer.rows, np.int64))
        for found in self._pages(self._image):
            if isinstance(found, Fault):
                yield found
                continue
            group, chunk, pages = found
            data = [page for page in pages if page.kind in (DATA, DATA_V2)]
            is_plain &= chunk.codec == UNCOMPRESSED and len(data) == len(pages)
            is_plain &= all((page.kind, page.encoding) == (DATA, PLAIN) for page in data)
            if reason := _group_fault(chunk, pages, is_plain):
                yield self._fault(f"row group {group}: {reason}")
                continue
            places = np.array([(0, page.offset, page.size, page.values) for page in data], np.int64).reshape(-1, 4)
            places[:, 0] = group_ends[group] - self._footer.rows[group] + np.cumsum(places[:, 3]) - places[:, 3]
            table = np.concatenate([table, places[places[:, 3] > 0]])
        names: Sequence[str] = Numbers(np.arange(self._rows)) if self._names is None else self._names
        rows_of = np.arange(self._rows)
        if not is_plain:
            self._files = GroupedImages(self.path, names, rows_of, group_ends, self._image)
            return
        nullable = self._footer.levels[self._image] > 0
        unknown = np.zeros(self._rows, np.int64), np.zeros(self._rows, np.int64)
        self._files = PlainImages(self.path, names, rows_of, table, nullable, *unknown)

    def lengths(self) -> Iterator[Fault]:
        """Finds every image, and those that are absent, empty or too large."""
        if isinstance(self._files, PlainImages):
            with open(self.path, "rb", buffering=0, opener=regular) as file:
                for page in range(len(self._files.pages)):
                    if fault := self._files.find(file.fileno(), page):
                        yield replace(fault, record=self._files.names[int(fault.record)])
            begins, lengths = self._files.begins, self._files.lengths
            for row in np.flatnonzero((begins > 0) & ((lengths == 0) | (lengths > MAX_BYTES))).tolist():
                reason = f"an image of {lengths[row]} bytes; allowed are 1 to {MAX_BYTES}"
                yield self._fault(reason, self._files.names[row], int(begins[row]))
        elif isinstance(self._files, GroupedImages):
            first = 0
            for group, rows in enumerate(self._footer.rows):
                try:
                    for row, image in enumerate(self._files.group(group), first):
                        if wrong := wrong_size(image):
                            yield self._fault(wrong, self._files.names[row])
                except ValueError as error:
                    yield self._fault(f"row group {group}: {fault_of(error, self.path).reason}")
                first += rows

    def pack(self) -> Pack:
        """The pack, after all steps have found no fault."""
        assert self._files is not None
        source = source_of(self.path, self._rows)
        identities = self._columns["identity"]
        return Pack(
            self.path, PARQUET.name, self._files.names, identities, self._files, source, self._columns.get("domain")
        )


def _group_fault(chunk: ColumnChunk, pages: Sequence[DataPage], is_plain: bool) -> str | None:
    """Why the images of a row group are not read; None if they are read."""
    if chunk.kind != BYTE_ARRAY:
        return f"images of the type {chunk.kind}; allowed is BYTE_ARRAY"
    if any(page.encoding == PREFIXED for page in pages):
        return "images in the encoding DELTA_BYTE_ARRAY, which is not read"
    if is_plain:
        crowded = (page for page in pages if page.values * 4 > page.size)
        return next((f"{page.values:,} images in {page.size} bytes at byte {page.offset}" for page in crowded), None)
    unpacked = sum(page.unpacked for page in pages)
    largest = max((page.unpacked for page in pages if page.kind == DICTIONARY), default=0)
    if unpacked <= LARGEST_GROUP and largest <= _LARGEST_DICTIONARY:
        return None
    return (
        f"{unpacked:,} bytes of images, which must be unpacked to read one of them; allowed are {LARGEST_GROUP:,} "
        f"(row_group_size of pyarrow.parquet.write_table), and {_LARGEST_DICTIONARY:,} in a dictionary (use_dictionary)"
    )


def _wanted(fields: Any) -> tuple[dict[str, str], str]:
    """The name of each text column in the file, and the path of the leaf with the images."""
    import pyarrow.types as kinds

    names = list(fields.names)
    seen = shortened(", ".join(names), 120) or "nothing"
    if len(set(names)) < len(names):
        raise ValueError(f"two columns are called {shown(max(names, key=names.count))}")
    if "image" not in names:
        hint = "; a table of embeddings is read by `verisphere evaluate`" if "identity" in names else ""
        raise ValueError(f"no column image; a table of images has image and identity, this one has {seen}{hint}")
    wanted = {column: column for column in ("identity", "name", "domain") if column in names}
    if "identity" not in wanted and "label" in names:
        wanted = {"identity": "label"} | wanted
    if "identity" not in wanted:
        raise ValueError(f"no column identity, and no column label; the table has {seen}")
    for column in wanted.values():
        kind = fields.field(column).type
        kind = kind.value_type if kinds.is_dictionary(kind) else kind
        if not any(
            check(kind) for check in (kinds.is_string, kinds.is_large_string, kinds.is_string_view, kinds.is_integer)
        ):
            raise ValueError(
                f"column {column} is of the type {shortened(str(kind))}; allowed are text and whole numbers"
            )
    kind, leaf = fields.field("image").type, "image"
    if kinds.is_struct(kind) and "bytes" in [inside.name for inside in kind]:
        kind, leaf = kind.field("bytes").type, "image.bytes"
    if not (kinds.is_binary(kind) or kinds.is_large_binary(kind) or kinds.is_binary_view(kind)):
        raise ValueError(
            f"column image is of the type {shortened(str(kind))}; allowed are bytes, and a struct with bytes in it"
        )
    return wanted, leaf


def _short_texts(column: Any) -> Texts | None:
    """The texts of a dictionary-encoded column, copied without an object for each; None if one may be a fault."""
    import pyarrow

    if not isinstance(column, pyarrow.DictionaryArray) or column.null_count or not len(column):
        return None
    values = column.dictionary.cast(pyarrow.large_string())
    _, places, letters = values.buffers()
    ends = np.frombuffer(places, np.int64)[values.offset : values.offset + len(values) + 1]
    sizes = np.diff(ends)
    if values.null_count or letters is None or sizes.min() < 1 or sizes.max() > LONGEST_IMAGE_NAME:
        return None
    texts = Texts(np.frombuffer(letters, np.uint8)[ends[0] : ends[-1]], ends[1:] - ends[0])
    return texts.take(column.indices.to_numpy(zero_copy_only=False))


def _coded(column: Any) -> tuple[list[Any], Int64[np.ndarray, " rows"]]:
    """The distinct values of a column of pyarrow, and the position of each row's value among them; -1 for null."""
    import pyarrow

    if not isinstance(column, pyarrow.DictionaryArray):
        column = column.dictionary_encode()
    values = [as_text(value) for value in column.dictionary.to_pylist()]
    return values, column.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)


# --- writing ---


def write_parquet(path: Path, rows: Iterable[Row]) -> None:
    """Writes a table whose images `PlainImages` reads: required, plain, not compressed, data pages of version 1."""
    check_pyarrow(path)
    import pyarrow
    import pyarrow.parquet as parquet

    remaining = iter(rows)
    first = next(remaining, None)
    columns = ["image", "identity", "name"] + ["domain"] * (first is not None and first.domain is not None)
    kinds = {"image": pyarrow.binary()}
    schema = pyarrow.schema([pyarrow.field(name, kinds.get(name, pyarrow.string()), False) for name in columns])
    with parquet.ParquetWriter(
        str(path),
        schema,
        compression={name: "none" if name == "image" else "zstd" for name in columns},
        use_dictionary=[name for name in columns if name in ("identity", "domain")],
        write_statistics=False,
        data_page_version="1.0",
        write_batch_size=64,
    ) as writer:
        group: list[Row] = []
        size = 0
        for row in chain([] if first is None else [first], remaining):
            if (row.domain is None) == ("domain" in columns):
                raise ValueError(f"{path}: {shown(row.name, 200)}: only some images have a domain")
            group.append(row)
            size += len(row.data)
            if size >= _GROUP or len(group) == _ROWS:
                _write_group(writer, schema, group)
                group, size = [], 0
        if group:
            _write_group(writer, schema, group)


def _write_group(writer: Any, schema: Any, rows: Sequence[Row]) -> None:
    import pyarrow

    values = {
        "image": [row.data for row in rows],
        "identity": [row.identity for row in rows],
        "name": [row.name for row in rows],
        "domain": [row.domain for row in rows],
    }
    columns = [pyarrow.array(values[field.name], field.type) for field in schema]
    writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema), row_group_size=len(rows))


PARQUET = Format(
    "parquet",
    "a .parquet table with the columns image and identity, perhaps name and domain",
    lambda path: path.suffix.lower() in (".parquet", ".pq") and not path.is_dir(),
    _contents,
    write_parquet,
    ".parquet",
)
