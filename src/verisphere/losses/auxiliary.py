"""Intra and inter terms beside a class-center loss, and the sum that joins them (ArcFace, arXiv:1801.07698).

The intra term pulls an embedding to its own center (eq. 5), the inter term pushes the centers apart (eq. 6). ArcFace's
table 2 adds each, and both, to Norm-Softmax and to ArcFace with weight 1:
`WeightedSum([ArcFace(), Intra(), Inter()])`. The triplet term of that table compares embeddings and is not a matter of
centers.
"""

from collections.abc import Sequence
from math import isfinite, pi
from typing import NoReturn

from jaxtyping import Float
from torch import Tensor, nn

from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.score.cosine import angle


class Intra(ClassLoss):
    """The angle between embedding and own center as a share of 180 degrees, theta_y / pi; eq. 5 without its first term.

    Between 0 and 1, and so with one class, too; 0.5 for an embedding of length 0. It looks at no other center.
    """

    reduce = "sum"
    query = "none"
    linear = True

    def __init__(self) -> None:
        super().__init__(scale=1.0)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """theta_y / pi."""
        return angle(cosine) / pi

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """Nothing."""
        return 0.0 * cosine

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The own term."""
        return own

    def slope(self) -> float:
        """d finish / d rest."""
        return 0.0

    def bound(self) -> float | None:
        """There are no others."""
        return 0.0


class Inter(ClassLoss):
    """How near the other centers are to the own one: the mean over j != y of (pi - arccos<w_y, w_j>) / pi.

    Our reading of eq. 6, whose text says that the angle between different centers grows: its mean angle over pi, taken
    from 1 so that it is a loss between 0 and 1. With one class it is 0. It sees an embedding only through the choice of
    the nearest own sub-center, and gives it no gradient.
    """

    reduce = "sum"
    query = "own_center"
    linear = True
    exact_products = True

    def __init__(self) -> None:
        super().__init__(scale=1.0)
        self.pairs = 0

    def prepare(self, classes: int) -> None:
        """Learn how many other centers the mean is over."""
        self.pairs = classes - 1

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Nothing."""
        return 0.0 * cosine

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """1 - angle / pi, from 0 (opposite) to 1 (the same direction)."""
        return 1.0 - angle(cosine) / pi

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The mean over the other centers."""
        return self.slope() * rest

    def slope(self) -> float:
        """d finish / d rest: one over the number of other centers (0 where there are none)."""
        return 1.0 / self.pairs if self.pairs else 0.0

    def bound(self) -> float | None:
        """A center compared with itself."""
        return 1.0


class WeightedSum(ClassLoss):
    """Several class-center losses over the same centers, added with weights; a head runs its `terms` one by one.

    Each term that looks at other centers costs a pass over them. Labels of -1 need every term to accept them, and
    `set_strength` reaches every term.

    Args:
        losses: the terms; sums among them are unrolled. They must agree in `similarity` and `class_bias`.
        weights: one a term, finite and >= 0; 1 each by default.

    Raises:
        ValueError: no losses, weights that do not fit, or losses that want other centers.
    """

    def __init__(self, losses: Sequence[ClassLoss], weights: Sequence[float] | None = None) -> None:
        super().__init__(scale=1.0)
        weights = [1.0] * len(losses) if weights is None else list(weights)
        if not losses:
            raise ValueError("losses is empty; a sum needs at least one loss")
        if len(weights) != len(losses):
            raise ValueError(f"weights has {len(weights)} numbers for {len(losses)} losses; each takes one")
        if not all(isfinite(weight) and weight >= 0 for weight in weights):
            raise ValueError(f"weights are {weights}; each must be a finite number >= 0")
        wants = {(loss.similarity, loss.class_bias) for loss in losses}
        if len(wants) > 1:
            named = ", ".join(f"{type(loss).__name__} {loss.similarity}" for loss in losses)
            raise ValueError(f"losses disagree in similarity or class bias ({named}); they share one set of centers")
        self.losses, self.weights = nn.ModuleList(losses), weights
        ((self.similarity, self.class_bias),) = wants
        # What a head must know before it unrolls: rows labelled -1 are refused if any of the terms refuses them.
        self.reduce = "sum" if all(loss.reduce == "sum" for loss in losses) else "logsumexp"
        self.query = "own_center" if any(loss.query == "own_center" for loss in losses) else "embedding"

    @property
    def terms(self) -> tuple[tuple[float, ClassLoss], ...]:
        """(weight, loss) of every term that is not itself a sum."""
        return tuple(
            (weight * inner, term)
            for weight, loss in zip(self.weights, self._losses(), strict=True)
            for inner, term in loss.terms
        )

    def set_strength(self, share: float) -> None:
        """Set it for every term."""
        super().set_strength(share)
        for loss in self._losses():
            loss.set_strength(share)

    def prepare(self, classes: int) -> None:
        """Prepare every term."""
        for loss in self._losses():
            loss.prepare(classes)

    def observe(self, rows: Rows) -> None:
        """Let every term observe."""
        for loss in self._losses():
            loss.observe(rows)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> NoReturn:
        """Not for a sum: its terms are asked one by one."""
        raise NotImplementedError("a WeightedSum has no own term: run its `terms` one by one")

    def others(self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]) -> NoReturn:
        """Not for a sum: its terms are asked one by one."""
        raise NotImplementedError("a WeightedSum has no other terms: run its `terms` one by one")

    def _losses(self) -> list[ClassLoss]:
        return list(self.losses)  # type: ignore[arg-type]  # a ModuleList forgets what its modules are

    def extra_repr(self) -> str:
        """What `print(loss)` shows beside the losses."""
        return f"weights={self.weights}"
