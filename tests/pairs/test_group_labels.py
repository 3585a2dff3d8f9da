"""GroupFace's self-grouping loss: by hand, to whom its gradient goes, and what it refuses."""

import pytest
import torch
from torch import Tensor

from verisphere.pairs import GlobalBatch, GroupLabels, Step, Training


def step_of(side: Tensor) -> Step:
    embeddings, labels = torch.eye(len(side), 4), torch.arange(len(side))
    return Step(GlobalBatch.of(embeddings, labels), embeddings, labels, side=side)


def test_by_hand():
    # two rows that lean to the first group, evened out to one each: -(ln 0.3 + ln 0.9) / 2 = 0.6546667
    side = torch.tensor([[0.7, 0.3], [0.9, 0.1]]).log()
    given = GroupLabels()(step_of(side))
    assert given.weights is None
    assert given.loss.item() == pytest.approx(0.06546667)
    assert given.figures == {
        "group_loss": pytest.approx(0.6546667),
        "group_largest_share": 0.5,
        "group_smallest_share": 0.5,
    }


def test_shares_tell_of_groups_that_nobody_is_in():
    side = torch.tensor([[0.0, 0.0, 9.0], [0.0, 0.0, 9.0], [0.0, 9.0, 0.0]])
    figures = GroupLabels()(step_of(side)).figures
    assert figures["group_largest_share"] == pytest.approx(2 / 3)
    assert figures["group_smallest_share"] == 0


def test_the_gradient_is_the_weighted_cross_entropy_s():
    side = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    given = GroupLabels(weight=0.3)(step_of(side))
    given.loss.backward()
    shares = side.detach().softmax(1)
    chosen = torch.nn.functional.one_hot((shares - shares.mean(0)).argmax(1), 3)
    torch.testing.assert_close(side.grad, 0.3 * (shares - chosen) / 5)


def test_no_weight_no_loss():
    assert GroupLabels(weight=0.0)(step_of(torch.randn(3, 2))).loss.item() == 0


@pytest.mark.parametrize("weight", [-0.1, float("nan"), float("inf")])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(ValueError, match=r"weight is .*; it must be a finite number >= 0"):
        GroupLabels(weight)


def test_a_backbone_without_groups_is_refused():
    with pytest.raises(ValueError, match=r"logits of at least 2 groups in training, this one returns 0; .*GroupFace"):
        GroupLabels().prepare(Training(5, 8, 4))
    GroupLabels().prepare(Training(5, 8, 4, side=2))
