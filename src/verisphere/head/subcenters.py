"""Sub-centers: K centers a class, how their cosines become one, and what keeps them together.

Sub-center ArcFace (Deng et al. 2019, arXiv:1801.07698, eq. 7) takes the nearest; its table 3 compares that with the
pooling and the regulariser of SoftTriple (Qian et al. 2019, arXiv:1909.05235).
"""

from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from verisphere.base.vocabulary import check_whole, check_word
from verisphere.score.cosine import unit

Pooling = Literal["max", "softmax"]


@dataclass(frozen=True)
class SubCenters:
    """How many centers a class has, and how an embedding's cosines to them become one.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, centers=SubCenters(3)).centers.shape
    torch.Size([10, 3, 4])

    Attributes:
        count: number of centers of each class, K.
        pooling: "max": as near as the nearest; "softmax": their mean, weighted by softmax(cosine / temperature).
        temperature: temperature of the softmax, SoftTriple's gamma; toward 0 the pooling becomes the maximum.
        pull_together: weight of the mean distance between sub-centers of a class; SoftTriple's tau; 0 is none.

    Raises:
        ValueError: a number outside its range, or an unknown pooling.
    """

    count: int = 1
    pooling: Pooling = "max"
    temperature: float = 0.1
    pull_together: float = 0.0

    def __post_init__(self) -> None:
        check_whole("count", self.count)
        if self.count < 1:
            raise ValueError(f"count is {self.count}; a class needs at least 1 center")
        check_word("pooling", self.pooling, Pooling)
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise ValueError(f"temperature is {self.temperature}; it must be a positive number (0.1 is usual)")
        if not (isfinite(self.pull_together) and self.pull_together >= 0):
            raise ValueError(f"pull_together is {self.pull_together}; it must be a number >= 0 (0 is none)")

    def pooled(self, cosine: Float[Tensor, "*rows subcenters"]) -> Float[Tensor, "*rows"]:
        """Pool the cosines to a class's sub-centers into one; equal maxima share the gradient."""
        if self.count == 1:
            return cosine.squeeze(-1)
        if self.pooling == "max":
            return cosine.amax(-1)
        return ((cosine / self.temperature).softmax(-1) * cosine).sum(-1)


def spread(centers: Float[Tensor, "classes subcenters columns"]) -> Float[Tensor, "classes"]:
    """Mean over the pairs of sub-centers of a class of sqrt(2 - 2 cos), their distance on the sphere; 0 where K = 1.

    SoftTriple, eq. 7, divided by the number of pairs. Two equal sub-centers have distance 0 and gradient 0.
    Centers may have any length.
    """
    pairs = list(combinations(range(centers.shape[1]), 2))
    if not pairs:
        return centers.new_zeros(len(centers))
    directions = unit(centers)
    # The length of a difference, not sqrt(2 - 2 cos): that cancels where they are near, and its slope diverges.
    apart = [torch.linalg.vector_norm(directions[:, left] - directions[:, right], dim=1) for left, right in pairs]
    return torch.stack(apart).mean(0)
