"""Feature files as MegaFace's development kit writes them."""

from pathlib import Path

import numpy as np
from jaxtyping import Float32


def write_matrix(path: Path, rows: Float32[np.ndarray, "rows columns"]) -> None:
    header = np.array([*rows.shape, rows.shape[1] * 4, 5], "<i4")  # 5: float32 of OpenCV
    path.write_bytes(header.tobytes() + np.ascontiguousarray(rows, "<f4").tobytes())
