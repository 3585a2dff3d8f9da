"""The number of people that a guarantee of a threshold needs, and the guarantees that a number of people can give."""

import math
from bisect import bisect_left
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

from scipy.special import betainc

from verisphere.base.words import counted, of_things, share
from verisphere.decide.point import Far, exact_rate, far_text

Guarantee = Literal["expected", "confident", "approximate", "capped", "tail", "convention", "worst-group"]
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

CONFIDENCE = 0.95
#: The fewest people for a bootstrap, at any FAR.
FEWEST_PEOPLE = 50
# The chance that none of the comparisons lies above the true threshold, at most: with more, a promise is not made.
CHANCE = Decimal("0.05")
_NONE_ABOVE = {"confident": CHANCE, "approximate": Decimal("0.5")}
SMALLEST_FAR = Fraction(1, 10**12)
# Wide enough for (1 - f) ** n at any n, exact to far more digits than a binomial sum can come near 0.05 without
# being it.
_WIDE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_NEAR = 1e-7  # relative distance from the chance within which floating point does not decide


def independent_rank(comparisons: int, far: Far, guarantee: Guarantee, chance: Decimal = CHANCE) -> int:
    """j, the rank of the score that becomes the threshold; 0 where the comparisons are too few for the guarantee.

    >>> independent_rank(999, "1e-3", "expected"), independent_rank(2994, "1e-3", "confident")
    (1, 0)

    Args:
        comparisons: number of comparisons, no two of which share a person.
        far: target FAR, above 0 and below 1.
        guarantee: `expected` or `confident`.
        chance: the chance that `confident` may fail with.

    Raises:
        ValueError: `approximate`, which has no rank; a FAR below 1e-12, or of 1 or more.
    """
    rate = promised_rate(far)
    if guarantee == "expected":
        return math.floor(rate * (comparisons + 1))
    if guarantee != "confident":
        raise ValueError(f"guarantee must be expected or confident for independent comparisons, got {guarantee!r}")
    # the number of ranks that may be taken, as the condition is monotone in j
    return bisect_left(range(1, comparisons + 1), True, key=lambda j: not _rarely_fewer(j, comparisons, rate, chance))


def first_where(enough: Callable[[int], bool], least: int) -> int:
    """The first number from `least` on that is enough, where all larger ones are too."""
    high = least
    while not enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=least, key=enough)


def share_above(comparisons: int, far: Far) -> float:
    """The share of `expected` calibrations whose threshold accepts more than the target FAR, rounded up to a percent.

    P(Bin(n, f) <= j - 1), which is exact for scores without ties; ties lower it.

    >>> [share_above(n, "1e-2") for n in (99, 199, 999, 99_999)]
    [0.37, 0.41, 0.46, 0.5]

    Raises:
        ValueError: a FAR below 1e-12, or of 1 or more.
    """
    rank = independent_rank(comparisons, far, "expected")
    return math.ceil(100 * _chance_of_fewer(rank, comparisons, promised_rate(far))) / 100


