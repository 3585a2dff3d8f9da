"""The dry run of a training: exact where it says so, near measured peaks where it estimates, and without any data."""

import importlib
import io
import json
import math
import re
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import asdict, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from loss_examples import EXAMPLES, KINDS
from processes import run
from verisphere.backbones.backbone import Backbone
from verisphere.base.collectives import counted
from verisphere.base.device import memory_of
from verisphere.base.distributed import world
from verisphere.cli import main
from verisphere.head.dense import Dense
from verisphere.head.head import Head
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.head.update import HeadSGD
from verisphere.losses.margin import ArcFace
from verisphere.losses.sphereface2 import SphereFace2
from verisphere.pairs import AnchorFace
from verisphere.pairs.pair_term import PairTerm, Training
from verisphere.train.dry_run.measured import BackboneCost, measure_backbone, measure_dense, saved_bytes
from verisphere.train.dry_run.one_training import DryRun, DryRunOptions, dry_run
from verisphere.train.dry_run.training_cost import Collective, Measurements, Memory, head_collectives, training_cost
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.recipe_head import centers_and_engine

FOLDER = Path(__file__).parent
NO_DATA = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]
ARCFACE, SPHEREFACE2 = ["--loss", "verisphere.losses.ArcFace"], ["--loss", "verisphere.losses.SphereFace2"]
#: A peak lies within these shares of the dry run's figure: what glibc loses between blocks depends on their sizes.
LEAST, MOST = 0.6, 1.25


def mobile(width: float, size: int = 512) -> list[str]:
    return [
        "--backbone", "verisphere.backbones.MobileFaceNet", "--backbone.width", str(width),
        "--backbone.embedding_size", str(size),
    ]  # fmt: skip


def recipe(*overrides: str, loss: list[str] = ARCFACE, backbone: list[str] | None = None) -> Recipe:
    return read_recipe(None, [*NO_DATA, *(backbone or mobile(0.1)), *loss, *overrides]).recipe


class Plain(Backbone):
    """Two matrices: 12 numbers an image in, their exponentials kept for the first, 5 numbers for the second."""

    input_size = (2, 2)

    def __init__(self) -> None:
        super().__init__(5)
        self.first, self.second = nn.Linear(12, 5), nn.Linear(5, 5)

    def embed(self, images: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(images.flatten(1).exp()))


@pytest.fixture(scope="module")
def known() -> Measurements:
    """A backbone whose costs are round numbers, so that what follows from them can be worked out."""
    return Measurements({"float32": BackboneCost(1000, 100, 7), "bfloat16": BackboneCost(2000, 50, 7)})


# Measuring ----------------------------------------------------------------------------------------------------------


def test_what_autograd_keeps_is_counted_once():
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True)
    # exp keeps its result, 12 numbers, and the product keeps the same and the weight
    assert saved_bytes(lambda: x.exp() @ weight, [weight]) == 48
    assert saved_bytes(lambda: x.exp() @ weight) == 48 + 80
    with torch.no_grad():
        assert saved_bytes(lambda: x.exp() @ weight) == 0


def test_a_backbone_costs_what_its_layers_do():
    # 12 * 5 and 5 * 5 products and as many sums; images and weights are not counted, since they are there anyway
    assert measure_backbone(Plain()) == BackboneCost(fixed=0, per_image=48 + 20, flops=120 + 50)


def test_in_bfloat16_it_keeps_a_copy_of_its_weights_and_half_as_much():
    # of the second matrix: nobody asks for the gradient in what the first one is given
    assert measure_backbone(Plain(), torch.bfloat16) == BackboneCost(fixed=50, per_image=24 + 10, flops=170)


