"""docs/losses.md: every loss has its line and its test, and what it shows to copy works."""

import importlib
import re
import sys
from pathlib import Path

import pytest
import torch
import yaml

import verisphere
from figures.losses import FIGURES
from verisphere import losses
from verisphere.head import Auto, Dense, Streamed, SubCenters
from verisphere.train.recipe import read_recipe

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "losses.md").read_text(encoding="utf-8")
LOSSES = [
    name
    for name in losses.__all__
    if isinstance(getattr(losses, name), type)
    and issubclass(getattr(losses, name), losses.ClassLoss)
    and name != "ClassLoss"
]
ROWS = {
    match[1]: [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if (match := re.match(r"\| `(\w+)` \|", line))
}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_every_loss_has_a_row_and_no_other_name_has_one():
    table = TEXT.split("## In a recipe")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(LOSSES)


@pytest.mark.parametrize("name", LOSSES)
def test_a_row_names_a_paper_a_function_that_exists_and_a_test_of_this_loss(name):
    row = ROWS[name]
    assert len(row) == 5
    _, paper, equation, functions, tests = row
    assert len(paper) > 8
    assert len(equation) > 3
    for dotted in re.findall(r"`(\w+\.\w+)`", functions):
        module, function = dotted.split(".")
        where = "verisphere.score.cosine" if module == "score" else f"verisphere.losses.{module}"
        assert callable(getattr(importlib.import_module(where), function)), dotted
    paths = re.findall(r"\]\(([^)]+)\)", tests)
    assert any(re.search(rf"\b{name}\b", (DOCS / path).read_text(encoding="utf-8")) for path in paths)


def test_every_picture_is_shown_described_and_small():
    shown = dict(re.findall(r"!\[([^\]]+)\]\(images/losses/(\w+)\.png\)", TEXT))
    assert sorted(shown.values()) == sorted(FIGURES)
    for name in FIGURES:
        assert (DOCS / "images" / "losses" / f"{name}.png").stat().st_size < 80_000


@pytest.mark.parametrize("text", blocks("yaml"))
def test_recipes_can_be_copied(text: str, tmp_path: Path):
    fields = yaml.safe_load(text) | {
        "data": {"class_path": "verisphere.images.SyntheticFaces", "init_args": {"people": 4, "images": 2}},
        "backbone": {"class_path": "verisphere.backbones.Pixels", "init_args": {"side": 4}},
    }
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.dump(fields))
    loss = read_recipe(recipe, []).recipe.loss
    assert type(loss).__name__ == yaml.safe_load(text)["loss"]["class_path"].split(".")[-1]


def test_the_head_can_be_copied():
    (text,) = [block for block in blocks("python") if "verisphere.Head" in block]
    torch.manual_seed(0)
    names = {"verisphere": verisphere, "embeddings": torch.randn(4, 512), "labels": torch.arange(4)}
    names["cosines"] = torch.zeros(4, 10)
    exec(text.replace("10_000", "10"), names)
    assert names["loss"].isfinite()


@pytest.fixture
def own_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file that the page shows, on the import path."""
    (text,) = [block for block in blocks("python") if "my_losses.py" in block]
    (tmp_path / "my_losses.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("my_losses")
    del sys.modules["my_losses"]


@pytest.mark.parametrize("subcenters", [1, 3])
def test_a_loss_of_ones_own_runs_on_every_engine(own_loss, subcenters: int):
    embeddings = torch.randn(6, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = []
    for engine in (Dense(), Streamed(), Auto()):
        torch.manual_seed(2)
        head = verisphere.Head(
            own_loss.LinearAngle(scale=8.0), 20, 8, centers=SubCenters(subcenters), engine=engine
        ).double()
        rows = embeddings.clone().requires_grad_()
        out = head(rows, torch.arange(6))
        out.loss.backward()
        found.append((out.per_sample, rows.grad, head.centers.grad))
    for other in found[1:]:
        torch.testing.assert_close(other, found[0], rtol=1e-10, atol=1e-12)


def test_a_loss_of_ones_own_by_hand(own_loss):
    # 60 degrees is a third of pi: 1 - 2/3 without margin; a margin of pi / 6 takes a third off
    loss, cosine = own_loss.LinearAngle(margin=torch.pi / 6, scale=3.0), torch.tensor([0.5])
    assert loss.own(cosine).item() == pytest.approx(0.0, abs=1e-6)
    assert loss.others(cosine[:, None]).item() == pytest.approx(1.0)


def test_a_loss_of_ones_own_is_named_by_its_import_path(own_loss, tmp_path: Path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "data: {class_path: verisphere.images.SyntheticFaces, init_args: {people: 4, images: 2}}\n"
        "backbone: {class_path: verisphere.backbones.Pixels, init_args: {side: 4}}\n"
        "loss: verisphere.losses.ArcFace\n"
    )
    loss = read_recipe(recipe, ["--loss", "my_losses.LinearAngle", "--loss.margin", "0.3"]).recipe.loss
    assert isinstance(loss, own_loss.LinearAngle)
    assert loss.margin == 0.3
