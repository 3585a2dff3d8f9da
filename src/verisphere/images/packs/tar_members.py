"""The members of an uncompressed tar archive: where the content of each regular file lies.

Layout: POSIX.1-1988 ustar and POSIX.1-2001 pax (IEEE Std 1003.1, utility pax, "ustar Interchange Format" and "pax
Interchange Format"), with the long names and large sizes of GNU tar (GNU tar manual, "Basic Tar Format"). Links,
devices, sparse files, and paths that are absolute or have `..` are refused.
"""

import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from verisphere.files.errors import Fault
from verisphere.files.json_values import shown

MOST_TEXT = 1 << 20
"""Most bytes of a small member, a long name or a pax header that is read."""

_BLOCK = 512
_ZEROS = bytes(_BLOCK)
#: Name, size, checksum, type, magic, prefix.
_HEADER = struct.Struct("100s24x12s12x8sc100x6s82x155s12x")
_PAX_RECORD = re.compile(rb"([1-9][0-9]{0,6}) ([^=]+)=")
_COMPRESSIONS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_MOST_PADDING = 1 << 20  # bytes of zeros after the end mark; GNU tar writes up to 10 KiB by default
_AT_ONCE = 2048  # bytes: the header and the text of a small member, and the header after it
_SEARCHED = 1 << 20  # bytes of a damaged archive that are searched for the next header at a time
_LINKS = {b"1": "a link", b"2": "a symbolic link"}
_KINDS = _LINKS | {b"3": "a character device", b"4": "a block device", b"6": "a pipe", b"S": "a sparse file"}


class Member(NamedTuple):
    """A regular file in an archive: its path, and the offset and size of its content in bytes."""

    name: str
    offset: int
    size: int


class Window:
    """Reads of a file at any place through a small buffer, since the next read is mostly close behind."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.name, self._descriptor = str(path), descriptor
        self.size = os.fstat(descriptor).st_size
        self._begin, self._buffer = 0, b""

    def read(self, offset: int, size: int) -> bytes:
        """Bytes at a place; fewer at the end of the file."""
        place = offset - self._begin
        if place < 0 or place + size > len(self._buffer):
            self._begin, self._buffer, place = offset, os.pread(self._descriptor, max(size, _AT_ONCE), offset), 0
        return self._buffer[place : place + size]


def members(file: Window) -> Iterator[Member | Fault]:
    """The regular files of an archive, and the faults of its headers."""
    if file.read(0, _BLOCK).startswith(_COMPRESSIONS):
        reason = "a compressed archive, in which no image can be read by itself; unpack it first"
        yield Fault(file.name, "", 0, reason)
        return
    offset = 0
    extended: dict[bytes, bytes] = {}  # path and size for the next member, from extension headers
    while True:
        header = file.read(offset, _BLOCK)
        if header == _ZEROS:
            yield from _end(file, offset)
            return
        if len(header) < _BLOCK:
            reason = "the archive ends without its end mark, two blocks of zeros; is it cut short?"
            yield Fault(file.name, "", offset, reason)
            return
        try:
            name, stated, _, kind, magic, prefix = _HEADER.unpack(_checked(header))
            size = _number(stated)
            if b"size" in extended:
                size = int(extended[b"size"]) if extended[b"size"].isdigit() else -1
            content = offset + _BLOCK
            if kind in _KINDS and kind != b"S":
                size = 0  # no content follows the header, whatever it states
            if not 0 <= size <= file.size - content:
                raise ValueError(f"a member of {size} bytes, but the archive ends after {file.size - content}")
        except ValueError as error:
            yield Fault(file.name, "", offset, str(error))
            extended = {}
            offset = _next_header(file, offset + _BLOCK)
            continue
        try:
            if kind in b"xL":
                extended |= _extension(kind, size, file, content)
            elif kind == b"g":
                if _extension(b"x", size, file, content):
                    raise ValueError("a global header with a path or a size, which would be that of every member")
            elif kind != b"K":
                path = extended.get(b"path") or _joined(name, prefix, magic)
                extended = {}
                if kind in b"0\0" and not path.endswith(b"/"):
                    yield Member(_checked_path(path), content, size)
                elif kind not in b"5\0":
                    what = _KINDS.get(kind, f"of the type {shown(kind)}")
                    raise ValueError(f"{shown(path, 200)} is {what}; allowed are regular files and folders")
        except ValueError as error:
            yield Fault(file.name, "", offset, str(error))
            extended = {}
        offset = content + (size + _BLOCK - 1) // _BLOCK * _BLOCK


def _checked(header: bytes) -> bytes:
    """A header whose checksum is right.

    The checksum is the sum of the header's bytes, with spaces in the field of the checksum. zlib.adler32 gives the sum
    modulo 65521, ten times faster than a loop. The sum of 512 bytes is below 131072, so the only wrong checksums that
    pass are off by exactly 65521.
    """
    field = header[148:156]
    total = (zlib.adler32(header) & 0xFFFF) - 1 - sum(field) + len(field) * ord(" ")
    if (total - _number(field)) % 65521:
        raise ValueError("no header of a tar archive: its checksum is wrong")
    return header


def _number(field: bytes) -> int:
    """A number of a header: octal digits, or, after a byte 0x80, base 256."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0") or b"0"
    try:
        if digits.isdigit():
            return int(digits, 8)
    except ValueError:
        pass
    raise ValueError(f"no header of a tar archive: {shown(field)} is no octal number")


