"""Rows of float32 numbers in a file that only grows: a database says how many of them count.

Rows are written behind those that count and reach the disk before the database counts them. What a killed process has
written behind them is overwritten by the next.
"""

import os
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from verisphere.files.disk import regular


def mapped_rows(path: Path, rows: int, dim: int) -> Float32[np.ndarray, "rows dim"]:
    """The first rows of a file, mapped into memory and not read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is shorter.
    """
    size = path.stat().st_size
    if size < 4 * rows * dim:
        raise ValueError(
            f"{path}: {size:,} bytes, but {rows:,} rows of {dim} numbers take {4 * rows * dim:,}: cut short"
        )
    if not rows:
        return np.empty((0, dim), np.float32)
    with open(path, "rb", opener=regular) as file:
        return np.memmap(file, "<f4", "r", shape=(rows, dim))


def append_rows(path: Path, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
    """Write rows behind the first ones of a file, in place of whatever follows them, and wait for the disk."""
    with open(path, "r+b", opener=regular) as file:
        file.truncate(4 * first * rows.shape[1])
        file.seek(0, os.SEEK_END)
        try:
            file.write(np.ascontiguousarray(rows, "<f4").data)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:  # of a full disk, without a name
            raise OSError(error.errno, error.strerror, str(path)) from None
