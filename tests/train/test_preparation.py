"""The domain of each class, for a loss with a margin for each domain; data that do not fit it are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tiny_runs import read
from verisphere.images import InMemory
from verisphere.images.faces import Faces
from verisphere.losses import CosFace, DomainMargins
from verisphere.train.preparation import domains_for_loss
from verisphere.train.recipe import ReadRecipe, Recipe
from verisphere.train.session import train_run

PEOPLE = ("Ann", "Ben", "Cem", "Dov")


def faces(*domains: str, people: tuple[str, ...] = PEOPLE) -> Faces:
    """Four images of each person, in the person's domain; without domains where none is given."""
    persons = [person for person in people for _ in range(4)]
    column = tuple(domain for domain in domains for _ in range(4)) if domains else None
    pixels = torch.arange(256).repeat(len(persons) * 3).view(len(persons), 3, 16, 16).to(torch.uint8)
    return InMemory(pixels, tuple(map(str, range(len(persons)))), tuple(persons), column)


def with_margins(path: Path, data: Faces, **margins: float) -> ReadRecipe:
    made = read(path)
    return ReadRecipe(replace(made.recipe, data=data, loss=DomainMargins(margins)), made.resolved)


def recipe_of(path: Path, data: Faces, **margins: float) -> Recipe:
    return with_margins(path, data, **margins).recipe


def test_each_class_has_the_domain_of_its_images(recipe: Path):
    data = faces("night", "day", "night", "day", people=("Dov", "Ann", "Cem", "Ben"))
    assert data.people == PEOPLE
    assert domains_for_loss(recipe_of(recipe, data, day=0.1, night=0.2)) == ("day", "day", "night", "night")


def test_other_losses_are_not_asked(recipe: Path):
    made = read(recipe).recipe
    assert domains_for_loss(replace(made, data=faces(), loss=CosFace())) is None


def test_a_training_prepares_the_loss(recipe: Path, tmp_path: Path):
    data = faces("night", "day", "night", "day")
    trained = train_run(with_margins(recipe, data, day=0.1, night=0.2), tmp_path / "run", device="cpu")
    assert trained.head.loss.domain_of_class.tolist() == [1, 0, 1, 0]


def test_a_training_does_not_go_on_with_people_in_other_domains(recipe: Path, tmp_path: Path):
    train_run(with_margins(recipe, faces("night", "day", "night", "day"), day=0.1, night=0.2), tmp_path, device="cpu")
    changed = with_margins(recipe, faces("day", "day", "night", "day"), day=0.1, night=0.2)
    with pytest.raises(ValueError, match="or others; restore them, or start another run"):
        train_run(changed, tmp_path, resume=True, device="cpu")


@pytest.mark.parametrize(
    ("data", "margins", "message"),
    [
        (faces(), {"day": 0.1}, "the images have no domains, and the loss has a margin for each of day"),
        (
            faces("day", "day", "dusk", "night"), {"day": 0.1, "night": 0.2},
            "images are in the domain dusk, for which the loss has no margin; it has margins for day, night",
        ),
        (
            faces("day", "day", "day", "day"), {"day": 0.1, "night": 0.2},
            "the loss has a margin for the domain night, in which no image is; the images are in day",
        ),
        (
            faces("day", "night", "day", "night", people=("Ann", "Ben", "Cem", "Ann")), {"day": 0.1, "night": 0.2},
            "Ann has images in the domains day and night; a loss with a margin for each domain needs all images of a "
            "person in one",
        ),
    ],
    ids=["no domains", "no margin", "no image", "two domains"],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_written(
    recipe: Path, tmp_path: Path, data: Faces, margins: dict[str, float], message: str
):
    with pytest.raises(ValueError, match=f"^data: {message}$"):
        train_run(with_margins(recipe, data, **margins), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()
