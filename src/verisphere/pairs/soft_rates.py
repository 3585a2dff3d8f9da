"""TAR and FAR made soft: sigmoids in place of the steps of their definitions (AnchorFace, Liu et al. 2022, eqs. 3-5).

Where a score lies within a few temperatures of the threshold it has a gradient, beyond that next to none. Over all
pairs of a batch with a set of stored rows the gradient is made in the walk that makes the value, a run of stored rows
after another: only the batch's rows receive one, so nothing has to be kept for a backward.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from verisphere.score.exact.screen import full_float32, product_type, products

Precision = Literal["float32", "bfloat16"]

#: Pairs compared at once, by device: on a CPU few enough for its cache.
AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 22}
LISTED = 1 << 13  # listed pairs whose rows are gathered at once


def soft_step(scores: Float[Tensor, "*shape"], threshold: float, temperature: float) -> Float[Tensor, "*shape"]:
    """Whether a score is above the threshold, softly: sigmoid((s - t) / tau); eq. 3.

    Args:
        scores: cosines.
        threshold: t_A, a constant.
        temperature: tau; toward 0 it becomes the step.
    """
    return torch.sigmoid((scores - threshold) / temperature)


def far_loss(negative: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """The soft FAR: mean over negative pairs of `soft_step`; eq. 4. 0 without a pair.

    >>> far_loss(torch.tensor([0.3, 0.3, -1.0, -1.0]), threshold=0.3, temperature=0.01)
    tensor(0.2500)
    """
    return soft_step(negative, threshold, temperature).sum() / max(len(negative), 1)


def tar_loss(positive: Float[Tensor, " pairs"], threshold: float, temperature: float) -> Float[Tensor, ""]:
    """What the soft TAR lacks of 1: 1 - mean over positive pairs of `soft_step`; eq. 5. 0 without a pair."""
    return (1.0 - soft_step(positive, threshold, temperature)).sum() / max(len(positive), 1)


@dataclass(frozen=True, eq=False)
class SoftCount:
    """How many of some pairs lie above a threshold, softly.

    Attributes:
        count: sum of `soft_step` over the pairs.
        gradient: of that sum in the batch's rows; the stored rows are constants.
    """

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
    """The soft count of listed pairs whose scores are known.

    Args:
        scores: of each pair.
        rows: stored rows.
        left: row of the batch, of each pair.
        right: stored row, of each pair.
        batch: how many rows the batch has.
        threshold: see `soft_step`.
        temperature: see `soft_step`.
    """
    soft = soft_step(scores, threshold, temperature)
    slope = (soft * (1.0 - soft) / temperature).to(rows)
    gradient = rows.new_zeros(batch, rows.shape[1])
    for a, b, some in zip(left.split(LISTED), right.split(LISTED), slope.split(LISTED), strict=True):
        gradient.index_add_(0, a, rows.index_select(0, b).mul_(some[:, None]))
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
    """The soft count of all pairs of the batch with stored rows but the listed ones, a run of stored rows at a time.

    Args:
        units: the batch's rows of length 1.
        rows: stored rows, which may lie on another device.
        filled: which of them are compared.
        left: row of the batch, of each pair that is left out.
        right: its place in `filled`, ascending.
        threshold: see `soft_step`.
        temperature: see `soft_step`.
        precision: of the products; scores in bfloat16 are off by up to 0.4 %. Rows in float64 are computed in float64.
        at_once: pairs compared at once; None chooses by device. Changes speed and memory.
    """
    dtype = torch.bfloat16 if precision == "bfloat16" and units.dtype == torch.float32 else units.dtype
    scaled = (units / temperature).to(dtype)
    count, gradient = units.new_zeros((), dtype=torch.float64), torch.zeros_like(units)
    made, turned = (units.new_empty(0, dtype=product_type(dtype)) for _ in range(2))
    step = max((at_once or AT_ONCE.get(units.device.type, AT_ONCE["cuda"])) // max(len(units), 1), 1)
    soft = units.new_empty(len(units) * min(step, len(filled)))
    filled = filled.to(rows.device)
    with full_float32():
        for start, a, b in _runs(len(filled), step, left, right):
            some = rows.index_select(0, filled[start : start + step]).to(units.device, dtype)
            product = products(scaled, some, made)
            # in place, and in a cache: a batch x run of numbers is all that there ever is
            now = soft[: product.numel()].view_as(product).copy_(product) if product.dtype != units.dtype else product
            now.sub_(threshold / temperature)
            now[a, b] = -torch.inf
            now.sigmoid_()
            count += now.sum()
            now.addcmul_(now, now, value=-1.0)  # the sigmoid's slope, s (1 - s)
            gradient += products(now.to(dtype), some.T, turned)
    return SoftCount(count, gradient.div_(temperature))


def _runs(
    count: int, step: int, left: Int64[Tensor, " pairs"], right: Int64[Tensor, " pairs"]
) -> Iterator[tuple[int, Int64[Tensor, " some"], Int64[Tensor, " some"]]]:
    """First row of each run, and the listed pairs inside it, their right rows counted from there."""
    starts = torch.arange(0, count + step, step, device=right.device)
    ends = torch.searchsorted(right, starts).tolist()
    for start, first, last in zip(range(0, count, step), ends[:-1], ends[1:], strict=True):
        yield start, left[first:last], right[first:last] - start
