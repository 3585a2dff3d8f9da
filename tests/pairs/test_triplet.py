"""Angular triplets: by hand, against all triplets laid out under autograd, and in several processes."""

import itertools
import logging
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from processes import run
from verisphere.base.collectives import gathered
from verisphere.base.distributed import world
from verisphere.base.vocabulary import NO_CLASS
from verisphere.pairs import AngularTriplet, Step, Training
from verisphere.pairs.pair_term import GlobalBatch
from verisphere.pairs.triplet import AT_ONCE, Mining, hinge, triplets
from verisphere.score.cosine import angle, unit
from verisphere.score.stored import EMPTY, Stored

MININGS: tuple[Mining, ...] = "all", "hard", "semihard"


def at(*degrees: float) -> Tensor:
    """Points of the unit circle."""
    angles = torch.tensor(degrees, dtype=torch.float64) * math.pi / 180
    return torch.stack([angles.cos(), angles.sin()], 1)


def laid_out(
    units: Tensor, labels: Tensor, stored: Stored | None, margin: float, mining: Mining
) -> tuple[Tensor, int, int, int]:
    """Mean hinge, triplets, active ones and anchors, one after another, under autograd."""
    rows, whose = units, labels
    if stored is not None:
        rows, whose = torch.cat([units, stored.rows.to(units)]), torch.cat([labels, stored.labels])
    theta = angle(units @ rows.T)
    far = theta.tolist()
    hinges, anchors = [], set()
    for a in range(len(labels)):
        if labels[a] < 0:
            continue
        positives = [c for c in range(len(rows)) if c != a and whose[c] == labels[a]]
        negatives = [c for c in range(len(rows)) if whose[c] not in (labels[a], EMPTY)]
        if mining == "hard" and positives:
            positives = [max(positives, key=far[a].__getitem__)]
        for p in positives:
            chosen = [n for n in negatives if mining != "semihard" or far[a][n] > far[a][p]]
            if mining != "all" and chosen:
                chosen = [min(chosen, key=far[a].__getitem__)]
            for n in chosen:
                hinges.append((theta[a, p] + margin - theta[a, n]).clamp(min=0))
                anchors.add(a)
    summed = sum(hinges, units.sum() * 0)
    return summed / max(len(hinges), 1), len(hinges), sum(one.item() > 0 for one in hinges), len(anchors)


def some(
    seed: int, rows: int = 12, dim: int = 5, people: int = 4, kept: int = 0
) -> tuple[Tensor, Tensor, Stored | None]:
    """A batch, whose it is, and stored rows; some of nobody, some places empty."""
    random = torch.Generator().manual_seed(seed)
    units = unit(torch.randn(rows, dim, generator=random, dtype=torch.float64))
    labels = torch.randint(-1, people, (rows,), generator=random)
    if not kept:
        return units, labels, None
    stored = unit(torch.randn(kept, dim, generator=random)).bfloat16()
    return units, labels, Stored(stored, torch.randint(-2, people, (kept,), generator=random))


# By hand ------------------------------------------------------------------------------------------------------------


def test_a_hinge_by_hand():
    # 30 degrees to the positive, 40 to the negative: 10 are missing of a margin of 20, 15 are enough of one of 10
    positive, negative = torch.tensor([0.5236, 0.5236]), torch.tensor([0.6981, 0.7854])
    torch.testing.assert_close(hinge(positive, negative, 0.3491), torch.tensor([0.1746, 0.0873]), atol=1e-6, rtol=0)
    assert hinge(positive, negative, 0.1).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("mining", "hinges", "active", "anchors"),
    [
        # Person 0 at 0 and 30 degrees, person 1 at 40, nobody at 100; m is 20 degrees. The anchor at 0 has its positive
        # at 30: 30 + 20 - 40 = 10, and 30 + 20 - 100 < 0; that at 30: 30 + 20 - 10 = 40, and 30 + 20 - 70 < 0.
        ("all", [10, 0, 40, 0], 2, 2),
        ("hard", [10, 40], 2, 2),
        # farther than the positive: from 0 that at 40; from 30 that at 100, beyond the margin
        ("semihard", [10, 0], 1, 2),
    ],
)
def test_triplets_by_hand(mining, hinges, active, anchors):
    found = triplets(at(0, 30, 40, 100), torch.tensor([0, 0, 1, NO_CLASS]), None, math.radians(20), mining)
    assert float(found.value) == pytest.approx(math.radians(sum(hinges)) / len(hinges))
    assert (found.count, found.active, found.anchors) == (len(hinges), active, anchors)


