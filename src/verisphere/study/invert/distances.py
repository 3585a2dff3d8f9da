"""Distances between two sets of images in a space of features, such as generated and real images."""

import numpy as np
from jaxtyping import Float


def frechet_distance(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> float:
    """Frechet distance of two normal distributions with the means and covariances of two sets (Heusel et al. 2017).

    It is |mean difference|^2 + trace(A + B - 2 (A B)^(1/2)), with the covariances A and B divided by the number of
    images minus one. The trace of the root is the sum of the roots of the eigenvalues of A^(1/2) B A^(1/2).

    >>> one, other = np.array([[0.0], [2.0]]), np.array([[3.0], [5.0]])
    >>> round(frechet_distance(one, other), 6)  # equal variances, means apart by 3
    9.0
    """
    dim = ours.shape[1]
    fewest = min(len(ours), len(theirs))
    if fewest <= dim:
        raise ValueError(f"{fewest} images and {dim} dimensions; a Frechet distance takes more images than dimensions")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    a, b = (np.atleast_2d(np.cov(rows, rowvar=False)) for rows in (ours, theirs))
    values, vectors = np.linalg.eigh(a)
    root = (vectors * np.sqrt(values.clip(0))) @ vectors.T
    shared = np.sqrt(np.linalg.eigvalsh(root @ b @ root).clip(0)).sum()
    between = ((ours.mean(0) - theirs.mean(0)) ** 2).sum()
    return float(max(between + np.trace(a) + np.trace(b) - 2.0 * shared, 0.0))


def kernel_distance(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> float:
    """Squared maximum mean discrepancy with the kernel (x . y + 1)^3 between unit rows, without bias.

    Binkowski et al. 2018 (arXiv:1801.01401) divide x . y by the number of dimensions, since the features that they use
    grow with it; unit rows do not. Without bias its mean is 0 for two sets of one distribution, so it can be negative.

    >>> rows = np.eye(3)
    >>> kernel_distance(rows, rows)  # within the sets 1; between them a third is 8, the rest 1
    -4.666666666666667
    """
    if min(len(ours), len(theirs)) < 2:
        raise ValueError("a kernel distance takes two images or more in each set")
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    return _within(ours) + _within(theirs) - 2.0 * float(_kernel(ours, theirs).mean())


def _kernel(ours: Float[np.ndarray, "images dim"], theirs: Float[np.ndarray, "others dim"]) -> np.ndarray:
    return (ours @ theirs.T + 1.0) ** 3


def _within(rows: Float[np.ndarray, "images dim"]) -> float:
    """Mean of the kernel over the pairs of two different rows."""
    kernel = _kernel(rows, rows)
    return float((kernel.sum() - np.trace(kernel)) / (len(rows) * (len(rows) - 1)))
