"""A threshold from all pairs of few people, under a stated cap on how much people differ.

No method can promise a FAR f from fewer than about 6 / f people without an assumption (`confidence_limit`), since a few
people who resemble everybody may be missing among them. A cap c excludes such people. Let p be the FAR of one person's
image at the threshold whose FAR is f; the cap says that E p^2 is at most c f^2. If everybody is alike, c is 1; if a
share q of people resemble everybody, and nobody else anybody, c is about 1 / (4 q). No c is above 1 / f, as p is at
most 1, so a higher cap counts as 1 / f.

Take one image each of N people drawn alike, and let X be the number of their M = N (N - 1) / 2 pairs that score above
the threshold t of FAR f. The (K + 1)-th largest score is below t only if X is at most K. Two bounds of P(X <= K) hold
under the cap:

- *Cantelli's inequality.* X / M is a U-statistic, whose variance is at most
  v = f^2 4 (c - 1) (N - 2) / (N (N - 1)) + 2 f (1 - f) / (N (N - 1)).
  So X / M is at most f - sqrt(19 v) with a probability of at most 1 / 20.
- *Suen's inequality* for X = 0 (Janson 1998, "New versions of Suen's correlation inequality"), with mu = M f,
  Delta = c f^2 N (N - 1) (N - 2) / 2 and delta = 2 (N - 2) f: P(X = 0) is at most S(N), the smaller of
  exp(-mu + Delta e^(2 delta)) and exp(-min(mu^2 / (8 Delta), mu / 2, mu / (6 delta))).
  *A few* accepted pairs follow by thinning: keep each person with probability q, independently. None of K given pairs
  is then kept with a probability of at least (1 - q^2)^K, since these events are positively correlated (Harris 1960).
  Those who are kept are a sample too, so P(X <= K) (1 - q^2)^K is at most the mean of S over Bin(N, q), for every q.

The threshold is the (K + 1)-th largest score, with the largest K that either bound allows. `observed_cap` estimates c
at higher FARs, where enough pairs share a person. That is a check and no proof: it cannot see people too rare to be
among the N.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from numbers import Real

import numpy as np
from jaxtyping import Float64, Int64
from scipy.stats import binom

from verisphere.decide.bootstrap import PairScores
from verisphere.decide.point import Far
from verisphere.decide.sample_size import SMALLEST_FAR, first_where, promised_rate

_CHANCE = 0.05  # that the promise is not kept, at most
_THINNED = np.geomspace(0.01, 0.98, 80)  # shares of people that are kept
_MOST_THINNED = 20_000  # people: with more, Cantelli's bound is the better one where a few are accepted
#: FAR at which `observed_cap` begins, and the factor from one FAR to the next.
HIGHEST_SEEN, STEP = 0.1, 10**0.25
_LEAST_SHARING = 100  # pairs of accepted pairs that share a person, for c to be estimated
_FITTED = 5  # lowest FARs with an estimate, to which a line is fitted
_ONE_SIDED = 1.645  # standard errors to a bound that holds in 95 %


@lru_cache(maxsize=1024)
def capped_rank(people: int, far: Far, cap: float, thinned: bool = True) -> int:
    """The rank among all pairs of one image each of these people, of the score that becomes the threshold; 0 for none.

    Without thinned people, whose bounds take long, it may be lower, but is 0 where it is 0 with them, and only there.
    >>> capped_rank(90, "1e-3", 2.0), capped_rank(89, "1e-3", 2.0), capped_rank(600, "1e-3", 2.0)
    (1, 0, 94)
    """
    if not (isinstance(cap, Real) and math.isfinite(cap) and cap >= 1):
        raise ValueError(
            f"cap must be a number of at least 1, got {cap!r}: the mean of squares is no less than that of f^2"
        )
    rate = float(promised_rate(far))
    cap = min(cap, 1 / rate)
    return 1 + max(_by_cantelli(people, rate, cap), _by_suen(people, rate, cap, thinned)) if people > 2 else 0


def capped_people_needed(far: Far, cap: float) -> int:
    """The fewest people whose pairs can promise a FAR under a cap.

    >>> [capped_people_needed(far, cap) for far in ("1e-3", "1e-4") for cap in (2.0, 5.0, 10.0)]
    [90, 239, 479, 253, 266, 302]
    """
    return first_where(lambda people: capped_rank(people, far, cap, False) > 0, 3)


def lowest_capped_far(people: int, cap: float) -> str | None:
    """The lowest FAR that so many people can promise under a cap, rounded up to three digits; None for no FAR.

    >>> lowest_capped_far(90, 2.0)
    '9.96e-4'
    """
    rates = np.geomspace(float(SMALLEST_FAR), 0.5, 200)
    first = next((place for place, rate in enumerate(rates.tolist()) if capped_rank(people, rate, cap, False)), None)
    if first is None:
        return None
    between = np.geomspace(rates[max(first - 1, 0)], rates[first], 2_000).tolist()
    far = Decimal(between[bisect_left(between, True, key=lambda rate: capped_rank(people, rate, cap, False) > 0)])
    return f"{far.quantize(Decimal(1).scaleb(far.adjusted() - 2), ROUND_CEILING):.2e}"


def largest_cap(people: int, far: Far) -> float | None:
    """The largest cap, rounded down to two digits, under which so many people can promise a FAR; None for none.

    >>> largest_cap(400, "1e-3"), largest_cap(60, "1e-3")
    (8.3, None)
    """
    caps = [digits * 10**power / 10 for power in range(6) for digits in range(10, 100)]
    possible = bisect_left(caps, True, key=lambda cap: not capped_rank(people, far, cap, False))
    return caps[possible - 1] if possible else None


def _by_cantelli(people: int, rate: float, cap: float) -> int:
    """The largest K, or -1."""
    pairs = people * (people - 1) / 2
    variance = (rate**2 * 4 * (cap - 1) * (people - 2) + 2 * rate * (1 - rate)) / (people * (people - 1))
    lowest = rate - math.sqrt((1 / _CHANCE - 1) * variance)
    return math.floor(pairs * lowest) if lowest >= 0 else -1


def _by_suen(people: int, rate: float, cap: float, thinned: bool) -> int:
    """The largest K, or -1."""
    none_above = _none_above(people, rate, cap)
    if none_above[-1] > _CHANCE:  # and fewer people only see fewer
        return -1
    numbers, largest = np.arange(len(none_above)), 0
    for share in _THINNED if thinned and people <= _MOST_THINNED else ():
        chance = float(binom.pmf(numbers, people, share) @ none_above)
        if chance <= _CHANCE:
            largest = max(largest, math.floor(math.log(_CHANCE / chance) / -math.log1p(-(share**2))))
    return largest


def _none_above(most: int, rate: float, cap: float) -> Float64[np.ndarray, " sizes"]:
    """S of 0 to `most` people, or of some of these numbers; more people can only see more, so it never rises."""
    people = np.floor(np.geomspace(3, most, _MOST_THINNED)) if most > _MOST_THINNED else np.arange(most + 1.0)
    mean = people * (people - 1) / 2 * rate
    sharing = people * (people - 1) * (people - 2) / 2 * cap * rate**2
    beside = 2 * (people - 2) * rate
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        first = -mean + sharing * np.exp(2 * beside)
        second = -np.minimum(np.minimum(mean**2 / (8 * sharing), mean / 2), mean / (6 * beside))
    bound = np.exp(np.minimum(np.fmin(first, second), 0))
    return np.minimum.accumulate(np.where(people < 3, 1.0, bound))


@dataclass(frozen=True)
class ObservedCap:
    """What c is at FARs that the people show, and what it seems to be at the target: a check of a cap, no proof.

    Attributes:
        fars: FARs at which c was estimated, descending.
        caps: c at each, from all pairs of one image a person; the second moment is estimated without bias.
        at_target: c at the target FAR: the last estimate, or, below the last FAR, by a line through the logarithms of
            the last `caps`.
        lower, upper: bounds of `at_target`, each by itself with 95 % confidence, by a jackknife over people.
    """

    fars: tuple[float, ...]
    caps: tuple[float, ...]
    at_target: float
    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.fars or len(self.fars) != len(self.caps) or not 0 <= self.lower <= self.at_target <= self.upper:
            raise ValueError("an observed cap lies between its bounds, and was estimated at one FAR or more, once each")

    def described(self, far: str) -> str:
        """The check, in one sentence."""
        first, last = (f"{self.fars[place]:.0e}".replace("e-0", "e-") for place in (0, -1))
        further = "" if last == first else f" and {self.caps[-1]:.2f} at {last}"
        if self.fars[-1] > 1.1 * float(far):
            further = f"{further.replace(' and', ',')} and, extrapolated, {self.at_target:.2f} at {far}"
        return (
            f"among these people the factor is {self.caps[0]:.2f} at FAR {first}{further} (at least {self.lower:.2f}, "
            f"at most {self.upper:.2f}), which cannot show people too rare to be among them"
        )


def observed_cap(pairs: PairScores, far: Far) -> ObservedCap | None:
    """What c is at FARs from 1e-1 to the target, of one image each; None where too few pairs share a person."""
    target, people, total = float(promised_rate(far)), len(pairs.images), pairs.impostor_total
    levels = [level for step in range(48) if (level := HIGHEST_SEEN / STEP**step) > target * 1.01] + [target]
    logs, estimates, deleted = [], [], []
    for rate in levels:
        accepted = math.floor(rate * total)
        if accepted > len(pairs.impostor):
            continue
        degrees, beside = _degrees(pairs.impostor_people[:accepted], people)
        sharing = int((degrees * (degrees - 1)).sum())
        if sharing < 2 * _LEAST_SHARING:
            break
        logs.append(math.log(accepted / total))
        estimates.append(math.log(_cap(sharing, accepted, people)))
        without = sharing - degrees * (degrees - 1) - 2 * beside, accepted - degrees
        deleted.append(np.log(np.maximum(_cap(*without, people - 1), 1e-12)))
    if not logs:
        return None
    weights = _line(np.array(logs[-_FITTED:]), math.log(target))
    value, each = float(weights @ estimates[-_FITTED:]), weights @ np.stack(deleted[-_FITTED:])
    error = math.sqrt((people - 1) / people * float(((each - each.mean()) ** 2).sum()))
    lower, upper = (math.exp(value + sign * _ONE_SIDED * error) for sign in (-1, 1))
    fars, caps = (tuple(math.exp(number) for number in numbers) for numbers in (logs, estimates))
    return ObservedCap(fars, caps, math.exp(value), lower, upper)


def _degrees(people: Int64[np.ndarray, "pairs 2"], count: int) -> Int64[np.ndarray, "2 people"]:
    """How many accepted pairs each person has, and how many further ones their partners have in all."""
    own, other = np.concatenate([people, people[:, ::-1]]).T
    degrees = np.bincount(own, minlength=count)
    return np.stack([degrees, np.bincount(own, degrees[other] - 1, count).astype(np.int64)])


def _cap(
    sharing: int | Int64[np.ndarray, " people"], accepted: int | Int64[np.ndarray, " people"], people: int
) -> Float64[np.ndarray, "..."]:
    """The mean of p^2, without bias, over the square of the FAR, which is that of everybody or of each without one."""
    moment = np.asarray(sharing) / (people * (people - 1) * (people - 2))
    return np.asarray(moment / (np.asarray(accepted) / (people * (people - 1) / 2)) ** 2)


def _line(at: Float64[np.ndarray, " levels"], where: float) -> Float64[np.ndarray, " levels"]:
    """Weights of values at some levels that give the value of their line at another level, or the last one itself."""
    if len(at) < 2 or where >= at[-1] - 0.01:
        return np.eye(len(at))[-1]
    apart = at - at.mean()
    return 1 / len(at) + apart * (where - at.mean()) / float((apart**2).sum())
