"""V-Softmax: the virtual class by hand, beside real classes that must still count."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from verisphere.head.head import Head
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import NormFace
from verisphere.losses.v_softmax import VSoftmax, virtual_cosines


def head_of(loss, *centers_deg: float) -> Head:
    head = Head(loss, len(centers_deg), 2).double()
    head.centers.data = directions(*centers_deg)[:, None]
    return head


def directions(*degrees: float) -> torch.Tensor:
    theta = torch.tensor(degrees, dtype=torch.float64).deg2rad()
    return torch.stack([theta.cos(), theta.sin()], dim=1)


def test_own_direction_by_hand():
    # Own cosine 0.5, the other's 0, the virtual one's 1, scale 2: log(e + 1 + e^2) - 1
    head = head_of(VSoftmax(2.0), 60.0, 90.0)
    assert head(3 * directions(0.0), torch.tensor([0])).loss.item() == pytest.approx(1.4076060, abs=1e-7)


def test_batch_by_hand():
    # A second row at 90 degrees with another label is one more virtual class, of cosine 0: log(e + 1 + e^2 + 1) - 1
    head = head_of(VSoftmax(2.0, virtual="batch"), 60.0, 90.0)
    out = head(directions(0.0, 90.0), torch.tensor([0, 1]))
    assert out.per_sample[0].item() == pytest.approx(1.4938117, abs=1e-7)
    # The second is on its center, own cosine 1 and the other's cos 30: log(e^2 + e^1.7320508 + e^2 + 1) - 2
    expected = math.log(2 * math.exp(2) + math.exp(math.sqrt(3)) + 1) - 2
    assert out.per_sample[1].item() == pytest.approx(expected)


def test_rows_of_the_same_label_are_no_virtual_classes_but_the_row_itself_is():
    cosines = virtual_cosines(directions(0.0, 60.0, 90.0), torch.tensor([4, 4, 2]))
    none = -math.inf
    expected = torch.tensor([[1.0, none, 0.0], [none, 1.0, math.sqrt(3) / 2], [0.0, math.sqrt(3) / 2, 1.0]])
    torch.testing.assert_close(cosines, expected.double())


@pytest.mark.parametrize("virtual", ["own", "batch"])
def test_real_classes_still_count(virtual):
    """The virtual class is the largest logit of all, so a loss that lost the real ones would hardly change."""
    embeddings, labels = directions(0.0, 80.0), torch.tensor([0, 1])
    far, near = (head_of(VSoftmax(4.0, virtual=virtual), 20.0, 80.0, other) for other in (180.0, 0.0))
    one, another = far(embeddings, labels), near(embeddings, labels)
    # The third class came from cosine -1 to 1: the first row's sum grows by e^4 - e^-4
    total = (one.per_sample[0] + 4 * math.cos(math.radians(20))).exp() + math.exp(4) - math.exp(-4)
    assert another.per_sample[0].item() == pytest.approx(total.log().item() - 4 * math.cos(math.radians(20)))
    another.loss.backward()
    assert near.centers.grad.abs().amax((1, 2)).min() > 0.01  # own and others alike


def test_the_own_direction_pulls_at_the_own_center_even_when_all_is_right():
    plain, virtual = (head_of(loss, 1.0, 180.0) for loss in (NormFace(32.0), VSoftmax(32.0)))
    for head in (plain, virtual):
        head(directions(0.0), torch.tensor([0])).loss.backward()
    assert plain.centers.grad[0].norm() < 1e-20
    assert virtual.centers.grad[0].norm() > 0.1  # 32 / 2 * sin(1 degree)


@pytest.mark.parametrize("virtual", ["own", "batch"])
def test_gradcheck(virtual):
    embeddings = (3 * directions(0.0, 30.0, 100.0, 200.0)).requires_grad_()
    head, labels = head_of(VSoftmax(8.0, virtual=virtual), 20.0, 110.0, 250.0), torch.tensor([0, 0, 1, 2])
    centers = head.centers.detach().clone().requires_grad_()

    def losses(embeddings, centers):
        return torch.func.functional_call(head, {"centers": centers}, (embeddings, labels)).loss

    assert gradcheck(losses, (embeddings, centers))


def test_no_strength_is_normface_and_half_is_half_a_class():
    loss = VSoftmax(2.0)
    own, rest = torch.tensor([1.0, -1.0]), torch.tensor([0.0, 2.0])
    unit = torch.eye(2)
    (virtual,) = loss.context(Rows(own, torch.ones(2), unit, torch.tensor([0, 1])))
    assert virtual.tolist() == [2.0, 2.0]
    loss.set_strength(0.0)
    assert torch.equal(loss.finish(own, rest, virtual), NormFace(2.0).finish(own, rest))
    loss.set_strength(0.5)
    # log(e + 1 + e^2 / 2) - 1
    assert loss.finish(own, rest, virtual)[0].item() == pytest.approx(math.log(math.e + 1 + math.exp(2) / 2) - 1)


def test_a_single_class_still_meets_its_virtual_one():
    # log(e^2 + e) - 1 = log(1 + e)
    out = head_of(VSoftmax(2.0), 60.0)(directions(0.0), torch.tensor([0]))
    assert out.loss.item() == pytest.approx(math.log(1 + math.e))
