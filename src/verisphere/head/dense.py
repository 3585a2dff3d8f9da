"""The dense engine: every cosine at once, plain autograd; the reference that other engines are compared with."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.contract import CenterQuery, WholeEngine, WholeView
from verisphere.head.subcenters import SubCenters, spread
from verisphere.losses.contract import ClassLoss, compared_rows


def dense_rest(
    loss: ClassLoss,
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    subcenters: SubCenters,
    *context: Float[Tensor, "batch"],
    class_weights: Float[Tensor, "classes"] | None = None,
) -> Float[Tensor, "batch"]:
    """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none.

    Args:
        loss: whose `others` are reduced.
        query: rows ready for comparison.
        centers: as stored.
        labels: of the rows; the class of that number is left out.
        subcenters: how the cosines of a class become one.
        context: of the loss, one number a row each.
        class_weights: how often each class counts in a sum, None for once; a softmax counts each once.
    """
    product = query @ compared_rows(centers, loss.similarity).flatten(0, 1).T
    cosine = subcenters.pooled(product.unflatten(1, centers.shape[:2]))  # (batch, classes)
    terms = loss.others(cosine, *(item[:, None] for item in context))
    own_class = labels[:, None] == torch.arange(len(centers), device=labels.device)
    if loss.reduce == "sum":
        terms = terms.masked_fill(own_class, 0.0)
        return (terms if class_weights is None else terms * class_weights).sum(1)
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
        asked = self.asked
        rest = dense_rest(
            loss, query, self.centers, asked.labels, asked.subcenters, *context, class_weights=asked.class_weights
        )
        # Backward reaches all of these as a streamed one does, also what `others` leaves unused: their gradients may be
        # sums over processes whose engines differ, and all must come to each sum.
        never = torch.zeros((), dtype=torch.bool, device=rest.device)
        for item in (query[:, 0], *context):
            rest = torch.where(never, item, rest) if item.requires_grad else rest
        return rest

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers."""
        each, weights = spread(self.centers[..., :columns]), self.asked.class_weights
        return each.mean() if weights is None else (each * weights).sum() / weights.sum()


@dataclass(frozen=True)
class Dense(WholeEngine):
    """Every cosine at once: B x N x K numbers, several times over, and plain autograd."""

    def view(self, centers: Float[Tensor, "classes subcenters columns"], query: CenterQuery) -> DenseView:
        """The centers for a batch; their gradient goes to autograd."""
        centers = centers.to(query.dtype)
        return DenseView(centers[query.labels.clamp(min=0)], centers, query)
