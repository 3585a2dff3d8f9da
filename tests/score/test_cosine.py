"""Unit rows, cosines and angles, with values worked out by hand."""

import inspect
import math

import pytest
import torch
from torch.autograd import gradcheck

from verisphere.score.cosine import SINE_FLOOR, angle, cosine, unit


def test_unit_row_by_hand():
    # 3-4-5 triangle, and the same row a million times longer
    rows = unit(torch.tensor([[3.0, 4.0], [3e6, -4e6]]))
    torch.testing.assert_close(rows, torch.tensor([[0.6, 0.8], [0.6, -0.8]]))


def test_zero_row_stays_zero_and_receives_no_gradient():
    rows = torch.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True)
    out = unit(rows)
    out.backward(torch.tensor([[5.0, 7.0], [0.0, 3.0]]))
    assert out.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    assert rows.grad.tolist() == [[0.0, 0.0], [0.0, 3.0]]


def test_unit_gradient():
    rows = torch.randn(4, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert gradcheck(unit, rows)
    # a unit row cannot change by changing the length
    unit(rows).square().sum().backward()
    assert rows.grad.abs().max() < 1e-12


def test_cosine_by_hand():
    left = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    right = torch.tensor([[1.0, math.sqrt(3.0)], [-3.0, 0.0], [1.0, 1.0]])
    assert cosine(left, right).tolist() == pytest.approx([0.5, -1.0, 0.0])


def test_angle_by_hand():
    degrees = torch.rad2deg(angle(torch.tensor([1.0, math.sqrt(3) / 2, 0.5, 0.0, -0.5, -1.0], dtype=torch.float64)))
    assert degrees.tolist() == pytest.approx([0.0, 30.0, 60.0, 90.0, 120.0, 180.0])


def test_angle_is_exact_at_the_ends_and_past_them():
    past = torch.tensor([1.0, 1.0 + 1e-6, -1.0, -1.0 - 1e-6])
    assert angle(past).tolist() == pytest.approx([0.0, 0.0, math.pi, math.pi], abs=1e-7)


def test_angle_gradient_by_hand():
    cosines = torch.tensor([0.5, 1.0, -1.0, 1.0 + 1e-6], requires_grad=True)
    angle(cosines).sum().backward()
    # -1 / sin(60 degrees), then the floor at both ends
    assert cosines.grad.tolist() == pytest.approx([-1.1547005, -1000.0, -1000.0, -1000.0])
    assert SINE_FLOOR == 1e-3


def test_angle_gradcheck_away_from_the_ends():
    assert gradcheck(angle, torch.linspace(-0.99, 0.99, 41, dtype=torch.float64).requires_grad_())


def test_angle_has_one_gradient_under_autograd_and_func():
    cosines = torch.tensor([-1.0, -0.3, 0.5, 1.0])
    value, vjp = torch.func.vjp(angle, cosines)
    (by_func,) = vjp(torch.ones(4))
    tracked = cosines.clone().requires_grad_()
    angle(tracked).sum().backward()
    assert torch.equal(value, angle(cosines))
    assert torch.equal(by_func, tracked.grad)


def test_angle_compiles_to_one_graph():
    # unwrapped: what is compiled stays outside the shape checks; this backend needs no C++ compiler
    compiled = torch.compile(inspect.unwrap(angle), fullgraph=True, backend="aot_eager")
    cosines = torch.tensor([-1.0, -0.3, 0.5, 1.0], requires_grad=True)
    value = compiled(cosines)
    value.sum().backward()
    torch.testing.assert_close(value, angle(cosines))
    torch.testing.assert_close(
        cosines.grad, torch.tensor([-1000.0, -1 / math.sqrt(0.91), -1 / math.sqrt(0.75), -1000.0])
    )


def test_nan_stays_nan():
    assert angle(torch.tensor([math.nan])).isnan().all()
    assert unit(torch.tensor([[math.nan, 1.0]])).isnan().all()
