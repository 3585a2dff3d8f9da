"""The dense engine: every cosine at once, plain autograd; the reference that other engines are compared with."""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.losses.contract import ClassLoss, compared_rows


@runtime_checkable
class Engine(Protocol):
    """Reduces the other classes of each row to one number: the only part of a head that touches every center.

    It receives queries ready for comparison and centers as they are stored (an engine that works in chunks normalises
    them chunk by chunk), and leaves the own class out. A label that is not among the classes masks nothing.
    """

    def __call__(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        centers: Float[Tensor, "classes subcenters columns"],
        labels: Int64[Tensor, "batch"],
        *context: Float[Tensor, "batch"],
    ) -> Float[Tensor, "batch"]:
        """The other classes of each row, reduced as `loss.reduce` says."""
        ...


def dense_rest(
    loss: ClassLoss,
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    *context: Float[Tensor, "batch"],
) -> Float[Tensor, "batch"]:
    """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none.

    A class is as near as its nearest sub-center (sub-center ArcFace, eq. 7).
    """
    compared = compared_rows(centers, loss.similarity)
    classes, subcenters, _ = compared.shape
    cosine = (query @ compared.flatten(0, 1).T).unflatten(1, (classes, subcenters)).max(2).values  # (batch, classes)
    terms = loss.others(cosine, *(item[:, None] for item in context))
    own_class = labels[:, None] == torch.arange(classes, device=labels.device)
    if loss.reduce == "sum":
        return terms.masked_fill(own_class, 0.0).sum(1)
    return terms.masked_fill(own_class, -math.inf).logsumexp(1)
