"""How many people a promise needs: ranks by hand and by exact sums, confidence limits, and what a refusal says."""

from fractions import Fraction
from math import comb

import pytest

from verisphere.decide import (
    comparisons_needed,
    confidence_limit,
    independent_rank,
    lowest_far,
    people_needed,
    share_above,
)
from verisphere.decide.sample_size import CHANCE, _binomial_sum, _rarely_fewer, too_few


@pytest.mark.parametrize(
    ("comparisons", "far", "rank"),
    [
        (8, "0.1", 0),  # 0.1 * 9 = 0.9
        (9, "0.1", 1),
        (18, "0.1", 1),
        (19, "0.1", 2),
        (99, "0.29", 29),  # 0.29 * 100 is 28.999... in floating point
        (998, "1e-3", 0),
        (999, "1e-3", 1),
        (9998, "1e-4", 0),
        (9999, "1e-4", 1),
        (2874, "1e-2", 28),  # the people of LFW
    ],
)
def test_expected_rank_by_hand(comparisons: int, far: str, rank: int):
    assert independent_rank(comparisons, far, "expected") == rank


@pytest.mark.parametrize(
    ("comparisons", "far", "rank"),
    [
        (4, "0.5", 0),  # 1 / 16 = 0.0625
        (5, "0.5", 1),  # 1 / 32 = 0.03125; with one hit 6 / 32
        (7, "0.5", 1),  # one hit or none: 8 / 128 = 0.0625
        (8, "0.5", 2),  # 9 / 256 = 0.0352
        (2994, "1e-3", 0),
        (2995, "1e-3", 1),
        (29955, "1e-4", 0),
        (29956, "1e-4", 1),
        (1, "0.95", 1),  # 1 - 0.95 is exactly 0.05, and 0.050000000000000044 in floating point
        (1, "0.94999999999999999999", 0),
        (1, "0.95000000000000000001", 1),
    ],
)
def test_confident_rank_by_hand(comparisons: int, far: str, rank: int):
    assert independent_rank(comparisons, far, "confident") == rank


@pytest.mark.parametrize("far", ["0.003", "0.05", "0.1", "0.29", "0.5", "0.7764", "0.95", "0.999"])
def test_confident_rank_is_the_largest_by_exact_sums(far: str):
    rate = Fraction(far)
    for comparisons in range(1, 45):
        below, largest = Fraction(0), 0
        for rank in range(1, comparisons + 1):
            hits = rank - 1
            below += comb(comparisons, hits) * rate**hits * (1 - rate) ** (comparisons - hits)
            if below <= Fraction(5, 100):
                largest = rank
        assert independent_rank(comparisons, far, "confident") == largest


def test_the_sum_near_the_border_is_exact():
    rate, comparisons = Fraction(13, 100), 60
    for rank in (1, 2, 7, 60):
        exact = sum(comb(comparisons, k) * rate**k * (1 - rate) ** (comparisons - k) for k in range(rank))
        assert abs(Fraction(_binomial_sum(rank, comparisons, rate)) - exact) < exact / 10**50
    assert _binomial_sum(1, 1, Fraction(95, 100)) == Fraction(5, 100)


@pytest.mark.parametrize(("comparisons", "far"), [(10**6, "1e-4"), (10**5, "0.3"), (10**7, "1e-3")])
def test_floating_point_decides_only_where_it_can(comparisons: int, far: str):
    """At its rank and one further on, the condition by 60 digits is what floating point says."""
    rank = independent_rank(comparisons, far, "confident")
    assert float(_binomial_sum(rank, comparisons, Fraction(far))) <= 0.05
    assert float(_binomial_sum(rank + 1, comparisons, Fraction(far))) > 0.05
    assert _rarely_fewer(rank, comparisons, Fraction(far), CHANCE)
    assert not _rarely_fewer(rank + 1, comparisons, Fraction(far), CHANCE)


@pytest.mark.parametrize("guarantee", ["expected", "confident"])
@pytest.mark.parametrize("far", ["0.9", "0.5", "0.3", "0.1", "1e-2", "3e-3", "1e-3", "1e-4", "1e-5", "1e-6", "1e-9"])
def test_the_number_needed_is_the_fewest(far: str, guarantee: str):
    needed = comparisons_needed(far, guarantee)
    assert independent_rank(needed, far, guarantee) >= 1
    assert needed == 1 or independent_rank(needed - 1, far, guarantee) == 0
    assert people_needed(far, guarantee) == 2 * needed


def test_numbers_needed_are_those_of_the_design():
    assert [comparisons_needed("1e-3", kind) for kind in ("expected", "confident")] == [999, 2995]
    assert [comparisons_needed("1e-4", kind) for kind in ("expected", "confident")] == [9999, 29956]


@pytest.mark.parametrize("guarantee", ["expected", "confident"])
def test_the_lowest_far_is_reached_and_hardly_lower(guarantee: str):
    for comparisons in (1, 2, 5, 9, 99, 100, 299, 999, 2874, 31_415):
        lowest = lowest_far(comparisons, guarantee)
        assert lowest is not None
        assert independent_rank(comparisons, lowest, guarantee) >= 1
        assert independent_rank(comparisons, 0.98 * float(lowest), guarantee) == 0
    assert lowest_far(0, guarantee) is None


