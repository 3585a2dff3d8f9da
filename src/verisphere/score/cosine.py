"""Unit rows, cosines and angles: the only trigonometry of the package.

Losses, scores and reports all use it, so the gradient at cosine = +-1 and the handling of a zero row are decided once.
"""

import torch
from jaxtyping import Float
from torch import Tensor

#: The smallest sin(theta) that a gradient divides by: d theta / d cosine = -1 / sin(theta) diverges at both ends.
#: Within 0.06 degrees of them, where a float32 cosine has only about eight values left, it is held constant.
SINE_FLOOR = 1e-3


def unit(rows: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Each row divided by its Euclidean length; a zero row stays zero and receives zero gradient.

    The length is taken in the dtype given, so a row whose squares all underflow (entries below about 1e-23 in float32)
    counts as a zero row; half-precision rows are best converted to float32 first.
    """
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    zero = length == 0
    # The division sees 1 where the length is 0: a where() alone would still send 0 * inf = nan backwards.
    return torch.where(zero, 0.0, rows / length.masked_fill(zero, 1.0))


def cosine(left: Float[Tensor, "*rows dim"], right: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows"]:
    """Cosine between rows of `left` and the rows of `right` at the same place; 0 where either row is zero.

    Rounding can put the result past +-1 by a few units in the last place; `angle` accepts that.
    """
    return (unit(left) * unit(right)).sum(-1)


def angle(cosine: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The angle theta = arccos(cosine) in radians, in [0, pi], with a gradient that is finite everywhere.

    The value is exact, with cosines rounded past +-1 taken as +-1. The gradient is -1 / max(sin(theta), `SINE_FLOOR`).
    It is a first-order gradient: differentiating it again gives zero.
    """
    inside = cosine.detach().clamp(-1.0, 1.0)
    sine = ((1.0 - inside) * (1.0 + inside)).sqrt()  # exact near +-1, where 1 - cosine**2 would cancel
    # A constant plus slope * 0: value and gradient are chosen apart, under autograd, torch.func.vjp and torch.compile
    # alike, which a custom autograd.Function would need three registrations for.
    return inside.arccos() - (cosine - cosine.detach()) / sine.clamp(min=SINE_FLOOR)
