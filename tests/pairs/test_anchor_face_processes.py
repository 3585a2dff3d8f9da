"""AnchorFace in two and three processes with unequal shares, and none, against one; runs resumed on other numbers."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from interrupting import Interrupting
from processes import run
from verisphere.collectives import counted, gathered
from verisphere.distributed import world
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.losses.margin import ArcFace
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.pairs import AnchorFace, GlobalBatch, Step, Training
from verisphere.train.loop import TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

OWN = Path(__file__).parents[1] / "train"  # own_parts.py
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


RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 7, images: 5}}
backbone: {class_path: own_parts.PlainNet}
loss: {class_path: verisphere.losses.CosFace, init_args: {margin: 0.2, scale: 16}}
pair_terms:
- class_path: verisphere.pairs.AnchorFace
  init_args: {far: "0.1", after: 0.5, features_per_identity: 2, valid_steps: 4, temperature: 0.1}
- class_path: verisphere.pairs.AnchorFace
  init_args: {far: "0.1", after: 0.5, compare: centers, temperature: 0.1}
optimizer: {rate: 0.02}
epochs: 2
batch_size: 10
log_every: 1
save_every: 2
workers: 0
"""


def begin(folder: Path, name: str, **options: Any) -> None:
    train_run(read_recipe(folder / "recipe.yaml", []), folder / name, device="cpu", **options)


def stopped(folder: Path, name: str) -> None:
    progress = {"progress": Interrupting(2)} if world().first else {}
    with pytest.raises(TrainingStopped):
        begin(folder, name, **progress)


def worker(place: str) -> dict[str, Any]:
    """All of it: trainings, and the steps of every case."""
    sys.path.insert(0, str(OWN))
    folder = Path(place)
    begin(folder, "whole")
    stopped(folder, "resumed")
    begin(folder, "resumed", resume=True)
    stopped(folder, "to one")
    begin(folder, "from one", resume=True)
    return steps_of_all()


def steps_of_all() -> dict[str, Any]:
    """The steps alone."""
    cases = BY_THREE if world().size == 3 else CASES
    return {
        **{name: steps_of(CASES[name]) for name in cases},
        "a sharded head": with_a_sharded_head(),
    }


# What is expected of it -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The same on one process."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "recipe.yaml").write_text(RECIPE)
    handler = signal.getsignal(signal.SIGTERM)
    sys.path.insert(0, str(OWN))
    try:
        found = steps_of_all()
        begin(folder, "whole")
        stopped(folder, "from one")
    finally:
        sys.path.remove(str(OWN))
        signal.signal(signal.SIGTERM, handler)
    return folder, found


@pytest.fixture(scope="module")
def of_two(alone, tmp_path_factory) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of the trainings of two processes, and what each found."""
    folder = tmp_path_factory.mktemp("several")
    (folder / "recipe.yaml").write_text(RECIPE)
    for file in sorted((alone[0] / "from one").rglob("*")):
        if file.is_file():
            place = folder / "from one" / file.relative_to(alone[0] / "from one")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    return folder, run(worker, 2, str(folder), timeout=500)


@pytest.fixture(scope="module")
def of_three() -> list[dict[str, Any]]:
    """What each of three processes found, without a training."""
    return run(steps_of_all, 3, timeout=500)


@pytest.fixture(params=[2, 3], ids=["2 processes", "3 processes"])
def said(request) -> list[dict[str, Any]]:
    """What each process found, of either number of them."""
    return request.getfixturevalue("of_two")[1] if request.param == 2 else request.getfixturevalue("of_three")


@pytest.mark.parametrize("name", CASES)
def test_two_processes_find_what_one_does(alone, of_two, name):
    find_the_same(alone[1][name], of_two[1], name)


@pytest.mark.parametrize("name", BY_THREE)
def test_three_processes_find_what_one_does(alone, of_three, name):
    find_the_same(alone[1][name], of_three, name)


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
    given = {name: alone[1][name]["steps"][-1] for name in CASES}
    assert {name for name, step in given.items() if step["loss"] is None} == {"logs alone", "left out"}
    assert given["few"]["figures"]["anchor_too_few_at_far_1e-3"] == 1
    assert all(step["gradient"].abs().sum() > 0 for step in given.values() if step["loss"] is not None)
    assert alone[1]["plain"]["calls"] == []


def test_processes_call_each_other_alike(said):
    for name in CASES.keys() & said[0].keys():
        assert all(one[name]["calls"] == said[0][name]["calls"] for one in said)
        assert len(said[0][name]["calls"]) > 0


def test_centers_that_a_head_shares_out_are_compared_as_whole(alone, said):
    assert [one["a sharded head"] for one in said] == [alone[1]["a sharded head"]] * len(said)


def near(found: Path, expected: Path) -> None:
    """Every tensor of the newest checkpoints, and every figure of the log."""
    ours, theirs = read_checkpoint(found), read_checkpoint(expected)
    for part in ("backbone", "head", "optimizer", "pairs"):
        one, other = ours.tensors(part), theirs.tensors(part)
        assert one.keys() == other.keys()
        for name, tensor in other.items():
            torch.testing.assert_close(one[name], tensor, rtol=1e-3, atol=2e-5, msg=f"{part} {name}")
    assert len(metrics(found)) == len(metrics(expected))
    for one, other in zip(metrics(found), metrics(expected), strict=True):
        assert one == pytest.approx(other, rel=2e-3, abs=1e-5)


def metrics(run_folder: Path) -> list[dict[str, float]]:
    entries = [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "images_per_second"} for entry in entries]


def files(run_folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(list_checkpoints(run_folder)[-1].glob("*.safetensors"))}


def test_a_training_is_that_of_one_process(alone, of_two):
    near(of_two[0] / "whole", alone[0] / "whole")


def test_a_stopped_training_goes_on_bit_for_bit(of_two):
    folder, _ = of_two
    assert files(folder / "resumed") == files(folder / "whole")
    assert metrics(folder / "resumed") == metrics(folder / "whole")
    # each process has left its share of the set beside its classes
    pairs = read_checkpoint(folder / "whole").tensors("pairs")
    assert [len(pairs[f"0.memory.{name}"]) for name in ("features", "until")] == [14, 14]


def test_a_training_goes_on_with_another_number_of_processes(alone, of_two, monkeypatch, process_as_it_was):
    folder, _ = of_two
    near(folder / "from one", alone[0] / "whole")
    monkeypatch.syspath_prepend(OWN)
    begin(folder, "to one", resume=True)
    near(folder / "to one", alone[0] / "whole")
