"""Tests that may be looked at always: values worked out by hand, and by going through every outcome."""

import itertools
import math

import numpy as np
import pytest

from verisphere.decide.watch import RateTest, anytime_bounds, reference_test

ODDS = (1.25, 1.5, 2, 3, 6, 20)


def after(limit: float, outcomes: tuple[bool, ...]) -> float:
    test = RateTest(np.array([limit]))
    for outcome in outcomes:
        test.add(np.array([outcome]))
    return float(test.by_limit.mean())


def test_the_evidence_of_one_event_by_hand():
    """At a limit of 1/2, odds rho give factors 2 rho / (1 + rho) and 2 / (1 + rho); ln 1.5 = 0.405465."""
    waiting = 0.5 / 1.405465
    bet = 1 - waiting
    hits = 2 * (1.25 / 2.25 + 1.5 / 2.5 + 2 / 3 + 3 / 4 + 6 / 7 + 20 / 21) / 6
    misses = 2 * (1 / 2.25 + 1 / 2.5 + 1 / 3 + 1 / 4 + 1 / 7 + 1 / 21) / 6
    assert after(0.5, (True,)) == pytest.approx(waiting + bet * hits, rel=1e-6)
    assert after(0.5, (False,)) == pytest.approx(waiting + bet * misses, rel=1e-6)