def confidence_limit(people: int, far: Far) -> float:
    """The confidence that no choice of a threshold from N people exceeds without an assumption about people.

    1 - (1 - f) ** (N / 2). Let a share p of people resemble everybody, where 1 - (1 - p) ** 2 is just above f, so that
    a threshold below their scores accepts too many: N people include none of these with probability (1 - p) ** N, which
    is (1 - f) ** (N / 2), and then their scores are those of a population without such people, where the threshold need
    not be so high. No population hides its highest scores more often, since an edge density of 1 - f leaves at most (1
    - f) ** (N / 2) of the sets of N people complete (Kruskal 1963, Katona 1968).

    N / 2 is rounded down, because an odd person adds no comparison without a shared person; the largest score of N / 2
    such comparisons attains the limit. The limit itself is rounded down to a percent, and at most 0.95 is stated.

    >>> [confidence_limit(people, "1e-2") for people in (60, 138, 200, 598)]
    [0.26, 0.5, 0.63, 0.95]

    Raises:
        ValueError: a FAR below 1e-12, or of 1 or more.
    """
    missed = _binomial_sum(1, people // 2, promised_rate(far))
    return min(math.floor(100 * _WIDE.subtract(Decimal(1), missed)) / 100, CONFIDENCE)


def comparisons_needed(far: Far, guarantee: Guarantee, chance: Decimal | None = None) -> int:
    """The fewest comparisons without a shared person that can give a guarantee at a FAR.

    For `approximate`, which takes all pairs of people, the number at which its `confidence_limit` is one half.

    >>> [comparisons_needed("1e-4", guarantee) for guarantee in ("expected", "confident", "approximate")]
    [9999, 29956, 6932]

    Raises:
        ValueError: a FAR below 1e-12, or of 1 or more.
    """
    rate = promised_rate(far)
    if guarantee == "expected":
        return max(math.ceil(1 / rate) - 1, 1)
    chance = chance or _NONE_ABOVE[guarantee]
    needed = max(math.ceil(math.log(chance) / math.log1p(-float(rate))), 1) if rate < Fraction(1, 2) else 1
    while needed > 1 and _binomial_sum(1, needed - 1, rate) <= chance:  # the logarithms may have been rounded
        needed -= 1
    while _binomial_sum(1, needed, rate) > chance:
        needed += 1
    return needed


def people_needed(far: Far, guarantee: Guarantee) -> int:
    """The fewest people whose images can give a guarantee at a FAR: two for each comparison that is needed.

    `approximate` takes `FEWEST_PEOPLE` at least.

    >>> [people_needed("1e-3", guarantee) for guarantee in ("expected", "confident", "approximate")]
    [1998, 5990, 1386]
    """
    needed = 2 * comparisons_needed(far, guarantee)
    return max(needed, FEWEST_PEOPLE) if guarantee == "approximate" else needed


def enough_people(far: Far, people: int) -> tuple[bool, str]:
    """Whether some people are enough for the guarantee `confident` at a FAR, and how many it needs, in words.

    >>> enough_people("1e-1", 120)
    (True, "guarantee 'confident' at FAR 1e-1 needs 58 people; there are 120")
    """
    needed = people_needed(far, "confident")
    if people < needed:
        return False, too_few(far, "confident", people // 2, people)
    return True, f"guarantee 'confident' at FAR {far_text(far)} needs {needed:,} people; there are {people:,}"


def lowest_far(comparisons: int, guarantee: Guarantee, chance: Decimal | None = None) -> str | None:
    """The lowest FAR, rounded up to three digits, that this many comparisons without a shared person can guarantee.

    >>> lowest_far(2874, "expected"), lowest_far(2874, "confident")
    ('3.48e-4', '1.05e-3')
    """
    if comparisons < 1:
        return None
    exact = (
        1 / Decimal(comparisons + 1)
        if guarantee == "expected"
        else Decimal(-math.expm1(math.log(chance or _NONE_ABOVE[guarantee]) / comparisons))
    )
    digit = Decimal(1).scaleb(exact.adjusted() - 2)
    far = exact.quantize(digit, ROUND_CEILING)
    while comparisons_needed(far, guarantee, chance) > comparisons:  # the exponential may have been rounded down
        far += digit
    return f"{far:.2e}"


def promised_rate(far: Far, name: str = "a FAR") -> Fraction:
    """A FAR as the exact number that was written, if a guarantee can be about it; errors name the rate.

    >>> promised_rate("1e-3")
    Fraction(1, 1000)

    Raises:
        ValueError: the FAR is below 1e-12, or 1 or more.
    """
    rate = exact_rate(far, name)
    if not SMALLEST_FAR <= rate < 1:
        raise ValueError(f"a guarantee needs {name} of at least 1e-12 and below 1, got {far_text(far)!r}")
    return rate


def percent(share: float) -> str:
    """A share in whole percent, as the sentences about guarantees state it.

    >>> percent(0.95)
    '95 %'
    """
    return f"{100 * share:.0f} %"


def at_most(far: Far, things: str = "pairs of strangers") -> str:
    """How many of some things a promise allows, as it is said to people."""
    return f"at most {of_things(share(float(exact_rate(far)), 'upper'), things)}"


def _rarely_fewer(rank: int, comparisons: int, rate: Fraction, chance: Decimal) -> bool:
    """Whether P(Bin(comparisons, rate) <= rank - 1) is at most the chance, decided without rounding error."""
    probability = _chance_of_fewer(rank, comparisons, rate)
    if abs(probability - float(chance)) > float(chance) * _NEAR:
        return probability < float(chance)
    # Near the chance a sum in 60 digits decides. Equality with 0.05 occurs only for one comparison at a rate of 0.95
    # (modulo the numerator of 1 - rate, then modulo 19 squared), where the sum is exact.
    return _binomial_sum(rank, comparisons, rate) <= chance


def _chance_of_fewer(rank: int, comparisons: int, rate: Fraction) -> float:
    """P(Bin(comparisons, rate) <= rank - 1) in floating point."""
    return 1.0 - float(betainc(rank, comparisons - rank + 1, float(rate)))


def _binomial_sum(rank: int, comparisons: int, rate: Fraction) -> Decimal:
    """P(Bin(comparisons, rate) <= rank - 1) in 60 digits."""
    hit = _WIDE.divide(Decimal(rate.numerator), Decimal(rate.denominator))
    odds = _WIDE.divide(Decimal(rate.numerator), Decimal(rate.denominator - rate.numerator))
    term = _WIDE.power(_WIDE.subtract(Decimal(1), hit), comparisons)
    total = term
    for count in range(1, rank):
        ratio = _WIDE.divide(_WIDE.multiply(odds, comparisons - count + 1), count)
        term = _WIDE.multiply(term, ratio)
        total = _WIDE.add(total, term)
    return total


def too_few(far: Far, guarantee: Guarantee, comparisons: int, people: int | None) -> str:
    """One line: the number needed, the number there is (a scores file says no people), and the guarantees possible."""
    compared, needed = counted(comparisons, "comparison"), f"{people_needed(far, guarantee):,} people"
    there = compared if people is None else counted(people, "person")
    if guarantee != "approximate":
        needed += f" ({counted(comparisons_needed(far, guarantee), 'comparison')} that share no person)"
        there += "" if people is None else f" ({compared})"
    possible = [f"{kind!r} at {_or_higher(comparisons, kind)}" for kind in ("confident", "expected") if comparisons]
    possible.append(f"'approximate' {_estimate(far, comparisons, people)}")
    return (
        f"guarantee {guarantee!r} at FAR {far_text(far)} needs {needed}; got {there}; possible: {', '.join(possible)}"
    )


def _estimate(far: Far, comparisons: int, people: int | None) -> str:
    """States the FAR at which `approximate` is possible."""
    if people is None:
        return "only from an embeddings file"
    if people < FEWEST_PEOPLE:
        return f"only with {FEWEST_PEOPLE} people or more"
    limit = percent(confidence_limit(people, far))
    if people >= people_needed(far, "approximate"):
        return f"at FAR {far_text(far)} with at most {limit} confidence"
    return (
        f"at {_or_higher(comparisons, 'approximate')} (at FAR {far_text(far)} its confidence would be at most {limit}, "
        "and 50 % is the least)"
    )


def _or_higher(comparisons: int, guarantee: Guarantee) -> str:
    """The lowest FAR followed by "or higher"; a FAR of a tenth or more as a plain decimal, with the same digits."""
    lowest = lowest_far(comparisons, guarantee) or ""
    return f"FAR {Decimal(lowest):.3f} or higher" if lowest.endswith("e-1") else f"FAR {lowest} or higher"
