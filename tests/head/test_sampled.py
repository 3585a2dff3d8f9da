"""The sampled engine: which classes it draws, what it makes of them, and that it leaves all others alone."""

import copy
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from loss_examples import EXAMPLES, KINDS, of_all, of_kinds
from processes import run
from verisphere.base.collectives import counts, gathered
from verisphere.base.distributed import world
from verisphere.head import sampled
from verisphere.head.auto import Auto
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.interface import SGDStep, WholeEngine
from verisphere.head.sampled import Sampled, distinct, drawn, sample_size
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses.adaface import AdaFace
from verisphere.losses.auxiliary import Inter, Intra, WeightedSum
from verisphere.losses.cifp import CIFP
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.curricular import CurricularFace
from verisphere.losses.domain_margins import DomainMargins
from verisphere.losses.margin import ArcFace
from verisphere.losses.sphereface2 import SphereFace2

CLASSES, SIZE = 13, 8
INNER = {"dense": Dense(), "streamed": Streamed(chunk=5)}
AUTO = {f"auto, {few}": Auto(Streamed(chunk=5), logits=few) for few in (0, 2**20)}
SGD = {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}


@pytest.fixture
def make(example) -> Callable[[], ClassLoss]:
    return example.make


@pytest.fixture
def draws(monkeypatch) -> list[Tensor]:
    """The classes of each draw, as they come."""
    found: list[Tensor] = []

    def noted(*arguments) -> Tensor:
        found.append(drawn(*arguments))
        return found[-1]

    monkeypatch.setattr(sampled, "drawn", noted)
    return found


def accepts_nobody(loss: ClassLoss) -> bool:
    return loss.reduce == "sum" and loss.query != "own_center"


class Batch:
    """Six rows of 13 classes; a loss that accepts rows without a class gets one."""

    def __init__(self, loss: ClassLoss, dtype: torch.dtype = torch.float64) -> None:
        generator = torch.Generator().manual_seed(7)
        rows = torch.randn(6, SIZE, generator=generator, dtype=torch.float64)
        self.embeddings = (5 * rows if loss.similarity == "cosine" else rows).to(dtype)
        self.labels = torch.tensor([3, 3, 7, -1 if accepts_nobody(loss) else 0, 12, 5])
        self.weights = torch.rand(6, generator=generator, dtype=torch.float64).to(dtype)
        self.positives = self.labels[self.labels >= 0].unique()

    def run(self, *heads: tuple[float, Head, Tensor]) -> dict[str, Tensor]:
        """Loss of each row and gradients of the heads' weighted sum; a head's classes are numbered as `names` has it.

        Their centers' gradients are of all 13 classes, added up over the heads, and over names that come twice.
        """
        embeddings = self.embeddings.clone().requires_grad_()
        loss, per_sample, gradients = torch.zeros(()), torch.zeros(6), {}
        for weight, head, names in heads:
            labels = torch.tensor([-1 if one < 0 else names.tolist().index(one) for one in self.labels.tolist()])
            out = head(embeddings, labels, self.weights)
            loss, per_sample = loss + weight * out.loss, per_sample + weight * out.per_sample
        loss.backward()
        centers = torch.zeros(CLASSES, *heads[0][1].centers.shape[1:], dtype=self.embeddings.dtype)
        for _, head, names in heads:
            if head.centers.grad is not None:
                centers.index_add_(0, names, head.centers.grad)
            gradients |= {id(one): one.grad for one in head.loss.parameters() if one.grad is not None}
        rows = torch.zeros_like(embeddings) if embeddings.grad is None else embeddings.grad  # as with Inter
        found = {"loss": loss.detach(), "per_sample": per_sample, "embeddings": rows, "centers": centers}
        return found | {f"parameter {number}": one for number, one in enumerate(gradients.values())}


