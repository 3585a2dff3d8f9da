"""Similarity adjustment: g(z) = 2 * ((z + 1) / 2)**t - 1 in place of the cosine (SphereFace2, arXiv:2108.01513).

It maps -1 and 1 to themselves, and for t > 1 the cosines of genuine pairs, in the upper half, to most of the range;
t = 3 is the paper's usual value, and table 11 varies it from 0.3 to 5. Table 12 applies it to CosFace and ArcFace too,
see `verisphere.losses.margin`.
"""

from math import isfinite

import torch
from jaxtyping import Float
from torch import Tensor

#: Smallest (cosine + 1) / 2 whose own slope is used where t < 1: below it, that is below cosine -0.998 (beyond 176.4
#: degrees), the slope stays what it is there.
SLOPE_FLOOR = 1e-3


def adjusted(cosine: Float[Tensor, "*shape"], t: float) -> Float[Tensor, "*shape"]:
    """g(cosine) = 2 * ((cosine + 1) / 2)**t - 1 with t > 0: from [-1, 1] onto [-1, 1], never falling.

    t = 1 returns the cosine itself. The slope is t * ((cosine + 1) / 2)**(t - 1): t at cosine 1, 0 at -1 (t > 1). With
    t < 1 (table 11 has 0.3, 0.5 and 0.7) it would be infinite at -1; below cosine 2 * `SLOPE_FLOOR` - 1 = -0.998 the
    gradient is therefore the slope at -0.998, t * 0.001**(t - 1), while the value stays g. Cosines below -1 by rounding
    are treated as -1, since a negative number has no such power.

    >>> import torch
    >>> adjusted(torch.tensor([-1.0, 0.0, 1.0]), t=3.0)
    tensor([-1.0000, -0.7500,  1.0000])
    """
    if t == 1.0:
        return cosine
    half = (0.5 * (cosine + 1.0)).clamp(min=0.0)
    if t > 1.0:
        return 2.0 * half.pow(t) - 1.0
    steepest = t * SLOPE_FLOOR ** (t - 1.0)
    below = half.detach().pow(t) + steepest * (half - half.detach())
    # Clamped before the power: the gradient of a branch that `where` does not select must be finite too.
    return 2.0 * torch.where(half < SLOPE_FLOOR, below, half.clamp(min=SLOPE_FLOOR).pow(t)) - 1.0


def checked_adjustment(t: float) -> float:
    """Return the exponent t if `adjusted` can use it."""
    if not (isfinite(t) and t > 0):
        raise ValueError(
            f"t is {t}; the similarity adjustment takes a finite number > 0 (1 is no adjustment, 3 is usual)"
        )
    return float(t)
