"""Runs in several processes equal one: weights, centers, momentum and log, stopped, resumed, on any number of them."""

import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from interrupting import Interrupting
from processes import run
from tiny_runs import OWN, files, metrics
from verisphere.backbones.extract import extract
from verisphere.base.distributed import world
from verisphere.measure.validation import validation_figures
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.train.loop import TrainingDiverged, TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 7, images: 5}}
backbone: {class_path: own_parts.PlainNet}
loss: {class_path: own_parts.OwnLoss}
augment: {crop: 0.1, brightness: 0.2, erase: 0.5}
optimizer: {rate: 0.02}
schedule: {warmup: 0.5, margin_warmup: 1.5}
epochs: 2
batch_size: 10
log_every: 1
save_every: 2
workers: 0
"""
STEPS = 6  # 35 images in batches of 10, which 3 processes share as 4, 3 and 3
TINY = ["--backbone", "own_parts.TinyNet"]
ELASTIC = "verisphere.losses.ElasticFace"
NO_DROPOUT = "{class_path: own_parts.TinyNet, init_args: {dropout: 0.0}}"
SET_AND_CENTERS = [
    {"far": "0.1", "after": 0.5, "features_per_identity": 2, "valid_steps": 4, "temperature": 0.1},
    {"far": "0.1", "after": 0.5, "compare": "centers", "temperature": 0.1},
]
QUEUES = [{"far": 0.02, "batches": 3, "domain_count": 3}, {"far": 0.05, "batches": 2, "domains": "known"}]
PLATEAU = ["--schedule", "{shape: plateau, patience: 1}"]


def with_terms(name: str, settings: list[dict[str, Any]], *more: str) -> list[str]:
    """A recipe of CosFace beside pair terms of one class."""
    terms = [{"class_path": f"verisphere.pairs.{name}", "init_args": one} for one in settings]
    return ["--loss", "verisphere.losses.CosFace", "--loss.scale", "16", f"--pair_terms={json.dumps(terms)}", *more]


#: Recipes whose results do not depend on how many processes there are, and how near they must come.
ALIKE = {
    "plain": ([], 2e-4),
    "streamed": (["--engine", "streamed", "--loss", "verisphere.losses.SphereFace2"], 2e-4),
    "auto": (["--engine", "auto", "--subcenters", "3", "--pooling", "softmax", "--pull_together", "0.1"], 2e-4),
    "a margin": (["--loss", "verisphere.losses.ArcFace", "--engine", "dense", "--in_memory", "true"], 2e-4),
    "all sampled": (["--engine", "sampled", "--sample_rate", "1.0"], 2e-4),
    "adamw": (["--optimizer", "{name: adamw, rate: 1e-3}"], 2e-3),
    "clipped": (["--clip", "0.5", "--workers", "1"], 2e-4),
    "synchronised": (["--backbone", NO_DROPOUT, "--sync_batch_norm", "true"], 1e-3),
    "frozen": (["--backbone", "own_parts.FrozenNet"], 2e-4),
    "no parameters": (["--backbone", "own_parts.FixedNet"], 2e-4),
    "in parts": (["--accumulate", "3", "--engine", "streamed", "--loss", "verisphere.losses.ArcFace"], 2e-4),
    "in synchronised parts": (["--backbone", NO_DROPOUT, "--sync_batch_norm", "true", "--accumulate", "2"], 1e-3),
    "drawn margins": (["--loss", ELASTIC, "--loss.deviation", "0.2"], 2e-4),
    "drawn margins in parts": (["--loss", ELASTIC, "--loss.deviation", "0.2", "--accumulate", "3"], 2e-4),
    "half precision": (["--precision", "bfloat16"], 6e-2),
    "pair terms": (with_terms("AnchorFace", SET_AND_CENTERS), 1e-3),
    "pair terms of domains": (with_terms("ThresholdConsistency", QUEUES, "--data", "own_parts.Rooms"), 1e-3),
    "at a plateau": (
        ["--validation", "own_parts.Noise", "--validate_every", "0.34", "--validation_far", '["1e-1"]', *PLATEAU],
        2e-4,
    ),
}
#: Those in which each process has random numbers or batch statistics of its own, to be resumed on as many.
OWN_NUMBERS = {
    "own draws": [*TINY, "--engine", "sampled", "--sample_rate", "0.5"],
    "own shares of a set": with_terms("AnchorFace", SET_AND_CENTERS),
    "own parts": [*TINY, "--accumulate", "2"],
    "margins drawn for all": [*TINY, "--loss", ELASTIC, "--loss.plus", "true", "--seed", "3"],
}

#: The recipes of either table that three processes train, whose shares of a batch differ: 4, 3 and 3 images.
BY_THREE = {
    "pair terms",
    "plain",
    "streamed",
    "in synchronised parts",
    "drawn margins in parts",
    "at a plateau",
    "own draws",
}


def by(size: int, recipes: dict[str, Any]) -> dict[str, Any]:
    """The recipes that so many processes train: all of them by two."""
    return {name: recipe for name, recipe in recipes.items() if size == 2 or name in BY_THREE}


def begin(folder: Path, name: str, overrides: list[str], **options: Any) -> None:
    """A run, begun or resumed."""
    recipe = folder / "recipe.yaml"
    train_run(read_recipe(recipe, overrides), folder / name, measure=validation_figures, device="cpu", **options)


def stopped(folder: Path, name: str, overrides: list[str], after: int, by: int) -> int:
    """A run that one process is asked to stop; the number of steps after which this one did."""
    progress = {"progress": Interrupting(after)} if world().rank == by else {}
    with pytest.raises(TrainingStopped) as caught:
        begin(folder, name, overrides, **progress)
    assert caught.value.reason == signal.SIGTERM
    return read_checkpoint(folder / name).step


def worker(place: str) -> dict[str, Any]:
    """Every run of a number of processes; what each of them has to say about it."""
    sys.path.insert(0, str(OWN))
    folder, here = Path(place), world()
    found: dict[str, Any] = {}
    for name, (overrides, _) in by(here.size, ALIKE).items():
        begin(folder, name, overrides)
    for name, overrides in by(here.size, OWN_NUMBERS).items():
        begin(folder, name, overrides)
        # asked by the last process alone, while the first one goes on
        found[name] = stopped(folder, f"{name}, resumed", overrides, 3, by=here.size - 1)
        begin(folder, f"{name}, resumed", overrides, resume=True)
    # to be resumed on one process, and begun on one
    found["to one"] = stopped(folder, "to one", ALIKE["pair terms"][0], 2, by=0)
    stopped(folder, "to others", ALIKE["streamed"][0], 2, by=1)
    begin(folder, "from one", ALIKE["pair terms"][0], resume=True)
    begin(folder, "from others", ALIKE["streamed"][0], resume=True)
    with pytest.raises(TrainingDiverged) as caught:
        begin(folder, "diverged", ["--optimizer.rate", "1e30", "--schedule.warmup", "0"])
    found["diverged"] = str(caught.value)
    with pytest.raises(ValueError, match="the loss of one batch is") as alone:
        begin(folder, "draws for itself", ["--loss", "own_parts.DrawsForItself"])
    found["draws for itself"] = str(alone.value)
    with pytest.raises(ValueError, match="has another recipe") as differing:
        begin(folder, "different", ["--seed", str(here.rank)])
    found["different"] = str(differing.value)
    with pytest.raises(ValueError, match="too small for") as small:
        begin(folder, "small", ["--batch_size", str(here.size), "--accumulate", "2"])
    found["small"] = str(small.value)
    found["embeddings"] = torch.from_numpy(shared_embeddings(folder))
    return found


def shared_embeddings(folder: Path) -> np.ndarray:
    """Of all images by processes that share them, in batches of which there may be fewer than processes."""
    backbone, faces = network(folder)
    many = extract(backbone, faces, batch_size=4, flip=True)
    few = extract(backbone, faces.select(range(3)), batch_size=4, flip=True)
    assert np.array_equal(few.embeddings, many.embeddings[:3])
    return many.embeddings


def network(folder: Path) -> tuple[Any, Any]:
    recipe = read_recipe(folder / "recipe.yaml", TINY).recipe
    return recipe.backbone, recipe.data


def tensors(run_folder: Path) -> dict[str, Tensor]:
    """Everything in a run's newest checkpoint, whole."""
    checkpoint = read_checkpoint(run_folder)
    names = [part for part in ("backbone", "head", "optimizer", "pairs") if part in checkpoint.sha256]
    parts = {part: checkpoint.tensors(part) for part in names}
    return {f"{part} {name}": tensor for part, some in parts.items() for name, tensor in some.items()}


