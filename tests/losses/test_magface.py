"""MagFace: margin and regulariser by hand, the gradient in the length, and its limits."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers, rows_of
from verisphere.losses.magface import MagFace, length_regulariser, margin_of_length
from verisphere.losses.margin import ArcFace, NormFace


def per_row(loss: MagFace, own: torch.Tensor, length: torch.Tensor, rest: torch.Tensor) -> torch.Tensor:
    (clipped,) = loss.context(rows_of(own, length=length))
    return loss.finish(loss.own(own, clipped), rest, clipped)


def test_margin_is_a_straight_line():
    margins = margin_of_length(numbers(10, 60, 110), (10.0, 110.0), (0.45, 0.8))
    assert margins.tolist() == pytest.approx([0.45, 0.625, 0.8])


def test_regulariser_by_hand():
    # 1/60 + 60/12100; least at 110: 2/110
    assert length_regulariser(numbers(60, 110), 110.0).tolist() == pytest.approx([0.02162534, 2 / 110])
    longer = length_regulariser(torch.linspace(10, 110, 50, dtype=torch.float64), 110.0)
    assert (longer.diff() < 0).all()


def test_loss_by_hand():
    # length 60, own cosine 0.5: cos(1.0471976 + 0.625) = -0.1012275; scale 2, the others' log-sum-exp 0.3
    loss = MagFace(scale=2.0)
    value = per_row(loss, numbers(0.5), numbers(60.0), numbers(0.3)).item()
    expected = math.log(1 + math.exp(0.3 + 2 * 0.1012275423)) + 0.7568870523  # + 35 * 0.02162534
    assert value == pytest.approx(expected, rel=1e-9)


def test_gradcheck_in_cosine_and_length():
    own, length = numbers(0.9, 0.5, -0.3, -0.99), numbers(12, 60, 100, 50)  # the last is past pi
    rest = numbers(0.1, 0.2, 0.3, 0.4)
    loss = MagFace(scale=4.0)
    inputs = (own.requires_grad_(), length.requires_grad_(), rest.requires_grad_())
    assert gradcheck(lambda *args: per_row(loss, *args), inputs)


@pytest.mark.parametrize("length", [0.0, 5.0, 200.0])
def test_clipped_lengths_get_no_gradient(length):
    at = numbers(length).requires_grad_()
    value = per_row(MagFace(), numbers(0.5), at, numbers(0.0))
    value.backward()
    assert at.grad.item() == 0
    assert value.item() == per_row(MagFace(), numbers(0.5), numbers(min(max(length, 10.0), 110.0)), numbers(0.0)).item()


def test_a_well_placed_embedding_grows_and_a_misplaced_one_shrinks():
    """The paper's point: the regulariser rewards length, and the margin makes it dear where the class is missed."""
    own, length, rest = numbers(1.0, 0.3), numbers(50, 50).requires_grad_(), numbers(0.0, 30.0)
    per_row(MagFace(), own, length, rest).sum().backward()
    assert length.grad[0] < 0
    assert length.grad[1] > 0


def test_equal_margins_without_regulariser_are_arcface():
    own = torch.linspace(-1, 1, 41, dtype=torch.float64)
    loss = MagFace(least_margin=0.5, most_margin=0.5, weight=0.0)
    (length,) = loss.context(rows_of(own, length=torch.full_like(own, 33.0)))
    torch.testing.assert_close(loss.own(own, length), ArcFace(0.5).own(own), rtol=0, atol=1e-12)
    rest = torch.zeros_like(own)
    torch.testing.assert_close(loss.finish(own, rest, length), NormFace().finish(own, rest))


def test_strength_scales_the_margin_and_not_the_regulariser():
    loss = MagFace(scale=2.0)
    loss.set_strength(0.0)
    value = per_row(loss, numbers(0.5), numbers(60.0), numbers(0.3)).item()
    assert value == pytest.approx(math.log(1 + math.exp(0.3 - 1.0)) + 0.7568870523, rel=1e-9)
    loss.set_strength(0.5)
    (length,) = loss.context(rows_of(numbers(0.5), length=numbers(60.0)))
    assert loss.own(numbers(0.5), length).item() == pytest.approx(2 * math.cos(math.pi / 3 + 0.3125))
