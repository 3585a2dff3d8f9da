"""Image files below a folder, inside a zip archive, or in a list: their names, and their bytes on request."""

import hashlib
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from verisphere.base.mapped import Growing
from verisphere.files.archives import LOCAL_HEADER_BYTES, archive_entries, numbers_of, read_entry
from verisphere.files.disk import read_file, regular
from verisphere.files.errors import Fault, FaultError
from verisphere.files.image_suffixes import MAX_BYTES, SUFFIXES, why_unread
from verisphere.files.json_values import shown
from verisphere.images.packs.columns import GrowingTexts, Positions, Texts, sorted_positions, take

_AT_ONCE = 1 << 12  # files whose places are objects of Python at a time
_FOLDER = "\0"  # behind the name of a folder, which is sorted as the beginning of a path
_MOST_FOLDER_LEVELS = 16  # levels of folders; a link that points back at a folder above it ends here


@runtime_checkable
class ImageFiles(Protocol):
    """Image files by position. No file stays open between requests, so that each worker can have a copy.

    Attributes:
        names: path of each image below the folder, inside the archive, or as a list spells it, with / between parts.
        unread: paths of photographs in formats that are not read.
    """

    @property
    def names(self) -> Sequence[str]:
        """Path of each file."""

    @property
    def unread(self) -> Sequence[str]:
        """Path of each photograph in a format that is not read."""

    def keep(self, positions: Positions) -> "ImageFiles":
        """The image files at these positions."""

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """The name of each file for error messages, and its bytes."""

    def place(self, position: int) -> tuple[str, int | None]:
        """The file of an image, and the byte at which its record begins; None where the format has no such byte."""


@dataclass(frozen=True, eq=False)
class ReadInPlace:
    """What readers of image files share: each of the fields `by_image` has an entry for each image, or is None."""

    by_image: ClassVar[tuple[str, ...]] = ("names",)

    @property
    def unread(self) -> Sequence[str]:
        """Nothing: whether an image of a pack is read does not depend on a suffix."""
        return ()

    def keep(self, positions: Positions) -> Any:  # the own kind; beartype takes no Self outside a class
        """The image files at these positions."""
        rows = np.asarray(positions, np.int64)  # a tuple of positions would be an index of several dimensions
        columns = {name: getattr(self, name) for name in self.by_image}
        for name, column in columns.items():
            if column is not None:
                columns[name] = column[rows] if isinstance(column, np.ndarray) else take(column, rows)
        return replace(self, **columns)


def image_files(path: Path, expected: str = f"files at any depth that end in {', '.join(SUFFIXES)}") -> ImageFiles:
    """Every image in a folder and the folders in it, or in a zip archive, sorted by path part by part.

    Hidden files and files without an image suffix are skipped; links are followed.
    """
    if path.is_dir():
        names, _, unread = _images(((name, ()) for name in _walk(path, "")), path, expected)
        return FilesOnDisk(path, names, unread)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder or archive")
    if path.suffix.lower() != ".zip":
        raise ValueError(f"{path}: neither a folder nor a .zip archive")
    return _open_archive(path, expected)


def contents_of(files: ImageFiles, positions: Sequence[int], how: object = None) -> bytes:
    """A digest of the bytes of these files, and of the form in which they are taken."""
    digest = hashlib.sha256(repr(how).encode())
    for start in range(0, len(positions), _AT_ONCE):
        for _, data in files.read(positions[start : start + _AT_ONCE]):
            digest.update(hashlib.sha256(data).digest())
    return digest.digest()


def counted(unread: Sequence[str]) -> str:
    """A sentence on the photographs that are not read: their number, their formats and the reason.

    >>> counted(["a/1.gif", "a/2.avif", "b/1.gif"])
    '3 photographs are not read (.gif 2, .avif 1), the first a/1.gif: .gif is not read; save it as PNG or JPEG'
    """
    formats = Counter(os.path.splitext(name)[1].lower() for name in unread)
    kinds = ", ".join(f"{suffix} {count:,}" for suffix, count in formats.most_common())
    many = f"{len(unread):,} photographs are" if len(unread) > 1 else "1 photograph is"
    return f"{many} not read ({kinds}), the first {unread[0]}: {why_unread(unread[0])}"


