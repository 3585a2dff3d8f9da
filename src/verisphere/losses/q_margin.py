"""Q-Margin: the loss of an alpha-divergence, with the margin in its reference measure.

Koutsianos et al. 2026, arXiv:2606.31664 (before that arXiv:2511.13621); the loss of a divergence for any reference
measure q is that of Roulet et al. 2025, arXiv:2501.18537. With z_j = scale * cosine, alpha = a in (1, 2], q = 1 for the
other classes and q_y <= 1 for the own class y:

    p_j  = q_j [1 + (a - 1) (z_j - tau)]_+ ^ (1 / (a - 1)),  tau such that the p_j sum to 1
    loss = max over p of <p, z> - D(p, q), plus D(e_y, q), less z_y;  its gradient in z is p - e_y

A class whose logit is 1 / (a - 1) below tau or lower has the probability 0 exactly, and no gradient. tau takes the part
of a softmax's log-sum-exp; the house calls both a normaliser. For a -> 1 the loss is softmax, with q_y = exp(-scale *
margin) it is CosFace; for a = 2 and q_y = 1 the probabilities are those of sparsemax.

Both D contain sum_j q_j f(0) = N / a, which would drown float32. It is taken off here: with the margin in logits
M = (q_y ^ (1 - a) - 1) / (a - 1), c = 1 + (a - 1) M and the gaps t = tau - (z_y - M) and t_j = tau - z_j,

    loss = t + c / a * ([1 - (a - 1) t / c]_+ ^ (a / (a - 1)) - 1) + 1 / a * sum_j [1 - (a - 1) t_j]_+ ^ (a / (a - 1))

over the other classes j. Its derivative in tau is 1 - sum p = 0, so tau is a constant in the gradient.

The parts of the papers that we could read contain the idea of a smaller q_y, but no rule for it and no scale, so both
are arguments here; see `margin_in_logits`.
"""

from collections.abc import Callable
from math import expm1, inf, isfinite, log
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_whole, check_word
from verisphere.losses.class_loss import ClassLoss, Rows

Prior = Literal["separating", "exponential"]

#: Up to this alpha a power is computed from its base less 1, of which a base near 1 has lost the digits.
NEAR_1 = 1.05


def margin_in_logits(alpha: float, margin: float, prior: Prior | float) -> float:
    """M = (q_y ^ (1 - alpha) - 1) / (alpha - 1): a class has probability 1 if its logit leads by M + 1 / (alpha - 1).

    "exponential" is q_y = exp(-margin), which CosFace has for alpha -> 1: at alpha = 1.5 a margin of 25.6 logits is
    q_y = 8e-12 and M = 724,000, so that the own probability stays 0. "separating" is M = margin itself, with q_y =
    [1 + (alpha - 1) margin] ^ (-1 / (alpha - 1)), which has the same limit.

    Args:
        margin: the margin in logits, scale * cosine. It is not read where `prior` is a number.
        prior: the rule for q_y, or q_y itself, in (0, 1].
    """
    order = alpha - 1.0
    if prior == "separating":
        return margin
    exponent = order * (margin if prior == "exponential" else -log(prior))
    return expm1(exponent) / order if exponent < 700.0 else inf


def power_of(
    gap: Float[Tensor, "*shape"], alpha: float, exponent: float, margin: float | Tensor = 0.0
) -> Float[Tensor, "*shape"]:
    """p ^ exponent, p ^ (alpha - 1) = [1 - (alpha - 1) gap / (1 + (alpha - 1) margin)]_+, to within rounding.

    The gap is normaliser - (logit - margin), 0 where a class alone has probability 1; the margin, in logits, is 0 for
    another class than the own.
    """
    order = alpha - 1.0
    exponent, change = exponent / order, -order / (1.0 + order * margin) * gap
    if alpha > NEAR_1:
        return (1.0 + change).clamp(min=0.0) ** exponent
    zero = change <= -1.0
    return (exponent * change.masked_fill(zero, 0.0).log1p()).exp().masked_fill(zero, 0.0)


