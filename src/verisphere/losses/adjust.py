"""Similarity adjustment: g(z) = 2 * ((z + 1) / 2)**t - 1 in place of the cosine (SphereFace2, arXiv:2108.01513).

It maps -1 and 1 to themselves, and for t > 1 the cosines of genuine pairs, in the upper half, to most of the range;
t = 3 is the paper's usual value. Table 12 applies it to CosFace and ArcFace too, see `verisphere.losses.margin`.
"""

from math import isfinite

from jaxtyping import Float
from torch import Tensor


def adjusted(cosine: Float[Tensor, "*shape"], t: float) -> Float[Tensor, "*shape"]:
    """g(cosine) = 2 * ((cosine + 1) / 2)**t - 1 with t >= 1: from [-1, 1] onto [-1, 1], never falling.

    t = 1 returns the cosine itself. The slope is t * ((cosine + 1) / 2)**(t - 1): t at cosine 1, 0 at -1 (t > 1).
    Cosines below -1 by rounding are treated as -1, since a negative number has no such power.

    >>> import torch
    >>> adjusted(torch.tensor([-1.0, 0.0, 1.0]), t=3.0)
    tensor([-1.0000, -0.7500,  1.0000])
    """
    if t == 1.0:
        return cosine
    return 2.0 * (0.5 * (cosine + 1.0)).clamp(min=0.0).pow(t) - 1.0


def checked_adjustment(t: float) -> float:
    """Return the exponent t if `adjusted` can use it.

    Raises:
        ValueError: t is below 1 or not finite.
    """
    if not (isfinite(t) and t >= 1):
        raise ValueError(
            f"t is {t}; the similarity adjustment takes a finite number >= 1 (1 is no adjustment, 3 is usual): below 1 "
            "the slope at cosine -1 is infinite"
        )
    return float(t)
