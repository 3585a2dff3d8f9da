"""The figures and the recipe behind a model card, as far as the card shows them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from verisphere.base.vocabulary import OperatingPoint, Rule, check_word
from verisphere.decide import OneThreshold, exact_rate
from verisphere.files.documents import read_json_file, read_yaml_file
from verisphere.files.json_values import from_json
from verisphere.files.results import EvaluatedFile


@dataclass(frozen=True)
class Accuracy:
    """The part of a k-fold accuracy that a card shows."""

    mean: float
    std: float
    folds: int
    pairs: int

    def __post_init__(self) -> None:
        if not (0 <= self.mean <= 1 and 0 <= self.std <= 1 and 1 <= self.folds <= self.pairs):
            raise ValueError(f"an accuracy of {self.mean} +- {self.std}, {self.folds} folds and {self.pairs} pairs")


@dataclass(frozen=True)
class Figures:
    """The figures of a file of `verisphere evaluate --json`, and why they cannot be right, if they cannot."""

    operating_points: tuple[OperatingPoint, ...]
    sources: tuple[EvaluatedFile, ...]
    accuracy: Accuracy | None
    one_threshold: tuple[OneThreshold, ...] | None
    implausible: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for point in self.operating_points:
            _check_target(point)


def _check_target(point: OperatingPoint) -> None:
    """Refuses an operating point that its rule could not have found at its target."""
    rate = exact_rate(point.far_target)
    check_word("rule", point.rule, Rule)
    if point.rule == "at_most" and point.impostor_accepted > rate * point.impostor_total:
        raise ValueError(f"rule at_most at FAR {point.far_target} accepts no {point.far} of impostors")
    if point.below_resolution != (rate * point.impostor_total < 1):
        raise ValueError(f"below_resolution contradicts {point.impostor_total} impostors at FAR {point.far_target}")


def read_figures(path: Path) -> Figures:
    """The figures in a file of `verisphere evaluate --json`."""
    what = "not figures that `verisphere evaluate --json` writes"
    try:
        fields = read_json_file(path)
        if isinstance(fields, dict) and "galleries" in fields:
            what = "figures of an identification, and a card shows those of pairs"
        return from_json(Figures, {"accuracy": None, "one_threshold": None, "sources": []} | fields)
    except (ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{path}: {what}: {reason}") from None


def read_settings(path: Path) -> dict[str, Any]:
    """A resolved recipe as plain data; no class in it is imported."""
    recipe = read_yaml_file(path)
    for name in ("data", "backbone", "loss"):
        part = recipe.get(name) if isinstance(recipe, dict) else None
        if not (isinstance(part, dict) and isinstance(part.get("class_path"), str)):
            raise ValueError(f"{path}: not a resolved recipe: it names no class_path under {name}")
        if not isinstance(part.get("init_args") or {}, dict):
            raise ValueError(f"{path}: not a resolved recipe: init_args of {name} are no mapping")
    return recipe