def test_a_gradient_by_hand():
    # anchors at 0 and 10, the negative at 20: each row may turn. The hinges are t10 - t0 + m - (t20 - t0) and
    # t10 - t0 + m - (t20 - t10), in angles t: their mean falls by 1/2 for t0, rises by 3/2 for t10, falls by 1 for t20
    degrees = torch.tensor([0.0, 10.0, 20.0], dtype=torch.float64)
    found = triplets(at(*degrees.tolist()), torch.tensor([0, 0, 1]), None, 0.35, "all")
    along = at(*(degrees + 90).tolist())  # where a row goes as its angle grows
    turning = (found.gradient * along).sum(1)
    torch.testing.assert_close(turning, torch.tensor([-0.5, 1.5, -1.0], dtype=torch.float64))
    assert float(found.value) == pytest.approx((2 * 0.35 + 2 * math.radians(10) - math.radians(30)) / 2)


@pytest.mark.parametrize("mining", MININGS)
@pytest.mark.parametrize("labels", [[0, 1, 2], [0, 0, 0], [NO_CLASS, NO_CLASS, 1], []])
def test_no_triplet(mining, labels):
    rows = at(0, 40, 90)[: len(labels)]
    found = triplets(rows, torch.tensor(labels, dtype=torch.int64), None, 0.35, mining)
    assert (float(found.value), found.count, found.active, found.anchors) == (0.0, 0, 0, 0)
    assert found.gradient.shape == rows.shape
    assert not found.gradient.any()


@pytest.mark.parametrize("mining", MININGS)
def test_the_same_image_twice_has_a_finite_gradient(mining):
    found = triplets(at(10, 10, 10, 190), torch.tensor([0, 0, 1, 2]), None, 0.35, mining)
    assert found.gradient.isfinite().all()
    assert found.value.isfinite()


