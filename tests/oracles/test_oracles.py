"""`verisphere.decide` equals brute force in rational arithmetic, integers and thresholds, on 2,000 tie-heavy cases."""

import math
from fractions import Fraction

import numpy as np
import pytest

from verisphere.decide import (
    SortedScores,
    TooFewComparisonsError,
    accepted_impostors,
    binomial_bounds,
    comparisons_needed,
    independent_rank,
    independent_threshold,
    kfold_accuracy,
    lowest_far,
    one_threshold,
    operating_point,
    roc,
)

from ..decide import oracle
from . import brute_force
from .cases import CASES, FIXED, POOLS, between, decimal, make_cases, pick, random, some, target


@pytest.fixture(scope="module")
def cases():
    return make_cases()


def counts_of(point):
    return oracle.Counts(point.genuine_accepted, point.genuine_total, point.impostor_accepted, point.impostor_total)


def test_the_cases_are_those_that_decisions_fail_on(cases):
    """Ties nearly everywhere, every size, targets on whole numbers of impostors, both zeros, both infinities."""
    asked = [(case, far) for case in cases for far in case.fars]
    whole = sum((Fraction(far) * len(case.impostor)).denominator == 1 for case, far in asked)
    tied = sum(len(set(case.impostor)) < len(case.impostor) for case in cases)
    assert (len(cases), len(asked)) == (CASES, 6000)
    assert whole > 2000
    assert tied > 1700
    assert {len(case.impostor) for case in cases} == set(range(1, 61))
    assert {"0", "1"} <= {far for _, far in asked}
    values = [score for case in cases for score in case.impostor + case.genuine]
    assert {math.inf, -math.inf} <= set(values)
    assert {math.copysign(1, score) for score in values if score == 0} == {1, -1}


# --- operating points and curves --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", brute_force.RULES)
def test_operating_points(cases, rule):
    for number, case in enumerate(cases):
        genuine, impostor = SortedScores(case.genuine), SortedScores(case.impostor)
        for far in case.fars:
            point = operating_point(genuine, impostor, far, rule)
            where = f"case {number} at {far} by {rule}: {case}"
            assert point.threshold == brute_force.threshold(case.impostor, far, rule), where
            expected = oracle.count(case.genuine, case.impostor, point.threshold)
            assert counts_of(point) == expected, where
            assert (point.tar, point.far) == (float(expected.tar), float(expected.far)), where
            assert point.below_resolution is oracle.below_resolution(case.impostor, far), where


def test_how_many_impostors_may_pass(cases):
    for case in cases:
        for far in case.fars:
            assert accepted_impostors(far, len(case.impostor)) == math.floor(Fraction(far) * len(case.impostor)), far


def test_curves(cases):
    for number, case in enumerate(cases):
        curve, expected = roc(case.genuine, case.impostor), oracle.roc(case.genuine, case.impostor)
        assert curve.thresholds.tolist() == [cut for cut, _ in expected], number
        assert curve.impostor_accepted.tolist() == [counts.impostor_accepted for _, counts in expected], number
        assert curve.genuine_accepted.tolist() == [counts.genuine_accepted for _, counts in expected], number
        assert (curve.genuine_total, curve.impostor_total) == (len(case.genuine), len(case.impostor))


@pytest.mark.parametrize("total", [1, 2, 3, 4, 5, 7, 10, 13, 20, 30])
def test_bounds(total):
    """The Clopper-Pearson bounds by exact tail sums and bisection, for every count."""
    for accepted in range(total + 1):
        assert binomial_bounds(accepted, total) == pytest.approx(
            oracle.clopper_pearson(accepted, total), rel=0, abs=1e-9
        )


@pytest.mark.parametrize("total", range(1, 61))
def test_bounds_lie_where_the_tails_cross(total):
    """1e-9 to either side of a bound the exact tail lies on either side of 1/40."""
    step, share = Fraction(1, 10**9), Fraction(1, 40)
    for accepted in range(total + 1):
        lower, upper = (Fraction(bound) for bound in binomial_bounds(accepted, total))
        if accepted > 0:
            tails = [oracle.binomial_tail(accepted, total, max(lower + move, Fraction(0))) for move in (-step, step)]
            assert tails[0] < share < tails[1], accepted
        if accepted < total:
            tails = [
                1 - oracle.binomial_tail(accepted + 1, total, min(upper + move, Fraction(1))) for move in (step, -step)
            ]
            assert tails[0] < share < tails[1], accepted


# --- accuracy ---------------------------------------------------------------------------------------------------------


def test_kfold_accuracy():
    """Pairs of two to six folds, some folds of one class alone; both classes somewhere."""
    source = random.Random(100)
    for _ in range(CASES):
        pool, folds, size = pick(source, POOLS), between(source, 2, 6), between(source, 6, 60)
        scores = some(source, pool, size)
        genuine = [True, False] + [source.random() < 0.5 for _ in range(size - 2)]
        numbers = list(range(folds)) + [between(source, 0, folds - 1) for _ in range(size - folds)]
        ours = kfold_accuracy(np.array(scores), np.array(genuine), np.array(numbers))
        expected = oracle.kfold_accuracy(scores, genuine, numbers)
        where = (scores, genuine, numbers)
        assert list(ours.thresholds) == expected.thresholds, where
        assert list(ours.per_fold) == [float(share) for share in expected.per_fold], where
        assert ours.mean == pytest.approx(float(expected.mean), rel=1e-14), where
        assert ours.std == pytest.approx(expected.std, abs=1e-14), where
        assert ours.standard_error == pytest.approx(expected.standard_error, abs=1e-14), where


