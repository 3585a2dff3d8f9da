"""The score of a pair: the cosine of two embeddings, the same number in whatever order the pairs are processed.

Rows are normalised in float64 and kept as float32; the products of two float32 numbers are exact in float64, and each
pair is summed by itself. Block sizes, threads and the order of the pairs therefore cannot change a score. Another order
of the columns can, by an ulp or two, and so may another build of torch or a GPU: see docs/evaluation.md.
"""

import warnings

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int64
from torch import Tensor

from verisphere.base.mapped import is_mapped, read_now, read_singly, room

#: Numbers gathered at once on each side, by device: on a CPU their float64 copies stay in a core's cache.
NUMBERS_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 25}
COLUMNS_SUMMED = 1 << 14  # summed at once: torch splits longer sums over threads, which would change their rounding


def unit_rows(embeddings: Float32[np.ndarray, "rows dim"]) -> Float32[Tensor, "rows dim"]:
    """The rows at length 1, computed in float64 and rounded once to float32; those of mapped rows are mapped.

    >>> unit_rows(np.array([[3.0, 4.0]], np.float32))
    tensor([[0.6000, 0.8000]])

    Raises:
        ValueError: a row has length zero, or is not finite.
    """
    units = room(embeddings.shape, torch.float32, is_mapped(embeddings))
    step = max((NUMBERS_AT_ONCE["cpu"] << 5) // max(embeddings.shape[1], 1), 1)
    for start in range(0, len(embeddings), step):
        rows = embeddings[start : start + step].astype(np.float64)
        length = np.linalg.norm(rows, axis=1)
        bad = np.flatnonzero(~((length > 0) & np.isfinite(length)))
        if len(bad):
            raise ValueError(f"embedding {start + bad[0]} has no direction: its length is {length[bad[0]]}")
        units.numpy()[start : start + step] = rows / length[:, None]
    return units


def pair_scores(
    units: Float32[Tensor, "rows dim"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    others: Float[Tensor, "others dim"] | None = None,
) -> Float64[Tensor, " pairs"]:
    """Score of each listed pair of rows.

    >>> units = unit_rows(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 1.0]], np.float32))
    >>> pair_scores(units, torch.tensor([0, 0]), torch.tensor([1, 2]))
    tensor([0.9600, 0.8000], dtype=torch.float64)

    Args:
        units: rows of length 1, from `unit_rows`.
        left: row of the first image of each pair.
        right: row of the second.
        others: rows of the second images, float32 or shorter; None takes them from the same rows as the first.
    """
    others = units if others is None else others
    step = max(NUMBERS_AT_ONCE[units.device.type] // max(units.shape[1], 1), 1)
    scores = torch.zeros(len(left), dtype=torch.float64, device=units.device)
    with read_singly(units, others):
        for part, a, b in zip(scores.split(step), left.split(step), right.split(step), strict=True):
            read_now(units, a)
            read_now(others, b)
            for start in range(0, units.shape[1], COLUMNS_SUMMED):
                columns = slice(start, start + COLUMNS_SUMMED)
                # index_select takes whole rows at a time, which indexing does not
                first, second = units[:, columns].index_select(0, a), others[:, columns].index_select(0, b)
                terms = first.double() * second.double()
                part += terms.sum(-1) if units.device.type == "cpu" else sums_by_halves(terms)
    return scores


def sums_by_halves(numbers: Float64[Tensor, "rows columns"]) -> Float64[Tensor, " rows"]:
    """The sum of each row in one order on any device; the order of a GPU's own sums depends on the number of rows."""
    while numbers.shape[1] > 1:
        half = (numbers.shape[1] + 1) // 2
        rest = numbers[:, half:]
        numbers = torch.cat([numbers[:, : rest.shape[1]] + rest, numbers[:, rest.shape[1] : half]], 1)
    return numbers.flatten()


def rough_scores(
    units: Float32[Tensor, "rows dim"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    others: Float32[Tensor, "others dim"] | None = None,
) -> Float32[Tensor, " pairs"]:
    """`pair_scores` in float32, several times faster and off by no more than `rough_error`.

    `left` ascends; without `others` the second images are of the same rows as the first.
    """
    others = units if others is None else others
    if len(left) and units.device.type == "cpu":
        with read_singly(units, others):
            read_now(units, left)
            read_now(others, right)
            return _listed(units, left, right, others)
    step = max(NUMBERS_AT_ONCE[units.device.type] // max(units.shape[1], 1), 1)
    scores = torch.empty(len(left), device=units.device)
    for part, a, b in zip(scores.split(step), left.split(step), right.split(step), strict=True):
        torch.sum(units.index_select(0, a).mul_(others.index_select(0, b)), 1, out=part)
    return scores


def _listed(
    units: Float32[Tensor, "rows dim"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    others: Float32[Tensor, "others dim"],
) -> Float32[Tensor, " pairs"]:
    """Rough scores of pairs whose left rows ascend; only the rows that occur are compared."""
    (first, last), (lowest, highest) = ([int(end) for end in side.aminmax()] for side in (left, right))
    starts = torch.searchsorted(left, torch.arange(first, last + 2))
    return sampled_product(units[first : last + 1], others[lowest : highest + 1], starts, right - lowest)


def sampled_product(
    units: Float32[Tensor, "rows dim"],
    others: Float32[Tensor, "others dim"],
    starts: Int64[Tensor, " bounds"],
    columns: Int64[Tensor, " pairs"],
) -> Float32[Tensor, " pairs"]:
    """Some entries of the product of all rows of two sets, computed in place: no rows are gathered.

    `starts` is the position in `columns` of the first entry of each row, and the number of entries at the end;
    `columns` is the other row of each entry.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that sparse tensors may change; their sampled product is used
        wanted = torch.sparse_csr_tensor(
            starts, columns, units.new_zeros(len(columns)), (len(units), len(others)), check_invariants=False
        )
        return torch.sparse.sampled_addmm(wanted, units, others.T, beta=0.0).values()


def rough_error(dim: int) -> float:
    """The most that a rough score of rows with this many numbers differs from the exact one."""
    unit = 2 * dim * 2.0**-24  # a rounding for each product and each sum, in any order
    return 1.001 * unit / (1 - unit)
