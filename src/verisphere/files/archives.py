"""The entries of a zip archive, read in place: `zipfile` would hold an object for each of them."""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError

_BLOCK = 1 << 20  # bytes of a directory that are parsed at a time; no entry has as many
_END = struct.Struct("<4s8xLLH")  # signature, bytes of the directory, where it begins, bytes of the comment
_LONGEST_END = _END.size + (1 << 16) - 1
_END_64, _LOCATOR = struct.Struct("<4s36xQQ"), struct.Struct("<4s16x")  # where archives of 4 GiB and more state these
_ENTRY = struct.Struct("<4s24x3H12x")  # signature, then the lengths of the name, the extra field and the comment
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of the name and of the extra field
LOCAL_HEADER_BYTES = _LOCAL_HEADER.size
_USUAL_NAME = 256  # bytes of a name and an extra field together


def archive_entries(path: Path) -> Iterator[zipfile.ZipInfo]:
    """The entries of an archive except folders, in the order of its directory."""
    try:
        with open(path, "rb", opener=regular) as file:
            yield from (entry for entry in _entries(file) if not entry.filename.endswith("/"))
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"{path}: not a zip archive that can be read ({error})") from None


def _entries(file: BinaryIO) -> Iterator[zipfile.ZipInfo]:
    """All entries; `zipfile` parses each block of the directory as an archive of its own."""
    begin, remaining, shift = _directory(file)
    file.seek(begin)
    block = b""
    while remaining or block:
        more = file.read(min(_BLOCK, remaining))
        block += more
        remaining = remaining - len(more) if more else 0
        end = after = 0
        while after <= len(block):
            end = after
            if end + _ENTRY.size > len(block):
                break
            after = end + _ENTRY.size + sum(_ENTRY.unpack_from(block, end)[1:])
        end = end or len(block)  # not even one: `zipfile` says so
        with zipfile.ZipFile(io.BytesIO(block[:end] + _END.pack(b"PK\x05\x06", end, 0, 0))) as parsed:
            entries = parsed.infolist()
        for entry in entries:
            entry.header_offset += shift
            yield entry
        block = block[end:]


def _directory(file: BinaryIO) -> tuple[int, int, int]:
    """Where the directory of an archive begins, its bytes, and by how much the places that it states are too small."""
    size = file.seek(0, os.SEEK_END)
    before = file.seek(max(size - _LONGEST_END - _LOCATOR.size - _END_64.size, 0))
    tail = file.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or end + _END.size > len(tail):
        raise zipfile.BadZipFile("File is not a zip file")
    _, length, stated, _ = _END.unpack_from(tail, end)
    end_64 = end - _LOCATOR.size - _END_64.size
    if end_64 >= 0 and tail[end - _LOCATOR.size :][:4] == b"PK\x06\x07" and tail[end_64:][:4] == b"PK\x06\x06":
        _, length, stated = _END_64.unpack_from(tail, end_64)
        end = end_64
    begin = before + end - length
    if begin < 0:
        raise zipfile.BadZipFile("Bad offset for central directory")
    return begin, length, begin - stated


def numbers_of(entry: zipfile.ZipInfo) -> tuple[int, int, int, int, int]:
    """What `read_entry` takes: place of the local header, stored size, size, method, and CRC-32."""
    return entry.header_offset, entry.compress_size, entry.file_size, entry.compress_type, entry.CRC


def read_entry(file: int, name: str, offset: int, stored: int, size: int, method: int, checksum: int) -> bytes:
    """The bytes of an archive entry, checked against the size and the CRC-32 in the directory."""
    # One call reads the header and, as long as names and extra fields have a usual length, the whole entry behind it.
    entry = os.pread(file, _LOCAL_HEADER.size + _USUAL_NAME + stored, offset)
    if len(entry) < _LOCAL_HEADER.size or entry[:4] != b"PK\x03\x04":
        raise _damaged(name, f"no archive entry at byte {offset}; has the archive changed since it was opened?")
    _, name_length, extra_length = _LOCAL_HEADER.unpack_from(entry)
    begin = _LOCAL_HEADER.size + name_length + extra_length
    data = entry[begin : begin + stored]
    if len(data) < stored:
        data = os.pread(file, stored, offset + begin)
    if method == zipfile.ZIP_DEFLATED:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)  # + 1: detects a longer entry
        except zlib.error as error:
            raise _damaged(name, f"damaged archive entry at byte {offset} ({error})") from None
    if len(data) != size:
        more = " or more" if len(data) > size else ""
        raise _damaged(name, f"damaged archive entry at byte {offset}: {len(data)}{more} of {size} bytes")
    if (found := zlib.crc32(data)) != checksum:
        stated = f"its bytes have the CRC-32 {found:08x}, the directory states {checksum:08x}"
        raise _damaged(name, f"damaged archive entry at byte {offset}: a wrong CRC, {stated}")
    return data


def _damaged(name: str, reason: str) -> FaultError:
    return FaultError(Fault(name, "", None, reason))
