"""AdaFace: margin and quality by hand, the running statistics, and its limits."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers
from verisphere.losses.adaface import AdaFace, quality, quality_margin
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import ArcFace, CosFace


def rows_of(length: torch.Tensor) -> Rows:
    return Rows(
        torch.zeros_like(length), length, torch.ones(len(length), 2, dtype=length.dtype), torch.arange(len(length))
    )


@pytest.mark.parametrize(
    ("q", "expected"),
    [
        (-1.0, 0.1232843),  # cos(1.0471976 + 0.4) - 0
        (-0.5, 0.1179806),  # cos(1.2471976) - 0.2
        (0.0, 0.1),  # 0.5 - 0.4
        (0.5, 0.0620860),  # cos(0.8471976) - 0.6
        (1.0, -0.0022233),  # cos(0.6471976) - 0.8
    ],
)
def test_margin_at_60_degrees(q, expected):
    value = quality_margin(numbers(0.5), numbers(q), 0.4).item()
    assert value == pytest.approx(expected, abs=5e-8)
    assert AdaFace(scale=64.0).own(numbers(0.5), numbers(q)).item() == pytest.approx(64 * expected, abs=5e-6)


def test_quality_by_hand():
    # mean 20, deviation 9.999 + 0.001: a deviation above is 0.333, three and more reach 1
    mean, std = torch.tensor(20.0, dtype=torch.float64), torch.tensor(9.999, dtype=torch.float64)
    lengths = numbers(20, 30, 15, 55, 0, 1000)
    assert quality(lengths, mean, std).tolist() == pytest.approx([0, 0.333, -0.1665, 1, -0.333 * 1.9999, 1])
    assert quality(lengths, mean, std, h=1.0).tolist() == pytest.approx([0, 1, -0.5, 1, -1, 1])


def test_no_gradient_through_quality():
    length = numbers(10, 30).requires_grad_()
    (q,) = AdaFace().context(rows_of(length))
    assert not q.requires_grad


@pytest.mark.parametrize("q", [-1.0, -0.3, 0.0, 0.7, 1.0])
def test_gradcheck(q):
    cosine = torch.tensor([math.cos(math.radians(d)) for d in (30, 60, 90, 120, 150)], dtype=torch.float64)
    row = torch.full((5,), q, dtype=torch.float64)
    assert gradcheck(lambda c: quality_margin(c, row, 0.4), cosine.requires_grad_())


def test_slope_at_60_degrees():
    cosine = numbers(0.5).requires_grad_()
    quality_margin(cosine, numbers(0.5), 0.4).backward()
    assert cosine.grad.item() == pytest.approx(0.8653648, abs=1e-7)  # sin(0.8471976) / sin(60 degrees)


def test_angle_is_clipped_and_flat_past_the_ends():
    # 10 degrees less 0.4 radians is below 0; 170 degrees and 0.4 radians are past 180
    near, far = (torch.tensor([math.cos(math.radians(d))], dtype=torch.float64).requires_grad_() for d in (10, 170))
    top, bottom = quality_margin(near, numbers(1.0), 0.4), quality_margin(far, numbers(-1.0), 0.4)
    (top + bottom).backward()
    assert (top.item(), bottom.item()) == (pytest.approx(1 - 0.8), pytest.approx(-1.0))
    assert near.grad.item() == far.grad.item() == 0


@pytest.mark.parametrize("q", [-1.0, -0.5, 0.0, 0.5, 1.0])
def test_own_logit_never_rises_with_the_angle(q):
    theta = torch.linspace(0, math.pi, 1001, dtype=torch.float64)
    assert (quality_margin(theta.cos(), torch.full((1001,), q, dtype=torch.float64), 0.4).diff() <= 1e-15).all()


def test_ends_of_quality_are_arcface_and_cosface():
    cosine = torch.linspace(-0.9, 1, 41, dtype=torch.float64)  # short of pi - 0.4, where ArcFace goes on otherwise
    lowest, middle = torch.full((41,), -1.0, dtype=torch.float64), torch.zeros(41, dtype=torch.float64)
    torch.testing.assert_close(AdaFace(0.4).own(cosine, lowest), ArcFace(0.4).own(cosine), rtol=0, atol=1e-12)
    torch.testing.assert_close(AdaFace(0.4).own(cosine, middle), CosFace(0.4).own(cosine), rtol=0, atol=1e-12)


def test_running_statistics_by_hand():
    loss = AdaFace(rate=0.1)
    assert (loss.mean.item(), loss.std.item()) == (20.0, 100.0)
    loss.observe(rows_of(torch.tensor([10.0, 14.0, 500.0])))  # clipped: 10, 14, 100; mean 124 / 3
    assert loss.mean.item() == pytest.approx(0.9 * 20 + 0.1 * 124 / 3)
    # squares about the mean: 981.777... + 747.111... + 3442.111... = 5170.666...; halved, its root is 50.8461
    assert loss.std.item() == pytest.approx(0.9 * 100 + 0.1 * 50.8461, abs=1e-4)


def test_one_row_has_no_deviation():
    loss = AdaFace(rate=0.5)
    loss.observe(rows_of(torch.tensor([40.0])))
    assert (loss.mean.item(), loss.std.item()) == (30.0, 100.0)


def test_a_batch_that_diverged_does_not_move_the_statistics():
    loss = AdaFace(rate=0.5)
    loss.observe(rows_of(torch.tensor([10.0, math.nan])))
    assert (loss.mean.item(), loss.std.item()) == (20.0, 100.0)
