"""Intervals of shares over people, by the number of independent comparisons that would vary as much.

A share p whose standard error over redrawn people is s varies as much as that of p (1 - p) / s^2 independent
comparisons. The exact binomial bounds of so many are the interval, as Korn and Graubard (1998) do it for shares in
surveys; they are wider where errors are few, which no redrawing can show. The standard error is itself uncertain, most
of all where few people make up most of it, so the number is multiplied by (z / t)^2: z and t are the 97.5 % quantiles
of the normal distribution and of Student's t. Its degrees of freedom follow from the fourth moment of people's
influences on the figure (Satterthwaite 1946), which is where uneven numbers of images and uneven difficulty enter.

`benchmarks/intervals.py` measures how often such intervals hold, beside others.
"""

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri, stdtrit

from verisphere.decide.bounds import binomial_bounds

TAIL = 0.025  # beyond each bound
#: The fourth moment of few people's influences is itself uncertain; fewer degrees made intervals in
#: benchmarks/intervals.py wider, and hold no more often.
FEWEST_DEGREES = 5.0


def degrees_of_freedom(influence: Float64[np.ndarray, " people"]) -> float:
    """Of a variance that is the sum of squared influences, one for each person, on any scale.

    The number of people less one if influences are normally distributed or more even, and fewer if some people's are
    much larger than the rest.

    >>> degrees_of_freedom(np.array([1.0, -1.0] * 50)), round(degrees_of_freedom(np.array([1.0] + [0.1] * 99)), 3)
    (99.0, 8.163)
    """
    squares, most = influence**2, max(len(influence) - 1.0, 1.0)
    uneven = (squares**2).sum() / (squares.sum() ** 2 or 1.0) - 1 / len(influence)
    return float(min(max(2 / uneven, FEWEST_DEGREES), most)) if uneven > 0 else most


def share_bounds(
    share: float, error: float, comparisons: int | float, influence: Float64[np.ndarray, " people"], people: int
) -> tuple[float, float]:
    """The 95 % bounds of a share whose comparisons share people; at least as wide as those of independent ones.

    >>> few = np.array([1.0, -1.0] * 20)
    >>> [round(end, 3) for end in share_bounds(0.9, 0.03, comparisons=1000, influence=few, people=40)]
    [0.821, 0.952]
    >>> [round(end, 3) for end in share_bounds(1.0, 0.0, comparisons=1000, influence=0 * few, people=40)]
    [0.912, 1.0]

    The error is that of the share over redrawn people, and an influence the sum over a person's comparisons. If the
    error is 0, or nobody has an influence, as where one person has all comparisons, each of the people with such a
    comparison counts as one.
    """
    share = min(max(share, 0.0), 1.0)  # a weighted mean of ones may be larger by rounding
    varies = error > 0 and 0 < share < 1 and not np.allclose(influence, 0, atol=1e-9)
    narrowed = float((ndtri(TAIL) / stdtrit(degrees_of_freedom(influence), TAIL)) ** 2)
    effective = share * (1 - share) / error**2 * narrowed if varies else people
    effective = max(min(effective, comparisons), 1.0)
    return binomial_bounds(share * effective, effective)
