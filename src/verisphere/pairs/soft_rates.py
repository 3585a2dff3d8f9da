"""Soft TAR and FAR: sigmoids in place of the steps of their definitions (AnchorFace, Liu et al. 2022, eqs. 3-5).

A score within a few temperatures of the threshold has a gradient; beyond that the gradient is nearly 0. Over all pairs
of a batch with stored rows, one pass over blocks of stored rows computes both value and gradient: only the batch's rows
receive a gradient, so nothing is kept for a backward pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.score.exact.screen import product_type, products

Precision = Literal["float32", "bfloat16"]

#: Pairs compared at once, by device: on a CPU few enough for its cache, on a GPU enough for the host to keep up.
AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 26}
#: Listed pairs whose rows are gathered at once.
LISTED_AT_ONCE = 1 << 13


def soft_step(scores: Float[Tensor, "*shape"], threshold: float, temperature: float) -> Float[Tensor, "*shape"]:
    """The soft step of a cosine at a constant threshold: sigmoid((s - t_A) / tau), the step for tau toward 0; eq. 3."""
    return torch.sigmoid((scores - threshold) / temperature)


def far_loss(negative: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """The soft FAR: mean over negative pairs of `soft_step`; eq. 4. It is 0 without pairs.

    >>> far_loss(torch.tensor([0.3, 0.3, -1.0, -1.0]), threshold=0.3, temperature=0.01)
    tensor(0.2500)
    """
    return soft_step(negative, threshold, temperature).sum() / max(len(negative), 1)


def tar_loss(positive: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """1 - soft TAR: 1 - mean over positive pairs of `soft_step`; eq. 5. It is 0 without pairs."""
    return (1.0 - soft_step(positive, threshold, temperature)).sum() / max(len(positive), 1)


@dataclass(frozen=True, eq=False)
class SoftCount:
    """The sum of `soft_step` over pairs, and its gradient in the batch's rows; the stored rows are constants."""

    count: Float64[Tensor, ""]
    gradient: Float[Tensor, "batch dim"]


def soft_count_of_listed(
    scores: Float[Tensor, " pairs"],
    rows: Float[Tensor, "stored dim"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    batch: int,
    threshold: float,
    temperature: float,
) -> SoftCount:
    """The soft count of listed pairs of a row of the batch (left) and a stored row (right), whose scores are known."""
    soft = soft_step(scores, threshold, temperature)
    slope = (soft * (1.0 - soft) / temperature).to(rows)
    gradient = rows.new_zeros(batch, rows.shape[1])
    parts = (numbers.split(LISTED_AT_ONCE) for numbers in (left, right, slope))
    for batch_rows, stored_rows, slopes in zip(*parts, strict=True):
        gradient.index_add_(0, batch_rows, rows.index_select(0, stored_rows).mul_(slopes[:, None]))
    return SoftCount(soft.sum(dtype=torch.float64), gradient)


def soft_count_of_others(
    units: Float[Tensor, "batch dim"],
    rows: Float[Tensor, "stored dim"],
    filled: Int64[Tensor, " filled"],
    left: Int64[Tensor, " pairs"],
    right: Int64[Tensor, " pairs"],
    threshold: float,
    temperature: float,
    precision: Precision = "float32",
    at_once: int | None = None,
) -> SoftCount:
    """The soft count of all pairs of the batch with stored rows except the listed ones, a block of stored rows a time.

    Args:
        rows: stored rows, which may be on another device.
        filled: the stored rows that are compared.
        right: stored row in each excluded pair, as an index into `filled`; ascending.
        precision: type of the products; scores in bfloat16 are off by up to 0.4 %. Rows in float64 are computed in
            float64.
        at_once: number of pairs compared at once, which changes speed and memory only; None chooses by device.
    """
    dtype = torch.bfloat16 if precision == "bfloat16" and units.dtype == torch.float32 else units.dtype
    scaled = (units / temperature).to(dtype)
    count, gradient = units.new_zeros((), dtype=torch.float64), torch.zeros_like(units)
    product_space, gradient_space = (units.new_empty(0, dtype=product_type(dtype)) for _ in range(2))  # reused
    step = max((at_once or AT_ONCE.get(units.device.type, AT_ONCE["cuda"])) // max(len(units), 1), 1)
    soft = units.new_empty(len(units) * min(step, len(filled)))
    filled = filled.to(rows.device)
    with full_float32():
        for start, excluded_rows, excluded_columns in _blocks(len(filled), step, left, right):
            block = rows.index_select(0, filled[start : start + step]).to(units.device, dtype)
            product = products(scaled, block, product_space)
            # All steps work in place, so that only one tensor of (batch, block) numbers occupies the cache.
            steps = soft[: product.numel()].view_as(product).copy_(product) if product.dtype != units.dtype else product
            steps.sub_(threshold / temperature)
            steps[excluded_rows, excluded_columns] = -torch.inf
            steps.sigmoid_()
            count += steps.sum()
            steps.addcmul_(steps, steps, value=-1.0)  # the sigmoid's slope, s (1 - s)
            gradient += products(steps.to(dtype), block.T, gradient_space)
    return SoftCount(count, gradient.div_(temperature))


def _blocks(
    count: int, step: int, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
) -> Iterator[tuple[int, Int64[Tensor, " block"], Int64[Tensor, " block"]]]:
    """The first row of each block, and the listed pairs inside it, whose right rows are counted from that row."""
    starts = torch.arange(0, count + step, step, device=right.device)
    ends = torch.searchsorted(right, starts).tolist()
    for start, first, last in zip(range(0, count, step), ends[:-1], ends[1:], strict=True):
        yield start, left[first:last], right[first:last] - start