# Against all of them laid out ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rows=st.integers(1, 14),
    people=st.integers(1, 5),
    kept=st.sampled_from([0, 1, 20]),
    mining=st.sampled_from(MININGS),
    margin=st.sampled_from([0.0, 0.35, math.pi]),
    at_once=st.sampled_from([1, 7, 50, AT_ONCE["cpu"]]),
)
def test_it_is_what_all_triplets_laid_out_give(seed, rows, people, kept, mining, margin, at_once):
    units, labels, stored = some(seed, rows, people=people, kept=kept)
    found = triplets(units, labels, stored, margin, mining, at_once)
    leaf = units.clone().requires_grad_()
    value, count, active, anchors = laid_out(leaf, labels, stored, margin, mining)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert (found.count, found.active, found.anchors) == (count, active, anchors)
    torch.testing.assert_close(found.value, value.detach(), atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(found.gradient, gradient, atol=1e-12, rtol=1e-12)


def test_not_all_triplets_at_once(monkeypatch: pytest.MonkeyPatch):
    """512 images of 128 people have 780,288 triplets, whose hinges are made in runs of pairs and of candidates."""
    largest = [0]

    def watched(positive: Tensor, negative: Tensor, margin: float) -> Tensor:
        largest.append(negative.numel())
        return hinge(positive, negative, margin)

    monkeypatch.setattr("verisphere.pairs.triplet.hinge", watched)
    units = unit(torch.randn(512, 8, generator=torch.Generator().manual_seed(0)))
    found = triplets(units, torch.arange(512) // 4, None, 0.35, "all", at_once=1 << 16)
    assert found.count == 512 * 3 * 508
    assert max(largest) <= 1 << 16


# The term -----------------------------------------------------------------------------------------------------------


def step_of(embeddings: Tensor, labels: Tensor, number: int = 0) -> Step:
    return Step(GlobalBatch.of(embeddings, labels), embeddings, labels, number)


def test_its_loss_is_weighted_and_its_figures_are_not():
    embeddings, labels = (3 * at(0, 30, 40, 100).float()).requires_grad_(), torch.tensor([0, 0, 1, NO_CLASS])
    given = AngularTriplet(math.radians(20), "all", weight=2.0)(step_of(embeddings, labels))
    assert given.loss is not None
    assert given.loss.item() == pytest.approx(2 * math.radians(50) / 4)
    assert given.weights is None
    expected = {"triplet_loss": math.radians(50) / 4, "triplet_active": 0.5, "triplet_anchors": 2.0}
    assert dict(given.figures) == pytest.approx(expected)
    given.loss.backward()
    leaf = embeddings.detach().double().requires_grad_()
    (2 * laid_out(unit(leaf), labels, None, math.radians(20), "all")[0]).backward()
    torch.testing.assert_close(embeddings.grad, leaf.grad.float(), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("mining", MININGS)
def test_the_memory_holds_earlier_batches_and_not_this_one(mining):
    term = AngularTriplet(0.35, mining, memory=2, valid_steps=2)
    term.prepare(Training(3, 2, 3))
    batches = [(at(0, 70, 50), [0, 1, 2]), (at(20, 80, 45), [0, 1, 2]), (at(-10, 95, 60), [0, 1, 2])]
    batches.append((at(5, 85, 33), [0, 1, 2]))
    for number, (rows, whose) in enumerate(batches):
        labels = torch.tensor(whose)
        # usable for two steps, that of the insertion counted, in which the batch itself has them: one step is left
        earlier = batches[max(number - 1, 0) : number]
        stored = Stored(rows[:0].float(), labels[:0])
        if earlier:
            stored = Stored(earlier[0][0].float(), torch.tensor(earlier[0][1]))
        given = term(step_of(rows.float().requires_grad_(), labels, number))
        value, _, _, anchors = laid_out(rows, labels, stored, 0.35, mining)
        assert given.figures["triplet_loss"] == pytest.approx(float(value), abs=1e-6)
        assert given.figures["triplet_anchors"] == anchors
        assert (anchors > 0) == bool(number)
    assert term.held().keys() == {"memory.features", "memory.until"}
    assert AngularTriplet().held() == {}


def test_a_batch_without_triplets_is_said_once(caplog: pytest.LogCaptureFixture):
    term = AngularTriplet()
    embeddings = at(0, 40, 90).float().requires_grad_()
    with caplog.at_level(logging.WARNING, "verisphere"):
        for number in range(3):
            given = term(step_of(embeddings, torch.arange(3), number))
            assert given.loss is not None
            assert given.loss.item() == 0.0
            assert dict(given.figures) == {"triplet_loss": 0.0, "triplet_active": 0.0, "triplet_anchors": 0.0}
    (record,) = caplog.records
    assert record.getMessage() == (
        "step 1: a batch of 3 images has no triplet, which needs two images of one person and one of another; "
        "images_per_identity sets how many images of each person a batch contains"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"margin": 4.0}, "margin is 4.0; it is an angle in radians, from 0 to pi"),
        ({"margin": math.nan}, "margin is nan; it is an angle in radians, from 0 to pi"),
        ({"weight": -1.0}, "weight is -1.0; it must be a number and not negative"),
        ({"weight": math.inf}, "weight is inf; it must be a number and not negative"),
        ({"memory": -1}, "memory is -1; it must be at least 0"),
        ({"memory": 1, "valid_steps": 0}, "valid_steps is 0; it must be at least 1"),
    ],
)
def test_what_is_not_allowed(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole message is compared below
        AngularTriplet(**arguments)
    assert str(caught.value) == message


# Several processes --------------------------------------------------------------------------------------------------


def trained(steps: int = 3) -> dict[str, list[Tensor]]:
    """Losses, figures and everyone's gradients of some steps, of each mining, without and with a memory."""
    found: dict[str, list[Tensor]] = {}
    for mining, memory in itertools.product(MININGS, (0, 2)):
        term = AngularTriplet(0.35, mining, memory=memory)
        term.prepare(Training(5, 6, 13))
        said = found.setdefault(f"{mining}, {memory}", [])
        for number in range(steps):
            random = torch.Generator().manual_seed(number)
            rows, labels = torch.randn(13, 6, generator=random), torch.randint(-1, 5, (13,), generator=random)
            # uneven shares, the last process's empty
            size, rank = world().size, world().rank
            bounds = [0, 13] if size == 1 else [0, 9, 13] if size == 2 else [0, 9, 13, 13]
            own, mine = rows[bounds[rank] : bounds[rank + 1]].requires_grad_(), labels[bounds[rank] : bounds[rank + 1]]
            given = term(step_of(own, mine, number))
            assert given.loss is not None
            given.loss.backward()
            sizes = [last - first for first, last in itertools.pairwise(bounds)]
            assert own.grad is not None
            said += [given.loss.detach(), gathered(own.grad, sizes), torch.tensor(list(given.figures.values()))]
    return found


@pytest.mark.parametrize("size", [2, 3])
def test_several_processes_say_what_one_says(size):
    expected = trained()
    assert all(float(said[0]) > 0 for said in expected.values() if len(said))
    for found in run(trained, size):
        for name, said in expected.items():
            for ours, alone in zip(found[name], said, strict=True):
                torch.testing.assert_close(ours, alone, atol=2e-6, rtol=1e-5)
