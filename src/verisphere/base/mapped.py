"""Rows in temporary files that are mapped into memory, so that a set can be larger than the memory.

Rows that are read from shards are mapped, and so is what is made of mapped rows, row by row; so are the names and the
places of the images of a large set. The system reads a page when it is needed and drops it when memory runs short. A
file has no name, so its space is free when the process ends, however it ends. Files lie where `tempfile` puts them:
`TMPDIR` names another disk.
"""

import ctypes
import math
import os
import sys
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import MADV_NORMAL, MADV_RANDOM, MADV_WILLNEED, PAGESIZE, mmap
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
import torch
from jaxtyping import Float32, Int64, Shaped
from torch import Tensor

Rows = TypeVar("Rows", Tensor, np.ndarray)
Places: TypeAlias = Int64[Tensor, " places"] | Int64[np.ndarray, " places"]

_BYTES_AT_ONCE = 1 << 24  # ordered at once in memory
_BYTES_IN_MEMORY = 1 << 20  # of an array that grows


def is_mapped(rows: Tensor | np.ndarray) -> bool:
    """Whether rows, or those that they are a part of, lie in a mapped file."""
    base: object = rows
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap) or (isinstance(base, Tensor) and base.untyped_storage().filename is not None)


def room(shape: tuple[int, ...], dtype: torch.dtype, mapped: bool) -> Shaped[Tensor, "*shape"]:
    """Uninitialised memory on the CPU, or a mapped file of this size; OSError if there is no space for it."""
    if not mapped:
        return torch.empty(shape, dtype=dtype)
    numbers = math.prod(shape)
    with tempfile.NamedTemporaryFile(prefix="verisphere-") as file:
        size = max(numbers * dtype.itemsize, 1)
        try:  # space that was not reserved would be missed when a page is written, which ends the process
            if sys.platform == "linux":
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                os.truncate(file.fileno(), size)
        except OSError as error:
            raise _no_space(error, size) from None
        return torch.from_file(file.name, shared=True, size=numbers, dtype=dtype).view(shape)


def _no_space(error: OSError, size: int) -> OSError:
    what = f"{tempfile.gettempdir()}, where {size:,} bytes of rows were to be mapped (TMPDIR names another disk)"
    return OSError(error.errno, error.strerror, what)


class Growing:
    """Numbers that are appended one after another, in a mapped file once they are many.

    >>> ends = Growing("q")
    >>> ends.append(5)
    >>> ends.extend(np.array([7, 9]))
    >>> ends.array().tolist(), len(ends)
    ([5, 7, 9], 3)
    >>> ends.array().dtype.char == np.dtype(np.int64).char
    True
    """

    def __init__(self, kind: str) -> None:
        """Begin without numbers, of a type that the module `array` names by a letter."""
        self._memory: array[Any] = array(kind)
        self._file: IO[bytes] | None = None
        self._written = 0
        self._most = _BYTES_IN_MEMORY // self._memory.itemsize

    def __len__(self) -> int:
        return self._written + len(self._memory)

    def append(self, number: int) -> None:
        """Append a number."""
        self._memory.append(number)
        if len(self._memory) > self._most:
            self._write()

    def extend(self, numbers: bytes | np.ndarray) -> None:
        """Append numbers of the type of this array."""
        self._memory.frombytes(numbers if isinstance(numbers, bytes) else numbers.tobytes())
        if len(self._memory) > self._most:
            self._write()

    def array(self) -> np.ndarray:
        """All numbers; nothing is appended afterwards."""
        kind = np.dtype(self._memory.typecode).str  # int64 for "q", which NumPy takes for another type of 8 bytes
        if self._file is None:
            return np.array(self._memory, kind)
        self._write()
        with self._file as file:
            return np.asarray(np.memmap(file, kind, "r"))

    def _write(self) -> None:
        try:
            self._file = self._file or tempfile.TemporaryFile(prefix="verisphere-")  # noqa: SIM115
            self._file.write(self._memory)
            self._file.flush()
        except OSError as error:
            raise _no_space(error, len(self) * self._memory.itemsize) from None
        self._written += len(self._memory)
        del self._memory[:]


