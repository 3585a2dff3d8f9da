"""Recipes and runs from before backbones and images had their rooms: their class paths are read as today's."""

from pathlib import Path

import pytest

from tiny_runs import command, read

pytestmark = pytest.mark.usefixtures("process_as_it_was")

OLD = """\
data: {class_path: verisphere.data.SyntheticFaces, init_args: {people: 3, images: 2}}
backbone: {class_path: verisphere.embed.pixels.Pixels, init_args: {side: 4}}
loss: verisphere.losses.ArcFace
epochs: 2
batch_size: 2
save_every: 0.34
workers: 0
"""


@pytest.mark.parametrize(
    "words",
    [
        ["--backbone", "verisphere.embed.pixels.Pixels"],
        ["--backbone=verisphere.embed.pixels.Pixels"],
        ["--backbone.class_path=verisphere.embed.pixels.Pixels"],
        ['--backbone={"class_path": "verisphere.embed.pixels.Pixels"}'],
    ],
)
def test_a_recipe_and_its_overrides_are_read(recipe: Path, words: list[str]):
    recipe.write_text(OLD)
    resolved = read(recipe, *words).resolved
    assert resolved["backbone"]["class_path"] == "verisphere.backbones.pixels.Pixels"
    assert resolved["data"]["class_path"] == "verisphere.images.SyntheticFaces"


def test_own_code_that_imports_an_old_module_is_told_the_new_one(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_old_network.py").write_text("from verisphere.embed.backbone import Backbone\n")
    assert command("train", recipe, "--backbone", "my_old_network.Network", "--out", tmp_path / "run") == 2
    said = capsys.readouterr().err
    assert "backbone: my_old_network.Network: No module named 'verisphere.embed" in said
    assert ": it is verisphere.backbones" in said
    assert "PYTHONPATH" not in said
