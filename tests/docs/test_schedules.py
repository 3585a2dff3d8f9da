"""docs/recipes.md: the recipes that its part on schedules shows can be trained."""

import re
from pathlib import Path

import pytest

from verisphere.train.preparation import length_of
from verisphere.train.recipe import read_recipe

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text(encoding="utf-8")
TEXT = PAGE.partition("## How long a training is, and at what rate\n")[2].partition("\n## ")[0]
PARTS = """\
data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 4, images: 2}}
backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 4}}
loss: {class_path: verisphere.losses.ArcFace}
batch_size: 4
"""


@pytest.mark.parametrize("text", re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
def test_a_recipe_can_be_copied(text: str, tmp_path: Path):
    path = tmp_path / "recipe.yaml"
    path.write_text(PARTS + text)
    recipe = read_recipe(path, []).recipe
    length = length_of(recipe)
    assert length.steps == (recipe.steps or 40)
    assert length.validate_every == (5000 if recipe.steps else 1)
