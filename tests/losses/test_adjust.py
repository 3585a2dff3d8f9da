"""The similarity adjustment g: values by hand, gradient, and that t = 1 is nothing."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from verisphere.losses.adjust import adjusted, checked_adjustment


@pytest.mark.parametrize(
    ("cosine", "t", "expected"),
    [
        (0.5, 3.0, -0.15625),  # 2 * 0.421875 - 1
        (0.0, 3.0, -0.75),
        (0.0, 2.0, -0.5),
        (-0.5, 3.0, -0.96875),  # 2 / 64 - 1
        (1.0, 7.0, 1.0),
        (-1.0, 7.0, -1.0),
        (-0.5, 0.5, 0.0),  # 2 * sqrt(0.25) - 1
        (-1.0, 0.3, -1.0),  # the value is g where the slope is clamped
        (-1.0 + 2**-11, 0.5, -0.96875),  # 2 * sqrt(2**-12) - 1
    ],
)
def test_value(cosine, t, expected):
    assert adjusted(torch.tensor(cosine, dtype=torch.float64), t).item() == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("t", [0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0])
def test_gradcheck(t):
    inputs = torch.linspace(-0.95, 0.95, 9, dtype=torch.float64).requires_grad_()
    assert gradcheck(lambda cosine: adjusted(cosine, t), inputs)


def test_slope_at_60_degrees():
    inputs = torch.tensor(0.5, requires_grad=True)
    adjusted(inputs, 3.0).backward()
    assert inputs.grad.item() == pytest.approx(1.6875)  # 3 * 0.75**2


@pytest.mark.parametrize(
    ("cosine", "slope"),
    [
        (-0.92, 2.5),  # 0.5 / sqrt(0.04)
        (-0.998 + 1e-9, 15.8113883),  # 0.5 / sqrt(0.001): the steepest
        (-0.9999, 15.8113883),
        (-1.0, 15.8113883),
    ],
)
def test_below_1_the_slope_is_clamped_from_cosine_minus_0_998_on(cosine, slope):
    inputs = torch.tensor(cosine, dtype=torch.float64, requires_grad=True)
    adjusted(inputs, 0.5).backward()
    assert inputs.grad.item() == pytest.approx(slope, rel=1e-6)


def test_no_adjustment_is_the_cosine_itself():
    cosine = torch.linspace(-1.1, 1.1, 7)
    assert adjusted(cosine, 1.0) is cosine


@pytest.mark.parametrize("t", [0.3, 1.2, 2.0, 3.0, 10.0])
def test_it_rises_and_stays_within_the_cosines(t):
    values = adjusted(torch.linspace(-1, 1, 1001, dtype=torch.float64), t)
    assert (values.diff() >= 0).all()
    assert (values[0].item(), values[-1].item()) == (-1.0, 1.0)


@pytest.mark.parametrize("t", [0.3, 1.0, 1.01, 2.5, 3.0])
def test_value_and_gradient_are_finite_past_the_ends(t):
    ends = torch.tensor([-1.0, -1.0 - 3e-7, 1.0, 1.0 + 3e-7], requires_grad=True)
    out = adjusted(ends, t)
    out.sum().backward()
    assert out.isfinite().all()
    assert ends.grad.isfinite().all()


@pytest.mark.parametrize("t", [0.0, -3.0, math.inf, math.nan])
def test_an_exponent_that_is_no_positive_number_is_refused(t):
    with pytest.raises(ValueError, match=f"^t is {t}; the similarity adjustment takes a finite number > 0"):
        checked_adjustment(t)


def test_a_usable_exponent_is_given_back():
    assert checked_adjustment(3.0) == 3.0
