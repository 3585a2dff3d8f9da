"""What the pictures of losses show, as plain arrays, computed from the losses' own functions."""

from collections.abc import Callable, Sequence
from math import pi

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from verisphere.losses import ClassLoss, NormFace, SphereFace2
from verisphere.losses.adjust import adjusted
from verisphere.losses.margin import CombinedMargin
from verisphere.losses.search_softmax import modulating_function

Array = np.ndarray
#: A margined own cosine from the cosine, before scaling, as `CombinedMargin.margined` is.
Margined = Callable[[Tensor], Tensor]


def target_logit(loss: CombinedMargin, degrees: Float64[Array, "points"]) -> Float64[Array, "points"]:
    """The own logit over the scale at these angles to the own center."""
    return loss.margined(torch.from_numpy(np.cos(np.radians(degrees)))).numpy()


def without_jumps(values: Float64[Array, "points"], largest: float = 0.05) -> Float64[Array, "points"]:
    """The values with nan after every step that is larger than this, so that a curve is drawn broken there."""
    steep = np.abs(np.diff(values, prepend=values[:1])) > largest
    return np.where(steep, np.nan, values)


def binary_boundary(loss: CombinedMargin, degrees: Float64[Array, "points"]) -> Float64[Array, "points"]:
    """theta_2 in degrees beyond which class 1 wins of two at these theta_1, nan where it wins nowhere.

    Class 1 wins where its margined cosine is above the plain one of class 2.
    """
    margined = target_logit(loss, degrees)
    return np.degrees(np.arccos(np.where(margined >= -1.0, np.minimum(margined, 1.0), np.nan)))


def modulation(
    factor: float, probability: Float64[Array, "points"]
) -> tuple[Float64[Array, "points"], Float64[Array, "points"]]:
    """h(a, p) and h(a, p) * p of the loss-search paper, for one modulating factor a."""
    p = torch.from_numpy(probability)
    h = modulating_function(torch.full_like(p, factor), p).numpy()
    return h, h * probability


def softmax_over_scale(
    cosine: Float64[Array, "points"], others: Sequence[float], scale: float
) -> Float64[Array, "points"]:
    """The softmax loss divided by its scale, for own cosines against fixed cosines of the other classes."""
    loss = NormFace(scale)
    own = loss.own(torch.from_numpy(cosine))
    rest = loss.others(torch.tensor([others], dtype=torch.float64)).logsumexp(1)
    return (loss.finish(own, rest.expand(len(own))) / scale).numpy()


def class_probabilities(loss: ClassLoss, cosines: Float64[Array, "points classes"]) -> Float64[Array, "points classes"]:
    """The probability of each class of a row, whose own class is the first: the gradient in the logits, plus 1 there.

    The loss is a softmax with a margin that is added to the own cosine, or `QMargin`.
    """
    rows = torch.from_numpy(cosines).requires_grad_()
    value = loss.forward(rows, torch.zeros(len(cosines), dtype=torch.int64))
    (gradient,) = torch.autograd.grad(value * len(cosines) / loss.scale, rows)
    gradient[:, 0] += 1.0
    return gradient.numpy()


def positive_term(cosine: Float64[Array, "points"], r: float) -> Float64[Array, "points"]:
    """log(1 + exp(-r * cosine)) / r: SphereFace2's positive term without margin, bias and adjustment (eq. 2)."""
    loss = SphereFace2("C", 0.0, scale=r, balance=0.5, t=1.0, bias=False)
    return (loss.own(torch.from_numpy(cosine), torch.zeros(len(cosine), dtype=torch.float64)) / r).numpy()


def adjustment(cosine: Float64[Array, "points"], t: float) -> tuple[Float64[Array, "points"], Float64[Array, "points"]]:
    """g(cosine) and its slope."""
    z = torch.from_numpy(cosine).requires_grad_()
    g = adjusted(z, t)
    (slope,) = torch.autograd.grad(g.sum(), z)
    return g.detach().numpy(), slope.numpy()


