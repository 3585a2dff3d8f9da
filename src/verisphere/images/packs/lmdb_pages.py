"""The pages of an LMDB file: where each value of its main database lies, found without mapping the file.

liblmdb maps a file and trusts it, so that a damaged one can end the process. This reader checks every page number,
offset and size against the file. Layout: LMDB 0.9, `libraries/liblmdb/mdb.c` of OpenLDAP (MDB_page, MDB_node, MDB_meta,
MDB_db; data version 1), little-endian with 64-bit words, as x86-64 and ARM64 write it.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from verisphere.files.disk import regular
from verisphere.files.errors import Fault
from verisphere.files.json_values import shown

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
    """One entry of a database: its key, and the run of bytes of its value.

    A large value begins in the page `overflow`; it is 0 for a value inside a leaf.
    """

    key: bytes
    offset: int
    size: int
    overflow: int


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
    """The fault of the header of a large value's overflow page; None for a value inside a leaf.

    This check reads a page of every image, so `values_in` skips it.
    """
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
