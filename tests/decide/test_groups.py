"""Differences of groups at one threshold: values by hand, what is undefined and why, bounds that hold."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from verisphere.decide import (
    GroupCounts,
    GroupDifferences,
    Measure,
    binomial_bounds,
    differences_of,
    group_differences,
    one_threshold,
    with_redrawn_bounds,
)
from verisphere.decide.group_figures import (
    MEASURES,
    Box,
    bounds_of,
    fairness_discrepancy_rate,
    garbe,
    gini,
    inequity_rate,
    max_over_geometric_mean,
    max_over_min,
    spread,
)


def counts(far: tuple[int, ...], frr: tuple[int, ...], total: int = 1000) -> dict[str, GroupCounts]:
    return {
        name: GroupCounts(total - rejected, total, accepted, total)
        for name, accepted, rejected in zip("abcdefgh", far, frr, strict=False)
    }


def found(far: tuple[int, ...], frr: tuple[int, ...], alpha: float = 0.5) -> GroupDifferences:
    return group_differences(counts(far, frr), 0.4, "1e-3", alpha=alpha)


# --- values ---


def test_differentials_by_hand():
    ratios = found((1, 2, 4), (100, 300, 0)).differentials
    assert [ratio.far_ratio for ratio in ratios.values()] == pytest.approx([0.5, 1, 2])  # the mean of 1, 2, 4 is 2
    assert [ratio.frr_ratio for ratio in ratios.values()] == [None] * 3  # c rejects nobody, so that mean is 0
    assert (ratios["b"].far, ratios["b"].frr) == (0.002, 0.3)


def test_figures_by_hand():
    far, frr = np.array([0.001, 0.002, 0.004]), np.array([0.10, 0.30, 0.20])
    assert max_over_min(far) == pytest.approx(4)
    assert max_over_geometric_mean(far) == pytest.approx(2)  # the geometric mean of 1, 2, 4 is 2
    assert spread(frr) == pytest.approx(0.2)
    # sum over ordered pairs |x_i - x_j| = 2 (1 + 3 + 2) e-3; n / (n - 1) / (2 n^2 mean) = 1 / (2 * 3 * 2 * 7e-3 / 3)
    assert gini(far) == pytest.approx(12 / 28)
    assert gini(frr) == pytest.approx(2 * (0.2 + 0.1 + 0.1) / (12 * 0.2))
    assert fairness_discrepancy_rate(far, frr, 0.5) == pytest.approx(1 - 0.5 * 0.003 - 0.5 * 0.2)
    assert inequity_rate(far, frr, 0.5) == pytest.approx(math.sqrt(4 * 3))
    assert garbe(far, frr, 0.25) == pytest.approx(0.25 * 12 / 28 + 0.75 / 3)


def test_gini_is_the_double_sum():
    rates = np.random.default_rng(0).random((50, 6))
    double = np.abs(rates[:, :, None] - rates[:, None, :]).sum((1, 2))
    assert gini(rates) == pytest.approx(6 / 5 * double / (2 * 36 * rates.mean(1)))


def test_equal_groups_do_not_differ():
    same = found((5, 5, 5), (20, 20, 20))
    for name in ("far_max_min", "far_max_geometric_mean", "frr_max_min", "inequity_rate", "fdr"):
        assert getattr(same, name).value == pytest.approx(1)
        assert getattr(same, name).value >= (1 if name != "fdr" else 0)
    assert same.garbe.value == 0


def test_one_group_with_every_error():
    rates = np.array([0.0, 0.0, 0.2, 0.0])
    assert gini(rates) == pytest.approx(1)
    assert garbe(rates, rates, 0.3) == pytest.approx(1)


@pytest.mark.parametrize("name", MEASURES)
def test_names_of_groups_and_their_order_do_not_matter(name: str):
    far, frr = (3, 7, 12, 1), (50, 20, 80, 30)
    turned = found(far[::-1], frr[::-1])
    for field in ("value", "lower_95", "upper_95"):
        assert getattr(getattr(found(far, frr), name), field) == pytest.approx(getattr(getattr(turned, name), field))


def test_alpha_weighs_far_against_frr():
    far, frr = (2, 8), (100, 300)
    assert found(far, frr, 1.0).inequity_rate.value == pytest.approx(4)
    assert found(far, frr, 0.0).inequity_rate.value == pytest.approx(3)
    assert found(far, frr, 1.0).fdr.value == pytest.approx(1 - 0.006)
    assert found(far, frr, 0.0).fdr.value == pytest.approx(1 - 0.2)
    assert found(far, frr, 1.0).garbe.value == pytest.approx(2 * 6 / (4 * 5))
    assert found(far, frr, 0.25).alpha == 0.25


# --- undefined ---


def test_a_group_without_a_false_accept_leaves_ratios_undefined():
    none = found((0, 4, 2), (100, 50, 20))
    for measure in (none.far_max_min, none.far_max_geometric_mean, none.inequity_rate):
        assert (measure.value, measure.undefined, measure.upper_95) == (None, "no false accept in a", None)
        assert measure.bounds == "binomial"
    # the ratio is at least 1 in any case; more where the bounds lie apart
    assert none.far_max_min.lower_95 == 1
    assert none.frr_max_min.value == pytest.approx(5)
    assert none.fdr.value == pytest.approx(1 - 0.5 * 0.004 - 0.5 * 0.08)
    assert none.garbe.value is not None


def test_what_can_be_said_of_an_undefined_ratio_is_its_bound():
    none = group_differences({"a": GroupCounts(9, 10, 0, 10_000), "b": GroupCounts(9, 10, 100, 10_000)}, 0.4, "1e-3")
    # four rates, each at 1 - 0.05 / 4
    low = binomial_bounds(100, 10_000, 1 - 0.05 / 4)[0]
    high = binomial_bounds(0, 10_000, 1 - 0.05 / 4)[1]
    assert none.far_max_min.lower_95 == pytest.approx(low / high)
    assert none.far_max_min.lower_95 > 10
    assert none.far_max_geometric_mean.lower_95 == pytest.approx(math.sqrt(low / high))


def test_zeros_of_both_kinds_and_of_every_group():
    both = found((0, 4), (30, 0))
    assert both.inequity_rate.undefined == "no false accept in a; no false reject in b"
    assert both.frr_max_min.undefined == "no false reject in b"
    every = found((0, 0), (30, 10))
    assert every.far_max_min.undefined == "no false accept in any group"
    assert every.garbe.undefined == "no false accept in any group"
    assert every.fdr.value == pytest.approx(1 - 0.5 * 0.02)


def test_a_rate_without_weight_makes_nothing_undefined():
    assert found((0, 4), (30, 10), alpha=0.0).inequity_rate.value == pytest.approx(3)
    assert found((0, 0), (30, 10), alpha=0.0).garbe.value == pytest.approx(2 * 20 / (4 * 20))
    assert found((0, 0), (30, 10), alpha=0.0).far_max_min.undefined == "no false accept in any group"


def test_one_group_alone_has_nothing_to_differ_from():
    alone = found((3,), (20,))
    for measure in alone.measures.values():
        assert measure == Measure(None, "a alone has nothing to differ from", None, None, None)
    assert "one group alone" in alone.bounds


@pytest.mark.parametrize("alpha", [-0.1, 1.5, math.nan])
def test_alpha_is_a_share(alpha: float):
    with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
        found((1, 2), (3, 4), alpha)


def test_no_group():
    with pytest.raises(ValueError, match="differences need groups, got none"):
        group_differences({}, 0.4, "1e-3")


@pytest.mark.parametrize("wrong", [(5, 4, 1, 10), (0, 0, 1, 10), (1, 10, -1, 10), (1, 10, 11, 10)])
def test_counts_that_cannot_be(wrong: tuple[int, int, int, int]):
    with pytest.raises(ValueError, match="comparisons cannot be: 0 <= accepted <= total with total >= 1"):
        GroupCounts(*wrong)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ((None, None, None, None, None), "a value or a reason"),
        ((1.0, "none", None, None, None), "a value or a reason"),
        ((math.inf, None, None, None, None), "finite or undefined"),
        ((1.0, None, math.nan, None, None), "finite or undefined"),
    ],
)
def test_a_figure_is_a_number_or_says_why_not(fields: tuple, says: str):
    with pytest.raises(ValueError, match=says):
        Measure(*fields)


# --- bounds ---


def test_bounds_hold_every_set_of_rates_within_them():
    random = np.random.default_rng(0)
    for _ in range(200):
        groups = int(random.integers(2, 6))
        ends = [np.sort(random.random((2, groups)) ** 3, 0) for _ in range(2)]
        if random.random() < 0.3:
            ends[0][0, 0] = 0
        alpha = float(random.choice([0.0, 0.3, 0.5, 1.0]))
        bounds = bounds_of(Box(*ends[0]), Box(*ends[1]), alpha)
        inside = [low + random.random((300, groups)).round() * (high - low) for low, high in ends]  # corners
        inside = [np.concatenate([corner, low + random.random((300, groups)) * (high - low)])
                  for corner, (low, high) in zip(inside, ends, strict=True)]  # fmt: skip
        for name, measure in MEASURES.items():
            values = measure(*inside, alpha)
            lower, upper = bounds[name]
            assert (values >= lower * (1 - 1e-9) - 1e-12).all(), name
            assert (values <= upper * (1 + 1e-9) + 1e-12).all(), name


def test_bounds_of_ratios_and_differences_are_reached():
    far, frr = Box(np.array([0.1, 0.4]), np.array([0.2, 0.5])), Box(np.array([0.1, 0.2]), np.array([0.3, 0.4]))
    bounds = bounds_of(far, frr, 0.5)
    assert bounds["far_max_min"] == pytest.approx((0.4 / 0.2, 0.5 / 0.1))
    assert bounds["far_max_geometric_mean"] == pytest.approx((math.sqrt(2), math.sqrt(5)))
    assert bounds["frr_max_min"] == pytest.approx((1, 0.4 / 0.1))  # 0.2 to 0.3 is common to both
    assert bounds["inequity_rate"] == pytest.approx((math.sqrt(2), math.sqrt(20)))
    assert bounds["fdr"] == pytest.approx((1 - 0.5 * 0.4 - 0.5 * 0.3, 1 - 0.5 * 0.2))


def test_joint_bounds_hold_in_nineteen_of_twenty_sets():
    """Four groups with known rates, 300 times: every figure's true value lies in its bounds in 95 % or more."""
    random = np.random.default_rng(1)
    far, frr = np.array([0.01, 0.02, 0.03, 0.02]), np.array([0.1, 0.2, 0.1, 0.3])
    truth = {name: float(measure(far, frr, 0.5)) for name, measure in MEASURES.items()}
    held = dict.fromkeys(MEASURES, 0)
    for _ in range(300):
        drawn = found(tuple(random.binomial(1000, far).tolist()), tuple(random.binomial(1000, frr).tolist()))
        for name, measure in drawn.measures.items():
            lower = -math.inf if measure.lower_95 is None else measure.lower_95
            upper = math.inf if measure.upper_95 is None else measure.upper_95
            held[name] += lower <= truth[name] <= upper
    assert min(held.values()) >= 0.95 * 300