def boundary_angles(loss: SphereFace2) -> tuple[float, float, float]:
    """Angles to a class's center, in degrees, of SphereFace2-C's three boundaries: positive, middle, negative.

    The same for every class. r * (g(cos) - m) + b, r * g(cos) + b and r * (g(cos) + m_n) + b are 0 there. 180 where
    the boundary would lie below cosine -1, 0 where above 1.

    Raises:
        ValueError: the loss is of another kind, or has no bias.
    """
    if loss.kind != "C" or loss.bias is None:
        raise ValueError(f"kind is {loss.kind!r}, bias {loss.bias is not None}; boundaries are drawn for C with a bias")
    middle = -float(loss.bias.detach()) / loss.scale
    positive, between, negative = (
        float(np.degrees(np.arccos(np.clip(_cosine_of(level, loss.t), -1.0, 1.0))))
        for level in (middle + loss.margin, middle, middle - loss.negative_margin)
    )
    return positive, between, negative


def _cosine_of(level: float, t: float) -> float:
    """The cosine whose g is `level`, the inverse of `adjusted`."""
    return 2.0 * max((level + 1.0) / 2.0, 0.0) ** (1.0 / t) - 1.0


def winners(
    directions: Float64[Array, "points dim"], centers: Float64[Array, "classes dim"], margined: Margined
) -> Int64[Array, "points"]:
    """Which class wins at each unit direction although its own cosine alone bears the margin; -1 where none does."""
    cosine = np.clip(directions @ centers.T, -1.0, 1.0)
    own = margined(torch.from_numpy(cosine.reshape(-1))).numpy().reshape(cosine.shape)
    best = cosine.argmax(1)  # with a margin no other class can win
    rows = np.arange(len(cosine))
    second = cosine.copy()
    second[rows, best] = -np.inf
    return np.where(own[rows, best] > second.max(1), best, -1)


def runs(labels: Int64[Array, "points"], value: int) -> list[tuple[int, int]]:
    """First position, and one past the last, of every unbroken run of a value; on a ring, so a run can pass the end."""
    count = len(labels)
    inside = labels == value
    if inside.all():
        return [(0, count)]
    starts = np.flatnonzero(inside & ~np.roll(inside, 1))
    ends = np.flatnonzero(inside & ~np.roll(inside, -1)) + 1
    if len(starts) and ends[0] <= starts[0]:
        ends = np.append(ends[1:], ends[0] + count)
    return [(int(start), int(end)) for start, end in zip(starts, ends, strict=True)]


def circle_directions(points: int) -> Float64[Array, "points 2"]:
    """Unit directions in the plane, point k at k / points of the way round."""
    turn = 2.0 * pi * np.arange(points) / points
    return np.stack([np.cos(turn), np.sin(turn)], 1)


def ring_around(
    center: Float[Array, "3"], degrees: Float64[Array, "points"] | float, points: int = 241
) -> Float64[Array, "points 3"]:
    """Unit directions at this angle, or these angles, from a direction in space, all the way round and closed."""
    axis = center.astype(np.float64) / np.linalg.norm(center)
    aside = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    aside /= np.linalg.norm(aside)
    turn = np.linspace(0.0, 2.0 * pi, points)[:, None]
    around = np.cos(turn) * aside + np.sin(turn) * np.cross(axis, aside)
    away = np.broadcast_to(np.radians(degrees), (points,))[:, None]
    return np.cos(away) * axis + np.sin(away) * around


def reach(
    centers: Float64[Array, "classes 3"], number: int, margined: Margined, points: int = 241
) -> Float64[Array, "points 3"]:
    """The closed line round a class's center up to which it wins, see `winners`; to a hundredth of a degree.

    Along each direction the first loss counts, looked for every two degrees and then halved down to. Where the class
    wins to the far side the line is there.
    """
    steps = np.arange(0.0, 181.0, 2.0)

    def wins(degrees: Float64[Array, "points"]) -> np.ndarray:
        return winners(ring_around(centers[number], degrees, points), centers, margined) == number

    won = np.stack([wins(np.full(points, step)) for step in steps], 1)  # (points, steps)
    lost = np.where(won.all(1), len(steps) - 1, won.argmin(1))
    near, far = steps[np.maximum(lost - 1, 0)], steps[lost]
    for _ in range(8):
        middle = (near + far) / 2
        inside = wins(middle)
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return ring_around(centers[number], far, points)