def test_measuring_changes_nothing():
    backbone = recipe().backbone
    before, state = {name: one.clone() for name, one in backbone.state_dict().items()}, torch.get_rng_state()
    measure_backbone(backbone)
    assert all(torch.equal(one, before[name]) for name, one in backbone.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("loss", [ArcFace(), SphereFace2()], ids=lambda loss: type(loss).__name__)
def test_what_the_dense_engine_keeps_is_a_plane(loss):
    cost = measure_dense(loss, SubCenters(2), embedding_size=16)
    head = Head(loss, 300, 16, centers=SubCenters(2), engine=Dense())
    embeddings, labels = torch.randn(24, 16).requires_grad_(), torch.arange(24)
    kept = saved_bytes(lambda: head(embeddings, labels).loss, [*head.parameters(), *head.buffers(), embeddings, labels])
    assert cost.saved(24, 300) == kept


# Bytes --------------------------------------------------------------------------------------------------------------


def test_exact_parts(known):
    memory = training_cost(recipe("--batch_size", "16", "--subcenters", "3"), 1001, 4, measurements=known).memory
    backbone = recipe().backbone
    weights = sum(one.numel() for one in backbone.parameters())
    buffers = sum(one.nbytes for one in backbone.buffers())
    assert memory.weights == 4 * weights + buffers
    assert memory.gradients == memory.optimizer == memory.buckets == 4 * weights
    assert memory.centers == memory.center_state == 251 * 3 * 512 * 4
    assert memory.activations == 1000 + 4 * 100
    assert memory.images == 4 * 3 * 112 * 112 * 5


def test_a_class_bias_is_one_more_column(known):
    loss = ["--loss", "verisphere.losses.Softmax"]
    with_bias = training_cost(recipe("--loss.bias", "true", loss=loss), 10, measurements=known)
    assert with_bias.memory.centers == 10 * 513 * 4


@pytest.mark.parametrize(
    ("optimizer", "states"),
    [
        (["--optimizer.momentum", "0"], 0),
        (["--optimizer.momentum", "0.9"], 1),
        (["--optimizer.name", "adamw", "--optimizer.rate", "1e-3"], 2),
    ],
)
def test_the_state_of_each_optimizer(known, optimizer, states):
    memory = training_cost(recipe(*optimizer), 1000, measurements=known).memory
    assert memory.center_state == states * memory.centers
    assert memory.optimizer == states * memory.gradients


@pytest.mark.parametrize(
    ("fields", "copies"),
    [
        (["--engine", "streamed"], 0),
        (["--engine", "sampled"], 0),
        (["--engine", "dense"], 1),
        (["--engine", "streamed", "--optimizer.name", "adamw", "--optimizer.rate", "1e-3"], 1),
        (["--engine", "streamed", "--accumulate", "2"], 2),
    ],
)
def test_who_makes_a_gradient_of_the_centers(known, fields, copies):
    memory = training_cost(recipe(*fields), 100_000, measurements=known).memory
    assert memory.center_gradient == copies * memory.centers
    assert (memory.update > 0) == (copies > 0)


def test_exponentials_are_kept_whole_or_not_at_all(known):
    kept = recipe("--engine", "streamed", "--head_precision", "bfloat16", "--batch_size", "64")
    assert training_cost(kept, 10_000, measurements=known).memory.kept == 2 * 64 * 10_000
    assert training_cost(kept, 10_000, 3, measurements=known).memory.kept == 2 * 64 * 3334
    budget = 2**30 // (2 * 64)
    assert training_cost(kept, budget, measurements=known).memory.kept == 2**30
    assert training_cost(kept, budget + 1, measurements=known).memory.kept == 0
    assert training_cost(replace(kept, head_precision="float32"), 10_000, measurements=known).memory.kept == 0


def test_auto_takes_the_engine_that_the_head_would(known):
    few = 2**22 // 128
    assert training_cost(recipe(), few, measurements=known).engine == "dense"
    assert training_cost(recipe(), few + 1, measurements=known).engine == "streamed"
    assert training_cost(recipe(), 2 * few, 2, measurements=known).engine == "dense"


def test_a_screen_has_the_bytes_of_its_type(known, monkeypatch):
    loss = "--loss", "verisphere.losses.QMargin"
    for name, number in (("int8", 1), ("bfloat16", 2), ("float32", 0)):
        monkeypatch.setattr("verisphere.train.dry_run.training_cost.fastest", lambda *_, name=name: name)
        cost = training_cost(recipe(*loss, "--engine", "sparse"), 1_000_000, measurements=known)
        assert cost.engine == "sparse"
        assert cost.memory.screen == 1_000_000 * (512 * number + 32)
        assert cost.memory.center_gradient == 0
    assert cost.head_flops == 2 * 128 * 1_000_000 * 512
    for classes, engine in ((2**20 // 128, "dense"), (2**20 // 128 + 1, "sparse"), (1_000_000, "sparse")):
        assert training_cost(recipe(*loss), classes, measurements=known).engine == engine
    parts = recipe(*loss, "--engine", "sparse", "--accumulate", "2")
    assert training_cost(parts, 1_000_000, measurements=known).engine == "streamed"
    assert training_cost(parts, 1_000_000, measurements=known).memory.screen == 0


def test_sampling_copies_what_it_draws(known):
    sampled = training_cost(recipe("--engine", "sampled"), 1_000_000, measurements=known)
    assert sampled.memory.sampled == 2 * 100_000 * 512 * 4
    assert (
        sampled.head_flops * 10
        == training_cost(recipe("--engine", "streamed"), 1_000_000, measurements=known).head_flops
    )


class Remembers(PairTerm):
    """As many bytes a class and an image as are easy to count, shared or not."""

    def prepare(self, training: Training) -> None:
        self.weight = nn.Parameter(torch.zeros(training.embedding_size))
        self.register_buffer("shared", torch.zeros(training.classes, 10, dtype=torch.bfloat16))
        self.register_buffer("labels", torch.zeros(training.batch_size, dtype=torch.int64))

    def held(self) -> dict[str, range]:
        return {"shared": range(0)}

    def forward(self, step):
        raise AssertionError("a dry run runs no term")


def test_memories_of_pair_terms_are_counted_without_being_made(known):
    asked = replace(recipe("--engine", "streamed"), pair_terms=[Remembers()])
    plain, found = (training_cost(one, 2**30, 3, measurements=known) for one in (recipe("--engine", "streamed"), asked))
    assert found.memory.memories == math.ceil(2**30 * 20 / 3) + 128 * 8
    assert found.memory.weights - plain.memory.weights == 512 * 4
    assert found.memory.pairs == 2**27
    assert plain.memory.memories == plain.memory.pairs == 0
    assert not list(asked.pair_terms[0].buffers())  # the recipe's own is as it was
    assert "memories of pair terms" in DryRun(found, asked).text()
    assert "exchanges and products of pair terms are not counted" in DryRun(found, asked).text()


def test_a_copy_of_the_centers_is_counted(known):
    asked = replace(recipe("--engine", "streamed"), pair_terms=[AnchorFace(compare="centers")])
    found = training_cost(asked, 1_000_000, 2, measurements=known)
    assert found.memory.pairs == 2**27 + 2 * 500_000 * 512 * 4


def test_the_total_leaves_out_what_is_not_there_at_once():
    none = dict.fromkeys((one.name for one in fields(Memory)), 0)
    assert Memory(**{**none, "centers": 5, "activations": 10, "update": 7}).total == 15
    assert Memory(**{**none, "centers": 5, "activations": 10, "logits": 1, "update": 30}).total == 35
    with pytest.raises(ValueError, match="rows is -1; a number of bytes is not negative"):
        Memory(**{**none, "rows": -1})


# Work and traffic ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "loss", "products"),
    [
        (["--engine", "streamed"], ARCFACE, 4),
        (["--engine", "streamed", "--head_precision", "bfloat16"], ARCFACE, 3),
        (["--engine", "dense"], ARCFACE, 3),
        (["--engine", "streamed"], SPHEREFACE2, 4),
        (["--engine", "streamed", "--optimizer.name", "adamw", "--optimizer.rate", "1e-3"], SPHEREFACE2, 3),
        (["--engine", "dense"], ["--loss", "verisphere.losses.CIFP"], 4),
    ],
)
def test_products_of_a_step(known, overrides, loss, products):
    found = training_cost(recipe(*overrides, loss=loss), 1000, 2, measurements=known)
    assert found.head_flops == products * 2 * 128 * 500 * 512
    assert found.backbone_flops == 3 * 7 * 64


SUM = "verisphere.losses.WeightedSum"


def sum_of(*names: str) -> list[str]:
    losses = [{"class_path": f"verisphere.losses.{name}"} for name in names]
    return ["--loss", json.dumps({"class_path": SUM, "init_args": {"losses": losses}})]


@pytest.mark.parametrize("pull_together", ["0", "0.1"])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize(
    "loss",
    [ARCFACE, SPHEREFACE2, ["--loss", "verisphere.losses.Inter"], sum_of("Inter"), sum_of("SphereFace2")],
    ids=["ArcFace", "SphereFace2", "Inter", "sum of Inter", "sum of SphereFace2"],
)
def test_products_of_a_step_are_those_that_a_head_makes(known, loss, optimizer, pull_together):
    asked = recipe(
        "--engine", "streamed", "--batch_size", "8", "--subcenters", "2",
        "--optimizer.name", optimizer, "--optimizer.rate", "1e-3", "--pull_together", pull_together,
        loss=loss, backbone=mobile(0.1, 16),
    )  # fmt: skip
    centers, engine = centers_and_engine(asked)
    head = Head(asked.loss, 30, 16, centers=centers, engine=engine)
    stepper = HeadSGD(head.parameters(), head) if optimizer == "sgd" else torch.optim.AdamW(head.parameters())
    embeddings = torch.randn(8, 16).requires_grad_()
    with FlopCounterMode(display=False) as counter:
        head(embeddings, torch.arange(8)).loss.backward()
        stepper.step()
    assert training_cost(asked, 30, measurements=known).head_flops == counter.get_total_flops()


def test_the_ring():
    assert [Collective("x", kind, 600).sent(3) for kind in ("gather", "scatter", "sum", "maximum", "broadcast")] == [
        1200, 400, 800, 800, 400,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="x: 0 bytes, 1 times, is no exchange"):
        Collective("x", "sum", 0)


SETTINGS = {
    "pull together": [*ARCFACE, "--subcenters", "2", "--pull_together", "0.1"],
    "parts": [*ARCFACE, "--accumulate", "2"],
    "a sum of one": sum_of("SphereFace2"),
}


def heads(processes: int) -> list[str]:
    """Every example of a loss in two processes, one of each kind in three; and settings of a head."""
    return [*(EXAMPLES if processes == 2 else KINDS), *SETTINGS]


def head_recipe(name: str) -> Recipe:
    if name in EXAMPLES:
        return replace(_plain_recipe(), loss=EXAMPLES[name].make())
    return recipe("--batch_size", "10", backbone=mobile(0.1, 16), loss=SETTINGS[name])


@cache
def _plain_recipe() -> Recipe:
    return recipe("--batch_size", "10", backbone=mobile(0.1, 16))


def exchanges(name: str) -> dict[str, list[int]]:
    """By kind the number and bytes of the collectives that a head makes for one batch, part by part."""
    asked = head_recipe(name)
    centers, _ = centers_and_engine(asked)
    head = Head(asked.loss, 40, 16, centers=centers, engine=Sharded(Streamed()))
    found: Counter[str] = Counter()
    payload: Counter[str] = Counter()
    with counted() as traffic:
        for _ in range(asked.accumulate):
            rows = world().share(10 // asked.accumulate)
            torch.manual_seed(rows.start)
            embeddings = torch.randn(len(rows), 16).requires_grad_()
            head(embeddings, torch.arange(rows.start, rows.stop)).loss.backward()
    for call in traffic.calls:
        found[call.kind] += 1
        payload[call.kind] += call.payload
    return {kind: [found[kind], payload[kind]] for kind in found}


def in_processes(asked: str, out: str) -> dict[str, Any]:
    """Everything of this file that takes several processes: exchanges of each head, and what a dry run says there."""
    said = io.StringIO()
    with redirect_stdout(said):
        code = main(["train", asked, "--dry-run", "--classes", "40000", "--json", out, "--device", "cpu"])
    return {
        "exchanges": {name: exchanges(name) for name in heads(world().size)},
        "code": code,
        "said": said.getvalue(),
    }


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes(written, tmp_path, processes):
    out = tmp_path / "cost.json"
    found = run(in_processes, processes, str(written), str(out), timeout=500)
    check_exchanges([each["exchanges"] for each in found], processes)
    # without --processes a dry run is for as many as were started; the first one finds out, and says so
    assert [each["code"] for each in found] == [0] * processes
    assert f"{processes} processes, each with up to" in found[0]["said"]
    assert [each["said"] for each in found[1:]] == [""] * (processes - 1)
    assert json.loads(out.read_text())["processes"] == processes


def check_exchanges(by_process: list[dict[str, dict[str, list[int]]]], processes: int) -> None:
    """A head exchanges what its dry run says; where a normaliser takes Newton steps, the sums of these besides."""
    for found in by_process:
        assert found.keys() == set(heads(processes))
        for name, by_kind in found.items():
            planned: dict[str, list[int]] = {}
            for one in head_collectives(head_recipe(name), processes):
                so_far = planned.setdefault(one.kind, [0, 0])
                planned[one.kind] = [so_far[0] + one.times, so_far[1] + one.payload]
            if head_recipe(name).loss.reduce == "normalised":
                taken, counted = by_kind["sum"], planned["sum"]
                assert all(one >= other for one, other in zip(taken, counted, strict=True)), name
                planned["sum"] = taken
            assert by_kind == planned, name


def test_bytes_put_in_are_those_of_all_times_together(known):
    found = training_cost(recipe(), 100, 2, measurements=known)
    calls = Collective("embeddings", "gather", 4000, 4), Collective("sums", "sum", 1000, 2)
    text = DryRun(replace(found, traffic=calls), recipe()).text()
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines()]
    assert ["embeddings", "gather", "4", "4,000", "4,000"] in rows
    assert ["sums", "sum", "2", "1,000", "1,000"] in rows
    assert ["all together", "", "6", "5,000", "5,000"] in rows


# Does it fit --------------------------------------------------------------------------------------------------------


def test_what_would_fit_does(known):
    streamed = recipe("--engine", "streamed", "--precision", "float32")
    needed = training_cost(streamed, 1_000_000, measurements=known)
    assert needed.fits is None
    assert training_cost(streamed, 1_000_000, available=needed.total, measurements=known).fits is True
    tight = training_cost(streamed, 1_000_000, available=needed.total - 1, measurements=known)
    assert tight.fits is False
    assert set(tight.would_fit) == {"precision bfloat16", "batch_size 64", "2 processes"}
    (change,) = training_cost(streamed, 1_000_000, available=needed.total // 3, measurements=known).would_fit
    processes = int(change.removesuffix(" processes"))
    for count, fits in ((processes, True), (processes // 2, False)):
        assert training_cost(streamed, 1_000_000, count, needed.total // 3, measurements=known).fits is fits


def test_a_batch_in_parts_helps_where_activations_are_the_problem():
    large = Measurements({"float32": BackboneCost(0, 2**26, 7), "bfloat16": BackboneCost(0, 2**26, 7)})
    asked = recipe("--engine", "streamed", "--batch_size", "64")
    needed = training_cost(asked, 100, measurements=large).total
    half = training_cost(asked, 100, available=needed // 2, measurements=large)
    assert "accumulate 4" in half.would_fit  # PyTorch itself takes more than a half
    for parts, fits in ((4, True), (2, False)):
        assert (
            training_cost(replace(asked, accumulate=parts), 100, available=needed // 2, measurements=large).fits is fits
        )
    sampled = training_cost(replace(asked, engine="sampled"), 100, available=needed // 2, measurements=large)
    assert sampled.would_fit
    assert not any("accumulate" in one for one in sampled.would_fit)
    # a part of 2 images is the least that batch norm can take
    assert not any(
        "accumulate" in one for one in training_cost(asked, 100, available=2**29, measurements=large).would_fit
    )


def test_the_length_in_both_units_where_the_images_are_counted(known):
    found = training_cost(recipe(), 1000, measurements=known)
    for overrides, steps_per_epoch, expected in (
        (["--epochs", "2.5"], 40, "100 steps, which are 2.5 epochs of 40 steps"),
        (["--steps", "240000"], 11_372, "240,000 steps, which are 21.1045 epochs of 11,372 steps"),
        (["--steps", "240000"], None, "240,000 steps; the other unit needs the number of images"),
        (["--epochs", "2"], 0, "2 epochs; the other unit has no whole batch in an epoch"),
    ):
        assert DryRun(found, recipe(*overrides), steps_per_epoch).text().splitlines()[2] == expected


def test_nothing_helps_who_has_no_room_for_pytorch(known):
    found = training_cost(recipe(), 1000, available=2**20, measurements=known)
    assert found.would_fit == ()
    assert (
        DryRun(found, recipe())
        .text()
        .endswith("no single change of engine, precision, accumulate, batch_size or processes is enough")
    )


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"classes": 0}, "classes is 0; a dry run needs at least 1"),
        ({"classes": 10**20}, r"classes is 100000000000000000000; a dry run takes at most 2\^40"),
        ({"classes": 5, "processes": 0}, "processes is 0; a dry run needs at least 1"),
        (
            {"classes": 5, "processes": 6},
            "processes is 6, but there are 5 classes; each process must hold at least one",
        ),
        ({"classes": 500, "processes": 129}, "batch_size is 128"),
        ({"classes": 5, "available": 0}, "available is 0; it must be a positive number of bytes"),
    ],
)
def test_numbers_outside_their_range(known, numbers, message):
    with pytest.raises(ValueError, match=message):
        training_cost(recipe(), measurements=known, **numbers)


# The command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path) -> Path:
    """A recipe whose data are not there."""
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "data: {class_path: verisphere.images.Photos, init_args: {path: nowhere}}\n"
        "backbone: {class_path: verisphere.backbones.MobileFaceNet, init_args: {width: 0.1}}\n"
        "loss: {class_path: verisphere.losses.ArcFace}\n"
        "validation: {class_path: verisphere.images.Photos, init_args: {path: nowhere}}\n"
    )
    return path


def test_a_dry_run_needs_no_data(written, tmp_path):
    out = tmp_path / "cost.json"
    options = DryRunOptions(classes=50_000, processes=2, memory=4.0, device="cpu")
    cost = dry_run(written, ["--engine", "streamed"], options)
    cost.write_json(out)
    text = cost.text()
    assert "MobileFaceNet and ArcFace over 50,000 classes; engine streamed" in text
    assert "2 processes, each with up to 64 of 128 images a step and 25,000 classes" in text
    assert "it fits" in text
    assert "of 4.00 GiB" in text
    values = json.loads(out.read_text())
    assert values["memory"]["centers"] == 25_000 * 512 * 4
    assert values["fits"] is True
    assert values["total"] == values["runtime"] + sum(values["memory"].values())
    assert [one["kind"] for one in values["traffic"]][:3] == ["gather", "gather", "gather"]
    assert [path.name for path in tmp_path.iterdir() if path != out] == ["recipe.yaml"]


@pytest.mark.usefixtures("process_as_it_was")
def test_the_command_line(written, tmp_path, capsys):
    out = tmp_path / "cost.json"
    asked = ["train", str(written), "--dry-run", "--classes", "40000", "--processes", "2", "--memory", "0.6"]
    assert main([*asked, "--json", str(out), "--device", "cpu", "--batch_size", "32"]) == 0
    said = capsys.readouterr().out
    assert "40,000 classes" in said
    assert "up to 16 of 32 images a step" in said
    assert json.loads(out.read_text())["fits"] is False
    assert not (tmp_path / "run").exists()


def test_without_a_number_the_classes_are_those_of_the_data(written):
    words = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "7", "--validation", "null"]
    assert "over 7 classes" in dry_run(written, words, DryRunOptions()).text()
    with pytest.raises((ValueError, FileNotFoundError), match="nowhere"):
        dry_run(written, [], DryRunOptions())


def test_a_dry_run_refuses_nonsense():
    with pytest.raises(ValueError, match=r"--memory is -1\.0; it must be a positive number of GiB"):
        DryRunOptions(classes=5, memory=-1.0)
    with pytest.raises(ValueError, match="--classes is 0"):
        DryRunOptions(classes=0)
    with pytest.raises(ValueError, match=rf"^--classes is {10**20}; a dry run takes at most 2\^40$"):
        DryRunOptions(classes=10**20)
    for memory in (1e300, math.inf, math.nan, 0.0):
        with pytest.raises(ValueError, match=rf"--memory is {re.escape(str(memory))}; it must be .*, at most 2\^30"):
            DryRunOptions(classes=5, memory=memory)


def test_what_does_not_fit(written):
    assert "does not fit" in dry_run(written, [], DryRunOptions(classes=5, memory=1e-300)).text()


@pytest.mark.usefixtures("process_as_it_was")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dry-run", "--out", "run"], "--dry-run trains nothing: omit --out"),
        (["--out", "run", "--memory", "4"], "--memory belongs to --dry-run"),
        ([], "--out is missing"),
    ],
)
def test_calls_that_are_refused(written, capsys, options, message):
    assert main(["train", str(written), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_one_process_has_nobody_to_tell(known):
    found = training_cost(recipe(), 100, measurements=known)
    assert found.traffic == ()
    assert found.memory.buckets == 0
    assert "collectives" not in DryRun(found, recipe()).text()
    assert DryRun(found, recipe()).fields()["available"] is None


def test_there_is_memory_here():
    assert 2**28 < memory_of(torch.device("cpu")) < 2**50


# Measured peaks -----------------------------------------------------------------------------------------------------

EXACT = ("weights", "gradients", "optimizer", "centers", "center_state", "center_gradient")


def peak(classes: int, overrides: list[str], allocator: str) -> dict[str, int]:
    command = [sys.executable, str(FOLDER / "peak_of_step.py"), str(classes), allocator, *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(measured: dict[str, int], planned: Memory) -> None:
    check_exactly(measured, planned)
    assert LEAST < measured["peak"] / planned.total < MOST, (measured["peak"] / planned.total, planned)


def check_exactly(measured: dict[str, int], planned: Memory) -> None:
    values = asdict(planned)
    assert {name: measured[name] for name in EXACT} == {name: values[name] for name in EXACT}


HEAVY = ["--engine", "streamed", "--head_precision", "bfloat16", "--batch_size", "16"]


@pytest.mark.parametrize("more", [[], ["--optimizer.name", "adamw", "--optimizer.rate", "1e-3"]], ids=["sgd", "adamw"])
def test_what_lies_there_after_a_step_is_what_its_plan_says(monkeypatch, more):
    monkeypatch.syspath_prepend(FOLDER)
    peak_of_step = importlib.import_module("peak_of_step")
    asked = recipe(*mobile(0.1), *ARCFACE, *HEAVY, *more)
    check_exactly(peak_of_step.taken(*peak_of_step.steps(asked, 6_000, 1)), training_cost(asked, 6_000).memory)


@pytest.mark.slow
@pytest.mark.parametrize("allocator", ["keep", "default"])
@pytest.mark.parametrize(
    ("classes", "overrides"),
    [
        pytest.param(60_000, [*mobile(0.1), *HEAVY], id="60k streamed"),
        pytest.param(100_000, [*mobile(0.5), *HEAVY, "--batch_size", "64"], id="MobileFaceNet, 100k streamed"),
        pytest.param(100_000, [*mobile(0.5), "--engine", "dense", "--batch_size", "32"], id="100k dense"),
        pytest.param(100_000, [*mobile(0.1), "--engine", "sampled", "--batch_size", "16"], id="100k sampled"),
        pytest.param(
            50_000,
            [*mobile(0.1), *HEAVY, "--optimizer.name", "adamw", "--optimizer.rate", "1e-3"],
            id="50k streamed, adamw",
        ),
        pytest.param(
            100,
            ["--backbone", "verisphere.backbones.IResNet", "--backbone.depth", "18", "--batch_size", "8"],
            id="IResNet18, small head",
        ),
        pytest.param(100, [*mobile(1.0), "--batch_size", "32", "--precision", "bfloat16"], id="MobileFaceNet bf16"),
    ],
)
def test_peaks_of_one_process(classes, overrides, allocator):
    overrides = [*ARCFACE, *overrides]
    check(
        peak(classes, overrides, allocator),
        training_cost(read_recipe(None, [*NO_DATA, *overrides]).recipe, classes).memory,
    )


def peak_here(classes: int, overrides: list[str]) -> dict[str, int]:
    sys.path.insert(0, str(FOLDER))
    from peak_of_step import main as measure

    return measure(classes, True, overrides)


@pytest.mark.slow
def test_peaks_of_two_processes():
    overrides = [*mobile(0.1), *ARCFACE, *HEAVY]
    planned = training_cost(recipe(*overrides), 100_001, 2)
    found = run(peak_here, 2, 100_001, overrides, timeout=200)
    assert planned.memory.centers == 50_001 * 512 * 4
    check(found[0], planned.memory)
    assert found[1]["centers"] == 50_000 * 512 * 4
    assert math.isclose(found[1]["peak"], found[0]["peak"], rel_tol=0.2)
