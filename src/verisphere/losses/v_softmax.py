"""V-Softmax, or Virtual Softmax: a virtual class that is always nearer than the own class (Chen et al. 2018,
arXiv:1811.12611).

The center of the virtual class has the direction of the embedding, so its cosine is 1 and the own cosine cannot exceed
it: the gradient toward the own center never vanishes. In the paper lengths are free, |w_y| |x|; here both are 1 and a
scale multiplies the cosine, as in all losses of the loss-search paper (Wang et al. 2020, arXiv:2007.06542).
"""

from math import inf, log
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import ClassLoss, Rows

Virtual = Literal["own", "batch"]


def virtual_cosines(unit: Float[Tensor, "batch dim"], labels: Int64[Tensor, "batch"]) -> Float[Tensor, "batch batch"]:
    """The cosine of every row to the virtual class of every row of its batch; minus infinity for an excluded one.

    A row is compared with its own virtual class, with cosine 1 (0 for a row of length 0), and with those of rows with
    another label. The virtual classes of other images of the same person are excluded: they would push images of one
    person apart.
    """
    same = labels[:, None] == labels
    same.fill_diagonal_(False)
    return (unit @ unit.T).masked_fill(same, -inf)


class VSoftmax(ClassLoss):
    """Softmax loss without a margin, but with virtual classes among the other classes.

    With a single class the loss is not 0, since the virtual class remains. The virtual classes of "batch" are those of
    the global batch of the head. `set_strength` weighs the virtual classes: each counts as that share of a class, and a
    strength of 0 gives NormFace.

    >>> from verisphere.head import Head
    >>> head = Head(VSoftmax(scale=4.0), classes=2, size=2)
    >>> _ = head.centers.data.copy_(torch.eye(2)[:, None])
    >>> head(torch.tensor([[1.0, 0.0]]), torch.tensor([0])).loss  # log(2 + exp(-4))
    tensor(0.7023, grad_fn=<SumBackward0>)

    Args:
        scale: factor from cosine to logit; 32 in the loss-search paper.
        virtual: "own": one virtual class for each row, in its own direction (Chen et al.). "batch": the virtual classes
            of all rows of the batch (the loss-search paper), see `virtual_cosines`; gradient reaches both rows of a
            pair.

    Raises:
        ValueError: `virtual` is not one of the names above, or the scale is not positive.
    """

    def __init__(self, scale: float = 32.0, virtual: Virtual = "own") -> None:
        super().__init__(scale)
        check_word("virtual", virtual, Virtual)
        self.virtual = virtual

    @property
    def of_batch(self) -> bool:
        """Whether the virtual classes are those of all rows."""
        return self.virtual == "batch"

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The log-sum-exp of the logits of the virtual classes."""
        if self.virtual == "own":
            return (self.scale * rows.unit.square().sum(1),)  # 1, or 0 for a row of length 0
        return ((self.scale * virtual_cosines(rows.unit, rows.labels)).logsumexp(1),)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Cross entropy over the own class, the other classes and the virtual classes."""
        if self.strength == 0:  # the logarithm below would be minus infinity
            return super().finish(own, rest)
        return F.softplus(torch.logaddexp(rest, context[0] + log(self.strength)) - own)

    def bound(self) -> float | None:
        """The other logits are scale * cosine; the virtual ones are not among `others`."""
        return self.scale
