"""The head over the dense engine: sub-centers, sum losses, raw products, other queries, slow state and refusals."""

import math
import re
from dataclasses import fields

import pytest
import torch
import torch.nn.functional as F

from verisphere.head.auto import Auto
from verisphere.head.dense import Dense, dense_rest
from verisphere.head.head import CENTER_STD, Head
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss, Rows
from verisphere.losses.margin import ArcFace, NormFace
from verisphere.train.recipe import Recipe

BATCH, CLASSES, SIZE = 6, 5, 4


class Softmax(ClassLoss):
    """Plain softmax with a bias."""

    similarity = "product"
    class_bias = True

    def __init__(self):
        super().__init__(1.0)


class Binary(ClassLoss):
    """One logistic regression a class, with a shared learnable bias."""

    reduce = "sum"
    linear = True

    def __init__(self, scale=8.0):
        super().__init__(scale)
        self.bias = torch.nn.Parameter(torch.tensor(0.5))
        self.classes = None

    def prepare(self, classes):
        self.classes = classes

    def context(self, rows):
        return (self.bias,)

    def own(self, cosine, bias):
        return F.softplus(-(self.scale * cosine + bias))

    def others(self, cosine, bias):
        return F.softplus(self.scale * cosine + bias)

    def finish(self, own, rest, bias):
        return own + rest


class InterClass(ClassLoss):
    """The mean cosine from the own center to the others."""

    reduce = "sum"
    query = "own_center"
    linear = True

    def __init__(self):
        super().__init__(1.0)

    def finish(self, own, rest):
        return rest


class Recorder(ClassLoss):
    """Writes down what it is given, in order."""

    def __init__(self):
        super().__init__(2.0)
        self.seen = []

    def observe(self, rows):
        self.seen.append(("observe", rows, torch.is_grad_enabled()))

    def context(self, rows):
        self.seen.append(("context", rows, torch.is_grad_enabled()))
        return (rows.length, torch.tensor(3.0))

    def own(self, cosine, length, three):
        assert length.shape == three.shape == cosine.shape
        return length * cosine

    def others(self, cosine, length, three):
        assert length.shape == three.shape == (len(cosine), 1)
        return three * cosine


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(BATCH, SIZE, generator=generator).requires_grad_(), torch.tensor([0, 1, 2, 3, 4, 2])


def head_of(loss: ClassLoss, subcenters: int = 1) -> Head:
    torch.manual_seed(1)
    return Head(loss, CLASSES, SIZE, centers=SubCenters(subcenters))


def test_loss_by_hand():
    # An embedding at 60 degrees from its center and 30 from the other, scale 2: log(1 + exp(2 cos 30 - 2 cos 60))
    head = Head(NormFace(2.0), 2, 2)
    head.centers.data = torch.tensor([[[5.0, 0.0]], [[0.0, 0.1]]])
    out = head(torch.tensor([[0.5, math.sqrt(3) / 2]]) * 7, torch.tensor([0]))
    assert out.loss.item() == pytest.approx(math.log1p(math.exp(math.sqrt(3) - 1)), rel=1e-6)


