"""Margins on the own class: values by hand, gradients, limit cases, and the curve past theta*."""

import math
import re

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import cosines
from verisphere.losses.adjust import adjusted
from verisphere.losses.margin import (
    CM1,
    CM2,
    AMSoftmax,
    ArcFace,
    ArcSoftmax,
    CombinedMargin,
    CosFace,
    NormFace,
    SphereFace,
    add_angular_margin,
    adjusted_margin,
    combined_margin,
    detached_gradient,
)

MARGINS = [(1.0, 0.0, 0.0), (1.35, 0.0, 0.0), (1.0, 0.0, 0.35), (1.0, 0.5, 0.0), (1.0, 0.3, 0.2), (0.9, 0.4, 0.15)]


@pytest.mark.parametrize(
    ("margins", "expected"),
    [
        ((1.0, 0.0, 0.0), 0.5),
        ((1.35, 0.0, 0.0), 0.1564345),  # cos(81 degrees)
        ((1.0, 0.0, 0.35), 0.15),
        ((1.0, 0.5, 0.0), 0.0235966),  # cos(1.5472)
        ((1.0, 0.3, 0.2), 0.0217402),  # CM1: 0.5 cos(0.3) - 0.8660254 sin(0.3) - 0.2
        ((0.9, 0.4, 0.15), 0.0763400),  # CM2: cos(54 deg) cos(0.4) - sin(54 deg) sin(0.4) - 0.15
    ],
)
def test_value_at_60_degrees(margins, expected):
    assert combined_margin(cosines(60), *margins).item() == pytest.approx(expected, abs=5e-8)
    logit = CombinedMargin(*margins, scale=64.0).own(cosines(60)).item()
    assert logit == pytest.approx(64 * expected, abs=5e-6)


@pytest.mark.parametrize(
    ("margins", "beyond", "expected"),
    [
        ((1.0, 0.5, 0.0), "monotone", -1.1224174),  # cos(pi) - cos(pi - 0.5) - 1 = -2 + cos(0.5)
        ((1.0, 0.5, 0.0), "plain", -0.8775826),  # cos(pi + 0.5) = -cos(0.5): above the -1 at theta*
        ((1.0, 0.5, 0.0), "released", -1.2397128),  # -1 - 0.5 sin(0.5)
        ((1.35, 0.0, 0.0), "monotone", -1.3137584),  # -1 - cos(133.33 degrees) - 1
        ((1.35, 0.0, 0.0), "plain", -0.4539905),  # cos(243 degrees)
        ((1.0, 0.3, 0.2), "monotone", -1.2446635),  # -2 + cos(0.3) - 0.2
        ((1.0, 0.3, 0.2), "released", -1.2886561),  # -1 - 0.3 sin(0.3) - 0.2
    ],
)
def test_value_at_180_degrees(margins, beyond, expected):
    assert combined_margin(cosines(180), *margins, beyond=beyond).item() == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("margins", [*MARGINS, (2.0, 1.0, 0.1), (1.7, 0.0, 0.0), (1.0, 3.0, 0.0)])
def test_own_logit_falls_with_the_angle_on_the_whole_half_circle(margins, dtype):
    theta = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    steps = combined_margin(theta.cos().to(dtype), *margins).diff()
    assert (steps <= 0).all()
    assert (steps[1:-1] < 0).all() or dtype == torch.float32  # equal neighbours are rounding, in float32 alone


@pytest.mark.parametrize("margins", [(1.35, 0.0, 0.0), (1.0, 0.5, 0.0), (0.9, 0.4, 0.15), (2.0, 1.0, 0.1)])
def test_monotone_continuation_is_continuous(margins):
    m1, m2, m3 = margins
    last = (math.pi - m2) / m1
    around = torch.tensor([last - 1e-9, last + 1e-9], dtype=torch.float64).cos()
    assert combined_margin(around, *margins).tolist() == pytest.approx([-1 - m3, -1 - m3], abs=1e-8)


def test_plain_curve_turns_up_and_released_one_jumps():
    past, before = cosines(160), cosines(math.degrees(math.pi - 0.5) - 1e-6)
    assert combined_margin(cosines(180), m2=0.5, beyond="plain") > combined_margin(past, m2=0.5, beyond="plain")
    just_past = cosines(math.degrees(math.pi - 0.5) + 1e-6)
    drop = combined_margin(before, m2=0.5) - combined_margin(just_past, m2=0.5, beyond="released")
    # -1 down to cos(pi - 0.5) - 0.5 sin(0.5) = -0.8775826 - 0.2397128
    assert drop.item() == pytest.approx(0.1172953, abs=1e-6)


