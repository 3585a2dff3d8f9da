"""Reads, checks and writes LMDB databases of images: the key is an image's name, the value the bytes of its file.

Identities lie in the database under `__identities__`, as JSON: an object of name and identity, in the order of the
images, or a list of identities in the order of the keys. Or they lie in a list with the columns name, identity and
perhaps domain: `identities.csv` in the folder of the database, or a file of the same stem beside it. `__domains__` in
the database, if it is there, is a JSON list of the domains in the order of the images. `__len__` and `__keys__`, which
other tools write as pickles, are skipped; no pickle is read.

The order of the images is that of `__identities__` or of the list, since LMDB sorts its keys. The lmdb package (extra:
data) is needed only for writing. liblmdb maps a file and trusts it, so that a damaged one can end the process; the
reader here maps nothing, and checks every page number, offset and size against the file. Layout: LMDB 0.9,
`libraries/liblmdb/mdb.c` of OpenLDAP (MDB_page, MDB_node, MDB_meta, MDB_db; data version 1), little-endian with 64-bit
words, as x86-64 and ARM64 write it.
"""

import errno
import importlib.util
import json
import os
import re
import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from verisphere.base.vocabulary import ImageSource
from verisphere.base.words import install_extra
from verisphere.files.disk import regular
from verisphere.files.errors import Fault, fault_of
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.json_values import shortened, shown
from verisphere.files.text import table_rows
from verisphere.images.packs.columns import Coded, Texts
from verisphere.images.packs.manifest import read_manifest
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.records import Record, RecordColumns, hashes_of, repeated, text_fault, too_large

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_PAGE = struct.Struct("<Q2xHHH")  # number, flags, end of the pointers, begin of the nodes
_OVERFLOW = struct.Struct("<Q2xHI")  # number, flags, number of pages
_NODE = struct.Struct("<HHHH")  # low and high half of the size, flags, size of the key
#: Magic, version; the page size, in the record of the free list; flags, depth, numbers of branch, leaf and overflow
#: pages, entries and root of the main database; last page, transaction.
_META = struct.Struct("<II16xI44x4xHHQQQQQQQ")
_BRANCH, _LEAF, _OVERFLOW_PAGE, _META_PAGE = 0x01, 0x02, 0x04, 0x08
_KINDS = 0x6F  # the four kinds above, leaf pages of fixed size, and pages inside nodes
_BIG, _SUBDATABASE, _DUPLICATES = 0x01, 0x02, 0x04
_NO_PAGE = 2**64 - 1
_DEEPEST = 32  # levels of a tree, as in liblmdb
_PAGE_SIZES = tuple(1 << power for power in range(9, 17))


class Value(NamedTuple):
    """One entry of a database: its key, and the run of bytes of its value."""

    key: bytes
    offset: int
    size: int
    overflow: int  # first page of a large value; 0 for a value inside a leaf


@dataclass(frozen=True)
class _Tree:
    """The main database, as the newer of the two meta pages states it."""

    page_size: int
    pages: int
    flags: int
    depth: int
    entries: int
    root: int


