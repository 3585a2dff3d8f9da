"""One, two and three processes: the same thresholds, weights, losses, gradients and queue, whoever has which rows."""

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from processes import run
from verisphere.base.collectives import gathered
from verisphere.base.distributed import world
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed
from verisphere.losses.margin import ArcFace
from verisphere.pairs import GlobalBatch, GroupLabels, PairTerm, Step, ThresholdConsistency, Training

CLASSES, DIM, ROWS, STEPS, GROUPS = 11, 8, 19, 4, 3
#: Shares of the rows, by the number of processes; not in the proportion of the queue's.
SIZES = {1: [19], 2: [12, 7], 3: [3, 11, 5]}

TERMS: dict[str, dict[str, Any]] = {
    "implicit": {"far": "0.02", "batches": 3, "domain_count": 3},
    "as printed, a half": {"far": "0.1", "batches": 2, "cross_entropy": "as_printed", "storage": "bfloat16"},
    "detached": {"far": "0.3", "batches": 2, "domain_count": 2, "detach": True, "place": "host"},
    "known": {"far": "0.05", "batches": 3, "domains": "known"},
    "too few": {"far": "1e-4", "batches": 1, "domains": "known"},
    "groups": {},
}
#: Those that three processes take; two take all of them.
BY_THREE = ("implicit", "known", "too few", "groups")


def prepared(name: str) -> PairTerm:
    """A term as a training makes it: after a head whose classes processes share."""
    term = GroupLabels() if name == "groups" else ThresholdConsistency(**TERMS[name])
    torch.manual_seed(5)
    Head(ArcFace(), CLASSES, DIM, engine=Sharded(Streamed()))
    term.prepare(Training(CLASSES, DIM, ROWS, ("a", "b", "c"), GROUPS))
    return term


def steps(name: str, sizes: list[int]) -> dict[str, Any]:
    """Some steps of a term, of which this process sees its rows; what comes of them, of all processes."""
    term, draw = prepared(name), torch.Generator().manual_seed(6)
    first = sum(sizes[: world().rank])
    mine = slice(first, first + sizes[world().rank])
    found: dict[str, Any] = {"start": parameters(term)}
    for number in range(STEPS):
        embeddings = 0.7 + torch.randn(ROWS, DIM, generator=draw)
        labels = torch.randint(-1, CLASSES, (ROWS,), generator=draw)
        domains, side = torch.randint(0, 3, (ROWS,), generator=draw), torch.randn(ROWS, GROUPS, generator=draw)
        own = embeddings[mine].clone().requires_grad_()
        groups = side[mine].clone().requires_grad_()
        batch = GlobalBatch.of(own, labels[mine])
        given = term(Step(batch, own, labels[mine], number, 0.0, domains[mine], groups))
        found[f"{number} figures"] = dict(given.figures)
        if given.weights is not None:
            found[f"{number} weights"] = gathered(given.weights, sizes)
        if given.loss is not None:
            term.zero_grad()
            given.loss.backward()
            found[f"{number} loss"] = given.loss.detach()
            found[f"{number} gradient"] = gathered(own.grad if own.grad is not None else torch.zeros_like(own), sizes)
            found[f"{number} of groups"] = gathered(
                groups.grad if groups.grad is not None else torch.zeros_like(groups), sizes
            )
            found[f"{number} of parameters"] = {one: value.grad for one, value in term.named_parameters()}
    for one, rows in term.held().items():
        counts = gathered(torch.tensor([len(rows)])).tolist()
        found[one] = gathered(term.state_dict()[one], counts).float()
    return found


def parameters(term: PairTerm) -> dict[str, Tensor]:
    return {name: one.detach().clone() for name, one in term.named_parameters()}


def every_term() -> dict[str, Any]:
    return {name: steps(name, SIZES[world().size]) for name in (BY_THREE if world().size == 3 else TERMS)}


@cache
def alone() -> dict[str, Any]:
    return every_term()


@pytest.fixture(scope="module", params=[2, 3])
def several(request) -> list[dict[str, Any]]:
    """What each process has found, of either number of them."""
    return run(every_term, request.param, timeout=500)


def test_every_process_has_the_same_to_the_bit(several):
    """Or they would drift apart, or wait for each other."""
    for other in several[1:]:
        torch.testing.assert_close(other, several[0], rtol=0, atol=0)


def test_they_have_what_one_has(several):
    assert several[0].keys() == set(TERMS if len(several) == 2 else BY_THREE)
    for name, found in several[0].items():
        expected = alone()[name]
        assert found.keys() == expected.keys()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7, msg=lambda said, name=name: f"{name}: {said}")
        for number in range(STEPS):  # thresholds are exact, and with them the weights
            exact = [key for key in expected[f"{number} figures"] if "threshold" in key or "weight" in key]
            for key in exact:
                assert found[f"{number} figures"][key] == expected[f"{number} figures"][key], name


def test_the_cases_are_what_they_are_for():
    found = alone()
    assert len({round(one, 4) for one in found["implicit"]["3 weights"].tolist()}) == 3
    assert set(found["too few"]["3 weights"].tolist()) == {1.0}
    assert found["detached"]["3 gradient"].abs().max() == 0
    assert found["implicit"]["3 gradient"].abs().max() > 0
    assert found["implicit"]["queue.labels"].min() == -1
