"""COCO, the congenerous cosine loss (Liu, Li and Wang 2017, arXiv:1702.06890 and arXiv:1710.00870).

Softmax over alpha times the cosine between the embedding and the class centers: NormFace, with its scale, alpha in the
paper, as the only parameter. The lowest loss that can be reached sets the smallest useful alpha.
"""

from math import expm1, isfinite, log

from verisphere.losses.margin import NormFace


def smallest_scale(classes: int, reachable: float) -> float:
    """The least scale at which a softmax over cosines can fall to `reachable`: log((N - 1) / (e^reachable - 1)) / 2.

    At best the own cosine is 1 and every other cosine -1, and the loss is log(1 + (N - 1) e^(-2 scale)). More than two
    directions cannot all be opposite, so this is a bound and not a recommendation. The derivation is ours; the paper's
    rule for alpha is not reproduced here.
    There are N >= 2 classes, and `reachable` is a loss in natural logarithms, > 0.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}; with fewer than 2 the loss is 0 at every scale")
    if not (isfinite(reachable) and reachable > 0):
        raise ValueError(f"reachable is {reachable}; it must be a positive finite loss (no scale reaches 0)")
    return 0.5 * log((classes - 1) / expm1(reachable))


class COCO(NormFace):
    """Softmax over `scale` times the cosine.

    The default of 30 is that of the code released with SphereFace2, where COCO is a baseline in table 5.
    `smallest_scale` gives a lower bound for a number of classes.

    >>> import torch
    >>> cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    >>> COCO(scale=4.0).forward(cosines, labels)
    tensor(0.3711)
    """

    def __init__(self, scale: float = 30.0) -> None:
        super().__init__(scale=scale)
