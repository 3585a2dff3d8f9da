"""Implicit domains, which a network learns without labels (OneFace, Liu et al. 2022, section 4.2); GroupFace's groups.

A small network predicts each image's domain. Its predictions, normalised over the batch so that no domain takes every
image (eq. 5), become the labels that it is trained on (eq. 6): self-distributed labels (Kim et al. 2020,
arXiv:2005.10497, eq. 8).
"""

from math import sqrt
from typing import Literal

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

#: The input of eq. 6's softmax: the network's logits, as usual for a cross entropy, or its probabilities, as printed.
CrossEntropy = Literal["logits", "as_printed"]

#: Width of the hidden layer; neither paper states it.
HIDDEN = 256


def expectation_normalised(probabilities: Float[Tensor, "batch domains"]) -> Float[Tensor, "batch domains"]:
    """(p_i^m - mean_i p_i^m) / M + 1 / M, so that each domain's mean over the batch is 1 / M; eq. 5."""
    domains = probabilities.shape[1]
    return (probabilities - probabilities.mean(0)) / domains + 1 / domains


def self_made_labels(logits: Float[Tensor, "batch domains"]) -> Int64[Tensor, " batch"]:
    """The domain of each row: the largest of its expectation-normalised probabilities, or the first of equal ones.

    The result depends on all rows, so they must be the global batch.
    """
    return expectation_normalised(logits.detach().softmax(1)).argmax(1)


def self_made_loss(
    logits: Float[Tensor, "batch domains"], labels: Int64[Tensor, " batch"], cross_entropy: CrossEntropy = "logits"
) -> Float[Tensor, ""]:
    """The mean cross entropy to the labels; eq. 6.

    As printed, eq. 6 takes the softmax of the probabilities p: for a probability of 1 on the right one of M domains a
    row's loss is still log(1 + (M - 1) / e), 1.27 at M = 8, and the gradient is small everywhere. We take it to mean
    the cross entropy of the logits.
    """
    return F.cross_entropy(logits if cross_entropy == "logits" else logits.softmax(1), labels)


class ImplicitDomains(nn.Module):
    """The network of eq. 4: two fully connected layers, from an embedding to a logit for each domain.

    A ReLU separates the layers, which would otherwise equal a single one; the paper names no activation. Embeddings are
    scaled to length sqrt(d), where their numbers have a mean square of 1: so a domain does not depend on an embedding's
    length, and a longer embedding does not lower the loss. Weights are drawn from PyTorch's random numbers.
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
        """The logits of the domains for rows of length 1; eq. 4 without its softmax."""
        rows = units.to(self.first.weight) * sqrt(units.shape[1])
        return self.last(F.relu(self.first(rows)))
