"""The promise under a cap: its two bounds by hand, by exact enumeration and by simulation, and the observed cap."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

from made_pairs import all_pairs, likeness
from verisphere.decide.capped import (
    capped_people_needed,
    capped_rank,
    largest_cap,
    lowest_capped_far,
    observed_cap,
)


def test_fewest_people_are_those_worked_out_twice_by_others():
    by_both = [capped_people_needed(far, cap) for far in ("1e-3", "1e-4") for cap in (2.0, 5.0, 10.0)]
    assert by_both == [90, 239, 479, 253, 266, 302]
    for far, cap, needed in (("1e-3", 2, 237), ("1e-4", 2, 656), ("1e-3", 10, 735), ("1e-4", 10, 1047)):
        rate, people = float(far), needed

        def lowest(people, rate=rate, cap=cap):
            variance = rate**2 * 4 * (cap - 1) * (people - 2) + 2 * rate * (1 - rate)
            return rate - math.sqrt(19 * variance / (people * (people - 1)))

        assert lowest(people - 1) < 0 <= lowest(people)


def test_the_rank_grows_with_people_and_falls_with_the_cap():
    ranks = [capped_rank(people, "1e-3", 2.0) for people in (89, 90, 150, 200, 300, 600, 2000)]
    assert ranks == sorted(ranks)
    assert ranks[0] == 0
    assert ranks[1] == 1
    assert capped_rank(600, "1e-3", 1.5) > capped_rank(600, "1e-3", 2.0) > capped_rank(600, "1e-3", 5.0)
    assert capped_rank(600, "1e-3", 2.0) < 1e-3 * 600 * 599 / 2  # never more than are accepted on average


def chance_of_fewer(rates, share, people, rank):
    """P(fewer than `rank` of all pairs are accepted), by enumeration, of people of two types.

    Args:
        rates: the rates at which pairs of the first type, of both types and of the second are accepted, independently.
        share: the share of people of the first type.
        people: number of people.
        rank: number of accepted pairs.
    """
    total = 0.0
    for first in range(people + 1):
        second = people - first
        accepted = np.array([1.0])
        for count, rate in zip((math.comb(first, 2), first * second, math.comb(second, 2)), rates, strict=True):
            accepted = np.convolve(accepted, binom.pmf(np.arange(min(count, rank) + 1), count, rate))[:rank]
        total += binom.pmf(first, people, share) * accepted.sum()
    return total


@pytest.mark.parametrize(
    ("far", "cap", "share", "people"),
    [
        ("1e-3", 2.0, 0.1, 90),
        ("1e-3", 2.0, 0.4, 150),
        ("1e-3", 2.0, 0.1, 400),
        ("1e-3", 5.0, 0.1, 239),
        ("1e-3", 5.0, 0.05, 600),
        ("2e-2", 1.5, 0.3, 90),
        ("2e-2", 1.5, 0.1, 300),
        ("1e-4", 2.0, 0.3, 253),
        ("1e-4", 10.0, 0.05, 302),
        ("1e-4", 10.0, 0.05, 1047),
    ],
)
def test_the_promise_holds_in_populations_that_reach_the_cap(far, cap, share, people):
    """Two types of people, those of the first accepted the more often: the mean of p^2 is exactly c f^2."""
    rate, apart = float(far), math.sqrt((cap - 1) * share * (1 - share))
    first, second = rate * (1 + apart / share), rate * (1 - apart / (1 - share))
    assert second >= 0
    both = first * second / rate
    rates = (first - (1 - share) * both) / share, both, (second - share * both) / (1 - share)
    assert all(0 <= one <= 1 for one in rates)
    rank = capped_rank(people, far, cap)
    assert rank >= 1
    chance = chance_of_fewer(rates, share, people, rank)
    assert chance <= 0.05
    assert chance_of_fewer(rates, share, people, round(rate * math.comb(people, 2))) > 0.05  # what a mean would take


@pytest.mark.parametrize(("far", "cap"), [("1e-8", 2.0), ("1e-6", 600.0), ("1e-12", 1.0)])
def test_more_people_than_are_thinned_have_the_rank_that_their_number_promises(far, cap):
    needed = capped_people_needed(far, cap)
    assert needed > 20_000
    assert [capped_rank(people, far, cap) for people in (needed - 1, needed)] == [0, 1]


def test_no_cap_is_more_than_the_inverse_of_the_far():
    """The mean of p^2 is at most f, as p is at most 1; a cap without end once took memory without end."""
    assert capped_people_needed("1e-3", 1e300) == capped_people_needed("1e-3", 1000.0)
    assert capped_rank(60_000, "1e-3", 1e300) == capped_rank(60_000, "1e-3", 1000.0) >= 1


def test_without_the_cap_nothing_is_promised():
    """A share of people resemble everybody: c is far above 2, and the threshold is too low as often as none is seen."""
    far, people = 1e-3, 200
    share = 1 - math.sqrt(1 - far)
    chance = chance_of_fewer((1.0, 1.0, 0.0), share, people, capped_rank(people, far, 2.0))
    assert chance == pytest.approx((1 - share) ** people, rel=0.05)
    assert chance > 0.9


def test_few_accepted_pairs_are_promised_where_cantelli_allows_none():
    variance = (1e-6 * 4 * 148 + 2e-3 * 0.999) / (150 * 149)
    assert math.sqrt(19 * variance) > 1e-3
    assert capped_rank(150, "1e-3", 2.0) == 2


def test_whether_a_cap_can_be_had_needs_no_bound_of_thinned_people(monkeypatch):
    monkeypatch.setattr("verisphere.decide.capped.binom", None)
    assert largest_cap(19_001, "1e-4") == 390.0
    assert lowest_capped_far(19_001, 2.0) == "1.67e-8"
    assert capped_people_needed("1.1e-4", 10.0) == 294


def test_the_lowest_far_is_possible_and_nothing_below_it():
    for people, cap in ((90, 2.0), (400, 2.0), (400, 1.2), (3000, 5.0)):
        lowest = lowest_capped_far(people, cap)
        assert capped_rank(people, lowest, cap) >= 1
        assert capped_rank(people, 0.98 * float(lowest), cap) == 0
    assert lowest_capped_far(3, 2.0) is None


def test_the_largest_cap_is_possible_and_the_next_of_two_digits_is_not():
    for people, far, next_cap in ((301, "1e-2", 6.4), (400, "1e-3", 8.4), (2000, "1e-3", 42.0)):
        cap = largest_cap(people, far)
        assert cap == pytest.approx(next_cap - (0.1 if next_cap < 10 else 1))
        assert capped_rank(people, far, cap) >= 1
        assert capped_rank(people, far, next_cap) == 0


@pytest.mark.parametrize("cap", [0.99, 0.0, math.nan, math.inf])
def test_a_cap_that_cannot_be_is_refused(cap):
    with pytest.raises(ValueError, match="cap must be a number of at least 1"):
        capped_rank(100, "1e-2", cap)


def test_the_observed_second_moment_is_the_mean_over_triples():
    scores = likeness(12, 0.7, 0)
    pairs = all_pairs(scores)
    threshold = pairs.impostor[20]
    accepted = scores > threshold
    triples = [accepted[a, b] & accepted[a, c] for a in range(12) for b, c in combinations(set(range(12)) - {a}, 2)]
    from verisphere.decide.capped import _cap, _degrees

    degrees, beside = _degrees(pairs.impostor_people[:20], 12)
    sharing = int((degrees * (degrees - 1)).sum())
    assert _cap(sharing, 20, 12) == pytest.approx(np.mean(triples) / (20 / 66) ** 2)
    for person in range(12):  # the jackknife's counts, by leaving the person out
        rest = [other for other in range(12) if other != person]
        part = accepted[np.ix_(rest, rest)] & ~np.eye(11, dtype=bool)
        fewer = part.sum(1)
        assert sharing - degrees[person] * (degrees[person] - 1) - 2 * beside[person] == (fewer * (fewer - 1)).sum()
        assert 20 - degrees[person] == part.sum() // 2


def test_the_observed_cap_is_one_where_everybody_is_alike_and_more_where_people_differ():
    alike, differing = (observed_cap(all_pairs(likeness(300, spread, 1)), "1e-2") for spread in (0.0, 0.5))
    assert alike.lower < 1 < alike.upper < 1.2
    assert differing.lower > 1.5
    assert alike.fars[0] == pytest.approx(0.1, rel=0.01)
    assert alike.fars[-1] == pytest.approx(0.01, rel=0.01)
    assert "extrapolated" not in alike.described("1e-2")


def test_below_the_last_far_seen_the_cap_is_extrapolated_with_a_wider_interval():
    pairs = all_pairs(likeness(300, 0.5, 1))
    near, far = observed_cap(pairs, "1e-2"), observed_cap(pairs, "1e-5")
    assert "extrapolated" in far.described("1e-5")
    assert far.at_target > near.at_target
    assert far.upper / far.lower > near.upper / near.lower


def test_too_few_accepted_pairs_say_nothing_of_the_cap():
    assert observed_cap(all_pairs(likeness(12, 0.0, 0)), "1e-2") is None


def test_the_interval_of_the_observed_cap_holds_the_truth():
    """Likeness a, b of two people: accepted where a + b + noise is high; c at FAR 1e-2 from a large sample."""
    large = observed_cap(all_pairs(likeness(3000, 0.4, 9)), "1e-2")
    held = [
        found.lower <= large.at_target <= found.upper
        for seed in range(40)
        if (found := observed_cap(all_pairs(likeness(250, 0.4, 100 + seed)), "1e-2"))
    ]
    assert len(held) == 40
    assert sum(held) >= 31  # each bound holds in 95 %, both in 90 %
