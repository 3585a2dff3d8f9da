"""Circle loss at class level: cosines weighted by distance from the optimum (Sun et al. 2020, arXiv:2002.10857)."""

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows


def circle_own(cosine: Float[Tensor, "batch"], margin: float) -> Float[Tensor, "batch"]:
    """[1 + m - cosine]+ * (cosine - (1 - m)) for the own class, the bracket without gradient; eq. 6.

    No gradient flows through the bracket, so it is the slope: a cosine farther from 1 + m has a larger gradient.
    """
    return (1.0 + margin - cosine.detach()).clamp(min=0.0) * (cosine - (1.0 - margin))


def circle_others(
    cosine: Float[Tensor, "batch classes"], margin: Float[Tensor, "batch 1"]
) -> Float[Tensor, "batch classes"]:
    """[cosine + m]+ * (cosine - m) for the other classes, the bracket without gradient; eq. 6."""
    return (cosine.detach() + margin).clamp(min=0.0) * (cosine - margin)


class Circle(ClassLoss):
    """Softmax over self-paced similarities (eq. 6), with the own class as the only positive.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> Circle().forward(cosines, labels)
    tensor(55.0400)

    Args:
        margin: m, in [0, 1), 0.25 in the paper; the optima are 1 + m and -m, the boundaries 1 - m and m.
        scale: gamma, 256 in the paper for faces.

    `set_strength` scales m; at 0 the weights [1 - cosine]+ and [cosine]+ remain.

    Raises:
        ValueError: a number outside its range.
    """

    def __init__(self, margin: float = 0.25, scale: float = 256.0) -> None:
        super().__init__(scale)
        if not 0 <= margin < 1:
            raise ValueError(f"margin is {margin}; it must be in [0, 1) (0.25 in the paper)")
        self.margin = margin

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The margin at the current strength."""
        return (torch.full((), self.strength * self.margin, dtype=rows.own.dtype, device=rows.own.device),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * `circle_own`."""
        return self.scale * circle_own(cosine, self.strength * self.margin)

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """scale * `circle_others`."""
        (margin,) = context
        return self.scale * circle_others(cosine, margin)

    def bound(self) -> float | None:
        """The value at cosine 1, scale * (1 - m**2) for a margin m, is largest at strength 0."""
        return self.scale
