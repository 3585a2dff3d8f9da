"""SphereFace-R version 1: its curve by hand, and a gradient that the margin leaves alone."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import cosines
from verisphere.losses.margin import NormFace
from verisphere.losses.sphereface_r import SphereFaceR, saturated_multiple


@pytest.mark.parametrize(
    ("degrees", "m", "expected"),
    [
        (60, 1.5, 0.0),  # 90 degrees
        (60, 1.7, -0.2079117),  # 102 degrees
        (110, 1.5, -0.9659258),  # 165 degrees
        (120, 1.5, -1.0),
        (150, 1.5, -1.0),  # 225 degrees, stopped at 180
        (75, 1.0, 0.2588190),
    ],
)
def test_value(degrees, m, expected):
    assert saturated_multiple(cosines(degrees), m).item() == pytest.approx(expected, abs=5e-8)
    assert SphereFaceR(m).own(cosines(degrees)).item() == pytest.approx(30 * expected, abs=2e-6)


@pytest.mark.parametrize("m", [1.0, 1.5, 1.7])
def test_gradcheck(m):
    inputs = cosines(3, 40, 60, 90, 100, 130, 170).requires_grad_()
    assert gradcheck(lambda c: saturated_multiple(c, m), inputs)


def test_never_rises_with_the_angle():
    theta = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    assert (saturated_multiple(theta.cos(), 1.7).diff() <= 1e-15).all()


def test_gradient_is_detached_by_default_and_exact_on_request():
    ours, exact = (cosines(60, 150).requires_grad_() for _ in range(2))
    SphereFaceR(1.5).own(ours).sum().backward()
    assert ours.grad.tolist() == [30.0, 30.0]
    SphereFaceR(1.5, gradient="exact").own(exact).sum().backward()
    # 30 * 1.5 * sin(90 degrees) / sin(60 degrees), and nothing where it stopped
    assert exact.grad.tolist() == pytest.approx([51.9615242, 0.0])


def test_factor_one_or_no_strength_is_normface():
    cosine = torch.linspace(-1, 1, 101, dtype=torch.float64)
    loss = SphereFaceR()
    loss.set_strength(0.0)
    for plain in (loss, SphereFaceR(1.0)):
        torch.testing.assert_close(plain.own(cosine), NormFace(30.0).own(cosine))
    loss.set_strength(0.5)
    assert torch.equal(loss.own(cosine), SphereFaceR(1.25).own(cosine))