def values_in(path: Path) -> Iterator[Value | Fault]:
    """The entries of the main database of an LMDB file, in the order of their keys, and every fault of its pages."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        yield from _Walk(path, file.fileno()).values()


class _Walk:
    """A walk along all leaves of the tree."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self._size = os.fstat(descriptor).st_size
        self._seen: set[int] = set()
        self._previous: bytes | None = None
        self._entries = 0

    def values(self) -> Iterator[Value | Fault]:
        try:
            self._tree = tree = self._newer_tree()
            if tree.flags:
                raise ValueError(
                    f"the main database has the flags {tree.flags:#x} (duplicates, or numbers as keys); allowed is 0"
                )
        except ValueError as error:
            yield self._fault(0, str(error))
            return
        if tree.root != _NO_PAGE:
            yield from self._page(tree.root, 1)
        if self._entries != tree.entries:
            yield self._fault(0, f"the database states {tree.entries:,} entries, but its pages have {self._entries:,}")

    def _fault(self, offset: int | None, reason: str, key: bytes = b"") -> Fault:
        return Fault(str(self._path), key.decode(errors="backslashreplace"), offset, reason)

    def _newer_tree(self) -> _Tree:
        """The tree of the newer transaction; a meta page that is damaged is a fault, even if the other one is whole."""
        first = self._meta(0)
        second = self._meta(first[0].page_size)
        if first[0].page_size != second[0].page_size:
            raise ValueError("its two meta pages state two page sizes")
        return max(first, second, key=lambda meta: meta[1])[0]

    def _meta(self, offset: int) -> tuple[_Tree, int]:
        """The tree that a meta page states, and its transaction."""
        page = os.pread(self._descriptor, 16 + _META.size, offset)
        if len(page) < 16 + _META.size:
            raise ValueError(f"{self._size:,} bytes, too short for the two meta pages; is the file cut short?")
        _, flags, _, _ = _PAGE.unpack_from(page)
        magic, version, page_size, tree_flags, depth, _, _, _, entries, root, last, transaction = _META.unpack_from(
            page, 16
        )
        if magic != _MAGIC or not flags & _META_PAGE:
            raise ValueError(f"no LMDB file: its meta page at byte {offset} begins with {page[16:20].hex()}")
        if version & 0xFFFF != _VERSION:
            raise ValueError(f"version {version & 0xFFFF} of the layout of LMDB; this reader knows {_VERSION}")
        if page_size not in _PAGE_SIZES:
            raise ValueError(f"pages of {page_size} bytes; allowed are powers of two from 512 to 65,536")
        if not (root == _NO_PAGE or 1 <= depth <= _DEEPEST):
            raise ValueError(f"a tree of {depth} levels; allowed are 1 to {_DEEPEST}")
        # The last pages can be free ones that were never written, so the file may end before them.
        pages = min(last + 1, self._size // page_size)
        return _Tree(page_size, pages, tree_flags, depth, entries, root), transaction

    def _page(self, number: int, level: int) -> Iterator[Value | Fault]:
        tree = self._tree
        offset = number * tree.page_size
        try:
            if not 2 <= number < tree.pages:
                raise ValueError(f"page {number} of {tree.pages:,}; is the file cut short?")
            if number in self._seen:
                raise ValueError(f"page {number} stands in the tree twice")
            self._seen.add(number)
            page = os.pread(self._descriptor, tree.page_size, offset)
            if len(page) < tree.page_size:
                raise ValueError(f"page {number} is cut short; has the file changed since it was opened?")
            stated, flags, lower, upper = _PAGE.unpack_from(page)
            kind = _LEAF if level == tree.depth else _BRANCH
            if stated != number or flags & _KINDS != kind:
                what = "leaf" if kind == _LEAF else "branch"
                raise ValueError(
                    f"page {number} is no {what} page: it has the number {stated} and the flags {flags:#x}"
                )
            if not 16 <= lower <= (upper or tree.page_size) <= tree.page_size or lower % 2:
                raise ValueError(f"page {number} is damaged: its nodes begin at {upper}, its pointers end at {lower}")
        except ValueError as error:
            yield self._fault(offset if 0 <= offset < self._size else None, str(error))
            return
        for pointer in struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16):
            try:
                if not lower <= pointer <= tree.page_size - 8:
                    raise ValueError(f"page {number} has a node at its byte {pointer}")
                low, high, node_flags, key_size = _NODE.unpack_from(page, pointer)
                begin = pointer + 8 + key_size
                if begin > tree.page_size:
                    raise ValueError(f"a key of {key_size} bytes ends behind page {number}")
                if kind == _BRANCH:
                    yield from self._page(low | high << 16 | node_flags << 32, level + 1)
                    continue
                self._entries += 1
                key, size, overflow = page[pointer + 8 : begin], low | high << 16, 0
                value = self._value(page, offset, begin, size, node_flags)
                overflow = value // tree.page_size if node_flags & _BIG else 0
                previous, self._previous = self._previous, key
                if previous is not None and key <= previous:
                    word = "stands there twice" if key == previous else f"comes after {shown(previous, 200)}"
                    raise ValueError(f"the key {shown(key, 200)} {word}; keys ascend")
            except ValueError as error:
                yield self._fault(offset + pointer, str(error))
            else:
                yield Value(key, value, size, overflow)

    def _value(self, page: bytes, offset: int, begin: int, size: int, flags: int) -> int:
        """The byte of the file at which a value of `size` bytes begins."""
        tree = self._tree
        if flags & (_SUBDATABASE | _DUPLICATES):
            raise ValueError("a database inside the database, or several values of one key; allowed is one value a key")
        if not flags & _BIG:
            if begin + size > tree.page_size:
                raise ValueError(f"a value of {size} bytes ends behind its page")
            return offset + begin
        if begin + 8 > tree.page_size:
            raise ValueError("the number of an overflow page lies behind its page")
        first = int.from_bytes(page[begin : begin + 8], "little")
        if first < 2 or first * tree.page_size + 16 + size > tree.pages * tree.page_size:
            raise ValueError(
                f"a value of {size} bytes from page {first} on, but there are {tree.pages:,}; is it cut short?"
            )
        return first * tree.page_size + 16


