"""Each loss trained by its own recipe on drawn faces, and measured on people it has not seen."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from loss_examples import TABLE
from verisphere.backbones import Backbone, extract
from verisphere.files.packaged_recipes import packaged_recipes
from verisphere.images.decoded_faces import InMemory, in_memory
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.measure.protocols.all_pairs import all_pairs
from verisphere.train.recipe import ReadRecipe, read_recipe
from verisphere.train.session import train_run

#: TAR over all pairs at FAR 1e-2 that each recipe reaches on 150 unseen people.
LEARNS: dict[str, float] = {name: tar for entry in TABLE.values() for name, tar in entry.get("learns", {}).items()}

#: Those that are not to learn.
DOES_NOT = {name: tar for entry in TABLE.values() for name, tar in entry.get("learns_nothing", {}).items()}

UNSEEN = 12_000  # number of the first unseen person


def read(name: str) -> ReadRecipe:
    return read_recipe(f"synthetic/{name}", [])


@cache
def seen() -> InMemory:
    """The images that all recipes train on, drawn once."""
    return in_memory(read("arcface").recipe.data)


@cache
def unseen() -> InMemory:
    """Six images each of 150 other people, drawn alike."""
    data = read("arcface").recipe.data
    assert isinstance(data, SyntheticFaces)
    assert data.first_person + len(data.people) <= UNSEEN
    others = SyntheticFaces(150, 6, data.seed, data.domain_names, data.difficulty, first_person=UNSEEN)
    return in_memory(others)


def tar(backbone: Backbone) -> float:
    """TAR at FAR 1e-2 over all pairs of the unseen people: 2,250 genuine, 402,300 of impostors."""
    (point,) = all_pairs(replace(extract(backbone, unseen()), domains=None), ["1e-2"]).operating_points
    assert (point.genuine_total, point.impostor_total) == (2_250, 402_300)
    return point.tar


def trained(name: str, run: Path) -> float:
    recipe = read(name)
    assert recipe.recipe.data.names == seen().names
    faces = replace(recipe.recipe, data=seen(), in_memory=False)  # the images are in memory already
    return tar(train_run(ReadRecipe(faces, recipe.resolved), run, device="cpu").backbone)


def test_each_recipe_is_asked_for_a_tar():
    assert LEARNS.keys() | DOES_NOT.keys() == {
        path.stem for name, path in packaged_recipes().items() if name.startswith("synthetic/")
    }


@pytest.mark.slow
def test_without_training_nobody_is_recognised():
    torch.manual_seed(0)
    assert tar(read("arcface").recipe.backbone.to(memory_format=torch.channels_last)) < min(0.1, *LEARNS.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNS)
def test_the_loss_learns(name, tmp_path):
    assert trained(name, tmp_path / "run") >= LEARNS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", DOES_NOT)
def test_the_naive_loss_does_not_learn(name, tmp_path):
    assert trained(name, tmp_path / "run") < DOES_NOT[name]
