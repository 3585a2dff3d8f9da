"""The head of a run or a folder, with the loss that it was trained by."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from tiny_inversion import RECIPE
from verisphere.base.trained_on import name_digests
from verisphere.models.checkpoint import list_checkpoints
from verisphere.models.embed import open_model
from verisphere.ship.export import export_model
from verisphere.study.invert import Inversion, TowardCenters, invert
from verisphere.study.invert.closed_set import open_closed_set
from verisphere.train.recipe import read_recipe
from verisphere.train.session import train_run

LOSSES = {
    "softmax": "{class_path: verisphere.losses.Softmax, init_args: {bias: true}}",
    "sphereface": "{class_path: verisphere.losses.CombinedMargin, init_args: {m1: 1.35, m2: 0.0, m3: 0.0, scale: 16}}",
    "cosface": "{class_path: verisphere.losses.CosFace, init_args: {margin: 0.35, scale: 16}}",
    "sphereface2": "{class_path: verisphere.losses.SphereFace2}",
    "curricular": "{class_path: verisphere.losses.CurricularFace}",
    "cifp": "{class_path: verisphere.losses.CIFP, init_args: {far: 0.01}}",
    "weighted": "{class_path: verisphere.losses.WeightedSum, init_args: {losses: [{class_path: "
    "verisphere.losses.ArcFace}, {class_path: verisphere.losses.Inter}], weights: [1, 0.5]}}",
}


def trained(folder: Path, *changes: str) -> Path:
    """A run of one epoch."""
    (folder / "recipe.yaml").write_text(RECIPE)
    read = read_recipe(folder / "recipe.yaml", ["--epochs=1", *changes])
    train_run(read, folder / "run", device="cpu", threads=1)
    return folder / "run"


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_draws_an_image_to_its_class(loss: str, tmp_path: Path):
    run = trained(tmp_path, f"--loss={LOSSES[loss]}")
    closed = open_closed_set(run)
    assert closed.people == tuple((run / "people.txt").read_text().split())
    for name, tensor in load_file(list_checkpoints(run)[-1] / "head.safetensors").items():
        assert torch.equal(closed.head.state_dict()[name], tensor), name
    network = open_model(run, torch.device("cpu"), True).backbone
    labels = torch.tensor([4, 1])
    settings = Inversion(steps=20, batch_size=2, rate=0.1, batch_norm=0.0, total_variation=0.0, energy=0.0)

    def losses(pixels: torch.Tensor) -> float:
        with torch.no_grad():
            return closed.head(network(network.normalise(pixels)), labels).loss.item()

    first = invert(network, TowardCenters(closed.head, labels), replace(settings, steps=1))
    last = invert(network, TowardCenters(closed.head, labels), settings)
    assert losses(last) < losses(first)


def test_sub_centers(tmp_path: Path):
    closed = open_closed_set(trained(tmp_path, "--subcenters=3"))
    assert closed.head.centers.shape == (6, 3, 16)
    assert closed.head.subcenters.count == 3


def test_a_folder_with_its_head_and_one_without(tiny: Path, tmp_path: Path):
    pytest.importorskip("onnx", reason="the extra export is not installed")
    export_model(tiny / "run", tmp_path / "with", template="small", trust_code=True, with_head=True)
    closed = open_closed_set(tmp_path / "with", True)
    assert closed.people is None
    assert torch.equal(closed.head.centers, open_closed_set(tiny / "run").head.centers)
    people = open_closed_set(tiny / "run").people
    assert people is not None
    assert closed.named(people, "data") == people
    with pytest.raises(ValueError, match="data: the model was not trained on 'f', by its digests of names"):
        closed.named((*people[:5], "f"), "data")
    with pytest.raises(
        ValueError, match=r"data: the model was not trained on 'LOOKALIKE-P00003'.*as they were written"
    ):
        closed.named((people[0].upper(), *people[1:]), "data", "merge")  # the order of others might be another
    exact = name_digests(people, written=True)
    assert closed.trained_on is not None
    closed = replace(closed, trained_on=replace(closed.trained_on, classes=None))  # as of an earlier version
    closed = replace(closed, trained_on=replace(closed.trained_on, written=exact))
    capitals = tuple(name.upper() for name in people)
    assert closed.named(capitals, "data") == capitals
    with pytest.raises(ValueError, match="data: the model was not trained on 'LOOKALIKE-P00003'"):
        closed.named(capitals, "data", "exact")
    assert closed.named(tuple("123456"), "data") == tuple("123456")  # numbers are no names
    with pytest.raises(ValueError, match="data: 2 people, and the head has 6 classes"):
        closed.named(("a", "b"), "data")
    export_model(tiny / "run", tmp_path / "without", template="small", trust_code=True)
    with pytest.raises(ValueError, match="exported without its head"):
        open_closed_set(tmp_path / "without", True)


def test_what_is_missing_or_damaged_is_named(tiny: Path, tmp_path: Path):
    run = tmp_path / "run"
    shutil.copytree(tiny / "run", run)
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    (run / "recipe.yaml").unlink()
    with pytest.raises(ValueError, match=r"recipe\.yaml: not there; it says by which loss"):
        open_closed_set(run)
    (run / "recipe.yaml").write_text("loss: 3\n")
    with pytest.raises(ValueError, match="names no loss"):
        open_closed_set(run)
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe | {"loss": {"class_path": "os.path.join"}}))
    with pytest.raises(ValueError, match="is not part of verisphere"):
        open_closed_set(run)
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe | {"subcenters": 2}))
    with pytest.raises(ValueError, match="centers"):
        open_closed_set(run)
    head = list_checkpoints(run)[-1] / "head.safetensors"
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    head.write_bytes(head.read_bytes()[:-40])
    with pytest.raises(ValueError, match="head"):
        open_closed_set(run)
