"""AdaFace: a margin by image quality, estimated from the embedding's length (Kim et al. 2022, arXiv:2204.00964)."""

from math import isfinite, pi

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.losses.class_loss import ClassLoss, Rows, follow
from verisphere.score.cosine import angle

#: Lengths are clipped to this range before anything else, as in the authors' code.
LENGTHS = (1e-3, 100.0)

#: Added to the running standard deviation before it divides, as in the authors' code.
STD_FLOOR = 1e-3


def quality(
    length: Float[Tensor, "batch"], mean: Float[Tensor, ""], std: Float[Tensor, ""], h: float = 0.333
) -> Float[Tensor, "batch"]:
    """Image quality q in [-1, 1]: clip((length - mean) / (std / h), -1, 1), without gradient.

    Args:
        length: lengths of the embeddings, which are clipped to `LENGTHS`.
        std: running standard deviation of the lengths; `STD_FLOOR` is added to it.
        h: quality of a length one standard deviation above the mean; with a larger h more rows reach -1 or 1.
    """
    return (h * (length.detach().clamp(*LENGTHS) - mean) / (std + STD_FLOOR)).clamp(-1.0, 1.0)


def quality_margin(
    cosine: Float[Tensor, "batch"], quality: Float[Tensor, "batch"], margin: float
) -> Float[Tensor, "batch"]:
    """cos(theta - margin * q) - margin * (q + 1) for the own-class cosine, before scaling.

    q = -1 gives ArcFace, q = 0 CosFace, and q = 1 twice CosFace's margin minus an angular margin. The angle is clipped
    to [0, pi], since the cosine would rise again beyond; there the result is constant, without gradient. The authors'
    code clips at 0.001 and pi - 0.001.
    The margin is in radians in the angular part, and in cosine in the subtracted part.
    """
    return (angle(cosine) - margin * quality).clamp(0.0, pi).cos() - margin * (quality + 1.0)


class AdaFace(ClassLoss):
    """A margin on the own class that is larger for images of higher quality: `quality_margin` of `quality`.

    The running mean and standard deviation (n - 1) of the clipped lengths start at 20 and 100, as in the authors' code.
    `observe` updates them by `rate` from the global batch, before they are used. A batch of one row has no standard
    deviation and does not change the running one. No gradient flows through q.

    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> loss = AdaFace()
    >>> loss.forward(cosines, labels, norms=torch.tensor([20.0]))  # of average quality: CosFace
    tensor(12.8000)
    >>> loss.forward(cosines, labels, norms=torch.tensor([100.0]))
    tensor(13.9064)

    Args:
        margin: m, in radians for the angular part and in cosine for the subtracted part; in [0, pi / 2].
        h: concentration of quality, > 0.
        scale: factor from cosine to logit.
        rate: weight of a batch in the running statistics, in (0, 1]; 0.01 in the paper.

    `set_strength` scales the margin.

    Raises:
        ValueError: a number outside its range.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, margin: float = 0.4, h: float = 0.333, scale: float = 64.0, rate: float = 0.01) -> None:
        super().__init__(scale)
        if not 0 <= margin <= pi / 2:
            raise ValueError(f"margin is {margin}; it must be in [0, pi / 2] (0.4 in the paper)")
        if not (isfinite(h) and h > 0):
            raise ValueError(f"h is {h}; the concentration of quality must be a positive number (0.333 in the paper)")
        if not 0 < rate <= 1:
            raise ValueError(f"rate is {rate}; the weight of a batch in the running statistics must be in (0, 1]")
        self.margin, self.h, self.rate = margin, h, rate
        self.register_buffer("mean", torch.tensor(20.0))
        self.register_buffer("std", torch.tensor(100.0))

    def observe(self, rows: Rows) -> None:
        """Update the running mean and standard deviation from the batch."""
        length = rows.length.clamp(*LENGTHS).to(self.mean.dtype)
        follow(self.mean, length.mean(), self.rate)
        if len(length) > 1:
            follow(self.std, length.std(), self.rate)

    def context(self, rows: Rows) -> tuple[Float[Tensor, "..."], ...]:
        """The quality of each row."""
        return (quality(rows.length, self.mean, self.std, self.h),)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """scale * `quality_margin`."""
        (row_quality,) = context
        return self.scale * quality_margin(cosine, row_quality, self.strength * self.margin)

    def bound(self) -> float | None:
        """The other logits are scale * cosine."""
        return self.scale
