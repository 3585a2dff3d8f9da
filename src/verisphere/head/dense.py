"""The dense engine: every cosine at once, plain autograd; the reference that other engines are compared with."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.contract import Waiting, WholeEngine, WholeView
from verisphere.head.subcenters import SubCenters, spread
from verisphere.losses.contract import ClassLoss, Similarity, compared_rows


def dense_rest(
    loss: ClassLoss,
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    subcenters: SubCenters,
    *context: Float[Tensor, "batch"],
) -> Float[Tensor, "batch"]:
    """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none."""
    product = query @ compared_rows(centers, loss.similarity).flatten(0, 1).T
    cosine = subcenters.pooled(product.unflatten(1, centers.shape[:2]))  # (batch, classes)
    terms = loss.others(cosine, *(item[:, None] for item in context))
    own_class = labels[:, None] == torch.arange(len(centers), device=labels.device)
    if loss.reduce == "sum":
        return terms.masked_fill(own_class, 0.0).sum(1)
    return terms.masked_fill(own_class, -math.inf).logsumexp(1)


class DenseView(WholeView):
    """All centers, for one batch."""

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """See `dense_rest`."""
        return dense_rest(loss, query, self.centers, self.labels, self.subcenters, *context)

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers."""
        return spread(self.centers[..., :columns]).mean()


@dataclass(frozen=True)
class Dense(WholeEngine):
    """Every cosine at once: B x N x K numbers, several times over, and plain autograd."""

    def view(
        self,
        centers: Float[Tensor, "classes subcenters columns"],
        labels: Int64[Tensor, "batch"],
        subcenters: SubCenters,
        similarity: Similarity,
        dtype: torch.dtype,
        take: Callable[[Waiting], None] | None = None,
    ) -> DenseView:
        """The centers for a batch with these labels; their gradient goes to autograd."""
        centers = centers.to(dtype)
        return DenseView(centers[labels.clamp(min=0)], centers, labels, subcenters, similarity)
