"""The layout of RecordIO: records, their parts, and the header of an image.

Facts of dmlc-core (`include/dmlc/recordio.h`) and of MXNet (`python/mxnet/recordio.py`): a part is the number
0xced7230a, a word with a kind in its upper 3 bits (0 a whole record, 1 the first part, 2 a middle one, 3 the last) and
the length in its lower 29, the data, and zeros up to a multiple of 4 bytes. A writer cuts a record wherever that number
occurs in its data at a multiple of 4, and drops the number there; a reader puts it back between the parts. The data of
an image are a header (number of labels, label, id, second id; `IfQQ`), the float32 labels if their number is not 0, and
the encoded image. All numbers are little-endian.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float32, Float64, Int64, UInt64

from verisphere.base.vocabulary import NO_CLASS
from verisphere.files.disk import regular
from verisphere.files.errors import Fault
from verisphere.files.image_suffixes import MAX_BYTES

MAGIC = 0xCED7230A
_MAGIC_BYTES = struct.pack("<I", MAGIC)
_PART = struct.Struct("<II")
_HEADER = struct.Struct("<IfQQ")
HEADER_BYTES = _HEADER.size
_LENGTH_BITS = 29
_WHOLE, _FIRST, _MIDDLE, _LAST = range(4)
_USUAL_BYTES = 1 << 13  # of a record with an aligned face
_MOST_BYTES = MAX_BYTES + (1 << 16)  # of a record: an image, its header and labels
# Parts of a record; random bytes are cut about once in 16 GiB. Without a limit, records that share a chain of empty
# parts would take time that grows with the square of the file's size.
_MOST_PARTS = 100

EXACT = 1 << 24
"""Whole numbers up to here are exact in float32, the type of every label."""


LABELS = f"allowed are whole numbers from {NO_CLASS} to {EXACT}"
_FIRST_STEP, _LAST_STEP = 1 << 10, 1 << 20  # bytes searched at a time for the next record after damage


def whole(labels: Float[np.ndarray, "..."]) -> np.ndarray:
    """Which labels are whole numbers from -1 that float32 can distinguish."""
    return (labels >= NO_CLASS) & (labels <= EXACT) & (labels == np.floor(labels))


class Header(NamedTuple):
    """The header of an image."""

    labels: tuple[float, ...]  # at most the first two
    behind: int  # number of labels behind the header; 0 if the only one is inside
    id: int  # for most writers the key in the index
    image: int  # byte of the record's data at which the image begins


@dataclass(frozen=True)
class Surveyed:
    """A record without its image: its header, the size of its image in bytes, and the byte after it."""

    header: Header
    image_bytes: int
    end: int


def parts(file: int, offset: int, size: int) -> Iterator[tuple[int, int]]:
    """The place in an open file and the length of the data of each part of the record that begins at a byte."""
    total, place, begun = 0, offset, False
    if offset % 4:
        raise ValueError("not at a multiple of 4 bytes, where every record begins")
    for _ in range(_MOST_PARTS):
        head = os.pread(file, _PART.size, place)
        if len(head) < _PART.size:
            raise ValueError(f"the file ends at byte {size}, within the record; is it cut short?")
        magic, word = _PART.unpack(head)
        kind, length = word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)
        if magic != MAGIC:
            raise ValueError(f"0x{magic:08x} at byte {place}, where a record or its next part has 0x{MAGIC:08x}")
        if kind not in ((_MIDDLE, _LAST) if begun else (_WHOLE, _FIRST)):
            allowed = "2 (middle) or 3 (last)" if begun else "0 (whole) or 1 (first part)"
            raise ValueError(f"a part of kind {kind} at byte {place}; allowed there is {allowed}")
        ends = kind in (_WHOLE, _LAST)
        if length % 4 and not ends:
            raise ValueError(f"a part of {length} bytes at byte {place}; all but the last have a multiple of 4")
        padded = (length + 3) // 4 * 4
        if place + _PART.size + padded > size:
            raise ValueError(
                f"a part of {length} bytes at byte {place}, but the file has {size - place - _PART.size} more; is it "
                "cut short?"
            )
        total += length + begun * len(_MAGIC_BYTES)
        if total > _MOST_BYTES:
            raise ValueError(f"more than the {MAX_BYTES} bytes allowed for an image file")
        yield place + _PART.size, length
        if ends:
            return
        begun, place = True, place + _PART.size + padded
    raise ValueError(f"more than {_MOST_PARTS} parts, which no image has")


def read_record(file: int, offset: int, size: int) -> bytes:
    """The data of a record, with its parts joined; raises the errors of `parts`."""
    usual = os.pread(file, _USUAL_BYTES, offset) if offset % 4 == 0 else b""
    if len(usual) >= _PART.size:
        magic, length = _PART.unpack_from(usual)
        if magic == MAGIC and _PART.size + (length + 3) // 4 * 4 <= len(usual):  # a single part of kind 0, already read
            return usual[_PART.size : _PART.size + length]
    joined = _MAGIC_BYTES.join(_pread(file, length, place) for place, length in parts(file, offset, size))
    if len(joined) > _MOST_BYTES:
        raise ValueError(f"more than the {MAX_BYTES} bytes allowed for an image file")
    return joined


def survey(file: int, offset: int, size: int) -> Surveyed:
    """A record's header, and the record's size; raises the errors of `parts` and `header_of`."""
    beginning, total, end = b"", 0, offset
    wanted = HEADER_BYTES + 8
    for place, length in parts(file, offset, size):
        joint = _MAGIC_BYTES if end > offset else b""
        if len(beginning) < wanted:
            beginning += joint + _pread(file, min(length, wanted), place)
        total += len(joint) + length
        end = place + (length + 3) // 4 * 4
    header = header_of(beginning[:wanted], total)
    return Surveyed(header, total - header.image, end)


def header_of(beginning: bytes, total: int) -> Header:
    """The header of an image, from the first bytes of its record's data, of which there are `total`."""
    if total < HEADER_BYTES:
        raise ValueError(f"{total} bytes of data, fewer than the {HEADER_BYTES} of the header of an image")
    count, label, number, _ = _HEADER.unpack_from(beginning)
    image = HEADER_BYTES + 4 * count
    if image > total:
        raise ValueError(f"{count} labels stated, but {total - HEADER_BYTES} bytes behind the header")
    labels = struct.unpack_from(f"<{min(count, 2)}f", beginning, HEADER_BYTES) if count else (label,)
    return Header(labels, count, number, image)