def stored(loss: ClassLoss, subcenters: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(8)
    centers = torch.randn(CLASSES, subcenters, SIZE + loss.class_bias, generator=generator, dtype=torch.float64)
    return centers.to(dtype)


def head_of(loss: ClassLoss, engine, names: Tensor, subcenters: int, dtype=torch.float64, **settings) -> Head:
    """A head whose class i is `names[i]` of the 13; the loss knows of 13."""
    head = Head(loss, len(names), SIZE, centers=SubCenters(subcenters, **settings), engine=engine).to(dtype)
    head.centers.data = stored(loss, subcenters, dtype)[names]
    loss.prepare(CLASSES)
    if isinstance(loss, DomainMargins):
        loss.domain_of_class = loss.domain_of_class[names]
    return head


def by_hand(make: Callable[[], ClassLoss], classes: Tensor, subcenters: int) -> dict[str, Tensor]:
    """The dense engine on the classes drawn; for a sum each random one is there as often as it counts."""
    loss = make()
    batch = Batch(loss)
    random = classes[~torch.isin(classes, batch.positives)]
    often, rest = divmod(CLASSES - len(batch.positives), len(random))
    assert rest == 0, "a class cannot be there one and a half times"
    repeated = torch.cat([batch.positives, random.repeat(often)])
    return batch.run(
        *(
            (weight, head_of(term, Dense(), repeated if term.reduce == "sum" else classes, subcenters), names)
            for weight, term in loss.terms
            for names in [repeated if term.reduce == "sum" else classes]
        )
    )


def agree(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        scale = max(float(one.double().norm()), 1e-6)
        assert float((found[name] - one).double().norm()) < tolerance * scale, name


# What is computed ---------------------------------------------------------------------------------------------------


@of_kinds()
def test_all_classes_are_the_dense_engine(make):
    every = torch.arange(CLASSES)
    dense, sampled_1 = make(), make()
    expected = Batch(dense).run((1.0, head_of(dense, Dense(), every, 3), every))
    found = Batch(sampled_1).run((1.0, head_of(sampled_1, Sampled(1.0, Streamed(chunk=5)), every, 3), every))
    agree(found, expected)


@of_all()
def test_some_classes_are_the_dense_engine_on_those(make, draws):
    check_some_classes(make, 3, Streamed(chunk=5), draws)


@of_kinds()
def test_some_classes_are_the_dense_engine_on_those_without_sub_centers(make, draws):
    check_some_classes(make, 1, Dense(), draws)


def check_some_classes(make: Callable[[], ClassLoss], subcenters: int, inner: WholeEngine, draws: list[Tensor]) -> None:
    loss, every = make(), torch.arange(CLASSES)
    batch = Batch(loss)
    size = {5: 9, 4: 7}[len(batch.positives)]  # of which 4 count twice, or 3 three times
    found = batch.run((1.0, head_of(loss, Sampled(size / CLASSES, inner), every, subcenters), every))
    (classes,) = draws
    assert len(classes) == size
    agree(found, by_hand(make, classes, subcenters))
    left_out = ~torch.isin(every, classes)
    assert found["centers"][left_out].abs().max() == 0


@pytest.mark.parametrize("inner", [*INNER.values(), *AUTO.values()], ids=[*INNER, *AUTO])
def test_pulling_sub_centers_together_is_right_on_average(inner, draws):
    """The mean distance over the classes, random ones counted as often as they stand for others."""
    settings = {"pooling": "softmax", "temperature": 0.5, "pull_together": 2.0}
    every, loss = torch.arange(CLASSES), SphereFace2()
    found = Batch(loss).run((1.0, head_of(loss, Sampled(7 / CLASSES, inner), every, 3, **settings), every))
    (classes,) = draws
    loss = SphereFace2()
    batch = Batch(loss)
    names = torch.cat([batch.positives, classes[~torch.isin(classes, batch.positives)].repeat(3)])
    agree(found, batch.run((1.0, head_of(loss, Dense(), names, 3, **settings), names)))


@pytest.mark.parametrize("inner", [Dense(), Streamed(chunk=2)], ids=["dense", "streamed"])
@pytest.mark.parametrize("name", ["SphereFace2", "Inter"])
def test_a_sum_is_right_on_average(inner, name, monkeypatch):
    """Over all draws of two others from four: loss and every gradient are the dense engine's, exactly."""
    embeddings = torch.randn(4, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    labels = torch.tensor([1, 1, 4, -1 if name == "SphereFace2" else 4])
    others, mean = [0, 2, 3, 5], {}

    def run(engine) -> dict[str, Tensor]:
        torch.manual_seed(2)
        head = Head(
            {"SphereFace2": SphereFace2, "Inter": Inter}[name](),
            6,
            SIZE,
            centers=SubCenters(2, pull_together=0.5),
            engine=engine,
        )
        head = head.double()
        rows = embeddings.clone().requires_grad_()
        out = head(rows, labels)
        out.loss.backward()
        gradients = {name: one.grad for name, one in [*head.named_parameters(), ("embeddings", rows)]}
        found = {"loss": out.loss.detach(), "per_sample": out.per_sample} | gradients
        return {name: one for name, one in found.items() if one is not None}  # Inter has none in the embeddings

    every = list(combinations(others, 2))
    for pair in every:
        chosen = torch.tensor(sorted([1, 4, *pair]))
        monkeypatch.setattr(sampled, "drawn", lambda *_, chosen=chosen: chosen)
        for key, one in run(Sampled(4 / 6, inner)).items():
            mean[key] = mean.get(key, 0) + one / len(every)
    agree(mean, run(Dense()), 1e-12)


@pytest.mark.parametrize("keep", [2**30, 0], ids=["kept", "again"])
@pytest.mark.parametrize("make", [ArcFace, SphereFace2, lambda: WeightedSum([SphereFace2(), Inter(), Intra()])],
                         ids=["ArcFace", "SphereFace2", "sum"])  # fmt: skip
def test_bfloat16_stays_near(make, keep):
    every, found = torch.arange(CLASSES), []
    for inner in (Dense(), Streamed("bfloat16", chunk=5, keep_bytes=keep)):
        loss = make()
        head = head_of(loss, Sampled(7 / CLASSES, inner), every, 1, torch.float32)
        found.append(Batch(loss, torch.float32).run((1.0, head, every)))
    agree(found[1], found[0], 5e-2)


@pytest.mark.parametrize("make", [ArcFace, CurricularFace, SphereFace2], ids=lambda one: one.__name__)
def test_compiled_is_eager(make):
    every, found = torch.arange(CLASSES), []
    for compiled in (False, True):
        loss = make()
        head = head_of(loss, Sampled(7 / CLASSES, Streamed(chunk=4, compile=compiled)), every, 3)
        found.append(Batch(loss).run((1.0, head, every)))
    agree(found[1], found[0], 1e-9)


def test_nearest_others_are_those_drawn(draws):
    """CIFP asks for them: the nearest of the classes drawn, and not those of all."""
    loss, every = CIFP(), torch.arange(CLASSES)
    head, seen = head_of(loss, Sampled(7 / CLASSES), every, 1), []
    loss.observe = lambda rows: seen.append(rows.nearest)
    batch = Batch(loss)
    head(batch.embeddings, batch.labels)
    cosine = torch.nn.functional.normalize(batch.embeddings) @ torch.nn.functional.normalize(head.centers[:, 0]).T
    cosine = cosine.detach().masked_fill(batch.labels[:, None] == every, -2.0)[:, draws[0]]
    count = min(loss.nearest, 6)
    torch.testing.assert_close(seen[0], cosine.topk(count).values)


@of_kinds()
def test_evaluation_looks_at_all_and_draws_nothing(make):
    every, found = torch.arange(CLASSES), []
    for engine in (Dense(), Sampled(0.2, Dense())):
        loss = make()
        head = head_of(loss, engine, every, 1).eval()
        found.append(Batch(loss).run((1.0, head, every)))
        if head.draws is not None:
            assert head.draws.state.tolist() == [0, 0]
    agree(found[1], found[0])


# What is touched ----------------------------------------------------------------------------------------------------

BIG = 60
TOUCHING = {
    "ArcFace": ArcFace,
    "SphereFace2": SphereFace2,
    "several": lambda: WeightedSum([ArcFace(), Intra(), Inter()]),
    "intra": Intra,
}


def rows_of(number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    rows = 3 * torch.randn(8, SIZE, generator=generator)
    return rows, torch.randint(0, BIG, (8,), generator=generator)


def steps(head: Head, optimizer: torch.optim.Optimizer, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        rows, labels = rows_of(number)
        optimizer.zero_grad()
        head(rows.to(head.centers.dtype).requires_grad_(), labels).loss.backward()
        optimizer.step()


def big_head(make=ArcFace, engine=None, subcenters=1, **settings) -> Head:
    torch.manual_seed(1)
    engine = Sampled(0.3) if engine is None else engine
    return Head(make(), BIG, SIZE, centers=SubCenters(subcenters, **settings), engine=engine).double()


@pytest.mark.parametrize("make", TOUCHING.values(), ids=TOUCHING.keys())
@pytest.mark.parametrize("inner", [Dense(), Streamed(chunk=7), Streamed("bfloat16", chunk=7)],
                         ids=["dense", "streamed", "bfloat16"])  # fmt: skip
def test_a_step_touches_the_classes_drawn_and_no_other(make, inner, draws):
    head = big_head(make, Sampled(0.3, inner), 2, pull_together=0.1)
    head = head.float() if inner == Streamed("bfloat16", chunk=7) else head
    optimizer = HeadSGD(head.parameters(), head, **SGD, nesterov=inner == Dense())  # each rule with some engine
    steps(head, optimizer, 2)
    buffer = optimizer.state[head.centers]["momentum_buffer"]
    for number in range(3):
        before = head.centers.detach().clone(), buffer.clone()
        steps(head, optimizer, 1, first=2 + number)
        left_out = torch.ones(BIG, dtype=torch.bool)
        left_out[draws[-1]] = False
        assert len(draws[-1]) == 18
        for old, new in zip(before, (head.centers.detach(), buffer), strict=True):
            assert torch.equal(new[left_out], old[left_out])
            assert (new != old).flatten(1).any(1)[~left_out].all()
    assert head.centers.grad is None
    assert buffer is optimizer.state[head.centers]["momentum_buffer"]


@pytest.mark.parametrize("make", TOUCHING.values(), ids=TOUCHING.keys())
@pytest.mark.parametrize("inner", [Dense(), Streamed(chunk=7)], ids=["dense", "streamed"])
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_a_step_is_that_of_sgd_on_those_rows(make, inner, momentum, nesterov, draws):
    """torch's SGD with the gradient of all rows, of which those not drawn are put back."""
    ours, plain = big_head(make, Sampled(0.3, inner), 2), big_head(make, Sampled(0.3, Dense()), 2)
    settings = {"lr": 0.5, "momentum": momentum, "nesterov": nesterov, "weight_decay": 0.01}
    fused, reference = HeadSGD(ours.parameters(), ours, **settings), torch.optim.SGD(plain.parameters(), **settings)
    for number in range(4):
        steps(ours, fused, 1, number)
        buffer = reference.state[plain.centers].get("momentum_buffer")
        kept = plain.centers.detach().clone(), None if buffer is None else buffer.clone()
        steps(plain, reference, 1, number)
        left_out = torch.ones(BIG, dtype=torch.bool)
        left_out[draws[-1]] = False
        with torch.no_grad():
            plain.centers[left_out] = kept[0][left_out]
            if momentum:
                buffer = reference.state[plain.centers]["momentum_buffer"]
                buffer[left_out] = 0.0 if kept[1] is None else kept[1][left_out]
        torch.testing.assert_close(ours.centers, plain.centers, rtol=1e-9, atol=1e-12)
        if momentum:
            mine = fused.state[ours.centers]["momentum_buffer"]
            torch.testing.assert_close(mine, buffer, rtol=1e-9, atol=1e-12)


class Largest(TorchDispatchMode):
    """The most numbers of a tensor that an operation made anew."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        result = function(*arguments, **(keywords or {}))
        changed = function.is_view or any(argument.alias_info for argument in function._schema.arguments)
        made = [] if changed else [one for one in pytree.tree_leaves(result) if isinstance(one, Tensor)]
        self.numbers = max([self.numbers, *(one.numel() for one in made)])
        return result


@pytest.mark.parametrize("inner", [Dense(), Streamed(), Streamed("bfloat16")], ids=["dense", "streamed", "bfloat16"])
@pytest.mark.parametrize("make", [ArcFace, SphereFace2])
def test_nothing_is_as_large_as_all_classes(make, inner):
    """Not even one number a class: 50 of 2000 classes, whose centers and products with 8 rows are 400 numbers."""
    head = Head(make(), 2000, SIZE, engine=Sampled(0.025, inner))
    optimizer = HeadSGD(head.parameters(), head, **SGD)
    steps(head, optimizer, 1)  # which makes the momentum's buffer
    with Largest() as largest:
        steps(head, optimizer, 1, first=1)
    assert 400 <= largest.numbers < 2000


def test_two_forwards_before_one_backward(draws):
    """The step is on the classes of the forward whose backward was called."""
    head = big_head()
    optimizer = HeadSGD(head.parameters(), head, **SGD)
    rows = torch.randn(4, SIZE, dtype=torch.float64).requires_grad_()
    first, _ = head(rows, torch.arange(4)), head(rows, torch.arange(20, 24))
    before = head.centers.detach().clone()
    first.loss.backward()
    optimizer.step()
    assert torch.equal((head.centers != before).flatten(1).any(1).nonzero()[:, 0], draws[0])


@pytest.mark.parametrize("inner", [Dense(), Streamed()], ids=["dense", "streamed"])
def test_both_forwards_in_one_backward(inner, draws):
    head = big_head(engine=Sampled(0.3, inner))
    rows = torch.randn(4, SIZE, dtype=torch.float64).requires_grad_()
    (head(rows, torch.arange(4)).loss + head(rows, torch.arange(20, 24)).loss).backward()
    moved = head.centers.grad.flatten(1).any(1).nonzero()[:, 0]
    assert torch.equal(moved, torch.cat(draws).unique())
    head.deferred = True
    with pytest.raises(ValueError, match="a second backward pass came before the step of the first"):
        (head(rows, torch.arange(4)).loss + head(rows, torch.arange(20, 24)).loss).backward()


@pytest.mark.parametrize("inner", [Dense(), Streamed()], ids=["dense", "streamed"])
def test_centers_changed_before_the_step_are_refused(inner):
    head = big_head(engine=Sampled(0.3, inner))
    optimizer = HeadSGD(head.parameters(), head, **SGD)
    rows = torch.randn(4, SIZE, dtype=torch.float64).requires_grad_()
    head(rows, torch.arange(4)).loss.backward()
    with torch.no_grad():
        head.centers.zero_()
    with pytest.raises(ValueError, match="the centers have changed since the backward pass of the deferred gradient"):
        optimizer.step()
    out = head(rows, torch.arange(4))
    with torch.no_grad():
        head.centers.add_(1.0)
    head.drop_deferred()
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        out.loss.backward()


def test_a_backward_that_stops_at_the_embeddings():
    head = big_head()
    head.deferred = True
    rows = torch.randn(4, SIZE, dtype=torch.float64).requires_grad_()
    (gradient,) = torch.autograd.grad(head(rows, torch.arange(4)).loss, rows)
    assert gradient.abs().sum() > 0
    assert not head.step(SGDStep(0.1))


def test_centers_that_are_not_trained():
    for inner in (Dense(), Streamed(chunk=7)):
        head = big_head(engine=Sampled(0.3, inner))
        head.centers.requires_grad_(False)
        rows = torch.randn(4, SIZE, dtype=torch.float64).requires_grad_()
        head(rows, torch.arange(4)).loss.backward()
        assert rows.grad.abs().sum() > 0
        assert head.centers.grad is None


# Which classes are drawn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("population", "count"), [(6, 2), (6, 3), (6, 5), (5, 1)])
def test_every_set_is_equally_likely(population, count):
    generator = torch.Generator().manual_seed(0)
    every = [frozenset(one) for one in combinations(range(population), count)]
    times = 300 * len(every)
    seen = Counter(frozenset(distinct(population, count, generator).tolist()) for _ in range(times))
    assert seen.keys() == set(every)
    # chi-square with one degree less than there are sets: mean that many, standard deviation sqrt(2 *)
    square = sum((seen[one] - 300) ** 2 / 300 for one in every)
    freedom = len(every) - 1
    assert square < freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize(("population", "count"), [(0, 0), (1, 0), (1, 1), (7, 7), (10**9, 1000), (100_000, 49_000)])
def test_numbers_drawn_are_different(population, count):
    numbers = distinct(population, count, torch.Generator().manual_seed(3))
    assert len(numbers.unique()) == count
    assert not count or 0 <= numbers.min() <= numbers.max() < population


def test_what_a_few_of_many_cost():
    """Nothing of the size of all classes: they would not fit."""
    classes = drawn(torch.tensor([5, 10**14]), 10**15, 100, torch.Generator().manual_seed(0))
    assert len(classes) == 100


@pytest.mark.parametrize("positives", [[], [0], [4], [0, 1, 2], [1, 3, 4], [0, 1, 2, 3, 4]])
def test_others_are_drawn_around_the_positives(positives):
    generator, seen = torch.Generator().manual_seed(0), Counter()
    count = min(len(positives) + 1, 5)
    for _ in range(500):
        classes = drawn(torch.tensor(positives, dtype=torch.int64), 5, count, generator).tolist()
        assert classes == sorted(set(classes))
        assert len(classes) == count
        assert set(positives) <= set(classes)
        seen.update(set(classes) - set(positives))
    others = set(range(5)) - set(positives)
    assert seen.keys() == others
    assert all(abs(seen[one] - 500 / len(others)) < 5 * math.sqrt(500) for one in others if len(others) > 1)


@pytest.mark.parametrize(
    ("rate", "classes", "positives", "size"),
    [
        (0.1, 1000, 64, 100),
        (1.0, 1000, 64, 1000),
        (1e-9, 1000, 8, 10),  # the batch and a quarter as many
        (0.1, 1000, 100, 128),  # more than the share: 125, and on to the next of few sizes
        (0.1, 10, 10, 10),
        (0.1, 10, 0, 1),
        (0.5, 1, 0, 1),
        (0.5, 0, 0, 0),
    ],
)
def test_how_many_are_looked_at(rate, classes, positives, size):
    assert sample_size(rate, classes, positives) == size


def test_a_sample_that_the_batch_outgrows_has_few_sizes():
    """Each size is compiled anew, and a large batch seldom has equally many classes twice."""
    sizes = {sample_size(0.01, 10**6, positives) for positives in range(60_000, 64_000)}
    assert len(sizes) <= 3
    assert all(sample_size(0.01, 10**6, positives) <= 1.34 * positives for positives in range(20_000, 70_000, 777))


@pytest.mark.parametrize("inner", [Dense(), Streamed(chunk=2)], ids=["dense", "streamed"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [2, 2, 2, 2]])
def test_a_tiny_rate_takes_the_batch_and_one_other(inner, labels, draws):
    head = Head(SphereFace2(), 4, SIZE, engine=Sampled(1e-6, inner))
    out = head(torch.randn(4, SIZE), torch.tensor(labels))
    out.loss.backward()
    assert out.per_sample.isfinite().all()
    assert [len(one) for one in draws] == ([] if len(set(labels)) == 4 else [2])
    assert bool((head.centers.grad.flatten(1).any(1).sum() == (4 if len(set(labels)) == 4 else 2)).item())


def test_labels_may_lie_apart_in_memory():
    head = Head(ArcFace(), 20, SIZE, engine=Sampled(0.25))
    labels = torch.tensor([[4, 0], [7, 0], [1, 0]])[:, 0]
    assert head(torch.randn(3, SIZE), labels).loss.isfinite()


def test_nobody_is_known(draws):
    head = Head(SphereFace2(), 20, SIZE, engine=Sampled(0.25))
    head(torch.randn(3, SIZE), torch.full((3,), -1)).loss.backward()
    assert len(draws[0]) == 5


# What stays ---------------------------------------------------------------------------------------------------------


def test_a_resumed_run_draws_the_same(draws):
    whole = big_head()
    steps(whole, HeadSGD(whole.parameters(), whole, **SGD), 3)
    kept = {name: one.clone() for name, one in whole.state_dict().items()}
    steps(whole, HeadSGD(whole.parameters(), whole, **SGD), 2, first=3)
    resumed = big_head(engine=Sampled(0.3, seed=5))  # the checkpoint's seed goes on
    resumed.load_state_dict(kept)
    steps(resumed, HeadSGD(resumed.parameters(), resumed, **SGD), 2, first=3)
    assert torch.equal(resumed.centers, whole.centers)
    assert all(torch.equal(one, other) for one, other in zip(draws[3:5], draws[5:7], strict=True))
    assert kept["draws.state"].tolist() == [0, 3]
    assert kept["draws.state"].dtype == torch.int64  # `double` has left it alone


def test_draws_differ_from_step_to_step_and_by_seed(draws):
    for seed in (0, 1):
        head = big_head(engine=Sampled(0.3, seed=seed))
        steps(head, HeadSGD(head.parameters(), head, **SGD), 3)
    assert len({tuple(one.tolist()) for one in draws}) == 6


def test_a_copy_has_its_own_state():
    head = big_head()
    twin = copy.deepcopy(head)
    assert twin.draws is twin.engine.draws
    steps(head, HeadSGD(head.parameters(), head, **SGD), 2)
    assert (head.draws.state.tolist(), twin.draws.state.tolist()) == ([0, 2], [0, 0])


def test_no_other_engine_has_a_state():
    assert "draws.state" in big_head().state_dict()
    for engine in (Dense(), Streamed(), Auto()):
        assert "draws.state" not in Head(ArcFace(), 4, SIZE, engine=engine).state_dict()


def test_state_of_a_loss_follows_all_rows():
    """AdaFace keeps a running mean of lengths, which has nothing to do with classes."""
    found = []
    for engine in (Dense(), Sampled(0.3)):
        head = big_head(AdaFace, engine)
        steps(head, torch.optim.SGD(head.parameters(), lr=0.0), 2)
        found.append([one for name, one in head.loss.named_buffers()])
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


# Several processes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen(WholeEngine):
    """The dense engine on some classes, each as often as it counts in a sum."""

    classes: Tensor
    weights: Tensor

    def view(self, centers, request):
        renamed = torch.searchsorted(self.classes, request.labels).masked_fill(request.labels < 0, -1)
        request = replace(request, labels=renamed, defer=None, class_weights=self.weights)
        return Dense().view(centers[self.classes], request)


def chosen_together(drawn_here: list[Tensor], held: range, labels: Tensor) -> Chosen:
    """What all processes have drawn for a batch, counted as each counts its own."""
    classes = drawn_here[-1] if drawn_here else torch.arange(len(held))
    mine = labels[(labels >= held.start) & (labels < held.stop)].unique() - held.start
    of_batch = torch.isin(classes, mine)
    assert of_batch.sum() == len(mine)
    weights = torch.ones(len(classes), dtype=torch.float64)
    weights[~of_batch] = (len(held) - len(mine)) / max(int((~of_batch).sum()), 1)
    sizes = counts(len(classes))
    return Chosen(gathered(classes + held.start, sizes), gathered(weights, sizes))


def in_processes() -> dict[str, dict[str, float]]:
    """What a process finds: the largest relative differences by case, and what is true of each."""
    noted: list[Tensor] = []
    sampled.drawn = lambda *arguments: noted.append(drawn(*arguments)) or noted[-1]
    sizes = {2: [4, 2], 3: [1, 3, 2]}[world().size]
    first = sum(sizes[: world().rank])
    mine = slice(first, first + sizes[world().rank])
    found: dict[str, float] = {}
    examples = EXAMPLES if world().size == 2 else KINDS  # what depends on the loss is found by two
    cases = [(*case, 3, Streamed(chunk=3)) for case in examples.items()] + [
        (*case, 1, Dense()) for case in KINDS.items()
    ]
    for name, example, subcenters, inner in cases:
        loss, noted[:] = example.make(), []
        batch = Batch(loss)
        centers = SubCenters(subcenters, pull_together=0.5 if subcenters == 3 else 0.0)
        head = Head(loss, CLASSES, SIZE, centers=centers, engine=Sharded(Sampled(0.6, inner))).double()
        held = slice(head.held.start, head.held.stop)
        head.centers.data = stored(loss, subcenters)[held]
        embeddings = batch.embeddings[mine].clone().requires_grad_()
        out = head(embeddings, batch.labels[mine], batch.weights[mine])
        out.loss.backward()
        one = example.make()
        together = chosen_together(noted, head.held, batch.labels)
        whole = Head(one, CLASSES, SIZE, centers=centers, engine=together).double()
        whole.centers.data = stored(one, subcenters)
        rows = batch.embeddings.clone().requires_grad_()
        expected = whole(rows, batch.labels, batch.weights)
        expected.loss.backward()
        pairs = [(out.loss, expected.loss), (out.per_sample, expected.per_sample[mine])]
        pairs += [(head.centers.grad, whole.centers.grad[held])] if head.centers.grad is not None else []
        pairs += [(embeddings.grad, rows.grad[mine])] if rows.grad is not None else []
        pairs += [
            (a.grad, b.grad) for a, b in zip(loss.parameters(), one.parameters(), strict=True) if b.grad is not None
        ]
        pairs += list(zip(loss.buffers(), one.buffers(), strict=True))
        pairs = [(one.detach().double(), other.detach().double()) for one, other in pairs]
        apart = [float((one - other).norm()) / max(float(other.norm()), 1e-6) for one, other in pairs]
        found[f"{name}, K = {subcenters}"] = max(apart) if all(map(math.isfinite, apart)) else math.inf
    return {"losses": found, "steps": steps_in_processes(noted)}


def steps_in_processes(noted: list[Tensor]) -> dict[str, float]:
    """1 where it is as it should be."""
    head = Head(SphereFace2(), 40, SIZE, centers=SubCenters(2), engine=Sharded(Sampled(0.3)))
    optimizer = HeadSGD(head.parameters(), head, **SGD)
    share, found = world().share(8), {}
    for number in range(4):
        rows, labels = rows_of(number)
        before = head.centers.detach().clone()
        optimizer.zero_grad()
        head(rows[share.start : share.stop].requires_grad_(), labels[share.start : share.stop] % 40).loss.backward()
        optimizer.step()
        moved = (head.centers != before).flatten(1).any(1).nonzero()[:, 0]
        found[f"step {number} touches what was drawn"] = float(torch.equal(moved, noted[-1]))
    biases = gathered(head.loss.bias[None])
    found["the bias is alike"] = float(biases.unique().numel() == 1)
    # Shards of unequal size: the first draws alone tell whether processes draw alike.
    numbers = gathered(torch.rand(1, generator=head.draws.next(torch.device("cpu"))))
    found["processes draw differently"] = float(numbers.unique().numel() == world().size)
    found["the state is the same"] = float(head.state_dict()["draws.state"].tolist() == [0, 5])
    head.eval()
    count = len(noted)
    with torch.no_grad():
        head(rows[:2], labels[:2] % 40)
    found["evaluation draws nothing"] = float(len(noted) == count and head.draws.state.tolist() == [0, 5])
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_shards_are_the_dense_engine_on_what_they_have_drawn(size):
    for found in run(in_processes, size, timeout=500):
        examples = EXAMPLES if size == 2 else KINDS
        assert found["losses"].keys() == {f"{name}, K = 3" for name in examples} | {f"{name}, K = 1" for name in KINDS}
        assert {name: one for name, one in found["losses"].items() if not one < 1e-10} == {}
        assert [name for name, one in found["steps"].items() if not one] == []


# How it is called ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, math.nan, math.inf])
def test_a_rate_out_of_range_is_refused(rate):
    said = re.escape(f"rate is {rate}; it must be in (0, 1], the share of the classes to use (0.1 is usual)")
    with pytest.raises(ValueError, match=f"^{said}$"):
        Sampled(rate)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(ValueError, match=re.escape(f"seed is {seed}; it must be in [0, 2^63)")):
        Sampled(0.1, seed=seed)


@pytest.mark.parametrize("inner", [Sampled(), Sharded(Dense())], ids=["sampled", "sharded"])
def test_an_inner_engine_that_cannot_weigh_classes_is_refused(inner):
    with pytest.raises(ValueError, match=f"inner is {type(inner).__name__}, which cannot weigh the classes drawn"):
        Sampled(0.1, inner)


def test_centers_go_on_on_another_engine():
    sampled, dense = (Head(ArcFace(), 30, 8, engine=engine) for engine in (Sampled(), Dense()))
    dense.load_state_dict(sampled.state_dict())
    assert torch.equal(dense.centers, sampled.centers)
    sampled.draws.next(torch.device("cpu"))
    kept = sampled.draws.state.clone()
    with torch.no_grad():
        dense.centers.add_(1.0)
    sampled.load_state_dict(dense.state_dict())
    assert torch.equal(dense.centers, sampled.centers)
    assert torch.equal(sampled.draws.state, kept)


def test_inference_mode():
    head = Head(ArcFace(), 30, 8, engine=Sampled())
    with torch.inference_mode():
        assert head(torch.randn(4, 8), torch.arange(4)).loss.isfinite()


def test_random_classes_are_no_fewer_than_the_batch_has_so_that_none_counts_a_hundred_times():
    for classes, positives in ((1250, 122), (300_000, 511), (10, 4)):
        size = sample_size(1e-3, classes, positives)
        assert (classes - positives) / (size - positives) <= 4 * classes / positives
