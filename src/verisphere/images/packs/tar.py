"""Tar archives of WebDataset: a sample is consecutive members with one key, `KEY.jpg` with `KEY.cls` or `KEY.json`.

Layout: that of WebDataset (github.com/webdataset/webdataset, `base_plus_ext` and `group_by_keys`): the key is all of a
path up to the first dot of its last part. Folders, members whose last part begins with a dot or has none, and members
named `__...__` are skipped, as there.

The archive must be uncompressed. It is indexed when it is opened: one read for each sample, of its headers and small
members; images are skipped.

Layout of the archive: POSIX.1-1988 ustar and POSIX.1-2001 pax (IEEE Std 1003.1, utility pax, "ustar Interchange Format"
and "pax Interchange Format"), with the long names and large sizes of GNU tar (GNU tar manual, "Basic Tar Format").
Links, devices, sparse files, and paths that are absolute or have `..` are refused.
"""

import json
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from verisphere.files.disk import regular
from verisphere.files.documents import read_json
from verisphere.files.errors import Fault, fault_of
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.json_values import shortened, shown
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.records import LONGEST_IMAGE_NAME, Record, as_text, contents_of_records, text_fault

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


class BufferedReads:
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


def members(file: BufferedReads) -> Iterator[Member | Fault]:
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


def _extension(kind: bytes, size: int, file: BufferedReads, offset: int) -> dict[bytes, bytes]:
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


def _end(file: BufferedReads, offset: int) -> Iterator[Fault]:
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


def _next_header(file: BufferedReads, offset: int) -> int:
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


_META = re.compile(r"__[^/]*__($|/)")
_IMAGES = frozenset(suffix.removeprefix(".") for suffix in SUFFIXES)
_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
_SHARDS = re.compile(r"(.*)\{([0-9]{1,9})\.\.([0-9]{1,9})\}(.*\.tar)", re.DOTALL)
_MOST_SHARDS = 100_000


def is_tar(path: Path) -> bool:
    """Whether a path is meant as a WebDataset: a tar archive, shards in braces, or a folder with nothing but shards."""
    if path.is_dir():
        return bool(_shards_in(path))
    return path.name.lower().endswith((".tar", *_COMPRESSED))


