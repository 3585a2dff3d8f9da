"""Search-Softmax: the modulating factor by hand, and the margin softmaxes that it covers."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from verisphere.head.head import Head
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import CosFace, NormFace, combined_margin
from verisphere.losses.search_softmax import (
    SearchSoftmax,
    additive_margin,
    modulated_softmax,
    modulating_function,
)

SCALE = 32.0
#: f of table 1, and more: what each loss makes of the own cosine. The plain curves rise above the cosine in places.
CURVES = {
    "Softmax": {},
    "A-Softmax": {"m1": 3.0},
    "A-Softmax, plain": {"m1": 3.0, "beyond": "plain"},
    "SphereFace": {"m1": 1.35},
    "AM-Softmax": {"m3": 0.35},
    "Arc-Softmax": {"m2": 0.5},
    "Arc-Softmax, plain": {"m2": 0.5, "beyond": "plain"},
}


def modulating_factor(cosine: torch.Tensor, margined: torch.Tensor, scale: float) -> torch.Tensor:
    """a = 1 - exp(scale * (cosine - margined)): the factor that equals a margin on the own cosine; table 1."""
    return -(scale * (cosine - margined)).expm1()


def one(value: float) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.float64)


def test_modulated_probability_by_hand():
    # own = rest: p = 1/2; a = -1 gives h = 1 / (-1/2 + 2) = 2/3 and h * p = 1/3
    assert modulating_function(one(-1.0), one(0.5)).item() == pytest.approx(2 / 3)
    assert modulated_softmax(one(7.0), one(7.0), one(math.log(2))).item() == pytest.approx(math.log(3))
    # p = 3/4, a = 0.5: h = 1 / (0.375 + 0.5) = 8/7
    assert modulated_softmax(one(math.log(3)), one(0.0), one(math.log(0.5))).item() == pytest.approx(-math.log(6 / 7))


def test_loss_is_the_log_of_the_modulated_probability():
    factor, probability = torch.meshgrid(
        torch.tensor([0.9, 0.0, -1.0, -100.0, -10000.0], dtype=torch.float64),
        torch.linspace(0.01, 0.99, 9, dtype=torch.float64),
        indexing="ij",
    )
    factor, probability = factor.flatten(), probability.flatten()
    loss = modulated_softmax(probability.logit(), torch.zeros_like(probability), (-factor).log1p())
    torch.testing.assert_close(loss, -(modulating_function(factor, probability) * probability).log())


def test_factors_by_hand():
    # AM-Softmax, s 32, m 0.35: 1 - exp(11.2)
    assert modulating_factor(one(0.6), one(0.25), 32.0).item() == pytest.approx(-73129.4418, rel=1e-8)
    assert additive_margin(-73129.4418, 32.0) == pytest.approx(0.35)
    assert additive_margin(0.0, 32.0) == 0.0


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())
def test_a_factor_that_follows_the_angle_is_that_loss(curve):
    """Values equal, and with a differentiated like any function of the angle, gradients too."""
    theta = torch.linspace(0.02, math.pi - 0.02, 80, dtype=torch.float64)
    gain = SCALE * (theta.cos() - combined_margin(theta.cos(), **curve))  # log(1 - a)
    theta = theta[gain > -9]  # below, a is so near 1 that float64 no longer holds 1 - a to the digits compared here
    assert len(theta) >= 40
    theirs, ours = (theta.cos().requires_grad_() for _ in range(2))
    rest = torch.linspace(-20, 40, len(theta), dtype=torch.float64)
    direct = NormFace(SCALE).finish(SCALE * combined_margin(theirs, **curve), rest)
    factor = modulating_factor(ours, combined_margin(ours, **curve), SCALE)
    assert (factor < 1).all()
    searched = modulated_softmax(SCALE * ours, rest, (-factor).log1p())
    torch.testing.assert_close(searched, direct, rtol=1e-10, atol=1e-11)
    direct.sum().backward()
    searched.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)


def test_factor_is_not_negative_everywhere():
    """Why a <= 0 is not asked for: cos(3 theta) lies above cos(theta) on half of the angles."""
    theta = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    factor = modulating_factor(theta.cos(), combined_margin(theta.cos(), m1=3.0, beyond="plain"), SCALE)
    assert (factor > 0).double().mean().item() == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("factor", [-1.0, 0.5])
def test_the_loss_is_that_function(factor):
    """p = 3/4 by hand: a = -1 gives -log(3/5), a = 0.5 -log(6/7)."""
    loss = SearchSoftmax(factor)
    own, rest = one(math.log(3)), one(0.0)
    rows = Rows(one(0.0), one(1.0), one(1.0)[None], torch.tensor([0]))
    found = loss.finish(own, rest, *(item.expand(1) for item in loss.context(rows)))
    assert found.item() == pytest.approx(-math.log(3 / 5 if factor == -1 else 6 / 7))


def test_gradcheck():
    own, rest, gain = (
        torch.tensor(v, dtype=torch.float64) for v in ([1.0, -3.0, 8.0], [2.0, 3.0, -1.0], [0.5, -2, -90])
    )
    assert gradcheck(modulated_softmax, (own.requires_grad_(), rest.requires_grad_(), gain.requires_grad_()))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_constant_factor_is_cosface(share):
    """At full strength and at a share, which scales the additive margin."""
    torch.manual_seed(0)
    embeddings, labels = torch.randn(6, 4, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 2])
    searched, cosface = SearchSoftmax(1 - math.exp(SCALE * 0.35), SCALE), CosFace(0.35, SCALE)
    heads = [Head(loss, 5, 4).double() for loss in (searched, cosface)]
    heads[1].centers.data = heads[0].centers.data.clone()
    for head in heads:
        head.loss.set_strength(share)
        head(embeddings, labels).loss.backward()
    torch.testing.assert_close(heads[0](embeddings, labels).per_sample, heads[1](embeddings, labels).per_sample)
    torch.testing.assert_close(heads[0].centers.grad, heads[1].centers.grad)


def test_factor_can_be_changed_between_epochs():
    loss = SearchSoftmax(-1.0)
    loss.set_factor(-10.0)
    assert loss.factor == -10.0
    assert "additive margin 0.0749" in repr(loss)  # log(11) / 32
