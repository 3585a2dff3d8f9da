"""Domains that a network makes for itself (Liu et al. 2022, OneFace, section 4.2), and GroupFace's groups likewise.

A small network guesses at each image's domain. Its guesses, evened out over the batch so that no domain takes them all
(eq. 5), become the labels that it is then trained on (eq. 6): self-distributed labels (Kim et al. 2020,
arXiv:2005.10497, eq. 8).
"""

from math import sqrt
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

#: Of which numbers eq. 6 takes the softmax: the network's own, as cross entropy means it, or the probabilities.
CrossEntropy = Literal["logits", "as_printed"]

#: Width of the layer between; no text says.
HIDDEN = 256


def expectation_normalised(probabilities: Float[Tensor, "batch domains"]) -> Float[Tensor, "batch domains"]:
    """(p_i^m - mean_i p_i^m) / M + 1 / M: over the batch each domain's mean is 1 / M; eq. 5.

    Args:
        probabilities: of M domains; a row adds up to 1.
    """
    domains = probabilities.shape[1]
    return (probabilities - probabilities.mean(0)) / domains + 1 / domains


def self_made_labels(logits: Float[Tensor, "batch domains"]) -> Int64[Tensor, " batch"]:
    """The domain of each row: the largest of its expectation-normalised probabilities, the first of equal ones.

    It depends on the whole batch, which is that of all processes.
    """
    return expectation_normalised(logits.detach().softmax(1)).argmax(1)


def self_made_loss(
    logits: Float[Tensor, "batch domains"], labels: Int64[Tensor, " batch"], cross_entropy: CrossEntropy = "logits"
) -> Float[Tensor, ""]:
    """The mean cross entropy to the labels; eq. 6.

    As printed, eq. 6 takes the softmax of the probabilities p: with all of it on the right one of M domains a row's
    loss is still log(1 + (M - 1) / e), 1.27 at M = 8, and the gradient is small everywhere. Cross entropy of the logits
    is what it means.

    Args:
        logits: before the softmax.
        labels: of each row.
        cross_entropy: see `CrossEntropy`.
    """
    return F.cross_entropy(logits if cross_entropy == "logits" else logits.softmax(1), labels)


class ImplicitDomains(nn.Module):
    """The network of eq. 4: two fully connected layers, from an embedding to a number for each domain.

    Between them stands a ReLU, without which two layers are one; the text names none. Embeddings come in at length
    sqrt(d), which gives their numbers a mean square of 1: what a domain is does not depend on an embedding's length,
    and no loss is lowered by making them longer. Weights are drawn from PyTorch's random numbers.

    Args:
        embedding_size: d.
        domains: M.
        hidden: width of the layer between.

    Raises:
        ValueError: fewer than 2 domains, or another count below 1.
    """

    def __init__(self, embedding_size: int, domains: int = 8, hidden: int = HIDDEN) -> None:
        super().__init__()
        for name, value, least in (
            ("embedding_size", embedding_size, 1),
            ("domains", domains, 2),
            ("hidden", hidden, 1),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        self.first = nn.Linear(embedding_size, hidden)
        self.last = nn.Linear(hidden, domains)

    def forward(self, units: Float[Tensor, "batch dim"]) -> Float[Tensor, "batch domains"]:
        """Logits of the domains, from rows of length 1; eq. 4 without its softmax."""
        rows = units.to(self.first.weight) * sqrt(units.shape[1])
        return self.last(F.relu(self.first(rows)))
