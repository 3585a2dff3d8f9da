"""The dense engine: every cosine at once, plain autograd; the reference that other engines are compared with."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.interface import ViewRequest, WholeEngine, WholeView
from verisphere.head.subcenters import SubCenters, spread
from verisphere.head.teacher import Teacher
from verisphere.losses.class_loss import ClassLoss, compared_rows, reduced_others


def dense_rest(
    loss: ClassLoss,
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    subcenters: SubCenters,
    *context: Float[Tensor, "batch"],
    class_weights: Float[Tensor, "classes"] | None = None,
    teacher: Teacher | None = None,
) -> Float[Tensor, "batch"]:
    """Reduce the other classes of each row as `loss.reduce` says: minus infinity or 0 where there are none."""
    product = _Product.apply(query, compared_rows(centers, loss.similarity).flatten(0, 1))
    cosine = subcenters.pooled(product.unflatten(1, centers.shape[:2]))  # (batch, classes)
    of_teacher = teacher.rows @ teacher.centers.T if loss.teacher and teacher is not None else None
    return reduced_others(loss, cosine, labels, *context, class_weights=class_weights, teacher=of_teacher)


class _Product(torch.autograd.Function):
    """rows @ centers.T, whose backward an autocast around it does not round to half precision."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, centers: Tensor) -> Tensor:
        ctx.save_for_backward(rows, centers)
        return rows @ centers.T

    @staticmethod
    def backward(ctx: Any, by_product: Tensor) -> tuple[Tensor | None, Tensor | None]:
        rows, centers = ctx.saved_tensors
        with torch.autocast(by_product.device.type, enabled=False):
            return (
                by_product @ centers if ctx.needs_input_grad[0] else None,
                by_product.T @ rows if ctx.needs_input_grad[1] else None,
            )


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
        request = self.request
        rest = dense_rest(
            loss,
            query,
            self.centers,
            request.labels,
            request.subcenters,
            *context,
            class_weights=request.class_weights,
            teacher=request.teacher,
        )
        # The backward reaches all of these as that of the streamed engine does, also what `others` leaves unused: their
        # gradients may be all-reduced over ranks whose engines differ, and every rank must join each all-reduce.
        never = torch.zeros((), dtype=torch.bool, device=rest.device)
        for item in (query[:, 0], *context):
            rest = torch.where(never, item, rest) if item.requires_grad else rest
        return rest

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers."""
        spreads, weights = spread(self.centers[..., :columns]), self.request.class_weights
        return spreads.mean() if weights is None else (spreads * weights).sum() / weights.sum()


@dataclass(frozen=True)
class Dense(WholeEngine):
    """Every cosine at once: B x N x K numbers, several times over, and plain autograd.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Dense()).engine
    Dense()
    """

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> DenseView:
        """The centers for a batch; their gradient goes to autograd."""
        centers = centers.to(request.dtype)
        return DenseView(centers[request.labels.clamp(min=0)], centers, request)
