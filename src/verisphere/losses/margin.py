"""Margins on the own class: NormFace, SphereFace, CosFace, ArcFace and their combinations.

One formula covers them (Deng et al. 2019, arXiv:1801.07698, eq. 4): the own logit is
scale * (cos(m1 * theta + m2) - m3), every other logit scale * cos(theta_j), under a softmax. With an exponent t other
than 1 the similarity adjustment g takes the place of both cosines (SphereFace2, arXiv:2108.01513, appendix D and table
12): scale * (g(cos(m1 * theta + m2)) - m3) and scale * g(cos(theta_j)).
"""

from math import cos, isfinite, pi, sin
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.adjust import adjusted, checked_adjustment
from verisphere.losses.class_loss import ClassLoss
from verisphere.score.cosine import angle

Beyond = Literal["monotone", "plain", "released"]
Gradient = Literal["exact", "detached"]


def combined_margin(
    cosine: Float[Tensor, "batch"], m1: float = 1.0, m2: float = 0.0, m3: float = 0.0, beyond: Beyond = "monotone"
) -> Float[Tensor, "batch"]:
    """cos(m1 * theta + m2) - m3 for the own-class cosine; eq. 4, before scaling.

    Past theta* = (pi - m2) / m1 the cosine of the margined angle would rise again; eq. 4 does not cover this range.
    `beyond` is the rule: "monotone" continues as cos(theta) - cos(theta*) - 1 - m3, which is continuous and strictly
    decreasing in theta, with a kink; "plain" follows eq. 4 literally, as ArcFace's code does today; "released" is its
    earlier code, cos(theta) - m2 * sin(m2) - m3, which jumps and is meaningful for m1 = 1 only.

    The gradient in the cosine is m1 * sin(m1 * theta + m2) / max(sin(theta), 1e-3), which is exact except for the lower
    limit, and finite at cosine = +-1. With m1 = 1 and m2 = 0 no angle is computed, and the result equals cosine - m3 to
    the last bit.

    Args:
        m1: factor on the angle, > 0.
        m2: added to the angle, radians, 0 <= m2 < pi.
        m3: subtracted from the cosine, >= 0.

    >>> combined_margin(torch.tensor([0.5]), m2=0.5)  # 60 degrees and half a radian
    tensor([0.0236])
    """
    if m1 == 1.0 and m2 == 0.0:
        return cosine - m3
    theta = angle(cosine)
    margined = (m1 * theta + m2).cos() - m3
    if beyond == "plain":
        return margined
    last = (pi - m2) / m1  # theta*
    # The cosine itself, not cos(theta): its gradient is 1 up to and including theta = pi.
    continued = cosine - (m2 * sin(m2) if beyond == "released" else cos(last) + 1.0) - m3
    return torch.where(theta <= last, margined, continued)


