"""Arrays of an .npz archive: only the requested ones, each checked by its header before it is unpacked."""

import ast
import lzma
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from verisphere.files.disk import check_file, regular
from verisphere.files.json_values import shown

# A file may unpack to `_MOST_UNPACKED` bytes, or to `_MOST_COMPRESSION` times its own size, whichever is more. What
# `numpy.savez` writes unpacks to its own size, so a large file is refused only if it was compressed a hundredfold.
_MOST_UNPACKED, _MOST_COMPRESSION = 1 << 26, 100
_LONGEST_HEADER = 10_000  # bytes; the limit of numpy, whose own headers take about a hundred
_BYTES_AT_ONCE = 1 << 20
_NPY = ".npy"
_TYPE = re.compile(
    r"[<>|=]?[?A-Za-z][0-9]*(\[[0-9]*[A-Za-z]+\])?"
)  # <f4, <U12, <M8[us]; no records, no arrays in arrays
# What zipfile and zlib raise for an archive that is damaged or encrypted.
_DAMAGE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OverflowError)


def read_npz(path: str | Path, names: Collection[str]) -> dict[str, np.ndarray]:
    """Those of the named arrays that an .npz file has. Nothing in it is executed, and no other array is read."""
    with _opened(path) as (archive, size):
        entries = _entries(archive)
        wanted = {name: entries[name] for name in names if name in entries}
        _check_size(wanted.values(), size)
        return {name: _array(archive, entry, size) for name, entry in wanted.items()}


def most_unpacked(size: int) -> int:
    """Most bytes to which a file of `size` bytes may unpack, whatever its format."""
    return max(_MOST_UNPACKED, _MOST_COMPRESSION * size)


def _check_size(wanted: Collection[zipfile.ZipInfo], size: int) -> None:
    """Refuse arrays that unpack to far more bytes than the archive has."""
    unpacked, most = sum(entry.file_size for entry in wanted), most_unpacked(size)
    if unpacked > most:
        names = ", ".join(entry.filename.removesuffix(_NPY) for entry in wanted)
        raise ValueError(
            f"{names} would unpack to {unpacked:,} bytes; from a file of {size:,} bytes at most "
            f"{most:,} are unpacked; save it by numpy.savez, without compression"
        )


def header_in_npz(path: str | Path, name: str) -> tuple[tuple[int, ...], np.dtype]:
    """Shape and type of an array of an .npz file, without reading it; raises the errors of `read_npz`."""
    with _opened(path) as (archive, size):
        entry = _named(archive, name)
        with _entry(archive, entry, size) as read:
            shape, dtype, _, length = _header(read)
            _check_length(shape, dtype, length, entry.file_size)
    return shape, dtype


def rows_in_npz(path: str | Path, name: str, rows_at_once: int) -> Iterator[np.ndarray]:
    """The rows of an array of an .npz file, in portions, so that the array is never held.

    The checksum of the array is compared after the last rows. An array in Fortran order is held nevertheless, since its
    rows are not contiguous.
    """
    with _opened(path) as (archive, size):
        entry = _named(archive, name)
        _check_size([entry], size)
        with _entry(archive, entry, size) as read:
            shape, dtype, fortran, length = _header(read)
            _check_length(shape, dtype, length, entry.file_size)
            if fortran:
                whole = _filled(read, math.prod(shape), dtype).reshape(shape[::-1]).T
            for start in range(0, shape[0], rows_at_once):
                part = (min(rows_at_once, shape[0] - start), *shape[1:])
                yield whole[start : start + part[0]] if fortran else _filled(read, math.prod(part), dtype).reshape(part)
            read(1)  # at the end of the entry its checksum is compared


