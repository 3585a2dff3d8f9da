"""Search-Softmax: every margin softmax as one function of the softmax probability (Wang et al. 2020, arXiv:2007.06542).

A margin lowers the probability p of the own class to h(a, p) * p with h = 1 / (a * p + 1 - a) (eq. 7); the loss is
-log(h * p) (eq. 9). The paper asks for a <= 0, but the factors of its table 1 leave that range where a margined cosine
rises above the plain one; a < 1 always holds, and is checked here.

The factor is an argument of the loss. The factor that equals a margin on the own cosine is
a = 1 - exp(scale * (cosine - margined cosine)); table 1.
"""

from math import isfinite, log1p

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows


def modulating_function(
    factor: Float[Tensor, "*shape"], probability: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """h(a, p) = 1 / (a * p + 1 - a), which lowers the probability p in [0, 1] for a modulating factor a < 0; eq. 7."""
    return 1.0 / (factor * probability + 1.0 - factor)


def modulated_softmax(
    own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], gain: Float[Tensor, "batch"]
) -> Float[Tensor, "batch"]:
    """-log(h(a, p) * p) with p the softmax probability of the own logit; eq. 9.

    Computed as -own + log(exp(own) + (1 - a) * exp(rest)): the factor adds log(1 - a) to every other logit.
    `own` is without margin, `rest` is the log-sum-exp of the other logits, and `gain` is log(1 - a), which stays
    precise for a factor near 1 or far below 0; 0 gives the softmax loss.
    """
    return F.softplus(rest + gain - own)


def additive_margin(factor: float, scale: float) -> float:
    """log(1 - a) / scale: the margin on the own cosine that a constant factor a < 1 equals; AM-Softmax in table 1.

    The margin is easier to read than the factor: a from 0 to -10000 is a margin from 0 to 0.29 (scale 32).
    """
    return log1p(-factor) / scale


class SearchSoftmax(ClassLoss):
    """Softmax with the own probability lowered by a given modulating factor (eq. 9).

    `set_strength` scales the equivalent additive margin, log(1 - a) / scale.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> SearchSoftmax(factor=-1000.0).forward(cosines, labels)
    tensor(0.9795)

    Args:
        factor: a, below 1; 0 is no margin, -10000 the strongest factor in the paper's table 3.
        scale: factor from cosine to logit; 32 in the paper.

    Raises:
        ValueError: `factor` is not a finite number below 1, or the scale is out of range.
    """

    def __init__(self, factor: float = -1000.0, scale: float = 32.0) -> None:
        super().__init__(scale)
        self.set_factor(factor)

    def set_factor(self, factor: float) -> None:
        """Set the modulating factor, as a search does before every epoch.

        Raises:
            ValueError: `factor` is not a finite number below 1.
        """
        if not (isfinite(factor) and factor < 1):
            raise ValueError(
                f"factor is {factor}; it must be a finite number below 1 (0 is no margin), since "
                "log(1 - a) is added to the other logits"
            )
        self.factor = factor

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """log(1 - a) at the current strength, which is added to every other logit."""
        gain = self.strength * log1p(-self.factor)
        return (torch.full((), gain, dtype=rows.own.dtype, device=rows.own.device),)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """`modulated_softmax`. The gain is the same for all other logits, so it is added to their log-sum-exp."""
        (gain,) = context
        return modulated_softmax(own, rest, gain)

    def bound(self) -> float | None:
        """The other logits are scale * cosine; the gain is added to their log-sum-exp."""
        return self.scale

    def extra_repr(self) -> str:
        """What `print(loss)` shows, with the additive margin that the factor equals."""
        return f"{super().extra_repr()} (additive margin {additive_margin(self.factor, self.scale):.4f})"
