"""Face images from a folder, from a zip archive read in place, or from a list of files."""

import os
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image
from torch import Tensor

from verisphere.data.decode import MAX_BYTES, SUFFIXES, decode
from verisphere.data.faces import Faces
from verisphere.data.lists import read_images, read_people
from verisphere.data.select import positions_of_people, positions_with_images

_LIST_SUFFIXES = (".csv", ".lst", ".txt")
_DEEPEST = 16  # levels of folders; a link that points back at a folder above it ends here


class Photos(Faces):
    """Face images on disk, one folder a person.

    `path` is one of
    - a folder or a zip archive holding `Name/image.jpg`, or the same inside folders that everything shares; images are
      sorted by person, then name. Hidden files and files without an image suffix are passed over.
    - a list (.txt, .csv, .lst) of `image path<TAB>identity` lines, in whose order the images stay; see
      `verisphere.data.lists.read_images`.

    Names are paths below what everything shares (`Name/image.jpg`), or as the list spells them. Images are read and
    decoded on request; nothing stays open between requests, so the set can be copied into worker processes.

    Args:
        path: the folder, archive or list.
        people: a list of people, as `verisphere.data.lists.read_people` reads it; the others are left out.
        min_images: people with fewer images are left out.
        max_images: of people with more images, only the first are kept.
        size: (height, width) of the images; those of another size are resampled to it, by a bilinear filter,
            antialiased when shrinking.
        max_stretch: how much longer an image may become, against its other side, by being resampled to `size`; 1 takes
            images of the same aspect ratio alone.

    Raises:
        FileNotFoundError: nothing is at `path`.
        ValueError: no image is found, an image lies outside a person's folder, a list or an archive is malformed, or
            the restrictions leave nothing; from `images`, naming the image that cannot be read, or whose aspect ratio
            says that it is no aligned crop.
    """

    def __init__(
        self,
        path: str | Path,
        people: str | Path | None = None,
        min_images: int = 1,
        max_images: int | None = None,
        size: tuple[int, int] = (112, 112),
        max_stretch: float = 1.5,
    ) -> None:
        if min(size) < 1:
            raise ValueError(f"size is {size}; allowed are a height and a width of at least 1 pixel")
        if not max_stretch >= 1:
            raise ValueError(f"max_stretch is {max_stretch}; allowed is 1 (no stretching) or more")
        self.path = Path(path).expanduser()
        self.size, self.max_stretch = size, max_stretch
        found = _open(self.path)
        kept = list(range(len(found.names)))
        if people is not None:
            kept = positions_of_people(found.identities, read_people(Path(people).expanduser()))
        enough = positions_with_images([found.identities[index] for index in kept], min_images, max_images)
        kept = [kept[index] for index in enough]
        self.names = tuple(found.names[index] for index in kept)
        self.identities = tuple(found.identities[index] for index in kept)
        self._source = found.source.keep(kept)

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The images at these positions, in this order: RGB, [0, 255], in channels-last memory."""
        pixels = np.empty((len(indices), *self.size, 3), np.uint8)
        for row, (name, data) in enumerate(self._source.read(indices)):
            pixels[row] = _fitted(decode(data, name), name, self.size, self.max_stretch)
        return torch.from_numpy(pixels).permute(0, 3, 1, 2)


def _fitted(
    pixels: UInt8[np.ndarray, "old_height old_width 3"], name: str, size: tuple[int, int], max_stretch: float
) -> UInt8[np.ndarray, "height width 3"]:
    """The image resampled to `size`, (height, width), unless that would distort it beyond use."""
    (height, width), (to_height, to_width) = pixels.shape[:2], size
    if (height, width) == size:
        return pixels
    tall, wide = height * to_width, width * to_height  # products, not ratios: exact at the limit
    if max(tall, wide) > max_stretch * min(tall, wide):
        raise ValueError(
            f"{name}: {width} x {height} pixels, which {to_width} x {to_height} would stretch by a factor of "
            f"{max(tall, wide) / min(tall, wide):.3g}, more than {max_stretch:g}; images must be aligned crops of "
            "faces, is this a photo as the camera took it?"
        )
    return np.asarray(Image.fromarray(pixels).resize((to_width, to_height), Image.Resampling.BILINEAR))


@runtime_checkable
class _Source(Protocol):
    """Where the bytes of images come from; images are known by position."""

    def keep(self, positions: Sequence[int]) -> "_Source":
        """The same, for these images alone."""

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """What to call each image in an error, and its bytes."""


@dataclass(frozen=True)
class _Found:
    """What a scan has found: one name and one identity an image, and where its bytes are."""

    names: Sequence[str]
    identities: Sequence[str]
    source: _Source


def _open(path: Path) -> _Found:
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such folder, archive or list")
    if path.suffix.lower() in _LIST_SUFFIXES:
        listed = read_images(path)
        return _Found(listed.paths, listed.identities, _Files(path.parent, listed.paths))
    if path.suffix.lower() == ".zip":
        return _open_archive(path)
    raise ValueError(f"{path}: neither a folder, a .zip archive nor a list ({' '.join(_LIST_SUFFIXES)})")


# --- folders and lists ---


@dataclass(frozen=True)
class _Files:
    """Image files below a folder."""

    root: Path
    names: Sequence[str]

    def keep(self, positions: Sequence[int]) -> "_Files":
        return _Files(self.root, tuple(self.names[index] for index in positions))

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        for index in positions:
            name = os.path.join(self.root, self.names[index])
            try:
                with open(name, "rb", buffering=0) as file:
                    _check_size(name, os.fstat(file.fileno()).st_size)
                    data = file.read()
            except OSError as error:
                raise ValueError(f"{name}: cannot be read ({error.strerror})") from None
            yield name, data


def _open_folder(path: Path) -> _Found:
    layout = _layout(_walk(path, ""), path)
    return _Found(layout.names, layout.identities, _Files(path / layout.shared, layout.names))


def _walk(root: Path, below: str, depth: int = 0) -> Iterator[str]:
    """Paths, relative to the root, of all files that are not hidden; links are followed."""
    if depth > _DEEPEST:
        raise ValueError(f"{root / below}: folders {depth} levels deep; does a link point back at a folder above it?")
    with os.scandir(root / below) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            inside = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir():
                yield from _walk(root, inside, depth + 1)
            else:
                yield inside


# --- archives ---

_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, then the lengths of the name and of the extra field
_STORED, _DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED


@dataclass(frozen=True)
class _Archive:
    """Entries of a zip file, read where they lie.

    The directory is read once, into an array: a `ZipFile` in each worker would cost about a kilobyte an image there,
    and share its file position with the other processes.
    """

    path: Path
    names: Sequence[str]
    entries: Int64[np.ndarray, "images 5"]  # offset of the local header, stored size, size, method, CRC-32

    def keep(self, positions: Sequence[int]) -> "_Archive":
        return _Archive(self.path, tuple(self.names[index] for index in positions), self.entries[positions])

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        try:
            with open(self.path, "rb", buffering=0) as file:
                for index in positions:
                    name = f"{self.path}/{self.names[index]}"
                    yield name, _entry(file.fileno(), name, *self.entries[index].tolist())
        except OSError as error:
            raise ValueError(f"{self.path}: cannot be read ({error.strerror})") from None


def _entry(file: int, name: str, offset: int, stored: int, size: int, method: int, checksum: int) -> bytes:
    """The bytes of one archive entry, checked against the size and the CRC-32 that the directory states."""
    header = os.pread(file, _LOCAL_HEADER.size, offset)
    if len(header) != _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        raise ValueError(f"{name}: no archive entry at byte {offset}; has the archive changed since it was opened?")
    _, name_length, extra_length = _LOCAL_HEADER.unpack(header)
    data = os.pread(file, stored, offset + _LOCAL_HEADER.size + name_length + extra_length)
    if method == _DEFLATED:
        try:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, size + 1)  # + 1: room to notice a longer one
        except zlib.error as error:
            raise ValueError(f"{name}: damaged archive entry at byte {offset} ({error})") from None
    if len(data) != size or zlib.crc32(data) != checksum:
        raise ValueError(f"{name}: damaged archive entry at byte {offset}: {len(data)} of {size} bytes, or a wrong CRC")
    return data


def _open_archive(path: Path) -> _Found:
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(f"{path}: not a zip archive that can be read ({error})") from None
    by_name: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        _check_entry(path, info)
        if by_name.setdefault(info.filename, info) is not info:
            raise ValueError(f"{path}: two entries are named {info.filename!r}")
    layout = _layout((name for name in by_name if not _is_hidden(name)), path)
    found = [by_name[f"{layout.shared}{name}"] for name in layout.names]
    entries = [(info.header_offset, info.compress_size, info.file_size, info.compress_type, info.CRC) for info in found]
    return _Found(layout.names, layout.identities, _Archive(path, layout.names, np.array(entries, np.int64)))


def _check_entry(path: Path, info: zipfile.ZipInfo) -> None:
    name = info.filename
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "" in parts or "\\" in name or parts[0].endswith(":"):
        raise ValueError(
            f"{path}: entry {name!r} has an unsafe name; archives hold relative paths with / between parts"
        )
    if info.flag_bits & 0x1:
        raise ValueError(f"{path}: entry {name!r} is encrypted; unpack it and use the folder")
    if info.compress_type not in (_STORED, _DEFLATED):
        raise ValueError(f"{path}: entry {name!r} is compressed by method {info.compress_type}; use store or deflate")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise ValueError(f"{path}: entry {name!r} is a symbolic link")
    _check_size(f"{path}/{name}", info.file_size)


def _is_hidden(name: str) -> bool:
    # __MACOSX holds the resource forks that macOS adds to archives, under the images' own names.
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def _check_size(name: str, size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"{name}: {size} bytes, more than the {MAX_BYTES} allowed for an image file")


# --- the layout that folders and archives have in common ---


@dataclass(frozen=True)
class _Layout:
    """Images sorted by person, then name; `shared` is the path above all of them, empty or with a slash at its end."""

    shared: str
    names: tuple[str, ...]
    identities: tuple[str, ...]


def _layout(paths: Iterator[str], where: Path) -> _Layout:
    """Read `Name/image` out of relative paths, passing over files that are no images."""
    images, others = [], Counter[str]()
    for path in paths:
        suffix = os.path.splitext(path)[1].lower()
        if suffix in SUFFIXES:
            images.append(tuple(path.split("/")))
        else:
            others[suffix or "none"] += 1
    if not images:
        seen = ", ".join(f"{suffix} {count}" for suffix, count in others.most_common(5)) or "no file at all"
        raise ValueError(f"{where}: no images; they are looked for as Name/image{SUFFIXES[2]}, and found was: {seen}")
    levels = 0
    first = images[0]
    while all(len(parts) > levels + 2 and parts[levels] == first[levels] for parts in images):
        levels += 1
    for parts in images:
        if len(parts) != levels + 2:
            raise ValueError(
                f"{where}: {'/'.join(parts)!r} is not Name/image: images lie in one folder a person, all at one depth"
            )
    images.sort()
    return _Layout(
        shared="".join(f"{part}/" for part in first[:levels]),
        names=tuple("/".join(parts[levels:]) for parts in images),
        identities=tuple(parts[levels] for parts in images),
    )
