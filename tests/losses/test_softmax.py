"""Plain softmax and COCO: values by hand, against a linear layer, and the scale that a loss needs."""

import math

import pytest
import torch
import torch.nn.functional as F

from verisphere.head.head import Head
from verisphere.losses.coco import COCO, smallest_scale
from verisphere.losses.margin import NormFace
from verisphere.losses.softmax import Softmax


def test_softmax_by_hand():
    # <w, x> + b = 3 - 2 + 0.5 = 1.5 for the own class, 2 - 1 = 1 for the other: log(1 + exp(-0.5))
    head = Head(Softmax(), 2, 2)
    head.centers.data = torch.tensor([[[3.0, -1.0, 0.5]], [[0.0, 1.0, -1.0]]])
    out = head(torch.tensor([[1.0, 2.0]]), torch.tensor([0]))
    assert out.loss.item() == pytest.approx(math.log1p(math.exp(-0.5)), rel=1e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_softmax_is_cross_entropy_over_a_linear_layer(bias):
    torch.manual_seed(0)
    embeddings, labels = torch.randn(6, 4, dtype=torch.float64).requires_grad_(), torch.tensor([0, 1, 2, 3, 4, 2])
    head = Head(Softmax(bias), 5, 4).double()
    head.centers.data.normal_()
    weight, offset = head.centers[:, 0, :4], head.centers[:, 0, 4] if bias else None
    ours = head(embeddings, labels).loss
    theirs = F.cross_entropy(F.linear(embeddings, weight, offset), labels)
    torch.testing.assert_close(ours, theirs)
    leaves = [embeddings, head.centers]
    for mine, reference in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(theirs, leaves), strict=True):
        torch.testing.assert_close(mine, reference)


def test_softmax_of_nothing_is_the_prior():
    # An embedding of length 0 has the biases for logits: log(1 + e - 0) over logits 0 and 1, own 0.
    head = Head(Softmax(), 2, 2)
    head.centers.data = torch.tensor([[[3.0, -1.0, 0.0]], [[0.0, 1.0, 1.0]]])
    assert head(torch.zeros(1, 2), torch.tensor([0])).loss.item() == pytest.approx(math.log(1 + math.e))


def test_bias_is_a_column_of_the_centers_or_none():
    assert Head(Softmax(), 3, 4).centers.shape == (3, 1, 5)
    assert Head(Softmax(bias=False), 3, 4).centers.shape == (3, 1, 4)


def test_coco_by_hand():
    # own cosine 0.5, another 0, scale 4: log(1 + exp(0 - 2))
    loss = COCO(4.0)
    own, rest = loss.own(torch.tensor([0.5])), loss.others(torch.tensor([[0.0]])).logsumexp(1)
    assert loss.finish(own, rest).item() == pytest.approx(0.126928, abs=1e-6)


def test_coco_is_normface_at_its_scale():
    cosine = torch.linspace(-1, 1, 11)
    assert torch.equal(COCO().own(cosine), NormFace(30.0).own(cosine))


def test_smallest_scale_by_hand():
    # (N - 1) / (e^reachable - 1) = 10^4 / 10^-4, half its logarithm
    assert smallest_scale(10_001, math.log1p(1e-4)) == pytest.approx(4 * math.log(10))
    assert smallest_scale(2, math.log(2)) == pytest.approx(0.0, abs=1e-15)  # two classes at scale 0 already cost log 2


def test_smallest_scale_reaches_its_loss_and_no_less():
    for classes, reachable in ((10, 0.5), (1000, 0.01), (100_000, 1e-4)):
        logits = torch.full((classes,), -1.0, dtype=torch.float64)
        logits[0] = 1.0
        loss = F.cross_entropy(smallest_scale(classes, reachable) * logits, torch.tensor(0))
        assert loss.item() == pytest.approx(reachable, rel=1e-9)


@pytest.mark.parametrize(
    ("classes", "reachable", "message"),
    [(1, 0.1, "classes is 1"), (10, 0.0, "reachable is 0.0"), (10, math.inf, "reachable is inf")],
)
def test_smallest_scale_refusals(classes, reachable, message):
    with pytest.raises(ValueError, match=message):
        smallest_scale(classes, reachable)


def test_coco_scale_is_checked():
    with pytest.raises(ValueError, match=r"scale is -1\.0"):
        COCO(-1.0)
