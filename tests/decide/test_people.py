"""Each person's error rates, their spread and OPIS, against numbers worked out by hand."""

import math

import numpy as np
import pytest

from verisphere.decide import PersonCounts, opis, people_at, spread_of

PEOPLE = ["Ann", "Ben", "Cy"]


def counts(**changed) -> PersonCounts:
    columns = {
        "genuine_accepted": np.array([3, 1, 0]),
        "genuine_total": np.array([4, 1, 0]),
        "impostor_accepted": np.array([1, 0, 3]),
        "impostor_total": np.array([10, 8, 6]),
    }
    return PersonCounts(PEOPLE, **(columns | changed))


def test_rates_of_each_person():
    assert counts().far.tolist() == [0.1, 0.0, 0.5]
    frr = counts().frr.tolist()
    assert frr[:2] == [0.25, 0.0]
    assert math.isnan(frr[2])  # Cy has no genuine comparison


def test_the_spread_of_both_rates():
    both = people_at(counts(), threshold=0.4, far_target="1e-1", rule="at_most")
    assert (both.far.people, both.far.without_errors, both.far.highest) == (3, 1, 0.5)
    assert both.far.mean == pytest.approx(0.2, rel=1e-15)  # (0.1 + 0 + 0.5) / 3
    assert both.far.std == pytest.approx(math.sqrt((0.1**2 + 0.2**2 + 0.3**2) / 3), rel=1e-15)
    # sum over ordered pairs of |x_i - x_j| is 2 (0.1 + 0.4 + 0.5) = 2; 3 / 2 * 2 / (2 * 9 * 0.2) = 5 / 6
    assert both.far.gini == pytest.approx(5 / 6, rel=1e-15)
    assert (both.far.worst_decile, both.far.worst_decile_rate, both.far.worst_decile_share) == (("Cy",), 0.5, 0.75)
    assert (both.frr.people, both.frr.worst_decile, both.frr.worst_decile_share) == (2, ("Ann",), 1.0)
    assert both.frr.mean == 0.125


def test_the_worst_decile_is_rounded_up_and_ordered_by_rate_then_name():
    names = [f"person {number:02}" for number in range(11)]
    errors = np.array([1, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0])
    spread = spread_of(names[::-1], errors, np.full(11, 4))
    assert spread.worst_decile == ("person 03", "person 07")  # a tenth of eleven is two
    assert (spread.worst_decile_rate, spread.worst_decile_share) == (0.5, 0.8)


def test_people_without_an_error_are_not_named():
    spread = spread_of(PEOPLE, np.zeros(3, np.int64), np.full(3, 5))
    assert (spread.worst_decile, spread.worst_decile_rate) == ((), 0)
    assert (spread.gini, spread.worst_decile_share) == (None, None)


def test_nobody_to_compare():
    with pytest.raises(ValueError, match="none of 3 people has such a comparison"):
        spread_of(PEOPLE, np.zeros(3, np.int64), np.zeros(3, np.int64))


def test_opis_by_hand():
    tar = np.array([[1.0, 0.5, 0.0], [1.0, 1.0, 1.0]])
    far = np.array([[0.0, 0.5, 0.0], [0.5, 0.5, 0.5]])
    # utilities at the first threshold: 1, 2 * 0.25 / 1 = 0.5, 0; mean 0.5, variance (0.25 + 0 + 0.25) / 3 = 1 / 6;
    # at the second all are alike
    assert opis(tar, far) == pytest.approx(1 / 12, rel=1e-15)
    assert opis(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])) == 0  # 0 / 0 counts as no utility
