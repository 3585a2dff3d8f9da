"""A loss as a user would write it: one file outside the package, named in a recipe by its import path."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from verisphere.losses.class_loss import ClassLoss, Rows


class SoftMargin(ClassLoss):
    """A learned margin, harder for rows that are far from their center, and others that grow with a running mean."""

    def __init__(self, scale: float = 16.0) -> None:
        super().__init__(scale)
        self.margin = nn.Parameter(torch.tensor(0.2))
        self.register_buffer("mean", torch.zeros(()))

    def observe(self, rows: Rows) -> None:
        """Follow the own cosines."""
        self.mean.lerp_(rows.own.mean().to(self.mean), 0.1)

    def context(self, rows: Rows) -> tuple[Tensor, ...]:
        """A margin a row, with gradient, and the running mean."""
        return self.margin * (2.0 - rows.own), self.mean

    def own(self, cosine: Tensor, margin: Tensor, mean: Tensor) -> Tensor:
        """The cosine less the margin."""
        return self.scale * (cosine - margin)

    def others(self, cosine: Tensor, margin: Tensor, mean: Tensor) -> Tensor:
        """Steeper where a cosine is near the margin."""
        return self.scale * (cosine + (1.0 + mean) * F.softplus(cosine - margin))
