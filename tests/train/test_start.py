"""Trainings that begin with the weights of another run, and batches in which images of a person follow each other."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from foreign_graphs import graph, written
from tiny_runs import read
from verisphere.backbones import IResNet, MobileFaceNet, OnnxNetwork, Pixels
from verisphere.base.vocabulary import ImageSource, TrainingRecord
from verisphere.images.decoded_faces import InMemory
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.models.image_sources import recorded_sources
from verisphere.models.model_json import Adopted, Description, FileDigest, preprocessing
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.export import file_digest, write_description
from verisphere.ship.pixels import Told
from verisphere.train.recipe import ReadRecipe
from verisphere.train.restore import _check_alike
from verisphere.train.session import train_run

RECIPE = """\
data: {class_path: own_parts.Noise, init_args: {people: 5, images: 4}}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: verisphere.losses.ArcFace, init_args: {scale: 16}}
optimizer: {rate: 0.02}
epochs: 1
batch_size: 6
log_every: 1
workers: 0
"""


@pytest.fixture
def warm(recipe, tmp_path):
    train_run(read(recipe), tmp_path / "warm")
    return tmp_path / "warm"


def tensors(run: Path, part: str) -> dict[str, torch.Tensor]:
    return read_checkpoint(run).tensors(part)


STILL = "--optimizer.rate", "1e-30"  # weights stay where they began


def test_a_run_begins_with_the_weights_of_another(recipe, warm, tmp_path):
    train_run(read(recipe, "--start", str(warm), *STILL, "--optimizer.weight_decay", "0"), tmp_path / "next")
    assert list_checkpoints(tmp_path / "next")[-1].name == "step-00000003"  # steps are counted anew
    for part in ("backbone", "head"):
        before, after = tensors(warm, part), tensors(tmp_path / "next", part)
        moved = [name for name in before if not name.endswith(("num_batches_tracked", "running_mean", "running_var"))]
        assert moved
        assert all(torch.equal(before[name], after[name]) for name in moved)
    # the resolved recipe says where it came from, and so goes on or is made again alike
    assert read(tmp_path / "next" / "recipe.yaml").recipe.start == str(warm)


def test_a_checkpoint_can_be_named_itself_and_the_seed_is_ones_own(recipe, warm, tmp_path):
    (checkpoint,) = list_checkpoints(warm)
    for name, seed in (("a", "3"), ("b", "4"), ("c", "3")):
        train_run(read(recipe, "--start", str(checkpoint), "--seed", seed), tmp_path / name)
    centers = {name: tensors(tmp_path / name, "head")["centers"] for name in "abc"}
    assert torch.equal(centers["a"], centers["c"])
    assert not torch.equal(centers["a"], centers["b"])


def test_a_checkpoint_records_its_images_and_those_of_the_run_it_started_from(recipe, warm, tmp_path):
    noise = ImageSource("own_parts.Noise")
    assert recorded_sources(read_checkpoint(warm)) == (noise,)
    changed = read(recipe, "--data.class_path", "own_parts.Sketches", "--start", str(warm))
    train_run(changed, tmp_path / "next")
    assert recorded_sources(read_checkpoint(tmp_path / "next")) == (noise, ImageSource("sketches", drawn=True))


def test_a_checkpoint_from_before_sources_were_recorded_is_described_by_its_run(warm):
    state = read_checkpoint(warm).path / "state.json"
    content = json.loads(state.read_text())
    del content["sources"]
    state.write_text(json.dumps(content))
    assert recorded_sources(read_checkpoint(warm)) == (ImageSource("own_parts.Noise"),)
    recipe = warm / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("own_parts.Noise", "verisphere.images.SyntheticFaces"))
    assert recorded_sources(read_checkpoint(warm))[0].drawn


@pytest.mark.parametrize("sources", ["lfw.zip", [3], [{"place": 1}], [{"drawn": True}]])
def test_a_record_of_sources_that_is_none_is_refused(warm, sources):
    state = read_checkpoint(warm).path / "state.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"sources": sources}))
    with pytest.raises(ValueError, match=r"state\.json: sources"):
        recorded_sources(read_checkpoint(warm))


def test_a_resumed_run_goes_on_from_itself_and_not_from_its_start(recipe, warm, tmp_path):
    overrides = "--start", str(warm), "--epochs", "2"
    train_run(read(recipe, *overrides), tmp_path / "whole")
    run = tmp_path / "parts"
    train_run(read(recipe, *overrides), run)
    for checkpoint in list_checkpoints(run)[1:]:
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    train_run(read(recipe, *overrides), run, resume=True)
    assert torch.equal(tensors(run, "head")["centers"], tensors(tmp_path / "whole", "head")["centers"])


def test_a_loss_of_another_kind_takes_the_centers_over(recipe, warm, tmp_path):
    train_run(read(recipe, "--start", str(warm), *STILL, "--optimizer.weight_decay", "0",
                   "--loss", "verisphere.losses.CurricularFace"), tmp_path / "next")  # fmt: skip
    after = tensors(tmp_path / "next", "head")
    assert torch.equal(after["centers"], tensors(warm, "head")["centers"])
    assert "loss.curriculum" in after


def test_margins_are_drawn_by_the_seed_of_the_next_run(recipe, tmp_path):
    """The rows that have had their numbers are taken over, the seed is not: other seeds are other runs."""
    elastic = "--loss", "verisphere.losses.ElasticFace"
    train_run(read(recipe, *elastic), tmp_path / "first")
    rows = tensors(tmp_path / "first", "head")["noise.rows"].item()
    next_run = train_run(read(recipe, *elastic, "--start", str(tmp_path / "first"), "--seed", "7"), tmp_path / "next")
    assert next_run.head.noise.seed == 7
    assert next_run.head.noise.rows.item() == 2 * rows > 0
    train_run(read(recipe, "--start", str(tmp_path / "next")), tmp_path / "last")  # a loss that asks for none
    assert "noise.rows" not in tensors(tmp_path / "last", "head")


def refuse(recipe: Path, out: Path, *overrides: str, error: Any = ValueError) -> str:
    with pytest.raises(error, match=r"\A[^\n]*\Z") as caught:
        train_run(read(recipe, *overrides), out)
    assert not out.exists()  # nothing half-written is left, nor a folder
    return str(caught.value)


def test_what_cannot_be_taken_over_is_said_in_a_line(recipe, warm, tmp_path):
    out = tmp_path / "next"
    assert "neither a checkpoint" in refuse(recipe, out, "--start", str(tmp_path), error=FileNotFoundError)
    others = "--data.people", "7"
    said = refuse(recipe, out, "--start", str(warm), *others)
    assert re.search(r"was trained on 5 people but the recipe's data are of 7, .*--start_head false", said)
    train_run(read(recipe, "--start", str(warm), *others, "--start_head", "false"), tmp_path / "backbone")
    assert tensors(tmp_path / "backbone", "head")["centers"].shape[0] == 7
    said = refuse(recipe, out, "--start", str(warm), "--subcenters", "3")
    assert "its centers are (5, 1, 8), this head's (5, 3, 8)" in said
    said = refuse(recipe, out, "--start", str(warm), "--backbone.embedding_size", "4")
    assert "backbone does not fit TinyNet" in said


MODEL = {"embedding_size": 8, "width": 0.01, "face_height": 16, "face_width": 16, "mean": 0.0, "scale": 255.0}


def model_folder(folder: Path, adopted: Adopted | None = None, sources: tuple[ImageSource, ...] = ()) -> Path:
    """A model folder with a tiny MobileFaceNet."""
    network = MobileFaceNet(**MODEL)
    folder.mkdir()
    save_file(network.state_dict(), folder / "backbone.safetensors")
    backbone = {"class_path": "verisphere.backbones.MobileFaceNet", "init_args": MODEL}
    weights = {"backbone.safetensors": file_digest(folder / "backbone.safetensors")}
    write_description(
        folder,
        Description(
            *("net", "0", "0", backbone, 8, "mine_16x16", preprocessing(network), False, ()),
            training=TrainingRecord(step=1, sources=sources),
            files=weights,
            adopted=adopted,
        ),
    )
    return folder


def with_model(recipe: Path, folder: Path, *overrides: str, **different: float) -> ReadRecipe:
    arguments = [word for name, value in (MODEL | different).items() for word in (f"--backbone.{name}", str(value))]
    return read(
        recipe, "--backbone", "verisphere.backbones.MobileFaceNet", *arguments, "--start", str(folder), *overrides
    )


@pytest.mark.parametrize(
    ("adopted", "sources", "before"),
    [
        (Adopted("068.ckpt"), (), ImageSource("an unknown set (adopted from 068.ckpt)")),
        (None, (ImageSource("lfw.zip", False),), ImageSource("lfw.zip", False)),
    ],
    ids=["adopted", "exported"],
)
def test_a_training_starts_from_the_weights_of_a_model_folder(recipe, tmp_path, adopted, sources, before):
    folder = model_folder(tmp_path / "model", adopted, sources)
    train_run(with_model(recipe, folder, *STILL, "--optimizer.weight_decay", "0"), tmp_path / "run")
    theirs, after = load_file(folder / "backbone.safetensors"), tensors(tmp_path / "run", "backbone")
    moved = [name for name in theirs if not name.endswith(("num_batches_tracked", "running_mean", "running_var"))]
    # a step of 1e-30 moves a bias of 0
    assert all(torch.allclose(theirs[name], after[name], rtol=0, atol=1e-20) for name in moved)
    assert recorded_sources(read_checkpoint(tmp_path / "run")) == (before, ImageSource("own_parts.Noise"))


def test_a_model_that_would_embed_otherwise_is_not_started_from(recipe, tmp_path):
    folder, out = model_folder(tmp_path / "model"), tmp_path / "run"

    def refused(**different: float) -> str:
        with pytest.raises(ValueError, match="start: ") as caught:
            train_run(with_model(recipe, folder, **different), out)
        return str(caught.value)

    assert "mean of its backbone is 0.0 and that of the recipe's 127.5; take the backbone" in refused(mean=127.5)
    assert "backbone does not fit MobileFaceNet" in refused(embedding_size=4)
    weights = folder / "backbone.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="not the file that was exported"):
        train_run(with_model(recipe, folder), out)
    weights.unlink()
    with pytest.raises(FileNotFoundError, match=r"backbone\.safetensors is not there; copy the model folder anew"):
        train_run(with_model(recipe, folder), out)


def test_the_epsilon_of_a_batch_norm_must_be_that_of_the_model():
    backbone = {"class_path": "verisphere.backbones.IResNet", "init_args": {"depth": 18, "embedding_size": 8}}
    with torch.device("meta"):
        same, other = IResNet(18, 8), IResNet(18, 8, epsilon=2e-5)
    pixels = preprocessing(Pixels())
    _check_alike(pixels, backbone, same, "start: model", "backbone of its model.json")
    with pytest.raises(ValueError, match=r"stem\.1\.eps of its backbone is 1e-05 and that of the recipe's 2e-05"):
        _check_alike(pixels, backbone, other, "start: model", "backbone of its model.json")


def test_a_run_that_takes_other_pixels_is_not_started_from(recipe, tmp_path):
    folder = model_folder(tmp_path / "model")
    train_run(with_model(recipe, folder, *STILL), tmp_path / "before", until=1)
    with pytest.raises(ValueError, match=r"mean of its backbone is 0\.0 and that of the recipe's 127\.5"):
        train_run(with_model(recipe, tmp_path / "before", mean=127.5), tmp_path / "next")


def test_a_graph_cannot_be_trained(recipe, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    backbone = {"class_path": "verisphere.backbones.OnnxNetwork", "init_args": {"embedding_size": 8}}
    graph = {"network.onnx": FileDigest("0" * 64, 1)}
    parts = (preprocessing(OnnxNetwork(8)), False, (), TrainingRecord(), graph, Adopted("net.onnx"))
    write_description(folder, Description("net", "0", "0", backbone, 8, "mine", *parts))
    assert "holds network.onnx, a graph that cannot be trained" in refuse(
        recipe, tmp_path / "run", "--start", str(folder)
    )


def test_a_graph_that_was_read_is_trained_on_if_its_operators_are_the_same(tmp_path):
    """An adopted graph by its own `backbone.yaml`; another stride or step would compute something else by the same
    weights.
    """
    model = adopt_onnx(
        written(tmp_path / "net.onnx", graph()),
        tmp_path / "model",
        Told(colour="RGB", mean=0.0, scale=255.0, template="mine_8x8"),
        trainable=True,
    ).folder
    path = tmp_path / "further.yaml"
    further = RECIPE.replace("backbone: {class_path: own_parts.TinyNet}", f"base: {model}/backbone.yaml")
    path.write_text(further.replace("images: 4", "images: 4, side: 8"))
    train_run(read(path, "--start", str(model), *STILL, "--optimizer.weight_decay", "0"), tmp_path / "run")
    theirs, after = load_file(model / "backbone.safetensors"), tensors(tmp_path / "run", "backbone")
    assert theirs.keys() == after.keys()
    assert all(torch.equal(theirs[name], after[name]) for name in theirs)
    base, relu = (model / "backbone.yaml").read_text(), "    - {operator: Function, function: Relu, inputs: [2]}\n"
    path.write_text(
        path.read_text().replace(f"base: {model}/backbone.yaml", base.replace("    height", relu + "    height"))
    )
    said = refuse(path, tmp_path / "other", "--start", str(model))
    assert "number of operators of its backbone is 2 and that of the recipe's 3; take the backbone of its" in said
    assert len(said) < 900


def test_a_checkpoint_away_from_its_run_gives_its_backbone_alone(recipe, warm, tmp_path):
    (checkpoint,) = list_checkpoints(warm)
    alone = checkpoint.rename(tmp_path / checkpoint.name)
    assert "its run has no people.txt to say whose centers these are" in refuse(
        recipe, tmp_path / "a", "--start", str(alone)
    )
    train_run(read(recipe, "--start", str(alone), "--start_head", "false"), tmp_path / "b")


def test_names_with_odd_line_ends_are_the_same_people(recipe, tmp_path):
    names = ("a\u2028b", "c\x0bd", "e\x85f", "g", "h")

    def renamed(*overrides: str) -> ReadRecipe:
        made = read(recipe, *overrides)
        faces = made.recipe.data
        people = tuple(names[label] for label in faces.labels.tolist())
        others = InMemory(faces.images(range(len(faces))), faces.names, people)
        return replace(made, recipe=replace(made.recipe, data=others))

    train_run(renamed(), tmp_path / "warm")
    train_run(renamed("--start", str(tmp_path / "warm")), tmp_path / "next")


def test_a_run_begins_with_the_centers_of_people_in_another_spelling_where_names_are_merged(recipe, warm, tmp_path):
    """The merged names sort otherwise than those of the run."""
    before = read_checkpoint(warm).people
    spelled = [name.upper() if place % 2 else name for place, name in enumerate(before)]

    def renamed(rule: str | None) -> ReadRecipe:
        made = read(recipe, "--start", str(warm), *STILL, "--optimizer.weight_decay", "0")
        faces = made.recipe.data
        people = tuple(spelled[label] for label in faces.labels.tolist())
        others = InMemory(faces.images(range(len(faces))), faces.names, people, names_rule=rule)
        return replace(made, recipe=replace(made.recipe, data=others))

    train_run(renamed("merge"), tmp_path / "next")
    after = read_checkpoint(tmp_path / "next").people
    assert list(after) == sorted(spelled) != spelled
    order = [spelled.index(name) for name in after]
    centers = tensors(warm, "head")["centers"]
    assert torch.equal(tensors(tmp_path / "next", "head")["centers"], centers[order])
    for rule in (None, "exact"):
        with pytest.raises(ValueError, match=r"was trained on 5 people but .* of 5, or others; --names merge takes"):
            train_run(renamed(rule), tmp_path / "refused")


def test_images_of_a_person_follow_each_other_where_that_is_asked(recipe, tmp_path):
    train_run(read(recipe, "--images_per_identity", "2"), tmp_path / "pairs")
    train_run(read(recipe), tmp_path / "plain")
    assert not torch.equal(
        tensors(tmp_path / "pairs", "head")["centers"], tensors(tmp_path / "plain", "head")["centers"]
    )
