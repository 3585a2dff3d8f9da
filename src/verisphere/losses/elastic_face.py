"""ElasticFace: a margin drawn anew for each row of each batch (Boutros et al. 2022, arXiv:2109.09416).

With E(m, sigma) a draw from the normal distribution, ElasticFace-Arc (eq. 6) has the own logit
scale * cos(theta + E(m, sigma)) and ElasticFace-Cos (eq. 7) scale * (cos(theta) - E(m, sigma)); every other logit is
scale * cos(theta_j), under a softmax. ElasticFace-Arc+ and -Cos+ give the larger margins of a batch to the rows that
are farther from their centers.
"""

from math import isfinite, pi
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import add_angular_margin

Kind = Literal["Arc", "Cos"]

#: The paper's m for each kind.
MARGINS: dict[Kind, float] = {"Arc": 0.5, "Cos": 0.35}

#: The paper's sigma for each kind, without and with the plus.
DEVIATIONS: dict[tuple[Kind, bool], float] = {
    ("Arc", False): 0.05,
    ("Cos", False): 0.05,
    ("Arc", True): 0.0175,
    ("Cos", True): 0.025,
}


def elastic_margin(
    noise: Float[Tensor, "batch"], margin: float, deviation: float, largest: float
) -> Float[Tensor, "batch"]:
    """E(m, sigma): margin + deviation * noise (standard normal), clipped to [0, largest]; infinity is no limit.

    The paper does not clip draws. For a margin below 0 the logit of ElasticFace-Arc would not fall with the angle; with
    the paper's numbers 0 is seven standard deviations away.
    """
    return (margin + deviation * noise).clamp(0.0, largest)


def by_distance(margin: Float[Tensor, "batch"], cosine: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
    """Reorder the margins so that rows with smaller own cosines receive larger margins (ElasticFace+).

    Rows with equal cosines receive their margins in the order of the batch. This is the paper's rule. The authors' code
    sorts both as here but then applies the inverse permutation: of 512 rows about two receive the right margin.
    """
    nearest_first = cosine.argsort(descending=True, stable=True)
    return torch.empty_like(margin).scatter_(0, nearest_first, margin.sort().values)


class ElasticFace(ClassLoss):
    """ArcFace or CosFace with a random margin for each row, a constant without gradient.

    In evaluation mode nothing is drawn and every row has the mean margin: the loss is then ArcFace or CosFace. Past
    theta + margin = pi the logit of "Arc" continues as that of `ArcFace` does with `beyond="monotone"`; the authors'
    code rises again. "plus" sorts over the global batch, as the head receives it: the rows of all ranks, and with
    `accumulate` those of one part; the authors' code sorts the rows of each rank.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> ElasticFace("Cos").forward(cosines, labels)
    tensor(9.6001)

    Args:
        kind: "Arc" (added to the angle) or "Cos" (subtracted from the cosine).
        margin: mean of the draws, the paper's m: in [0, pi) radians for "Arc", >= 0 for "Cos"; None is 0.5 or 0.35.
        deviation: standard deviation of the draws, the paper's sigma, >= 0; 0 is ArcFace or CosFace. None is 0.05, and
            with plus 0.0175 for "Arc" and 0.025 for "Cos" (0.02 in the authors' code).
        plus: whether the larger margins go to the rows that are farther from their centers, see `by_distance`.
        scale: factor from cosine to logit.

    `set_strength` scales the drawn margins.

    Raises:
        ValueError: a number outside its range or an unknown name.
    """

    noise = 1

    def __init__(
        self,
        kind: Kind = "Arc",
        margin: float | None = None,
        deviation: float | None = None,
        plus: bool = False,
        scale: float = 64.0,
    ) -> None:
        super().__init__(scale)
        check_word("kind", kind, Kind)
        margin = MARGINS[kind] if margin is None else margin
        deviation = DEVIATIONS[kind, plus] if deviation is None else deviation
        if kind == "Arc" and not 0 <= margin < pi:
            raise ValueError(f"margin is {margin}; that of kind 'Arc' must be in [0, pi) radians: is it in degrees?")
        if not (isfinite(margin) and margin >= 0):
            raise ValueError(f"margin is {margin}; that of kind 'Cos' must be a number >= 0 (0.35 in the paper)")
        if not (isfinite(deviation) and deviation >= 0):
            raise ValueError(f"deviation is {deviation}; it must be a number >= 0 (0 gives every row the same margin)")
        self.kind, self.margin, self.deviation, self.plus = kind, margin, deviation, plus

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The margin of each row."""
        if rows.noise is None:
            margin = torch.full_like(rows.own, self.margin)
        else:
            largest = pi if self.kind == "Arc" else torch.inf
            margin = elastic_margin(rows.noise[:, 0], self.margin, self.deviation, largest)
        if self.plus:
            margin = by_distance(margin, rows.own.detach())
        return (self.strength * margin,)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * cos(theta + margin), or scale * (cosine - margin)."""
        (margin,) = context
        return self.scale * (add_angular_margin(cosine, margin) if self.kind == "Arc" else cosine - margin)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
