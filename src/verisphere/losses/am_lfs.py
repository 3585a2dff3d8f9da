"""AM-LFS: a piecewise linear map of the softmax probability (Li et al. 2019, arXiv:1905.07375).

In the form of the loss-search paper's baseline (arXiv:2007.06542, eq. 4) the loss is -log(a_i * p + b_i), where i is
the bin that contains p. The method searches for the 2M numbers; here they are arguments.
"""

from collections.abc import Sequence
from math import isfinite

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss


def piecewise_log(
    own: Float[Tensor, "batch"],
    rest: Float[Tensor, "batch"],
    slopes: Float[Tensor, "bins"],
    offsets: Float[Tensor, "bins"],
) -> Float[Tensor, "batch"]:
    """-log(a_i * p + b_i), with p = sigmoid(own - rest) and i = floor(p * M), at most M - 1; eq. 4.

    If b_i is 0, it is computed as -log(a_i) - log(p), which stays finite where p underflows.

    `own` is the own logit, and `rest` the log-sum-exp of the others. Slopes a_i and offsets b_i are those of M equal
    bins of p; a_i * p + b_i must be positive in each.
    """
    log_p = -F.softplus(rest - own)
    p = log_p.exp()
    bins = len(slopes)
    bin_of = (
        (p.detach() * bins).long().clamp(0, bins - 1)
    )  # p may be NaN after a divergence, which must not become an index
    slope, offset = slopes[bin_of], offsets[bin_of]
    through_zero = offset == 0
    # Each branch computes with 1 where the other is taken: otherwise the backward pass would give 0 * inf = NaN.
    line = torch.where(through_zero, 1.0, slope * p + offset)
    return -torch.where(through_zero, log_p + torch.where(through_zero, slope, 1.0).log(), line.log())


class AMLFS(ClassLoss):
    """Softmax with the own probability mapped by a straight line in each of M equal bins (eq. 4).

    With one class p is 1, and the loss is -log(a + b) of the last bin. `set_strength` has no effect.

    The gradient of a bin follows from b_i / a_i alone: above 0 it weakens the gradient of the softmax loss there, below
    0 it strengthens it. The paper searches all 2M numbers without constraints; a search over a range for each has only
    allowed losses if the lowest slope is above 0, the lowest offset of the first bin is 0, and that of every other bin
    lies above -(lowest slope) * i / M.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> AMLFS(slopes=(0.5, 0.8), offsets=(0.1, 0.0), scale=4.0).forward(cosines, labels)
    tensor(0.5942)

    Args:
        slopes: a_i, one for each bin.
        offsets: b_i, one for each bin. All a = 1 and b = 0 is the softmax loss.
        scale: factor from cosine to logit; 32 in the loss-search paper.

    Raises:
        ValueError: counts that differ, no bins, a number that is not finite, or a line that is not positive on its bin.
    """

    slopes: Tensor
    offsets: Tensor

    def __init__(
        self, slopes: Sequence[float] = (1.0,), offsets: Sequence[float] = (0.0,), scale: float = 32.0
    ) -> None:
        super().__init__(scale)
        if len(slopes) != len(offsets) or len(slopes) == 0:
            raise ValueError(f"slopes has {len(slopes)} numbers and offsets {len(offsets)}; each bin takes one of both")
        for number, (slope, offset) in enumerate(zip(slopes, offsets, strict=True)):
            low, high = number / len(slopes), (number + 1) / len(slopes)
            at_low, at_high = slope * low + offset, slope * high + offset
            # No row reaches p = 0, so the line of the first bin may pass through the origin.
            positive = at_high > 0 and (at_low > 0 or (number == 0 and offset == 0))
            if not (isfinite(slope) and isfinite(offset) and positive):
                raise ValueError(
                    f"slopes[{number}] is {slope} and offsets[{number}] {offset}: bin {number} maps p in [{low:g}, "
                    f"{high:g}] to [{at_low:g}, {at_high:g}], which must be positive, since its logarithm is the loss"
                )
        self.lines = tuple(zip(slopes, offsets, strict=True))
        # Settings and not state: they are in the recipe, not in a checkpoint.
        self.register_buffer("slopes", torch.tensor(list(slopes)), persistent=False)
        self.register_buffer("offsets", torch.tensor(list(offsets)), persistent=False)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """-log(a_i * p + b_i)."""
        return piecewise_log(own, rest, self.slopes, self.offsets)

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        column = {"slopes": 0, "offsets": 1}.get(name)
        return super().argument(name) if column is None else tuple(line[column] for line in self.lines)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
