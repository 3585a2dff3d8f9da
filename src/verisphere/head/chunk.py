"""Element-wise work on one chunk of classes: pure functions, which an engine may compile.

`weighed` does all of a loss's work on the other classes. With z = others(cosine) and a shift s for each row, it gives
the row sums of exp(z - s) (or of z, for a loss that sums), and the derivative of their total weight in the products and
in the context. An engine multiplies that derivative by the centers, for the rows' gradient, and by the rows, for the
centers'.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss


def inverse_length(centers: Float[Tensor, "centers columns"]) -> Float[Tensor, "centers"]:
    """One over the length of each center, the factor from product to cosine; 0 for a center of length 0."""
    length = torch.linalg.vector_norm(centers, dim=1)
    return torch.where(length == 0, 0.0, 1.0 / length)


def write_gradient(
    gradient: Float[Tensor, "centers columns"],
    by_product: Float[Tensor, "centers columns"],
    centers: Float[Tensor, "centers columns"],
    inverse: Float[Tensor, "centers"] | None,
) -> None:
    """Fill `gradient` with the gradient in the stored centers, from the gradient in their products times the rows.

    A step along a center changes no cosine, so for cosines the component of `by_product` along the center is removed.
    `by_product` contains 1 / length already, as the derivative of a cosine in a product.
    """
    gradient.copy_(_across(by_product, centers, inverse))


def add_to_momentum(
    buffer: Float[Tensor, "centers columns"],
    by_product: Float[Tensor, "centers columns"],
    centers: Float[Tensor, "centers columns"],
    inverse: Float[Tensor, "centers"] | None,
    momentum: Float[Tensor, ""],
    weight_decay: Float[Tensor, ""],
) -> None:
    """buffer <- momentum * buffer + gradient + weight_decay * centers, the gradient as `write_gradient` has it.

    The numbers are tensors, since a compiler would compile the step anew for each value.
    """
    buffer.mul_(momentum).add_(_across(by_product, centers, inverse, weight_decay))


def step_by_momentum(
    buffer: Float[Tensor, "centers columns"],
    by_product: Float[Tensor, "centers columns"],
    centers: Float[Tensor, "centers columns"],
    inverse: Float[Tensor, "centers"] | None,
    momentum: Float[Tensor, ""],
    weight_decay: Float[Tensor, ""],
    rate: Float[Tensor, ""],
) -> None:
    """`add_to_momentum`, and then centers <- centers - rate * buffer, in one pass over the memory of a GPU."""
    add_to_momentum(buffer, by_product, centers, inverse, momentum, weight_decay)
    centers.sub_(rate * buffer)


def _across(by_product: Tensor, centers: Tensor, inverse: Tensor | None, weight_decay: Tensor | float = 0.0) -> Tensor:
    if inverse is None:
        return by_product + weight_decay * centers
    along = (by_product * centers).sum(1) * inverse * inverse
    return by_product + (weight_decay - along)[:, None] * centers


@dataclass(frozen=True, eq=False)
class ChunkTerms:
    """The terms of a loss for the other classes in a chunk.

    Attributes:
        dtype: type to compute in; products may be narrower.
        differentiated: whether the gradient of each item of the context is needed.
    """

    loss: ClassLoss
    subcenters: SubCenters
    dtype: torch.dtype
    differentiated: tuple[bool, ...]

    def others(
        self,
        product: Float[Tensor, "batch centers"],
        inverse: Float[Tensor, "centers"] | None,
        context: tuple[Float[Tensor, "batch _"], ...],
    ) -> Float[Tensor, "batch classes"]:
        """Logits or terms of the chunk's classes, including the own class."""
        cosine = product.to(self.dtype)
        if inverse is not None:
            cosine = cosine * inverse
        return self.loss.others(self.subcenters.pooled(cosine.unflatten(1, (-1, self.subcenters.count))), *context)

    def highest(
        self,
        product: Float[Tensor, "batch centers"],
        inverse: Float[Tensor, "centers"] | None,
        own_column: Int32[Tensor, "batch"],
        context: tuple[Float[Tensor, "batch _"], ...],
    ) -> Float[Tensor, "batch"]:
        """The highest logit of each row, the own class excluded; minus infinity where it is the only class."""
        logits = self.others(product, inverse, context)
        return logits.masked_fill(_own(own_column, logits), -math.inf).amax(1)

    def weighed(
        self,
        product: Float[Tensor, "batch centers"],
        inverse: Float[Tensor, "centers"] | None,
        own_column: Int32[Tensor, "batch"],
        shift: Float[Tensor, "batch"],
        context: tuple[Float[Tensor, "batch _"], ...],
        class_weight: Float[Tensor, "classes"] | None = None,
    ) -> tuple[Float[Tensor, "batch"], Float[Tensor, "batch centers"], tuple[Float[Tensor, "batch 1"], ...]]:
        """Row sums, and their derivatives in the products (of their type) and in the context's differentiated items.

        Args:
            inverse: one over the lengths of the centers; None where the loss compares products.
            own_column: column of the own class; a number outside the chunk where another chunk has it.
            shift: subtracted from the logits before the exponential; unused by a loss that sums its terms.
            context: items of the loss's context, one column each, and then a teacher's cosines if the loss reads them.
        """

        def others(product: Tensor, *wanted: Tensor) -> Tensor:
            replaced = iter(wanted)
            merged = (next(replaced) if want else item for want, item in zip(self.differentiated, context, strict=True))
            return self.others(product, inverse, tuple(merged))

        wanted = (item for want, item in zip(self.differentiated, context, strict=True) if want)
        terms, vjp = torch.func.vjp(others, product, *wanted)  # type: ignore[misc]  # a third item comes with has_aux
        own = _own(own_column, terms)
        if self.loss.reduce != "logsumexp":
            others_only, weight = terms.masked_fill(own, 0.0), (~own).to(terms)
            if class_weight is not None:
                others_only, weight = others_only * class_weight, weight * class_weight
            sums = others_only.sum(1)
        else:
            weight = (terms - shift[:, None]).exp().masked_fill(own, 0.0)
            sums = weight.sum(1)
        by_product, *by_context = vjp(weight)
        return sums, by_product, tuple(by_context)


def _own(own_column: Int32[Tensor, "batch"], terms: Float[Tensor, "batch classes"]) -> Tensor:
    return own_column[:, None] == torch.arange(terms.shape[1], dtype=torch.int32, device=terms.device)