def _named(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    entries = _entries(archive)
    if name not in entries:
        raise ValueError(f"it has no array {name}, but {shown(', '.join(entries), 200)}")
    return entries[name]


def names_in_npz(path: str | Path) -> tuple[str, ...]:
    """Names of the arrays of an .npz file, from its directory alone; raises the errors of `read_npz`."""
    with _opened(path) as (archive, _):
        return tuple(_entries(archive))


@contextmanager
def _opened(path: str | Path) -> Iterator[tuple[zipfile.ZipFile, int]]:
    """An archive, and its size in bytes; every fault of it is raised as one ValueError that names the file."""
    path = Path(path)
    check_file(path)
    try:
        with open(path, "rb", opener=regular) as file:
            if not zipfile.is_zipfile(file):
                raise ValueError(
                    "it is no zip archive; single arrays are not read, and pickles of Python objects are never loaded"
                )
            file.seek(0)
            with zipfile.ZipFile(file) as archive:
                yield archive, path.stat().st_size
    except (ValueError, *_DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # such as a missing permission, which is no fault of the content
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(f"{path}: not an .npz file of plain arrays: {reason[:300]}") from None


def _entries(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of an archive by their names; other entries are ignored."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(_NPY)
        if name != info.filename and entries.setdefault(name, info) is not info:
            raise ValueError(f"it has two arrays named {shown(name)}")
    return entries


def read_npy(path: str | Path) -> np.ndarray:
    """The array of an .npy file. Nothing in it is executed."""
    path = Path(path)
    check_file(path)
    with open(path, "rb", opener=regular) as file:
        try:
            return _read(file.read, path.stat().st_size)
        except ValueError as error:
            raise ValueError(f"{path}: not an .npy file of plain numbers or text: {error}") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> np.ndarray:
    """An array; its entry must be exactly as long as its header states."""
    with _entry(archive, entry, size) as read:
        array = _read(read, entry.file_size)
        read(1)  # at the end of the entry its checksum is compared
    return array


@contextmanager
def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> Iterator[Callable[[int], bytes]]:
    """A reader of the bytes of an array; every ValueError names the array."""
    name = shown(entry.filename.removesuffix(_NPY))
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.header_offset >= size:
        raise ValueError(f"array {name} lies outside the file, or is compressed by another method than deflate")
    with archive.open(entry) as file:
        try:
            yield file.read
        except ValueError as error:
            raise ValueError(f"array {name}: {error}") from None


def _read(read: Callable[[int], bytes], size: int) -> np.ndarray:
    """An array in numpy's format; its length in bytes must be exactly what its header states."""
    shape, dtype, fortran, length = _header(read)
    _check_length(shape, dtype, length, size)
    flat = _filled(read, math.prod(shape), dtype)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _check_length(shape: tuple[int, ...], dtype: np.dtype, header: int, size: int) -> None:
    """Refuse an array whose length in bytes is not exactly what its header states."""
    content = math.prod(shape) * dtype.itemsize
    if header + content != size:
        raise ValueError(f"shape {shape} of {dtype} takes {content:,} bytes, but {size - header:,} follow")


def _filled(read: Callable[[int], bytes], count: int, dtype: np.dtype) -> np.ndarray:
    """Numbers of this type in one row, read from the bytes."""
    flat = np.empty(count, dtype)
    into, done, content = flat.view(np.uint8), 0, count * dtype.itemsize
    while done < content:
        part = read(min(_BYTES_AT_ONCE, content - done))
        if not part:
            raise ValueError("it is cut short")
        into[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if dtype.kind == "b" and into.max(initial=0) > 1:
        raise ValueError("it holds truths in bytes other than 0 and 1")
    return flat


def _header(read: Callable[[int], bytes]) -> tuple[tuple[int, ...], np.dtype, bool, int]:
    """Shape, type, Fortran order, and length of the header; see numpy.lib.format."""
    begin = read(8)
    wide = 2 if begin[6:7] == b"\x01" else 4
    if len(begin) < 8 or begin[:6] != b"\x93NUMPY" or begin[6] not in (1, 2, 3):
        raise ValueError("it does not begin as an array of numpy does")
    length = int.from_bytes(read(wide), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"its header takes {length:,} bytes; allowed are {_LONGEST_HEADER:,}")
    text = read(length).decode("utf-8" if begin[6] == 3 else "latin1")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about an unusual spelling; the value is checked below
            fields = ast.literal_eval(text)
        descr, fortran, shape = (fields[key] for key in ("descr", "fortran_order", "shape"))
    except (ValueError, TypeError, KeyError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"its header is not one of numpy: {shown(text)}") from None
    if (
        type(shape) is not tuple
        or len(shape) > 32
        or not all(type(side) is int and 0 <= side < 1 << 63 for side in shape)
    ):
        raise ValueError(f"its shape is {shown(shape)}; allowed is a tuple of at most 32 whole numbers from 0")
    if type(fortran) is not bool:
        raise ValueError(f"its fortran_order is {shown(fortran)}, not True or False")
    try:
        dtype = np.dtype(descr) if type(descr) is str and _TYPE.fullmatch(descr) else None
    except (ValueError, TypeError, MemoryError):
        dtype = None
    if dtype is None or (dtype.itemsize == 0 and not dtype.hasobject):
        raise ValueError(f"its type is {shown(descr)}; allowed are numbers and text")
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded; save plain arrays")
    return shape, dtype, fortran, 8 + wide + length
