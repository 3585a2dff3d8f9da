"""The cost of several trainings, such as those of an experiment: how many, how long, and their work in sum."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from verisphere.files.results import Result
from verisphere.report.tables import table
from verisphere.train.dry_run.one_training import DryRun, gib
from verisphere.train.dry_run.training_cost import TrainingCost
from verisphere.train.preparation import epochs_of
from verisphere.train.recipe import Recipe


@dataclass(frozen=True)
class Trainings:
    """Trainings of one recipe; steps and epochs are those of one training, None and infinite if they are unknown.

    The count of a search is its epochs divided by those of one training.
    """

    name: str
    count: float
    one: DryRun
    steps: int | None
    epochs: float

    @classmethod
    def of(cls, name: str, count: float, cost: TrainingCost, recipe: Recipe, images: int | None) -> "Trainings":
        """The trainings of a recipe on a number of images, None if it is unknown."""
        per_epoch = None if images is None else images // recipe.batch_size
        epochs = epochs_of(recipe, per_epoch)
        steps = recipe.steps if per_epoch is None else max(round(epochs * per_epoch), 1) if per_epoch else None
        return cls(name, count, DryRun(cost, recipe, per_epoch), steps, epochs)

    @property
    def cost(self) -> TrainingCost:
        """Cost of one training."""
        return self.one.cost

    @property
    def step_flops(self) -> int:
        """Floating-point operations of a step, over all processes."""
        return (self.cost.backbone_flops + self.cost.head_flops + self.cost.teacher_flops) * self.cost.processes

    @property
    def all_steps(self) -> int | None:
        """Steps of all trainings; None if they are unknown."""
        return None if self.steps is None else round(self.count * self.steps)

    @property
    def flops(self) -> int | None:
        """Floating-point operations of all trainings; None if their steps are unknown."""
        return None if self.all_steps is None else self.all_steps * self.step_flops

    @property
    def length(self) -> str:
        """The length of one training in words."""
        return f"{self.epochs:g} epochs" if self.steps is None else f"{self.steps:,} steps"


@dataclass(frozen=True)
class SeveralCosts(Result):
    """The cost of several trainings, of which `at_once` run together and share the available bytes (None: unknown).

    The notes say, in whole sentences, what was not counted or was counted otherwise.
    """

    trainings: tuple[Trainings, ...]
    at_once: int = 1
    available: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> float:
        """Number of trainings."""
        return sum((entry.count for entry in self.trainings), 0.0)

    @property
    def steps(self) -> int | None:
        """Steps of all trainings; None if one's are unknown."""
        return _sum([entry.all_steps for entry in self.trainings])

    @property
    def flops(self) -> int | None:
        """Floating-point operations of all trainings; None if the steps of one are unknown."""
        return _sum([entry.flops for entry in self.trainings])

    @property
    def largest(self) -> int:
        """Bytes of the largest training, or of the largest ones that run at the same time, each as large."""
        return max(entry.cost.total for entry in self.trainings) * self.at_once

    @property
    def fits(self) -> bool | None:
        """Whether the largest fit into the memory; None if that is unknown."""
        return None if self.available is None else self.largest <= self.available

    def text(self) -> str:
        """A table with a row for each recipe, the sum, and notes."""
        rows = [
            [
                entry.name,
                f"{entry.count:g}",
                f"{entry.cost.backbone} and {entry.cost.loss}",
                f"{entry.cost.classes:,}",
                entry.length,
                flops_text(entry.step_flops),
                "" if entry.flops is None else flops_text(entry.flops),
                gib(entry.cost.total),
            ]
            for entry in self.trainings
        ]
        head = ["arm", "trainings", "network and loss", "classes", "each", "work of a step", "of all", "GiB"]
        sums = [f"{self.count:g} trainings"]
        if self.steps is not None and self.flops is not None:
            sums += [f"{self.steps:,} steps", flops_text(self.flops)]
        else:
            sums.append("--images tells their steps and work")
        lines = [f"together: {', '.join(sums)}", self._memory, *self.notes]
        return "\n".join([table(head, rows), "", *lines])

    @property
    def _memory(self) -> str:
        which = "the largest training takes" if self.at_once == 1 else f"{self.at_once} at a time take up to"
        line = f"memory: {which} {gib(self.largest)} GiB"
        if self.available is None:
            return line
        return f"{line} of {gib(self.available)}" + ("" if self.fits else ", so it does not fit")

    def fields(self) -> dict[str, Any]:
        """The cost of each recipe's trainings, and the sums."""
        return {
            "arms": [
                {
                    "name": entry.name,
                    "trainings": entry.count,
                    "steps": entry.steps,
                    "epochs": entry.epochs if isfinite(entry.epochs) else None,
                    "flops": entry.flops,
                    "cost": entry.one.fields(),
                }
                for entry in self.trainings
            ],
            "trainings": self.count,
            "steps": self.steps,
            "flops": self.flops,
            "largest": self.largest,
            "available": self.available,
            "fits": self.fits,
        }


def flops_text(flops: int | float) -> str:
    """Floating-point operations with three digits and a unit.

    >>> flops_text(22.7e9), flops_text(1.5e18), flops_text(999e15)
    ('22.7 GFLOP', '1.5 EFLOP', '999 PFLOP')
    """
    for unit, size in (("E", 1e18), ("P", 1e15), ("T", 1e12)):
        if flops >= size:
            return f"{flops / size:.3g} {unit}FLOP"
    return f"{flops / 1e9:.3g} GFLOP"


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
