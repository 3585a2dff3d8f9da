"""`verisphere recipes`, and the names that it lists where a recipe, an experiment or a model is asked for."""

from pathlib import Path

import pytest
import yaml

from verisphere.files.packaged_recipes import FOLDER, packaged_recipes
from verisphere.study.experiments.arms import read_experiment
from verisphere.train.recipe import printed_recipe, resolve_recipe

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_every_recipe_is_listed_once_in_its_group(says):
    out = says("recipes")
    listed = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    assert listed[:4] == ["arcface_r50", "lfw", "photos", "pixels"]
    assert sorted(listed) == sorted(packaged_recipes())
    assert "\nlosses: each loss with its paper's numbers\n  losses/a_softmax " in out
    assert "  photos       One's own photographs: aligned faces" in out


def test_a_printed_recipe_trains_the_same(says, tmp_path: Path):
    out = says("recipes", "losses/mv_arc")
    assert out.startswith("# MV-Arc-Softmax")
    (tmp_path / "mine.yaml").write_text(out)
    assert resolve_recipe("mine.yaml", []) == resolve_recipe("losses/mv_arc", []) == yaml.safe_load(out)


def test_an_experiment_and_a_network_are_printed_too(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(printed_recipe("experiments/anchor_face_set"))
    assert read_experiment("mine.yaml").recipe == FOLDER / "experiments" / "anchor_face.yaml"
    assert yaml.safe_load(printed_recipe("pixels"))["init_args"]["side"] == 56


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["recipes", "losses/arcfaze"], "losses/arcfaze: there is no such recipe (did you mean losses/arcface"),
        (["train", "recipes/photos.yaml", "--out", "run"], "recipes/photos.yaml: there is no such recipe; verisphere "
         "has it under the name photos"),
        (["train", "fotos", "--out", "run"], "fotos: there is no such recipe (did you mean photos?)"),
        (["experiment", "experiments/synthetik", "--out", "runs"], "experiments/synthetik: there is no such recipe or "
         "experiment (did you mean experiments/synthetic"),
        (["embed", "pixls", "photos", "--out", "set.npz"], "pixls: neither a checkpoint (no state.json) nor a run that "
         "has one (did you mean pixels?)"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_there_gets_one_line_with_the_nearest(refused, arguments: list[str], message: str):
    err = refused(*arguments)
    assert err.startswith(f"verisphere: {message}")


def test_train_takes_a_name(says, tmp_path: Path):
    (tmp_path / "photos").mkdir()
    out = says("train", "photos", "--dry-run", "--classes", "7", "--batch_size", "4")
    assert "7 classes" in out


def test_an_experiment_may_stand_on_another(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("base: experiments/anchor_face_set\nseeds: [5]\narms: {K 2: {epochs: 2}}\n")
    experiment = read_experiment("mine.yaml")
    assert list(experiment.arms) == ["K 5, M 1000", "K 1", "K 9", "M 20", "M 80", "K 2"]
    assert (experiment.seeds, experiment.baseline) == ((5,), "K 5, M 1000")


def test_the_recipe_of_an_experiment_is_relative_to_the_file_that_names_it(tmp_path: Path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "both.yaml").write_text("recipe: small.yaml\narms: {a: {}}\n")
    (tmp_path / "mine.yaml").write_text("base: shared/both.yaml\narms: {b: {}}\n")
    assert read_experiment(tmp_path / "mine.yaml").recipe == tmp_path / "shared" / "small.yaml"


def test_the_help_of_train_lists_the_fields_of_a_recipe(says):
    out = says("train", "--help")
    assert "\n  --batch_size 128 " in out
    assert max(map(len, out.splitlines())) <= 80
