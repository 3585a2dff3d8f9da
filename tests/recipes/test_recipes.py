"""The recipes of the losses: each reads, names losses of the house, and no loss goes without one."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import yaml

from verisphere import losses
from verisphere.experiments.arms import read_experiment
from verisphere.files.bases import read_based
from verisphere.files.packaged_recipes import FOLDER, packaged_recipes
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.sphereface2 import SphereFace2, TableRow, table_2
from verisphere.train.recipe import Recipe, read_recipe
from verisphere.train.settings import read_with

PAPERS = sorted((FOLDER / "losses").glob("*.yaml"))
SYNTHETIC = sorted((FOLDER / "synthetic").glob("*.yaml"))

#: Rows of the papers' tables that are more than a loss, and the comparisons of SphereFace2.
ROWS = [
    path
    for room in ("anchorface", "distillation", "oneface", "sphereface2", "subcenter")
    for path in (FOLDER / room).glob("*.yaml")
]

#: Rows of loss search's tables that are searches.
ARMS = {"am_lfs": "AM-LFS", "random_softmax": "Random-Softmax", "search_softmax": "Search-Softmax"}

#: Experiments that are a table of a paper, with the number of its rows (crossed with those of the grid).
TABLES = {
    "anchorface_tables_5_6": 9,
    "arcface_table_2": 4,
    "arcface_table_3": 18,
    "arcface_table_8": 8,
    "loss_search_casia": 8,
    "loss_search_ms1m": 8,
    "oneface_cross_gender": 5,
    "oneface_cross_race": 12,
    "sphereface2_table_11": 14,
    "sphereface2_table_3": 8,
    "sphereface2_table_4": 6,
}

#: Bases of other losses, and what a recipe asks for by another field (distill.kl).
ABSTRACT = {"ClassLoss", "CombinedMargin", "SimilarityKL"}

#: Recipes with a paper's numbers whose loss learns, on synthetic faces, under another name: it differs by a number or
#: by a term that is in the other one too.
TRAINED_AS = {
    "arcface_inter": "arcface_intra_inter",
    "arcface_intra": "arcface_intra_inter",
    "normface_64": "normface",
    "normface_inter": "normface_intra_inter",
    "normface_intra": "normface_intra_inter",
    "normface_triplet": "arcface_triplet",
}


def name(path: Path) -> str:
    return path.stem


def text(path: Path) -> dict[str, Any]:
    """The fields of a recipe, with those of its bases."""
    return read_based(path).content


@cache
def read(path: Path) -> Recipe:
    """The recipe, its images replaced by a few that are at hand; no memory is filled with weights."""
    with torch.device("meta"):
        return read_recipe(path, ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]).recipe


def classes(loss: ClassLoss) -> set[str]:
    """Names of a loss's class and of those inside it."""
    return {type(part).__name__ for part in loss.modules() if isinstance(part, ClassLoss)}


