"""SphereFace-R, version 1: a multiplicative margin that stops at 180 degrees (Liu et al. 2021, arXiv:2109.05565).

The margin changes the value of the own logit only; the gradient is that of the plain cosine (characteristic gradient
detachment). Embeddings have a fixed length, the paper's hard feature normalisation. The paper's version 2, and its
schemes with soft or no normalisation, are not implemented: we had no description of them.
"""

from math import isfinite, pi

from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_word
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.margin import Gradient, detached_gradient
from verisphere.score.cosine import angle


def saturated_multiple(cosine: Float[Tensor, "batch"], m: float) -> Float[Tensor, "batch"]:
    """cos(min(m * theta, pi)) for the own-class cosine: the margin of version 1, before scaling.

    Beyond theta = pi / m it is -1, with gradient 0. m is >= 1, and 1 gives the cosine.
    """
    return (m * angle(cosine)).clamp(max=pi).cos()


class SphereFaceR(ClassLoss):
    """Softmax loss with an own logit of scale * cos(min(margin * theta, pi)).

    `set_strength` moves the factor from 1 to `margin`.

    >>> import torch
    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> SphereFaceR().forward(cosines, labels)
    tensor(9.0001)

    Args:
        margin: factor on the angle, >= 1. 1.5 and the scale of 30 are the defaults of the authors' released SphereFace;
            SphereFace2-M uses 1.7.
        scale: fixed length of the embeddings, the factor from cosine to logit.
        gradient: "detached" as in the paper, or "exact", which is 0 beyond theta = pi / margin.

    Raises:
        ValueError: a setting is outside its range.
    """

    def __init__(self, margin: float = 1.5, scale: float = 30.0, gradient: Gradient = "detached") -> None:
        super().__init__(scale)
        if not (isfinite(margin) and margin >= 1):
            raise ValueError(f"margin is {margin}; it multiplies the angle and must be at least 1 (1 is no margin)")
        check_word("gradient", gradient, Gradient)
        self.margin, self.gradient = margin, gradient

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * cos(min(margin * theta, pi))."""
        value = saturated_multiple(cosine, 1.0 + self.strength * (self.margin - 1.0))
        return self.scale * (detached_gradient(value, cosine) if self.gradient == "detached" else value)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