@pytest.mark.parametrize("beyond", ["monotone", "plain", "released"])
@pytest.mark.parametrize("margins", MARGINS)
def test_gradcheck(margins, beyond):
    # 150 degrees is before theta* for some and 170 is past it for most; none lies on a kink
    inputs = cosines(3, 40, 60, 90, 120, 150, 170, 176).requires_grad_()
    assert gradcheck(lambda c: combined_margin(c, *margins, beyond=beyond), inputs)


def test_slope_at_60_degrees():
    inputs = cosines(60).requires_grad_()
    combined_margin(inputs, m2=0.5).backward()
    assert inputs.grad.item() == pytest.approx(1.1543790, abs=5e-8)  # sin(1.5472) / sin(60 degrees)


def test_slope_at_the_ends_is_the_floored_one():
    ends = torch.tensor([1.0, -1.0], requires_grad=True)
    combined_margin(ends, m2=0.5).sum().backward()
    # sin(0.5) / 0.001, and past theta* the slope of the cosine itself
    assert ends.grad.tolist() == pytest.approx([479.42554, 1.0], rel=1e-5)


def test_detached_gradient_has_the_margined_value_and_the_plain_slope():
    inputs = cosines(0, 20, 60, 120, 170, dtype=torch.float32).requires_grad_()
    exact, detached = ArcFace(0.5, gradient="exact"), ArcFace(0.5, gradient="detached")
    out = detached.own(inputs)
    out.sum().backward()
    assert torch.equal(out, exact.own(inputs))
    assert torch.equal(inputs.grad, torch.full((5,), 64.0))


def test_detached_gradient_takes_each_from_its_own():
    x = torch.tensor([3.0], requires_grad=True)
    out = detached_gradient(x**2, 5 * x)
    out.backward()
    assert (out.item(), x.grad.item()) == (9.0, 5.0)


@pytest.mark.parametrize("loss", [ArcFace(0.0), CosFace(0.0), SphereFace(1.0), CombinedMargin(1.0, 0.0, 0.0)])
def test_no_margin_is_normface_to_the_last_bit(loss):
    ours, plain = (torch.linspace(-1, 1, 101).requires_grad_() for _ in range(2))
    loss.own(ours).sum().backward()
    NormFace().own(plain).sum().backward()
    assert torch.equal(loss.own(ours), NormFace().own(plain))
    assert torch.equal(ours.grad, plain.grad)


@pytest.mark.parametrize(
    ("preset", "combined"),
    [
        (NormFace(20.0), CombinedMargin(1.0, 0.0, 0.0, scale=20.0)),
        (SphereFace(1.35, 32.0), CombinedMargin(1.35, 0.0, 0.0, scale=32.0)),
        (CosFace(0.35, 64.0), CombinedMargin(1.0, 0.0, 0.35, scale=64.0)),
        (ArcFace(0.5, 64.0), CombinedMargin(1.0, 0.5, 0.0, scale=64.0)),
        (ArcFace(), CombinedMargin()),
    ],
)
def test_presets_are_rows_of_the_combined_margin(preset, combined):
    inputs = torch.linspace(-1, 1, 101)
    assert torch.equal(preset.own(inputs), combined.own(inputs))
    assert torch.equal(preset.others(inputs[None]), preset.scale * inputs[None])
    assert preset.bound() == preset.scale