def overflow_fault(path: Path, descriptor: int, value: Value) -> Fault | None:
    """The fault of the header of a large value's overflow page; None for a value inside a leaf."""
    if not value.overflow:
        return None
    page = os.pread(descriptor, 16, value.offset - 16)
    number, flags, pages = _OVERFLOW.unpack(page) if len(page) == 16 else (-1, 0, 0)
    page_size = (value.offset - 16) // value.overflow
    if number == value.overflow and flags & _KINDS == _OVERFLOW_PAGE and pages * page_size >= 16 + value.size:
        return None
    reason = (
        f"no overflow page for {value.size} bytes: page {value.overflow} has the number {number}, the flags "
        f"{flags:#x}, and {pages} pages"
    )
    return Fault(str(path), value.key.decode(errors="backslashreplace"), value.offset - 16, reason)


IDENTITIES, DOMAINS = b"__identities__", b"__domains__"
_OF_OTHERS = (b"__len__", b"__keys__")
_LONGEST_KEY = 511  # bytes; the limit of liblmdb as it is usually built
_LONGEST_ENTRY = 8192  # bytes of JSON that an image can take: each letter of a key and an identity as \uXXXX
_LOOKED_AT = 16  # values whose beginning is read at opening; in a pickled set, all values are pickles
_PICKLES = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))
_BATCH = 64 * 2**20  # bytes that are written in a transaction
_STRING = r'"([^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*)"'
_VALUE = rf"(?:{_STRING}|(-?[0-9]{{1,18}}))"
_PAIR = re.compile(rf"\s*{_STRING}\s*:\s*{_VALUE}\s*([,}}])")
_ENTRY = re.compile(rf"\s*()?{_VALUE}\s*([,\]])")


