"""MV-Softmax: misclassified classes by hand, both weightings and both margins."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers, rows_of
from verisphere.losses.margin import ArcFace, CosFace, NormFace
from verisphere.losses.mv_softmax import MVSoftmax, misclassified_cosine


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        ("adaptive", [0.8, 0.1, -0.5]),  # 1.2 * 0.5 + 0.2
        ("fixed", [0.7, 0.1, -0.5]),  # 0.5 + 0.2
    ],
)
def test_misclassified_by_hand(weighting, expected):
    value = misclassified_cosine(numbers(0.5, 0.1, -0.5)[None], numbers(0.1)[None], numbers(0.2)[None], weighting)
    assert value[0].tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "edge"),
    [("AM", 0.15), ("Arc", 0.0235966)],  # 60 degrees: 0.5 - 0.35, cos(1.5471976)
)
def test_loss_by_hand(kind, edge):
    loss = MVSoftmax(kind, scale=2.0)
    own, others = numbers(0.5), numbers(0.5, 0.0)[None]
    context = [item.expand(1) for item in loss.context(rows_of(own))]
    assert context[0].item() == pytest.approx(edge, abs=5e-8)
    rest = loss.others(others, *(item[:, None] for item in context)).logsumexp(1)
    value = loss.finish(loss.own(own, *context), rest, *context).item()
    assert value == pytest.approx(math.log(1 + (math.exp(2 * 0.8) + 1.0) / math.exp(2 * edge)), rel=1e-6)


@pytest.mark.parametrize(("weighting", "slope"), [("adaptive", 1.2), ("fixed", 1.0)])
def test_gradcheck_and_slope(weighting, slope):
    edge, t = numbers(0.1)[None], numbers(0.2)[None]
    cosine = numbers(0.5, 0.9, 0.0, -0.7)[None].requires_grad_()
    assert gradcheck(lambda c: misclassified_cosine(c, edge, t, weighting), cosine)
    misclassified_cosine(cosine, edge, t, weighting).sum().backward()
    assert cosine.grad[0].tolist() == pytest.approx([slope, slope, 1.0, 1.0])


def test_adaptive_raises_the_harder_ones_more():
    cosine, edge, t = numbers(0.2, 0.9)[None], numbers(0.1)[None], numbers(0.2)[None]
    adaptive, fixed = (misclassified_cosine(cosine, edge, t, name) - cosine for name in ("adaptive", "fixed"))
    assert adaptive[0].diff().item() > 0
    assert fixed[0].diff().item() == pytest.approx(0)


def test_edge_carries_no_gradient():
    own = torch.tensor([0.5], requires_grad=True)
    assert not any(item.requires_grad for item in MVSoftmax().context(rows_of(own)))


@pytest.mark.parametrize(("kind", "plain"), [("AM", CosFace(0.35, 32.0)), ("Arc", ArcFace(0.5, 32.0))])
def test_without_emphasis_it_is_the_plain_margin(kind, plain):
    own = torch.linspace(-1, 1, 21, dtype=torch.float64)
    others = own.repeat(21, 1)
    loss = MVSoftmax(kind, emphasis=0.0)
    context = [item.expand(21)[:, None] for item in loss.context(rows_of(own))]
    assert torch.equal(loss.own(own), plain.own(own))
    torch.testing.assert_close(loss.others(others, *context), plain.others(others), rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["AM", "Arc"])
@pytest.mark.parametrize("weighting", ["adaptive", "fixed"])
def test_no_strength_is_normface(kind, weighting):
    own = torch.linspace(-1, 1, 21, dtype=torch.float64)
    others = own.repeat(21, 1)
    loss = MVSoftmax(kind, weighting=weighting)
    loss.set_strength(0.0)
    context = [item.expand(21)[:, None] for item in loss.context(rows_of(own))]
    assert torch.equal(loss.own(own), NormFace(32.0).own(own))
    torch.testing.assert_close(loss.others(others, *context), NormFace(32.0).others(others), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("weighting", "largest"), [("adaptive", 1.4), ("fixed", 1.2)])
def test_bound_is_reached_at_cosine_one(weighting, largest):
    loss = MVSoftmax(weighting=weighting, scale=10.0)
    value = loss.others(numbers(1.0)[None], numbers(0.5)[None], numbers(0.2)[None]).item()
    assert value == pytest.approx(loss.bound()) == pytest.approx(10 * largest)
