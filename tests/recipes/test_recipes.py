"""The recipes of the losses: each reads, names losses of the house, and no loss goes without one."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, get_args
from unittest.mock import patch

import pytest
import torch
import yaml

from loss_examples import TABLE
from verisphere import losses
from verisphere.files.definitions import read_based
from verisphere.files.documents import read_yaml
from verisphere.files.packaged_recipes import FOLDER, LOSSES, comment, packaged_recipes, text_of_recipe
from verisphere.losses.class_loss import ClassLoss
from verisphere.losses.sphereface2 import SphereFace2, TableRow, table_2
from verisphere.study.experiments.arms import read_experiment
from verisphere.train.recipe import Recipe, read_recipe

PAPERS = [path for name, path in packaged_recipes().items() if name.startswith("losses/")]
SYNTHETIC = [path for name, path in packaged_recipes().items() if name.startswith("synthetic/")]

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


@contextmanager
def no_weights() -> Iterator[None]:
    """Networks have shapes alone; drawing no numbers for them takes half of the time of reading a recipe."""

    def undrawn(tensor: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
        return tensor

    with torch.device("meta"), patch.multiple(torch.Tensor, normal_=undrawn, uniform_=undrawn):
        yield


@cache
def read(path: Path) -> Recipe:
    """The recipe, its images replaced by a few that are at hand."""
    with no_weights():
        return read_recipe(path, ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]).recipe


def length(recipe: Recipe) -> float:
    """In the recipe's unit."""
    stated = recipe.steps if recipe.unit == "steps" else recipe.epochs
    assert stated is not None
    return stated


def classes(loss: ClassLoss) -> set[str]:
    """Names of a loss's class and of those inside it."""
    return {type(part).__name__ for part in loss.modules() if isinstance(part, ClassLoss)}


