"""A-Softmax, the original SphereFace loss (Liu et al. 2017, arXiv:1704.08063).

The own angle is multiplied by m, on a curve that falls up to 180 degrees, and mixed with the plain cosine by a weight
that is annealed over the steps of a training. Without the annealing a training does not begin to converge.
"""

from math import isfinite, pi

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import Gradient, detached_gradient
from verisphere.score.cosine import angle


def multiplied_angle(cosine: Float[Tensor, "batch"], m: float) -> Float[Tensor, "batch"]:
    """psi(theta) = (-1)^k cos(m * theta) - 2k with k = floor(m * theta / pi); eq. 6 and the text around it.

    It is continuous with a continuous slope, and for an integer m falls from 1 at theta = 0 to 1 - 2m at theta = pi.
    The paper uses integers; the formula is defined for every m > 0, and m = 1 gives the cosine.

    >>> multiplied_angle(torch.tensor([0.5]), m=4.0)  # 4 * 60 = 240 degrees: k = 1, -cos(240) - 2
    tensor([-1.5000])
    """
    theta = m * angle(cosine)
    turns = (theta.detach() / pi).floor()
    return (1.0 - 2.0 * turns.remainder(2.0)) * theta.cos() - 2.0 * turns


def annealed(step: Int64[Tensor, ""], start: float, end: float, rate: float) -> Float[Tensor, ""]:
    """The weight of the plain cosine at a training step: max(end, start / (1 + rate * step)), in float64."""
    return (start / (1.0 + rate * step.double())).clamp(min=end)


class ASoftmax(ClassLoss):
    """Softmax loss with an own logit of (a * cos(theta) + psi(theta)) / (1 + a) times the scale.

    The weight a falls from `start` to `end` with the number of training steps. The buffer `steps` counts them and is
    saved in checkpoints; with accumulated gradients every part of a step counts. It does not change in evaluation.
    `set_strength` multiplies the margin's share 1 / (1 + a); a strength of 0 gives the plain cosine.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> ASoftmax(margin=3.0, scale=32.0, start=0.0, end=0.0).forward(cosines, labels)
    tensor(41.6000)

    Args:
        margin: m, the factor on the angle, >= 1. The paper uses 4; the loss-search paper 3.
        scale: factor from cosine to logit, or None for the length of the embedding, with its gradient (the paper). The
            loss-search paper fixes 32. An embedding of length 0 then has all logits 0.
        start: the weight a before the first step.
        end: the lowest weight a. `start = end = 0` is the curve alone. 1000 and 5 are the authors' released settings.
        rate: rate at which a falls with each step; 0.12 is the authors' released setting.
        gradient: "exact", or "detached": the value above with the slope of the plain cosine.

    Raises:
        ValueError: a setting is outside its range.
    """

    steps: Int64[Tensor, ""]

    def __init__(
        self,
        margin: float = 4.0,
        scale: float | None = None,
        start: float = 1000.0,
        end: float = 5.0,
        rate: float = 0.12,
        gradient: Gradient = "exact",
    ) -> None:
        super().__init__(1.0 if scale is None else scale)
        if not (isfinite(margin) and margin >= 1):
            raise ValueError(f"margin is {margin}; it multiplies the angle and must be at least 1 (1 is no margin)")
        if not (isfinite(start) and 0 <= end <= start):
            raise ValueError(
                f"start is {start} and end {end}; the plain cosine's weight must fall from start to end, and be >= 0"
            )
        if not (isfinite(rate) and rate >= 0):
            raise ValueError(f"rate is {rate}; it must be a number >= 0 (0 keeps the weight at start)")
        check_word("gradient", gradient, Gradient)
        self.margin, self.by_length, self.gradient = margin, scale is None, gradient
        self.start, self.end, self.rate = start, end, rate
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    @property
    def of_batch(self) -> bool:
        """False: the state counts steps, whatever their rows."""
        return False

    def observe(self, rows: Rows) -> None:
        """Count a training step."""
        self.steps.add_(1)

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The share of the margined curve in the own logit, and the scale."""
        share = self.strength / (1.0 + annealed(self.steps, self.start, self.end, self.rate))
        return share.to(rows.own), rows.length if self.by_length else rows.own.new_tensor(self.scale)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * (cos(theta) + share * (psi(theta) - cos(theta)))."""
        share, scale = context
        value = cosine + share * (multiplied_angle(cosine, self.margin) - cosine)
        return scale * (detached_gradient(value, cosine) if self.gradient == "detached" else value)

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * cos(theta_j)."""
        return context[1] * cosine

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        return None if name == "scale" and self.by_length else super().argument(name)

    def bound(self) -> float | None:
        """The scale; None if it is the length of the embedding."""
        return None if self.by_length else self.scale
