"""A threshold that carries a promise about people who were not there when it was chosen.

Let s(1) >= ... >= s(n) be impostor scores of comparisons that share no person, each of two people drawn alike. At the
threshold t = s(j) the FAR on new people is a random number, because s(j) is; without ties it follows
Beta(j, n - j + 1), and ties only lower it (Wilks 1941, "Determination of sample sizes for setting tolerance limits").
So its mean is at most j / (n + 1), and it is at most f with probability P(Bin(n, f) >= j) or more. The two promises:

- `expected`: j = floor(f (n + 1)); the mean FAR is at most f;
- `confident`: the largest j with P(Bin(n, f) <= j - 1) <= 0.05; FAR <= f with 95 % confidence.

Comparisons that share people are not n draws but fewer, and neither promise holds on them. What all pairs of a set can
give is `approximate`: the 95 % quantile of the threshold over a bootstrap of people. In the simulations of the tests it
held in 73 to 100 % of calibrations, worst where few people differ much in how alike others look to them.

A guarantee is about two new people, each as likely as any other, and one image of each. The FAR over all pairs of a set
is another number where some people have many images: there these weigh more.
"""

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Literal, get_args

import numpy as np
from jaxtyping import Int64
from scipy.special import betainc

from verisphere.decide.bootstrap import PairScores, redrawn_thresholds
from verisphere.decide.order import Ordered, ScoresLike, ordered
from verisphere.decide.point import Far, exact_rate, far_text
from verisphere.vocabulary import ImageSource, OperatingPoint, Progress, check_bounds, check_rate, quietly

Guarantee = Literal["expected", "confident", "approximate"]
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

CONFIDENCE = 0.95
#: Fewer people than this make no bootstrap: with 15 to 30 who differ much, its 95 % was seen to hold in 65 to 89 % of
#: calibrations; with 50 to 200 in 73 to 90 %.
FEWEST_PEOPLE = 50
SMALLEST_FAR = Fraction(1, 10**12)
# Wide enough for (1 - f) ** n at any n, exact to far more digits than a binomial sum can come near 0.05 without
# being it.
_WIDE = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
_NEAR = 1e-7  # relative distance from 0.05 within which floating point does not decide


@dataclass(frozen=True)
class GenuineRate:
    """How many genuine comparisons pass a shipped threshold: measured, not promised.

    Attributes:
        file: the embeddings or scores file that they are from.
        accepted: genuine comparisons with a score above the threshold.
        total: all of them.
        tar: accepted / total.
        tar_lower_95: exact binomial bound, which takes comparisons as independent.
        tar_upper_95: the upper one.
    """

    file: str
    accepted: int
    total: int
    tar: float
    tar_lower_95: float
    tar_upper_95: float

    def __post_init__(self) -> None:
        check_rate(self.tar, self.accepted, self.total)
        check_bounds(self.tar, self.tar_lower_95, self.tar_upper_95)

    @classmethod
    def at(cls, point: OperatingPoint, file: str) -> "GenuineRate":
        """The genuine side of an operating point."""
        counts = point.genuine_accepted, point.genuine_total
        return cls(file, *counts, point.tar, point.tar_lower_95, point.tar_upper_95)

    def meaning(self) -> str:
        """The rate of misses, its bounds and where they were measured, in one sentence."""
        missed, fewest, most = (100 * (1 - rate) for rate in (self.tar, self.tar_upper_95, self.tar_lower_95))
        return (
            f"of comparisons of two images of one person, {missed:.3g} % are rejected (95 % bounds {fewest:.3g} to "
            f"{most:.3g} %; TAR {self.tar:.4f}, {self.accepted:,} of {self.total:,} genuine comparisons of {self.file})"
        )


@dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold with what it promises: accept iff score > threshold.

    Attributes:
        far_target: the FAR asked for, as it was given.
        guarantee: which promise; see the module.
        threshold: finite.
        comparisons: impostor comparisons it was chosen from; for `approximate` all pairs of the set's people.
        rank: j, where the threshold is the j-th largest score; None for `approximate`.
        people: how many people they are of; None where a scores file does not say.
        confidence: 0.95 for `confident` and `approximate`, else None.
        replicates: of the bootstrap, for `approximate`, else None.
        seed: of the random choice of comparisons, or of the bootstrap; None where nothing was chosen at random.
        calibrated_on: where the images of these people come from; None where the file does not say.
        genuine: how many genuine comparisons pass; None where no file with genuine comparisons was given.
    """

    far_target: str
    guarantee: Guarantee
    threshold: float
    comparisons: int
    rank: int | None
    people: int | None
    confidence: float | None
    replicates: int | None
    seed: int | None
    calibrated_on: ImageSource | None = None
    genuine: GenuineRate | None = None

    def __post_init__(self) -> None:
        promised_rate(self.far_target)
        if self.guarantee not in GUARANTEES:
            raise ValueError(f"guarantee must be one of {', '.join(GUARANTEES)}, got {self.guarantee!r}")
        if not math.isfinite(self.threshold):
            raise ValueError(f"a threshold that is shipped must be finite, got {self.threshold}")
        if self.comparisons < 1 or (self.people is not None and self.people < 2):
            raise ValueError(f"{self.comparisons} comparisons of {self.people} people set no threshold")
        bootstrap = self.guarantee == "approximate"
        if bootstrap and (self.replicates is None or self.replicates < 1 or self.people is None or self.seed is None):
            raise ValueError("an approximate threshold states its people, replicates and seed")
        if not bootstrap and self.replicates is not None:
            raise ValueError(f"replicates belong to an approximate threshold, not to guarantee {self.guarantee!r}")
        rank = None if bootstrap else independent_rank(self.comparisons, self.far_target, self.guarantee)
        if self.rank != rank:
            raise ValueError(
                f"rank {self.rank} of {self.comparisons:,} comparisons is not what guarantee {self.guarantee!r} takes "
                f"at FAR {self.far_target}: {rank}"
            )
        confidence = None if self.guarantee == "expected" else CONFIDENCE
        if self.confidence != confidence:
            raise ValueError(f"guarantee {self.guarantee!r} has confidence {confidence}, got {self.confidence}")

    def misses(self) -> str:
        """How many comparisons of one person are rejected, in one sentence."""
        if self.genuine is None:
            return "how many comparisons of one person are rejected is not known: the calibration had none"
        return self.genuine.meaning()

    def meaning(self) -> str:
        """What is promised, and about whom, in one sentence."""
        rule = f"accept iff score > {self.threshold:.6g}"
        known = "" if self.calibrated_on is None else f" ({self.calibrated_on.described(self.people)})"
        what = f"comparisons of two new people like those calibrated on{known}, scored by the same model,"
        if self.guarantee == "approximate":
            return (
                f"{rule}: without guarantee, of {what} at most {self.far_target} are accepted, an estimate meant to "
                f"hold for 95 % of calibrations (95 % quantile over {self.replicates:,} redrawings of "
                f"{self.people:,} people, from all their {self.comparisons:,} impostor pairs)"
            )
        share = f"{self.comparisons:,} comparisons that share no person"
        basis = f"{share}, as was stated" if self.people is None else f"{share}, from {self.people:,} people"
        if self.guarantee == "expected":
            return (
                f"{rule}: of {what} at most {self.far_target} are accepted on average over calibrations like this one "
                f"({basis}; rank {self.rank:,})"
            )
        return (
            f"{rule}: with 95 % confidence, of {what} at most {self.far_target} are accepted "
            f"({basis}; rank {self.rank:,})"
        )


class TooFewComparisonsError(ValueError):
    """A guarantee was asked for that this many comparisons cannot give."""


def independent_rank(comparisons: int, far: Far, guarantee: Guarantee) -> int:
    """j, the rank of the score that becomes the threshold; 0 where the comparisons are too few for the guarantee.

    >>> independent_rank(999, "1e-3", "expected"), independent_rank(2994, "1e-3", "confident")
    (1, 0)

    Args:
        comparisons: how many there are, no two of which share a person.
        far: target FAR, above 0 and below 1.
        guarantee: `expected` or `confident`.

    Raises:
        ValueError: `approximate`, which has no rank; a FAR that nothing can promise.
    """
    rate = promised_rate(far)
    if guarantee == "expected":
        return math.floor(rate * (comparisons + 1))
    if guarantee != "confident":
        raise ValueError(f"guarantee must be expected or confident for independent comparisons, got {guarantee!r}")
    low, high = 0, comparisons  # the condition holds at low, and is monotone in j
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _rarely_fewer(middle, comparisons, rate) else (low, middle - 1)
    return low


def comparisons_needed(far: Far, guarantee: Guarantee) -> int:
    """The fewest comparisons that can give a guarantee at a FAR.

    Comparisons share no person for `expected` and `confident`; for `approximate` they are pairs of two people.

    >>> [comparisons_needed("1e-4", guarantee) for guarantee in ("expected", "confident", "approximate")]
    [9999, 29956, 10000]

    Raises:
        ValueError: a FAR that nothing can promise.
    """
    rate = promised_rate(far)
    if guarantee == "approximate":
        return math.ceil(1 / rate)
    if guarantee == "expected":
        return max(math.ceil(1 / rate) - 1, 1)
    needed = max(math.ceil(math.log(1 - CONFIDENCE) / math.log1p(-float(rate))), 1) if rate < Fraction(1, 2) else 1
    while needed > 1 and _rarely_fewer(1, needed - 1, rate):  # the logarithms may have been rounded
        needed -= 1
    while not _rarely_fewer(1, needed, rate):
        needed += 1
    return needed


def people_needed(far: Far, guarantee: Guarantee) -> int:
    """The fewest people whose images can give a guarantee at a FAR.

    Two for each comparison that shares no person; for `approximate` so many that the FAR is one pair of people or more,
    and `FEWEST_PEOPLE`.

    >>> [people_needed("1e-3", guarantee) for guarantee in ("expected", "confident", "approximate")]
    [1998, 5990, 50]
    """
    needed = comparisons_needed(far, guarantee)
    if guarantee != "approximate":
        return 2 * needed
    people = (1 + math.isqrt(8 * needed + 1)) // 2  # the largest with people (people - 1) / 2 <= needed
    return max(people + (people * (people - 1) // 2 < needed), FEWEST_PEOPLE)


def lowest_far(comparisons: int, guarantee: Guarantee) -> str | None:
    """The lowest FAR, to three digits and rounded up, that so many comparisons without a shared person can promise.

    >>> lowest_far(2874, "expected"), lowest_far(2874, "confident")
    ('3.48e-4', '1.05e-3')
    """
    if comparisons < 1:
        return None
    exact = (
        1 / Decimal(comparisons + 1)
        if guarantee == "expected"
        else Decimal(-math.expm1(math.log(1 - CONFIDENCE) / comparisons))
    )
    digit = Decimal(1).scaleb(exact.adjusted() - 2)
    far = exact.quantize(digit, ROUND_CEILING)
    while not independent_rank(comparisons, far, guarantee):  # the exponential may have been rounded down
        far += digit
    return f"{far:.2e}"


def disjoint_pairs(person: Int64[np.ndarray, " rows"], seed: int) -> Int64[np.ndarray, "pairs 2"]:
    """Rows to compare so that no two comparisons share a person: a random matching of people, a random image of each.

    Every matching and every choice of images is equally likely; with an odd number of people one is left out.

    Args:
        person: number of each row's person.
        seed: of the choice. Trying several and keeping the one that is liked best breaks the guarantee.

    Raises:
        ValueError: a negative seed.
    """
    _refuse_negative(seed)
    random = np.random.default_rng(seed)
    rows = np.argsort(person, kind="stable")  # each person's rows side by side
    _, first, images = np.unique(person[rows], return_index=True, return_counts=True)
    chosen = rows[first + random.integers(images)]  # one image of each person
    pairs = len(chosen) // 2
    return chosen[random.permutation(len(chosen))[: 2 * pairs]].reshape(pairs, 2).astype(np.int64)


def independent_threshold(
    scores: ScoresLike | Ordered,
    far: Far,
    guarantee: Guarantee,
    people: int | None = None,
    seed: int | None = None,
) -> GuaranteedThreshold:
    """The threshold at a FAR from impostor scores of comparisons that share no person.

    >>> independent_threshold([0.1, 0.5, 0.3, 0.2, 0.4, 0.0, -0.1, -0.2, -0.3], "0.1", "expected").threshold
    0.5

    Args:
        scores: impostor scores; that no person is in two of the comparisons is for the caller to know.
        far: target FAR; a decimal string is read exactly, a float as its shortest decimal.
        guarantee: `expected` or `confident`.
        people: how many people the comparisons were chosen from, where that is known.
        seed: of that choice.

    Raises:
        TooFewComparisonsError: too few for this guarantee at this FAR; says how many are needed and what can be done.
        ValueError: NaN scores, a threshold that would be infinite, a FAR that nothing can promise.
    """
    order = ordered(scores, "impostor")
    rank = independent_rank(order.total, far, guarantee)
    if rank == 0:
        raise TooFewComparisonsError(_too_few(far, guarantee, order.total, people))
    threshold = order.ranked(rank)
    if not math.isfinite(threshold):
        raise ValueError(
            f"the threshold at FAR {far_text(far)} would be {threshold}: {order.above(threshold):,} of {order.total:,} "
            "impostor scores lie above it; a shipped threshold must be finite"
        )
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee=guarantee,
        threshold=threshold,
        comparisons=order.total,
        rank=rank,
        people=people,
        confidence=None if guarantee == "expected" else CONFIDENCE,
        replicates=None,
        seed=seed,
    )


def approximate_threshold(
    pairs: PairScores, far: Far, replicates: int = 1000, seed: int = 0, progress: Progress = quietly
) -> GuaranteedThreshold:
    """The 95 % quantile of the threshold at a FAR over redrawn people, from all pairs of a set.

    The quantile is a replicate's threshold: the smallest that 95 % of them do not exceed.

    Args:
        pairs: the impostor scores with their people.
        far: target FAR.
        replicates: how often people are redrawn.
        seed: of the draws.
        progress: shown over replicates.

    Raises:
        TooFewComparisonsError: fewer people than `people_needed`.
        TooFewScoresError: more of the highest scores are needed than were handed over.
        ValueError: a quantile that would be infinite, fewer than one replicate, a negative seed, a FAR that nothing can
            promise.
    """
    _refuse_negative(seed)
    people = len(pairs.images)
    if people < people_needed(far, "approximate"):
        raise TooFewComparisonsError(_too_few_to_redraw(far, people))
    found = np.sort(redrawn_thresholds(pairs, far, replicates, seed, progress))
    threshold = float(found[math.ceil(Fraction(95, 100) * replicates) - 1])
    if not math.isfinite(threshold):
        raise ValueError(f"the threshold at FAR {far_text(far)} would be {threshold}; a shipped one must be finite")
    return GuaranteedThreshold(
        far_target=far_text(far),
        guarantee="approximate",
        threshold=threshold,
        comparisons=pairs.impostor_total,
        rank=None,
        people=people,
        confidence=CONFIDENCE,
        replicates=replicates,
        seed=seed,
    )


def _refuse_negative(seed: int) -> None:
    if seed < 0:
        raise ValueError(f"seed must be 0 or more, got {seed}")


def promised_rate(far: Far) -> Fraction:
    """A FAR as the exact number that was written, if a guarantee can be about it.

    Raises:
        ValueError: it is below 1e-12, or 1 or more.
    """
    rate = exact_rate(far)
    if not SMALLEST_FAR <= rate < 1:
        raise ValueError(f"a guarantee needs a FAR of at least 1e-12 and below 1, got {far_text(far)!r}")
    return rate


def _rarely_fewer(rank: int, comparisons: int, rate: Fraction) -> bool:
    """Whether P(Bin(comparisons, rate) <= rank - 1) <= 0.05, without an error of rounding."""
    probability = 1.0 - float(betainc(rank, comparisons - rank + 1, float(rate)))
    if abs(probability - 0.05) > 0.05 * _NEAR:
        return probability < 0.05
    # Near 0.05 by a sum in 60 digits. Equality is met too: it occurs only for one comparison at a rate of 0.95 (modulo
    # the numerator of 1 - rate, then modulo 19 squared), where the sum is exact.
    return _binomial_sum(rank, comparisons, rate) <= Decimal("0.05")


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


def _too_few_to_redraw(far: Far, people: int) -> str:
    """One line about too few people for a bootstrap."""
    needed, lowest = people_needed(far, "approximate"), lowest_far(people // 2, "expected")
    if people >= FEWEST_PEOPLE:
        way = "collect more, or ask for a higher FAR"
    elif lowest is None:
        way = "collect more"
    else:
        way = f"collect more, or take guarantee 'expected', whose lowest FAR is {lowest} with {people:,} people"
    at_any = f" ({FEWEST_PEOPLE} at whatever FAR)" if people < FEWEST_PEOPLE else ""
    return (
        f"guarantee 'approximate' at FAR {far_text(far)} needs {needed:,} people{at_any}, got {people:,}; a bootstrap "
        f"of fewer says nothing about others: {way}"
    )


def _too_few(far: Far, guarantee: Guarantee, comparisons: int, people: int | None) -> str:
    """One line: what is needed, what is there, what could be done."""
    needed = comparisons_needed(far, guarantee)
    ways = [f"the lowest FAR that they promise is {lowest_far(comparisons, guarantee)}"]
    if guarantee == "confident":
        milder = comparisons_needed(far, "expected")
        at = "which they have" if milder <= comparisons else f"down to FAR {lowest_far(comparisons, 'expected')} here"
        ways.append(f"guarantee 'expected' needs {milder:,}, {at}")
    if people is not None and people >= people_needed(far, "approximate"):
        ways.append("'approximate' can be had from all their pairs and promises less")
    return (
        f"guarantee {guarantee!r} at FAR {far_text(far)} needs {needed:,} comparisons that share no person, i.e. of "
        f"{2 * needed:,} people; got {comparisons:,}{f' from {people:,} people' if people is not None else ''}; "
        + "; ".join(ways)
    )
