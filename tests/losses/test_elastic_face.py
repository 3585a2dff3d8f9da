"""ElasticFace: drawn margins and their order by hand, the published formula in plain autograd, and its limits."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from loss_rows import numbers, rows_of
from verisphere.head.head import Head
from verisphere.head.noise import standard_normal
from verisphere.losses.elastic_face import ElasticFace, by_distance, elastic_margin
from verisphere.losses.margin import ArcFace, CosFace, NormFace


def own_logits(loss: ElasticFace, own: torch.Tensor, *noise: float) -> torch.Tensor:
    return loss.own(own, *loss.context(rows_of(own, *noise)))


def test_drawn_margins_by_hand():
    # 0.5 + 0.2 * noise; the third would be -0.1, the last 3.5
    drawn = elastic_margin(numbers(1.0, -2.0, -3.0, 15.0), 0.5, 0.2, math.pi)
    assert drawn.tolist() == pytest.approx([0.7, 0.1, 0.0, math.pi])


def test_logits_by_hand():
    # 60 degrees, half a radian and one deviation of 0.05: cos(1.5971976) = -0.0263982, and one less 0.0735323
    arc = ElasticFace("Arc", 0.5, 0.05, scale=2.0)
    assert own_logits(arc, numbers(0.5, 0.5), 1.0, -1.0).tolist() == pytest.approx([-0.0527963, 0.1470647], abs=1e-6)
    cos = ElasticFace("Cos", 0.35, 0.05, scale=2.0)
    assert own_logits(cos, numbers(0.5, 0.5), 1.0, -1.0).tolist() == pytest.approx([2 * 0.1, 2 * 0.2])


def test_the_farthest_row_gets_the_largest_margin_by_hand():
    # falling cosines are those of rows 2, 0, 3, 1; no permutation that is its own inverse
    margins = by_distance(numbers(0.4, 0.1, 0.3, 0.2), numbers(0.7, -0.2, 0.9, 0.1))
    assert margins.tolist() == [0.2, 0.4, 0.1, 0.3]


def test_rows_with_equal_cosines_keep_the_order_of_the_batch():
    assert by_distance(numbers(0.3, 0.1, 0.2), numbers(0.5, 0.5, 0.5)).tolist() == [0.1, 0.2, 0.3]


@pytest.mark.parametrize("kind", ["Arc", "Cos"])
def test_plus_moves_margins_between_rows_and_changes_none(kind):
    own, noise = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64), (0.3, -1.0, 2.0, 0.0, 1.0, -0.5, 0.7)
    (plain,) = ElasticFace(kind, deviation=0.05).context(rows_of(own, *noise))
    (plus,) = ElasticFace(kind, deviation=0.05, plus=True).context(rows_of(own, *noise))
    assert plus.tolist() == plain.sort(descending=True).values.tolist()  # the first row is the farthest


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("kind", ["Arc", "Cos"])
def test_the_published_formula_with_the_same_margins(kind, plus):
    """Equations 6 and 7 written out, on the numbers that the head has drawn; angles so small that no rule bends."""
    classes, generator = 5, torch.Generator().manual_seed(1)
    centers = F.normalize(torch.randn(classes, 4, generator=generator, dtype=torch.float64))
    labels = torch.tensor([3, 1, 4, 1, 0, 2])
    rows = 4 * centers[labels] + torch.randn(6, 4, generator=generator, dtype=torch.float64)
    ours, theirs = (rows.clone().requires_grad_() for _ in range(2))
    head = Head(ElasticFace(kind, plus=plus), classes, 4, seed=9).double()
    head.centers.data = centers[:, None].clone()
    out = head(ours, labels)
    out.loss.backward()

    mean, sigma = {
        ("Arc", False): (0.5, 0.05),
        ("Arc", True): (0.5, 0.0175),
        ("Cos", False): (0.35, 0.05),
        ("Cos", True): (0.35, 0.025),
    }[kind, plus]
    weights = centers.clone().requires_grad_()
    cosine = F.normalize(theirs) @ F.normalize(weights).T
    own = cosine[torch.arange(6), labels]
    drawn = (mean + sigma * standard_normal(9, range(6), 1)[:, 0]).tolist()
    if plus:
        farthest_first = sorted(range(6), key=lambda row: own[row].item())
        drawn = [sorted(drawn, reverse=True)[farthest_first.index(row)] for row in range(6)]
    margin = numbers(*drawn)
    assert (own.arccos() + margin).max() < math.pi
    logits = 64 * torch.where(
        F.one_hot(labels, classes).bool(),
        ((own.arccos() + margin).cos() if kind == "Arc" else own - margin)[:, None],
        cosine,
    )
    entropy = F.cross_entropy(logits, labels, reduction="none")
    entropy.mean().backward()
    torch.testing.assert_close(out.per_sample, entropy.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(head.centers.grad[:, 0], weights.grad, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("plus", [False, True])
@pytest.mark.parametrize("kind", ["Arc", "Cos"])
def test_gradcheck_in_the_cosine(kind, plus):
    own = numbers(0.9, 0.5, -0.3, -0.99).requires_grad_()  # the last is past pi
    loss = ElasticFace(kind, deviation=0.2, plus=plus, scale=4.0)
    assert gradcheck(lambda cosine: own_logits(loss, cosine, 1.0, -0.5, 0.2, 0.7), own)


def test_no_gradient_through_the_order():
    own = numbers(0.9, 0.5).requires_grad_()
    assert not ElasticFace(plus=True).context(rows_of(own, 1.0, 2.0))[0].requires_grad


@pytest.mark.parametrize("plus", [False, True])
def test_without_deviation_or_noise_it_is_arcface_or_cosface(plus):
    own = torch.linspace(-1, 1, 41, dtype=torch.float64)
    noise = torch.linspace(-3, 3, 41).tolist()
    for kind, fixed in (("Arc", ArcFace()), ("Cos", CosFace())):
        expected = fixed.own(own)
        without_deviation = own_logits(ElasticFace(kind, deviation=0.0, plus=plus), own, *noise)
        in_evaluation = own_logits(ElasticFace(kind, plus=plus), own)
        torch.testing.assert_close(without_deviation, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(in_evaluation, expected, rtol=0, atol=1e-12)


def test_a_head_in_evaluation_mode_has_the_mean_margin():
    torch.manual_seed(0)
    rows, labels = torch.randn(6, 4), torch.arange(6) % 3
    elastic, fixed = Head(ElasticFace("Cos"), 3, 4), Head(CosFace(), 3, 4)
    fixed.centers.data = elastic.centers.data
    assert torch.equal(elastic.eval()(rows, labels).per_sample, fixed(rows, labels).per_sample)


def test_own_logit_falls_with_the_angle_for_every_draw():
    theta = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    for drawn in (-40.0, -10.0, 0.0, 10.0, 60.0):  # margins of 0, 0, 0.5, 1 and pi
        loss = ElasticFace("Arc", 0.5, 0.05)
        logits = own_logits(loss, theta.cos(), *[drawn] * 2001)
        assert (logits.diff() < 0).all()


def test_strength_scales_the_drawn_margins():
    loss = ElasticFace("Cos", 0.4, 0.1, scale=1.0)
    loss.set_strength(0.5)
    assert own_logits(loss, numbers(0.5), 1.0).item() == pytest.approx(0.25)
    loss.set_strength(0.0)
    torch.testing.assert_close(own_logits(loss, numbers(0.5), 1.0), NormFace(1.0).own(numbers(0.5)))
