"""V-Softmax, or Virtual Softmax: a class that does not exist, always nearer than the own one (Chen et al. 2018,
arXiv:1811.12611).

Its center points along the embedding itself, so its cosine is 1 and the own cosine cannot beat it: the pull toward the
own center never ends. The paper leaves the lengths free, |w_y| |x|; here both are 1 and a scale comes before the
cosine, as the loss-search paper (Wang et al. 2020, arXiv:2007.06542) has it for all its losses.
"""

from math import inf, log
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows

Virtual = Literal["own", "batch"]


def virtual_cosines(unit: Float[Tensor, "batch dim"], labels: Int64[Tensor, "batch"]) -> Float[Tensor, "batch batch"]:
    """Cosine of every row to a virtual class along every row of its batch; minus infinity where there is none.

    A row meets its own virtual class, with cosine 1 (0 for a row of length 0), and those of rows with another label:
    one along another picture of the same person would push the person's pictures apart.
    """
    same = labels[:, None] == labels
    same.fill_diagonal_(False)
    return (unit @ unit.T).masked_fill(same, -inf)


class VSoftmax(ClassLoss):
    """Softmax loss without a margin, but with virtual classes among the others.

    With one class only the loss is not 0: the virtual one remains. With several processes the batch is the one that the
    head sees: the virtual classes of "batch" are as many as its rows. `set_strength` weighs the virtual classes: each
    counts as that share of a class, and 0 leaves NormFace.

    Args:
        scale: factor from cosine to logit; the loss-search paper's is 32.
        virtual: "own": one class a row, along its own direction (Chen et al.). "batch": as many as the batch is large
            (the loss-search paper), see `virtual_cosines`; gradient reaches both rows of a pair.

    Raises:
        ValueError: `virtual` is not one of the names above, or the scale is not positive.
    """

    def __init__(self, scale: float = 32.0, virtual: Virtual = "own") -> None:
        super().__init__(scale)
        if virtual not in get_args(Virtual):
            raise ValueError(f"virtual is {virtual!r}; allowed are {', '.join(get_args(Virtual))}")
        self.virtual = virtual

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The logits of the virtual classes, as one: log of the sum of their exponentials."""
        if self.virtual == "own":
            return (self.scale * rows.unit.square().sum(1),)  # 1, or 0 for a row of length 0
        return ((self.scale * virtual_cosines(rows.unit, rows.labels)).logsumexp(1),)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Cross entropy over the own class, the others and the virtual ones."""
        if self.strength == 0:  # its logarithm would not do
            return super().finish(own, rest)
        return F.softplus(torch.logaddexp(rest, context[0] + log(self.strength)) - own)

    def bound(self) -> float | None:
        """The other logits are scale * cosine; the virtual ones are not among `others`."""
        return self.scale

    def extra_repr(self) -> str:
        """What `print(loss)` shows."""
        return f"scale={self.scale:g}, virtual={self.virtual}"
