"""Arrays from the values of a caller: arrays, tensors on any device, or lists."""

from typing import Any

import numpy as np
from jaxtyping import Float32


def refuse_masked(name: str, values: Any) -> None:
    """Refuse arrays with masked values, or lists of such: below a mask lies any number, which would be read as one."""
    parts = values if isinstance(values, list | tuple) else (values,)
    if masked := sum(int(np.ma.getmaskarray(part).sum()) for part in parts if isinstance(part, np.ma.MaskedArray)):
        raise ValueError(f"{name}: {masked:,} masked values; exclude their rows, which no mask removes")


def array_of(name: str, values: Any) -> np.ndarray:
    """An array from a caller's value: an array, a tensor on any device, or lists of numbers, text or tensors.

    >>> array_of("weights", [1.5, 2.5])
    array([1.5, 2.5])
    """
    refuse_masked(name, values)
    if hasattr(values, "detach"):  # a tensor; torch is not imported here, so that the command line starts quickly
        values = values.detach().cpu()
        return values.float().numpy() if str(values.dtype) == "torch.bfloat16" else values.numpy()
    if isinstance(values, list | tuple) and any(hasattr(value, "detach") for value in values):
        values = [array_of(name, value) for value in values]
    try:
        return np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} has rows of different lengths; all take as many numbers") from None


def rows_of_numbers(embeddings: Any) -> Float32[np.ndarray, "rows dim"]:
    """Embeddings as float32; numbers beyond float32 become infinite."""
    rows = array_of("embeddings", embeddings)
    if rows.ndim != 2:
        raise ValueError(f"embeddings has shape {rows.shape}; it takes one row an image: (rows, dim)")
    if rows.dtype.kind not in "fiu":
        raise ValueError(f"embeddings must be real numbers, not {rows.dtype}")
    with np.errstate(over="ignore"):
        return rows.astype(np.float32, copy=False)


def text_column(field: str, values: Any, rows: int) -> np.ndarray:
    """A text for each row; whole numbers become text."""
    column = array_of(field, values)
    if column.shape != (rows,):
        raise ValueError(f"{field} has shape {column.shape} but there are {rows} embeddings")
    if not rows:
        return column.astype(str)
    if isinstance(values, list | tuple) and (
        column.dtype.kind == "U"
        or (column.dtype.kind != "b" and any(isinstance(value, bool | np.bool_) for value in values))
    ):
        column = np.array(values, object)  # NumPy turns a missing value beside text into 'nan', True beside 2 into 1
    if column.dtype.kind == "O":  # also a column of pandas
        for row, value in enumerate(column.tolist()):
            if isinstance(value, bool) or not isinstance(value, str | int | np.integer):
                raise ValueError(f"{field} must be text or whole numbers, but row {row} is {str(value)[:200]!r}")
        return column.astype(str)
    if column.dtype.kind not in "USiu":
        raise ValueError(f"{field} must be text or whole numbers, not {column.dtype}")
    try:
        return column.astype(str, copy=False)
    except UnicodeDecodeError:
        raise ValueError(f"{field} holds bytes that are not ASCII; decode them to text") from None
