"""A look at the nearest other classes of a batch, chunk by chunk and without gradient."""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import Similarity, compared_rows

#: Cosines, or numbers of centers, that are held at once, where a call does not say.
AT_ONCE = 2**22


@torch.no_grad()
def nearest_others(
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    count: int,
    subcenters: SubCenters,
    similarity: Similarity,
    at_once: int = AT_ONCE,
) -> Float[Tensor, "batch nearest"]:
    """The `count` largest cosines (or products) of each row to other classes, falling; at most one for each class.

    A row whose class is one of these has one fewer, and ends with minus infinity where that is asked for.

    Args:
        query: rows ready for comparison.
        centers: as stored.
        labels: of the rows; the class of that number is left out.
        count: how many to find.
        subcenters: how the cosines of a class become one.
        similarity: how centers are compared.
        at_once: cosines, or numbers of centers, that are held at a time; at least one class is looked at.
    """
    classes, per_class, columns = centers.shape
    step = max(1, at_once // (per_class * max(len(query), columns)))
    found = query.new_empty(len(query), 0)
    for first in range(0, classes, step):
        chunk = compared_rows(centers[first : first + step].to(query.dtype), similarity)
        cosine = subcenters.pooled((query @ chunk.flatten(0, 1).T).unflatten(1, (-1, per_class)))
        own = labels[:, None] - first == torch.arange(len(chunk), device=labels.device)
        found = torch.cat([found, cosine.masked_fill(own, -math.inf)], dim=1)
        found = found.topk(min(count, found.shape[1]), dim=1).values
    return found
