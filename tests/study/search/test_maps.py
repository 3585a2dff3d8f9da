"""Maps from draws to values: ends, inverses, the paper's range."""

from math import exp, log

import numpy as np
import pytest

from verisphere.study.search import Linear, Logarithmic, ModulatingFactor

DRAWS = np.linspace(0, 1, 11).tolist()


@pytest.mark.parametrize("of_field", [Linear(-1.0, 3.0), Logarithmic(0.01, 100.0), ModulatingFactor(16.0)])
def test_draw_is_the_inverse_of_value(of_field):
    for draw in DRAWS:
        assert of_field.draw(of_field.value(draw)) == pytest.approx(draw, abs=1e-12)


@pytest.mark.parametrize("of_field", [Linear(0.1, 0.7), Logarithmic(0.1, 0.7)])
def test_draws_outside_have_the_nearer_end(of_field):
    assert [of_field.value(draw) for draw in (-5.0, -0.2, 0.0)] == [0.1] * 3
    assert [of_field.value(draw) for draw in (1.0, 1.4, 30.0)] == pytest.approx([0.7] * 3, rel=1e-15)
    assert max(of_field.value(draw) for draw in (1.0, 1.4, 30.0)) <= 0.7


def test_middle_by_hand():
    assert Linear(-1.0, 3.0).value(0.25) == 0.0
    assert Logarithmic(0.01, 100.0).value(0.75) == pytest.approx(10.0)


def test_starts():
    assert Linear(0.0, 2.0).start == 0.5
    assert Linear(0.0, 2.0, start=0.5).start == 0.25
    assert Logarithmic(0.01, 100.0).start == 0.5
    assert Logarithmic(0.01, 100.0, start=10.0).start == pytest.approx(0.75)
    assert ModulatingFactor().start == 1.0  # as the paper's released implementation has it


def test_equal_ends_are_a_control():
    for of_field in (Linear(0.3, 0.3), Logarithmic(0.3, 0.3, start=0.3)):
        assert of_field.start == 0.5
        assert {of_field.value(draw) for draw in (-1.0, 0.0, 0.4, 2.0)} == {0.3}
        assert of_field.varied(0.5, 1.2) == 0.5


def test_whole_numbers():
    of_field = Linear(1.0, 5.0, whole=True)
    values = [of_field.value(draw) for draw in np.linspace(-0.5, 1.5, 201).tolist()]
    assert set(values) == {1, 2, 3, 4, 5}
    assert {type(value) for value in values} == {int}


def test_a_varied_draw_has_a_multiple_of_the_value():
    assert Linear(0.0, 1.0).varied(0.5, 1.2) == pytest.approx(0.6)
    assert Linear(-1.0, 1.0).varied(0.25, 1.2) == pytest.approx(0.2)  # -0.5 to -0.6
    assert Logarithmic(0.01, 1.0).varied(0.5, 1.2) == pytest.approx(log(12) / log(100))  # 0.1 to 0.12
    assert abs(ModulatingFactor(16.0).varied(-1.0, 0.8)) == pytest.approx(0.8)


def test_a_varied_draw_stays_in_the_range():
    for of_field in (Linear(0.1, 0.5), Logarithmic(0.1, 0.5)):
        assert of_field.varied(1.4, 1.2) == 1.0  # the value of 1.4 is the upper end already
        assert of_field.varied(1.0, 0.8) < 1.0  # and it comes back from there at once
        assert of_field.varied(0.0, 0.8) == 0.0


def test_a_varied_whole_number_moves_after_some_steps():
    of_field = Linear(1.0, 9.0, whole=True)
    draw, values = of_field.draw(2), []
    for _ in range(4):
        draw = of_field.varied(draw, 1.2)
        values.append(of_field.value(draw))
    assert values == [2, 3, 3, 4]  # 2.4, 2.88, 3.456, 4.1472


@pytest.mark.parametrize("scale", [8.0, 16.0, 30.0, 32.0, 64.0])
def test_a_draw_of_one_is_a_margin_of_just_above_a_third(scale):
    of_field = ModulatingFactor(scale)
    margin = of_field.readable(of_field.value(1.0))["margin"]
    assert margin == pytest.approx(log(1 + exp(scale / 3)) / scale)
    assert 1 / 3 < margin < 1 / 3 + 0.0085
    assert of_field.value(-1.0) == of_field.value(1.0)


@pytest.mark.parametrize(
    ("factor", "margin"),  # log(1 - a) / 32: log 2, 11, 101, 1001, 10001
    [(0.0, 0.0), (-1.0, 0.021661), (-10.0, 0.074934), (-100.0, 0.144223), (-1000.0, 0.215898), (-10000.0, 0.287827)],
)
def test_the_factors_of_table_3(factor, margin):
    of_field = ModulatingFactor(32.0)
    draw = of_field.draw(factor)
    assert 0 <= draw < 0.234  # all of table 3 lies below a quarter of the start
    assert of_field.value(draw) == pytest.approx(factor, abs=1e-12)
    assert of_field.readable(factor)["margin"] == pytest.approx(margin, abs=1e-6)


def test_a_readable_value_is_itself():
    assert Linear(0.0, 1.0).readable(0.3) == {"value": 0.3}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Linear(1.0, 0.0), "low is 1.0 and high 0.0; they must be finite numbers in this order"),
        (lambda: Linear(0.0, float("inf")), "low is 0.0 and high inf; they must be finite"),
        (lambda: Linear(0.0, 1.0, start=1.5), r"start is 1.5; it must lie in \[0.0, 1.0\]"),
        (lambda: Linear(0.0, 1.0, start=float("nan")), r"start is nan; it must lie in \[0.0, 1.0\]"),
        (lambda: Linear(0.5, 3.0, whole=True), "low is 0.5 and high 3.0; with whole they must be whole numbers"),
        (lambda: Logarithmic(0.0, 1.0), "low is 0.0 and high 1.0; they must be finite numbers above 0"),
        (lambda: Logarithmic(0.1, 1.0, start=0.01), r"start is 0.01; it must lie in \[0.1, 1.0\]"),
        (lambda: ModulatingFactor(0.0), r"scale must lie in \(0, 2000\), got 0.0"),
        (lambda: ModulatingFactor(2500.0), r"scale must lie in \(0, 2000\), got 2500.0"),
        (lambda: ModulatingFactor(float("nan")), r"scale must lie in \(0, 2000\), got nan"),
        (lambda: ModulatingFactor(start=float("inf")), "start must be a finite number, got inf"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make()
