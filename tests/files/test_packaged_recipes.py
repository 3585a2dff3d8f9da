"""Names of recipes: a file first, then what comes with verisphere, then the nearest ones."""

from pathlib import Path

import pytest

from verisphere.files.definitions import read_based
from verisphere.files.packaged_recipes import FOLDER, LOSSES, description, find_recipe, packaged_recipes


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def test_names_are_paths_in_the_package():
    names = packaged_recipes()
    assert names["anchorface/arcface_1e-4"] == FOLDER / "anchorface" / "arcface_1e-4.yaml"
    assert names["losses/arcface"] == LOSSES / "losses" / "arcface"
    assert list(names)[:4] == ["arcface_r50", "lfw", "photos", "pixels"]


def test_a_file_goes_first_and_a_folder_does_not():
    assert find_recipe("photos").path == FOLDER / "photos.yaml"
    Path("photos").mkdir()
    assert find_recipe(Path("photos")).path == FOLDER / "photos.yaml"
    Path("photos").rmdir()
    Path("photos").write_text("")
    assert find_recipe("photos").path == Path("photos")


@pytest.mark.parametrize(
    ("named", "hint"),
    [
        ("recipes/photos.yaml", "; verisphere has it under the name photos"),
        ("../recipes/losses/arcface.yaml", "; verisphere has it under the name losses/arcface"),
        ("fotos", " (did you mean photos?); `verisphere recipes` lists them"),
        ("cosface", " (did you mean losses/cosface, oneface/cosface, synthetic/cosface?); `verisphere recipes` lists"),
        ("losses/magfase", " (did you mean losses/magface"),
        ("nothing-like-it", "; `verisphere recipes` lists the recipes that come with it"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(named: str, hint: str):
    with pytest.raises(FileNotFoundError) as caught:
        find_recipe(named)
    assert str(caught.value).startswith(f"{named}: there is no such recipe{hint}")


def test_a_recipe_in_the_table_of_losses_has_its_lines_there():
    path = packaged_recipes()["losses/elasticface_cos"]
    assert find_recipe("losses/elasticface_cos").path == find_recipe(path).path == path
    named_in, line = read_based(path).origin(["loss", "init_args", "kind"])
    assert named_in == path
    assert LOSSES.read_text().splitlines()[line - 1].strip() == "loss: {init_args: {kind: Cos, margin: 0.35}}"


def test_each_is_described_by_the_first_line_of_its_comment():
    assert description(FOLDER / "photos.yaml") == "One's own photographs: aligned faces, a folder a person."
