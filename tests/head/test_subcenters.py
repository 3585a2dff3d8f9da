"""Sub-centers: pooling and spread by hand, their limits, and what is refused."""

import math

import pytest
import torch

from verisphere.head.subcenters import SubCenters, spread


def test_max_by_hand():
    cosine = torch.tensor([[0.2, -0.5, 0.7], [0.1, 0.1, -1.0]], requires_grad=True)
    pooled = SubCenters(3).pooled(cosine)
    assert pooled.tolist() == pytest.approx([0.7, 0.1])
    pooled.sum().backward()
    assert cosine.grad.tolist() == [[0, 0, 1], [0.5, 0.5, 0]]  # equal ones share


def test_softmax_by_hand():
    # cosines 0 and log(3) / 10 at temperature 0.1: weights 1/4 and 3/4
    high = math.log(3) / 10
    pooled = SubCenters(2, "softmax").pooled(torch.tensor([[0.0, high]], dtype=torch.float64))
    assert pooled.item() == pytest.approx(0.75 * high)


def test_softmax_becomes_the_maximum():
    cosine = torch.randn(5, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sharp = SubCenters(3, "softmax", temperature=1e-4).pooled(cosine)
    torch.testing.assert_close(sharp, SubCenters(3).pooled(cosine))
    flat = SubCenters(3, "softmax", temperature=1e6).pooled(cosine)
    torch.testing.assert_close(flat, cosine.mean(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["max", "softmax"])
def test_one_subcenter_is_itself(pooling):
    cosine = torch.randn(4, 1, generator=torch.Generator().manual_seed(0))
    assert torch.equal(SubCenters(1, pooling).pooled(cosine), cosine[:, 0])


def test_spread_by_hand():
    # directions at 0, 60 and 180 degrees: chords 1, 2 and 2 sin 60 = sqrt(3)
    one = [[2.0, 0.0], [0.5, math.sqrt(3) / 2], [-0.1, 0.0]]
    same = [[1.0, 1.0], [3.0, 3.0], [0.2, 0.2]]
    expected = [(1 + 2 + math.sqrt(3)) / 3, 0.0]
    assert spread(torch.tensor([one, same], dtype=torch.float64)).tolist() == pytest.approx(expected, abs=1e-12)


def test_spread_has_the_gradient_of_its_formula():
    centers = torch.randn(4, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(spread, centers)
    cosine = torch.nn.functional.cosine_similarity(centers[:, [0, 0, 1]], centers[:, [1, 2, 2]], dim=-1)
    torch.testing.assert_close(spread(centers), (2 - 2 * cosine).sqrt().mean(1))


def test_equal_and_zero_subcenters_have_a_finite_gradient():
    centers = torch.tensor([[[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]], requires_grad=True)
    spread(centers).sum().backward()
    assert centers.grad.isfinite().all()


def test_without_sub_centers_there_is_no_spread():
    assert spread(torch.ones(3, 1, 2)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"count": 0}, "count is 0; a class needs at least 1 center"),
        ({"temperature": 0.0}, "temperature is 0.0; it must be a positive number"),
        ({"pull_together": -1.0}, "pull_together is -1.0; it must be a number >= 0"),
        ({"pull_together": math.inf}, "pull_together is inf"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        SubCenters(**settings)