def _images(
    files: Iterable[tuple[str, tuple[int, ...]]], where: Path, expected: str
) -> tuple[Texts, Int64[np.ndarray, "images numbers"], tuple[str, ...]]:
    """The paths of images, the numbers of each, and the paths of photographs in formats that are not read; all sorted.

    `files` are paths with the numbers that say where a file lies.
    """
    images, places, unread, others = GrowingTexts(), Growing("q"), list[str](), Counter[str]()
    for path, numbers in files:
        if not _is_text(path):
            raise ValueError(
                f"{where}: the file name {shown(path, 200)} is not UTF-8, so no list can hold it; rename the file"
            )
        suffix = os.path.splitext(path)[1].lower()
        if why_unread(path):
            unread.append(path)
        elif suffix in SUFFIXES:
            images.append(path)
            for number in numbers:
                places.append(number)
        else:
            others[suffix or "none"] += 1
    unread.sort(key=_part_by_part)
    if not len(images):
        others.update(os.path.splitext(path)[1].lower() for path in unread)
        seen = ", ".join(f"{suffix} {count}" for suffix, count in others.most_common(5)) or "no file at all"
        hint = f"; {counted(unread)}" if unread else ""
        raise ValueError(f"{where}: no images; they are looked for as {expected}, and found was: {seen}{hint}")
    names, found = images.texts(), places.array().reshape(len(images), -1)
    if any(one > other for one, other in pairwise(map(_part_by_part, names))):
        order, places = sorted_positions(names, _part_by_part), Growing("q")
        names = names.take(order)
        for start in range(0, len(order), _AT_ONCE):
            places.extend(found[order[start : start + _AT_ONCE]])
        found = places.array().reshape(found.shape)
    return names, found, tuple(unread)


def _part_by_part(path: str) -> str:
    """What sorts paths as lists of their parts do, in less memory: no name has a letter before this one."""
    return path.replace("/", "\0")


