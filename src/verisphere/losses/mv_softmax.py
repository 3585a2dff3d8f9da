"""MV-Softmax: misclassified vectors guide the softmax (Wang et al. 2020, arXiv:1912.00833)."""

from math import isfinite
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import Beyond, CombinedMargin, Gradient

Kind = Literal["AM", "Arc"]
Weighting = Literal["adaptive", "fixed"]


def misclassified_cosine(
    cosine: Float[Tensor, "batch classes"],
    edge: Float[Tensor, "batch 1"],
    t: Float[Tensor, "batch 1"],
    weighting: Weighting = "adaptive",
) -> Float[Tensor, "batch classes"]:
    """The other classes' cosines, raised above the edge by t ("fixed") or t * (cosine + 1) ("adaptive").

    This equals the paper's weights exp(s * t) and exp(s * t * (cosine + 1)) on the exponentials.
    The edge is the own-class cosine with its margin; a class above it is misclassified. t is >= 0; 0 changes nothing.
    """
    raised = cosine + t * (cosine + 1.0) if weighting == "adaptive" else cosine + t
    return torch.where(cosine > edge, raised, cosine)


class MVSoftmax(CombinedMargin):
    """MV-AM-Softmax and MV-Arc-Softmax: a margin on the own class, and emphasis on the misclassified classes.

    The edge is the own cosine with its margin, by the same rule as the own logit, without gradient; the authors' code
    applies the margin to the logit only if the own cosine is large enough (above m for AM, above 0 for Arc).

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> MVSoftmax().forward(cosines, labels)
    tensor(17.1649)

    Args:
        kind: "AM" (subtracted from the cosine) or "Arc" (added to the angle).
        margin: margin on the own class; None is 0.35 (AM) or 0.5 radians (Arc).
        emphasis: emphasis on a misclassified class, the paper's t, >= 0; 0 is plain AM- or Arc-Softmax.
        weighting: "adaptive" or "fixed", see `misclassified_cosine`.
        scale: factor from cosine to logit; 32 in the paper.
        gradient: gradient of the own logit, see `CombinedMargin`.
        beyond: the rule for the own logit past theta + margin = pi, see `combined_margin`.

    `set_strength` scales both margin and emphasis.

    Raises:
        ValueError: a number outside its range or an unknown name.
    """

    _m2_name = "margin"
    _m3_name = "margin"

    def __init__(
        self,
        kind: Kind = "Arc",
        margin: float | None = None,
        emphasis: float = 0.2,
        weighting: Weighting = "adaptive",
        scale: float = 32.0,
        gradient: Gradient = "exact",
        beyond: Beyond = "monotone",
    ) -> None:
        check_word("kind", kind, Kind)
        if margin is None:
            margin = 0.35 if kind == "AM" else 0.5
        m2, m3 = (0.0, margin) if kind == "AM" else (margin, 0.0)
        super().__init__(m1=1.0, m2=m2, m3=m3, scale=scale, gradient=gradient, beyond=beyond)
        if not (isfinite(emphasis) and emphasis >= 0):
            raise ValueError(f"emphasis is {emphasis}; it must be a number >= 0 (0 is no emphasis)")
        check_word("weighting", weighting, Weighting)
        self.kind, self.emphasis, self.weighting = kind, emphasis, weighting

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The edge, and t at the current strength."""
        edge = self.margined(rows.own.detach())
        return edge, torch.full((), self.strength * self.emphasis, dtype=edge.dtype, device=edge.device)

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * `misclassified_cosine`."""
        edge, t = context
        return self.scale * misclassified_cosine(cosine, edge, t, self.weighting)

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        return self.m2 + self.m3 if name == "margin" else super().argument(name)

    def bound(self) -> float | None:
        """The value of a misclassified class at cosine 1."""
        return self.scale * (1.0 + (2.0 if self.weighting == "adaptive" else 1.0) * self.emphasis)
