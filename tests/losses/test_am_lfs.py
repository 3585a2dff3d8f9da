"""AM-LFS: the piecewise map by hand, its limits and its tails."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from loss_rows import numbers
from verisphere.losses.am_lfs import AMLFS, piecewise_log

THREE = ((0.5, 0.8, 1.0), (0.1, 0.0, -0.15))


@pytest.mark.parametrize(
    ("p", "mapped"),
    [
        (0.2, 0.2),  # first third: 0.5 * 0.2 + 0.1
        (0.5, 0.4),  # second: 0.8 * 0.5
        (0.9, 0.75),  # third: 0.9 - 0.15
    ],
)
def test_value_by_hand(p, mapped):
    own = numbers(math.log(p / (1 - p)))
    value = piecewise_log(own, numbers(0.0), numbers(*THREE[0]), numbers(*THREE[1]))
    assert value.item() == pytest.approx(-math.log(mapped))
    assert AMLFS(*THREE).finish(own, numbers(0.0)).item() == pytest.approx(-math.log(mapped), rel=1e-6)


def test_gradient_is_the_slope_of_the_bin():
    # p = 0.2: d(-log(0.5 p + 0.1)) / d own = -0.5 * p (1 - p) / 0.2 = -0.4
    own = numbers(math.log(0.25)).requires_grad_()
    piecewise_log(own, numbers(0.0), numbers(*THREE[0]), numbers(*THREE[1])).backward()
    assert own.grad.item() == pytest.approx(-0.4)


def test_gradcheck():
    own = numbers(-4, -2, -0.2, 0.4, 1.2, 5).requires_grad_()  # away from the borders at p = 1/3 and 2/3
    rest = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda o, r: piecewise_log(o, r, numbers(*THREE[0]), numbers(*THREE[1])), (own, rest))


@pytest.mark.parametrize("bins", [1, 4])
def test_identity_is_softmax(bins):
    own = torch.linspace(-60, 60, 121, dtype=torch.float64)
    ours, plain = own.clone().requires_grad_(), own.clone().requires_grad_()
    zero = torch.zeros_like(own)
    value = AMLFS((1.0,) * bins, (0.0,) * bins).finish(ours, zero)
    torch.testing.assert_close(value, F.softplus(-plain))
    value.sum().backward()
    F.softplus(-plain).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)


def test_tails_are_finite_in_float32():
    """p underflows at -200 and rounds to 1 at 200; a line through the origin keeps its gradient there."""
    for offset in (0.0, 0.1):
        own = torch.tensor([-200.0, 200.0], requires_grad=True)
        value = AMLFS((0.9, 0.8), (offset, 0.0)).finish(own, torch.zeros(2))
        value.sum().backward()
        assert value.isfinite().all()
        assert own.grad.isfinite().all()
        assert value[0].item() == pytest.approx(200 - math.log(0.9) if offset == 0 else -math.log(0.1))
        assert own.grad[0].item() == pytest.approx(-1.0 if offset == 0 else 0.0)


def test_no_other_class_leaves_the_last_bin_at_one():
    own, rest = torch.tensor([3.0], requires_grad=True), torch.tensor([-math.inf])
    value = AMLFS((1.0, 0.7), (0.0, 0.1)).finish(own, rest)
    value.backward()
    assert value.item() == pytest.approx(-math.log(0.8))
    assert own.grad.item() == 0


def test_a_diverged_probability_stays_nan():
    assert AMLFS(*THREE).finish(torch.tensor([math.nan]), torch.zeros(1)).isnan().all()


def test_settings_are_not_state():
    assert AMLFS(*THREE).state_dict() == {}
    assert "slopes=(0.5, 0.8, 1.0)" in repr(AMLFS(*THREE))
    assert AMLFS(scale=16.0).bound() == 16.0