def near(found: Path, expected: Path, tolerance: float) -> None:
    """Every tensor to within a share of its largest entry, and every figure of the log."""
    theirs, ours = tensors(expected), tensors(found)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].shape == tensor.shape, (found.name, name)
        assert ours[name].dtype == tensor.dtype, (found.name, name)
        largest = float(tensor.double().abs().max())
        apart = float((ours[name].double() - tensor.double()).abs().max())
        assert apart <= tolerance * largest + 1e-7, (found.name, name, apart, largest)
    assert len(metrics(found)) == len(metrics(expected))
    for one, other in zip(metrics(found), metrics(expected), strict=True):
        assert one == pytest.approx(other, rel=10 * tolerance, abs=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same runs on one process."""
    folder = tmp_path_factory.mktemp("alone")
    (folder / "recipe.yaml").write_text(RECIPE)
    sys.path.insert(0, str(OWN))
    try:
        for name, (overrides, _) in ALIKE.items():
            begin(folder, name, overrides)
        stopped(folder, "from one", ALIKE["pair terms"][0], 2, by=0)
        stopped(folder, "from others", ALIKE["streamed"][0], 2, by=0)
    finally:
        sys.path.remove(str(OWN))
    return folder


Several = tuple[Path, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def every_number(alone: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Several]:
    """By number of processes: a folder with the runs, and what each process said. Three go first, and two go on.

    Takes over 5 s: sixteen recipes, each trained by three and by two ranks.
    """
    found: dict[int, Several] = {}
    others = alone / "from others"
    for size in (3, 2):
        folder = tmp_path_factory.mktemp("several")
        (folder / "recipe.yaml").write_text(RECIPE)
        copy(alone / "from one", folder / "from one")
        copy(others, folder / "from others")
        found[size] = folder, run(worker, size, str(folder), timeout=500)
        others = folder / "to others"
    return found


@pytest.fixture(params=[2, 3], ids=["2 processes", "3 processes"])
def several(request: pytest.FixtureRequest, every_number: dict[int, Several]) -> Several:
    """Those of so many processes."""
    return every_number[request.param]


def copy(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file():
            place = target / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())


def test_runs_equal_those_of_one_process(alone: Path, several: Several):
    folder, said = several
    for name, (_, tolerance) in by(len(said), ALIKE).items():
        near(folder / name, alone / name, tolerance)


def test_parts_make_the_step_of_the_whole_batch(alone: Path):
    near(alone / "in parts", alone / "a margin", 2e-4)
    near(alone / "drawn margins in parts", alone / "drawn margins", 2e-4)


def test_each_process_writes_its_classes(several: Several):
    folder, said = several
    path = list_checkpoints(folder / "plain")[-1]
    size = len(said)
    assert {file.name for file in path.iterdir()} == {
        "state.json", "backbone.safetensors", "head.safetensors", "optimizer.safetensors", "trained_on.safetensors",
        *(f"head-{number:05d}-of-{size:05d}.safetensors" for number in range(1, size + 1)),
    }  # fmt: skip
    checkpoint = read_checkpoint(path)
    ends = [(shard.held.start, shard.held.stop) for shard in checkpoint.shards]
    assert ends == {2: [(0, 4), (4, 7)], 3: [(0, 3), (3, 5), (5, 7)]}[size]
    assert not [entry for entry in path.parent.iterdir() if entry.name.startswith(".")]


def test_all_stop_after_the_same_step_and_go_on_bit_for_bit(several: Several):
    folder, said = several
    for name in by(len(said), OWN_NUMBERS):
        assert [one[name] for one in said] == [4] * len(said), name
        assert files(folder / f"{name}, resumed") == files(folder / name), name
        assert metrics(folder / f"{name}, resumed") == metrics(folder / name), name


def test_a_run_goes_on_with_another_number_of_processes(alone: Path, several: Several, monkeypatch):
    folder, _ = several
    near(folder / "from one", alone / "pair terms", 1e-3)
    near(folder / "from others", alone / "streamed", 2e-4)
    monkeypatch.syspath_prepend(OWN)
    begin(folder, "to one", ALIKE["pair terms"][0], resume=True)
    near(folder / "to one", alone / "pair terms", 1e-3)
    assert not read_checkpoint(folder / "to one").shards


def test_what_is_wrong_is_the_same_on_all(several: Several):
    _, said = several
    size = len(said)
    for name in ("diverged", "draws for itself", "different", "small"):
        assert len({one[name] for one in said}) == 1
    first = said[0]
    assert first["diverged"].startswith("step 2: the loss of 10 of 10 records is not finite: p")
    assert re.fullmatch(
        r"step 1: the loss of one batch is [\d.]+ on one rank and [\d.]+ on another; no weight was changed. A loss "
        r"must not draw random numbers itself: set `noise` and read `rows.noise`",
        first["draws for itself"],
    )
    assert first["different"] == "process 1 has another recipe than process 0; all must read the same files"
    assert first["small"].startswith(
        f"batch_size is {size} and accumulate 2: a part of 1 images is too small for {size} "
    )


def test_embeddings_are_those_of_one_process_bit_for_bit(several: Several, monkeypatch):
    folder, said = several
    monkeypatch.syspath_prepend(OWN)
    backbone, faces = network(folder)
    expected = extract(backbone, faces, batch_size=4, flip=True).embeddings
    for one in said:
        assert np.array_equal(one["embeddings"].numpy(), expected)
