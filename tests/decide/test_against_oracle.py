"""`verisphere.decide` against brute force in rational arithmetic (oracle.py), on the cases where decisions go wrong."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from verisphere.decide import kfold_accuracy, one_threshold, operating_point, roc

from . import oracle

quick = settings(derandomize=True, deadline=None, max_examples=150)

# Few values, so ties are the rule; neighbours one unit in the last place apart; 0.1 in two precisions; both zeros.
POOL = [-1.0, -0.5, -0.25, -0.0, 0.0, 0.1, float(np.nextafter(0.1, 1)), float(np.float32(0.1)), 0.25, 0.5, 1.0, 1.5]
INFINITE = [math.inf, -math.inf]
FARS = [0.29, 0.1, 0.3, 1e-4, 0.5, 0.0, 1.0]
DECIMALS = ["0", "1", "0.0", "1.0", "0.29", "0.57", "1e-4", "1E-2", "1e-6", "0.1", ".5", "0.3", "0.7"]
DECIMALS += ["0.15", "0.65", "0.999999999999999999999999999999999999", "0.333333333333333333333333333333333333"]

tied = st.sampled_from(POOL)
ordered = st.sampled_from(POOL + INFINITE)
spread = st.floats(width=32, allow_nan=False)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
fars = st.one_of(
    st.sampled_from(FARS),
    st.sampled_from(DECIMALS),
    st.integers(0, 1000).map(lambda thousandths: f"{thousandths}e-3"),
    st.floats(0, 1),
)


def lists(values, largest=14):
    """One score at least; short lists, so that one genuine pair, one impostor pair and f n < 1 come up often."""
    return st.lists(values, min_size=1, max_size=largest)


def classes(values):
    return st.tuples(lists(values), lists(values))


mixed = st.one_of(classes(tied), classes(ordered), classes(spread))


@st.composite
def as_given(draw, scores):
    """The scores as a caller holds them (float32 or float64, array or tensor), and the same as exact floats."""
    kind = draw(st.sampled_from([np.float32, np.float64]))
    array = np.array(scores, dtype=kind)
    return (torch.from_numpy(array) if draw(st.booleans()) else array), array.astype(np.float64).tolist()


@st.composite
def two_classes(draw):
    genuine, impostor = draw(mixed)
    return draw(as_given(genuine)), draw(as_given(impostor))


def bounds_agree(lower, upper, successes, trials):
    return (lower, upper) == pytest.approx(oracle.clopper_pearson(successes, trials), abs=1e-8)


def counts_of(point):
    return oracle.Counts(point.genuine_accepted, point.genuine_total, point.impostor_accepted, point.impostor_total)


def check_rates(point, expected):
    """Counts equal; rates are the correctly rounded quotients; bounds are the exact binomial ones."""
    assert counts_of(point) == expected
    assert (point.tar, point.far) == (float(expected.tar), float(expected.far))
    assert bounds_agree(point.far_lower_95, point.far_upper_95, expected.impostor_accepted, expected.impostor_total)
    assert bounds_agree(point.tar_lower_95, point.tar_upper_95, expected.genuine_accepted, expected.genuine_total)


# --- the oracle itself, by hand ---------------------------------------------------------------------------------------


def test_oracle_bounds_in_closed_form():
    # 0 of n: the upper bound is 1 - 0.025^(1/n); n of n: the lower one is 0.025^(1/n).
    assert oracle.clopper_pearson(0, 30) == pytest.approx((0.0, 1 - 0.025 ** (1 / 30)), abs=1e-12)
    assert oracle.clopper_pearson(7, 7) == pytest.approx((0.025 ** (1 / 7), 1.0), abs=1e-12)


@quick
@given(lists(ordered), fars)
def test_oracle_minimum_is_the_next_largest_score(impostor, far):
    """The two wordings of the rule in the design mean the same number."""
    k = math.floor(oracle.exactly(far) * len(impostor))
    expected = -math.inf if k >= len(impostor) else sorted(impostor, reverse=True)[k]
    assert oracle.at_most(impostor, far) == expected


# --- operating points -------------------------------------------------------------------------------------------------


@quick
@given(two_classes(), fars)
def test_at_most(scores, far):
    (genuine, genuine_exact), (impostor, impostor_exact) = scores
    point = operating_point(genuine, impostor, far=far)
    assert point.rule == "at_most"
    assert point.threshold == oracle.at_most(impostor_exact, far)
    check_rates(point, oracle.count(genuine_exact, impostor_exact, point.threshold))
    assert point.below_resolution is oracle.below_resolution(impostor_exact, far)


@quick
@given(two_classes(), fars)
def test_at_most_keeps_its_promise(scores, far):
    """The realised FAR never exceeds the target, and anything below the threshold would."""
    (genuine, _), (impostor, impostor_exact) = scores
    point = operating_point(genuine, impostor, far=far)
    target = oracle.exactly(far)
    assert Fraction(point.impostor_accepted, point.impostor_total) <= target
    if point.threshold > -math.inf:
        not_below = sum(1 for score in impostor_exact if score >= point.threshold)
        assert Fraction(not_below, point.impostor_total) > target


@quick
@given(two_classes(), fars)
def test_nearest(scores, far):
    (genuine, genuine_exact), (impostor, impostor_exact) = scores
    point = operating_point(genuine, impostor, far=far, rule="nearest")
    assert point.rule == "nearest"
    assert point.threshold == oracle.nearest(impostor_exact, far)
    check_rates(point, oracle.count(genuine_exact, impostor_exact, point.threshold))


@pytest.mark.parametrize(
    ("far", "accepted"),
    [("0.05", 0), ("0.15", 1), ("0.25", 2), ("0.35", 3), ("0.45", 4), ("0.55", 5), ("0.65", 6), ("0.75", 7), (0.65, 6)],
)
def test_nearest_takes_the_lower_far_on_a_tie(far, accepted):
    # In binary |0.6 - 0.65| = 0.05000000000000004 and |0.7 - 0.65| = 0.04999999999999993: a tie only in decimals.
    impostor = np.arange(10.0)
    assert operating_point(np.array([5.0]), impostor, far=far, rule="nearest").impostor_accepted == accepted


@quick
@given(st.one_of(classes(tied), classes(finite)), st.data(), fars)
def test_interpolated(scores, data, far):
    """The line is followed in float64, so its threshold is near the exact one, and the counts are those at it."""
    genuine, genuine_exact = data.draw(as_given(scores[0]))
    impostor, impostor_exact = data.draw(as_given(scores[1]))
    point = operating_point(genuine, impostor, far=far, rule="interpolated")
    exact = oracle.interpolated(impostor_exact, far)
    size = max(1e-300, *(abs(score) for score in impostor_exact))
    assert point.rule == "interpolated"
    assert point.threshold == exact or abs(Fraction(point.threshold) - exact) <= Fraction(size) * Fraction(1, 2**50)
    check_rates(point, oracle.count(genuine_exact, impostor_exact, point.threshold))


@pytest.mark.parametrize(
    ("far", "threshold"),
    # Eight impostor scores 8, 7, ..., 1. f n = 2 falls on the third; 2.5 halfway to the fourth; 7.75 has no next one.
    [("0", 8.0), ("0.25", 6.0), ("0.3125", 5.5), ("0.96875", 1.0), ("1", -math.inf), (0.3125, 5.5)],
)
def test_interpolated_by_hand(far, threshold):
    point = operating_point(np.array([6.0]), np.arange(1.0, 9.0), far=far, rule="interpolated")
    assert point.threshold == threshold


@pytest.mark.parametrize(
    ("far", "n", "k"),
    [
        ("0.29", 100, 29),  # 0.29 * 100 is 28.999999999999996 in binary
        (0.29, 100, 29),
        ("0.57", 100, 57),  # 56.99999999999999
        ("1e-4", 10_000, 1),
        (1e-4, 10_000, 1),
        ("1e-4", 9_999, 0),
        ("0.1", 10, 1),
        (0.1 + 0.2, 10, 3),  # prints as 0.30000000000000004
        ("0.00", 5, 0),
        # More digits than a default decimal context keeps: times 3 it is still below 1.
        ("0.333333333333333333333333333333333333", 3, 0),
        ("0.999999999999999999999999999999999999", 7, 6),
        ("0.2857142857142857142857142857142857143", 7, 2),
    ],
)
def test_k_is_exact(far, n, k):
    impostor = np.random.default_rng(n).permutation(n).astype(np.float64)
    point = operating_point(np.array([0.5]), impostor, far=far)
    assert (point.threshold, point.impostor_accepted) == (n - 1 - k, k)
    assert point.below_resolution is (k == 0)


@pytest.mark.parametrize("far", ["1e-4", "1E-4", "0.00010", ".29", "1"])
def test_the_target_keeps_its_text(far):
    assert operating_point(np.array([0.5]), np.array([0.1]), far=far).far_target == far


def test_a_float_target_reads_as_the_number_it_prints():
    for far in (0.29, np.float64(0.29)):  # a float64 scalar is a float, though it prints as np.float64(0.29)
        assert operating_point(np.array([0.5]), np.array([0.1]), far=far).far_target == "0.29"


@pytest.mark.parametrize(
    ("genuine", "impostor", "far", "threshold", "genuine_accepted", "impostor_accepted"),
    [
        ([0.5] * 4, [0.5] * 4, "0.5", 0.5, 0, 0),  # all equal: a tie at the threshold is rejected
        ([0.5] * 4, [0.5] * 4, "1", -math.inf, 4, 4),
        ([0.5], [0.25], "0.999", 0.25, 1, 0),  # one impostor: nothing below 1 accepts it
        ([-0.0], [0.0], "0", 0.0, 0, 0),
        ([0.0], [-0.0], "0", -0.0, 0, 0),
        ([math.inf, -math.inf], [math.inf, 0.0], "0", math.inf, 0, 0),
        ([math.inf, -math.inf], [-math.inf, -math.inf], "0", -math.inf, 1, 0),
        ([math.inf, -math.inf], [-math.inf, 0.0], "1", -math.inf, 1, 1),  # nothing is below minus infinity
    ],
)
def test_edges_by_hand(genuine, impostor, far, threshold, genuine_accepted, impostor_accepted):
    point = operating_point(np.array(genuine), np.array(impostor), far=far)
    assert point.threshold == threshold
    assert (point.genuine_accepted, point.impostor_accepted) == (genuine_accepted, impostor_accepted)


def test_precisions_are_compared_at_their_exact_values():
    # float32(0.1) = 0.100000001490..., above the float64 0.1; equal once both are rounded to float32.
    genuine, impostor = np.array([0.1], dtype=np.float32), np.array([0.1])
    assert operating_point(genuine, impostor, far="0").genuine_accepted == 1
    assert operating_point(torch.from_numpy(genuine), torch.from_numpy(impostor), far="0").genuine_accepted == 1
    assert operating_point(impostor, genuine, far="0").genuine_accepted == 0
    # bfloat16(0.1) = 0.10009765625
    assert operating_point(torch.tensor([0.1], dtype=torch.bfloat16), genuine, far="0").genuine_accepted == 1


@pytest.mark.parametrize("rule", ["at_most", "nearest", "interpolated"])
def test_the_input_is_left_alone(rule):
    genuine, impostor = np.array([0.3, 0.1, 0.2]), np.array([0.2, -0.1, 0.4, 0.0])
    before = genuine.copy(), impostor.copy()
    operating_point(genuine, impostor, far="0.3", rule=rule)
    np.testing.assert_array_equal(genuine, before[0])
    np.testing.assert_array_equal(impostor, before[1])


@quick
@given(classes(ordered), fars)
def test_interpolated_with_infinities_never_decides_by_nan(scores, far):
    """inf - inf has no value: a threshold that is not a number would reject everyone in silence."""
    genuine, impostor = (np.array(values) for values in scores)
    point = operating_point(genuine, impostor, far=far, rule="interpolated")
    assert not math.isnan(point.threshold)
    check_rates(point, oracle.count(scores[0], scores[1], point.threshold))


# --- curves -----------------------------------------------------------------------------------------------------------


@quick
@given(two_classes())
def test_roc(scores):
    (genuine, genuine_exact), (impostor, impostor_exact) = scores
    curve = roc(genuine, impostor)
    expected = oracle.roc(genuine_exact, impostor_exact)
    assert curve.thresholds.tolist() == [cut for cut, _ in expected]
    assert curve.impostor_accepted.tolist() == [counts.impostor_accepted for _, counts in expected]
    assert curve.genuine_accepted.tolist() == [counts.genuine_accepted for _, counts in expected]
    assert curve.far.tolist() == [float(counts.far) for _, counts in expected]
    assert curve.tar.tolist() == [float(counts.tar) for _, counts in expected]


@quick
@given(two_classes(), fars)
def test_every_operating_point_lies_on_the_curve(scores, far):
    (genuine, _), (impostor, _) = scores
    point, curve = operating_point(genuine, impostor, far=far), roc(genuine, impostor)
    at = curve.thresholds.tolist().index(point.threshold)
    assert (curve.tar.tolist()[at], curve.far.tolist()[at]) == (point.tar, point.far)


# --- k-fold accuracy --------------------------------------------------------------------------------------------------


@st.composite
def folded(draw):
    """Pairs in two to four folds, none empty, with a genuine and an impostor pair somewhere."""
    names = draw(st.sampled_from([[0, 1], [0, 1, 2], [3, 7, 100], [0, 1, 2, 3]]))
    size = draw(st.integers(len(names), 16))
    folds = draw(st.permutations([names[i % len(names)] for i in range(size)]))
    scores = draw(st.lists(draw(st.sampled_from([tied, ordered, spread])), min_size=size, max_size=size))
    flags = draw(st.lists(st.booleans(), min_size=size, max_size=size).filter(lambda given: len(set(given)) == 2))
    return scores, flags, folds


@quick
@given(folded())
@example(([0.5, 0.5, 0.5, 0.5], [True, False, True, False], [0, 0, 1, 1]))  # every cut is as good as any other
@example(([0.4, 0.3, 0.2, 0.1], [True, True, False, False], [0, 1, 0, 1]))
def test_kfold_accuracy(pairs):
    scores, flags, folds = pairs
    accuracy = kfold_accuracy(np.array(scores), np.array(flags), np.array(folds))
    expected = oracle.kfold_accuracy(scores, flags, folds)
    assert list(accuracy.thresholds) == expected.thresholds
    assert list(accuracy.per_fold) == [float(value) for value in expected.per_fold]
    assert accuracy.mean == pytest.approx(float(expected.mean), rel=1e-14)
    assert accuracy.std == pytest.approx(expected.std, abs=1e-14)
    assert accuracy.standard_error == pytest.approx(expected.standard_error, abs=1e-14)
    assert (accuracy.folds, accuracy.pairs) == (len(set(folds)), len(scores))


def test_kfold_counts_a_score_of_minus_infinity_as_one_cut():
    # Fold 1: genuine at 1 and 3, impostors at -inf, 2 and 4. The cuts -inf (which rejects its own tie), 2 and 4 are
    # each right three times, 1 and 3 twice: of three best cuts the middle one is 2.
    scores = np.array([0.0, 9.0, 1.0, 3.0, -math.inf, 2.0, 4.0])
    flags = np.array([True, False, True, True, False, False, False])
    assert kfold_accuracy(scores, flags, np.array([0, 0, 1, 1, 1, 1, 1])).thresholds[0] == 2.0


def test_kfold_by_hand():
    # Fold 0 is decided by fold 1: 0.2 impostor, 0.6 genuine; only the cut 0.2 is right twice, so 0.1 and 0.5 go right.
    # Fold 1 is decided by fold 0: 0.1 impostor, 0.5 genuine; the cut 0.1 accepts 0.2, one of two wrong.
    accuracy = kfold_accuracy(
        np.array([0.1, 0.5, 0.2, 0.6]), np.array([False, True, False, True]), np.array([0, 0, 1, 1])
    )
    assert (accuracy.thresholds, accuracy.per_fold, accuracy.mean) == ((0.2, 0.1), (1.0, 0.5), 0.75)
    # Deviations +-0.25: sample standard deviation sqrt(2 * 0.0625 / 1), standard error that over sqrt(2) = 0.25.
    assert accuracy.std == pytest.approx(math.sqrt(0.125), abs=1e-15)
    assert accuracy.standard_error == pytest.approx(0.25, abs=1e-15)


@pytest.mark.parametrize(("alternations", "cut"), [(1, -math.inf), (2, 2.0), (3, 2.0), (4, 4.0), (5, 4.0)])
def test_kfold_takes_the_lower_middle_cut(alternations, cut):
    # Scores 1, 2, 3, ... of the other fold are genuine, impostor, genuine, ...: minus infinity gets the genuine half
    # right, each cut at a genuine score one pair fewer, each cut at an impostor score the half again.
    # Best are -inf, 2, 4, ..., 2 a: a + 1 of them, of which number a // 2 (from 0) is taken.
    scores = np.arange(1.0, 2 * alternations + 1)
    flags = np.arange(2 * alternations) % 2 == 0
    accuracy = kfold_accuracy(
        np.append(scores, [0.0, 9.0]), np.append(flags, [True, False]), np.append(np.ones_like(flags, int), [0, 0])
    )
    assert accuracy.thresholds[0] == cut


# --- one threshold for all --------------------------------------------------------------------------------------------


@st.composite
def many_domains(draw):
    """One to four domains, scores from one pool, maybe pairs across and a calibration set; given and exact."""
    values = draw(st.sampled_from([tied, ordered, spread]))
    names = draw(st.lists(st.sampled_from(["mask", "age", "night", "Ω", "all"]), min_size=1, max_size=4, unique=True))
    given_domains, exact = {}, {}
    for name in names:
        genuine, impostor = draw(as_given(draw(lists(values, 8)))), draw(as_given(draw(lists(values, 8))))
        given_domains[name] = (genuine[0], impostor[0])
        exact[name] = (genuine[1], impostor[1])
    absent = st.just((None, []))
    across = draw(st.one_of(absent, lists(values, 8).flatmap(as_given)))
    calibration = draw(st.one_of(absent, lists(values, 8).flatmap(as_given)))
    if calibration[0] is not None:
        across = (None, [])
    return given_domains, exact, across, calibration


def check_one_threshold(result, expected):
    assert result.calibration_threshold == expected.calibration_threshold
    assert list(result.domains) == list(expected.domains)
    for name, domain in expected.domains.items():
        check_rates(result.domains[name], domain.counts)
        assert result.domains[name].threshold == domain.own_threshold
        assert result.domains[name].tar_own == float(domain.own_tar)
    assert result.tar_mean == pytest.approx(float(expected.tar_mean), rel=1e-13)
    assert result.tar_variance == pytest.approx(float(expected.tar_variance), abs=1e-14)
    assert result.neg_log10_far_mean == pytest.approx(expected.neg_log10_far_mean, abs=1e-13)
    assert result.neg_log10_far_variance == pytest.approx(expected.neg_log10_far_variance, abs=1e-13)
    assert set(result.far_is_bound) == expected.far_is_bound
    assert len(result.far_is_bound) == len(expected.far_is_bound)
    assert result.gamma == pytest.approx(expected.gamma, rel=1e-12, abs=1e-300)
    assert result.skipped == ()


@quick
@given(many_domains(), fars, st.sampled_from(["all", "within"]))
def test_one_threshold(problem, far, union):
    domains, exact, (across, across_exact), (calibration, calibration_exact) = problem
    result = one_threshold(domains, far=far, across=across, calibration=calibration, union=union)
    assert result.union == ("calibration" if calibration_exact else union)  # what set t_c
    assert result.rule == "at_most"
    check_one_threshold(result, oracle.one_threshold(exact, far, across_exact, calibration_exact, union))


@quick
@given(two_classes(), fars)
def test_one_domain_alone_is_its_operating_point(scores, far):
    (genuine, _), (impostor, _) = scores
    result, point = one_threshold({"only": (genuine, impostor)}, far=far), operating_point(genuine, impostor, far=far)
    only = result.domains["only"]
    assert (result.calibration_threshold, only.threshold) == (point.threshold, point.threshold)
    assert (only.tar, only.tar_own, only.far) == (point.tar, point.tar, point.far)
    assert (result.gamma, result.tar_variance, result.neg_log10_far_variance) == (0, 0, 0)


def two_domains():
    return {
        "a": (np.array([0.9, 0.5]), np.array([0.1, 0.2, 0.3, 0.4])),
        "b": (np.array([0.9, 0.8]), np.array([0.5, 0.6, 0.7, 0.8])),
    }


def test_one_threshold_by_hand():
    # Pooled 0.8 ... 0.1, f n = 2: t_c = 0.6. Own thresholds at 1/4: 0.3 and 0.7.
    result = one_threshold(two_domains(), far="0.25")
    assert result.calibration_threshold == 0.6
    assert (result.domains["a"].tar, result.domains["a"].tar_own, result.domains["a"].far) == (0.5, 1.0, 0.0)
    assert (result.domains["b"].tar, result.domains["b"].tar_own, result.domains["b"].far) == (1.0, 1.0, 0.5)
    assert (result.tar_mean, result.tar_variance) == (0.75, 0.0625)
    # FAR 0 of 4 enters as 1/4: log10 4 and log10 2, mean log10(8)/2, deviation log10(2)/2.
    assert result.far_is_bound == ("a",)
    assert result.neg_log10_far_mean == pytest.approx(0.45154499, abs=1e-8)
    assert result.neg_log10_far_variance == pytest.approx(0.02265476, abs=1e-8)
    assert result.gamma == pytest.approx(math.sqrt((0.09 + 0.01) / 2), abs=1e-12)


def test_pairs_across_domains_count_for_the_common_threshold_alone():
    # With four across at 0.95 the pool has 12, k = 3: t_c = 0.95; a domain's own counts never see them.
    across = np.full(4, 0.95)
    result = one_threshold(two_domains(), far="0.25", across=across)
    assert result.calibration_threshold == 0.95
    assert [domain.impostor_total for domain in result.domains.values()] == [4, 4]
    assert [domain.threshold for domain in result.domains.values()] == [0.3, 0.7]
    assert one_threshold(two_domains(), far="0.25", across=across, union="within").calibration_threshold == 0.6


def test_calibration_alone_sets_the_common_threshold():
    result = one_threshold(two_domains(), far="0.25", calibration=np.array([0.15, 0.05, 0.0, -1.0]))
    assert result.calibration_threshold == 0.05
    assert [domain.threshold for domain in result.domains.values()] == [0.3, 0.7]


def test_impostors_of_a_skipped_domain_still_set_the_common_threshold():
    # Pooled 0.9, 0.9, 0.9, 0.9, 0.8, ...: 12 scores, k = 3.
    domains = two_domains() | {"night": (NOTHING, np.full(4, 0.9))}
    assert one_threshold(domains, far="0.25", skip_empty=True).calibration_threshold == 0.9


# --- what is refused --------------------------------------------------------------------------------------------------

NOTHING = np.array([])


@pytest.mark.parametrize("function", [operating_point, roc])
def test_an_empty_class_is_named(function):
    with pytest.raises(ValueError, match="genuine"):
        function(NOTHING, np.array([0.1]))
    with pytest.raises(ValueError, match="impostor"):
        function(np.array([0.1]), NOTHING)


@pytest.mark.parametrize("function", [operating_point, roc])
@pytest.mark.parametrize("wrap", [np.array, torch.tensor])
def test_nan_is_counted_and_placed(function, wrap):
    clean, dirty = wrap([0.1, 0.2]), wrap([math.nan, 0.2, math.nan, math.nan, 1.0])
    with pytest.raises(ValueError, match=r"genuine.*\b3\b|\b3\b.*genuine"):
        function(dirty, clean)
    with pytest.raises(ValueError, match=r"impostor.*\b3\b|\b3\b.*impostor"):
        function(clean, dirty)


def test_nan_in_folds_and_domains():
    with pytest.raises(ValueError, match=r"\b2\b"):
        kfold_accuracy(np.array([math.nan, 0.2, math.nan]), np.array([True, False, True]), np.array([0, 1, 1]))
    spoiled = two_domains() | {"night": (np.array([math.nan, 0.3]), np.array([0.1]))}
    with pytest.raises(ValueError, match=r"night.*\b1\b|\b1\b.*night"):
        one_threshold(spoiled)
    with pytest.raises(ValueError, match=r"night.*\b1\b|\b1\b.*night"):
        one_threshold(spoiled, skip_empty=True)  # skipping is for what is absent, not for what is broken
    with pytest.raises(ValueError, match=r"(across|cross-domain).*\b1\b|\b1\b.*(across|cross-domain)"):
        one_threshold(two_domains(), across=np.array([0.1, math.nan]))
    with pytest.raises(ValueError, match=r"calibration.*\b1\b|\b1\b.*calibration"):
        one_threshold(two_domains(), calibration=np.array([0.1, math.nan]))


def test_accuracy_needs_both_classes():
    # Without impostor pairs the cut at minus infinity is right every time: 100 % of nothing learned.
    scores, folds = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 0, 1, 1])
    with pytest.raises(ValueError, match="impostor"):
        kfold_accuracy(scores, np.ones(4, dtype=bool), folds)
    with pytest.raises(ValueError, match="genuine"):
        kfold_accuracy(scores, np.zeros(4, dtype=bool), folds)


@pytest.mark.parametrize("empty", [(NOTHING, np.array([0.3])), (np.array([0.3]), NOTHING), (NOTHING, NOTHING)])
def test_a_domain_with_an_empty_class_is_named_or_skipped(empty):
    domains = two_domains() | {"night": empty}
    with pytest.raises(ValueError, match="night"):
        one_threshold(domains, far="0.25")
    result = one_threshold(domains, far="0.25", skip_empty=True)
    assert result.skipped == ("night",)
    assert list(result.domains) == ["a", "b"]
    # Its impostors, if any, stay in the pool: k = 2 of 8 or of 9, the third largest either way.
    assert result.calibration_threshold == 0.6
    assert (result.tar_mean, result.far_is_bound) == (0.75, ("a",))
