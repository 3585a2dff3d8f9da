"""CurricularFace: hard and easy classes by hand, the running mean, and its limits."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import numbers, rows_of
from verisphere.losses.curricular import CurricularFace, curricular_cosine
from verisphere.losses.margin import ArcFace


def test_hard_and_easy_by_hand():
    # above the edge 0.1: 0.5 * (0.3 + 0.5) = 0.4; at and below it, unchanged
    cosine = numbers(0.5, 0.1, -0.4)[None]
    value = curricular_cosine(cosine, numbers(0.1)[None], numbers(0.3)[None])
    assert value[0].tolist() == pytest.approx([0.4, 0.1, -0.4])


def test_loss_by_hand():
    # own 60 degrees, margin 0.5: own logit 2 * 0.0235966; others 0.5 (hard, t = 0.2) and -0.5: 2 * 0.35 and -1
    loss = CurricularFace(0.5, 2.0)
    loss.curriculum.fill_(0.2)
    own, others = numbers(0.5), numbers(0.5, -0.5)[None]
    edge, t = loss.context(rows_of(own))
    assert edge.item() == pytest.approx(0.0235966, abs=5e-8)
    rest = loss.others(others, edge[:, None], t.double().expand(1, 1)).logsumexp(1)
    value = loss.finish(loss.own(own, edge, t.double().expand(1)), rest)
    expected = math.log(1 + (math.exp(0.7) + math.exp(-1.0)) / math.exp(0.0471932))
    assert value.item() == pytest.approx(expected, rel=1e-7)


def test_gradcheck_and_slope_of_a_hard_class():
    edge, t = numbers(0.1)[None], numbers(0.3)[None]
    cosine = numbers(0.5, 0.9, 0.0, -0.7)[None].requires_grad_()
    assert gradcheck(lambda c: curricular_cosine(c, edge, t), cosine)
    curricular_cosine(cosine, edge, t).sum().backward()
    assert cosine.grad[0].tolist() == pytest.approx([1.3, 2.1, 1.0, 1.0])  # t + 2 cosine, else 1


def test_running_mean_by_hand():
    loss = CurricularFace(rate=0.01)
    assert loss.curriculum.item() == 0.0
    loss.observe(rows_of(torch.tensor([0.2, 0.6])))  # mean 0.4
    assert loss.curriculum.item() == pytest.approx(0.004)
    loss.observe(rows_of(torch.tensor([1.0])))
    assert loss.curriculum.item() == pytest.approx(0.99 * 0.004 + 0.01)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_batch_that_diverged_does_not_move_the_mean(value):
    loss = CurricularFace(rate=0.5)
    loss.curriculum.fill_(0.25)
    loss.observe(rows_of(torch.tensor([0.5, value])))
    assert loss.curriculum.item() == 0.25


def test_no_gradient_through_edge_or_mean():
    loss = CurricularFace()
    own = torch.tensor([0.5], requires_grad=True)
    assert not any(item.requires_grad for item in loss.context(rows_of(own)))


def test_without_hard_classes_it_is_arcface():
    own, others = numbers(0.9, 0.8), numbers(0.0, -0.3, 0.1, -0.9).reshape(2, 2)
    loss, arcface = CurricularFace(0.5), ArcFace(0.5)
    edge, _ = loss.context(rows_of(own))
    assert torch.equal(loss.own(own), arcface.own(own))
    assert torch.equal(loss.others(others, edge[:, None], numbers(0.7, 0.7)[:, None]), arcface.others(others))


def test_strength_scales_the_margin_alone():
    own = numbers(0.5)
    half, direct = CurricularFace(0.5), CurricularFace(0.25)
    half.set_strength(0.5)
    for loss in (half, direct):
        loss.curriculum.fill_(0.4)
    for mine, theirs in zip(half.context(rows_of(own)), direct.context(rows_of(own)), strict=True):
        assert torch.equal(mine, theirs)
    assert torch.equal(half.own(own), direct.own(own))


def test_bound_holds_for_every_mean():
    cosine = torch.linspace(-1, 1, 201, dtype=torch.float64)[None]
    loss = CurricularFace(scale=64.0)
    largest = max(
        loss.others(cosine, numbers(edge)[None], numbers(t)[None]).max().item()
        for edge in (-2.0, -1.0, 0.0, 0.9)
        for t in (-1.0, 0.0, 1.0)
    )
    assert largest == loss.bound() == 128.0
