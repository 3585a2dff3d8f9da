"""The score of a pair: the cosine of two embeddings, the same number whichever way the pairs are gone through.

Rows are normalised in float64 and kept as float32; the products of two float32 numbers are exact in float64, and each
pair is summed by itself. Block sizes, threads and the order of the pairs therefore cannot change a score.
"""

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

ROWS = 1 << 16  # pairs scored at once: bounds the memory that gathering takes


def unit_rows(embeddings: Float32[np.ndarray, "rows dim"]) -> Float32[Tensor, "rows dim"]:
    """The rows at length 1, computed in float64 and rounded once to float32.

    Raises:
        ValueError: a row has length zero, or is not finite.
    """
    length = np.linalg.norm(embeddings.astype(np.float64), axis=1)
    bad = ~((length > 0) & np.isfinite(length))
    if bad.any():
        raise ValueError(f"{bad.sum()} of {len(bad)} embeddings have no direction, the first is row {bad.argmax()}")
    return torch.from_numpy((embeddings / length[:, None]).astype(np.float32))


def pair_scores(
    units: Float32[Tensor, "rows dim"], left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
) -> Float64[Tensor, " pairs"]:
    """Score of each listed pair of rows.

    Args:
        units: rows of length 1, from `unit_rows`.
        left: row of the first image of each pair.
        right: row of the second.
    """
    if not len(left):
        return torch.empty(0, dtype=torch.float64, device=units.device)
    return torch.cat(
        [
            (units[a].double() * units[b].double()).sum(-1)
            for a, b in zip(left.split(ROWS), right.split(ROWS), strict=True)
        ]
    )
