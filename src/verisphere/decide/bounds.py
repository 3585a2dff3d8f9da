"""Exact binomial bounds of a rate, and Student's of a mean."""

from collections.abc import Sequence
from math import isfinite, nan, sqrt
from statistics import fmean, stdev

from scipy.special import betainc, betaincinv, stdtrit

_INVERTED_WITHIN = 1e-6  # error of a probability; scipy's inverse is either good to 1e-7 or wrong


def binomial_bounds(accepted: int | float, total: int | float, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided exact (Clopper-Pearson) bounds of the rate behind `accepted` of `total` independent comparisons.

    Half of 1 - confidence lies beyond each bound. Comparisons that share people are not independent: then these bounds
    are too narrow, unless the counts are effective ones, which need not be whole (`effective.share_bounds`).

    >>> binomial_bounds(0, 100)[0]
    0.0
    >>> round(binomial_bounds(0, 100)[1], 6)  # 1 - 0.025 ** (1 / 100)
    0.036217

    Raises:
        ValueError: the counts are not 0 <= accepted <= total with total >= 1, or confidence lies outside (0, 1).
    """
    if not (0 <= accepted <= total and total >= 1):
        raise ValueError(f"counts must be 0 <= accepted <= total with total >= 1, got {accepted} of {total}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    tail = (1 - confidence) / 2
    lower = 0.0 if accepted == 0 else _beta_quantile(accepted, total - accepted + 1, tail)
    upper = 1.0 if accepted == total else _beta_quantile(accepted + 1, total - accepted, 1 - tail)
    return lower, upper


def _beta_quantile(a: int | float, b: int | float, share: float) -> float:
    """The number below which this share of a beta distribution lies.

    scipy 1.17 inverts wrongly if a is 1,000 and b several hundred million or more: it returns 1.9e-6 for a = 1,000 of
    1e9, where 9.4e-7 is right. A wrong result is replaced by one found by bisection.
    """
    quantile = float(betaincinv(a, b, share))
    if abs(betainc(a, b, quantile) - share) <= _INVERTED_WITHIN:
        return quantile
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if betainc(a, b, middle) < share else (low, middle)
    return high


def mean_bounds(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's bounds of the mean behind a few independent values, as the results of trainings at several seeds are.

    They assume normally distributed values, and are wide for few of them: the mean of three is bounded to within 2.5
    standard deviations of a value. They are NaN for fewer than two values, or if a value is not finite.

    >>> [round(end, 3) for end in mean_bounds([0.01, 0.02, 0.03])]
    [-0.005, 0.045]

    Raises:
        ValueError: confidence lies outside (0, 1).
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if len(values) < 2 or not all(map(isfinite, values)):
        return nan, nan
    mean = fmean(values)
    half = float(stdtrit(len(values) - 1, (1 + confidence) / 2)) * stdev(values) / sqrt(len(values))
    return mean - half, mean + half


def holds_zero(lower: float, upper: float) -> bool:
    """Whether an interval of a difference contains zero: the difference may be chance. A NaN bound excludes nothing.

    >>> holds_zero(-0.1, 0.2), holds_zero(0.1, 0.2), holds_zero(float("nan"), float("nan"))
    (True, False, True)
    """
    return not (lower > 0 or upper < 0)