def _pread(file: int, length: int, place: int) -> bytes:
    data = os.pread(file, length, place)
    if len(data) != length:
        raise ValueError(f"{len(data)} of {length} bytes at byte {place}; is the file cut short?")
    return data


# --- many headers at once ---


@dataclass(frozen=True, eq=False)
class Headers:
    """The headers of many records."""

    labels: Float32[np.ndarray, "records 2"]
    ids: UInt64[np.ndarray, " records"]  # for most writers the keys in the index
    images: Int64[np.ndarray, " records"]  # bytes of each image
    problems: dict[int, str]  # why a record cannot be read, by its position; its label is NaN


def gather_headers(path: Path, offsets: Int64[np.ndarray, " records"], most_problems: int = 1) -> Headers:
    """The headers of the records at these bytes, by a mapping; it ends after so many that cannot be read."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        labels = np.full((len(offsets), 2), np.nan, np.float32)
        ids, images = np.zeros(len(offsets), np.uint64), np.zeros(len(offsets), np.int64)
        fast = np.zeros(len(offsets), bool)
        if size >= 4:
            words: np.ndarray = np.memmap(file, "<u4", "r", shape=(size // 4,))
            for start in range(0, len(offsets), 1 << 16):
                rows = slice(start, start + (1 << 16))
                fast[rows], labels[rows], ids[rows], images[rows] = _whole_records(words, offsets[rows], size)
            del words
        problems: dict[int, str] = {}
        for row in np.flatnonzero(~fast).tolist():  # records in parts, and bytes that are no record
            try:
                record = survey(file.fileno(), int(offsets[row]), size)
            except (ValueError, OverflowError) as error:
                problems[row] = str(error)
                if len(problems) >= most_problems:
                    break
                continue
            stated = record.header.labels
            labels[row, : len(stated)], ids[row], images[row] = stated, record.header.id, record.image_bytes
        return Headers(labels, ids, images, problems)


def _whole_records(
    words: np.ndarray, offsets: Int64[np.ndarray, " records"], size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Whether each place has a whole record in one part; and labels, id and image bytes of those that do."""
    inside = (offsets % 4 == 0) & (offsets >= 0) & (offsets + _PART.size + HEADER_BYTES <= size)
    at = np.where(inside, offsets // 4, 0)
    word = [words[np.minimum(at + place, len(words) - 1)] for place in range(10)]
    length = word[1].astype(np.int64) & ((1 << _LENGTH_BITS) - 1)
    count = word[2].astype(np.int64)
    image = length - HEADER_BYTES - 4 * count
    whole = inside & (word[0] == MAGIC) & (word[1] >> _LENGTH_BITS == _WHOLE) & (image >= 0)
    whole &= (offsets + _PART.size + (length + 3) // 4 * 4 <= size) & (length <= _MOST_BYTES)
    first, second = (np.ascontiguousarray(word[place]).view(np.float32) for place in (8, 9))
    labels = np.stack(
        [
            np.where(count > 0, first, np.ascontiguousarray(word[3]).view(np.float32)),
            np.where(count > 1, second, np.nan),
        ],
        1,
    )
    labels[~whole] = np.nan
    return whole, labels, word[4].astype(np.uint64) | word[5].astype(np.uint64) << np.uint64(32), image


# --- a walk through all records ---

UNSEEN = -1
"""Bytes of the image of a malformed record."""


def walk(
    path: Path,
    keys: Int64[np.ndarray, " records"],
    offsets: Int64[np.ndarray, " records"],
    named: Callable[[int], str],
    ids_are_keys: bool,
    labels: Float64[np.ndarray, "records 2"],
    images: Int64[np.ndarray, " records"],
) -> Iterator[Fault]:
    """Reads the headers of all records in the order of their places; nothing may lie between them.

    `labels` takes the first two labels of each record, `images` the bytes of its image; those of malformed ones stay.
    """
    expected, damaged, before, other_ids = 0, False, "", 0  # the next record's place; whether in a malformed one
    with open(path, "rb", buffering=0, opener=regular) as opened:
        file, size = opened.fileno(), os.fstat(opened.fileno()).st_size
        for row in np.argsort(offsets, kind="stable").tolist():
            key, offset = int(keys[row]), int(offsets[row])
            place = str(path), named(row), offset
            if offset >= size:
                continue  # a fault of the index
            if offset < expected:
                reason = f"it begins within record {before}, or where that begins; are two lines of the index one?"
                yield Fault(*place, reason)
                if offset % 4:
                    continue
            yield from _between(path, file, expected, offset, damaged)
            try:
                record = survey(file, offset, size)
            except ValueError as error:
                yield Fault(*place, str(error))
                expected, damaged = max(expected, offset), True
                continue
            header = record.header
            labels[row, : len(header.labels)], images[row] = header.labels, record.image_bytes
            other_ids += header.id != key
            if header.id != key and ids_are_keys:
                reason = f"its header has the id {header.id}, but its key is {key}; were lines of the index swapped?"
                yield Fault(*place, reason)
            expected, damaged, before = max(record.end, expected), False, place[1]
        yield from _between(path, file, expected, size, damaged)
    if other_ids and not ids_are_keys:
        reason = f"{other_ids} of {len(keys)} headers have another id than their key"
        yield Fault(str(path), "", None, f"{reason}, so swapped lines of the index would not be noticed")


def _between(path: Path, file: int, begin: int, end: int, damaged: bool) -> Iterator[Fault]:
    """Faults before the next record of the index: records that the index lacks, or bytes that are no record."""
    if damaged and begin < end:
        begin = _next_record(file, begin + 4, end)
    while begin < end:
        try:
            record = survey(file, begin, end)
        except ValueError:
            following = _next_record(file, begin + 4, end)
            if not damaged:
                yield Fault(str(path), "", begin, f"{following - begin} bytes that are no record of the index")
            begin = following
            continue
        yield Fault(str(path), "", begin, f"a record with the id {record.header.id}, which the index does not have")
        begin, damaged = record.end, False


def walk_without_index(path: Path) -> Iterator[Fault]:
    """Walks the records of a file without an index; after damage, the next record is searched for."""
    with open(path, "rb", buffering=0, opener=regular) as opened:
        file, size, offset = opened.fileno(), os.fstat(opened.fileno()).st_size, 0
        while offset < size:
            try:
                record = survey(file, offset, size)
                if not whole(np.array(record.header.labels[:1], np.float32)).all() and record.image_bytes:
                    yield Fault(
                        str(path),
                        str(record.header.id),
                        offset,
                        f"label {record.header.labels[0]:g} is out of range; {LABELS}",
                    )
                offset = record.end
            except ValueError as error:
                yield Fault(str(path), "", offset, str(error))
                offset = _next_record(file, offset + 4, size)


def _next_record(file: int, offset: int, size: int) -> int:
    """The next multiple of 4 bytes with the number that begins a record; `end` if there is none."""
    offset, step = (offset + 3) // 4 * 4, _FIRST_STEP  # a hostile file can have such a number in every second word
    while offset < size:
        data = os.pread(file, min(step, size - offset), offset)
        places = np.flatnonzero(np.frombuffer(data, "<u4", len(data) // 4) == MAGIC)
        if len(places):
            return offset + 4 * int(places[0])
        offset, step = offset + step, min(2 * step, _LAST_STEP)
    return size


# --- writing ---


def record_bytes(data: bytes) -> bytes:
    """A record with this data, in as many parts as the data need.

    >>> record_bytes(b"face").hex(" ", 4)
    '0a23d7ce 04000000 66616365'
    """
    pieces: list[bytes] = []
    begin = 0
    for cut in _cuts(data):
        if len(pieces) == _MOST_PARTS - 1:
            raise ValueError(f"a record of more than {_MOST_PARTS} parts: its bytes repeat 0x{MAGIC:08x} too often")
        pieces.append(_part(_MIDDLE if begin else _FIRST, data[begin:cut]))
        begin = cut + len(_MAGIC_BYTES)
    pieces.append(_part(_LAST if begin else _WHOLE, data[begin:]))
    return b"".join(pieces)


def image_record(key: int, labels: tuple[int, ...], image: bytes) -> bytes:
    """The data of an image with one label, or of an identity with two labels and no image; the id is the key."""
    if len(labels) == 1:
        return _HEADER.pack(0, labels[0], key, 0) + image
    return _HEADER.pack(len(labels), 0, key, 0) + struct.pack(f"<{len(labels)}f", *labels) + image


def _cuts(data: bytes) -> Iterator[int]:
    place = data.find(_MAGIC_BYTES)
    while place >= 0:
        if place % 4 == 0:
            yield place
        place = data.find(_MAGIC_BYTES, place + 1)


def _part(kind: int, data: bytes) -> bytes:
    return _PART.pack(MAGIC, kind << _LENGTH_BITS | len(data)) + data + bytes(-len(data) % 4)
