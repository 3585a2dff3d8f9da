"""Label noise drawn for embeddings: which labels are wrong, and what they are instead."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from verisphere.seeds import numpy_generator


@dataclass(frozen=True, eq=False)
class DrawnNoise:
    """Which labels of a set are wrong, and what they are instead.

    Attributes:
        labels: label of each image, with noise.
        wrong: whether the label was altered.
        outside: whether the image is to be replaced by one of a person outside the set; its label is the class's.
    """

    labels: Int64[np.ndarray, " images"]
    wrong: Bool[np.ndarray, " images"]
    outside: Bool[np.ndarray, " images"]


def draw_noise(
    labels: Int64[np.ndarray, " images"], classes: int, rate: float, open_share: float, seed: int
) -> DrawnNoise:
    """Draw label noise: the same share of the labels of each class (SphereFace2, Wen et al. 2022, section 3.3).

    Of the n images of a class, `round(rate * n)` are wrong. Of all wrong images, `round(open_share * wrong)` are
    replaced by images of people outside; each of the others gets a label drawn uniformly from all other classes.

    >>> noise = draw_noise(np.array([0, 0, 0, 0, 1, 1]), classes=2, rate=0.5, open_share=0.0, seed=0)
    >>> int(noise.wrong[:4].sum()), int(noise.wrong[4:].sum()), np.bincount(noise.labels).tolist()
    (2, 1, [3, 3])
    """
    random = numpy_generator(seed)
    order = np.lexsort((random.random(len(labels)), labels))
    counts = np.bincount(labels, minlength=classes)
    place = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels[order]]  # among the images of its class
    wrong = np.zeros(len(labels), bool)
    wrong[order] = place < np.rint(rate * counts).astype(int)[labels[order]]
    drawn = random.permutation(np.flatnonzero(wrong))
    outside = np.zeros(len(labels), bool)
    outside[drawn[: round(open_share * len(drawn))]] = True
    flipped = wrong & ~outside
    noisy = labels.copy()
    noisy[flipped] = (labels[flipped] + 1 + random.integers(0, classes - 1, flipped.sum())) % classes
    return DrawnNoise(noisy, wrong, outside)