def test_without_an_event_the_evidence_is_one():
    assert after(0.01, ()) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("limit", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_on_average_the_evidence_is_at_most_one_while_the_promise_holds(limit: float, share: float):
    """Over all 2^8 outcomes; at the limit itself it is exactly 1."""
    rate, mean = share * limit, 0.0
    for outcomes in itertools.product([False, True], repeat=8):
        chance = math.prod(rate if outcome else 1 - rate for outcome in outcomes)
        mean += chance * after(limit, outcomes)
    assert mean <= 1 + 1e-12
    if share == 1:
        assert mean == pytest.approx(1, rel=1e-12)


def test_a_rate_that_falls_when_much_was_seen_does_not_help():
    """The chance of each event may depend on those before: at the limit after hits, at none of it after misses."""
    mean = 0.0
    for outcomes in itertools.product([False, True], repeat=7):
        chance, before = 1.0, True
        for outcome in outcomes:
            rate = 0.2 if before else 0.1
            chance, before = chance * (rate if outcome else 1 - rate), outcome
        mean += chance * after(0.2, outcomes)
    assert mean < 1


def test_every_outcome_that_ever_alarms_is_rare():
    """Over all 2^12 outcomes at f = 0.05, those that reach 20 at any event have a chance of at most 1 / 20."""
    rate, alarms = 0.05, 0.0
    for outcomes in itertools.product([False, True], repeat=12):
        test, chance, reached = RateTest(np.array([rate])), 1.0, False
        for outcome in outcomes:
            test.add(np.array([outcome]))
            chance *= rate if outcome else 1 - rate
            reached = reached or bool(test.by_limit[0] >= 20)
        alarms += chance * reached
    assert 0 < alarms <= 0.05


def test_more_hits_than_a_float_can_hold_are_no_error():
    test = RateTest(np.array([0.001]))
    for _ in range(600):
        test.add(np.array([True]))
    assert np.isfinite(test.by_limit).all()
    assert test.by_limit[0] > 1e200


def test_streams_are_independent_and_several_limits_count_alike():
    streams = RateTest(np.array([[0.1], [0.1]]))
    streams.add(np.array([[True], [False]]))
    assert streams.by_limit[:, 0].tolist() == pytest.approx([after(0.1, (True,)), after(0.1, (False,))])


def test_a_late_change_is_found_though_all_bets_from_the_first_event_are_lost():
    """3,000 misses at f = 0.01 leave at least (1.0025)^-3000 = 0.0006 of a bet, with 8 hits at most 0.0006 x 1.25^8; of
    the others less: 20^8 / 1.19^3032 is below 10^-200.
    """
    outcomes = (False,) * 3000 + (True, False, False, False) * 8
    from_the_first = sum(odds**8 / (1 + 0.01 * (odds - 1)) ** 3032 for odds in ODDS) / 6
    assert from_the_first < 0.01
    assert after(0.01, outcomes) > 20


# --- bounds ---


def test_bounds_by_hand():
    """One event that passed: the mixture is the mean of rho / (1 + m (rho - 1)) over nine rho; at m = 1 it is 1."""
    assert anytime_bounds(0, 0) == (0.0, 1.0)
    low, high = anytime_bounds(1, 1)
    odds = [math.exp(2.0**power) for power in range(-6, 3)]
    assert high == 1
    assert low == 0 or sum(rho / (1 + low * (rho - 1)) for rho in odds) / 9 == pytest.approx(40, rel=1e-6)


@pytest.mark.parametrize(("passed", "total"), [(1, 100), (10, 1000), (500, 1000), (3, 10**6)])
def test_bounds_are_where_the_mixture_reaches_forty(passed: int, total: int):
    low, high = anytime_bounds(passed, total)
    assert low < passed / total < high
    for mean, sign in ((low, 1), (high, -1)):
        logs = [sign * 2.0**power for power in range(-6, 3)]
        terms = [math.exp(log * passed - total * math.log1p(mean * math.expm1(log))) for log in logs]
        assert sum(terms) / 9 == pytest.approx(40, rel=1e-5) or (mean == 0 and sum(terms) / 9 < 40)


def test_bounds_of_none_and_of_all_mirror_each_other():
    none, every = anytime_bounds(0, 50), anytime_bounds(50, 50)
    assert none[0] == 0
    assert every == (pytest.approx(1 - none[1]), 1.0)


# --- a reference ---


def test_limits_of_a_reference_are_ranks():
    """Of 0 to 99 the cut is 90; its levels are the places 9, 22, 45, 67, 81 of 90: 81, 68 ... are not below."""
    known = reference_test(np.arange(100.0), 200.0, (0, 10), 0.0)
    assert known.cut == 90
    assert known.levels.tolist() == [9, 22, 45, 67, 81]
    ranks = np.array([81, 68, 45, 23, 9, 10, 23, 46, 68, 82])
    assert known.limits == pytest.approx(ranks / 91)
    assert (known.size, known.slack) == (91, 0)


def test_limits_follow_the_scores_as_an_urn_does():
    """9 of 90 above: 9 / 91 at first; after 1 of 1 above 10 / 92, after 1 of 2 10 / 93, with what is added."""
    test = RateTest(np.array([9 / 91]), 91.0, 0.01)
    seen = [float(test.limits_now[0])]
    for outcome in (True, False):
        test.add(np.array([outcome]))
        seen.append(float(test.limits_now[0]))
    assert seen == pytest.approx([9 / 91 + 0.01, 10 / 92 + 0.01, 10 / 93 + 0.01])


@pytest.mark.parametrize("limit", [1 / 4, 2 / 4])
def test_for_scores_like_the_reference_the_evidence_is_one_on_average(limit: float):
    """Over all 2^8 outcomes, each with the chance of the urn: of three scores, 1 or 2 are not below the level."""
    mean, total = 0.0, 0.0
    for outcomes in itertools.product([False, True], repeat=8):
        test, chance = RateTest(np.array([limit]), 4.0), 1.0
        for number, outcome in enumerate(outcomes):
            rate = (4 * limit + sum(outcomes[:number])) / (4 + number)
            chance *= rate if outcome else 1 - rate
            test.add(np.array([outcome]))
        mean, total = mean + chance * float(test.by_limit[0]), total + chance
    assert total == pytest.approx(1)
    assert mean == pytest.approx(1, rel=1e-12)


def test_the_largest_share_of_genuine_pairs_below_the_cut():
    """At most half genuine, none of 10^6 below the cut: almost nothing; half of them below: about a third of all."""
    few = reference_test(np.arange(1000.0), 2000.0, (0, 10**6), 0.5)
    many = reference_test(np.arange(1000.0), 2000.0, (5 * 10**5, 10**6), 0.5)
    assert few.slack < 1e-5
    assert many.slack == pytest.approx(0.5 / (0.5 + 0.9), abs=0.02)
    assert few.limits.tolist() == many.limits.tolist()


def test_the_cut_is_not_above_the_threshold_and_genuine_scores_below_it_count():
    known = reference_test(np.arange(100.0), 50.0, np.array([49.0, 50.0, 80.0]), 0.5)
    assert known.cut == 50
    from_counts = reference_test(np.arange(100.0), 50.0, (1, 3), 0.5)
    assert known.slack == from_counts.slack


def test_a_score_from_the_cut_on_is_not_looked_at_and_ties_are_on_neither_side():
    limits = RateTest(np.full(4, 0.5), levels=np.array([1.0, 2.0]), cut=3.0)
    assert limits.passed(3.0) is None
    assert limits.passed(2.0).tolist() == [True, False, False, False]
    assert limits.passed(0.0).tolist() == [False, False, True, True]
    assert [limits.in_words(at) for at in (1, 2)] == ["above 2", "below 1"]
    promised = RateTest(np.array([0.1]), levels=np.array([0.5]))
    assert [promised.passed(score).tolist() for score in (0.5, 0.6, math.inf)] == [[False], [True], [True]]


@pytest.mark.parametrize("scores", [np.zeros(0), np.arange(22.0)])
def test_too_small_a_reference_is_refused(scores: np.ndarray):
    with pytest.raises(ValueError, match=r"reference scores lie below the cut, .*; 20 are needed"):
        reference_test(scores, 100.0, (0, 10), 0.5)


@pytest.mark.slow
def test_a_reference_and_scores_like_it_rarely_alarm():
    """100 streams of 1,000 scores like 100 reference scores: at most 5 % ever alarm, within three deviations."""
    random, alarms = np.random.default_rng(0), 0
    for _ in range(100):
        test, reached = reference_test(random.standard_normal(100), 9.0, (0, 1000), 0.0), False
        for score in random.standard_normal(1000):
            if (passed := test.passed(score)) is not None:
                test.add(passed)
                reached = reached or test.by_limit.mean() >= 20
        alarms += reached
    assert alarms / 100 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 100)