def is_lmdb(path: Path) -> bool:
    """Whether a path denotes an LMDB database: a folder with data.mdb, or a file by its suffix."""
    return (path / "data.mdb").is_file() if path.is_dir() else path.suffix.lower() in (".lmdb", ".mdb")


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The images of an LMDB database, in the order of its list of identities."""
    contents = _Contents(path)
    yield from contents.walk(thorough)
    yield from contents.join()
    return None if thorough else contents.pack()


class _Contents:
    """The content of a database, filled step by step; each step yields the faults that it finds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "data.mdb" if path.is_dir() else path
        self._records = RecordColumns()  # in the order of the keys
        self._tables: dict[bytes, Value] = {}
        self._places: Int64[np.ndarray, " images"] = np.empty(0, np.int64)  # position of each image among the keys
        self._identities = self._domains = Coded((), self._places)
        self._has_domains = self._is_damaged = False

    def walk(self, thorough: bool) -> Iterator[Fault]:
        """Finds all values; reads the beginning of the first ones, or, if thorough, of all."""
        overflows: list[tuple[int, int]] = []
        with open(self.file, "rb", buffering=0, opener=regular) as opened:
            for value in values_in(self.file):
                if isinstance(value, Fault):
                    self._is_damaged = True
                    yield value
                elif value.key in (IDENTITIES, DOMAINS):
                    self._tables[value.key] = value
                elif value.key not in _OF_OTHERS:
                    yield from self._image(value, opened.fileno(), thorough)
                if thorough and isinstance(value, Value) and value.overflow:
                    overflows.append((value.offset, value.size))
        if thorough:
            yield from self._overlaps(overflows)

    def _image(self, value: Value, descriptor: int, thorough: bool) -> Iterator[Fault]:
        try:
            name = value.key.decode()
        except UnicodeDecodeError:
            yield Fault(str(self.file), "", value.offset, f"the key {shown(value.key, 200)} is not UTF-8")
            return
        record = Record(name, "", value.offset, value.size)
        self._records.add(record)
        looked_at = thorough or len(self._records) <= _LOOKED_AT
        if looked_at and os.pread(descriptor, min(2, value.size), value.offset).startswith(_PICKLES):
            reason = "the value is a pickle, which can run code; allowed are the bytes of an image file"
            yield Fault(str(self.file), name, value.offset, reason)
        if thorough:
            if value.size > MAX_BYTES:
                yield too_large(self.file, record)
            if fault := overflow_fault(self.file, descriptor, value):
                yield fault

    def _overlaps(self, overflows: list[tuple[int, int]]) -> Iterator[Fault]:
        """Large values that share pages."""
        spans = np.array(sorted(overflows), np.int64).reshape(-1, 2)
        shared = spans[:-1].sum(axis=1) > spans[1:, 0] - 16
        for offset in spans[1:, 0][shared].tolist():
            yield Fault(str(self.file), "", offset, "two values share the page of this one")

    def join(self) -> Iterator[Fault]:
        """Finds the identity of each image, and the order of the images."""
        keys = self._records.names
        if not len(keys):
            if not self._is_damaged:
                yield Fault(str(self.path), "", None, "no images")
            return
        try:
            names, self._identities, domains = self._listed(keys)
        except ValueError as error:
            yield fault_of(error, self.file)
            return
        if names is None:
            if len(self._identities) != len(keys):
                reason = f"{len(self._identities):,} identities for {len(keys):,} images"
                yield Fault(str(self.file), IDENTITIES.decode(), None, reason)
            self._places = np.arange(len(keys))
        else:
            self._places = _places(names, keys)
            for absent in np.flatnonzero(self._places < 0).tolist():
                yield Fault(str(self.file), names[absent], None, "an identity, but no image under this key")
            nameless = np.ones(len(keys), bool)
            nameless[self._places[self._places >= 0]] = False
            for bare in np.flatnonzero(nameless).tolist():
                yield Fault(str(self.file), keys[bare], None, "an image without an identity")
            for first, again in repeated(names):
                reason = f"identity {again + 1:,} is of the same image as identity {first + 1:,}"
                yield Fault(str(self.file), names[again], None, reason)
        if domains is not None:
            self._domains, self._has_domains = domains, True
            if len(domains) != len(self._identities):
                reason = f"{len(domains):,} domains for {len(self._identities):,} images"
                yield Fault(str(self.file), DOMAINS.decode(), None, reason)

    def pack(self) -> Pack:
        """The pack, after all steps have found no fault."""
        files = self._records.spans((self.file,), self._records.names).keep(self._places)
        manifest = read_manifest(self.path, len(files.names))
        names = files.names if manifest is None or manifest.names is None else Texts.of(manifest.names)
        source = ImageSource(self.path.name) if manifest is None else manifest.source
        domains = self._domains if self._has_domains else None
        return Pack(self.path, LMDB.name, names, self._identities, files, source, domains)

    def _listed(self, keys: Texts) -> tuple[Texts | None, Coded, Coded | None]:
        """Names (None if they are the keys in their order), identities, and domains (None if there are none)."""
        if IDENTITIES not in self._tables:
            listed = _list_beside(self.path)
            return listed.names, listed.identities, listed.domains
        listed = self._table(IDENTITIES, len(keys))
        names = listed.names
        domains = self._table(DOMAINS, len(keys)).identities if DOMAINS in self._tables else None
        return names if len(names.utf8) else None, listed.identities, domains

    def _table(self, key: bytes, images: int) -> RecordColumns:
        """The entries of a JSON table as names and identities; the names are empty if the table is a list."""
        value = self._tables[key]
        where = f"{self.file}: record {key.decode()} at byte {value.offset}"
        if value.size > (images + 1) * _LONGEST_ENTRY:
            raise ValueError(f"{where}: {value.size:,} bytes for {images:,} images")
        with open(self.file, "rb", buffering=0, opener=regular) as opened:
            data = os.pread(opened.fileno(), value.size, value.offset)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{where}: not UTF-8 text (byte {value.offset + error.start})") from None
        table = RecordColumns()
        for name, entry, place in _entries(text, where):
            reason = text_fault("the identity" if key == IDENTITIES else "the domain", entry)
            if reason:
                raise ValueError(f"{where}: character {place}: {reason}")
            table.add(Record(name, entry, 0, 0))
        return table


