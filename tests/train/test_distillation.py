"""Distillation: a training beside teachers is one of the house: resumed to the bit, alike on ranks, told beforehand."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import foreign_graphs
from interrupting import Interrupting
from processes import run
from tiny_runs import OWN, RECIPE, command, files, metrics, read
from verisphere.head.head import CENTER_STD
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.models.run_head import open_head
from verisphere.ship.adopt import adopt_onnx
from verisphere.ship.pixels import Told
from verisphere.train.dry_run.measured import measure_backbone
from verisphere.train.dry_run.training_cost import training_cost
from verisphere.train.loop import TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.restore import image_sources
from verisphere.train.session import train_run

pytestmark = pytest.mark.usefixtures("process_as_it_was")

STUDENT = ("--loss", "verisphere.losses.ArcFace", "--loss.scale", "8", "--distill.trust_code", "true")
FLIPPED = ("--augment", "{flip: 0.5, crop: 0.0, brightness: 0.0, erase: 0.0}")
SMALLER = ("--backbone.embedding_size", "6", "--distill.projection", "true")
#: Ways to follow a teacher.
WAYS = {
    "batch by batch": (),
    "kept": FLIPPED,
    "plain": ("--distill.images", "plain", "--distill.centers", "means"),
    "smaller": (*SMALLER, "--engine", "streamed"),
    "centers": ("--distill.start_centers", "true", "--distill.l2", "0"),
    "sampled": ("--engine", "sampled", "--sample_rate", "0.6", "--distill.l2", "0"),
    "in parts": ("--accumulate", "2", *FLIPPED),
}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        folder = tmp_path_factory.mktemp("teacher")
        (folder / "recipe.yaml").write_text(RECIPE)
        loss = ("--loss", "verisphere.losses.CosFace", "--loss.scale", "8")
        assert command("train", folder / "recipe.yaml", "--out", folder / "run", *loss) == 0
        return folder / "run"


def beside(teacher: Path, *words: str) -> list[str]:
    return [*STUDENT, f"--distill.teachers={json.dumps([str(teacher)])}", *words]


@pytest.mark.parametrize("way", WAYS)
def test_a_resumed_distillation_equals_an_uninterrupted_one_bit_for_bit(recipe, tmp_path, teacher, way):
    words = beside(teacher, *WAYS[way])
    train_run(read(recipe, *words), tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        train_run(read(recipe, *words), tmp_path / "parts", progress=Interrupting(3))
    shutil.rmtree(tmp_path / "parts" / "teacher", ignore_errors=True)  # what is kept is made again
    train_run(read(recipe, *words), tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


def test_the_first_loss_is_the_sum_of_its_parts(recipe, tmp_path, teacher):
    def first(*words: str) -> dict[str, float]:
        out = tmp_path / str(len(list(tmp_path.iterdir())))
        train_run(read(recipe, *beside(teacher, "--epochs", "0.34", *words)), out)
        return metrics(out)[0]

    nothing = ("--distill.start_centers", "true", "--distill.l2", "0", "--distill.kl", "0")
    margin = first(*nothing)["loss"]
    l2 = first(*nothing, "--distill.l2", "0.5")
    assert l2["loss"] == pytest.approx(margin + 0.5 * l2["teacher_distance"], rel=1e-5)
    by_kl = [first(*nothing, "--distill.kl", weight)["loss"] - margin for weight in ("0.2", "0.4")]
    assert by_kl[1] == pytest.approx(2 * by_kl[0], rel=1e-4)
    assert by_kl[0] > 0


def test_a_student_that_starts_with_its_teachers_weights_has_no_distance(recipe, tmp_path, teacher):
    still = ("--start", str(teacher), "--backbone.dropout", "0", "--epochs", "0.34", *FLIPPED)
    words = beside(teacher, *still, "--backbone", "own_parts.FrozenNet")
    recipe.write_text(RECIPE.replace("TinyNet", "FrozenNet"))
    train_run(read(recipe, *[word for word in words if word not in ("--backbone.dropout", "0")]), tmp_path / "run")
    assert metrics(tmp_path / "run")[0]["teacher_distance"] < 0.05  # its batch norm stays, as the teacher's does


def test_centers_start_as_the_teachers(recipe, tmp_path, teacher):
    words = beside(teacher, "--distill.start_centers", "true", "--optimizer.rate", "1e-12", "--epochs", "0.34")
    train_run(read(recipe, *words), tmp_path / "run")
    ours, theirs = open_head(tmp_path / "run"), open_head(teacher)
    assert ours.people == theirs.people
    torch.testing.assert_close(ours.centers, theirs.centers, rtol=1e-4, atol=1e-5)
    stored = read_checkpoint(tmp_path / "run").tensors("head")["centers"]
    torch.testing.assert_close(stored.norm(dim=2), torch.full(stored.shape[:2], CENTER_STD * 8**0.5), rtol=1e-3, atol=0)


def test_the_projection_is_in_the_checkpoint_and_not_in_the_model(recipe, tmp_path, teacher):
    train_run(read(recipe, *beside(teacher, *SMALLER)), tmp_path / "run")
    checkpoint = read_checkpoint(tmp_path / "run")
    assert checkpoint.tensors("pairs")["0.project.weight"].shape == (8, 6)
    assert checkpoint.tensors("backbone").keys() == read(recipe, *SMALLER).recipe.backbone.state_dict().keys()


def test_the_student_records_the_images_of_its_teachers(recipe, teacher):
    """Calibration and model card ask which people a network may know: those of its teachers, too."""
    here = image_sources(read(recipe, *STUDENT).recipe)
    assert [source.place for source in here] == ["own_parts.Noise"]
    words = [*STUDENT, f"--distill.teachers={json.dumps(['made/elsewhere.npz', str(teacher)])}"]
    places = [source.place for source in image_sources(read(recipe, *words).recipe)]
    assert places == ["an unknown set (by the embeddings in elsewhere.npz)", "own_parts.Noise", "own_parts.Noise"]


# What a process does ------------------------------------------------------------------------------


def distilled(folder: str, ways: dict[str, list[str]]) -> None:
    sys.path.insert(0, str(OWN))
    for way, words in ways.items():
        train_run(read_recipe(Path(folder) / "recipe.yaml", words), Path(folder) / way, device="cpu")


def test_two_ranks_train_as_one_does(tmp_path, teacher):
    for size in ("one", "two"):
        (tmp_path / size).mkdir()
        (tmp_path / size / "recipe.yaml").write_text(RECIPE.replace("TinyNet", "PlainNet"))
    ways = {way: beside(teacher, *WAYS[way]) for way in ("batch by batch", "kept", "smaller", "in parts")}
    distilled(str(tmp_path / "one"), ways)
    run(distilled, 2, str(tmp_path / "two"), ways)
    for way in ways:
        one, two = (read_checkpoint(tmp_path / size / way) for size in ("one", "two"))
        for part in ("backbone", "head", *(("pairs",) if "pairs" in one.sha256 else ())):
            ours, theirs = one.tensors(part), two.tensors(part)
            assert ours.keys() == theirs.keys()
            for name, tensor in ours.items():
                torch.testing.assert_close(theirs[name], tensor, rtol=2e-4, atol=2e-5, msg=f"{way}, {part}: {name}")


# The verb and the dry run ---------------------------------------------------------------------------


def test_the_verb_trains_as_train_does(recipe, tmp_path, teacher, capsys):
    named = f"--distill.teachers=[{teacher}]"
    assert command("train", recipe, named, "--out", tmp_path / "verb", *STUDENT) == 0
    train_run(read(recipe, *beside(teacher)), tmp_path / "call")
    assert files(tmp_path / "verb") == files(tmp_path / "call")
    following = tmp_path / "following.yaml"
    following.write_text(recipe.read_text() + "distill: {kl: 0}\n")
    assert command("train", following, "--out", tmp_path / "none", *STUDENT) == 2
    assert "--distill.teachers is missing: runs, model folders" in capsys.readouterr().err
    assert command("train", following, "--out", tmp_path / "alone", "--distill.teachers", "[]", *STUDENT) == 0


def test_the_dry_run_counts_the_teacher(recipe, teacher, capsys):
    assert command("train", recipe, f"--distill.teachers=[{teacher}]", "--dry-run", *STUDENT) == 0
    out = capsys.readouterr().out
    assert "ArcFace with 1 teacher over 5 classes" in out
    assert "the teacher" in out
    alone = training_cost(read(recipe, *STUDENT).recipe, classes=1000)
    live = training_cost(read(recipe, *beside(teacher)).recipe, classes=1000)
    kept = training_cost(read(recipe, *beside(teacher, *FLIPPED)).recipe, classes=1000)
    network = measure_backbone(read(recipe).recipe.backbone)
    assert alone.memory.teacher == alone.teacher_flops == 0
    assert live.teacher_flops == 6 * network.flops  # a forward for each image of a batch
    assert kept.teacher_flops == 0
    weights = sum(tensor.nbytes for tensor in read(recipe).recipe.backbone.state_dict().values())
    assert kept.memory.teacher == weights + 1000 * 8 * 4 + 6 * 8 * 4  # centers, and the rows of a batch
    assert live.memory.teacher > kept.memory.teacher
    by_two = training_cost(read(recipe, *beside(teacher)).recipe, classes=1000, processes=2)
    assert {"the teacher's embeddings", "the teacher's sums over the classes"} <= {one.what for one in by_two.traffic}
    assert live.head_flops > 2 * alone.head_flops


# Bad input ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--loss", "verisphere.losses.Softmax"],
            r"distill\.kl compares cosines to the classes, and Softmax compares raw",
        ),
        (["--distill.l2", "-1"], r"distill\.l2 is -1"),
        (
            ["--distill.start_centers", "true", "--start", "x"],
            r"start_centers and start_head both set the class centers",
        ),
        (["--distill.start_centers", "true", "--subcenters", "2"], r"subcenters is 2; centers that start alike"),
        (["--distill.teachers", "[nowhere]"], "nowhere"),
        (["--distill.projecting", "true"], "projecting"),
    ],
)
def test_bad_input_is_one_line(recipe, tmp_path, teacher, capsys, words, message):
    assert command("train", recipe, "--out", tmp_path / "run", *beside(teacher), *words) == 2
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run").exists()


def test_a_teacher_that_takes_other_pixels_cannot_continue(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(foreign_graphs, "SIDE", 16)
    file, model = foreign_graphs.written(tmp_path / "net.onnx", foreign_graphs.graph(side=16)), tmp_path / "model"
    told = Told(colour="RGB", mean=0.0, scale=1.0, template="own")
    words = [*beside(model), "--distill.projection", "true", "--distill.kl", "0"]
    adopt_onnx(file, model, told)
    with pytest.raises(TrainingStopped):
        train_run(read(recipe, *words), tmp_path / "run", progress=Interrupting(3))
    for name, value in (("mean", 90.0), ("colour", "BGR"), ("template", "mine")):
        shutil.rmtree(model)
        adopt_onnx(file, model, replace(told, **{name: value}))
        with pytest.raises(ValueError, match=rf"teacher of .*step-\S+: not made as .*model is \({name} "):
            train_run(read(recipe, *words), tmp_path / "run", resume=True)
    shutil.rmtree(model)
    adopt_onnx(file, model, told)
    state = list_checkpoints(tmp_path / "run")[-1] / "state.json"
    older = {name: value for name, value in json.loads(state.read_text()).items() if name != "teacher_origins"}
    state.write_text(json.dumps(older))  # as runs of earlier versions have it
    train_run(read(recipe, *words), tmp_path / "run", resume=True)


def test_another_teacher_cannot_continue(recipe, tmp_path, teacher, capsys):
    other = tmp_path / "teacher"
    shutil.copytree(teacher, other)
    words = beside(other, "--epochs", "1")
    assert command("train", recipe, "--out", tmp_path / "run", *words) == 0
    shutil.rmtree(list_checkpoints(other)[-1])
    assert command("train", recipe, "--out", tmp_path / "run", *words, "--resume") == 2
    assert re.search(r"teacher is not the teacher that .*step-0+3 was trained with", capsys.readouterr().err)
