"""Arms that train on data which another arm cleans: what is read, refused, made, kept and reported."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tiny_experiments import OWN, QUICK, RECIPE, Refusing, train_here
from verisphere.files.label_lists import read_labels
from verisphere.models.checkpoint import read_checkpoint
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.from_run import found_in_run
from verisphere.study.clean.rules import Rule
from verisphere.study.experiments.arms import read_experiment
from verisphere.study.experiments.cleaned import CleanedFrom, clean_for, cleaning_figures, waves
from verisphere.study.experiments.experiment import run_experiment
from verisphere.study.experiments.recipes import resolve
from verisphere.train.recipe import read_recipe

ARMS = """\
recipe: recipe.yaml
set: {data: own_parts.Mislabelled, batch_size: 4}
arms:
  again: {cleaned: {arm: anew, angle: null, min_images: 2}}
  anew: {cleaned: {arm: K, angle: 80, only_dominant: true}, epochs: 0.5}
  K: {subcenters: 2}
seeds: [3]
baseline: K
evaluate:
  plain: {faces: own_parts.Noise, far: ["0.1"]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "arms.yaml").write_text(ARMS)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The experiment of ARMS, made once."""
    folder = tmp_path_factory.mktemp("cleaned")
    (folder / "recipe.yaml").write_text(RECIPE)
    (folder / "arms.yaml").write_text(ARMS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(OWN)
        patch.setattr("verisphere.study.experiments.experiment.train_runs", train_here)
        run_experiment(read_experiment(folder / "arms.yaml"), folder / "out", QUICK, replicates=10).check()
    return folder


def changed(folder: Path, old: str, new: str) -> Path:
    assert old in ARMS
    path = folder / "changed.yaml"
    path.write_text(ARMS.replace(old, new))
    return path


def test_an_arm_trains_on_what_another_keeps(made: Path):
    first, anew, again = (made / "out" / "runs" / arm / "seed-3" for arm in ("K", "anew", "again"))
    faces = read_recipe(first / "recipe.yaml", []).recipe.data
    expected = Cleaning.by(Rule(80.0, only_dominant=True), found_in_run(first, faces, trust=True))
    kept = read_labels(anew / "kept.txt")
    assert list(kept.names) == [name for name, keeps in zip(faces.names, expected.kept, strict=True) if keeps]
    assert 4 <= len(kept.names) < 24
    assert read_recipe(anew / "recipe.yaml", []).recipe.data.names == kept.names
    assert read_checkpoint(anew).state["data"]["images"] == len(kept.names)
    # a chain: anew's own images, and without an angle all but those of identities with one image left
    left = {person: kept.identities.count(person) for person in kept.identities}
    assert read_labels(again / "kept.txt").names == tuple(
        name for name, person in zip(kept.names, kept.identities, strict=True) if left[person] >= 2
    )
    assert json.loads((again / "clean.json").read_text())["rule"] == {
        "angle": None,
        "only_dominant": False,
        "min_images": 2,
    }
    plan = json.loads((made / "out" / "plan.json").read_text())
    assert plan["arms"]["anew"]["cleaned"] == {"arm": "K", "angle": 80.0, "only_dominant": True, "min_images": 1}
    assert "cleaned" not in plan["arms"]["K"]


def test_the_figures_of_the_cleaning_stand_beside_those_of_the_training(made: Path):
    with (made / "out" / "results.csv").open() as file:
        rows = {(row["arm"], row["figure"]): row["value"] for row in csv.DictReader(file) if not row["set"]}
    kept = read_labels(made / "out" / "runs" / "anew" / "seed-3" / "kept.txt")
    assert kept.true_identities is not None
    wrong = sum(given != truth for given, truth in zip(kept.identities, kept.true_identities, strict=True))
    assert float(rows["anew", "images_kept"]) == len(kept.names)
    assert float(rows["anew", "images_dropped"]) == 24 - len(kept.names)
    # six of the 24 labels are wrong
    assert float(rows["anew", "cleaning_noise_before"]) == 6 / 24
    assert float(rows["anew", "cleaning_recall"]) == pytest.approx((6 - wrong) / 6)
    assert float(rows["anew", "cleaning_precision"]) == pytest.approx((6 - wrong) / (24 - len(kept.names)))
    assert ("K", "images_kept") not in rows
    results = json.loads((made / "out" / "results.json").read_text())
    assert results["arms"]["anew"]["training"]["images_kept"]["mean"] == len(kept.names)


def test_a_second_start_cleans_nothing_anew_and_a_changed_rule_is_refused(made: Path):
    out = made / "out"
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/kept.txt")}
    run_experiment(read_experiment(made / "arms.yaml"), out, QUICK, replicates=10)
    assert {path: path.stat().st_mtime_ns for path in out.glob("runs/*/*/kept.txt")} == before
    with pytest.raises(ValueError, match=r"another experiment: arm 'anew': cleaned.angle was 80.0 and is 70.0; choose"):
        run_experiment(read_experiment(changed(made, "angle: 80", "angle: 70")), out, QUICK)


def test_kept_images_are_found_anew_until_something_was_trained_on_them(made: Path, tmp_path: Path):
    source, cpu = made / "out" / "runs" / "K" / "seed-3", torch.device("cpu")
    entry = CleanedFrom(80.0, arm="K")
    clean_for(tmp_path / "run", entry, source, cpu)
    first = (tmp_path / "run" / "kept.txt").read_bytes()
    (tmp_path / "run" / "kept.txt").write_text("untouched")
    clean_for(tmp_path / "run", entry, source, cpu)
    assert (tmp_path / "run" / "kept.txt").read_text() == "untouched"
    clean_for(tmp_path / "run", replace(entry, angle=180.0), source, cpu)
    assert len(read_labels(tmp_path / "run" / "kept.txt").names) == 24
    (tmp_path / "run" / "cleaned.json").unlink()  # killed before the end
    clean_for(tmp_path / "run", entry, source, cpu)
    assert (tmp_path / "run" / "kept.txt").read_bytes() == first
    (tmp_path / "run" / "cleaned.json").write_text("[]")
    with pytest.raises(ValueError, match=r"cleaned.json: not what an experiment keeps of a cleaning"):
        cleaning_figures(tmp_path / "run")


def test_a_failed_training_fails_the_arms_that_it_cleans_for(folder: Path):
    result = run_experiment(read_experiment(folder / "arms.yaml"), folder / "out", Refusing(device="cpu"))
    runs = folder / "out" / "runs"
    assert [line.partition(" (see ")[0] for line in result.failed] == [
        "K, seed 3: exit code 1",
        "anew, seed 3: arm 'K', seed 3, which cleans its data, failed",
        "again, seed 3: arm 'anew', seed 3, which cleans its data, failed",
    ]
    assert (runs / "anew" / "seed-3" / "log.txt").read_text() == "arm 'K', seed 3, which cleans its data, failed\n"


def test_a_grid_cleans_each_point_by_the_same_point(folder: Path):
    experiment = read_experiment(folder / "arms.yaml", grid=["optimizer.rate=0.1,0.2"])
    assert {name: entry.arm for name, entry in experiment.cleaned.items()} == {
        "again,rate=0.1": "anew,rate=0.1",
        "again,rate=0.2": "anew,rate=0.2",
        "anew,rate=0.1": "K,rate=0.1",
        "anew,rate=0.2": "K,rate=0.2",
    }
    # worked out by hand: K first, then anew, then again, at both points
    assert [sorted(wave) for wave in waves(list(experiment.arms), experiment.cleaned)] == [
        ["K,rate=0.1", "K,rate=0.2"],
        ["anew,rate=0.1", "anew,rate=0.2"],
        ["again,rate=0.1", "again,rate=0.2"],
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("arm: K,", "arm: L,", r"arm 'anew': cleaned: there is no arm 'L'.*; allowed are again, anew, K"),
        ("K: {subcenters: 2}", "K: {cleaned: {arm: again}}", r"the arms 'again' <- 'anew' <- 'K' <- 'again' are a"),
        ("arm: K,", "arm: anew,", r"the arms 'anew' <- 'anew' are a circle; one must come first"),
        (
            "{arm: K, angle: 80, only_dominant: true}",
            "K",
            r"cleaned: expected fields and their values, got 'K'",
        ),
        ("angle: 80", "angle: 190", r"arm 'anew': cleaned: angle is 190.0; allowed are more than 0 and at most 180"),
        ("batch_size: 4", "cleaned: {arm: K}", r"set has cleaned, which only an arm can say"),
        (
            "min_images: 2}",
            "min_images: 2}, data: {class_path: own_parts.Noise, init_args: {images: 5}}",
            r"arm 'again': cleaned: its data are not those of arm 'anew', which cleans them",
        ),
    ],
)
def test_what_is_refused_before_the_first_training(folder: Path, old: str, new: str, message: str):
    with pytest.raises(ValueError, match=message):
        resolve(read_experiment(changed(folder, old, new)), folder / "warm")


def test_centers_of_a_warm_training_are_not_taken_over(folder: Path):
    path = changed(folder, "seeds: [3]", "warm: {epochs: 1}\nseeds: [3]")
    path.write_text(path.read_text().replace("{subcenters: 2}", "{}"))
    with pytest.raises(ValueError, match=r"arm 'again': cleaned data may lack people, so the centers of .*warm do not"):
        resolve(read_experiment(path), folder / "warm")
    path.write_text(path.read_text().replace("batch_size: 4", "batch_size: 4, start_head: false"))
    assert set(resolve(read_experiment(path), folder / "warm").cleaned) == {"again", "anew"}
