"""What the noise of a reward does to the choice of the best candidate."""

import numpy as np
import pytest

from verisphere.study.search.reward import Measured, spread, too_high


def candidates(rewards: list[float], noise: float, redrawings: int = 20_000) -> list[Measured | None]:
    errors = np.random.default_rng(0).normal(0.0, noise, (len(rewards), redrawings))
    return [Measured(reward, reward + error) for reward, error in zip(rewards, errors, strict=True)]


@pytest.mark.parametrize(("count", "expected"), [(2, 0.5642), (4, 1.0294), (8, 1.4236)])
def test_the_best_of_equal_candidates_is_too_high_by_the_expected_largest_of_as_many_normal_numbers(count, expected):
    found = too_high(candidates([0.7] * count, noise=0.01))
    assert found == pytest.approx(0.01 * expected, rel=0.03)


def test_a_candidate_that_is_far_ahead_is_not_too_high():
    assert too_high(candidates([0.9, 0.5, 0.5], noise=0.01)) == pytest.approx(0.0, abs=3e-4)


def test_without_a_choice_nothing_is_too_high():
    assert too_high(candidates([0.9], noise=0.1)) == 0.0
    assert too_high([None, *candidates([0.9], noise=0.1)]) == 0.0
    nowhere = Measured(0.5, np.full(5, np.nan))
    assert too_high([nowhere, nowhere]) == 0.0


def test_the_spread_is_the_deviation_over_the_redrawings_that_have_the_figure():
    assert spread(Measured(0.5, np.array([0.4, np.nan, 0.6]))) == pytest.approx(0.1)
    assert spread(Measured(0.5, np.array([np.nan]))) is None
    assert spread(None) is None