def test_class_is_as_near_as_its_nearest_subcenter():
    # Own sub-centers at 90 and 0 degrees, the other class's at 180 and 60: own cosine 1, the other's 0.5.
    head = Head(NormFace(4.0), 2, 2, centers=SubCenters(2))
    sixty = [0.5, math.sqrt(3) / 2]
    head.centers.data = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[-1.0, 0.0], sixty]])
    out = head(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert out.loss.item() == pytest.approx(math.log1p(math.exp(4 * (0.5 - 1))), rel=1e-6)
    out.loss.backward()
    assert head.centers.grad[0, 0].abs().max() == 0  # the farther ones learn nothing
    assert head.centers.grad[1, 0].abs().max() == 0
    assert head.centers.grad[1, 1].abs().max() > 0


def test_equal_subcenters_change_nothing():
    embeddings, labels = batch()
    one, three = head_of(ArcFace()), head_of(ArcFace(), subcenters=3)
    three.centers.data = one.centers.data.expand(-1, 3, -1).clone()
    torch.testing.assert_close(three(embeddings, labels).per_sample, one(embeddings, labels).per_sample)


def test_start_of_the_centers():
    head = Head(Softmax(), 400, 64, centers=SubCenters(3))
    assert head.centers.shape == (400, 3, 65)
    assert head.centers.dtype == torch.float32
    assert head.centers[..., :-1].std().item() == pytest.approx(CENTER_STD, rel=0.02)
    assert head.centers[..., -1].abs().max() == 0


def test_sum_loss_is_one_logistic_regression_a_class():
    embeddings, labels = batch()
    labels[1] = -1  # nobody: every class is a negative
    head = head_of(Binary())
    assert head.loss.classes == CLASSES
    out = head(embeddings, labels)
    logits = 8 * F.normalize(embeddings) @ F.normalize(head.centers[:, 0]).T + head.loss.bias
    targets = torch.zeros(BATCH, CLASSES)
    known = labels >= 0
    targets[known, labels[known]] = 1
    expected = F.binary_cross_entropy_with_logits(logits, targets, reduction="none").sum(1)
    torch.testing.assert_close(out.per_sample, expected.detach())
    ours = torch.autograd.grad(out.loss, [embeddings, head.centers, head.loss.bias])
    theirs = torch.autograd.grad(expected.mean(), [embeddings, head.centers, head.loss.bias])
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference)


def test_own_center_as_query():
    # Centers at 0, 60 and 90 degrees: from the first 0.5 + 0, from the second 0.5 + cos 30.
    head = Head(InterClass(), 3, 2)
    head.centers.data = torch.tensor([[[1.0, 0.0]], [[1.0, math.sqrt(3)]], [[0.0, 3.0]]])
    embeddings = torch.tensor([[9.0, 9.0], [1.0, 0.0]], requires_grad=True)
    out = head(embeddings, torch.tensor([0, 1]))
    assert out.per_sample.tolist() == pytest.approx([0.5, 0.5 + math.sqrt(3) / 2])
    out.loss.backward()
    assert head.centers.grad.abs().amax((1, 2)).min() > 0
    assert embeddings.grad is None or embeddings.grad.abs().max() == 0  # a matter between centers alone


def test_own_center_needs_one():
    with pytest.raises(ValueError, match="InterClass needs a class for every row"):
        head_of(InterClass())(torch.randn(2, SIZE), torch.tensor([0, -1]))


def test_own_center_is_the_subcenter_nearest_to_the_embedding():
    head = Head(InterClass(), 2, 2, centers=SubCenters(2))
    head.centers.data = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[-1.0, 0.0], [-1.0, 0.0]]])
    out = head(torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([0, 0]))
    assert out.per_sample.tolist() == pytest.approx([-1.0, 0.0])


def test_state_is_observed_in_training_only_and_before_the_context():
    embeddings, labels = batch()
    head = head_of(Recorder())
    head(embeddings, labels)
    head.eval()
    head(embeddings, labels)
    assert [(name, grad) for name, _, grad in head.loss.seen] == [
        ("observe", False),
        ("context", True),
        ("context", True),
    ]


def test_rows_describe_the_batch():
    embeddings, labels = batch()
    head = head_of(Recorder())
    head(embeddings, labels)
    rows: Rows = head.loss.seen[-1][1]
    torch.testing.assert_close(rows.length, embeddings.norm(dim=1))
    torch.testing.assert_close(rows.unit, F.normalize(embeddings))
    torch.testing.assert_close(rows.own, F.cosine_similarity(embeddings, head.centers[labels, 0]))
    assert torch.equal(rows.labels, labels)


def test_per_sample_has_no_gradient():
    embeddings, labels = batch()
    out = head_of(ArcFace())(embeddings, labels)
    assert out.loss.requires_grad
    assert not out.per_sample.requires_grad
    torch.testing.assert_close(out.per_sample.mean(), out.loss.detach())


def test_engine_may_be_passed_and_receives_stored_centers():
    embeddings, labels = batch()
    seen = []

    class Watched(Dense):
        def view(self, centers, *arguments):
            seen.append(centers)
            return super().view(centers, *arguments)

    named, passed = head_of(NormFace()), Head(NormFace(), CLASSES, SIZE, engine=Watched())
    passed.load_state_dict(named.state_dict())
    assert torch.equal(passed(embeddings, labels).per_sample, named(embeddings, labels).per_sample)
    assert torch.equal(seen[0], named.centers)


