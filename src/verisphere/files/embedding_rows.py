"""The rows of an embeddings file in their order, some at a time: for files that are larger than memory should be."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int64

from verisphere.files.embeddings import origin_of, read_embeddings, text_column
from verisphere.files.json_values import shortened, shown
from verisphere.files.npz import header_in_npz, names_in_npz, read_npz, rows_in_npz
from verisphere.files.vectors import is_table
from verisphere.vocabulary import Origin

ROWS_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class EmbeddingRows:
    """An embeddings file whose rows are not held.

    Attributes:
        source: the file.
        names: name of each row, unique.
        size: numbers of a row.
        origin: what made them, where that is known.
        portions: the rows, finite and not of length zero, some at a time; raises ValueError where one is not.
    """

    source: Path
    names: np.ndarray
    size: int
    origin: Origin | None
    portions: Callable[[], Iterator[Float32[np.ndarray, "_ dim"]]]

    def __len__(self) -> int:
        return len(self.names)


def open_rows(path: Path) -> EmbeddingRows:
    """An embeddings file by its names, with its rows to come; identities and other columns are not read.

    Arrays `embeddings` and `names` are needed, and no others. A table of embeddings (.npy, CSV, parquet) is held.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no embeddings file, or two rows have one name.
    """
    if is_table(path):
        held = read_embeddings(path)
        rows = held.embeddings
        return EmbeddingRows(path, held.names, rows.shape[1], held.origin, lambda: iter([rows]))
    present = names_in_npz(path)
    missing = [name for name in ("embeddings", "names") if name not in present]
    if missing:
        raise ValueError(
            f"{path}: no array {' and no array '.join(missing)}; this one has "
            f"{shortened(', '.join(present), 200) or 'nothing'}"
        )
    shape, dtype = header_in_npz(path, "embeddings")
    if len(shape) != 2 or dtype.kind != "f":
        raise ValueError(f"{path}: embeddings must be floating-point (rows, dim), got {dtype} {shape}")
    if not shape[0] * shape[1]:
        raise ValueError(f"{path}: it holds no embedding (shape {shape})")
    arrays = read_npz(path, ("names", "origin"))
    if arrays["names"].shape != shape[:1]:
        raise ValueError(f"{path}: names has shape {arrays['names'].shape} but there are {shape[0]} embeddings")
    names = text_column(path, "names", arrays["names"])
    if len(np.unique(names)) < len(names):
        name, count = Counter(names.tolist()).most_common(1)[0]
        raise ValueError(f"{path}: names must be unique, but {shown(name, 200)} appears {count} times")
    origin = None if "origin" not in arrays else origin_of(path, arrays["origin"])
    return EmbeddingRows(path, names, shape[1], origin, lambda: _checked(path, names))


def _checked(path: Path, names: np.ndarray) -> Iterator[Float32[np.ndarray, "_ dim"]]:
    start = 0
    for portion in rows_in_npz(path, "embeddings", ROWS_AT_ONCE):
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite and is refused
            rows = portion.astype(np.float32, copy=False)
            squares = np.einsum("ij,ij->i", rows, rows)  # one pass finds rows to look at again
        for row in np.flatnonzero(~np.isfinite(squares) | (squares == 0)).tolist():
            what = "hold NaN or infinity" if not np.isfinite(rows[row]).all() else "have length zero"
            if what != "have length zero" or not rows[row].any():
                raise ValueError(f"{path}: some embeddings {what}, the first is {shown(str(names[start + row]), 200)} "
                                 f"(row {start + row})")  # fmt: skip
        yield rows
        start += len(rows)


def rows_named(
    wanted: Sequence[str], names: Sequence[str], lister: str | Path, holder: str | Path
) -> Int64[np.ndarray, " wanted"]:
    """The row of each wanted image, by its exact name, else by its name below a leading folder that all rows share.

    Args:
        wanted: names of images.
        names: name of each row.
        lister: where the images are listed, for errors.
        holder: where the rows lie, for errors.

    Raises:
        ValueError: an image has no row; or all have rows below two different folders.
    """
    place = {name: row for row, name in enumerate(names)}
    if not all(name in place for name in wanted):
        folders = _shared_folders(names)
        complete = [folder for folder in folders if all(folder + name in place for name in wanted)]
        if len(complete) > 1:
            raise ValueError(
                f"{holder}: the images of {lister} lie below {shown(complete[0])} and below {shown(complete[1])}; "
                "rename the rows as the images are named"
            )
        if not complete:
            folder = max(["", *folders], key=lambda folder: sum(folder + name in place for name in wanted))
            lacking = [name for name in wanted if folder + name not in place]
            raise ValueError(
                f"{holder}: no embedding of {len(lacking):,} of {len(wanted):,} images of {lister}, first "
                f"{shown(lacking[0], 200)}; names there look like {shown(str(names[0]), 200)}"
            )
        wanted = [complete[0] + name for name in wanted]
    return np.fromiter((place[name] for name in wanted), np.int64, len(wanted))


def _shared_folders(names: Sequence[str]) -> list[str]:
    """The folders, each with a slash at its end, that all names lie in, from the outermost."""
    low, high = min(names), max(names)  # what the first and the last name share, all share
    parts = []
    for left, right in zip(low.split("/")[:-1], high.split("/")[:-1], strict=False):
        if left != right:
            break
        parts.append(left)
    return ["/".join(parts[: count + 1]) + "/" for count in range(len(parts))]
