"""The threshold at a stated FAR, and its counts: the one definition behind training, evaluation and deployment.

Accept iff score > threshold, as in equations 1 and 2 of AnchorFace (Liu et al. 2022).
"""

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from verisphere.base.vocabulary import OperatingPoint, Rule, check_word
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.order import Ordered, ScoresLike, ordered

Far: TypeAlias = str | float | int | Decimal
_DECIMAL = re.compile(r"[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_DIGITS = 400


def exact_rate(far: Far, name: str = "a FAR") -> Fraction:
    """A FAR as the exact number that was written: a decimal string is read exactly, a float as its shortest decimal.

    >>> exact_rate("0.29") * 100  # 0.29 * 100 is 28.999... in floating point
    Fraction(29, 1)

    Args:
        far: the rate.
        name: the rate in an error, such as "an impurity".

    Raises:
        ValueError: not a decimal number in [0, 1].
    """
    text = far_text(far)
    if not _DECIMAL.fullmatch(text):
        raise ValueError(f"{name} must be a decimal number such as 1e-4, got {text!r}")
    number = Decimal(text)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {text!r}")
    if number and number.adjusted() < -_DIGITS:
        raise ValueError(f"{name} below 1e-{_DIGITS} has no use, got {text!r}")
    return Fraction(number)


def far_text(far: Far) -> str:
    """A FAR as it was written; a float as its shortest decimal."""
    return repr(float(far)) if isinstance(far, float) else str(far)


def short_far(far: Far) -> str:
    """A FAR in a name, the same in every spelling, since writing a recipe out may turn the FAR into a float.

    >>> short_far("1e-4"), short_far(0.0001), short_far("0.00025")
    ('1e-4', '1e-4', '2.5e-4')
    """
    return f"{Decimal(far_text(far)).normalize():e}"


def accepted_impostors(far: Far, total: int) -> int:
    """k = floor(far * total): how many of `total` impostors may pass, in exact arithmetic.

    >>> accepted_impostors("0.29", 100)  # 0.29 * 100 is 28.999... in floating point
    29
    """
    return math.floor(exact_rate(far) * total)


def threshold_at(impostor: Ordered, far: Far, rule: Rule = "at_most") -> float:
    """The threshold for a target FAR.

    With n impostor scores s(1) >= ... >= s(n) and k = floor(far * n):

    - `at_most` (ours): s(k+1), the smallest threshold whose FAR does not exceed the target. Ties at the threshold are
      rejected, so the realised FAR is never above its target.
    - `nearest`: the impostor score, or minus infinity, whose FAR lies nearest to the target; the lower FAR on a tie.
    - `interpolated`: between s(k+1) and s(k+2) in proportion to far * n - k, rounded once to float64.

    The last two may exceed the target; they exist to compare with numbers published under them. Minus infinity where
    k >= n.

    >>> impostor = ordered([0.5, 0.4, 0.2, 0.1], "impostor")
    >>> threshold_at(impostor, "0.25"), threshold_at(impostor, "0.3", rule="interpolated")
    (0.4, 0.36000000000000004)

    Raises:
        ValueError: the FAR is not in [0, 1], or the rule is unknown.
    """
    rate, total = exact_rate(far), impostor.total
    wanted = rate * total
    allowed = math.floor(wanted)
    check_word("rule", rule, Rule)
    if allowed >= total:
        return -math.inf
    strict = impostor.ranked(allowed + 1)
    if rule == "nearest":
        reached = impostor.above(strict)
        looser = impostor.above(math.nextafter(strict, -math.inf))  # the FAR at the next lower distinct score
        if looser - wanted < wanted - reached:
            return impostor.ranked(looser + 1) if looser < total else -math.inf
        return strict
    if rule == "interpolated" and allowed + 2 <= total:
        following = impostor.ranked(allowed + 2)
        if wanted == allowed or math.isinf(strict):
            return strict
        if math.isinf(following):
            return following
        # In exact numbers, rounded once: in float64 the line may end below `following` and so accept its ties.
        return float(Fraction(strict) + (wanted - allowed) * (Fraction(following) - Fraction(strict)))
    return strict


def point_at(genuine: Ordered, impostor: Ordered, threshold: float, far: Far, rule: str) -> OperatingPoint:
    """The counts, rates and bounds at one threshold.

    >>> genuine, impostor = ordered([0.9, 0.3], "genuine"), ordered([0.5, 0.4, 0.2, 0.1], "impostor")
    >>> point = point_at(genuine, impostor, threshold=0.45, far="0.25", rule="shipped")
    >>> point.tar, point.far
    (0.5, 0.25)

    Args:
        genuine: scores of comparisons of one person.
        impostor: scores of comparisons of two people.
        threshold: accept iff score > threshold.
        far: the target FAR that the threshold was chosen for.
        rule: rule by which the threshold was chosen.
    """
    accepted, passed = genuine.above(threshold), impostor.above(threshold)
    tar_bounds = binomial_bounds(accepted, genuine.total)
    far_bounds = binomial_bounds(passed, impostor.total)
    return OperatingPoint(
        far_target=far_text(far),
        rule=rule,
        threshold=threshold,
        tar=accepted / genuine.total,
        far=passed / impostor.total,
        genuine_accepted=accepted,
        genuine_total=genuine.total,
        impostor_accepted=passed,
        impostor_total=impostor.total,
        below_resolution=exact_rate(far) * impostor.total < 1,
        far_lower_95=far_bounds[0],
        far_upper_95=far_bounds[1],
        tar_lower_95=tar_bounds[0],
        tar_upper_95=tar_bounds[1],
    )


def operating_point(
    genuine: ScoresLike | Ordered, impostor: ScoresLike | Ordered, far: Far = "1e-4", rule: Rule = "at_most"
) -> OperatingPoint:
    """TAR at a stated FAR, with the threshold, the counts and exact 95 % bounds.

    >>> point = operating_point(genuine=[0.9, 0.8, 0.3], impostor=[0.5, 0.4, 0.2, 0.1], far="0.25")
    >>> point.threshold, point.impostor_accepted, point.genuine_accepted
    (0.4, 1, 2)

    Args:
        genuine: (n,) scores of comparisons of one person; higher is more alike.
        impostor: (m,) scores of comparisons of two people.
        far: target FAR; a decimal string is read exactly, a float as its shortest decimal.
        rule: see `threshold_at`.

    Raises:
        ValueError: a class is empty or holds NaN, the FAR is not in [0, 1], the rule is unknown.
    """
    genuine, impostor = ordered(genuine, "genuine"), ordered(impostor, "impostor")
    return point_at(genuine, impostor, threshold_at(impostor, far, rule), far, rule)