def is_brace_form(path: Path) -> bool:
    """Whether a path stands for numbered shards, such as `faces-{000000..000012}.tar`."""
    return _SHARDS.fullmatch(path.name) is not None


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The samples of a WebDataset, in their order; after a damaged header, the next one is searched for.

    The identity of a sample is the text of `KEY.cls`, or `identity`, `label` or `cls` of the object in `KEY.json`,
    which may have a `name` and a `domain` too. Without `name`, the name of the image is the path of its member. The
    archives of a folder, which has nothing else but descriptions (.json .txt .csv .md), are read in the order of their
    names.
    """
    shards = _shards(path)
    return (yield from contents_of_records(path, TAR.name, shards, _records(shards), thorough))


def _shards(path: Path) -> tuple[Path, ...]:
    if path.is_dir():
        return _shards_in(path)
    if path.exists():
        return (path,)
    braces = _SHARDS.fullmatch(path.name)
    if braces is None:
        raise FileNotFoundError(f"{path}: no such archive")
    before, first, last, after = braces.groups()
    if not 0 <= int(last) - int(first) < _MOST_SHARDS:
        raise ValueError(f"{path}: {first}..{last} are no 1 to {_MOST_SHARDS:,} shards")
    numbers = range(int(first), int(last) + 1)
    shards = tuple(path.with_name(f"{before}{number:0{len(first)}}{after}") for number in numbers)
    for shard in shards:
        if not shard.is_file():
            raise FileNotFoundError(f"{shard}: no such shard of {path.name}")
    return shards


def _shards_in(folder: Path) -> tuple[Path, ...]:
    """The archives in a folder, sorted; empty if the folder has anything but archives and descriptions."""
    shards = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.lower()
            if name.endswith(".tar") and entry.is_file():
                shards.append(folder / entry.name)
            elif not name.endswith((".json", ".txt", ".csv", ".md")) and not name.startswith("."):
                return ()
    return tuple(sorted(shards))


# --- samples ---


def _records(shards: tuple[Path, ...]) -> Iterator[Record | Fault]:
    """The sample of each key in each shard, or its fault."""
    for part, path in enumerate(shards):
        try:
            with open(path, "rb", buffering=0, opener=regular) as opened:
                file = BufferedReads(path, opened.fileno())
                yield from _samples(file, part)
        except OSError as error:
            yield Fault(str(path), "", None, f"cannot be read ({error.strerror})")
        except ValueError as error:
            yield fault_of(error, path)


def _samples(file: BufferedReads, part: int) -> Iterator[Record | Fault]:
    key = ""
    sample: dict[str, Member] = {}
    for member in members(file):
        if isinstance(member, Fault):
            yield member
            continue
        name = member.name
        begin = name.rfind("/") + 1
        dot = name.find(".", begin)
        if dot <= begin or (name.startswith("__") and _META.match(name)):
            continue
        if name[:dot] != key:
            if sample:
                yield from _sample(file, part, sample)
            key, sample = name[:dot], {}
        suffix = name[dot + 1 :].lower()
        if suffix in sample:
            yield Fault(file.name, name, member.offset, f"the sample {shown(key, 200)} has two members .{suffix}")
        elif suffix in _IMAGES or suffix in ("cls", "json"):
            sample[suffix] = member
    if sample:
        yield from _sample(file, part, sample)


def _sample(file: BufferedReads, part: int, sample: dict[str, Member]) -> Iterator[Record | Fault]:
    """The record of a sample, or its fault."""
    images = [member for suffix, member in sample.items() if suffix in _IMAGES]
    first = images[0] if images else next(iter(sample.values()))
    try:
        fields = _fields(file, sample)
        if len(images) > 1:
            raise ValueError(f"{len(images)} images in one sample; the key of a sample ends at the first dot")
        if not images:
            raise ValueError("a sample without an image; all members of a sample follow one another")
        name, identity, domain = fields.get("name", first.name), fields.get("identity"), fields.get("domain")
        if identity is None:
            raise ValueError("a sample without an identity; it lies in KEY.cls or KEY.json, next to the image")
        reason = (
            text_fault("name", name, LONGEST_IMAGE_NAME)
            or text_fault("identity", identity)
            or (None if domain is None else text_fault("domain", domain))
        )
        if reason:
            raise ValueError(reason)
    except ValueError as error:
        yield Fault(file.name, shortened(first.name, 200), first.offset, str(error))
        return
    yield Record(str(name), str(identity), first.offset, first.size, None if domain is None else str(domain), part)


def _fields(file: BufferedReads, sample: dict[str, Member]) -> dict[str, object]:
    """Name, identity and domain, as far as the small members of a sample state them."""
    fields: dict[str, object] = {}
    if "json" in sample:
        content = read_json(_text(file, sample["json"]))
        if not isinstance(content, dict):
            raise ValueError(f"its .json is {shown(content)}, not an object")
        stated = [as_text(content[name]) for name in ("identity", "label", "cls") if content.get(name) is not None]
        fields = {name: as_text(content[name]) for name in ("name", "domain") if content.get(name) is not None}
        if stated:
            fields["identity"] = stated[0]
    if "cls" in sample:
        identity = _text(file, sample["cls"]).strip()
        if fields.setdefault("identity", identity) != identity:
            raise ValueError(f".json has the identity {shown(fields['identity'])}, and .cls has {shown(identity)}")
    return fields


def _text(file: BufferedReads, member: Member) -> str:
    suffix = member.name[member.name.rfind(".") :]
    if member.size > MOST_TEXT:
        raise ValueError(f"its {suffix} has {member.size:,} bytes; allowed are {MOST_TEXT:,}")
    try:
        return file.read(member.offset, member.size).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"its {suffix} is not UTF-8 text (byte {member.offset + error.start})") from None


# --- writing ---


def write_tar(path: Path, rows: Iterable[Row]) -> None:
    """Writes samples `000000000.jpg` and `000000000.json`; the object in .json has the name, identity and domain."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number, row in enumerate(rows):
            suffix = os.path.splitext(row.name)[1].lower()
            fields = {"name": row.name, "identity": row.identity}
            if row.domain is not None:
                fields["domain"] = row.domain
            text = json.dumps(fields, ensure_ascii=False).encode()
            for ending, content in ((suffix if suffix in SUFFIXES else ".jpg", row.data), (".json", text)):
                member = tarfile.TarInfo(f"{number:09}{ending}")
                member.size = len(content)
                archive.addfile(member, BytesIO(content))
            archive.members = []  # type: ignore[attr-defined]  # else it holds the header of every member


TAR = Format(
    "tar",
    "a .tar of WebDataset (KEY.jpg with KEY.cls or KEY.json), a folder of such shards, or shards-{000..012}.tar",
    is_tar,
    _contents,
    write_tar,
    ".tar",
)
