"""The dry run of a search: its rounds and candidates, counted, and what they cost; nothing is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verisphere.device import choose_device
from verisphere.files.results import Json
from verisphere.search.definition import planned_rounds, read_search, recipe_of_search
from verisphere.search.rounds import Round, epochs_trained
from verisphere.train.dry_run.several import Trainings, flops_text
from verisphere.train.dry_run.text import NO_DATA, as_json, as_text, available, check_numbers, sizes
from verisphere.train.dry_run.training_cost import training_cost
from verisphere.train.recipe import Recipe


@dataclass(frozen=True, eq=False)
class SearchCost:
    """The cost of a search.

    Attributes:
        rounds: the rounds, whose rewards are made up.
        trainings: the trainings that the search costs, and the cost of one.
        recipe: recipe of the candidates.
    """

    rounds: tuple[Round, ...]
    trainings: Trainings
    recipe: Recipe

    @property
    def candidates(self) -> int:
        """Number of candidates of all rounds."""
        return sum(len(entry.starts) for entry in self.rounds)

    def text(self) -> str:
        """The rounds and their cost, and the cost of one training."""
        one = self.trainings
        sums = [f"{self.candidates} candidates in {len(self.rounds)} rounds"]
        sums.append(f"{one.count * one.epochs:g} epochs of training, {one.count:.3g} times as many as of one training")
        if one.flops is None:
            sums.append("--images tells their steps and work")
        else:
            sums.append(f"{one.all_steps:,} steps, {flops_text(one.flops)}")
        per_epoch = None if one.steps is None else round(one.steps / one.epochs)
        text = as_text(one.cost, self.recipe, per_epoch)
        return f"{'; '.join(sums)}. Measuring the rewards is not counted.\n\none training: {text}"

    def json(self) -> Json:
        """Rounds, candidates and sums, and the cost of one training."""
        one = self.trainings
        return {
            "rounds": len(self.rounds),
            "candidates": self.candidates,
            "trainings": one.count,
            "epochs": one.count * one.epochs,
            "steps": one.all_steps,
            "flops": one.flops,
            "training": as_json(one.cost),
        }


def search_cost(
    path: str | Path,
    overrides: Sequence[str] = (),
    *,
    classes: int | None = None,
    images: int | None = None,
    processes: int = 1,
    memory: float | None = None,
    device: str | None = None,
) -> SearchCost:
    """The cost of a search.

    Args:
        path: YAML file, or the name of a packaged one.
        overrides: `--field value` options of its recipe.
        classes: number of classes; None counts the people in the data and checks the whole search. With a number
            neither the data nor the people of the reward need exist.
        images: number of images, with `classes`.
        processes: world size of the training of a candidate.
        memory: GiB that each process has; None finds out.
        device: device of the trainings.
    """
    check_numbers(classes, images, memory)
    place = choose_device(device)
    content: Mapping[str, Any]
    if classes is None:
        search = read_search(path, overrides)
        recipe, content = search.read.recipe, search.described
    else:
        read, content = recipe_of_search(path, overrides, NO_DATA)
        recipe = read.recipe
    number, of_data = sizes(recipe, classes, images)
    cost = training_cost(recipe, number, processes, available(memory, place), place.type)
    one = Trainings.of(str(path), 1.0, cost, recipe, of_data)
    rounds = planned_rounds(content, one.epochs, recipe.seed)
    return SearchCost(rounds, replace(one, count=epochs_trained(rounds) / one.epochs), recipe)