def probability_and_slope(
    gap: Float[Tensor, "*shape"], alpha: float, margin: float | Tensor = 0.0
) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
    """p, and by how much it falls as the normaliser rises; a Newton step sums both."""
    probability = power_of(gap, alpha, 1.0, margin)
    slope = torch.where(probability > 0.0, probability ** (2.0 - alpha), 0.0) / (1.0 + (alpha - 1.0) * margin)
    return probability, slope


def newton_step(total: Float[Tensor, "batch"], slope: Float[Tensor, "batch"], alpha: float) -> Float[Tensor, "batch"]:
    """What to add to a normaliser whose probabilities add up to `total` and fall with `slope`.

    The step is Newton's for total ^ (alpha - 1) = 1, since that is the norm of a vector of straight lines: convex in
    the normaliser for alpha up to 2, so that steps from below never pass the root, and itself straight where all logits
    are equal or one class has all.
    """
    order = alpha - 1.0
    return total * -(-order * total.log()).expm1() / (order * slope)  # total - total ^ (2 - alpha), for alpha -> 1 too


def normaliser(
    others: Float[Tensor, "batch nearest"], own: Float[Tensor, "batch"], alpha: float, margin: float
) -> Float[Tensor, "batch"]:
    """tau, for which the probabilities of the own class and of these others add up to 1; in the type of the logits.

    Over some of the other classes it is the normaliser of those alone, which is at most that of all; it is that of all
    if the last of the nearest has probability 0.
    Minus infinity among the others counts as none. The own logit is without its margin, which is in logits; alpha is in
    (1, 2].
    """
    logits = torch.cat([own[:, None].double() - margin, others.double()], dim=1)
    margins = torch.zeros_like(logits[0])
    margins[0] = margin

    def sums(tau: Float[Tensor, "batch"]) -> Float[Tensor, "2 batch"]:
        return torch.stack(probability_and_slope(tau[:, None] - logits, alpha, margins)).sum(2)

    return _root(logits.amax(1), sums, alpha, logits.dtype)


def _root(
    tau: Float[Tensor, "batch"],
    sums: Callable[[Float[Tensor, "batch"]], Float[Tensor, "2 batch"]],
    alpha: float,
    dtype: torch.dtype,
) -> Float[Tensor, "batch"]:
    """The normaliser in the precision of a type, by Newton's steps from one that is at most as high; NaN stays."""
    for _ in range(100):  # about five are usual, since each at least doubles the correct digits
        total, slope = sums(tau)
        step = newton_step(total, slope, alpha)
        tau = tau + step
        if not bool((step.abs() > 8.0 * torch.finfo(dtype).eps * (1.0 + tau.abs())).any()):
            break
    return tau


