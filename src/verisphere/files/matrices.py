"""Features as MegaFace's development kit writes them: matrices of OpenCV, one file per picture or one for all.

A file begins with four whole numbers of 32 bits, little-endian: rows, columns, bytes from one row to the next, and the
type of the numbers, 5 for float32; the numbers follow, row by row. MegaFace has a file for each picture, of one column
(`<folder>/<path of the picture><ending>`); Trillion-Pairs and LFR2019 have one file with a row for each picture.
(The layout: MegaFace's development kit, and the scripts of deepinsight/insightface that write it.)
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from verisphere.files.disk import check_file, digest, read_file, regular
from verisphere.files.json_values import shown

SUFFIX = ".bin"
_FLOAT32 = 5  # OpenCV's number of the type
_HEADER = np.dtype("<i4").itemsize * 4
_MOST_OF_A_PICTURE = 1 << 20  # bytes of a feature of one picture


def matrix_shape(path: Path) -> tuple[int, int]:
    """Rows and columns of a matrix, whose file must be exactly as long as they state."""
    check_file(path)
    with open(path, "rb", opener=regular) as file:
        head, size = file.read(_HEADER), os.fstat(file.fileno()).st_size
    return _shape(path, head, size)


def matrix_portions(path: Path, rows_at_once: int) -> Iterator[Float32[np.ndarray, "rows columns"]]:
    """The rows of a matrix, in portions; raises the errors of `matrix_shape`."""
    rows, columns = matrix_shape(path)
    with open(path, "rb", opener=regular) as file:
        file.seek(_HEADER)
        for start in range(0, rows, rows_at_once):
            count = min(rows_at_once, rows - start)
            content = file.read(count * columns * 4)
            if len(content) < count * columns * 4:
                raise ValueError(f"{path}: it became shorter while it was read")
            yield np.frombuffer(content, "<f4").reshape(count, columns).astype(np.float32, copy=False)


def pictures_in(folder: Path, ending: str) -> tuple[str, ...]:
    """The pictures that have a feature below a folder: paths of the files without the ending, sorted."""
    names = sorted(
        str(path.relative_to(folder).as_posix()).removesuffix(ending)
        for path in folder.rglob(f"*{ending}")
        if path.is_file()
    )
    if not names:
        raise ValueError(f"{folder}: no file below it ends in {ending!r}; --ending says how feature files end")
    return tuple(names)


def features_of(
    folder: Path, pictures: Sequence[str], ending: str, rows_at_once: int
) -> Iterator[Float32[np.ndarray, "rows dim"]]:
    """The features of listed pictures, in portions, in the order of the list."""
    dim = None
    for start in range(0, len(pictures), rows_at_once):
        rows = []
        for picture in pictures[start : start + rows_at_once]:
            path = folder / f"{picture}{ending}"
            check_file(path, "feature file")
            content = read_file(path, _MOST_OF_A_PICTURE)
            shape = _shape(path, content[:_HEADER], len(content))
            if 1 not in shape:
                raise ValueError(f"{path}: a matrix of {shape[0]} x {shape[1]}; the feature of a picture is one column")
            rows.append(np.frombuffer(content, "<f4", offset=_HEADER))
            dim = dim or len(rows[-1])
            if len(rows[-1]) != dim:
                raise ValueError(f"{path}: {len(rows[-1])} numbers, but the features before it have {dim}")
        yield np.stack(rows).astype(np.float32, copy=False)


def digest_of_features(folder: Path, pictures: Sequence[str], ending: str) -> str:
    """SHA-256 of the digests and names of the feature files, a line for each, in hexadecimal."""
    state = hashlib.sha256()
    for picture in pictures:
        state.update(f"{digest(folder / f'{picture}{ending}')}  {picture}\n".encode())
    return state.hexdigest()


def _shape(path: Path, head: bytes, size: int) -> tuple[int, int]:
    if len(head) < _HEADER:
        raise ValueError(f"{path}: {size} bytes, too few for the header of a matrix of features")
    rows, columns, step, kind = (int(number) for number in np.frombuffer(head, "<i4"))
    if rows < 1 or columns < 1 or step != columns * 4 or kind != _FLOAT32:
        raise ValueError(
            f"{path}: no matrix of features; its header states {shown([rows, columns, step, kind])}, where rows, "
            "columns, 4 x columns and 5 (float32) would stand; a verification set of InsightFace (.bin) holds images"
        )
    if size != _HEADER + rows * step:
        raise ValueError(f"{path}: {rows:,} rows of {columns} take {_HEADER + rows * step:,} bytes, it has {size:,}")
    return rows, columns