# --- one threshold for all --------------------------------------------------------------------------------------------


def make_domains(source):
    """One to four domains of one pool, some without a class but never all; maybe pairs across, maybe a calibration."""
    pool = pick(source, POOLS)
    domains = {}
    for number in range(between(source, 1, 4)):
        low = 1 if number == 0 else int(source.random() < 0.8)
        sizes = between(source, low, 20), between(source, low, 20)
        domains[f"domain {number}"] = (some(source, pool, sizes[0]), some(source, pool, sizes[1]))
    across = some(source, pool, between(source, 0, 30))
    calibration = some(source, pool, between(source, 1, 30)) if source.random() < 0.3 else []
    return domains, across, calibration


def test_one_threshold():
    source = random.Random(200)
    for _ in range(CASES):
        domains, across, calibration = make_domains(source)
        far, rule, union = target(source, 20), pick(source, list(brute_force.RULES)), pick(source, ["all", "within"])
        ours = one_threshold(domains, far, across or None, calibration or None, rule, union, skip_empty=True)
        expected = brute_force.one_threshold(domains, far, rule, across, calibration, union)
        where = (domains, across, calibration, far, rule, union)
        assert ours.calibration_threshold == expected.calibration_threshold, where
        assert list(ours.domains) == list(expected.domains), where
        assert (list(ours.skipped), list(ours.far_is_bound)) == (expected.skipped, expected.far_is_bound), where
        for name, result in ours.domains.items():
            domain = expected.domains[name]
            assert result.threshold == domain.own_threshold, where
            assert counts_of(result) == domain.common, where
            own = (result.genuine_accepted_own, result.impostor_accepted_own)
            assert own == (domain.own.genuine_accepted, domain.own.impostor_accepted), where
            assert (result.tar_own, result.far_own) == (float(domain.own.tar), float(domain.own.far)), where
            assert result.below_resolution is oracle.below_resolution(domains[name][1], far), where
        assert ours.tar_mean == pytest.approx(float(expected.tar_mean), rel=1e-13), where
        assert ours.tar_variance == pytest.approx(float(expected.tar_variance), abs=1e-14), where
        assert ours.neg_log10_far_mean == pytest.approx(float(expected.neg_log10_far_mean), abs=1e-13), where
        assert ours.neg_log10_far_variance == pytest.approx(float(expected.neg_log10_far_variance), abs=1e-13), where
        assert ours.gamma == pytest.approx(expected.gamma, rel=1e-12, abs=1e-300), where


# --- guarantees -------------------------------------------------------------------------------------------------------

RATES = ["1e-4", "0.001", "0.01", "0.03", "0.1", "0.25", "0.29", "0.5", "0.95", "0.999"]
guarantees = pytest.mark.parametrize("guarantee", ["expected", "confident"])


@guarantees
@pytest.mark.parametrize("far", RATES)
def test_guaranteed_ranks(far, guarantee):
    for comparisons in range(1, 61):
        rank = brute_force.guaranteed_rank(comparisons, far, guarantee)
        assert independent_rank(comparisons, far, guarantee) == rank, comparisons


@guarantees
@pytest.mark.parametrize("far", ["0.03", "0.1", "0.25", "0.29", "0.5", "0.95", "0.999"])
def test_the_fewest_comparisons(far, guarantee):
    fewest = next(count for count in range(1, 200) if brute_force.guaranteed_rank(count, far, guarantee) >= 1)
    assert comparisons_needed(far, guarantee) == fewest


@guarantees
@pytest.mark.parametrize("comparisons", [1, 2, 3, 5, 9, 10, 21, 40])
def test_the_lowest_far_in_three_digits(comparisons, guarantee):
    """It can be promised, and the number one lower in its third digit can't."""
    lowest = Fraction(lowest_far(comparisons, guarantee))
    digit = Fraction(1, 10**3)
    while lowest < 100 * digit:
        digit /= 10
    assert (lowest / digit).denominator == 1
    texts = [decimal(rate) for rate in (lowest, lowest - digit)]
    ranks = [brute_force.guaranteed_rank(comparisons, text, guarantee) for text in texts]
    assert ranks[0] >= 1
    assert ranks[1] == 0


def test_guaranteed_thresholds(cases):
    """The j-th largest score; refused where j is 0 or the score is infinite."""
    for number, case in enumerate(cases):
        far, guarantee = RATES[number % len(RATES)], ["expected", "confident"][number % 2]
        rank = brute_force.guaranteed_rank(len(case.impostor), far, guarantee)
        chosen = sorted(case.impostor, reverse=True)[rank - 1]
        if rank == 0:
            with pytest.raises(TooFewComparisonsError):
                independent_threshold(case.impostor, far, guarantee)
        elif math.isinf(chosen):
            with pytest.raises(ValueError, match="finite"):
                independent_threshold(case.impostor, far, guarantee)
        else:
            ours = independent_threshold(case.impostor, far, guarantee)
            assert (ours.threshold, ours.rank, ours.comparisons) == (chosen, rank, len(case.impostor)), (case, far)


def test_the_fixed_targets_read_as_they_are_written():
    # 100 impostors: 0.29 and 0.57 times 100 are no whole numbers in floating point.
    assert [accepted_impostors(far, 100) for far in FIXED] == [0, 100, 0, 29, 57, 10, 50]
