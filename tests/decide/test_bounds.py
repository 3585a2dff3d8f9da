"""Bounds of a mean against SciPy's; those of a rate are in the oracles, but for counts that SciPy gets wrong."""

from math import inf, isnan, nan

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from verisphere.decide import mean_bounds
from verisphere.decide.bounds import binomial_bounds


@given(
    st.lists(
        st.integers(-9999, 9999).map(lambda ten_thousandths: ten_thousandths / 1e4), min_size=2, max_size=8, unique=True
    ),
    st.floats(0.5, 0.99),
)
def test_the_mean_is_bounded_as_scipy_does(values, confidence):
    expected = scipy.stats.t.interval(confidence, len(values) - 1, sum(values) / len(values), scipy.stats.sem(values))
    assert mean_bounds(values, confidence) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_alike_values_leave_no_room():
    assert mean_bounds([0.25, 0.25]) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, inf], [0.5, nan]])
def test_what_has_no_bounds(values):
    assert all(isnan(end) for end in mean_bounds(values))


@pytest.mark.parametrize("confidence", [0.0, 1.0, nan])
def test_a_confidence_is_a_share(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1, got"):
        mean_bounds([0.1, 0.2], confidence)


@pytest.mark.parametrize(("accepted", "side"), [(1000, 0), (999, 1)])
@pytest.mark.parametrize("total", [10**9, 3_530_000_000, 4 * 10**11])
def test_bounds_of_a_thousand_of_billions(accepted, side, total):
    # scipy's inverse is wrong for exactly these counts. Of so many comparisons the count is as good as Poisson's, whose
    # bounds are half the 2.5 % quantile of chi-squared with 2,000 degrees, and half its 97.5 % quantile: 938.973 and
    # 1062.92 (scipy.stats.chi2, which is computed otherwise).
    bounds = binomial_bounds(accepted, total)
    assert bounds[0] < accepted / total < bounds[1]
    assert bounds[side] * total == pytest.approx((938.9730, 1062.9206)[side], rel=2e-6)
