"""The other classes of a batch, chunk by chunk: the cosines to them, and the nearest of them."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import Similarity, compared_rows

#: Cosines, or entries of centers, that are held at once by default.
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
    """The `count` largest cosines (or products) of each row to other classes, descending; one for each class.

    A row whose own class is among the centers ends with minus infinity where `count` exceeds its other classes.

    `at_once` is the number of cosines, or entries of centers, that are held at a time; a chunk has at least one class.
    """
    nearest = query.new_empty(len(query), 0)
    for cosine, own in cosines_to_others(query, centers, labels, subcenters, similarity, at_once):
        nearest = torch.cat([nearest, cosine.masked_fill(own, -math.inf)], dim=1)
        nearest = nearest.topk(min(count, nearest.shape[1]), dim=1).values
    return nearest


def cosines_to_others(
    query: Float[Tensor, "batch columns"],
    centers: Float[Tensor, "classes subcenters columns"],
    labels: Int64[Tensor, "batch"],
    subcenters: SubCenters,
    similarity: Similarity,
    at_once: int = AT_ONCE,
) -> Iterator[tuple[Float[Tensor, "batch chunk"], Bool[Tensor, "batch chunk"]]]:
    """The cosines to each chunk of classes, and which of them are those to the own class."""
    classes, per_class, columns = centers.shape
    step = max(1, at_once // (per_class * max(len(query), columns)))
    for first in range(0, classes, step):
        chunk = compared_rows(centers[first : first + step].to(query.dtype), similarity)
        cosine = subcenters.pooled((query @ chunk.flatten(0, 1).T).unflatten(1, (-1, per_class)))
        yield cosine, labels[:, None] - first == torch.arange(len(chunk), device=labels.device)