def test_bounds_over_redrawn_people():
    binomial = found((2, 8), (100, 300))
    random = np.random.default_rng(2)
    far, tar = random.uniform(0.001, 0.01, (2, 400)), random.uniform(0.6, 0.9, (2, 400))
    redrawn = with_redrawn_bounds(binomial, far, tar, people=77)
    ratios = np.sort(far.max(0) / far.min(0))
    assert redrawn.far_max_min.value == binomial.far_max_min.value
    assert redrawn.far_max_min.bounds == "bootstrap"
    # 400 replicates: places 0.025 * 399 = 9.975 and 389.025 of 0 to 399, the outer whole ones
    assert (redrawn.far_max_min.lower_95, redrawn.far_max_min.upper_95) == (ratios[9], ratios[390])
    assert "400 redrawings of 77 people" in redrawn.bounds


def test_undefined_figures_keep_their_binomial_bounds_and_infinite_ones_have_none():
    none = found((0, 8), (100, 300))
    far = np.stack([np.zeros(50), np.full(50, 0.01)])
    tar = np.full((2, 50), 0.8)
    redrawn = with_redrawn_bounds(none, far, tar, people=9)
    assert redrawn.far_max_min == none.far_max_min
    assert redrawn.fdr.bounds == "bootstrap"
    # a group that loses its only false accept in some replicates: the ratio has no upper bound
    some = found((1, 8), (100, 300))
    far[0, 10:] = 0.001
    redrawn = with_redrawn_bounds(some, far, tar, people=9)
    assert (redrawn.far_max_min.lower_95, redrawn.far_max_min.upper_95) == (pytest.approx(10), None)
    # no replicate has both groups
    assert with_redrawn_bounds(some, np.full((2, 5), np.nan), tar[:, :5], people=9) == some


# --- from results ---


def test_domains_of_one_threshold():
    domains = {"day": ([0.9, 0.7], [0.6, 0.5, 0.1, 0.0]), "night": ([0.55, 0.2], [0.45, 0.3])}
    result = one_threshold(domains, far="0.34")  # k = floor(0.34 * 6) = 2: 0.45; day accepts two of four, night none
    apart = differences_of(result, alpha=0.5)
    assert (apart.threshold, apart.far_target, apart.rule, apart.groups) == (0.45, "0.34", "at_most", ("day", "night"))
    assert apart.far_max_min.undefined == "no false accept in night"
    assert apart.frr_max_min.undefined == "no false reject in day"
    assert apart.fdr.value == pytest.approx(1 - 0.5 * 0.5 - 0.5 * 0.5)


def test_anything_with_the_four_counts_will_do():
    group = SimpleNamespace(genuine_accepted=9, genuine_total=10, impostor_accepted=1, impostor_total=10)
    other = SimpleNamespace(genuine_accepted=9, genuine_total=10, impostor_accepted=2, impostor_total=10)
    assert group_differences({"a": group, "b": other}, 0.5, "0.1").far_max_min.value == pytest.approx(2)