def test_half_strength_is_half_the_margin():
    inputs = torch.linspace(-1, 1, 101)
    for loss, half in (
        (ArcFace(0.5), ArcFace(0.25)),
        (CosFace(0.5), CosFace(0.25)),
        (SphereFace(1.5), SphereFace(1.25)),  # a factor starts from 1, not from 0
    ):
        loss.set_strength(0.5)
        assert torch.equal(loss.own(inputs), half.own(inputs))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ArcFace(margin=28.6), "margin is 28.6; it must be in [0, pi) radians: is it in degrees?"),
        (lambda: ArcSoftmax(margin=28.6), "margin is 28.6; it must be in [0, pi) radians: is it in degrees?"),
        (
            lambda: CosFace(margin=-0.35),
            "margin is -0.35; it is subtracted from the cosine and must be a number >= 0 (0 is no margin)",
        ),
        (
            lambda: AMSoftmax(margin=-0.35),
            "margin is -0.35; it is subtracted from the cosine and must be a number >= 0 (0 is no margin)",
        ),
        (
            lambda: SphereFace(margin=0.0),
            "margin is 0.0; it multiplies the angle and must be a positive number (1 is no margin)",
        ),
        (
            lambda: SphereFace(beyond="released"),
            'beyond is "released" with margin = 1.35; the released rule is defined for margin = 1 only',
        ),
    ],
)
def test_refusals_name_the_argument_that_the_caller_wrote(make, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        make()


@pytest.mark.parametrize(
    ("loss", "margins", "scale"),
    [
        (CM1(), (1.0, 0.3, 0.2), 64.0),
        (CM2(), (0.9, 0.4, 0.15), 64.0),
        (AMSoftmax(), (1.0, 0.0, 0.35), 32.0),
        (ArcSoftmax(), (1.0, 0.5, 0.0), 32.0),
        (SphereFace(), (1.35, 0.0, 0.0), 64.0),
    ],
)
def test_presets_have_their_papers_numbers(loss, margins, scale):
    assert loss.margins() == margins
    assert (loss.scale, loss.t) == (scale, 1.0)


@pytest.mark.parametrize(
    ("margins", "t", "degrees", "expected"),
    [
        ((1.0, 0.0, 0.35), 3.0, 60, -0.50625),  # g(0.5) - 0.35, the margin outside g
        ((1.0, 0.5, 0.0), 3.0, 60, -0.7318817),  # g(0.0235966) = 2 * 0.5117983**3 - 1, the margin inside
        ((0.9, 0.4, 0.15), 2.0, 60, -0.3980451),  # g(0.2263400) - 0.15
        ((1.0, 0.5, 0.0), 3.0, 180, -1.1224174),  # past theta*: -1 and on with slope 1, as without t
    ],
)
def test_adjusted_value(margins, t, degrees, expected):
    assert adjusted_margin(cosines(degrees), *margins, t).item() == pytest.approx(expected, abs=1e-7)
    logit = CombinedMargin(*margins, scale=64.0, t=t).own(cosines(degrees)).item()
    assert logit == pytest.approx(64 * expected, abs=1e-5)


def test_the_other_classes_are_adjusted_too():
    others = CosFace(t=3.0).others(cosines(60, 90)[None])
    assert others.tolist() == [pytest.approx([64 * -0.15625, 64 * -0.75])]


@pytest.mark.parametrize("margins", MARGINS)
def test_adjustment_of_one_is_the_plain_loss_to_the_last_bit(margins):
    plain, adjusted_one = CombinedMargin(*margins), CombinedMargin(*margins, t=1.0)
    inputs = torch.linspace(-1, 1, 101)
    assert torch.equal(adjusted_margin(inputs, *margins, 1.0), combined_margin(inputs, *margins))
    assert torch.equal(adjusted_one.own(inputs), plain.own(inputs))
    assert torch.equal(adjusted_one.others(inputs[None]), plain.others(inputs[None]))


@pytest.mark.parametrize("t", [1.5, 3.0])
@pytest.mark.parametrize("margins", MARGINS)
def test_adjusted_margin_gradcheck(margins, t):
    inputs = cosines(3, 40, 60, 90, 120, 150, 170, 176).requires_grad_()
    assert gradcheck(lambda c: adjusted_margin(c, *margins, t), inputs)


@pytest.mark.parametrize("t", [1.5, 3.0])
@pytest.mark.parametrize("margins", [*MARGINS, (2.0, 1.0, 0.1)])
def test_adjusted_own_logit_falls_with_the_angle_on_the_whole_half_circle(margins, t):
    theta = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    values = adjusted_margin(theta.cos(), *margins, t)
    assert (values.diff() <= 0).all()
    flat = (combined_margin(theta.cos(), *margins[:2]) + 1).abs() < 1e-3  # g is too flat there for float64 to show
    assert (values.diff() < 0)[~flat[1:]][1:-1].all()


def test_detached_gradient_of_an_adjusted_margin_is_that_of_the_adjusted_cosine():
    ours, plain = (cosines(20, 60, 120).requires_grad_() for _ in range(2))
    detached, exact = ArcFace(t=3.0, gradient="detached"), ArcFace(t=3.0)
    value = detached.own(ours)
    value.sum().backward()
    (64 * adjusted(plain, 3.0)).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad)
    torch.testing.assert_close(value, exact.own(plain))


@pytest.mark.parametrize("margin", [0.0, 0.45, 0.8, 3.0])
def test_a_margin_for_each_row_falls_with_the_angle_without_a_jump(margin):
    theta = torch.linspace(0, math.pi, 4001, dtype=torch.float64)
    steps = add_angular_margin(theta.cos(), torch.full((4001,), margin, dtype=torch.float64)).diff()
    assert (steps < 0).all()
    assert steps.min() > -1e-3  # 4000 steps of 0.0008 radians