def _entries(text: str, where: str) -> Iterator[tuple[str, str, int]]:
    """Name, text and position of each entry of a flat JSON object, or of a JSON list, whose names are empty.

    The entries are read one at a time: `json.loads` would hold an object for each.
    """
    opening = text.lstrip(" \t\r\n")[:1]
    pattern, last = {"{": (_PAIR, "}"), "[": (_ENTRY, "]")}.get(opening, (None, ""))
    if pattern is None:
        raise ValueError(f"{where}: begins with {shown(text[:20])}; allowed are a JSON object and a JSON list")
    place, ended = text.index(opening) + 1, False
    if not text[place : place + _LONGEST_ENTRY].strip(" \t\r\n").removeprefix(last):
        return
    while not ended:
        entry = pattern.match(text, place)
        if entry is None:
            raise ValueError(f"{where}: character {place}: {shown(text[place : place + 60])} is no entry with a text")
        name, value, number, after = entry.groups()
        yield _unescaped(name or ""), number if value is None else _unescaped(value), place
        place, ended = entry.end(), after == last
    if text[place:].strip(" \t\r\n"):
        raise ValueError(f"{where}: character {place}: {shown(text[place : place + 60])} after its end")


def _unescaped(text: str) -> str:
    """The inside of a JSON string, without its escapes."""
    return str(json.loads(f'"{text}"')) if "\\" in text else text


def _list_beside(path: Path) -> RecordColumns:
    """The list of names, identities and perhaps domains in the folder of a database, or beside it."""
    beside = path.with_suffix(".csv")
    place = path / "identities.csv" if (path / "identities.csv").is_file() else beside
    if not place.is_file():
        raise ValueError(
            f"no identities: no entry __identities__ (JSON), and no list {'identities.csv in it or ' * path.is_dir()}"
            f"{beside.name} beside it, with the columns name, identity and perhaps domain"
        )
    listed = RecordColumns()
    columns, rows = table_rows(place, ("name", "identity"), ("domain",), "its columns are name, identity, domain")
    for line, cells in rows:
        for column, cell in zip(columns, cells, strict=True):
            if reason := text_fault(column, cell, _LONGEST_KEY):
                raise ValueError(f"{place}: line {line}: {reason}")
        listed.add(Record(cells[0], cells[1], 0, 0, cells[2] if len(cells) > 2 else None))
    return listed


