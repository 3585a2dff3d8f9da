"""Intra and inter terms by hand, and sums of losses against the same losses apart."""

import math

import pytest
import torch

from verisphere.head.head import Head
from verisphere.losses.a_softmax import ASoftmax
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.margin import ArcFace, NormFace
from verisphere.losses.softmax import Softmax


def directions(*degrees: float) -> torch.Tensor:
    theta = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([theta.cos(), theta.sin()], dim=1)


def head_of(loss, *centers_deg: float) -> Head:
    head = Head(loss, len(centers_deg), 2).double()
    head.centers.data = 2 * directions(*centers_deg)[:, None]
    return head


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(6, 4, generator=generator, dtype=torch.float64)
    return embeddings.requires_grad_(), torch.tensor([0, 1, 2, 3, 4, 2])


def seeded_head(loss) -> Head:
    torch.manual_seed(1)
    return Head(loss, 5, 4).double()


def test_intra_is_the_angle_over_pi():
    embeddings = directions(0.0).requires_grad_()
    out = head_of(Intra(), 60.0, 200.0)(5 * embeddings, torch.tensor([0]))
    assert out.loss.item() == pytest.approx(1 / 3)
    out.loss.backward()
    # d theta / pi along the circle, one way round; the radius does not matter
    assert embeddings.grad[0].tolist() == [pytest.approx(0.0, abs=1e-12), pytest.approx(-1 / math.pi)]


def test_intra_looks_at_no_other_center():
    head = head_of(Intra(), 60.0, 200.0)
    head(directions(0.0), torch.tensor([0])).loss.backward()
    assert head.centers.grad[0].abs().max() > 0
    assert head.centers.grad[1].abs().max() == 0
    assert head(directions(0.0), torch.tensor([-1])).loss.item() == 0.0  # nobody has no center to be near to


def test_inter_is_the_mean_nearness_of_the_other_centers():
    # From 0 degrees, centers at 60 and 90: (120 + 90) / 360; from 60, at 60 and 30 degrees: (120 + 150) / 360
    head = head_of(Inter(), 0.0, 60.0, 90.0)
    out = head(directions(10.0, 200.0), torch.tensor([0, 1]))
    assert out.per_sample.tolist() == pytest.approx([210 / 360, 270 / 360])


def test_inter_turns_the_centers_away_from_each_other_at_a_constant_rate():
    head = head_of(Inter(), 0.0, 60.0)
    embeddings = directions(3.0).requires_grad_()
    head(embeddings, torch.tensor([0])).loss.backward()
    # -1/pi for each radian between the centers, which are of length 2: the first turns down, the second up
    first, second = head.centers.grad[:, 0]
    assert first.tolist() == [pytest.approx(0.0, abs=1e-12), pytest.approx(0.5 / math.pi)]
    assert (-second @ directions(150.0)[0]).item() == pytest.approx(0.5 / math.pi)
    assert embeddings.grad is None or embeddings.grad.abs().max() == 0


@pytest.mark.parametrize("degrees", [0.0, 180.0])
def test_inter_has_a_finite_gradient_where_centers_coincide_or_oppose(degrees):
    head = head_of(Inter(), 0.0, degrees)
    out = head(directions(0.0), torch.tensor([0]))
    out.loss.backward()
    assert out.loss.item() == pytest.approx(1.0 - degrees / 180)
    assert head.centers.grad.isfinite().all()


def test_sum_is_the_sum_of_its_terms_and_of_their_gradients():
    embeddings, labels = batch()
    terms, weights = [ArcFace(), Intra(), Inter()], [1.0, 0.5, 2.0]
    whole = seeded_head(WeightedSum(terms, weights))
    out = whole(embeddings, labels)
    ours = torch.autograd.grad(out.loss, [embeddings, whole.centers])
    parts = [seeded_head(term) for term in (ArcFace(), Intra(), Inter())]
    outs = [part(embeddings, labels) for part in parts]
    expected = sum(weight * part.per_sample for weight, part in zip(weights, outs, strict=True))
    torch.testing.assert_close(out.per_sample, expected)
    sum(weight * part.loss for weight, part in zip(weights, outs, strict=True)).backward()
    torch.testing.assert_close(ours[0], embeddings.grad)
    torch.testing.assert_close(ours[1], sum(part.centers.grad for part in parts))


def test_sum_of_one_is_that_loss():
    embeddings, labels = batch()
    plain, summed = seeded_head(ArcFace()), seeded_head(WeightedSum([ArcFace()]))
    assert torch.equal(summed(embeddings, labels).per_sample, plain(embeddings, labels).per_sample)


def test_sums_unroll_and_multiply_their_weights():
    arcface, intra, inter = ArcFace(), Intra(), Inter()
    loss = WeightedSum([arcface, WeightedSum([intra, inter], [2.0, 3.0])], [1.0, 0.5])
    assert loss.terms == ((1.0, arcface), (1.0, intra), (1.5, inter))


def test_sum_passes_on_strength_classes_and_observations():
    loss = WeightedSum([ASoftmax(), Inter()])
    annealed, inter = (term for _, term in loss.terms)
    head = seeded_head(loss)
    assert inter.slope() == 1 / 4
    head(*batch())
    assert annealed.steps.item() == 1
    loss.set_strength(0.25)
    assert loss.strength == annealed.strength == inter.strength == 0.25
    assert "losses.0.steps" in loss.state_dict()


def test_sum_takes_unknown_labels_only_if_every_term_does():
    embeddings, labels = batch()
    labels[0] = -1
    for loss in (WeightedSum([NormFace(), Intra()]), WeightedSum([Intra(), Inter()])):
        with pytest.raises(ValueError, match="WeightedSum needs a class for every row"):
            seeded_head(loss)(embeddings, labels)
    assert seeded_head(WeightedSum([Intra(), Intra()]))(embeddings, labels).per_sample[0] == 0


def test_sum_keeps_the_bias_column():
    assert Head(WeightedSum([Softmax(), Softmax()]), 3, 4).centers.shape == (3, 1, 5)


def test_a_sum_has_no_terms_of_its_own():
    loss = WeightedSum([NormFace()])
    for call in (lambda: loss.own(torch.ones(1)), lambda: loss.others(torch.ones(1, 1))):
        with pytest.raises(NotImplementedError, match="use its `terms`"):
            call()