class QMargin(ClassLoss):
    """The alpha-divergence loss with a margin in its reference measure, see this module.

    Nearly all classes have probability 0 exactly from alpha = 1.5 on, and no gradient. The own class always has
    its gradient, p_y - 1 in its logit, also where p_y is 0.

    The normaliser comes from the `nearest` other classes of a row. Where the last of them still has a probability, each
    Newton step is one more pass over all classes, so a smaller alpha is worth a larger `nearest`. `Sampled` computes
    the loss over the classes drawn, each counted once, as it does a softmax: never more than that over all classes.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> QMargin(margin=0.4).forward(cosines, labels)
    tensor(5.6434)

    Args:
        alpha: order of the divergence, in (1, 2]; the limit 1 is softmax, with a margin `CosFace`; 2 is sparsemax.
        margin: the margin in cosine, at least 0. It must be None where `prior` is a number.
        scale: factor from cosine to logit.
        prior: q_y by a rule for the margin: "separating" or "exponential", see `margin_in_logits`; or q_y itself, a
            number in (0, 1].
        nearest: number of nearest other classes that are searched for the normaliser.

    `set_strength` scales the margin, and with a number for `prior` the margin in logits that the number equals.

    Raises:
        ValueError: a number outside its range, an unknown rule, or a margin beside a number for q_y.
    """

    reduce = "normalised"
    linear = True
    exact_products = True  # the normaliser is that of float32 cosines

    def __init__(
        self,
        alpha: float = 1.5,
        margin: float | None = 0.4,
        scale: float = 64.0,
        prior: Prior | float = "separating",
        nearest: int = 64,
    ) -> None:
        super().__init__(scale)
        if not (hasattr(alpha, "__float__") and 1 < alpha <= 2):
            raise ValueError(
                f"alpha is {alpha!r}; it must be above 1 (1 is softmax: use CosFace) and at most 2 (sparsemax)"
            )
        if isinstance(prior, str):
            check_word("prior", prior, Prior)
            if margin is None or not (hasattr(margin, "__float__") and isfinite(margin) and margin >= 0):
                raise ValueError(f"margin is {margin!r}; it must be a finite number >= 0 (0.4 in cosine; 0 is none)")
        elif not (hasattr(prior, "__float__") and prior is not True and 0 < prior <= 1):
            raise ValueError(f"prior is {prior!r}; q of the own class must be in (0, 1], or a rule in words")
        elif margin is not None:
            raise ValueError(f"prior is the number {prior}, so margin must be null (None), not {margin}")
        check_whole("nearest", nearest)
        if nearest < 1:
            raise ValueError(f"nearest is {nearest}; the normaliser needs at least 1 other class")
        self.alpha, self.margin, self.prior, self.nearest = alpha, margin, prior, nearest
        if not self._margin() < 1e38:  # float32 ends at 3e38
            raise ValueError(f"margin is {margin} and prior {prior}; the margin in logits is too large for float32")

    def _margin(self) -> float:
        """The own class's margin in logits, at the current strength."""
        if self.margin is None:
            return self.strength * margin_in_logits(self.alpha, 0.0, self.prior)
        return margin_in_logits(self.alpha, self.strength * self.scale * self.margin, self.prior)

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The normaliser of each row, as a constant.

        Raises:
            ValueError: `rows.nearest` is None.
        """
        if rows.nearest is None:
            raise ValueError(f"rows.nearest is None; a head for QMargin must fill it with {self.nearest} cosines a row")
        alpha, margin, scale = self.alpha, self._margin(), self.scale
        own, nearest = scale * rows.own.detach(), scale * rows.nearest
        tau = normaliser(nearest, own, alpha, margin)
        sums_of = None if nearest.shape[1] < self.nearest else rows.sums  # fewer are all that there are
        if sums_of is None or not bool((tau - nearest[:, -1] < 1.0 / (alpha - 1.0)).any()):
            return (tau.to(own),)

        def sums(tau: Float[Tensor, "batch"]) -> Float[Tensor, "2 batch"]:
            others = sums_of(lambda cosine: probability_and_slope(tau[:, None] - scale * cosine, alpha))
            return others + torch.stack(probability_and_slope(tau - (own - margin), alpha, margin))

        return (_root(tau, sums, alpha, own.dtype).to(own),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """t + c / alpha * (... - 1), the first two summands of the loss in this module."""
        if self.classes == 1:
            return 0.0 * cosine  # as below, without its rounding
        margin = self._margin()
        gap = context[0] - (self.scale * cosine - margin)
        share = (1.0 + (self.alpha - 1.0) * margin) / self.alpha
        return gap + share * (power_of(gap, self.alpha, self.alpha, margin) - 1.0)

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """p ^ alpha / alpha, 0 up to `zero_up_to`; finite for the own class as well, which is masked."""
        gap = (context[0] - self.scale * cosine).clamp(min=-60.0)  # e^60 for alpha -> 1
        return power_of(gap, self.alpha, self.alpha) / self.alpha

    def zero_up_to(self, *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The cosine up to which another class has probability 0: (tau - 1 / (alpha - 1)) / scale."""
        return (context[0] - 1.0 / (self.alpha - 1.0)) / self.scale

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The sum, which is linear in `rest` as the normaliser is a constant in the gradient."""
        return own + rest
