"""The dry run of a search: its rounds and candidates, counted, and what they cost; nothing is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from verisphere.files.results import Result
from verisphere.study.search.definition import planned_rounds, read_search, recipe_of_search
from verisphere.study.search.rounds import Round, epochs_trained
from verisphere.train.dry_run.one_training import NO_DATA, DryRunOptions
from verisphere.train.dry_run.several import Trainings, flops_text


@dataclass(frozen=True, eq=False)
class SearchCost(Result):
    """The cost of a search whose rewards are made up: the trainings that it takes, with the cost of one."""

    rounds: tuple[Round, ...]
    trainings: Trainings

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
        return f"{'; '.join(sums)}. Measuring the rewards is not counted.\n\none training: {one.one.text()}"

    def fields(self) -> dict[str, Any]:
        """Rounds, candidates and sums, and the cost of one training."""
        one = self.trainings
        return {
            "rounds": len(self.rounds),
            "candidates": self.candidates,
            "trainings": one.count,
            "epochs": one.count * one.epochs,
            "steps": one.all_steps,
            "flops": one.flops,
            "training": one.one.fields(),
        }


def search_cost(path: str | Path, overrides: Sequence[str], options: DryRunOptions) -> SearchCost:
    """The cost of a search, checked as a whole; with a number of classes its data and people need not exist."""
    content: Mapping[str, Any]
    if options.classes is None:
        search = read_search(path, overrides)
        recipe, content = search.read.recipe, search.described
    else:
        read, content = recipe_of_search(path, overrides, NO_DATA)
        recipe = read.recipe
    cost, of_data = options.cost(recipe)
    one = Trainings.of(str(path), 1.0, cost, recipe, of_data)
    rounds = planned_rounds(content, one.epochs, recipe.seed)
    return SearchCost(rounds, replace(one, count=epochs_trained(rounds) / one.epochs))