def _places(names: Texts, keys: Texts) -> Int64[np.ndarray, " names"]:
    """The position of each name among the keys; -1 for a name that is no key."""
    if not len(keys):
        return np.full(len(names), -1)
    hashes, wanted = hashes_of(keys), hashes_of(names)
    order = np.argsort(hashes)
    spots = np.minimum(np.searchsorted(hashes, wanted, sorter=order), len(keys) - 1)
    places = np.where(hashes[order[spots]] == wanted, order[spots], -1)
    for position, (name, key) in enumerate(zip(names, keys.take(places), strict=True)):
        if name != key:
            places[position] = -1
    return places


# --- writing ---


def write_lmdb(path: Path, rows: Iterable[Row]) -> None:
    """Writes a database into a new folder; images are written in transactions of 64 MiB."""
    if importlib.util.find_spec("lmdb") is None:
        raise ValueError(f"{path}: writing LMDB needs lmdb, not installed here; {install_extra('data')}")
    import lmdb

    names, domains = bytearray(), bytearray()
    try:
        # Without a lock file, and without a sync after each transaction: the folder is renamed when it is complete.
        with lmdb.open(str(path), map_size=2 * _BATCH, lock=False, sync=False, metasync=False) as database:
            batch: list[tuple[bytes, bytes]] = []
            size = 0
            for number, row in enumerate(rows):
                key = row.name.encode()
                if not _can_name(row.name):
                    raise ValueError(
                        f"{path}: the name {shown(row.name, 200)} has {len(key)} bytes; a key of LMDB has 1 to "
                        f"{_LONGEST_KEY}, and is none of the tables"
                    )
                if number and (row.domain is None) == bool(domains):
                    raise ValueError(f"{path}: {shown(row.name, 200)}: only some images have a domain")
                names += f"{', ' if names else ''}{_json(row.name)}: {_json(row.identity)}".encode()
                if row.domain is not None:
                    domains += f"{', ' if domains else ''}{_json(row.domain)}".encode()
                batch.append((key, row.data))
                size += len(key) + len(row.data)
                if size >= _BATCH:
                    _put(path, database, batch)
                    batch, size = [], 0
            tables: list[tuple[bytes, bytes]] = [(IDENTITIES, b"{" + names + b"}")] + [
                (DOMAINS, b"[" + domains + b"]")
            ] * bool(domains)
            _put(path, database, batch + tables)
            database.sync(True)
    except lmdb.Error as error:
        raise OSError(errno.EIO, f"{error}; is the disk full?", str(path)) from None


def _can_name(name: str) -> bool:
    key = name.encode()
    return 0 < len(key) <= _LONGEST_KEY and key not in (IDENTITIES, DOMAINS, *_OF_OTHERS)


def _put(path: Path, database: Any, entries: Sequence[tuple[bytes, bytes]]) -> None:
    """Writes entries in one transaction, in a map that grows until they fit."""
    import lmdb

    while True:
        try:
            with database.begin(write=True) as transaction:
                for key, data in entries:
                    if not transaction.put(key, data, overwrite=False):
                        raise ValueError(f"{path}: two images are named {shortened(key.decode(), 200)}")
            return
        except lmdb.MapFullError:
            database.set_mapsize(2 * database.info()["map_size"])


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


LMDB = Format(
    "lmdb",
    "an LMDB database (a folder with data.mdb, or a file .lmdb .mdb) with identities in __identities__ or a list",
    is_lmdb,
    _contents,
    write_lmdb,
    ".lmdb",
    can_name=_can_name,
)
