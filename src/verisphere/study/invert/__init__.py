"""Inversion: images that a network takes for given people, found by gradient descent on their pixels."""

from verisphere.study.invert.inversion import (
    BatchNormStatistics,
    Identity,
    Inversion,
    TowardCenters,
    TowardEmbeddings,
    energy,
    invert,
    total_variation,
    toward_embeddings,
)

__all__ = [
    "BatchNormStatistics",
    "Identity",
    "Inversion",
    "TowardCenters",
    "TowardEmbeddings",
    "energy",
    "invert",
    "total_variation",
    "toward_embeddings",
]