@pytest.mark.parametrize("path", [*PAPERS, *SYNTHETIC], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_reads(path):
    recipe = read(path)
    named = text(path)["loss"]["class_path"]
    assert named == f"verisphere.losses.{type(recipe.loss).__name__}"
    assert classes(recipe.loss) <= set(losses.__all__)
    assert length(recipe) > 0


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_it_says_whose_numbers_they_are(path):
    assert "arXiv:" in comment(path)


@pytest.mark.parametrize("path", sorted(ROWS), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_row_of_a_table_reads_without_its_images(path):
    recipe = read(path)
    assert 0 < max(recipe.schedule.milestones, default=1) < length(recipe)
    if path.stem.startswith("baseline_"):
        with_term = read(path.with_stem(f"{path.stem.removeprefix('baseline_')}_1e-4"))
        assert (recipe.pair_terms, length(recipe)) == ([], length(with_term))
        assert type(recipe.loss) is type(with_term.loss)


#: Bases of the recipes whose paper or release states iterations: their number, and where the rate falls.
ITERATIONS = {
    "anchorface/arcface_1e-4": (240_000, [110_000, 190_000, 220_000]),
    "oneface/cross_gender": (240_000, [110_000, 190_000, 220_000]),
    "bases/bupt": (110_000, [55_000, 88_000, 99_000]),
    "bases/vggface2": (80_000, [40_000, 60_000]),
}


def bases_of(recipe: str) -> set[str]:
    """The recipe and all that it is based on."""
    base = yaml.safe_load(text_of_recipe(packaged_recipes()[recipe])).get("base")
    return {recipe} | (bases_of(base) if base else set())


@pytest.mark.parametrize("path", sorted([*PAPERS, *ROWS]), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_paper_s_iterations_are_stated_as_steps(path):
    bases = bases_of(f"{path.parent.name}/{path.stem}")
    stated = [ITERATIONS[base] for base in ITERATIONS if base in bases]
    recipe = read(path)
    if stated:
        assert (recipe.unit, recipe.steps, list(recipe.schedule.milestones)) == ("steps", *stated[0])
    else:
        milestones = recipe.schedule.milestones
        assert recipe.steps is None
        assert [number for number in (recipe.epochs, *milestones) if number % 1] == []  # no rounded iterations
    for term in recipe.pair_terms:
        if path.parent.name == "anchorface":
            assert term.after == 20_000


@pytest.mark.parametrize("table", ["loss_search_casia", "loss_search_ms1m"])
def test_softmax_of_loss_search_is_its_search_softmax_at_0(table):
    """Its table 3 at a = 0 has the figures of Softmax in its table 6: 99.53 and 98.78."""
    experiment = read_experiment(f"experiments/{table}")
    with no_weights():
        given = ["--data", "verisphere.images.SyntheticFaces", "--data.people", "2"]
        loss = read_recipe(experiment.recipe, given, [*experiment.arms["Softmax"].items()]).recipe.loss
    cosines, labels = torch.tensor([[0.5, 0.3]]), torch.tensor([0])
    torch.testing.assert_close(loss.forward(cosines, labels), torch.tensor(0.0016601))  # log(1 + exp(32 (0.3 - 0.5)))
    assert loss.forward(cosines, labels) == losses.SearchSoftmax(0.0, scale=32.0).forward(cosines, labels)


@pytest.mark.parametrize("table", TABLES)
def test_each_row_of_a_table_reads_without_its_images(table):
    experiment = read_experiment(f"experiments/{table}")
    assert len(experiment.arms) == TABLES[table]
    resolved = []
    for arm, settings in experiment.arms.items():
        without_data = [value for value in (*experiment.common, *settings.items()) if not value[0].startswith("data.")]
        given = [*without_data, ("data", "verisphere.images.SyntheticFaces"), ("data.people", 2)]
        with no_weights():
            resolved.append(read_recipe(experiment.recipe, (), given).resolved)
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
            epochs = {**text(packaged_recipes()[named["recipe"]]), **named.get("set", {})}["epochs"]
            assert epochs == (30 if images else 12)


@pytest.mark.parametrize("path", PAPERS, ids=name)
def test_images_have_the_size_that_the_backbone_takes(path):
    size = text(path)["data"]["init_args"].get("size", [112, 112])
    assert tuple(size) == read(path).backbone.input_size


def test_the_table_of_losses_holds_each_recipe_as_yaml():
    in_table = {name: fields for entry in TABLE.values() for name, fields in entry.get("recipes", {}).items()}
    assert in_table == {
        path.relative_to(LOSSES).as_posix(): read_yaml(text_of_recipe(path)) for path in [*PAPERS, *SYNTHETIC]
    }


@pytest.mark.parametrize("name", TABLE)
def test_an_entry_of_the_table_of_losses_has_its_recipes_and_what_pages_and_tests_ask(name):
    entry = TABLE[name]
    assert {"paper", "equation", "function", "tests"} <= entry.keys()
    assert entry.keys() <= {"paper", "equation", "function", "tests", "examples", "learns", "learns_nothing", "recipes"}
    for recipe in entry.get("recipes", {}):
        assert text(packaged_recipes()[recipe])["loss"]["class_path"] == f"verisphere.losses.{name}", recipe


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
    ours, table = read(packaged_recipes()[f"losses/{stem}"]).loss, table_2(row)
    assert isinstance(ours, SphereFace2)
    for setting in ("kind", "margin", "negative_margin", "scale", "balance", "t", "gradient"):
        assert getattr(ours, setting) == getattr(table, setting), setting
    assert (ours.bias is None) == (table.bias is None)


@pytest.mark.parametrize("path", SYNTHETIC, ids=name)
def test_the_trained_ones_differ_in_what_a_loss_may_choose_alone(path):
    """One set of people and one network, so that the figures of the losses can be laid side by side."""
    mine = {"loss", "subcenters", "pooling", "pull_together", "optimizer", "schedule"}
    mine |= {"pair_terms", "images_per_identity"}
    fields = yaml.safe_load(text_of_recipe(path))
    assert fields.pop("base") == "bases/synthetic"
    assert fields.keys() <= mine


def test_recipes_stay_short():
    """On average, so that one more recipe of a few lines needs no other limit."""
    lines = [line.strip() for path in packaged_recipes().values() for line in text_of_recipe(path).splitlines()]
    assert sum(bool(line) and not line.startswith("#") for line in lines) <= 7.25 * len(packaged_recipes())


@pytest.mark.parametrize("path", packaged_recipes().values(), ids=packaged_recipes())
def test_each_says_in_its_first_line_what_it_is(path):
    first = text_of_recipe(path).lstrip("\n").splitlines()[0]
    assert first.startswith("# ")
    assert first.endswith(".")
    assert len(first) <= 112