@pytest.mark.parametrize("far", ["0", "1", "1e-13"])
def test_some_rates_nothing_can_promise(far: str):
    for ask in (lambda: independent_rank(10, far, "expected"), lambda: comparisons_needed(far, "approximate")):
        with pytest.raises(ValueError, match="needs a FAR of at least 1e-12 and below 1, got '" + far):
            ask()
    with pytest.raises(ValueError, match="must be expected or confident"):
        independent_rank(10, "0.1", "approximate")


# ---- what a single calibration of `expected` does


@pytest.mark.parametrize(
    ("comparisons", "far", "share"),
    [
        (1, "0.5", 0.5),  # rank 1: the FAR is uniform
        (2, "0.4", 0.36),  # rank 1: 0.6 ** 2
        (99, "1e-2", 0.37),  # rank 1: 0.99 ** 99 = 0.3697
        (198, "1e-2", 0.14),  # rank 1, the last before rank 2: 0.99 ** 198 = 0.1367
        (199, "1e-2", 0.41),  # rank 2: 0.99 ** 199 + 199 * 0.01 * 0.99 ** 198 = 0.4074
        (499, "1e-2", 0.45),  # this and the next three as in docs/shipping.md
        (999, "1e-2", 0.46),
        (2995, "1e-2", 0.41),
        (99_999, "1e-2", 0.5),
        (9999, "1e-4", 0.37),
    ],
)
def test_how_often_expected_lies_above_its_target_by_hand(comparisons: int, far: str, share: float):
    assert share_above(comparisons, far) == share


@pytest.mark.parametrize("far", ["0.1", "1e-2"])
def test_with_many_comparisons_expected_lies_above_in_half_of_all_calibrations_at_most(far: str):
    """Where f (n + 1) is whole, so that the mean FAR is the target, the share rises with n and stays below a half."""
    wholes = [share_above(round(times / float(far)) - 1, far) for times in (1, 2, 5, 20, 100, 1000)]
    assert wholes == sorted(wholes)
    assert 0.34 < wholes[0] < wholes[-1] <= 0.5


# ---- what can be claimed at all


@pytest.mark.parametrize(
    ("people", "far", "limit"),
    [
        (2, "0.5", 0.5),
        (4, "0.5", 0.75),
        (5, "0.5", 0.75),  # the fifth makes no further comparison that shares nobody
        (60, "1e-2", 0.26),  # 0.99 ** 30 = 0.7397
        (137, "1e-2", 0.49),  # 0.99 ** 68 = 0.5049
        (138, "1e-2", 0.5),  # 0.99 ** 69 = 0.4998
        (200, "1e-2", 0.63),  # 0.99 ** 100 = 0.3660
        (142, "1e-4", 0.0),
        (10**6, "1e-2", 0.95),  # more is never claimed: the quantile does not aim at more
    ],
)
def test_the_limit_of_confidence_by_hand(people: int, far: str, limit: float):
    assert confidence_limit(people, far) == limit


@pytest.mark.parametrize("far", ["0.1", "1e-2", "3e-3", "1e-3", "1e-4", "1e-5"])
def test_approximate_needs_the_fewest_people_whose_limit_is_one_half(far: str):
    people = people_needed(far, "approximate")
    assert confidence_limit(people, far) >= 0.5
    assert people == 50 or (1 - Fraction(far)) ** ((people - 1) // 2) > Fraction(1, 2)
    assert [people_needed(rate, "approximate") for rate in ("0.1", "1e-2", "1e-3", "1e-4")] == [50, 138, 1386, 13_864]


def test_where_confident_is_refused_the_limit_is_below_what_it_promises():
    for people in (50, 299, 596, 597):
        assert independent_rank(people // 2, "1e-2", "confident") == 0
        assert confidence_limit(people, "1e-2") < 0.95
    assert independent_rank(299, "1e-2", "confident") == 1
    assert confidence_limit(598, "1e-2") == 0.95


# ---- what a refusal says


@pytest.mark.parametrize(
    ("people", "far", "message"),
    [
        (
            20,
            "0.5",
            "needs 50 people; got 20 people; possible: 'confident' at FAR 0.259 or higher, "
            "'expected' at FAR 9.10e-2 or higher, 'approximate' only with 50 people or more",
        ),
        (
            60,
            "1e-2",
            "needs 138 people; got 60 people; possible: 'confident' at FAR 9.51e-2 or higher, "
            "'expected' at FAR 3.23e-2 or higher, 'approximate' at FAR 2.29e-2 or higher (at FAR 1e-2 its confidence "
            "would be at most 26 %, and 50 % is the least)",
        ),
        (
            1,
            "0.5",
            "got 1 person; possible: 'approximate' only with 50 people or more",
        ),
    ],
)
def test_too_few_to_redraw_are_told_what_helps(people: int, far: str, message: str):
    assert too_few(far, "approximate", people // 2, people).endswith(message)


def test_one_comparison_is_in_the_singular():
    said = too_few("1e-2", "confident", 1, 2)
    assert "got 2 people (1 comparison); possible: 'confident' at FAR 0.950 or higher" in said


def test_the_far_that_a_refusal_names_is_not_refused():
    for people in (50, 60, 99, 137, 1000):
        lowest = lowest_far(people // 2, "approximate")
        assert lowest is not None
        assert people_needed(lowest, "approximate") <= people
        assert confidence_limit(people, lowest) >= 0.5
