"""A loss without a head: its reference value from cosines, and what `print` shows of it."""

import re

import pytest
import torch

import verisphere.losses
from loss_examples import InTurn, of_all
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.losses import AdaFace, ArcFace, ClassLoss, MagFace, NormFace, VSoftmax
from verisphere.losses.class_loss import compared_rows

BATCH, CLASSES, SIZE = 12, 7, 10


def what_is_lacking(loss: ClassLoss) -> str:
    """What a matrix of cosines does not tell of this loss; nothing for most."""
    if any(term.query == "own_center" for _, term in loss.terms):
        return "compares the centers: use a head"
    if isinstance(loss, VSoftmax):
        return "reads the embeddings: use a head"
    by_length = isinstance(loss, AdaFace | MagFace) or getattr(loss, "by_length", False)
    return "reads the lengths of the embeddings: give norms=" if by_length else ""


@of_all()
def test_forward_of_cosines_is_the_loss_of_a_dense_head(example):
    loss = example.make().double()
    random = torch.Generator().manual_seed(3)
    embeddings = 5 * torch.randn(BATCH, SIZE, generator=random, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=random)
    embeddings.requires_grad_()
    head = Head(example.make(), CLASSES, SIZE, engine=Dense()).double().eval()
    if example.accepts_nobody:
        labels[2] = -1
    query = compared_rows(embeddings, loss.similarity)
    if loss.class_bias:
        query = torch.cat([query, query.new_ones(BATCH, 1)], 1)
    cosines = query @ compared_rows(head.centers[:, 0], loss.similarity).T
    state = {key: value.clone() for key, value in loss.state_dict().items()}
    if lacking := what_is_lacking(loss):
        with pytest.raises(ValueError, match=f"cannot be computed from cosines alone; it {lacking}$"):
            loss.forward(cosines, labels)
    if lacking.endswith("use a head"):
        return
    norms = embeddings.norm(dim=1) if lacking else None
    reference, value = head(embeddings, labels).loss, loss.forward(cosines, labels, norms=norms)
    torch.testing.assert_close(value, reference, rtol=1e-6, atol=0.0)  # the head's bias was float32
    ours, theirs = (torch.autograd.grad(number, embeddings, retain_graph=True)[0] for number in (value, reference))
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
    assert loss.state_dict().keys() == state.keys()
    assert all(torch.equal(loss.state_dict()[key], value) for key, value in state.items())


@pytest.mark.parametrize(
    ("cosines", "labels", "said"),
    [
        (5 * torch.ones(2, 3), [0, 1], "cosines reach 5 in absolute value; they must lie in [-1, 1]: are they embedd"),
        (torch.full((2, 3), torch.nan), [0, 1], "cosines reach nan in absolute value"),
        (torch.ones(3), [0, 1, 2], "cosines are torch.float32 of shape (3,); they must be floating-point numbers"),
        (torch.ones(2, 3), [[0], [1]], "labels have shape (2, 1); a batch of 2 takes one a row"),
        (torch.ones(2, 3), [0, 3], "labels reach from 0 to 3, but cosines have 3 classes"),
        (torch.ones(2, 3), [0.0, 1.0], "labels are torch.float32; they must be int64 class numbers"),
        (torch.ones(2, 3), [0, -1], "a label is -1 ('no known class'), but NormFace needs a class for every row"),
    ],
)
def test_forward_says_what_is_wrong(cosines, labels, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        NormFace().forward(cosines, torch.tensor(labels))


def test_forward_refuses_cosines_to_other_classes_than_the_head_of_the_loss():
    head = Head(NormFace(), CLASSES, SIZE)
    with pytest.raises(ValueError, match="cosines have 3 columns, but the loss belongs to 7 classes"):
        head.loss.forward(torch.ones(2, 3), torch.tensor([0, 1]))


@of_all(lambda example: example.is_single)
def test_a_printed_loss_can_be_typed_again(example):
    """The arguments stand there as the caller names them, and give the same loss."""
    loss = example.make()
    written = repr(loss).split(" (additive")[0] + (")" if " (additive" in repr(loss) else "")
    again = eval(written, vars(verisphere.losses) | {"InTurn": InTurn})
    assert repr(again) == repr(loss)


def test_arguments_are_printed_as_typed():
    assert repr(ArcFace(margin=0.4)) == "ArcFace(margin=0.4, scale=64.0, gradient='exact', beyond='monotone', t=1.0)"