def test_dense_rest_leaves_out_the_own_class_alone():
    query, centers = torch.tensor([[1.0, 0.0]]), torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]], [[-1.0, 0.0]]])
    rest = dense_rest(NormFace(1.0), query, centers, torch.tensor([0]), SubCenters())
    assert rest.item() == pytest.approx(math.log(1 + math.exp(-1)))
    # a class that lives elsewhere masks nothing here
    assert dense_rest(NormFace(1.0), query, centers, torch.tensor([7]), SubCenters()).item() == pytest.approx(
        math.log(math.e + 1 + math.exp(-1))
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"embedding_size": 8}, "a head takes no embedding_size; write size=..."),
        ({"subcenters": 3}, "a head takes no subcenters; write centers=SubCenters(...)"),
        ({"pooling": "max"}, "a head takes no pooling; write centers=SubCenters(pooling=...)"),
        ({"temperature": 0.1}, "a head takes no temperature; write centers=SubCenters(temperature=...)"),
        ({"pull_together": 1.0}, "a head takes no pull_together; write centers=SubCenters(pull_together=...)"),
        ({"precision": "bfloat16"}, "a head takes no precision; write engine=Streamed(precision=...)"),
        ({"sample_rate": 0.1}, "a head takes no sample_rate; write engine=Sampled(rate=...)"),
        ({"loses": 1}, "a head takes no loses"),
    ],
)
def test_keywords_of_earlier_versions_are_answered_with_the_new_ones(arguments, message):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        Head(NormFace(), CLASSES, SIZE, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"engine": "dense"},
            "engine is 'dense'; a head takes an object of verisphere.head: Auto(), Dense(), Streamed(...), "
            "Sparse(...), Sampled(...) or Sharded(...)",
        ),
        (
            {"engine": Streamed},
            "engine is <class 'verisphere.head.streamed.Streamed'>; a head takes an object of verisphere.head: Auto(), "
            "Dense(), Streamed(...), Sparse(...), Sampled(...) or Sharded(...)",
        ),
        ({"seed": "x"}, "seed is 'x'; it must be a whole number"),
        ({"centers": 3}, "centers is 3; a head takes SubCenters(...) of verisphere.head"),
    ],
)
def test_centers_and_engine_are_objects(arguments, message):
    # The type checks of the test run refuse these before our own check can: call the latter bare.
    bare = getattr(Head.__init__, "__wrapped__", Head.__init__)
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        bare(Head.__new__(Head), NormFace(), CLASSES, SIZE, **arguments)


def test_the_default_engine_is_that_of_a_recipe():
    (field,) = (one for one in fields(Recipe) if one.name == "engine")
    assert (Head(NormFace(), CLASSES, SIZE).engine, field.default) == (Auto(), "auto")


def test_bias_beside_a_cosine_is_refused():
    loss = NormFace()
    loss.class_bias = True
    with pytest.raises(ValueError, match="NormFace asks for a class bias beside a cosine"):
        Head(loss, CLASSES, SIZE)


@pytest.mark.parametrize(
    ("embeddings", "labels", "message"),
    [
        ((2, SIZE), [0, 5], "labels reach 5 but the head has 5 classes; was the class count taken from another list?"),
        ((2, SIZE), [0, -2], "labels reach down to -2"),
        ((2, SIZE), [0, -1], r"1 labels are -1 \('no known class'\), but NormFace needs a class for every row"),
        ((0, SIZE), [], "the batch is empty"),
        ((2, 3), [0, 1], "embeddings have 3 columns but the head was built for 4"),
    ],
)
def test_batch_refusals(embeddings, labels, message):
    with pytest.raises(ValueError, match=message):
        head_of(NormFace())(torch.ones(embeddings), torch.tensor(labels, dtype=torch.int64))


@pytest.mark.cuda
def test_same_on_cuda():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    embeddings, labels = batch()
    head = head_of(ArcFace(), subcenters=3)
    here = head(embeddings, labels)
    there = head.cuda()(embeddings.cuda(), labels.cuda())
    torch.testing.assert_close(there.per_sample.cpu(), here.per_sample)
