"""CIFP: who passes the batch's threshold, the penalty by hand, and what it does to a row's loss."""

import math

import pytest
import torch

from verisphere.decide import ordered, threshold_at
from verisphere.head.head import Head
from verisphere.head.subcenters import SubCenters
from verisphere.losses.cifp import CIFP, allowed_released, counted_penalty, passing, squared_penalty
from verisphere.losses.class_loss import Rows
from verisphere.losses.margin import CosFace

# Own cosines and the three other classes of each row. The second row's 0.9 is nearer than its own class.
OWN = torch.tensor([0.8, 0.6], dtype=torch.float64)
NEAREST = torch.tensor([[0.5, 0.4, -0.2], [0.9, 0.3, 0.1]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("allowed", "threshold", "passed"),
    [
        (0, 0.5, [[0, 0, 0], [0, 0, 0]]),
        (1, 0.4, [[1, 0, 0], [0, 0, 0]]),
        (2, 0.3, [[1, 1, 0], [0, 0, 0]]),
        (3, 0.1, [[1, 1, 0], [0, 1, 0]]),
        (6, -math.inf, [[1, 1, 1], [0, 1, 1]]),
    ],
)
def test_what_passes_by_hand(allowed, threshold, passed):
    got, at = passing(NEAREST, OWN, allowed)
    assert at.item() == threshold
    assert got.tolist() == passed


def test_ties_at_the_threshold_do_not_pass():
    got, at = passing(torch.tensor([[0.5, 0.4], [0.4, 0.3]]), torch.ones(2), 2)
    assert at.item() == pytest.approx(0.4)
    assert got.sum() == 1


@pytest.mark.parametrize("far", ["0.01", "0.1", "0.5"])
def test_the_threshold_is_that_of_decide(far):
    nearest = torch.rand(20, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores = nearest.flatten().numpy()
    _, at = passing(nearest, torch.ones(20, dtype=torch.float64), int(float(far) * 600))
    assert at.item() == threshold_at(ordered(scores, "impostor"), far)


def test_penalties_by_hand():
    passed, _ = passing(NEAREST, OWN, 3)
    # Two and one of the three allowed: instance over overall FPR is (2/3) / (3/6) and (1/3) / (3/6)
    assert counted_penalty(passed, 3).tolist() == pytest.approx([4 / 3, 2 / 3])
    assert counted_penalty(passed, 0).tolist() == [0.0, 0.0]
    # 1.8 * (0.25 + 0.16) / 2 and 1.6 * 0.09
    assert squared_penalty(passed, NEAREST, OWN).tolist() == pytest.approx([0.369, 0.144])
    assert squared_penalty(torch.zeros(2, 3).double(), NEAREST, OWN).tolist() == [0.0, 0.0]


def rows() -> Rows:
    unit = torch.eye(2, dtype=torch.float64)
    return Rows(OWN, torch.ones(2, dtype=torch.float64), unit, torch.tensor([0, 1]), NEAREST)


def test_logit_by_hand():
    loss = CIFP(margin=0.35, scale=10.0)
    loss.prepare(4)
    (penalty,) = loss.context(rows())  # two may pass: 0.5 and 0.4 of the first row
    assert loss.own(OWN, penalty).tolist() == pytest.approx([10 * (0.8 - 0.35 - 0.369), 10 * (0.6 - 0.35)])
    loss = CIFP(margin=0.35, scale=10.0, far="0.5", alpha=0.1, penalty="counted")
    loss.prepare(4)
    (penalty,) = loss.context(rows())  # half of six may pass
    assert loss.own(OWN, penalty).tolist() == pytest.approx([4.5 - 4 / 3, 2.5 - 2 / 3])


def test_the_released_threshold_by_hand():
    # One of 2 * 3 cosines is nearer than the own class. A third of the other 5 is 2, rounded up: the second largest of
    # them, 0.4, is the threshold, which only 0.5 passes.
    assert allowed_released(NEAREST, OWN, None, 4) == 1
    assert allowed_released(NEAREST, OWN, "0.5", 4) == 2  # 2.5 is 3, rounded up
    assert allowed_released(NEAREST, OWN, "0", 4) == 0
    loss = CIFP(margin=0.35, scale=10.0, threshold="released")
    loss.prepare(4)
    (penalty,) = loss.context(rows())
    assert penalty.tolist() == pytest.approx([1.8 * 0.25, 0.0])


def released_loss(cosine: torch.Tensor, labels: list[int], margin: float = 0.35, scale: float = 64.0) -> float:
    """The loss of the released code in loops over lists: its far is 1 / (N - 1), alpha 1, and no class is left out."""
    table, classes = cosine.tolist(), cosine.shape[1]
    own = [row[label] for row, label in zip(table, labels, strict=True)]
    pairs = [(row, other) for row, label in enumerate(labels) for other in range(classes) if other != label]
    included = [(row, other) for row, other in pairs if table[row][other] <= own[row]]
    rank = math.ceil(len(included) / (classes - 1))
    threshold = sorted((table[row][other] for row, other in included), reverse=True)[rank - 1]
    total = 0.0
    for number, label in enumerate(labels):
        squares = [table[row][other] ** 2 for row, other in included if row == number and table[row][other] > threshold]
        penalty = (1 + own[number]) * sum(squares) / max(len(squares), 1)
        logits = [scale * value for value in table[number]]
        logits[label] = scale * (own[number] - margin - penalty)
        total += math.log(sum(math.exp(logit - logits[label]) for logit in logits))
    return total / len(labels)


def test_the_released_code_and_the_default_rule_differ_by_the_threshold():
    """The comparison that docs/losses.md states: 16 random embeddings, 20 random centers of 8 numbers."""
    generator = torch.Generator().manual_seed(0)
    embeddings = torch.randn(16, 8, generator=generator, dtype=torch.float64)
    labels = torch.arange(16)
    losses = {}
    for threshold in ("overall", "released"):
        head = Head(CIFP(threshold=threshold), 20, 8).double()
        head.centers.data = torch.randn(20, 1, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        losses[threshold] = head(embeddings, labels).loss.item()
    unit = torch.nn.functional.normalize
    cosine = unit(embeddings) @ unit(head.centers[:, 0]).detach().T
    assert losses["released"] == pytest.approx(released_loss(cosine, labels.tolist()), rel=1e-12)
    assert losses == pytest.approx({"overall": 59.856, "released": 61.205}, abs=5e-4)


def batch(classes: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    embeddings = torch.randn(8, 5, generator=generator, dtype=torch.float64)
    return embeddings.requires_grad_(), torch.arange(8) % classes


def head_of(loss, subcenters: int = 1, classes: int = 6) -> Head:
    torch.manual_seed(3)
    return Head(loss, classes, 5, centers=SubCenters(subcenters)).double()


@pytest.mark.parametrize("subcenters", [1, 3])
@pytest.mark.parametrize("penalty", ["squared", "counted"])
def test_adding_the_penalty_to_the_others_is_the_same(penalty, subcenters):
    """The paper's words: a shift of every other cosine, in the denominator."""
    embeddings, labels = batch()
    head = head_of(CIFP(scale=8.0, far="0.2", penalty=penalty), subcenters)
    ours = head(embeddings, labels).per_sample
    unit = torch.nn.functional.normalize
    cosine = torch.einsum("bd,nkd->bnk", unit(embeddings), unit(head.centers, dim=-1)).amax(2).detach()
    own = cosine[torch.arange(8), labels]
    others = torch.stack([torch.cat([row[:y], row[y + 1 :]]) for row, y in zip(cosine, labels, strict=True)])
    kept = others[others <= own[:, None]].sort(descending=True).values
    passed = (others <= own[:, None]) & (others > kept[8])  # a fifth of 8 * 5
    assert passed.sum() == 8
    if penalty == "counted":
        shift = (passed.sum(1) / 5) / (8 / 40)
    else:
        shift = (1 + own) * (others.square() * passed).sum(1) / passed.sum(1).clamp(min=1)
    logits = torch.cat([(own - 0.35)[:, None], others + shift[:, None]], dim=1) * 8
    torch.testing.assert_close(ours, -logits.log_softmax(1)[:, 0])


def test_no_alpha_or_no_strength_is_cosface():
    embeddings, labels = batch()
    plain, without = head_of(CosFace()), head_of(CIFP(alpha=0.0))
    assert torch.equal(without(embeddings, labels).per_sample, plain(embeddings, labels).per_sample)
    weak, none = head_of(CIFP()), head_of(CosFace(0.0))
    weak.loss.set_strength(0.0)
    assert torch.equal(weak(embeddings, labels).per_sample, none(embeddings, labels).per_sample)


def test_a_penalised_row_pulls_harder():
    embeddings, labels = batch()
    ours, theirs = head_of(CIFP(scale=4.0, far="0.2")), head_of(CosFace(scale=4.0))
    out, plain = ours(embeddings, labels), theirs(embeddings, labels)
    penalised = out.per_sample > plain.per_sample
    assert 0 < penalised.sum() < 8
    torch.testing.assert_close(out.per_sample[~penalised], plain.per_sample[~penalised])
    (pull,) = torch.autograd.grad(out.loss, embeddings)
    (plain_pull,) = torch.autograd.grad(plain.loss, embeddings)
    assert (pull[penalised].norm(dim=1) > plain_pull[penalised].norm(dim=1)).all()


def test_rows_without_their_nearest_are_refused():
    with pytest.raises(ValueError, match=r"rows\.nearest is None; a head for CIFP must fill it with 64 cosines a row"):
        CIFP().context(Rows(OWN, torch.ones(2).double(), torch.eye(2).double(), torch.tensor([0, 1])))