def add_angular_margin(cosine: Float[Tensor, "batch"], margin: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
    """cos(theta + margin) for the own-class cosine, with a margin for each row, before scaling.

    Past theta + margin = pi it continues as cos(theta) + cos(margin) - 1, which is continuous and decreasing in theta,
    like "monotone" of `combined_margin`. The code of MagFace's authors by default drops the margin wherever the own
    cosine is below 0. The margin is in radians, in [0, pi), and gradient flows into it.
    """
    theta = angle(cosine)
    return torch.where(theta + margin <= pi, (theta + margin).cos(), cosine + margin.cos() - 1.0)


def adjusted_margin(
    cosine: Float[Tensor, "batch"],
    m1: float = 1.0,
    m2: float = 0.0,
    m3: float = 0.0,
    t: float = 1.0,
    beyond: Beyond = "monotone",
) -> Float[Tensor, "batch"]:
    """g(cos(m1 * theta + m2)) - m3: `combined_margin` under the similarity adjustment, before scaling.

    SphereFace2 replaces the cosine by g; as in that paper's loss (eq. 5 and appendix F), an angular margin is inside g
    and a subtracted margin outside. Past theta*, where `combined_margin` falls below -1, g continues with slope 1, so
    that the own logit keeps falling. t = 1 equals `combined_margin` to the last bit.
    """
    if t == 1.0:
        return combined_margin(cosine, m1, m2, m3, beyond)
    inside = combined_margin(cosine, m1, m2, 0.0, beyond)
    return adjusted(inside, t) + (inside + 1.0).clamp(max=0.0) - m3


def detached_gradient(value: Float[Tensor, "*shape"], through: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The value of `value` with the gradient of `through`, as in characteristic gradient detachment (SphereFace2)."""
    return value.detach() + (through - through.detach())


class CombinedMargin(ClassLoss):
    """Softmax loss with a margin on the own class (ArcFace, eq. 4); see `adjusted_margin` for the equation.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CombinedMargin(m2=0.3, m3=0.2).forward(cosines, labels)
    tensor(17.8086)

    Args:
        m1: factor on the angle, > 0.
        m2: added to the angle, radians, 0 <= m2 < pi.
        m3: subtracted from the cosine, >= 0.
        scale: factor from cosine to logit.
        gradient: "exact", or "detached": the margin changes the value of the own logit, whose slope is that without
            margin.
        beyond: the rule for the own logit where m1 * theta + m2 > pi, see `combined_margin`.
        t: exponent of the similarity adjustment g, > 0; 1 is no adjustment, SphereFace2 uses 3.

    `set_strength` moves the margins in a straight line from (1, 0, 0) to (m1, m2, m3); t stays.

    Raises:
        ValueError: a margin, the scale or t is outside its range, `beyond` or `gradient` is not one of the names above,
            or `beyond` is "released" while m1 is not 1.
    """

    #: The arguments that give m1, m2 and m3: errors name the argument that the caller of a subclass wrote.
    _m1_name, _m2_name, _m3_name = "m1", "m2", "m3"

    def __init__(
        self,
        m1: float = 1.0,
        m2: float = 0.5,
        m3: float = 0.0,
        scale: float = 64.0,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
        t: float = 1.0,
    ) -> None:
        super().__init__(scale)
        if not (isfinite(m1) and m1 > 0):
            raise ValueError(
                f"{self._m1_name} is {m1}; it multiplies the angle and must be a positive number (1 is no margin)"
            )
        if not 0 <= m2 < pi:
            raise ValueError(f"{self._m2_name} is {m2}; it must be in [0, pi) radians: is it in degrees?")
        if not (isfinite(m3) and m3 >= 0):
            raise ValueError(
                f"{self._m3_name} is {m3}; it is subtracted from the cosine and must be a number >= 0 (0 is no margin)"
            )
        check_word("gradient", gradient, Gradient)
        check_word("beyond", beyond, Beyond)
        if beyond == "released" and m1 != 1:
            raise ValueError(
                f'beyond is "released" with {self._m1_name} = {m1}; the released rule is defined for '
                f"{self._m1_name} = 1 only"
            )
        self.m1, self.m2, self.m3 = m1, m2, m3
        self.gradient, self.beyond = gradient, beyond
        self.t = checked_adjustment(t)

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        return getattr(self, {self._m1_name: "m1", self._m2_name: "m2", self._m3_name: "m3"}.get(name, name))

    def margins(self) -> tuple[float, float, float]:
        """(m1, m2, m3) at the current `strength`."""
        return 1.0 + self.strength * (self.m1 - 1.0), self.strength * self.m2, self.strength * self.m3

    def margined(self, cosine: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The own-class similarity with its margin, before scaling."""
        value = adjusted_margin(cosine, *self.margins(), self.t, self.beyond)
        return detached_gradient(value, adjusted(cosine, self.t)) if self.gradient == "detached" else value

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * (g(cos(m1 * theta + m2)) - m3)."""
        return self.scale * self.margined(cosine)

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * g(cos(theta_j))."""
        return self.scale * adjusted(cosine, self.t)

    def bound(self) -> float | None:
        """The other logits are scale times a number up to 1: the cosine, or g of it."""
        return self.scale


class NormFace(CombinedMargin):
    """Softmax over scaled cosines, without a margin (Wang et al. 2017, arXiv:1704.06369).

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> NormFace(scale=4.0).forward(cosines, labels)
    tensor(0.3711)
    """

    def __init__(self, scale: float = 64.0) -> None:
        super().__init__(m1=1.0, m2=0.0, m3=0.0, scale=scale)


class SphereFace(CombinedMargin):
    """The angle multiplied by `margin` (Liu et al. 2017, arXiv:1704.08063), by ArcFace's eq. 4, not annealed.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> SphereFace(margin=1.35).forward(cosines, labels)
    tensor(9.1883)
    """

    _m1_name = "margin"

    def __init__(
        self, margin: float = 1.35, scale: float = 64.0, gradient: Gradient = "exact", beyond: Beyond = "monotone"
    ) -> None:
        super().__init__(m1=margin, m2=0.0, m3=0.0, scale=scale, gradient=gradient, beyond=beyond)


class CosFace(CombinedMargin):
    """`margin` subtracted from the own cosine (Wang et al. 2018, arXiv:1801.09414); AM-Softmax is the same.

    With t other than 1, scale * (g(cosine) - margin) against scale * g(cosine) (SphereFace2, table 12).

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CosFace(margin=0.35).forward(cosines, labels)
    tensor(9.6001)
    """

    _m3_name = "margin"

    def __init__(self, margin: float = 0.35, scale: float = 64.0, t: float = 1.0) -> None:
        super().__init__(m1=1.0, m2=0.0, m3=margin, scale=scale, t=t)


class ArcFace(CombinedMargin):
    """`margin` radians added to the own angle (Deng et al. 2019, arXiv:1801.07698, eq. 3).

    With t other than 1, scale * g(cos(theta + margin)) against scale * g(cosine) (SphereFace2, table 12).

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> ArcFace(margin=0.5).forward(cosines, labels)
    tensor(17.6898)
    """

    _m2_name = "margin"

    def __init__(
        self,
        margin: float = 0.5,
        scale: float = 64.0,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
        t: float = 1.0,
    ) -> None:
        super().__init__(m1=1.0, m2=margin, m3=0.0, scale=scale, gradient=gradient, beyond=beyond, t=t)


class CM1(CombinedMargin):
    """The combined margin (1, 0.3, 0.2) of ArcFace's table 2.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CM1().forward(cosines, labels)
    tensor(17.8086)
    """

    def __init__(self, scale: float = 64.0, gradient: Gradient = "exact", beyond: Beyond = "monotone") -> None:
        super().__init__(m1=1.0, m2=0.3, m3=0.2, scale=scale, gradient=gradient, beyond=beyond)


class CM2(CombinedMargin):
    """The combined margin (0.9, 0.4, 0.15) of ArcFace's table 2.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CM2().forward(cosines, labels)
    tensor(14.3142)
    """

    def __init__(self, scale: float = 64.0, gradient: Gradient = "exact", beyond: Beyond = "monotone") -> None:
        super().__init__(m1=0.9, m2=0.4, m3=0.15, scale=scale, gradient=gradient, beyond=beyond)


class AMSoftmax(CosFace):
    """AM-Softmax as the loss-search paper sets it (arXiv:2007.06542): CosFace with scale 32.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> AMSoftmax().forward(cosines, labels)
    tensor(4.8082)
    """

    def __init__(self, margin: float = 0.35, scale: float = 32.0) -> None:
        super().__init__(margin, scale)


class ArcSoftmax(ArcFace):
    """Arc-Softmax as the loss-search paper sets it (arXiv:2007.06542): ArcFace with scale 32.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> ArcSoftmax().forward(cosines, labels)
    tensor(8.8451)
    """

    def __init__(
        self, margin: float = 0.5, scale: float = 32.0, gradient: Gradient = "exact", beyond: Beyond = "monotone"
    ) -> None:
        super().__init__(margin, scale, gradient, beyond)