def _is_text(name: str) -> bool:
    """Whether a name read from the disk is Unicode; bytes that are not UTF-8 become lone surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


# --- folders ---


@dataclass(frozen=True)
class FilesOnDisk(ReadInPlace):
    """Image files below a folder."""

    root: Path
    names: Sequence[str]
    unread: Sequence[str] = ()

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """The name of each file for error messages, and its bytes."""
        for index in positions:
            name = os.path.join(self.root, self.names[index])
            try:
                data = read_file(name, MAX_BYTES)
            except OSError as error:
                raise FaultError(Fault(name, "", None, f"cannot be read ({error.strerror})")) from None
            yield name, data

    def place(self, position: int) -> tuple[str, None]:
        """The file of an image."""
        return os.path.join(self.root, self.names[position]), None


def _walk(root: Path, below: str, depth: int = 0) -> Iterator[str]:
    """Paths, relative to the root, of all files that are not hidden, sorted part by part; links are followed."""
    if depth > _MOST_FOLDER_LEVELS:
        raise ValueError(f"{root / below}: folders {depth} levels deep; does a link point back at a folder above it?")
    with os.scandir(root / below) as entries:
        visible = [entry.name + _FOLDER * entry.is_dir() for entry in entries if not entry.name.startswith(".")]
    visible.sort()
    for name in visible:
        inside = f"{below}/{name}" if below else name
        if name.endswith(_FOLDER):
            yield from _walk(root, inside.removesuffix(_FOLDER), depth + 1)
        else:
            yield inside


# --- archives ---

_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


@dataclass(frozen=True)
class FilesInArchive(ReadInPlace):
    """Entries of a zip file, read in place.

    The directory is read once, into an array: a `ZipFile` in each worker would take about a kilobyte per image, and
    would share its file position with the other processes.
    """

    by_image = "names", "entries"
    path: Path
    names: Sequence[str]
    entries: Int64[np.ndarray, "images 5"]  # `verisphere.files.archives.numbers_of` each
    unread: Sequence[str] = ()

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """The name of each file for error messages, and its bytes."""
        try:
            with open(self.path, "rb", buffering=0, opener=regular) as file:
                rows = np.asarray(positions, np.int64)
                for path, entry in zip(take(self.names, rows), self.entries[rows].tolist(), strict=True):
                    name = f"{self.path}/{path}"
                    yield name, read_entry(file.fileno(), name, *entry)
        except OSError as error:
            raise FaultError(Fault(str(self.path), "", None, f"cannot be read ({error.strerror})")) from None

    def place(self, position: int) -> tuple[str, int]:
        """The archive, and the byte at which an entry begins."""
        return str(self.path), int(self.entries[position, 0])


def _open_archive(path: Path, expected: str) -> FilesInArchive:
    def found() -> Iterator[tuple[str, tuple[int, ...]]]:
        for info in archive_entries(path):
            for wrong in entry_faults(info, size):
                raise ValueError(f"{path}: entry {shown(info.filename, 200)} {wrong}")
            if not is_hidden(info.filename):
                yield info.filename, numbers_of(info)

    size = path.stat().st_size
    names, entries, unread = _images(found(), path, expected)
    for one, other in pairwise(names):
        if one == other:
            raise ValueError(f"{path}: two entries are named {shown(one, 200)}")
    return FilesInArchive(path, names, entries, unread)


def entry_faults(info: zipfile.ZipInfo, size: int) -> Iterator[str]:
    """The fault of an entry in the directory of an archive of this size in bytes."""
    name = info.filename
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "" in parts or "\\" in name or parts[0].endswith(":"):
        yield "has an unsafe name; archives hold relative paths with / between parts"
    if info.flag_bits & 0x1:
        yield "is encrypted; unpack it and use the folder"
    if info.compress_type not in (_STORED, _DEFLATED):
        yield f"is compressed by method {info.compress_type}; use store or deflate"
    if stat.S_ISLNK(info.external_attr >> 16):
        yield "is a symbolic link"
    if (largest := max(info.file_size, info.compress_size)) > MAX_BYTES:
        yield f"states {largest} bytes, more than the {MAX_BYTES} allowed for an image file"
    if info.header_offset < 0:
        yield "lies before the archive, whose directory states a place past its own end; is it damaged?"
    if info.header_offset >= size:
        yield "lies behind the end of the archive; is it cut short?"


def damaged_entries(path: Path, infos: Sequence[zipfile.ZipInfo]) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """The entries whose bytes cannot be read, differ from their CRC-32, or lie under another name, with the reason."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        for info in infos:
            try:
                read_entry(file.fileno(), f"{path}/{info.filename}", *numbers_of(info))
            except FaultError as error:
                yield info, error.fault.reason
                continue
            stated = os.pread(file.fileno(), len(_raw_name(info)), info.header_offset + LOCAL_HEADER_BYTES)
            if stated != _raw_name(info):
                yield info, f"the entry itself has the name {shown(stated.decode('utf-8', 'replace'), 200)}"


def _raw_name(info: zipfile.ZipInfo) -> bytes:
    return info.orig_filename.encode("utf-8" if info.flag_bits & 0x800 else "cp437", "replace")


def is_hidden(name: str) -> bool:
    """Whether the path of a file has a part that is hidden."""
    # __MACOSX holds the resource forks that macOS adds to archives, under the images' own names.
    # A part "." is not hidden, but no path of a file either: `why_unread` says so.
    return any((part.startswith(".") and part != ".") or part == "__MACOSX" for part in name.split("/"))
