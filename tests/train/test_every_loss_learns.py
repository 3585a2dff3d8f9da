"""Each loss trained by its own recipe on drawn faces, and measured on people it has not seen."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch

from verisphere.backbones import Backbone, extract
from verisphere.files.packaged_recipes import FOLDER
from verisphere.images.decoded_faces import InMemory, in_memory
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces
from verisphere.measure.protocols import all_pairs
from verisphere.train.recipe import ReadRecipe, read_recipe
from verisphere.train.session import train_run

RECIPES = FOLDER / "synthetic"

#: TAR over all pairs at FAR 1e-2 that each recipe reaches on 150 unseen people: two fifths of what was measured when
#: its numbers were chosen, which stands beside it. The distance is wide because so short a training varies: runs of one
#: recipe that differ in rounding alone were seen at 0.50 and at 0.80. Untrained it is 0.03.
LEARNS = {
    "a_softmax": 0.27,  # 0.69, and 0.74 with seed 1
    "adaface": 0.29,  # 0.74
    "am_lfs": 0.27,  # 0.68
    "am_softmax": 0.29,  # 0.74
    "arc_softmax": 0.30,  # 0.76
    "arcface": 0.32,  # 0.80
    "arcface_intra_inter": 0.32,  # 0.80
    "arcface_t": 0.26,  # 0.67
    "arcface_triplet": 0.22,  # 0.57; with two images a person in each batch ArcFace alone had 0.32
    "cifp": 0.28,  # 0.71
    "circle": 0.24,  # 0.61
    "cm1": 0.30,  # 0.76
    "cm2": 0.26,  # 0.65
    "coco": 0.27,  # 0.68
    "cosface": 0.26,  # 0.67
    "cosface_t": 0.28,  # 0.70
    "curricularface": 0.29,  # 0.74
    "domain_margins": 0.26,  # with its one domain it is cosface
    "elasticface_arc": 0.29,  # 0.73, and 0.58 with seed 1
    "elasticface_cos": 0.17,  # 0.42, and 0.54 with seed 1
    "magface": 0.29,  # 0.74
    "mv_am": 0.25,  # 0.63
    "mv_arc": 0.24,  # 0.62
    "noise_resistant": 0.30,  # 0.76
    "noise_tolerant": 0.25,  # 0.62
    "normface": 0.32,  # 0.80, and 0.68 with seed 1
    "normface_intra_inter": 0.27,  # 0.68
    "search_softmax": 0.31,  # 0.78
    "softmax": 0.34,  # 0.86
    "sphereface": 0.32,  # 0.80
    "sphereface2_a": 0.28,  # 0.70
    "sphereface2_am": 0.29,  # 0.73
    "sphereface2_c": 0.28,  # 0.72
    "sphereface2_eh": 0.17,  # 0.44
    "sphereface2_m": 0.31,  # 0.78
    "sphereface2_pn": 0.19,  # 0.48
    "sphereface_r": 0.27,  # 0.69
    "subcenter_arcface": 0.26,  # 0.67
    "subcenter_arcface_softmax": 0.32,  # 0.81
    "subcenter_arcface_together": 0.25,  # 0.64
    "triplet": 0.25,  # 0.64
    "v_softmax": 0.26,  # 0.66
}

#: The one that is not to learn: the paper says that it does not converge.
DOES_NOT = {"sphereface2_naive": 0.1}  # 0.04

UNSEEN = 12_000  # number of the first unseen person


def read(name: str) -> ReadRecipe:
    return read_recipe(RECIPES / f"{name}.yaml", [])


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
    assert LEARNS.keys() | DOES_NOT.keys() == {path.stem for path in RECIPES.glob("*.yaml")}


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