def _extension(kind: bytes, size: int, file: Window, offset: int) -> dict[bytes, bytes]:
    """The path and size that an extension header of GNU tar (a long name) or pax states for the next member."""
    if size > MOST_TEXT:
        raise ValueError(f"a header of {size:,} bytes; allowed are {MOST_TEXT:,}")
    text = file.read(offset, size)
    if kind == b"L":
        return {b"path": text.rstrip(b"\0")}
    fields: dict[bytes, bytes] = {}
    place = 0
    while place < len(text):
        record = _PAX_RECORD.match(text, place)
        end = place + int(record[1]) if record else 0
        if record is None or not record.end() < end <= len(text) or text[end - 1 : end] != b"\n":
            raise ValueError(f"a malformed pax record at byte {offset + place}")
        if record[2].startswith(b"GNU.sparse."):
            raise ValueError("a sparse file; allowed are regular files and folders")
        if record[2] in (b"path", b"size"):
            fields[record[2]] = text[record.end() : end - 1]
        place = end
    return fields


def _joined(name: bytes, prefix: bytes, magic: bytes) -> bytes:
    """The path of a header; in GNU tar's format, the field of the prefix holds times instead."""
    name = name.partition(b"\0")[0]
    prefix = prefix.partition(b"\0")[0] if magic == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _checked_path(path: bytes) -> str:
    """The path of a member as text, without `./` at its beginning."""
    try:
        name = path.decode()
    except UnicodeDecodeError:
        raise ValueError(f"the path {shown(path, 200)} is not UTF-8") from None
    while name.startswith("./"):
        name = name[2:]
    if not name or "\0" in name or name[0] == "/" or (".." in name and ".." in name.split("/")):
        raise ValueError(f"the path {shown(name, 200)} is unsafe; allowed are relative paths without ..")
    return name


def _end(file: Window, offset: int) -> Iterator[Fault]:
    """The fault of the bytes behind the end mark, which must be zeros."""
    rest = file.size - offset
    if rest > _MOST_PADDING or any(file.read(offset, rest)):
        yield Fault(
            file.name,
            "",
            offset,
            f"{rest:,} bytes from the end mark on, which are no padding (zeros, at most {_MOST_PADDING:,} bytes); "
            "were archives written one behind the other?",
        )


def _next_header(file: Window, offset: int) -> int:
    """The offset of the next block that is a header of ustar, pax or GNU tar, or the end of the file."""
    while offset < file.size:
        blocks = file.read(offset, _SEARCHED)
        for place in range(0, len(blocks), _BLOCK):
            header = blocks[place : place + _BLOCK]
            if header[257:262] == b"ustar":
                try:
                    _checked(header)
                except ValueError:
                    continue
                return offset + place
        offset += len(blocks)
    return file.size
