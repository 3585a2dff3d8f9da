"""MagFace: a margin that grows with embedding length, a measure of quality (Meng et al. 2021, arXiv:2103.06627)."""

from math import isfinite, pi

from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import add_angular_margin


def margin_of_length(
    length: Float[Tensor, "batch"], lengths: tuple[float, float], margins: tuple[float, float]
) -> Float[Tensor, "batch"]:
    """m(l), in radians: the straight line from margins[0] at lengths[0] to margins[1] at lengths[1].

    It is differentiable in the length, which must lie between the two lengths.
    """
    (shortest, longest), (least, most) = lengths, margins
    return least + (length - shortest) * ((most - least) / (longest - shortest))


def length_regulariser(length: Float[Tensor, "batch"], longest: float) -> Float[Tensor, "batch"]:
    """g(l) = 1 / l + l / longest**2, smallest at l = longest: it favours length, while the margin penalises it."""
    return 1.0 / length + length / longest**2


class MagFace(ClassLoss):
    """ArcFace with the margin m(l), plus weight * g(l), l the embedding's length clipped to [shortest, longest].

    Gradient flows through l where it is not clipped; an embedding of length 0 is treated as the shortest. With one
    class the loss is weight * g(l).

    >>> import torch
    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> MagFace(weight=0.0).forward(cosines, labels, norms=torch.tensor([10.0]))
    tensor(14.4939)
    >>> MagFace(weight=0.0).forward(cosines, labels, norms=torch.tensor([110.0]))
    tensor(36.6653)

    Args:
        shortest: length with the margin `least_margin`, > 0.
        longest: length with the margin `most_margin`.
        least_margin: smallest margin, radians.
        most_margin: largest margin, radians, below pi.
        weight: factor on the regulariser, lambda_g, >= 0; 35 in the paper.
        scale: factor from cosine to logit.

    `set_strength` scales the margin, not the regulariser.

    Raises:
        ValueError: a number outside its range, or a pair in the wrong order.
    """

    def __init__(
        self,
        shortest: float = 10.0,
        longest: float = 110.0,
        least_margin: float = 0.45,
        most_margin: float = 0.8,
        weight: float = 35.0,
        scale: float = 64.0,
    ) -> None:
        super().__init__(scale)
        if not (isfinite(longest) and 0 < shortest < longest):
            raise ValueError(
                f"shortest is {shortest} and longest {longest}; both must be positive, shortest below longest"
            )
        if not 0 <= least_margin <= most_margin < pi:
            raise ValueError(
                f"least_margin is {least_margin} and most_margin {most_margin}; both must be in [0, pi) radians, "
                "least_margin at most most_margin"
            )
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(
                f"weight is {weight}; the weight of the regulariser must be a number >= 0 (35 in the paper)"
            )
        self.lengths, self.margins, self.weight = (shortest, longest), (least_margin, most_margin), weight

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The clipped length of each row."""
        return (rows.length.clamp(*self.lengths),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * cos(theta + m(l))."""
        (length,) = context
        margin = self.strength * margin_of_length(length, self.lengths, self.margins)
        return self.scale * add_angular_margin(cosine, margin)

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """Softmax cross entropy + weight * g(l)."""
        (length,) = context
        return super().finish(own, rest, length) + self.weight * length_regulariser(length, self.lengths[1])

    def argument(self, name: str) -> object:
        """The value that the caller gave under this name."""
        names = ("shortest", "longest", "least_margin", "most_margin")
        return dict(zip(names, self.lengths + self.margins, strict=True)).get(name) or super().argument(name)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