def rows_at(rows: Rows, places: Int64[np.ndarray, " places"] | Shaped[np.ndarray, " mask"]) -> Rows:
    """Rows at these positions, or that are True in a mask; of mapped rows a mapped copy.

    Mapped rows are read once, in their order, and brought into the vicinity of their places; each vicinity is then
    ordered in memory. Rows that are read in a random order would each cost a piece of the disk many times as long.

    >>> rows_at(np.eye(3, dtype=np.float32), np.array([2, 0]))[:, 0].tolist()
    [0.0, 1.0]
    """
    if not is_mapped(rows):
        return rows[places] if isinstance(rows, np.ndarray) else rows[torch.from_numpy(places)]
    places = np.flatnonzero(places) if places.dtype == bool else places
    kept = room((len(places), *rows.shape[1:]), torch.float32, mapped=True)
    into, source = kept.numpy(), np.asarray(rows)
    step = max(_BYTES_AT_ONCE // max(source[:1].nbytes, 1), 1)
    by_source = np.argsort(places, kind="stable")
    arrivals = np.argsort(by_source // step, kind="stable")
    near = np.empty_like(arrivals)
    near[arrivals] = np.arange(len(arrivals))
    with read_singly(into):
        for start in range(0, len(places), step):
            into[near[start : start + step]] = source[places[by_source[start : start + step]]]
    for start in range(0, len(places), step):
        vicinity = into[start : start + step]
        ordered = np.empty_like(vicinity)
        ordered[by_source[arrivals[start : start + step]] - start] = vicinity
        vicinity[:] = ordered
    return into if isinstance(rows, np.ndarray) else kept


def few_rows_at(rows: Float32[np.ndarray, "rows dim"], places: Int64[np.ndarray, " places"]) -> np.ndarray:
    """Few rows in memory; of mapped rows all are asked for at once, and no neighbours are read along with them."""
    with read_singly(rows):
        read_now(rows, places)
        return rows[places]


@contextmanager
def read_singly(*sets: Tensor | np.ndarray) -> Iterator[None]:
    """Inside this context a page of mapped rows is read by itself, without those that follow it."""
    for rows in sets:
        _advise(rows, MADV_RANDOM)
    try:
        yield
    finally:
        for rows in sets:
            _advise(rows, MADV_NORMAL)


def read_now(rows: Tensor | np.ndarray, places: Places | None = None) -> None:
    """Begin to read mapped rows, all or those at these positions, and wait for none of them."""
    _advise(rows, MADV_WILLNEED, places)


def _advise(rows: Tensor | np.ndarray, advice: int, places: Places | None = None) -> None:
    if is_mapped(rows):
        start = rows.data_ptr() if isinstance(rows, Tensor) else rows.__array_interface__["data"][0]
        size, madvise = rows[:1].nbytes if len(rows) else 0, ctypes.CDLL(None).madvise
        stretches = (
            [(0, len(rows))] if places is None else [(place, 1) for place in np.unique(np.asarray(places)).tolist()]
        )
        for place, count in stretches:
            first = start + place * size
            page = first // PAGESIZE * PAGESIZE
            madvise(ctypes.c_void_p(page), ctypes.c_size_t(first + count * size - page), advice)


def joined(parts: Sequence[Float32[np.ndarray, "_ dim"]]) -> Float32[np.ndarray, "rows dim"]:
    """The rows of several sets, one after another; mapped if those of any set are."""
    if not any(map(is_mapped, parts)):
        return np.concatenate(parts)
    whole = room((sum(map(len, parts)), *parts[0].shape[1:]), torch.float32, mapped=True).numpy()
    return np.concatenate(parts, out=whole)
