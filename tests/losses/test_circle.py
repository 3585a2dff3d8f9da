"""Circle loss at class level: values and made slopes by hand, its circle, and its size."""

import math

import pytest
import torch

from loss_rows import numbers, rows_of
from verisphere.head.head import Head
from verisphere.losses.circle import Circle, circle_others, circle_own


def test_values_and_slopes_by_hand():
    # m 0.25: own 0.5: (1.25 - 0.5) * (0.5 - 0.75); others 0.5: 0.75 * 0.25, -0.1: 0.15 * -0.35, -0.5: cut off
    own = numbers(0.5).requires_grad_()
    others = numbers(0.5, -0.1, -0.5)[None].requires_grad_()
    value, values = circle_own(own, 0.25), circle_others(others, numbers(0.25)[None])
    assert value.item() == pytest.approx(-0.1875)
    assert values[0].tolist() == pytest.approx([0.1875, -0.0525, 0.0])
    (value.sum() + values.sum()).backward()
    assert own.grad.item() == pytest.approx(0.75)  # the bracket, not 1.5, the derivative of the product
    assert others.grad[0].tolist() == pytest.approx([0.75, 0.15, 0.0])


def test_slopes_are_the_derivative_with_the_brackets_held():
    cosine = torch.linspace(-0.95, 0.95, 39, dtype=torch.float64)
    tracked, step = cosine.clone().requires_grad_(), 1e-6
    circle_others(tracked[None], numbers(0.25)[None]).sum().backward()
    held = (cosine + 0.25).clamp(min=0)
    numeric = (held * (cosine + step - 0.25) - held * (cosine - step - 0.25)) / (2 * step)
    torch.testing.assert_close(tracked.grad, numeric, rtol=1e-6, atol=1e-9)


def test_loss_by_hand():
    head = Head(Circle(0.25, 4.0), 2, 2)
    head.centers.data = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    out = head(
        torch.tensor([[1.0, math.sqrt(3)]]), torch.tensor([0])
    )  # 60 degrees from the own center, 30 from the other
    other = (math.sqrt(0.75) + 0.25) * (math.sqrt(0.75) - 0.25)
    assert out.loss.item() == pytest.approx(math.log1p(math.exp(4 * (other + 0.1875))), rel=1e-6)


def test_decision_boundary_is_a_circle():
    """Own logit = other logit where (1 - own)^2 + other^2 = 2 m^2 (the paper's eq. 8)."""
    angle = torch.linspace(-0.7, math.pi / 2, 30, dtype=torch.float64)  # where neither bracket is cut off
    radius = 0.25 * math.sqrt(2)
    own, other = 1 - radius * angle.cos(), radius * angle.sin()
    torch.testing.assert_close(circle_own(own, 0.25), circle_others(other[None], numbers(0.25)[None])[0])


def test_margin_reaches_both_sides_and_strength_scales_it():
    own, others = numbers(0.4), numbers(0.6, -0.2)[None]
    loss, direct = Circle(0.4), Circle(0.2)
    loss.set_strength(0.5)
    (mine,), (theirs,) = loss.context(rows_of(own)), direct.context(rows_of(own))
    assert torch.equal(loss.own(own, mine.expand(1)), direct.own(own, theirs.expand(1)))
    assert torch.equal(loss.others(others, mine.expand(1, 1)), direct.others(others, theirs.expand(1, 1)))


def test_without_a_margin_the_brackets_remain():
    own, others = numbers(0.25), numbers(0.5, -0.5)[None]
    assert Circle(0.0, 1.0).own(own).item() == pytest.approx(-0.5625)  # 0.75 * (0.25 - 1)
    assert Circle(0.0, 1.0).others(others, numbers(0.0)[None])[0].tolist() == pytest.approx([0.25, 0.0])


@pytest.mark.parametrize("margin", [0.0, 0.25, 0.9])
def test_bound(margin):
    cosine = torch.linspace(-1, 1, 2001, dtype=torch.float64)[None]
    loss = Circle(margin)
    assert loss.others(cosine, numbers(margin)[None]).max().item() == pytest.approx(256 * (1 - margin**2))
    assert loss.bound() == 256.0


def test_logits_of_256_do_not_overflow():
    head = Head(Circle(), 3, 2)
    head.centers.data = torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]], [[0.0, 1.0]]])
    embeddings = torch.tensor([[-1.0, 0.0], [1.0, 0.0]], requires_grad=True)
    out = head(embeddings, torch.tensor([0, 0]))
    out.loss.backward()
    # opposite to the own center, on another: 256 * (1.25 * 0.75 + 2.25 * 1.75) = 1248; on it: nothing left
    assert out.per_sample.tolist() == pytest.approx([1248.0, 0.0], abs=1e-4)
    assert embeddings.grad.isfinite().all()
