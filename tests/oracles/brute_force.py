"""What `tests/decide/oracle.py` leaves out of brute force in rational arithmetic.

That is: the threshold by every rule, infinities included; one threshold for all domains by every rule, with domains to
skip; the ranks that carry a guarantee; searches of a gallery. Written from the project's positions, in plain loops over
lists, with nothing shared with the library.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from ..decide import oracle
from ..decide.oracle import Counts, Scores

# --- thresholds -------------------------------------------------------------------------------------------------------


def interpolated(impostor: Scores, far: str) -> Fraction | float:
    """`oracle.interpolated` with infinities: every point of a line that starts at infinity is there, and every point of
    a line from a finite score to minus infinity, but its start, is minus infinity.

    >>> interpolated([1.0, -math.inf], "0"), interpolated([1.0, -math.inf], "0.1"), interpolated([math.inf, 0.0], "0.1")
    (1.0, -inf, inf)
    """
    descending = sorted(impostor, reverse=True)
    wanted = oracle.exactly(far) * len(descending)
    k = math.floor(wanted)
    here, *following = descending[k:] or [-math.inf]
    if math.isinf(here) or wanted == k or not following:
        return here
    return following[0] if math.isinf(following[0]) else oracle.interpolated(impostor, far)


RULES = {"at_most": oracle.at_most, "nearest": oracle.nearest, "interpolated": interpolated}


def threshold(impostor: Scores, far: str, rule: str) -> float:
    """The threshold as a float64 holds it: an impostor score as it is, a point of a line rounded once.

    >>> threshold([0.75, 0.5, 0.25, -0.0], "0.3", "interpolated"), threshold([0.75, 0.5], "0.3", "nearest")
    (0.45, 0.5)
    """
    return float(RULES[rule](impostor, far))


# --- one threshold for all --------------------------------------------------------------------------------------------


class Domain(NamedTuple):
    common: Counts
    own: Counts
    own_threshold: float


class OneThreshold(NamedTuple):
    calibration_threshold: float
    domains: dict[str, Domain]
    skipped: list[str]
    far_is_bound: list[str]
    tar_mean: Fraction
    tar_variance: Fraction
    neg_log10_far_mean: Fraction
    neg_log10_far_variance: Fraction
    gamma: float


def one_threshold(
    domains: Mapping[str, tuple[Scores, Scores]], far: str, rule: str, across: Scores, calibration: Scores, union: str
) -> OneThreshold:
    """OneFace, with domains that lack a class left out of all but the pool.

    Args:
        domains: name -> genuine and impostor scores; one at least has both.
        far: the target.
        rule: of every threshold.
        across: impostor scores of pairs across domains; they count for the common threshold with union "all".
        calibration: impostor scores that alone set the common threshold; empty: the pooled ones do.
        union: "all" or "within".
    """
    pooled = list(across) if union == "all" else []
    for _, impostor in domains.values():
        pooled += impostor
    common = threshold(calibration or pooled, far, rule)
    results, skipped, bounded, tars, logs, squares = {}, [], [], [], [], []
    for name, (genuine, impostor) in domains.items():
        if not genuine or not impostor:
            skipped.append(name)
            continue
        own = threshold(impostor, far, rule)
        at_common = oracle.count(genuine, impostor, common)
        results[name] = Domain(at_common, oracle.count(genuine, impostor, own), own)
        tars.append(at_common.tar)
        logs.append(oracle.neg_log10(at_common.far or Fraction(1, len(impostor))))
        squares.append(_squared_distance(own, common))
        if at_common.impostor_accepted == 0:
            bounded.append(name)
    return OneThreshold(
        calibration_threshold=common,
        domains=results,
        skipped=skipped,
        far_is_bound=bounded,
        tar_mean=oracle.mean_of(tars),
        tar_variance=oracle.population_variance(tars),
        neg_log10_far_mean=oracle.mean_of(logs),
        neg_log10_far_variance=oracle.population_variance(logs),
        gamma=math.inf if None in squares else oracle.root(oracle.mean_of(squares)),
    )


def _squared_distance(one: float, other: float) -> Fraction | None:
    """None stands for an infinite one; two equal infinities are no distance apart."""
    if one == other:
        return Fraction(0)
    return None if math.isinf(one) or math.isinf(other) else (Fraction(one) - Fraction(other)) ** 2


# --- guarantees -------------------------------------------------------------------------------------------------------


def guaranteed_rank(comparisons: int, far: str, guarantee: str) -> int:
    """j of the threshold s(j) that carries the guarantee; 0 where none does.

    `expected`: the largest j with j / (n + 1) <= f. `confident`: the largest j with P(Bin(n, f) <= j - 1) <= 1/20.

    >>> [guaranteed_rank(n, "0.1", "expected") for n in (8, 9, 29)], guaranteed_rank(2, "0.8", "confident")
    ([0, 1, 3], 1)
    """
    rate, rank = oracle.exactly(far), 0
    for candidate in range(1, comparisons + 1):
        promised = {
            "expected": lambda j: Fraction(j, comparisons + 1) <= rate,
            "confident": lambda j: 1 - oracle.binomial_tail(j, comparisons, rate) <= Fraction(1, 20),
        }[guarantee](candidate)
        if not promised:  # both grow with j
            break
        rank = candidate
    return rank


# --- searches of a gallery --------------------------------------------------------------------------------------------


def rank_of_mate(mates: Scores, others: Scores) -> int:
    """Which place the best score of a probe's own person takes; those of others that equal it stand before it.

    >>> rank_of_mate([0.5, 0.25], [0.75, 0.25]), rank_of_mate([0.5], [0.5, 0.25]), rank_of_mate([0.5], [])
    (2, 2, 1)
    """
    return 1 + sum(1 for score in others if score >= max(mates))


def found(mates: Sequence[Scores], others: Sequence[Scores], cut: float, rank: int = 1) -> int:
    """How many mated probes score above the cut with their mate, and have it among the first `rank` places."""
    return sum(
        1
        for own, other in zip(mates, others, strict=True)
        if own and max(own) > cut and rank_of_mate(own, other) <= rank
    )


def cumulative_matches(mates: Sequence[Scores], others: Sequence[Scores]) -> list[int]:
    """How many mated probes have their mate among the first 1, 2, ... places (CMC), whatever it scores.

    >>> cumulative_matches([[0.5], [0.1], []], [[0.2, 0.1], [0.9, 0.1], [0.3, 0.3]])
    [1, 1, 2]
    """
    ranks = [rank_of_mate(own, other) for own, other in zip(mates, others, strict=True) if own]
    places = 1 + max(len(other) for own, other in zip(mates, others, strict=True) if own)
    return [sum(1 for rank in ranks if rank <= place) for place in range(1, places + 1)]


def false_alarms(mates: Sequence[Scores], others: Sequence[Scores], cut: float) -> int:
    """How many probes without a mate score above the cut with anybody."""
    return sum(1 for own, other in zip(mates, others, strict=True) if not own and max(other) > cut)
