"""Margins of domains: by hand, equal ones to the last bit, and what the loss must be told before it computes."""

import pytest
import torch

from verisphere.head import Head
from verisphere.losses import ArcFace, CosFace, DomainMargins, WeightedSum
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.domain_margins import margin_of_domain

CLASSES = 6
PLAIN = {"cosine": CosFace, "angle": ArcFace}
IN_TURN = ("day", "night", "dusk") * 2
both_kinds = pytest.mark.parametrize("kind", ["cosine", "angle"])


def prepared(kind: str = "cosine", **margins: float) -> DomainMargins:
    loss = DomainMargins(margins, kind)
    loss.prepare_domains(IN_TURN)
    return loss


def results(loss: ClassLoss, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Loss, and gradients of embeddings and centers; own cosines are from -1 to 1, so that some pass 180 degrees."""
    torch.manual_seed(0)
    head = Head(loss, CLASSES, 4).to(dtype)
    labels = torch.arange(CLASSES).repeat(5)
    share = torch.linspace(-1.0, 1.0, len(labels))[:, None]
    embeddings = share * head.centers.detach()[labels, 0] + (1 - share.abs()) * torch.randn(len(labels), 4)
    embeddings = embeddings.to(dtype).requires_grad_()
    output = head(embeddings, labels)
    output.loss.backward()
    return [output.per_sample, embeddings.grad, head.centers.grad]


def test_by_hand():
    # 60 degrees. Subtracted: 0.5 - 0.1 and 0.5 - 0.35. Added: cos(1.0471976 + 0.5) and cos(1.0471976 + 0.2)
    half, domain = torch.full((2,), 0.5, dtype=torch.float64), torch.tensor([0.0, 1.0])
    assert margin_of_domain(half, domain, [0.1, 0.35], "cosine").tolist() == pytest.approx([0.4, 0.15])
    assert margin_of_domain(half, domain, [0.5, 0.2], "angle").tolist() == pytest.approx([0.0235966, 0.3179806])


def test_a_loss_by_hand():
    # own logits 4 (0.5 - 0.1) = 1.6 by day and 4 (0.5 - 0.3) = 0.8 at night, the other one 1.2: log(1 + e^-0.4) and
    # log(1 + e^0.4), of mean 0.7130
    loss = DomainMargins({"night": 0.3, "day": 0.1}, scale=4.0)
    loss.prepare_domains(["day", "night"])
    cosines = torch.tensor([[0.5, 0.3], [0.3, 0.5]])
    by_day, at_night = (float(loss.forward(cosines[[row]], torch.tensor([row]))) for row in (0, 1))
    assert (by_day, at_night) == pytest.approx((0.5130153, 0.9130153))
    assert float(loss.forward(cosines, torch.tensor([0, 1]))) == pytest.approx(0.7130153)


@both_kinds
@pytest.mark.parametrize("share", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_margins_are_the_plain_loss_to_the_bit(kind, share, dtype):
    ours, plain = prepared(kind, day=0.4, dusk=0.4, night=0.4), PLAIN[kind](0.4)
    for loss in (ours, plain):
        loss.set_strength(share)
    for left, right in zip(results(ours, dtype), results(plain, dtype), strict=True):
        assert (left == right).all()


@both_kinds
def test_each_row_has_the_loss_of_its_domain_s_margin(kind):
    (per_sample, *_) = results(prepared(kind, dusk=0.1, night=0.2, day=0.5))
    plain = {
        domain: results(PLAIN[kind](margin))[0] for domain, margin in (("dusk", 0.1), ("night", 0.2), ("day", 0.5))
    }
    for row, loss in enumerate(per_sample):
        assert loss == plain[IN_TURN[row % CLASSES]][row]


@both_kinds
def test_classes_that_are_renamed_with_their_domains_change_nothing(kind):
    torch.manual_seed(0)
    order = torch.randperm(CLASSES)  # new class c is the old order[c]
    heads = [Head(DomainMargins({"day": 0.1, "night": 0.3, "dusk": 0.2}, kind), CLASSES, 4).double() for _ in range(2)]
    heads[0].loss.prepare_domains(IN_TURN)
    heads[1].loss.prepare_domains([IN_TURN[old] for old in order.tolist()])
    heads[1].centers.data = heads[0].centers.data[order]
    embeddings, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(CLASSES).repeat(2)
    before, after = heads[0](embeddings, labels), heads[1](embeddings, order.argsort()[labels])
    torch.testing.assert_close(after.per_sample, before.per_sample)
    before.loss.backward(), after.loss.backward()
    torch.testing.assert_close(heads[1].centers.grad, heads[0].centers.grad[order])


def test_terms_of_a_sum_are_prepared():
    total = WeightedSum([DomainMargins({"day": 0.1, "night": 0.3, "dusk": 0.2}), CosFace(0.2)])
    assert total.class_domains == ("day", "night", "dusk")
    total.prepare_domains(IN_TURN)
    plain, of_domains = results(CosFace(0.2))[0], results(prepared(day=0.1, night=0.3, dusk=0.2))[0]
    torch.testing.assert_close(results(total)[0], plain + of_domains)


def test_other_losses_take_domains_and_ignore_them():
    loss = CosFace()
    assert loss.class_domains == ()
    loss.prepare_domains(None)
    loss.prepare_domains(["day"])


def test_the_domains_are_no_state():
    assert not prepared(day=0.1, night=0.3, dusk=0.2).state_dict()


def test_it_refuses_to_compute_before_it_knows_the_domains():
    head = Head(DomainMargins({"day": 0.1}), 2, 4)
    with pytest.raises(
        ValueError, match=r"^DomainMargins does not know the domain of each class; call loss.prepare_dom"
    ):
        head(torch.randn(2, 4), torch.tensor([0, 1]))
    head.loss.prepare_domains(["day", "day"])
    assert head(torch.randn(2, 4), torch.tensor([0, 1])).loss.isfinite()


def test_domains_that_do_not_fit():
    loss = DomainMargins({"day": 0.1, "night": 0.3})
    with pytest.raises(ValueError, match=r"^there are no domains, and the loss has a margin for each of day, night$"):
        loss.prepare_domains(None)
    with pytest.raises(
        ValueError, match=r"^the loss has no margin for the domain 'dusk'; it has margins for day, night$"
    ):
        loss.prepare_domains(["day", "dusk"])
    with pytest.raises(ValueError, match=r"^domains is 'day'; it must hold one name for each of the classes$"):
        loss.prepare_domains("day")
    loss.prepare_domains(["day", "night"])
    with pytest.raises(ValueError, match=r"^the loss was given domains of 2 classes, but there are 3$"):
        Head(loss, 3, 4)
    fitting = DomainMargins({"day": 0.1})
    Head(fitting, 3, 4)
    with pytest.raises(ValueError, match=r"^domains is \['day'\]; it must hold one name for each of the classes$"):
        fitting.prepare_domains(["day"])


def test_it_prints_its_arguments():
    assert repr(DomainMargins({"day": 0.1}, "angle")) == "DomainMargins(margins={'day': 0.1}, kind='angle', scale=64.0)"
