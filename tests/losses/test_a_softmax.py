"""A-Softmax: its curve by hand, how it is annealed, and where its scale comes from."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from loss_rows import cosines
from verisphere.head.head import Head
from verisphere.losses.a_softmax import ASoftmax, annealed, multiplied_angle
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import NormFace


def rows_of(cosine: torch.Tensor, length: float = 7.0) -> Rows:
    count = len(cosine)
    unit = torch.eye(2, dtype=cosine.dtype)[:1].expand(count, -1)
    return Rows(cosine, torch.full_like(cosine, length), unit, torch.zeros(count, dtype=torch.int64))


@pytest.mark.parametrize(
    ("degrees", "m", "expected"),
    [
        (60, 1.0, 0.5),
        (30, 4.0, -0.5),  # 120 degrees
        (60, 4.0, -1.5),  # 240 degrees, k = 1: -cos 240 - 2
        (100, 4.0, -3.2339556),  # 400 degrees, k = 2: cos 40 - 4
        (180, 4.0, -7.0),
        (90, 3.0, -2.0),  # 270 degrees, k = 1: -cos 270 - 2
        (180, 3.0, -5.0),
        (100, 2.5, -1.6579799),  # 250 degrees, k = 1: -cos 250 - 2 = 0.3420201 - 2, not an integer m
    ],
)
def test_value(degrees, m, expected):
    assert multiplied_angle(cosines(degrees), m).item() == pytest.approx(expected, abs=5e-8)


@pytest.mark.parametrize("m", [1.0, 2.0, 2.5, 3.0, 4.0])
def test_it_falls_on_the_whole_half_circle(m):
    values = multiplied_angle(torch.linspace(0, math.pi, 4001, dtype=torch.float64).cos(), m)
    assert (values.diff() <= 0).all()
    assert values.diff().min() > -0.01  # no jump where k changes


@pytest.mark.parametrize("m", [2.0, 3.0, 4.0])
def test_gradcheck(m):
    inputs = cosines(3, 20, 50, 80, 100, 130, 170).requires_grad_()
    assert gradcheck(lambda c: multiplied_angle(c, m), inputs)


def test_factor_one_is_the_cosine():
    cosine = torch.linspace(-1, 1, 101, dtype=torch.float64)
    torch.testing.assert_close(multiplied_angle(cosine, 1.0), cosine)


@pytest.mark.parametrize(("step", "expected"), [(0, 1000.0), (1, 1000 / 1.12), (1000, 1000 / 121), (2000, 5.0)])
def test_annealing_by_hand(step, expected):
    assert annealed(torch.tensor(step), 1000.0, 5.0, 0.12).item() == pytest.approx(expected)


def test_logit_by_hand():
    # At the end a = 5: (5 * 0.5 - 1.5) / 6 = 1/6 at 60 degrees, m = 4; times a length of 7, or a scale of 32
    for loss, scale in ((ASoftmax(start=5.0), 7.0), (ASoftmax(scale=32.0, start=5.0), 32.0)):
        rows = rows_of(cosines(60))
        context = tuple(item.expand(1) for item in loss.context(rows))
        assert loss.own(rows.own, *context).item() == pytest.approx(scale / 6)
        others = loss.others(cosines(60, 120)[None], *(item[:, None] for item in context))
        assert others.tolist() == [pytest.approx([scale * 0.5, -scale * 0.5])]


def test_training_counts_steps_and_evaluation_does_not():
    loss = ASoftmax()
    head = Head(loss, 3, 4)
    embeddings, labels = torch.randn(2, 4), torch.tensor([0, 2])
    for _ in range(3):
        head(embeddings, labels)
    head.eval()
    head(embeddings, labels)
    assert loss.steps.item() == 3
    share, _ = loss.context(rows_of(cosines(60)))
    assert share.item() == pytest.approx(1 / (1 + 1000 / 1.36))
    again = ASoftmax()
    again.load_state_dict(loss.state_dict())
    assert again.steps.item() == 3


def test_length_receives_gradient():
    rows = rows_of(cosines(60))
    length = rows.length.clone().requires_grad_()
    loss = ASoftmax(start=5.0)
    share, scale = loss.context(Rows(rows.own, length, rows.unit, rows.labels))
    loss.own(rows.own, share.expand(1), scale).sum().backward()
    assert length.grad.item() == pytest.approx(1 / 6)


def test_no_strength_is_normface_at_the_fixed_scale():
    loss = ASoftmax(margin=3.0, scale=32.0)
    loss.set_strength(0.0)
    cosine = torch.linspace(-1, 1, 101)
    context = tuple(item.expand(101) for item in loss.context(rows_of(cosine)))
    assert torch.equal(loss.own(cosine, *context), NormFace(32.0).own(cosine))
    assert loss.bound() == 32.0
    assert ASoftmax().bound() is None


def test_detached_gradient_has_the_margined_value_and_the_plain_slope():
    exact, detached = (ASoftmax(scale=32.0, start=5.0, gradient=name) for name in ("exact", "detached"))
    inputs = cosines(20, 60, 120).requires_grad_()
    context = tuple(item.expand(3) for item in exact.context(rows_of(inputs.detach())))
    out = detached.own(inputs, *context)
    out.sum().backward()
    torch.testing.assert_close(out, exact.own(inputs, *context))
    torch.testing.assert_close(inputs.grad, torch.full((3,), 32.0, dtype=torch.float64))
