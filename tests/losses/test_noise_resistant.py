"""NR: the blend of given and predicted class by hand and against explicit logits, and its limits."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

from verisphere.head.head import Head
from verisphere.head.subcenters import SubCenters
from verisphere.losses.margin import CosFace
from verisphere.losses.noise_resistant import NoiseResistant


def cos_kind(beta: float = 0.9, scale: float = 2.0) -> NoiseResistant:
    return NoiseResistant(m2=0.0, m3=0.1, scale=scale, beta=beta)


def numbers(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def test_another_class_is_predicted_by_hand():
    # logits 2 * (0.5 - 0.1) = 0.8, 1.2 and 0.2; log(e^0.8 + e^1.2 + e^0.2) = log 6.7670606 = 1.9120669
    # 0.9 * (1.9120669 - 0.8) + 0.1 * (1.9120669 - 1.2) = 1.0008602 + 0.0712067
    value = cos_kind().forward(numbers((0.5, 0.6, 0.1)), torch.tensor([0])).item()
    assert value == pytest.approx(1.0720669, abs=1e-6)


def test_a_row_that_misses_only_its_margin_counts_as_predicted_otherwise():
    # logits 2 * (0.65 - 0.1) = 1.1 and 1.2: the lead is 0.1, and log(1 + e^0.1) = 0.7443967
    value = cos_kind(beta=0.5).forward(numbers((0.65, 0.6)), torch.tensor([0])).item()
    assert value == pytest.approx(0.7443967 - 0.5 * 0.1, abs=1e-6)


def test_a_row_that_clears_its_margin_has_the_cross_entropy_alone():
    cosines, labels = numbers((0.71, 0.6, 0.1)), torch.tensor([0])
    assert torch.equal(cos_kind().forward(cosines, labels), CosFace(0.1, 2.0).forward(cosines, labels))


def test_all_of_the_given_label_is_the_margin_loss():
    cosines, labels = numbers((0.1, 0.6, 0.2), (0.9, 0.2, 0.1)), torch.tensor([0, 2])
    assert torch.equal(cos_kind(beta=1.0).forward(cosines, labels), CosFace(0.1, 2.0).forward(cosines, labels))


@pytest.mark.parametrize("beta", [0.0, 0.9])
def test_gradcheck(beta):
    loss, labels = cos_kind(beta), torch.tensor([0, 1, 2])
    cosines = numbers((0.5, 0.6, 0.1), (0.9, 0.1, 0.3), (0.1, -0.2, 0.8)).requires_grad_()
    assert gradcheck(lambda c: loss.forward(c, labels), cosines)


@pytest.mark.parametrize("subcenters", [1, 3])
def test_values_and_gradients_are_those_of_explicit_logits(subcenters):
    """Cross entropies of two labels, the second by arg max without gradient, as in the released code."""
    torch.manual_seed(0)
    head = Head(NoiseResistant(beta=0.7, scale=16.0), 7, 5, centers=SubCenters(subcenters)).double()
    embeddings, labels = torch.randn(24, 5, dtype=torch.float64).requires_grad_(), torch.arange(24) % 7
    with torch.no_grad():  # a third of the rows near their own center
        embeddings[:8] += 9 * F.normalize(head.centers[labels[:8], 0], dim=1)
    out = head(embeddings, labels)
    by_head = torch.autograd.grad(out.loss, (embeddings, head.centers))

    cosines = torch.einsum("bd,nkd->bnk", F.normalize(embeddings), F.normalize(head.centers, dim=2)).amax(2)
    is_own = F.one_hot(labels, 7).bool()
    beyond = cosines - (1 - math.cos(0.5))  # past pi - 0.5 the own logit continues to fall
    margined = torch.where(cosines.acos() <= math.pi - 0.5, (cosines.acos() + 0.5).cos(), beyond)
    logits = 16 * torch.where(is_own, margined, cosines)
    predicted = logits.argmax(1)
    assert 0 < (predicted == labels).sum() < 24
    given, other = (F.cross_entropy(logits, target, reduction="none") for target in (labels, predicted))
    per_sample = 0.7 * given + 0.3 * other
    torch.testing.assert_close(out.per_sample, per_sample.detach(), rtol=1e-9, atol=1e-9)
    explicit = torch.autograd.grad(per_sample.mean(), (embeddings, head.centers))
    for ours, theirs in zip(by_head, explicit, strict=True):
        # not closer: two classes whose cosines to a row differ by 2e-4 share its second gradient, 1 to e^-20
        torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-8)


def test_classes_that_tie_share_the_gradient():
    cosines = numbers((0.2, 0.6, 0.6, 0.1)).requires_grad_()
    loss = cos_kind(beta=0.0)
    value = loss.forward(cosines, torch.tensor([0]))
    # logits 0.2, 1.2, 1.2 and 0.2: cross entropy of 1.2; the maximum of two equals is log(2) / 1e5 too high
    total = 2 * math.exp(1.2) + 2 * math.exp(0.2)
    assert value.item() == pytest.approx(math.log(total) - 1.2 - 2 * math.log(2) / 1e5, abs=1e-9)
    value.backward()
    softmax = math.exp(1.2) / total
    assert cosines.grad[0, 1:3].tolist() == pytest.approx([2 * (softmax - 0.5)] * 2)


@pytest.mark.parametrize("beyond", ["monotone", "plain"])
def test_both_terms_have_the_same_own_logit_past_pi(beyond):
    # theta = acos(-0.99) is 3.0001 and 3.5001 with the margin, past pi: the rule for it decides
    loss = NoiseResistant(scale=2.0, beta=0.5, beyond=beyond)
    own = math.cos(math.acos(-0.99) + 0.5) if beyond == "plain" else -0.99 - math.cos(math.pi - 0.5) - 1.0
    logits = [2 * own, 0.6]
    expected = math.log(sum(map(math.exp, logits))) - logits[0] - 0.5 * (logits[1] - logits[0])
    assert loss.forward(numbers((-0.99, 0.3)), torch.tensor([0])).item() == pytest.approx(expected, abs=1e-6)


def test_the_defaults_are_those_of_the_authors_commands():
    loss = NoiseResistant()
    assert (loss.beta, loss.scale) == (0.9, 64.0)


def test_strength_scales_the_margin():
    half, direct = cos_kind(), NoiseResistant(m2=0.0, m3=0.05, scale=2.0)
    half.set_strength(0.5)
    cosines, labels = numbers((0.5, 0.6, 0.1)), torch.tensor([0])
    assert torch.equal(half.forward(cosines, labels), direct.forward(cosines, labels))
