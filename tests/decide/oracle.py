"""Decisions by brute force: what `verisphere.decide` must answer, written from the specification alone.

Scores are Python floats, whose comparisons are exact (infinities in order, -0.0 equal to 0.0, a float32 score at its
own value); every count is taken by walking the list, and every rate is a `fractions.Fraction`. Nothing here is fast,
shared with the library, or rounded before the last step.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from typing import NamedTuple

Scores = Sequence[float]


def exactly(far: str | float) -> Fraction:
    """The rational number that a stated FAR means: the decimal as written, for a float the decimal that it prints.

    >>> exactly("0.29") * 100, exactly(0.29) * 100, exactly("1e-4")
    (Fraction(29, 1), Fraction(29, 1), Fraction(1, 10000))
    """
    return Fraction(far if isinstance(far, str) else repr(far))


def accepted(scores: Scores, threshold: float) -> int:
    """How many scores lie strictly above the threshold.

    >>> accepted([0.5, 0.25, 0.25, -0.0], 0.25), accepted([-0.0], 0.0), accepted([0.0, -math.inf], -math.inf)
    (1, 0, 1)
    """
    return sum(1 for score in scores if score > threshold)


def rate(scores: Scores, threshold: float) -> Fraction:
    return Fraction(accepted(scores, threshold), len(scores))


# --- thresholds ------------------------------------------------------------------------------------------------------


def at_most(impostor: Scores, far: str | float) -> float:
    """The smallest threshold, among minus infinity and the impostor scores, whose FAR does not exceed the target.

    Between two neighbouring impostor scores the FAR is constant, so no other number can be smaller and still do.

    >>> at_most([0.1, 0.2, 0.3, 0.4], "0.5"), at_most([0.1, 0.2, 0.2, 0.2], "0.5"), at_most([0.1], "1")
    (0.2, 0.2, -inf)
    """
    candidates = {-math.inf, *impostor}
    return min(cut for cut in candidates if rate(impostor, cut) <= exactly(far))


def nearest(impostor: Scores, far: str | float) -> float:
    """The threshold, among minus infinity and the impostor scores, whose FAR is nearest; of two, the lower FAR.

    >>> nearest([0.1, 0.2, 0.3, 0.4], "0.4"), nearest([0.1, 0.2, 0.3, 0.4], "0.375")
    (0.2, 0.3)
    """
    candidates = {-math.inf, *impostor}
    return min(candidates, key=lambda cut: (abs(rate(impostor, cut) - exactly(far)), rate(impostor, cut)))


def interpolated(impostor: Scores, far: str | float) -> Fraction | float:
    """The threshold on the straight line between the (k+1)-th and (k+2)-th largest impostor scores (finite ones).

    >>> interpolated([4.0, 3.0, 2.0, 1.0], "0.375"), interpolated([4.0, 3.0], "0.9"), interpolated([4.0], "1")
    (Fraction(5, 2), Fraction(3, 1), -inf)
    """
    descending = sorted(impostor, reverse=True)
    allowed = exactly(far) * len(descending)
    k = math.floor(allowed)
    if k >= len(descending):
        return -math.inf
    here = Fraction(descending[k])
    below = Fraction(descending[k + 1]) if k + 1 < len(descending) else here
    return here + (allowed - k) * (below - here)


# --- exact binomial bounds -------------------------------------------------------------------------------------------


def binomial_tail(at_least: int, trials: int, chance: Fraction) -> Fraction:
    """P(Bin(trials, chance) >= at_least), a finite sum.

    >>> binomial_tail(1, 2, Fraction(1, 2)), binomial_tail(0, 2, Fraction(1, 3))
    (Fraction(3, 4), Fraction(1, 1))
    """
    hits, whole = chance.numerator, chance.denominator
    terms = (math.comb(trials, i) * hits**i * (whole - hits) ** (trials - i) for i in range(at_least, trials + 1))
    return Fraction(sum(terms), whole**trials)


@cache
def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """The two-sided exact 95 % bounds (Clopper and Pearson 1934), by bisection to 2^-44.

    The lower bound is the chance at which `successes` or more have probability 1/40, the upper one the chance at which
    `successes` or fewer have; 0 and 1 where no such chance exists.

    >>> [round(bound, 6) for bound in clopper_pearson(0, 1)], [round(bound, 6) for bound in clopper_pearson(1, 2)]
    ([0.0, 0.975], [0.012579, 0.987421])
    """
    lower = 0.0 if successes == 0 else _chance_where_tail_is(Fraction(1, 40), successes, trials)
    upper = 1.0 if successes == trials else _chance_where_tail_is(Fraction(39, 40), successes + 1, trials)
    return lower, upper


def _chance_where_tail_is(target: Fraction, at_least: int, trials: int) -> float:
    low, high = Fraction(0), Fraction(1)
    for _ in range(44):
        middle = (low + high) / 2
        if binomial_tail(at_least, trials, middle) < target:
            low = middle
        else:
            high = middle
    return float((low + high) / 2)


# --- operating points ------------------------------------------------------------------------------------------------


class Counts(NamedTuple):
    """What a threshold does to the two classes; the rates are exact."""

    genuine_accepted: int
    genuine_total: int
    impostor_accepted: int
    impostor_total: int

    @property
    def tar(self) -> Fraction:
        return Fraction(self.genuine_accepted, self.genuine_total)

    @property
    def far(self) -> Fraction:
        return Fraction(self.impostor_accepted, self.impostor_total)


def count(genuine: Scores, impostor: Scores, threshold: float) -> Counts:
    return Counts(accepted(genuine, threshold), len(genuine), accepted(impostor, threshold), len(impostor))


def below_resolution(impostor: Scores, far: str | float) -> bool:
    return exactly(far) * len(impostor) < 1


def roc(genuine: Scores, impostor: Scores) -> list[tuple[float, Counts]]:
    """Every distinct score and minus infinity, from the largest down, with the counts there."""
    cuts = sorted({-math.inf, *genuine, *impostor}, reverse=True)
    return [(cut, count(genuine, impostor, cut)) for cut in cuts]


# --- k-fold accuracy -------------------------------------------------------------------------------------------------


class Accuracy(NamedTuple):
    mean: Fraction
    std: float
    standard_error: float
    per_fold: list[Fraction]
    thresholds: list[float]


def kfold_accuracy(scores: Scores, genuine: Sequence[bool], folds: Sequence[int]) -> Accuracy:
    """Each fold decided at the cut that is best on the other folds; of equally good cuts the lower middle one."""
    pairs = list(zip(scores, genuine, folds, strict=True))
    thresholds, per_fold = [], []
    for fold in sorted(set(folds)):
        inside = [(score, same) for score, same, which in pairs if which == fold]
        outside = [(score, same) for score, same, which in pairs if which != fold]
        cuts = sorted({-math.inf, *(score for score, _ in outside)})
        most = max(_right(outside, cut) for cut in cuts)
        best = [cut for cut in cuts if _right(outside, cut) == most]
        thresholds.append(best[(len(best) - 1) // 2])
        per_fold.append(Fraction(_right(inside, thresholds[-1]), len(inside)))
    mean = sum(per_fold, Fraction(0)) / len(per_fold)
    variance = sum(((value - mean) ** 2 for value in per_fold), Fraction(0)) / (len(per_fold) - 1)
    std, error = root(variance), root(variance / len(per_fold))
    return Accuracy(mean, std, error, per_fold, thresholds)


def _right(pairs: Sequence[tuple[float, bool]], cut: float) -> int:
    return sum(1 for score, same in pairs if (score > cut) == same)


# --- one threshold for all -------------------------------------------------------------------------------------------


class Domain(NamedTuple):
    counts: Counts
    own_threshold: float
    own_tar: Fraction


class OneThreshold(NamedTuple):
    calibration_threshold: float
    domains: dict[str, Domain]
    tar_mean: Fraction
    tar_variance: Fraction
    neg_log10_far_mean: float
    neg_log10_far_variance: float
    far_is_bound: set[str]
    gamma: float


def one_threshold(
    domains: Mapping[str, tuple[Scores, Scores]], far: str | float, across: Scores, calibration: Scores, union: str
) -> OneThreshold:
    """OneFace (DESIGN: positions): one threshold for every domain, and how far apart the domains are at it.

    Args:
        domains: name -> genuine and impostor scores, neither empty.
        far: the target.
        across: impostor scores of pairs across domains, may be empty; they count for the threshold with union "all".
        calibration: impostor scores that alone set the threshold; empty: the pooled ones do.
        union: "all" or "within".
    """
    pooled = [score for _, impostor in domains.values() for score in impostor]
    if union == "all":
        pooled += across
    common = at_most(calibration or pooled, far)
    results = {}
    for name, (genuine, impostor) in domains.items():
        own = at_most(impostor, far)
        results[name] = Domain(count(genuine, impostor, common), own, rate(genuine, own))
    tars = [result.counts.tar for result in results.values()]
    bounded = {name for name, result in results.items() if result.counts.far == 0}
    fars = [result.counts.far or Fraction(1, result.counts.impostor_total) for result in results.values()]
    logs = [neg_log10(value) for value in fars]
    gaps = [_distance(result.own_threshold, common) for result in results.values()]
    squares = [gap * gap for gap in gaps]
    gamma = math.inf if math.inf in gaps else root(mean_of([Fraction(square) for square in squares]))
    return OneThreshold(
        calibration_threshold=common,
        domains=results,
        tar_mean=mean_of(tars),
        tar_variance=population_variance(tars),
        neg_log10_far_mean=float(mean_of(logs)),
        neg_log10_far_variance=float(population_variance(logs)),
        far_is_bound=bounded,
        gamma=gamma,
    )


def _distance(one: float, other: float) -> Fraction | float:
    if one == other:  # two equal infinities are no distance apart
        return Fraction(0)
    if math.isinf(one) or math.isinf(other):
        return math.inf
    return abs(Fraction(one) - Fraction(other))


def mean_of(values: Sequence[Fraction]) -> Fraction:
    return sum(values, Fraction(0)) / len(values)


def population_variance(values: Sequence[Fraction]) -> Fraction:
    centre = mean_of(values)
    return mean_of([(value - centre) ** 2 for value in values])


def neg_log10(value: Fraction) -> Fraction:
    """-log10 to 40 digits, as a fraction.

    >>> neg_log10(Fraction(1, 1000))
    Fraction(3, 1)
    """
    with localcontext(prec=40):
        return Fraction(Decimal(value.denominator).log10() - Decimal(value.numerator).log10())


def root(value: Fraction) -> float:
    """The square root, right to more digits than a float holds.

    >>> root(Fraction(9, 4)), root(Fraction(0))
    (1.5, 0.0)
    """
    with localcontext(prec=60):
        return float((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())
