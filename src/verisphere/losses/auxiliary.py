"""Intra and inter terms beside a class-center loss, and the sum that joins them (ArcFace, arXiv:1801.07698).

The intra term pulls an embedding to its own center (eq. 5), the inter term pushes the centers apart (eq. 6). ArcFace's
table 2 adds each, and both, to Norm-Softmax and to ArcFace with weight 1: `WeightedSum([ArcFace(), Intra(), Inter()])`.
The triplet term of that table compares embeddings and does not concern centers.
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

    The value is between 0 and 1, also with one class, and 0.5 for an embedding of length 0. The loss needs no other
    center.

    >>> import torch
    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> Intra().forward(cosines, labels)
    tensor(0.3333)
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
        """Zero: the loss has no such term."""
        return 0.0 * cosine

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The own term."""
        return own

    def slope(self) -> float:
        """d finish / d rest: 0, since `finish` does not use `rest`."""
        return 0.0

    def bound(self) -> float | None:
        """The terms of the other classes are 0."""
        return 0.0


class Inter(ClassLoss):
    """The nearness of the other centers to the own center: the mean over j != y of (pi - arccos<w_y, w_j>) / pi.

    This is our reading of eq. 6, whose text says that the angle between different centers grows: 1 minus the mean angle
    over pi, a loss between 0 and 1. With one class it is 0. It depends on an embedding only through the choice of the
    nearest own sub-center, and gives it the gradient 0.

    >>> import torch
    >>> from verisphere.head import Head
    >>> head = Head(Inter(), classes=2, size=2)
    >>> _ = head.centers.data.copy_(torch.eye(2)[:, None])
    >>> head(torch.ones(1, 2), torch.tensor([0])).loss  # centers at right angles
    tensor(0.5000, grad_fn=<SumBackward0>)
    """

    reduce = "sum"
    query = "own_center"
    linear = True
    exact_products = True

    def __init__(self) -> None:
        super().__init__(scale=1.0)
        self.pairs = 0

    def prepare(self, classes: int) -> None:
        """Set the number of other centers, which divides the mean."""
        super().prepare(classes)
        self.pairs = classes - 1

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """Zero: the loss has no such term."""
        return 0.0 * cosine

    def others(
        self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch classes"]:
        """1 - angle / pi, from 0 (opposite) to 1 (the same direction)."""
        return 1.0 - angle(cosine) / pi

    def finish(
        self, own: Float[Tensor, "batch"], rest: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]
    ) -> Float[Tensor, "batch"]:
        """The mean over the other centers; the own term gives the embeddings the gradient 0, which DDP waits for."""
        return own + self.slope() * rest

    def slope(self) -> float:
        """d finish / d rest: one over the number of other centers (0 where there are none)."""
        return 1.0 / self.pairs if self.pairs else 0.0

    def bound(self) -> float | None:
        """The value for two equal centers."""
        return 1.0


class WeightedSum(ClassLoss):
    """Several class-center losses over the same centers, added with weights; a head computes each of its `terms`.

    Each term that needs other centers costs a pass over them. Labels of -1 are allowed if every term accepts them;
    `set_strength` sets the strength of every term.

    >>> import torch
    >>> from verisphere.losses import ArcFace
    >>> loss = WeightedSum([ArcFace(), Intra()], weights=[1.0, 0.5])
    >>> loss.forward(torch.tensor([[0.5, 0.3]]), torch.tensor([0]))
    tensor(17.8565)

    Args:
        losses: the terms; sums among them are unrolled. They must agree in `similarity` and `class_bias`.
        weights: weight of each term, finite and >= 0; 1 by default.

    Raises:
        ValueError: no losses, weights that do not match the losses, or losses that need different centers.
    """

    def __init__(self, losses: Sequence[ClassLoss], weights: Sequence[float] | None = None) -> None:
        super().__init__(scale=1.0)
        weights = [1.0] * len(losses) if weights is None else list(weights)
        if not losses:
            raise ValueError("losses is empty; a sum needs at least one loss")
        if len(weights) != len(losses):
            raise ValueError(f"weights has {len(weights)} numbers for {len(losses)} losses; each loss needs one")
        if not all(isfinite(weight) and weight >= 0 for weight in weights):
            raise ValueError(f"weights are {weights}; each must be a finite number >= 0")
        kinds = {(loss.similarity, loss.class_bias) for loss in losses}
        if len(kinds) > 1:
            named = ", ".join(f"{type(loss).__name__} {loss.similarity}" for loss in losses)
            raise ValueError(f"losses disagree in similarity or class bias ({named}); they share one set of centers")
        self.losses, self.weights = nn.ModuleList(losses), weights
        ((self.similarity, self.class_bias),) = kinds
        # A head reads these of the sum itself: rows labelled -1 are refused if any of the terms refuses them.
        self.reduce = "sum" if all(loss.reduce == "sum" for loss in losses) else "logsumexp"
        self.query = "own_center" if any(loss.query == "own_center" for loss in losses) else "embedding"

    @property
    def terms(self) -> tuple[tuple[float, ClassLoss], ...]:
        """(weight, loss) of every term that is not itself a sum."""
        return tuple(
            (weight * term_weight, term)
            for weight, loss in zip(self.weights, self._losses(), strict=True)
            for term_weight, term in loss.terms
        )

    @property
    def moves(self) -> bool:
        """Whether any of the terms does."""
        return any(loss.moves for loss in self._losses())

    def set_strength(self, share: float) -> None:
        """Set the strength of every term."""
        super().set_strength(share)
        for loss in self._losses():
            loss.set_strength(share)

    def prepare(self, classes: int) -> None:
        """Prepare every term."""
        super().prepare(classes)
        for loss in self._losses():
            loss.prepare(classes)

    @property
    def class_domains(self) -> tuple[str, ...]:
        """The domains that any of the terms distinguishes."""
        return tuple(dict.fromkeys(domain for loss in self._losses() for domain in loss.class_domains))

    def prepare_domains(self, domains: Sequence[str] | None) -> None:
        """Give every term the domain of each class."""
        for loss in self._losses():
            loss.prepare_domains(domains)

    def observe(self, rows: Rows) -> None:
        """Update the slow state of every term."""
        for loss in self._losses():
            loss.observe(rows)

    def own(self, cosine: Float[Tensor, "batch"], *context: Float[Tensor, "batch"]) -> NoReturn:
        """Always raises: a head computes the terms of a sum, not the sum itself."""
        raise NotImplementedError("a WeightedSum has no own-class term: use its `terms`")

    def others(self, cosine: Float[Tensor, "batch classes"], *context: Float[Tensor, "batch 1"]) -> NoReturn:
        """Always raises: a head computes the terms of a sum, not the sum itself."""
        raise NotImplementedError("a WeightedSum has no other-class terms: use its `terms`")

    def _losses(self) -> list[ClassLoss]:
        return list(self.losses)  # type: ignore[arg-type]  # a ModuleList does not carry the type of its modules

    def extra_repr(self) -> str:
        """What `print(loss)` shows beside the losses."""
        return f"weights={self.weights}"
