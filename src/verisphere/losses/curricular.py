"""CurricularFace: hard classes gain weight during a training (Huang et al. 2020, arXiv:2004.00288)."""

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import Rows, follow
from verisphere.losses.margin import Beyond, CombinedMargin, Gradient


def curricular_cosine(
    cosine: Float[Tensor, "batch classes"], edge: Float[Tensor, "batch 1"], t: Float[Tensor, "batch 1"]
) -> Float[Tensor, "batch classes"]:
    """The other classes' cosines: cosine * (t + cosine) above the edge (hard), unchanged up to it (easy).

    It jumps at the edge, unless t + cosine is 1 there. The edge is the own-class cosine with its margin. t, the
    progress of the curriculum, is about 0 at the start, where hard classes have little weight.
    """
    return torch.where(cosine > edge, cosine * (t + cosine), cosine)


class CurricularFace(CombinedMargin):
    """ArcFace whose hard classes are weighted by the running mean of the own cosine.

    t <- (1 - rate) * t + rate * (mean own cosine of the global batch), which starts at 0 and is updated before it is
    used; no gradient flows through t or the edge. The edge is the own cosine with its margin, by the same rule as the
    own logit; the authors' code uses cos(theta + m) there even past theta + m = pi, where its logit follows another
    rule.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> CurricularFace().forward(cosines, labels)
    tensor(4.2640)

    Args:
        margin: added to the own angle, radians.
        scale: factor from cosine to logit.
        rate: weight of a batch in t, in (0, 1]; 0.01 in the paper.
        gradient: gradient of the own logit, see `CombinedMargin`.
        beyond: the rule for the own logit past theta + margin = pi, see `combined_margin`.

    The buffer `curriculum` contains t. `set_strength` scales the margin only, since t is a schedule by itself.

    Raises:
        ValueError: a number outside its range.
    """

    curriculum: Tensor

    _m2_name = "margin"

    def __init__(
        self,
        margin: float = 0.5,
        scale: float = 64.0,
        rate: float = 0.01,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
    ) -> None:
        super().__init__(m1=1.0, m2=margin, m3=0.0, scale=scale, gradient=gradient, beyond=beyond)
        if not 0 < rate <= 1:
            raise ValueError(f"rate is {rate}; the weight of a batch in the running mean must be in (0, 1]")
        self.rate = rate
        self.register_buffer("curriculum", torch.zeros(()))  # the paper's t

    def observe(self, rows: Rows) -> None:
        """Update t from the mean own cosine."""
        follow(self.curriculum, rows.own.mean(), self.rate)

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The edge between easy and hard classes, and the current t."""
        # A copy, since the next batch may change t in place before the backward pass of this batch.
        return self.margined(rows.own.detach()), self.curriculum.clone()

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * `curricular_cosine`."""
        edge, t = context
        return self.scale * curricular_cosine(cosine, edge, t)

    def bound(self) -> float | None:
        """t is a mean of cosines, so cosine * (t + cosine) is at most 2."""
        return 2.0 * self.scale
