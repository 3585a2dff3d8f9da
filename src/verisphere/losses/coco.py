"""COCO, the congenerous cosine loss (Liu, Li and Wang 2017, arXiv:1702.06890 and arXiv:1710.00870).

Softmax over alpha times the cosine between the embedding and the class centers: NormFace with its scale as the one
parameter, which the paper calls alpha. How large alpha has to be follows from how far the loss can fall.
"""

from math import expm1, isfinite, log

from verisphere.losses.margin import NormFace


def smallest_scale(classes: int, reachable: float) -> float:
    """The least scale at which a softmax over cosines can fall to `reachable`: log((N - 1) / (e^reachable - 1)) / 2.

    At best the own cosine is 1 and every other -1, and then the loss is log(1 + (N - 1) e^(-2 scale)). More than two
    directions cannot all be opposite, so it is a bound and not a recommendation. Our derivation; the paper's own rule
    for alpha is not reproduced here.

    Args:
        classes: number of identities, N >= 2.
        reachable: loss, natural logarithm, > 0.

    Raises:
        ValueError: a single class, or a loss that is not a positive finite number.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}; with fewer than 2 the loss is 0 at every scale")
    if not (isfinite(reachable) and reachable > 0):
        raise ValueError(f"reachable is {reachable}; it must be a positive finite loss (no scale reaches 0)")
    return 0.5 * log((classes - 1) / expm1(reachable))


class COCO(NormFace):
    """Softmax over `scale` times the cosine.

    The default of 30 is the one in the code that the authors of SphereFace2 released, where it is a baseline of their
    table 5. `smallest_scale` tells which scales are too small for a number of classes.
    """

    def __init__(self, scale: float = 30.0) -> None:
        super().__init__(scale=scale)
