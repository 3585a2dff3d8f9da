"""AnchorFace in two and three processes with unequal shares, and none, against one."""

from typing import Any

import pytest
import torch

from processes import run
from verisphere.base.collectives import counted, gathered
from verisphere.base.distributed import world
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.losses.margin import ArcFace
from verisphere.pairs import AnchorFace, GlobalBatch, Step, Training

CLASSES, DIM, BATCH, STEPS = 7, 12, 13, 5
#: Rows of each process, by how many there are.
ROWS = {1: [13], 2: [9, 4], 3: [5, 0, 8]}
#: Cases that log no threshold of FAR 0.1, or not in every step.
WITHOUT = {"few", "left out", "later"}
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "half precision": {"storage": "bfloat16", "precision": "bfloat16"},
    "host": {"place": "host"},
    "without tar": {"tar_weight": 0.0},
    "without far": {"far_weight": 0.0},
    "logs alone": {"tar_weight": 0.0, "far_weight": 0.0},
    "centers": {"compare": "centers"},
    "few": {"far": "0.001"},
    "left out": {"far": "0.001", "too_few": "skip"},
    "one place": {"features_per_identity": 1, "valid_steps": 1},
    "later": {"after": 2.0, "log_before": False},
}
#: Those of which three processes take the steps, one of them without rows; two take all of them.
BY_THREE = ("plain", "half precision", "centers", "few", "later")


# What a process does -------------------------------------------------------------------------------------------


def steps_of(options: dict[str, Any]) -> dict[str, Any]:
    """Some steps of a term; what is a process's own comes from all."""
    here = world()
    sizes = ROWS[here.size]
    mine = slice(sum(sizes[: here.rank]), sum(sizes[: here.rank + 1]))
    torch.manual_seed(0)
    centers = torch.randn(CLASSES, 2, DIM)
    term = AnchorFace(**{"far": "0.1", "after": 0.0, "temperature": 0.1, "features_per_identity": 2, "valid_steps": 3,
                         **options})  # fmt: skip
    term.prepare(Training(CLASSES, DIM, BATCH))
    held = here.share(CLASSES)
    found: dict[str, Any] = {"steps": []}
    with counted() as traffic:
        for number in range(STEPS):
            labels = torch.randint(-1, CLASSES, (BATCH,))[mine]
            embeddings = torch.randn(BATCH, DIM)[mine].clone().requires_grad_()
            batch = GlobalBatch.of(embeddings, labels)
            step = Step(batch, embeddings, labels, number, float(number), centers=centers[held.start : held.stop],
                        held=held)  # fmt: skip
            given = term(step)
            gradient = torch.zeros_like(embeddings)
            if given.loss is not None:
                (gradient,) = torch.autograd.grad(given.loss, embeddings)
            loss = None if given.loss is None else float(given.loss.detach())
            found["steps"].append({"loss": loss, "figures": dict(given.figures), "gradient": gathered(gradient, sizes)})
    found["calls"] = [call.kind for call in traffic.calls]
    found["memory"] = {}
    for name, rows in term.held().items():
        counts = [len(here.share(CLASSES, rank)) * term.memory.features_per_identity for rank in range(here.size)]
        assert len(rows) == counts[here.rank]
        found["memory"][name] = gathered(term.state_dict()[name].float(), counts)
    return found


def with_a_sharded_head() -> float:
    """A step of the -FC variant on the centers that a head shares out."""
    torch.manual_seed(1)
    head = Head(ArcFace(0.2, 16.0), CLASSES, DIM, engine=Sharded(Dense()) if world().size > 1 else Dense())
    every = torch.randn(CLASSES, 1, DIM)
    head.centers.data = every[head.held.start : head.held.stop].clone()
    rows = ROWS[world().size]
    mine = slice(sum(rows[: world().rank]), sum(rows[: world().rank + 1]))
    embeddings, labels = torch.randn(BATCH, DIM)[mine], torch.randint(0, CLASSES, (BATCH,))[mine]
    term = AnchorFace(far="0.1", after=0.0, compare="centers")
    given = term(Step(GlobalBatch.of(embeddings, labels), embeddings, labels, centers=head.centers, held=head.held))
    return given.figures["anchor_threshold_at_far_1e-1"]


def steps_of_all() -> dict[str, Any]:
    """The steps alone."""
    cases = BY_THREE if world().size == 3 else CASES
    return {
        **{name: steps_of(CASES[name]) for name in cases},
        "a sharded head": with_a_sharded_head(),
    }


# What is expected of it -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    """The same on one process."""
    return steps_of_all()


@pytest.fixture(scope="module")
def several() -> dict[int, list[dict[str, Any]]]:
    """What each process found, by how many there were."""
    return {size: run(steps_of_all, size, timeout=500) for size in (2, 3)}


@pytest.fixture(params=[2, 3], ids=["2 processes", "3 processes"])
def said(request, several) -> list[dict[str, Any]]:
    """What each process found, of either number of them."""
    return several[request.param]


def test_several_processes_find_what_one_does(alone, said):
    for name in CASES.keys() & said[0].keys():
        find_the_same(alone[name], said, name)


def find_the_same(expected: dict[str, Any], said: list[dict[str, Any]], name: str) -> None:
    tolerance = 2e-2 if name == "half precision" else 2e-6
    for found in (one[name] for one in said):
        for ours, theirs in zip(found["steps"], expected["steps"], strict=True):
            thresholds = [
                figures.get("anchor_threshold_at_far_1e-1") for figures in (ours["figures"], theirs["figures"])
            ]
            assert thresholds[0] == thresholds[1]  # it is exact
            assert thresholds[0] is not None or name in WITHOUT
            assert ours["figures"] == pytest.approx(theirs["figures"], rel=1e-6 if name != "half precision" else 1e-2)
            assert (ours["loss"] is None) == (theirs["loss"] is None)
            if theirs["loss"] is not None:
                assert ours["loss"] == pytest.approx(theirs["loss"], rel=max(tolerance, 1e-6))
            torch.testing.assert_close(
                ours["gradient"],
                theirs["gradient"],
                rtol=0,
                atol=tolerance * max(float(theirs["gradient"].abs().max()), 1),
            )
        assert found["memory"].keys() == expected["memory"].keys()
        for part, rows in expected["memory"].items():
            assert torch.equal(found["memory"][part], rows)


def test_something_was_compared(alone):
    given = {name: alone[name]["steps"][-1] for name in CASES}
    assert {name for name, step in given.items() if step["loss"] is None} == {"logs alone", "left out"}
    assert given["few"]["figures"]["anchor_too_few_at_far_1e-3"] == 1
    assert all(step["gradient"].abs().sum() > 0 for step in given.values() if step["loss"] is not None)
    assert alone["plain"]["calls"] == []


def test_processes_call_each_other_alike(said):
    for name in CASES.keys() & said[0].keys():
        assert all(one[name]["calls"] == said[0][name]["calls"] for one in said)
        assert len(said[0][name]["calls"]) > 0


def test_centers_that_a_head_shares_out_are_compared_as_whole(alone, said):
    assert [one["a sharded head"] for one in said] == [alone["a sharded head"]] * len(said)