@pytest.mark.parametrize("path", [*PAPERS, *SYNTHETIC], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_reads(path):
    recipe = read(path)
    named = text(path)["loss"]["class_path"]
    assert named == f"verisphere.losses.{type(recipe.loss).__name__}"
    assert classes(recipe.loss) <= set(losses.__all__)
    assert recipe.epochs > 0


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_it_says_whose_numbers_they_are(path):
    assert "arXiv:" in path.read_text().partition("base:")[0]


@pytest.mark.parametrize("path", sorted(ROWS), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_row_of_a_table_reads_without_its_images(path):
    recipe = read(path)
    assert 0 < max(recipe.schedule.milestones, default=1) < recipe.epochs
    if path.stem.startswith("baseline_"):
        with_term = read(path.with_stem(f"{path.stem.removeprefix('baseline_')}_1e-4"))
        assert (recipe.pair_terms, recipe.epochs) == ([], with_term.epochs)
        assert type(recipe.loss) is type(with_term.loss)


@pytest.mark.parametrize("table", TABLES)
def test_each_row_of_a_table_reads_without_its_images(table):
    experiment = read_experiment(f"experiments/{table}")
    assert len(experiment.arms) == TABLES[table]
    resolved = []
    for arm, settings in experiment.arms.items():
        given = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]
        given = [*(option for option in experiment.common if not option.startswith("--data.")), *given]
        without_data = {field: value for field, value in settings.items() if not field.startswith("data.")}
        with torch.device("meta"):
            resolved.append(read_with(experiment.recipe, given, without_data | experiment.inside).resolved)
        resolved[-1]["data"] = settings.get("data.init_args.path"), experiment.cleaned.get(arm)
        if arm in experiment.searches:
            resolved[-1]["search"] = experiment.searches[arm]
    different = {json.dumps(fields, sort_keys=True, default=str) for fields in resolved}
    assert len(different) == len(resolved)  # no two rows are the same training


def test_the_searches_of_a_table_are_those_of_its_images():
    """Space, method and schedule of a search stand in files of their own, one for each set of images."""
    for images in ("", "_casia"):
        for search in ("am_lfs", "random_softmax", "search_softmax"):
            named = text(FOLDER / "searches" / f"paper_{search}{images}.yaml")
            within = read_experiment("experiments/loss_search_casia").searches[ARMS[search]]
            assert {key: named[key] for key in ("space", "schedule")} == {
                key: within[key] for key in ("space", "schedule")
            }
            epochs = {**text(FOLDER / f"{named['recipe']}.yaml"), **named.get("set", {})}["epochs"]
            assert epochs == (30 if images else 12)


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_images_have_the_size_that_the_backbone_takes(path):
    size = text(path)["data"]["init_args"].get("size", [112, 112])
    assert tuple(size) == read(path).backbone.input_size


@pytest.mark.parametrize("paths", [PAPERS, SYNTHETIC], ids=["losses", "synthetic"])
def test_every_loss_has_a_recipe(paths):
    house = {part for part in losses.__all__ if isinstance(getattr(losses, part), type)}
    house = {part for part in house if issubclass(getattr(losses, part), ClassLoss)} - ABSTRACT
    assert set().union(*(classes(read(path).loss) for path in paths)) == house


def test_every_paper_s_recipe_has_one_that_is_trained():
    trained = {path.stem for path in SYNTHETIC}
    assert {TRAINED_AS.get(path.stem, path.stem) for path in PAPERS} == trained


@pytest.mark.parametrize("row", get_args(TableRow))
def test_sphereface2_s_ablation_is_that_of_its_table_2(row):
    stem = "sphereface2_c" if row == "SA" else f"sphereface2_{row.lower()}"
    ours, table = read(FOLDER / "losses" / f"{stem}.yaml").loss, table_2(row)
    assert isinstance(ours, SphereFace2)
    for setting in ("kind", "margin", "negative_margin", "scale", "balance", "t", "gradient"):
        assert getattr(ours, setting) == getattr(table, setting), setting
    assert (ours.bias is None) == (table.bias is None)


@pytest.mark.parametrize("path", SYNTHETIC, ids=name)
def test_the_trained_ones_differ_in_what_a_loss_may_choose_alone(path):
    """One set of people and one network, so that the figures of the losses can be laid side by side."""
    mine = {"loss", "subcenters", "pooling", "pull_together", "optimizer", "schedule"}
    mine |= {"pair_terms", "images_per_identity"}
    fields = yaml.safe_load(path.read_text())
    assert fields.pop("base") == "bases/synthetic"
    assert fields.keys() <= mine


def test_an_edit_of_a_base_changes_no_recipe_unseen():
    """The fields of every recipe and experiment with those of its bases, by digest.

    Where a recipe is meant to change, write its digest, which the failure shows, into recipe_digests.json.
    """
    stated = json.loads(Path(__file__).with_name("recipe_digests.json").read_text())
    contents = {name: text(path) for name, path in packaged_recipes().items() if not name.startswith("bases/")}
    assert {
        name: hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
        for name, content in contents.items()
    } == stated


def test_recipes_stay_short():
    lines = [line.strip() for path in FOLDER.rglob("*.yaml") for line in path.read_text().splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in lines) <= 1_450


@pytest.mark.parametrize("path", packaged_recipes().values(), ids=packaged_recipes())
def test_each_says_in_its_first_line_what_it_is(path):
    first = path.read_text().splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert len(first) <= 112
