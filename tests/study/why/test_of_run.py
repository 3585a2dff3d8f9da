"""Faults planted in the log of a training of a second, and what is named first."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import yaml
from PIL import Image

from tiny_runs import OWN, RECIPE, command
from verisphere.base.vocabulary import Embeddings
from verisphere.images import InMemory
from verisphere.images.faces import Faces
from verisphere.models.run_head import open_head
from verisphere.study.why.answer import Answer, Cause, Seen
from verisphere.study.why.of_run import RunCase, centers, validation
from verisphere.study.why.why import why


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of nine steps, whose validation shares its five people."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "recipe.yaml").write_text(RECIPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        assert command("train", folder / "recipe.yaml", "--out", folder / "run") == 0
    return folder / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def logged(run: Path, losses: list[float | None]) -> None:
    """A log of these losses, one each ten steps."""
    lines = [{"step": 10 * (row + 1), "loss": loss, "margin_share": 1.0} for row, loss in enumerate(losses)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def asked(run: Path) -> Answer:
    return why(run, trust_code=True)


def seen(answer: Answer, check: str) -> str:
    return next(tried.told for tried in answer.tried if tried.check == check)


def test_a_short_run_is_too_few_to_tell_and_no_alarm(trained: Path):
    answer = asked(trained)
    assert answer.cause is None
    assert seen(answer, "learning rate") == seen(answer, "start of the loss") == "too few to tell"
    assert seen(answer, "data") == "well"
    assert seen(answer, "validation") == "not asked"


def test_a_log_without_entries_is_too_few_to_tell(run: Path):
    logged(run, [])
    assert asked(run).cause is None


def test_a_loss_that_its_scale_holds_up_needs_a_larger_one(run: Path):
    stays = [1.6] * 12  # log(5) = 1.609, and at scale 1 at best log(1 + 4 exp(-1.25)) = 0.763
    for scale, mend in ((1.0, "--loss.scale 64"), (64.0, "a smaller margin or another rate")):
        recipe = yaml.safe_load((run / "recipe.yaml").read_text())
        recipe["loss"] = {"class_path": "verisphere.losses.NormFace", "init_args": {"scale": scale}}
        (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        logged(run, stays)
        cause = asked(run).cause
        assert cause is not None
        assert cause.name == "loss stuck at a constant"
        assert mend in cause.mend
        assert ("at loss.scale 1 the best network there can be has 0.763" in cause.evidence) == (scale == 1)


def test_a_loss_that_compares_rows_with_each_other_is_that_of_a_network_which_knows_nothing(run: Path):
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["loss"] = {"class_path": "verisphere.losses.VSoftmax", "init_args": {"scale": 4.0}}
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    logged(run, [4.06] * 12)  # log(5 + exp(4)) = 4.088, and at best log(1 + 1 + 4 exp(-1 - 4)) = 0.707
    cause = asked(run).cause
    assert cause is not None
    assert cause.name == "loss stuck at a constant"
    assert "a network that knows nothing of these people has 4.088" in cause.evidence


@pytest.mark.parametrize(
    ("losses", "name"),
    [
        ([8.0, 7.0, 9.0, 12.0, 15.0, 20.0, 21.0, 22.0, 23.0, 24.0], "learning rate too high"),
        ([8.0, 7.0, 12.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0], "learning rate too high"),  # it rose on its way
        ([8.0, None, None], "learning rate too high"),
        ([0.21, 0.09, 0.06, 0.04, 0.02, 0.02, 0.01, 0.005, 0.01, 0.008], ""),  # of triplets, which varies near 0
        ([9.0, 8.0, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.2, 4.0], ""),
        ([30.0, 20.0, 18.0, 17.9, 17.95, 17.9, 17.92, 17.9, 17.95, 17.9, 17.9, 17.9], "loss stuck at a constant"),
    ],
)
def test_the_course_of_a_loss(run: Path, losses: list[float | None], name: str):
    logged(run, losses)
    answer = asked(run)
    assert ("" if answer.cause is None else answer.cause.name) == name


def test_a_single_step_at_the_end_is_no_loss_that_the_training_came_from(run: Path):
    logged(run, [6.5, *np.linspace(4, 2.1, 46)])
    with (run / "metrics.jsonl").open("a") as log:
        log.write(json.dumps({"step": 471, "loss": 1.1, "margin_share": 1.0}) + "\n")
    assert asked(run).cause is None


def test_a_loss_that_does_not_start_at_a_rate_far_above_the_usual(run: Path):
    logged(run, [30.0, 20.0, 18.0, 17.9, 17.95, 17.9, 17.92, 17.9, 17.95, 17.9, 17.9, 17.9])
    recipe = yaml.safe_load((run / "recipe.yaml").read_text())
    recipe["optimizer"]["rate"] = 8.0
    (run / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    answer = asked(run)
    assert answer.cause is not None
    assert answer.cause.name == "learning rate too high"


def test_weights_that_stay_where_they_were(run: Path, monkeypatch: pytest.MonkeyPatch):
    logged(run, [8.0, 8.01, 7.99, 8.0, 8.0, 8.02, 7.98, 8.0])
    monkeypatch.setattr("verisphere.study.why.of_run.RunCase.moved", 1e-4)
    answer = asked(run)
    assert answer.cause is not None
    assert answer.cause.name == "learning rate too low"
    assert "0.0001 of their length" in answer.cause.evidence


def test_a_warm_up_that_is_longer_than_the_training(run: Path, monkeypatch: pytest.MonkeyPatch):
    logged(run, [8.0, 8.01, 7.99, 8.0, 8.0, 8.02, 7.98, 8.0])
    monkeypatch.setattr("verisphere.study.why.of_run.RunCase.moved", 0.05)
    log = run / "metrics.jsonl"
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("".join(json.dumps({**entry, "rate": 1e-4 * at}) + "\n" for at, entry in enumerate(entries)))
    answer = asked(run)
    assert answer.cause is not None
    assert answer.cause.name == "learning rate too low"
    assert "let the rate reach 0.0007 at most" in answer.cause.evidence
    assert "--schedule.warmup" in answer.cause.mend


def test_a_rate_that_falls_before_anything_is_learned(run: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("verisphere.study.why.of_run.RunCase.moved", 0.5)
    log, number = run / "metrics.jsonl", RunCase(run, True).recipe.optimizer.rate
    for losses, name in ([8.0] * 8, "learning rate too low"), ([8.0, *np.linspace(3, 0.5, 7)], ""):
        logged(run, losses)
        entries = [json.loads(line) for line in log.read_text().splitlines()]
        rates = [number, number, *[number / 1000] * 6]
        lines = [json.dumps({**entry, "rate": rate}) + "\n" for entry, rate in zip(entries, rates, strict=True)]
        log.write_text("".join(lines))
        answer = asked(run)
        assert ("" if answer.cause is None else answer.cause.name) == name
    logged(run, [8.0] * 8)
    assert "it falls too early" not in asked(run).text()


def test_weights_that_one_step_throws_further_than_they_are_long(run: Path, monkeypatch: pytest.MonkeyPatch):
    high, slow, halved = "learning rate too high", [9.0, *np.linspace(8, 5, 9)], [9.0, *np.linspace(8, 2, 9)]
    for losses, moved, name in (
        (slow, 3.0, ""),
        (slow, 4.0, high),  # (1 + 2 * 100) ** 0.25 is 3.77
        (halved, 7.0, ""),
        (halved, 12.0, high),  # (1 + 200 * 100) ** 0.25 is 11.9
    ):
        logged(run, losses)
        monkeypatch.setattr("verisphere.study.why.of_run.RunCase.moved", moved)
        answer = asked(run)
        assert ("" if answer.cause is None else answer.cause.name) == name


def test_labels_that_have_nothing_to_do_with_the_pixels(tmp_path: Path):
    """Patterns of forty people in a training of one step: under their own names, and under names that were drawn."""
    draw = np.random.default_rng(0)
    patterns = [draw.integers(0, 256, (4, 4, 3)).astype(np.uint8) for _ in range(40)]
    people = np.repeat(np.arange(40), 8)
    for name, labels in (("", people), ("label shift", draw.permutation(people))):
        folder = tmp_path / (name or "right").replace(" ", "-")
        for at, (pattern, label) in enumerate(zip(people, labels, strict=True)):
            (folder / "faces" / f"{label:02d}").mkdir(parents=True, exist_ok=True)
            image = Image.fromarray(patterns[pattern]).resize((16, 16), Image.Resampling.BICUBIC)
            image.save(folder / "faces" / f"{label:02d}" / f"{at:03d}.png")
        data = f"data: {{class_path: Photos, init_args: {{path: {folder / 'faces'}, size: [16, 16]}}}}"
        recipe = RECIPE.replace(RECIPE.splitlines()[0], data).replace("epochs: 3", "epochs: 0.05")
        (folder / "recipe.yaml").write_text(recipe)
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(OWN)
            assert command("train", folder / "recipe.yaml", "--out", folder / "run") == 0
        logged(folder / "run", [9.0, 8.0, 7.0])
        answer = asked(folder / "run")
        assert ("" if answer.cause is None else answer.cause.name) == name


def test_data_and_validation_that_are_not_as_they_should_be(run: Path):
    recipe = run / "recipe.yaml"
    text = recipe.read_text()
    assert "people: 5" in text
    recipe.write_text(text.replace("people: 5", "people: 6"))
    answer = asked(run)
    assert answer.cause is not None
    assert answer.cause.name == "images of other names or people"
    assert "20 images of 5 people, and the data now have 24 of 6" in answer.cause.evidence
    data = text.partition("data:")[2].partition("\nbackbone:")[0]
    recipe.write_text(text.replace("validation: null", f"validation:{data}"))
    answer = asked(run)
    assert answer.cause is not None
    assert answer.cause.name == "validation people in the training"


def test_codes_that_differ_in_case_are_people_where_both_sets_say_so():
    pixels = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    upper, lower = (InMemory(pixels, ("1",), (name,)) for name in ("AB1", "ab1"))
    case = RunCase(Path())
    vars(case).update(recipe=SimpleNamespace(validation=upper, data=lower), checkpoint=None)
    assert isinstance(validation(case), Cause)
    upper.names_rule = lower.names_rule = "exact"
    assert isinstance(validation(case), Seen)


def test_a_person_of_a_joined_set_is_the_one_of_that_name_in_the_validation():
    pixels = torch.zeros(1, 3, 4, 4, dtype=torch.uint8)
    joined, own = (InMemory(pixels, ("1",), (name,)) for name in ("casia/Ann_Lee", "Ann_Lee"))
    case = RunCase(Path())
    vars(case).update(recipe=SimpleNamespace(validation=own, data=joined), checkpoint=None)
    assert isinstance(validation(case), Cause)


def trained_on(folder: Path, data: str, *changed: tuple[str, str]) -> Path:
    """A run in this folder on these data."""
    recipe = RECIPE.replace(RECIPE.splitlines()[0], data)
    for before, after in changed:
        assert before in recipe
        recipe = recipe.replace(before, after)
    (folder / "recipe.yaml").write_text(recipe)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        assert command("train", folder / "recipe.yaml", "--out", folder / "run") == 0
    return folder / "run"


def test_images_of_the_training_under_other_names_in_the_validation(tmp_path: Path):
    draw = np.random.default_rng(0)
    for folder, name, seen in (("faces", "p", 0), ("renamed", "q", 0), ("encoded", "q", 0), ("others", "q", 1)):
        draw = np.random.default_rng(seen)
        for person in range(5):
            (tmp_path / folder / f"{name}{person}").mkdir(parents=True)
            for image in range(4):
                pixels = Image.fromarray(draw.integers(0, 256, (16, 16, 3)).astype(np.uint8))
                suffix = "jpg" if folder == "encoded" else "png"
                pixels.save(tmp_path / folder / f"{name}{person}" / f"{image}.{suffix}", quality=100, subsampling=0)
    photos = "{{class_path: Photos, init_args: {{path: {}, size: [16, 16]}}}}"
    run = trained_on(tmp_path, "data: " + photos.format(tmp_path / "faces"))
    recipe = (run / "recipe.yaml").read_text()
    shared = "validation people in the training"
    for folder, name in (("others", ""), ("encoded", shared), ("renamed", shared)):
        others = photos.format(tmp_path / folder)
        (run / "recipe.yaml").write_text(recipe.replace("validation: null", f"validation: {others}"))
        answer = asked(run)
        assert ("" if answer.cause is None else answer.cause.name) == name
    assert "20 of 20 images of the validation are trained on" in answer.text()


def test_the_bias_of_a_class_is_no_part_of_its_center(tmp_path: Path):
    data = RECIPE.splitlines()[0]
    run = trained_on(tmp_path, data, ("own_parts.OwnLoss", "verisphere.losses.Softmax"))
    assert "own center" in str(centers(RunCase(run, trust=True)))
    kept = open_head(run).centers
    assert kept.shape == (5, 1, 8)
    assert np.allclose(kept.norm(dim=2), 1)


def test_rows_that_are_alike_after_a_few_steps_are_too_few_to_tell(trained: Path, monkeypatch: pytest.MonkeyPatch):
    def alike(case: RunCase, faces: Faces) -> Embeddings:
        names = list(map(str, range(len(faces))))
        return Embeddings(np.ones((len(faces), 8), np.float32), names, list(faces.identities))

    monkeypatch.setattr(RunCase, "rows_of", alike)
    assert seen(asked(trained), "centers") == "too few to tell"
    monkeypatch.setattr("verisphere.study.why.of_run._STEPS", 9)
    for decay, field in ((5e-4, "rate"), (5.0, "weight_decay")):
        case = RunCase(trained, trust=True)
        optimizer = replace(case.recipe.optimizer, rate=0.1, weight_decay=decay)
        vars(case)["recipe"] = replace(case.recipe, optimizer=optimizer)
        cause = centers(case)
        assert getattr(cause, "name", "") == "embeddings collapsed"
        assert f"--optimizer.{field} LOWER" in getattr(cause, "mend", "")


def test_images_that_come_near_their_centers_by_chance_at_a_rate_far_above_the_usual(
    trained: Path, monkeypatch: pytest.MonkeyPatch
):
    def away_from_their_centers(case: RunCase, faces: Faces) -> Embeddings:
        people, centers = list(case.recipe.data.people), open_head(case.run).centers.numpy()[:, 0]
        rows = np.stack([centers[(people.index(person) + 1) % len(people)] for person in faces.identities])
        return Embeddings(rows, list(map(str, range(len(faces)))), list(faces.identities))

    monkeypatch.setattr(RunCase, "rows_of", away_from_their_centers)
    monkeypatch.setattr("verisphere.study.why.of_run._STEPS", 9)
    for rate, name in ((8.0, "learning rate too high"), (0.1, "")):
        case = RunCase(trained, trust=True)
        vars(case)["recipe"] = replace(case.recipe, optimizer=replace(case.recipe.optimizer, name="sgd", rate=rate))
        assert getattr(centers(case), "name", "") == name


def test_classes_of_others_are_not_imported_unasked(trained: Path):
    with pytest.raises(ValueError, match="--trust-code loads it"):
        why(trained)
