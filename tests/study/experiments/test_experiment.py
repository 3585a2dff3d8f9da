"""Experiments of tiny trainings, from the file to the figures; what is refused before the first training."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tiny_experiments import EXPERIMENT, OWN, QUICK, RECIPE
from verisphere.base.vocabulary import Redrawing
from verisphere.decide import mean_bounds
from verisphere.decide.intervals import Redrawn
from verisphere.decide.paired import mean_difference
from verisphere.files.embeddings import read_embeddings, write_embeddings
from verisphere.measure.protocols.all_pairs import PairsOfSet, all_pairs
from verisphere.measure.protocols.redrawn import redrawn_set
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.compare import (
    ArmFigure,
    ArmResult,
    Difference,
    TrainingFigure,
    experiment_plot,
    results_text,
)
from verisphere.study.experiments.experiment import ExperimentResult, run_experiment
from verisphere.study.experiments.recipes import resolve
from verisphere.study.experiments.run import RunsFailed
from verisphere.train.recipe import read_recipe


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ExperimentResult]:
    """The experiment of EXPERIMENT, made once: its folder is copied by whoever changes it.

    Takes about 5 s: one of its trainings is a process that loads everything anew, as those of users are.
    """
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        patch.setenv("PYTHONPATH", str(OWN))
        return folder, run_experiment(read_experiment(folder / "experiment.yaml"), folder / "out", QUICK, replicates=50)


def test_what_an_experiment_leaves(made):
    folder, result = made
    out = folder / "out"
    assert {entry.name for entry in out.iterdir()} == {
        ".lock", "plan.json", "warm", "runs", "results.csv", "results.json", "plots"}  # fmt: skip
    assert {str(run.relative_to(out / "runs")) for run in out.glob("runs/*/*")} == {
        f"{arm}/seed-{seed}" for arm in ("base", "fast") for seed in (0, 3)
    }
    (rooms,) = (path for path in (out / "runs" / "base" / "seed-0").glob("rooms*"))
    assert rooms.name.startswith("rooms_2~")
    assert {path.name for path in (out / "plots").iterdir()} == {"plain.png", f"{rooms.stem}.png"}
    recipe = read_recipe(out / "runs" / "fast" / "seed-3" / "recipe.yaml", []).recipe
    assert (recipe.seed, recipe.optimizer.rate, recipe.batch_size, recipe.start) == (3, 0.5, 8, str(out / "warm"))
    assert read_checkpoint(out / "warm").step == 2 * 3
    assert read_checkpoint(out / "runs" / "base" / "seed-0").step == 3  # its own schedule, from step 0
    assert list(result.arms) == ["base", "fast"]


def test_arms_start_from_the_warm_weights(made):
    out = made[0] / "out"
    first, second = ((out / "runs" / arm / "seed-0").joinpath("metrics.jsonl").read_text() for arm in ("base", "fast"))
    assert json.loads(first.splitlines()[0])["step"] == json.loads(second.splitlines()[0])["step"] == 2
    warm = read_checkpoint(out / "warm").tensors("backbone")["project.weight"]
    near = read_checkpoint(out / "runs" / "base" / "seed-0").tensors("backbone")["project.weight"]
    fresh = read_recipe(out / "runs" / "base" / "seed-0" / "recipe.yaml", []).recipe.backbone.project.weight
    assert (near - warm).norm() < 0.5 * (near - fresh).norm()


def test_figures_are_those_of_the_embeddings(made):
    folder, result = made
    fast, base = [], []
    for arm, found in (("fast", fast), ("base", base)):
        for seed in (0, 3):
            run = folder / "out" / "runs" / arm / f"seed-{seed}"
            embeddings = read_embeddings(next(run.glob("rooms*.npz")))
            assert embeddings.origin.model == read_checkpoint(run).sha256["backbone"]
            pairs = PairsOfSet(embeddings)
            found.append((redrawn_set(pairs, ["0.2", "0.05"], "0.1", Redrawing(50)), all_pairs(pairs, ["0.2", "0.1"])))
    figures = {(one.measured, one.name, one.far_target, one.domain): one for one in result.arms["fast"].figures}
    tar = figures["rooms/2", "tar", "0.2", None]
    assert tar.per_seed == {seed: both[1].operating_points[0].tar for seed, both in zip((0, 3), fast, strict=True)}
    assert tar.mean == pytest.approx(np.mean(list(tar.per_seed.values())))
    assert tar.std == pytest.approx(np.std(list(tar.per_seed.values())))
    expected = mean_difference([one.tars[0] for one, _ in fast], [one.tars[0] for one, _ in base])
    assert (tar.difference.value, tar.difference.lower_95, tar.difference.upper_95, tar.difference.inside_noise) == (
        expected.value, expected.lower_95, expected.upper_95, expected.holds_zero)  # fmt: skip
    assert tar.difference.value == pytest.approx(np.mean(list(tar.difference.per_seed.values())))
    over_seeds = mean_bounds(list(tar.difference.per_seed.values()))
    assert (tar.difference.lower_95_over_seeds, tar.difference.upper_95_over_seeds) == over_seeds
    assert tar.difference.inside_seed_noise == (over_seeds[0] <= 0 <= over_seeds[1])
    gamma = figures["rooms/2", "gamma", "0.1", None]
    expected = mean_difference([one.spread.gamma for one, _ in fast], [one.spread.gamma for one, _ in base])
    assert (gamma.difference.value, gamma.difference.upper_95) == (expected.value, expected.upper_95)
    assert gamma.per_seed[3] == fast[1][1].one_threshold[1].gamma
    dark = figures["rooms/2", "domain_far", "0.1", "dark"]
    assert dark.per_seed[0] == fast[0][1].one_threshold[1].domains["dark"].far
    assert dark.difference is None
    assert all(one.difference is None for one in result.arms["base"].figures)


def test_the_table_says_first_that_a_set_is_of_the_training(made):
    """These figures say nothing of new people; the legend speaks of other people, too."""
    first, _, rest = made[1].text().partition("\n")
    assert first.startswith(
        "plain: base, seed 0 and 3 other trainings: the model was trained on 5 of the 5 people (by name) and"
    )
    assert first.endswith("of the 20 images, so its figures say little about new people")
    assert json.loads((made[0] / "out" / "results.json").read_text())["known"] == made[1].known
    assert replace(made[1], known={}).text() in rest


def test_the_table_says_what_it_is(made):
    text = made[1].text()
    assert "rooms/2 (12 people): TAR at FAR 0.05\n| arm" in text
    assert "plain (5 people): TAR at FAR 1e-6: below resolution, too few impostors" in text
    assert "rooms/2: domains at one threshold of FAR 0.1, means over seeds" in text
    assert "| fast: own threshold |" in text
    assert "means over 2 seeds (0, 3)\n" in text
    assert "middle 95 % of 50 redrawings of people" in text
    assert "95 % over people: these trainings on other people; over seeds: more trainings" in text
    assert "trainings\n| arm  | wall time | last loss |" in text


@pytest.mark.parametrize(
    ("ours", "said", "chance"),
    [
        ({0: 0.60, 1: 0.61, 2: 0.62}, "", False),  # + 0.1 at every seed
        ({0: 0.51, 1: 0.52, 2: 0.80}, "inside the seeds' noise", True),  # one seed makes it
        ({0: 0.51, 1: 0.50, 2: 0.49}, "inside the noise", True),
        ({0: 0.60}, "", False),  # what seeds would do is not known
    ],
)
def test_a_difference_counts_where_neither_people_nor_seeds_explain_it(ours, said, chance):
    """People move each of these differences by 0.03 or less."""

    def redrawn_of(value: float, sway: float) -> Redrawn:
        return Redrawn(value, value + sway * np.linspace(-1, 1, 201))

    base = {0: 0.50, 1: 0.51, 2: 0.52}
    difference = Difference.of(
        {seed: redrawn_of(value, 0.04) for seed, value in ours.items()},
        {seed: redrawn_of(base[seed], 0.01) for seed in ours},
    )
    assert difference.may_be_chance == chance
    assert (difference.inside_seed_noise is None) == (len(ours) == 1)
    place = "set", "tar", "0.1", None
    arms = {
        arm: ArmResult({"seconds": TrainingFigure.of({0: 1.0})}, (ArmFigure(*place, 0.5, 0.0, values, found),))
        for arm, values, found in (("base", {seed: base[seed] for seed in ours}, None), ("ours", ours, difference))
    }
    text = results_text(arms, "base", list(ours), {"set": 9}, {})
    row = next(line for line in text.splitlines() if line.startswith("| ours"))
    assert row.split("|")[-2].strip() == said
    assert ("over seeds: more trainings" in text) == (len(ours) > 1)
    assert (row.split("|")[-3].strip() == "-") == (len(ours) == 1)
    caption = experiment_plot(arms, "base", "set").get_supxlabel()
    assert ("one seed does not say" in caption) == (len(ours) == 1)


def test_results_as_files(made):
    out, result = made[0] / "out", made[1]
    kept = json.loads((out / "results.json").read_text())
    assert (kept["baseline"], kept["seeds"], kept["replicates"], kept["failed"]) == ("base", [0, 3], 50, [])
    first = kept["arms"]["fast"]["figures"][0]
    assert (first["measured"], first["name"], first["mean"]) == ("plain", "tar", result.arms["fast"].figures[0].mean)
    assert kept["arms"]["base"]["training"]["seconds"]["mean"] > 0
    assert kept["arms"]["base"]["training"]["loss"]["per_seed"].keys() == {"0", "3"}
    rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
    assert {(row["arm"], row["seed"]) for row in rows} == {(arm, seed) for arm in ("base", "fast") for seed in "03"}
    (one,) = (row for row in rows if row["arm"] == "fast" and row["seed"] == "3" and row["figure"] == "gamma")
    assert (one["set"], one["far_target"], one["domain"]) == ("rooms/2", "0.1", "")
    assert float(one["value"]) == next(f for f in result.arms["fast"].figures if f.name == "gamma").per_seed[3]


def test_the_picture_shows_the_arms(made):
    result = made[1]
    picture = experiment_plot(result.arms, "base", "rooms/2")
    assert [axes.get_title(loc="left").split(" at ")[0].split(",")[0] for axes in picture.axes] == [
        "TAR", "TAR", "gamma", "spread of TAR over domains", "spread of -log10 FAR"]  # fmt: skip
    axes = picture.axes[0]
    # in two columns, of which the left one names the arms
    named = [[label.get_text() for label in one.get_yticklabels()] for one in picture.axes]
    assert named == [["base", "fast"], ["", ""], ["base", "fast"], ["", ""], ["base", "fast"]]
    figure = result.arms["fast"].figures[2]
    base = result.arms["base"].figures[2]
    bar = next(line for line in axes.lines if len(line.get_xdata()) == 2 and list(line.get_ydata()) == [1, 1])
    ends = [base.mean + figure.difference.lower_95, base.mean + figure.difference.upper_95]
    assert sorted(bar.get_xdata()) in (sorted(ends), sorted(figure.per_seed.values()))
    assert len(experiment_plot(result.arms, "base", "plain", ["1e-6"]).axes) == 1
    assert picture.get_supxlabel().endswith("pale: inside the noise of people or seeds")
    assert experiment_plot(result.arms, "base", "nowhere") is None


def test_started_again_it_makes_what_is_missing_and_reuses_the_rest(made, tmp_path: Path, monkeypatch):
    """A run that was stopped before its end is resumed, others stay; embeddings of other weights are made anew."""
    monkeypatch.setenv("PYTHONPATH", str(OWN))
    folder = tmp_path / "copy"
    shutil.copytree(made[0], folder)
    out = folder / "out"
    whole, stopped = out / "runs" / "base" / "seed-0", out / "runs" / "fast" / "seed-3"
    (stopped / "finished.json").unlink()
    shutil.rmtree(stopped / "checkpoints")
    embeddings = read_embeddings(next(whole.glob("rooms*.npz")))
    write_embeddings(next(stopped.glob("rooms*.npz")), embeddings)
    untouched = {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()}
    again = run_experiment(read_experiment(folder / "experiment.yaml"), out, QUICK, replicates=50)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*") if path.is_file()} == untouched
    assert [path.name for path in list_checkpoints(stopped)] == ["step-00000003"]
    assert again.arms["fast"].figures == made[1].arms["fast"].figures
    again.check()


# --- refused before anything is trained ------------------------------------------------------------------------------


def refusal(files: Path, text: str, **options: object) -> str:
    (files / "experiment.yaml").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError)) as raised:
        run_experiment(read_experiment(files / "experiment.yaml"), files / "out", QUICK, **options)
    assert "\n" not in str(raised.value)
    assert not (files / "out" / "runs").exists()
    return str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("{optimizer.rate: 0.5}", "{batch_size: 25}", "arm 'fast': 24 images do not fill one batch of 25; lower batch"),
        ("set: {batch_size: 8}", "set: {data.init_args.people: 1}", "warm: 1 people found"),
        ("{optimizer.rate: 0.5}", "{pair_terms: [{class_path: verisphere.pairs.AnchorFace, init_args: {after: 1}}]}",
         "arm 'fast': AnchorFace: after is 1 epochs but the training has 1, so it would never act; lower after"),
        ("{optimizer.rate: 0.5}", "{pair_terms: [{class_path: verisphere.pairs.ThresholdConsistency, init_args: "
         "{domains: known}}]}", "arm 'fast': domains is 'known' but the data"),
        ("{optimizer.rate: 0.5}", "{backbone.init_args.embedding_size: 4, backbone.init_args.dropout: 0}", "arm "
         "'fast': its backbone is another than that of warm, which it starts from, in embedding_size, dropout; set it"),
        ("{optimizer.rate: 0.5}", "{backbone: own_parts.PlainNet}", "which it starts from, in class_path; set it"),
        ("{optimizer.rate: 0.5}", "{data.init_args.people: 5}", "arm 'fast': its data are of 5 people and those of "
         "warm, which it starts from, of 6, or others; start_head: false takes the backbone alone"),
        ("{optimizer.rate: 0.5}", "{subcenters: 2}", "arm 'fast': subcenters is 2 and that of warm, which it starts"),
        ("set: {batch_size: 8}", "set: {pair_terms.0.init_args.K: 8}", "pair_terms.0: there is no 0 in "
         "pair_terms, which has 0 entries, from 0"),
        ("{optimizer.rate: 0.5}", "{batch_size: 1}", "arm 'fast': {}/recipe.yaml: batch_size must be at least 2"),
        ("own_parts.Noise, far", "own_parts.Nose, far", "evaluate: plain: faces: "),
        ('["0.1", "1e-6"]', "[]", "evaluate: plain: far is empty; expected one target FAR or more"),
        ("flip: true", 'one_far: "0.1"', "evaluate: plain: one_far asks for one threshold over domains, and the"),
        ("own_parts.Rooms,", "{class_path: own_parts.Rooms, init_args: {people: 3}},", "evaluate: rooms/2: domain "
         "'dark' has no impostor comparison; one threshold needs two people in each"),
        ("own_parts.Rooms,", "{class_path: own_parts.Rooms, init_args: {images: 1}},", "evaluate: rooms/2: no "
         "person has at least 2 images"),
        ("own_parts.Noise, far", "{class_path: own_parts.Noise, init_args: {side: 24}}, far", "evaluate: plain: arm "
         "'base': "),
    ],
)  # fmt: skip
def test_what_cannot_be_is_known_before_the_first_training(files: Path, old: str, new: str, message: str):
    assert old in EXPERIMENT
    assert message.replace("{}", str(files)) in refusal(files, EXPERIMENT.replace(old, new))


def test_an_arm_starts_from_people_in_another_spelling_if_names_are_merged(files: Path):
    for folder, people in (("first", ["Ann", "bo", "Cy"]), ("other", ["ann", "Bo", "Cy"])):
        for person in people:
            (files / folder / person).mkdir(parents=True)
            for image in range(4):
                pixels = np.random.default_rng(image).integers(0, 256, (16, 16, 3), np.uint8)
                Image.fromarray(pixels).save(files / folder / person / f"{image}.png")
    data = f"data: {{class_path: verisphere.images.Photos, init_args: {{path: {files / 'first'}, names: merge}}}}"
    (files / "recipe.yaml").write_text(RECIPE.replace(RECIPE.splitlines()[0], data))
    arms = f"warm: {{}}\narms: {{same: {{}}, other: {{data.init_args.path: {files / 'other'}}}}}\nrecipe: recipe.yaml\n"
    text = f"{arms}evaluate: {{plain: {{faces: own_parts.Noise, far: ['0.1']}}}}\n"
    (files / "experiment.yaml").write_text(text)
    assert list(resolve(read_experiment(files / "experiment.yaml"), files / "warm").arms) == ["same", "other"]
    (files / "recipe.yaml").write_text((files / "recipe.yaml").read_text().replace(", names: merge", ""))
    assert "of 3, or others; --names merge takes names that are equal" in refusal(files, text)


def test_replicates_are_at_least_one(files: Path):
    assert "replicates must be at least 1, got 0" in refusal(files, EXPERIMENT, replicates=0)


def test_another_experiments_folder_is_refused(made, files: Path):
    out = made[0] / "out"
    before = (out / "plan.json").read_text()
    for old, new, message in (
        ("  fast: {optimizer.rate: 0.5}\n", "", "arm 'fast' is missing"),
        ("Noise, far", "{class_path: own_parts.Noise, init_args: {people: 4}}, far", "init_args.people was 5 and is 4"),
    ):
        (files / "experiment.yaml").write_text(EXPERIMENT.replace(old, new).replace("own_parts.{", "{"))
        with pytest.raises(ValueError, match="this folder holds another experiment") as raised:
            run_experiment(read_experiment(files / "experiment.yaml"), out, QUICK)
        assert message in str(raised.value)
        assert (out / "plan.json").read_text() == before


@pytest.mark.parametrize("overrides", [[], ["--pair_terms.0.init_args.features_per_identity", "3"]])
def test_what_is_set_inside_lists_reaches_every_training(files: Path, overrides: list[str]):
    (files / "experiment.yaml").write_text(
        "recipe: recipe.yaml\n"
        "set: {pair_terms: [verisphere.pairs.AnchorFace], pair_terms.0.init_args.tar_weight: 0.5, epochs: 4}\n"
        "warm: {optimizer.rate: 0.1}\n"
        "arms: {a: {}, b: {pair_terms.0.init_args.valid_steps: 7}, c: {pair_terms: []}}\n"
    )
    if overrides:
        with pytest.raises(ValueError, match="arm 'c' sets it; change it there"):
            read_experiment(files / "experiment.yaml", overrides)
        (files / "experiment.yaml").write_text(
            (files / "experiment.yaml").read_text().replace(", c: {pair_terms: []}", "")
        )
    found = resolve(read_experiment(files / "experiment.yaml", overrides), files / "warm")
    terms = [found.warm.fields["pair_terms"], *(one.fields["pair_terms"] for one in found.arms.values())]
    first, kept = [one[0]["init_args"] for one in terms[:3]], 3 if overrides else 5
    assert [(one["tar_weight"], one["features_per_identity"]) for one in first] == [(0.5, kept)] * 3
    assert first[2]["valid_steps"] == 7 != first[1]["valid_steps"]
    assert terms[3:] == ([] if overrides else [[]])


def test_embeddings_of_images_that_were_replaced_are_made_anew(made, tmp_path: Path, monkeypatch, caplog):
    """The path is the same, and the names; a few of the images say that they are others."""
    folder = tmp_path / "copy"
    shutil.copytree(made[0], folder)
    from own_parts import Noise

    images = Noise.images
    monkeypatch.setattr(Noise, "images", lambda self, indices: 255 - images(self, indices))
    with caplog.at_level("INFO", "verisphere"):
        result = run_experiment(read_experiment(folder / "experiment.yaml"), folder / "out", QUICK, replicates=5)
    path = folder / "out" / "runs" / "base" / "seed-0" / "plain.npz"
    assert f"{path}: the images of plain are not those it was made of: embedding anew" in caplog.messages
    assert sum("embedding anew" in line for line in caplog.messages) == 2 * 4
    assert result.arms["fast"].figures != made[1].arms["fast"].figures
    caplog.clear()
    with caplog.at_level("INFO", "verisphere"):
        again = run_experiment(read_experiment(folder / "experiment.yaml"), folder / "out", QUICK, replicates=5)
    assert not any("embedding anew" in line for line in caplog.messages)
    assert again.arms == result.arms


def test_a_folder_that_is_no_experiments_is_left_alone(files: Path):
    (files / "out").mkdir()
    (files / "out" / "thesis.tex").write_text("")
    assert "it holds something, and no experiment; choose another --out" in refusal(files, EXPERIMENT)
    (files / "out" / "thesis.tex").rename(files / "out" / "plan.json")
    assert "plan.json: not what an experiment was asked for; was it changed?" in refusal(files, EXPERIMENT)


# --- real trainings, stopped and failing -----------------------------------------------------------------------------


@pytest.mark.slow
def test_one_that_diverges_is_named_and_the_rest_is_there(files: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(OWN))
    experiment = read_experiment(
        files / "recipe.yaml", ["--validation", "own_parts.Noise"], ["optimizer.rate=0.02,1e+30"], [0, 1]
    )
    result = run_experiment(experiment, files / "out", QUICK, replicates=20)
    assert list(result.arms) == ["rate=0.02"]
    assert [one.measured for one in result.arms["rate=0.02"].figures] == ["validation", "validation"]
    assert [line.split(":")[0] for line in sorted(result.failed)] == ["rate=1e+30, seed 0", "rate=1e+30, seed 1"]
    assert "not finite" in result.failed[0]
    with pytest.raises(RunsFailed, match=r"2 trainings failed \(arms in the results: rate=0.02\): rate=1e\+30, seed"):
        result.check()


@pytest.mark.slow
def test_an_experiment_that_was_stopped_comes_to_the_same_end(files: Path):
    places = {**os.environ, "PYTHONPATH": str(OWN), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "verisphere", "experiment", "recipe.yaml", "--grid", "optimizer.rate=0.02,0.05"]
    words += ["--jobs", "2", "--epochs", "120", "--save_every", "120", "--out"]

    def start(out: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*words, out], cwd=files, env=places, stdout=subprocess.DEVNULL)

    assert start("whole").wait() == 0
    stopped = start("stopped")
    logs = [files / "stopped" / "runs" / arm / "seed-0" / "metrics.jsonl" for arm in ("rate=0.02", "rate=0.05")]
    while not all(log.is_file() and log.stat().st_size for log in logs):
        assert stopped.poll() is None
        time.sleep(0.02)
    stopped.send_signal(signal.SIGINT)
    assert stopped.wait() == 130
    for log in logs:
        assert 0 < read_checkpoint(log.parent).step < 120 * 4
        assert not (log.parent / "finished.json").exists()
    assert start("stopped").wait() == 0
    for log in logs:
        run = read_checkpoint(log.parent)
        assert run.sha256 == read_checkpoint(files / "whole" / log.parent.relative_to(files / "stopped")).sha256
