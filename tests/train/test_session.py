"""Runs: the folder they leave, going on after an interruption bit for bit, and what is refused, with its exit code."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL import Image

from interrupting import Interrupting
from tiny_runs import OWN, STEPS, command, files, metrics, read
from verisphere.base.vocabulary import ImageSource
from verisphere.images import InMemory, Joined, Photos
from verisphere.images.select import warn_of_shared_people
from verisphere.measure.validation import validation_figures
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.train.loop import TrainingDiverged, TrainingStopped
from verisphere.train.recipe import read_recipe
from verisphere.train.restore import data_digest
from verisphere.train.session import train_run

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def test_what_a_run_leaves(recipe, tmp_path):
    run = tmp_path / "runs" / "one"
    first = read(recipe, "--validation", "own_parts.Noise", "--validate_every", "2", "--validation_far", '["1e-1"]')
    objective = train_run(first, run, measure=validation_figures)
    assert sorted(entry.name for entry in run.iterdir()) == [
        ".lock",
        "checkpoints",
        "metrics.jsonl",
        "people.txt",
        "recipe.yaml",
        "run.json",
    ]
    assert (run / "people.txt").read_text() == "p0\np1\np2\np3\np4\n"
    assert read(run / "recipe.yaml").resolved == first.resolved
    assert [path.name for path in list_checkpoints(run)] == ["step-00000008", "step-00000009"]
    checkpoint = read_checkpoint(run)
    assert torch.equal(checkpoint.tensors("backbone")["project.weight"], objective.backbone.project.weight.cpu())
    assert torch.equal(checkpoint.tensors("head")["centers"], objective.head.centers.cpu())
    assert checkpoint.state["backbone"] == {
        "class_path": "own_parts.TinyNet", "init_args": {"embedding_size": 8, "dropout": 0.2}}  # fmt: skip
    entries = metrics(run)
    assert [entry["step"] for entry in entries if "loss" in entry] == list(range(1, STEPS + 1))
    assert [entry["step"] for entry in entries if "validation_tar_at_far_1e-1" in entry] == [6, 9]
    assert entries[0]["rate"] == pytest.approx(0.02 / 3)  # the middle of the first of 1.5 steps of warm-up


@pytest.mark.parametrize("optimizer", [[], ["--optimizer", "{name: adamw, rate: 1e-3}"]], ids=["sgd", "adamw"])
@pytest.mark.parametrize("stops", [[2], [3], [1, 1, 4]], ids=str)  # an epoch ends after steps 3 and 6
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(recipe, tmp_path, optimizer, stops):
    train_run(read(recipe, *optimizer), tmp_path / "whole")
    resume = False
    for steps in stops:
        with pytest.raises(TrainingStopped):
            train_run(read(recipe, *optimizer), tmp_path / "parts", resume=resume, progress=Interrupting(steps - 1))
        resume = True
        assert read_checkpoint(tmp_path / "parts").step == len(metrics(tmp_path / "parts"))
    torch.rand(5)
    train_run(read(recipe, *optimizer), tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


@pytest.mark.parametrize(
    "overrides",
    [
        ["--precision", "bfloat16", "--clip", "0.5", "--in_memory", "true"],
        ["--loss", "verisphere.losses.margin.ArcFace", "--subcenters", "2", "--schedule",
         "{shape: step, milestones: [1, 2]}", "--workers", "1"],
        ["--engine", "streamed", "--head_precision", "bfloat16", "--subcenters", "3", "--pooling", "softmax",
         "--pull_together", "0.1"],
        ["--loss", "verisphere.losses.ElasticFace", "--loss.plus", "true", "--seed", "3", "--accumulate", "2"],
        ["--loss", "verisphere.losses.CosFace", "--loss.scale", "8", "--pair_terms",
         '[{class_path: verisphere.pairs.AnchorFace, init_args: {far: "0.1", after: 0.5, features_per_identity: 2, '
         'valid_steps: 4}}, {class_path: verisphere.pairs.AnchorFace, init_args: {far: "0.1", compare: centers}}]'],
        ["--data", "own_parts.Rooms", "--loss", "verisphere.losses.ArcFace", "--loss.scale", "8", "--pair_terms",
         "[{class_path: verisphere.pairs.ThresholdConsistency, init_args: {far: 0.02, batches: 3, after: 0.5}}, "
         "{class_path: verisphere.pairs.ThresholdConsistency, init_args: {far: 0.05, batches: 2, domains: known, "
         "storage: bfloat16}}]"],
    ],
    ids=["bfloat16, clipped, in memory", "sub-centers, a worker", "streamed in bfloat16",
         "drawn margins, in parts", "a set of features and centers", "queues of domains"],
)  # fmt: skip
def test_other_recipes_resume_as_exactly(recipe, tmp_path, overrides):
    train_run(read(recipe, *overrides), tmp_path / "whole")
    with pytest.raises(TrainingStopped):
        train_run(read(recipe, *overrides), tmp_path / "parts", progress=Interrupting(3))
    train_run(read(recipe, *overrides), tmp_path / "parts", resume=True)
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


@pytest.mark.parametrize("loss", ["own_parts.OwnLoss", "verisphere.losses.SphereFace2"])
def test_the_streamed_engine_trains_as_the_dense_one_does(recipe, tmp_path, loss):
    """Without a gradient of the centers, whose update the head makes; equal to rounding."""
    runs = {}
    for engine in ("dense", "streamed"):
        train_run(read(recipe, "--loss", loss, "--engine", engine), tmp_path / engine)
        checkpoint = read_checkpoint(tmp_path / engine)
        runs[engine] = checkpoint.tensors("head") | checkpoint.tensors("backbone") | checkpoint.tensors("optimizer")
    assert runs["dense"].keys() == runs["streamed"].keys()
    for name, expected in runs["dense"].items():
        assert torch.allclose(runs["streamed"][name], expected, rtol=1e-3, atol=1e-5), name
    for dense, streamed in zip(metrics(tmp_path / "dense"), metrics(tmp_path / "streamed"), strict=True):
        assert dense == pytest.approx(streamed, rel=1e-3)


def test_what_was_logged_after_the_checkpoint_is_cut_on_resume(recipe, tmp_path):
    train_run(read(recipe), tmp_path / "whole")
    run = tmp_path / "killed"
    with pytest.raises(TrainingStopped):
        train_run(read(recipe), run, progress=Interrupting(3))
    with (run / "metrics.jsonl").open("a") as file:  # steps after the checkpoint, the last line torn by the kill
        file.write('{"step": 5, "loss": 1.0}\n{"step": 6, "lo')
    train_run(read(recipe), run, resume=True)
    assert metrics(run) == metrics(tmp_path / "whole")


def test_a_run_stopped_before_its_first_checkpoint_starts_again(recipe, tmp_path):
    def broken(items: Iterable[Any], description: str, total: int | None = None, done: int = 0) -> Iterator[Any]:
        yield next(iter(items))
        raise KeyboardInterrupt

    run = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train_run(read(recipe), run, progress=broken)
    assert list_checkpoints(run) == []
    assert len(metrics(run)) == 1
    train_run(read(recipe), run, resume=True)
    train_run(read(recipe), tmp_path / "whole")
    assert files(run) == files(tmp_path / "whole")
    assert metrics(run) == metrics(tmp_path / "whole")


def test_a_diverging_run_keeps_its_last_checkpoint_and_names_images(recipe, tmp_path):
    with pytest.raises(TrainingDiverged, match=r"step \d+: .*p\d/\d\.png"):
        train_run(read(recipe, "--optimizer.rate", "1e30", "--save_every", "0.01", "--schedule.warmup", "0"),
                  tmp_path / "run")  # fmt: skip
    tensors = read_checkpoint(tmp_path / "run").tensors("backbone")
    assert all(tensor.isfinite().all() for tensor in tensors.values())


def refuse(recipe: Path, out: Path, *overrides: str, **options: Any) -> str:
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        train_run(read(recipe, *overrides), out, measure=validation_figures, **options)
    return str(caught.value)


def test_a_run_does_not_begin_among_other_files(recipe, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "notes.txt").write_text("mine")
    (run / "people.txt").write_text("of a run that failed before its first step\n")
    assert refuse(recipe, run) == (
        f"{run} holds 1 file that is not of a run, such as notes.txt; choose a new folder as --out"
    )
    assert {path.name for path in run.iterdir()} - {".lock"} == {"notes.txt", "people.txt"}
    (run / "notes.txt").unlink()
    train_run(read(recipe, "--epochs", "1"), run)


def test_a_run_is_not_overwritten_nor_invented(recipe, tmp_path):
    run = tmp_path / "run"
    assert "holds no run to resume" in refuse(recipe, run, resume=True)
    train_run(read(recipe, "--epochs", "1"), run)
    kept = files(run)
    assert "already holds a run" in refuse(recipe, run)
    (run / "recipe.yaml").unlink()
    assert "already holds a run" in refuse(recipe, run)  # checkpoints by themselves are one too
    assert files(run) == kept


def test_a_run_goes_on_with_its_own_recipe_and_data_alone(recipe, tmp_path):
    run = tmp_path / "run"
    train_run(read(recipe, "--epochs", "1", "--clip", "5"), run)
    said = refuse(recipe, run, "--epochs", "1", "--optimizer.rate", "0.5", resume=True)
    assert said.endswith("recipe.yaml differs from the recipe given in: clip, optimizer")
    (run / "recipe.yaml").write_text("[]")
    assert "not a recipe" in refuse(recipe, run, resume=True)
    (run / "recipe.yaml").write_text("a: [")
    assert "not YAML" in refuse(recipe, run, resume=True)


def test_a_run_does_not_go_on_with_other_images(recipe, tmp_path):
    run = tmp_path / "run"
    train_run(read(recipe, "--epochs", "1"), run)
    changed = read(recipe, "--epochs", "1")
    changed.recipe.data.names = (*changed.recipe.data.names[1:], "p4/new.png")  # as many, but not the same
    with pytest.raises(ValueError, match=r"was trained on 20 images of 5 people .* are now 20 of 5, or others"):
        train_run(changed, run, resume=True)


def test_a_run_that_goes_on_with_other_pixels_under_the_same_names_says_so(recipe, tmp_path, monkeypatch, caplog):
    from own_parts import Noise

    run, original = tmp_path / "run", Noise.images
    train_run(read(recipe), run, until=1)
    train_run(read(recipe), run, resume=True, until=2)
    assert "other pixels" not in caplog.text
    monkeypatch.setattr(Noise, "images", lambda self, indices: 255 - original(self, indices))
    train_run(read(recipe), run, resume=True, until=3)
    assert "data: 6 of 6 images that" in caplog.text
    assert "was trained on last have other pixels now, under the same names" in caplog.text


def test_images_of_which_two_have_changed_people_are_other_images():
    pixels = torch.zeros(4, 3, 4, 4, dtype=torch.uint8)
    before, after = (data_digest(InMemory(pixels, ("1", "2", "3", "4"), tuple(people))) for people in ("aabb", "abab"))
    assert (before["images"], before["people"]) == (after["images"], after["people"])
    assert before["sha256"] != after["sha256"]


def test_a_damaged_checkpoint_stops_a_resumption_and_touches_nothing(recipe, tmp_path):
    run = tmp_path / "run"
    train_run(read(recipe), run)
    file = list_checkpoints(run)[-1] / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    before = metrics(run)
    assert "optimizer.safetensors is damaged" in refuse(recipe, run, resume=True)
    assert metrics(run) == before


def test_validation_is_tried_before_the_training(recipe, tmp_path):
    run = tmp_path / "run"
    for fields, message in (
        ("{people: 1}", "validation: 1 people found"),
        ("{images: 1}", "validation: no person has at least 2 images"),
        ("{side: 8}", "validation: images are 8 x 8 pixels but TinyNet takes 16 x 16"),
    ):
        text = refuse(recipe, run, "--validation", f"{{class_path: own_parts.Noise, init_args: {fields}}}")
        assert text.startswith(message)
    assert not run.exists()


def test_images_of_another_size_leave_no_folder(recipe, tmp_path):
    text = refuse(recipe, tmp_path / "run", "--data", "{class_path: own_parts.Noise, init_args: {side: 8}}")
    assert text.startswith("data: images are 8 x 8 pixels but TinyNet takes 16 x 16; were they aligned for another")
    assert not (tmp_path / "run").exists()


def test_tensorboard_without_its_extra_says_what_to_install(recipe, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert "pip install '.[track]'" in refuse(recipe, tmp_path / "run", tensorboard=True)
    assert not (tmp_path / "run").exists()


def test_tensorboard_gets_the_same_figures(recipe, tmp_path, monkeypatch):
    made = []

    class Writer:
        def __init__(self, folder: str, purge_step: int | None) -> None:
            self.folder, self.purge_step, self.scalars, self.closed = folder, purge_step, [], False
            made.append(self)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.scalars.append((name, value, step))

        def close(self) -> None:
            self.closed = True

    fake = ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    run = tmp_path / "run"
    with pytest.raises(TrainingStopped):
        train_run(read(recipe), run, tensorboard=True, progress=Interrupting(3))
    train_run(read(recipe), run, tensorboard=True, resume=True)
    assert [(writer.folder, writer.purge_step, writer.closed) for writer in made] == [
        (str(run / "tensorboard"), None, True), (str(run / "tensorboard"), 5, True)]  # fmt: skip
    losses = [(value, step) for writer in made for name, value, step in writer.scalars if name == "loss"]
    assert losses == [(entry["loss"], entry["step"]) for entry in metrics(run)]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["--data.people", "1"], "1 people found ('p0') but at least 2 are needed"),
        (["--batch_size", "21"], "20 images do not fill one batch of 21; lower batch_size"),
    ],
)
def test_data_that_do_not_suffice_are_one_line(recipe, tmp_path, overrides, message):
    assert message in refuse(recipe, tmp_path / "run", *overrides)


def test_the_verb_ends_with_what_happened_in_the_whole_training_however_often_it_was_resumed(
    recipe, tmp_path, capsys, monkeypatch
):
    fields = ["--validation", "own_parts.Noise", "--validate_every", "1", "--validation_far", '["1e-1"]']
    fields += ["--log_every", "2", "--device", "cpu"]
    assert command("train", recipe, "--out", tmp_path / "whole", *fields) == 0
    loss, validation, *_, end = capsys.readouterr().out.splitlines()
    assert loss.startswith("the loss fell since the margin reached its full size, from ")
    assert validation.startswith("TAR in validation at FAR 1e-1 ")
    assert " at step 3 to " in validation
    assert end.startswith(f"{tmp_path / 'whole'}: trained; next: ")
    monkeypatch.setattr("verisphere.report.progress.shown", Interrupting(6))
    assert command("train", recipe, "--out", tmp_path / "parts", *fields) == 143
    assert capsys.readouterr().out == ""
    monkeypatch.undo()
    monkeypatch.syspath_prepend(OWN)
    for _ in range(2):  # the second time there is nothing left to train
        assert command("train", recipe, "--out", tmp_path / "parts", *fields, "--resume") == 0
        assert capsys.readouterr().out.splitlines()[:2] == [loss, validation]
    assert metrics(tmp_path / "parts") == metrics(tmp_path / "whole")


def test_the_images_are_looked_at_once_for_being_aligned(recipe, tmp_path, monkeypatch):
    looked = []
    monkeypatch.setattr("verisphere.train.session.warn_if_unaligned", lambda *sets: looked.extend(sets))
    validation = ["--validation", "own_parts.Noise", "--validation.people", "4", "--validation.images", "4"]
    read = read_recipe(recipe, ["--epochs", "1", *validation])
    train_run(read, tmp_path / "run", measure=validation_figures, device="cpu")
    assert looked == [read.recipe.data, read.recipe.validation]
    train_run(
        read_recipe(recipe, ["--epochs", "1", *validation]),
        tmp_path / "run",
        measure=validation_figures,
        resume=True,
        device="cpu",
    )
    assert len(looked) == 2


def test_a_run_made_before_a_field_existed_goes_on_with_its_default(recipe, tmp_path):
    run = tmp_path / "run"
    train_run(read(recipe, "--epochs", "1"), run)
    lines = (run / "recipe.yaml").read_text().splitlines(keepends=True)
    (run / "recipe.yaml").write_text("".join(line for line in lines if not line.startswith("temperature:")))
    assert train_run(read(recipe, "--epochs", "1"), run, resume=True)
    said = refuse(recipe, run, "--epochs", "1", "--pooling", "softmax", "--temperature", "0.5", resume=True)
    assert said.endswith("recipe.yaml differs from the recipe given in: pooling, temperature")


PLATEAU = [
    "--validation", "own_parts.Noise", "--validate_every", "0.34", "--validation_far", '["1e-1"]', "--save_every", "9",
    "--schedule", "{shape: plateau, patience: 1, factor: 0.5}",
]  # fmt: skip


def test_a_run_whose_rate_follows_validation_goes_on_bit_for_bit(recipe, tmp_path):
    """It validates after every step; stopped, it saves before the validation of the step."""
    whole, halted = tmp_path / "whole", tmp_path / "halted"
    train_run(read(recipe, *PLATEAU), whole, measure=validation_figures)
    assert len({entry["rate"] for entry in metrics(whole) if "rate" in entry}) > 2
    with pytest.raises(TrainingStopped):
        train_run(read(recipe, *PLATEAU), halted, measure=validation_figures, progress=Interrupting(5))
    assert read_checkpoint(halted).state["plateau"]["step"] == read_checkpoint(halted).step - 1
    train_run(read(recipe, *PLATEAU), halted, measure=validation_figures, resume=True)
    assert files(halted) == files(whole)
    assert metrics(halted) == metrics(whole)


def test_a_plateau_needs_a_validation_that_takes_place(recipe, tmp_path):
    shape = ["--schedule.shape", "plateau"]
    assert "it needs a validation set, validation_far, and validate_every" in refuse(recipe, tmp_path / "a", *shape)
    figure = ["--schedule.figure", "validation_tar_at_far_1e-3"]
    said = refuse(recipe, tmp_path / "a", *PLATEAU, *figure)
    assert said.endswith("schedule.figure is 'validation_tar_at_far_1e-3'; allowed are validation_tar_at_far_1e-1")


def test_a_length_in_steps_makes_the_run_of_that_length_in_epochs(recipe, tmp_path):
    """Three steps an epoch: warm-ups, intervals and length in steps are those in epochs."""
    same = ["--epochs", "2", "--schedule.warmup", "2", "--schedule.margin_warmup", "1", "--save_every", "1"]
    train_run(read(recipe, *same), tmp_path / "epochs")
    steps = ["--epochs", "null", "--steps", "6", "--unit", "steps", "--save_every", "3"]
    warm = ["--schedule.warmup", "6", "--schedule.margin_warmup", "3"]
    train_run(read(recipe, *steps, *warm), tmp_path / "steps")
    assert files(tmp_path / "steps") == files(tmp_path / "epochs")
    assert metrics(tmp_path / "steps") == metrics(tmp_path / "epochs")


def test_validation_on_people_of_the_training_is_said(recipe, tmp_path, caplog):
    validation = ("--validation", "own_parts.Noise", "--validation_far", '["1e-1"]')
    train_run(read(recipe, *validation), tmp_path / "same", measure=validation_figures, until=1)
    assert "validation: 5 of its 5 people are people of the training, such as p0; a network knows" in caplog.text


def test_validation_on_people_of_the_training_before_is_said(recipe, tmp_path, caplog):
    train_run(read(recipe), tmp_path / "before")
    fields = ("--start", str(tmp_path / "before"), "--validation", "own_parts.Noise", "--validation_far", '["1e-1"]')
    train_run(read(recipe, *fields), tmp_path / "next", measure=validation_figures, until=1)
    assert "starts or learns from was trained on 5 of its 5 people (by name); a network knows" in caplog.text


def test_spellings_of_a_name_are_one_person_in_that_warning(caplog):
    pixels = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    upper, lower = (InMemory(pixels, (f"{name}/a",), (name,)) for name in ("ANN", "Ann"))
    warn_of_shared_people(upper, "validation", lower, "the validation")
    assert "validation: 1 of its 1 people are people of the training, such as ANN;" in caplog.text
    caplog.clear()
    upper.names_rule = lower.names_rule = "exact"
    warn_of_shared_people(upper, "validation", lower, "the validation")
    assert not caplog.text


def test_numbers_are_one_person_in_one_place_alone(caplog):
    pixels = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    sets = {
        place: type(place, (InMemory,), {"source": property(lambda _, place=place: ImageSource(place))})
        for place in ("first", "second")
    }
    first, second = (made(pixels, ("1/a", "2/a"), ("1", "2")) for made in sets.values())
    warn_of_shared_people(first, "validation", second, "the validation")
    assert not caplog.text
    warn_of_shared_people(first, "validation", first, "the validation")
    assert "validation: 2 of its 2 people are people of the training, such as 1;" in caplog.text


def test_numbers_of_two_files_of_one_name_are_not_one_persons(tmp_path: Path, caplog):
    sets = {}
    for folder in ("one", "two"):
        for person in ("1", "2"):
            (tmp_path / folder / "faces" / person).mkdir(parents=True)
            Image.new("RGB", (8, 8)).save(tmp_path / folder / "faces" / person / "a.png")
        sets[folder] = Photos(tmp_path / folder / "faces", size=(8, 8))
    warn_of_shared_people(sets["two"], "validation", sets["one"], "the validation")
    assert not caplog.text
    warn_of_shared_people(sets["one"].select([0]), "validation", sets["one"], "the validation")
    assert "validation: 1 of its 1 people are people of the training, such as 1;" in caplog.text


def test_people_of_a_joined_set_are_recognised_without_its_name(caplog: pytest.LogCaptureFixture):
    pixels = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    parts = [
        InMemory(pixels, names, people) for names, people in ((("1", "2"), ("Ann", "7")), (("3", "4"), ("8", "9")))
    ]
    joined = Joined(parts, ("one", "two"), same="apart")
    warn_of_shared_people(InMemory(pixels, ("5", "6"), ("ann", "7")), "validation", joined, "the validation")
    assert "validation: 1 of its 2 people are people of the training, such as ann;" in caplog.text
