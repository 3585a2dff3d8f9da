"""The recipes and sets of an experiment, resolved and checked before the first training."""

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.base.identity import as_known, merge_hint
from verisphere.files.errors import errors_naming
from verisphere.measure.measured_set import MeasuredSet, complete_set, open_set
from verisphere.study.experiments.arms import SEED, START, Experiment
from verisphere.study.experiments.cleaned import CleanedFrom
from verisphere.study.search.definition import search_over
from verisphere.train.preparation import domains_for_loss, length_of, training_of
from verisphere.train.recipe import ReadRecipe, Recipe, Settings, read_recipe


def check_trainable(recipe: Recipe) -> None:
    """Refuse data that do not fill a batch or do not fit the loss, and a pair term that the training cannot use."""
    length_of(recipe)
    domains_for_loss(recipe)
    training = training_of(recipe)
    with torch.device("meta"):  # buffers of the terms then take no memory
        for term in copy.deepcopy(recipe.pair_terms):
            try:
                term.prepare(training)
            except RuntimeError:  # a user's own term may read numbers, which tensors on the meta device do not have
                continue


def check_start(arm: ReadRecipe, warm: ReadRecipe) -> None:
    """Refuse an arm that cannot start from the weights of the warm training."""
    differing = _differing(arm.resolved["backbone"], warm.resolved["backbone"])
    if differing:
        raise ValueError(
            f"its backbone is another than that of warm, which it starts from, in {', '.join(differing)}; set it for "
            "all, under `set`"
        )
    if not arm.recipe.start_head:
        return
    people, before = arm.recipe.data.people, warm.recipe.data.people
    if sorted(as_known(people, before, arm.recipe.data.names_rule).values()) != sorted(before):
        hint = merge_hint(people, before)
        raise ValueError(
            f"its data are of {len(people)} people and those of warm, which it starts from, of {len(before)}, or "
            f"others; {hint and f'{hint}; '}start_head: false takes the backbone alone"
        )
    if arm.recipe.subcenters != warm.recipe.subcenters:
        raise ValueError(
            f"subcenters is {arm.recipe.subcenters} and that of warm, which it starts from, {warm.recipe.subcenters}; "
            "start_head: false takes the backbone alone"
        )


def check_cleaned(arm: str, fields: Mapping[str, Any], by: str, cleaning: Mapping[str, Any]) -> None:
    """Refuse an arm whose data another arm cannot clean, or that would copy the centers of people who may be lost."""
    if fields["data"] != cleaning["data"]:
        raise ValueError(f"arm {arm!r}: cleaned: its data are not those of arm {by!r}, which cleans them")
    if fields["start"] is not None and fields["start_head"]:
        raise ValueError(
            f"arm {arm!r}: cleaned data may lack people, so the centers of {fields['start']} do not fit; "
            "start_head: false takes the backbone alone"
        )


def _differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Names of the arguments in which two described classes differ, or `class_path` if the classes differ."""
    if ours["class_path"] != theirs["class_path"]:
        return ["class_path"]
    left, right = ours.get("init_args") or {}, theirs.get("init_args") or {}
    return [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]


VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class ResolvedRecipe:
    """The fields of an arm's recipe as plain data, of which only the seed differs, and its recipe at each seed."""

    fields: dict[str, Any]
    yaml: dict[int, str]

    @classmethod
    def of(cls, read: ReadRecipe, seeds: Sequence[int]) -> "ResolvedRecipe":
        """A recipe at some seeds; its network and images are released."""
        return cls(read.resolved, {seed: replace(read, resolved=read.resolved | {SEED: seed}).yaml for seed in seeds})


@dataclass(frozen=True, eq=False)
class Resolved:
    """An experiment whose recipes are resolved and whose sets are open."""

    warm: ResolvedRecipe | None
    arms: dict[str, ResolvedRecipe]
    seeds: tuple[int, ...]
    sets: dict[str, MeasuredSet]
    described: dict[str, dict[str, Any]]  # the sets as plain data
    cleaned: dict[str, CleanedFrom] = field(default_factory=dict)
    searches: dict[str, dict[str, Any]] = field(default_factory=dict)


def resolve(experiment: Experiment, warm_at: Path) -> Resolved:
    """Read all recipes and open all sets, so that errors in them are found before hours of training."""
    warm_recipe = None if experiment.warm is None else _read("warm", experiment, experiment.warm, None)
    warm = None if warm_recipe is None else ResolvedRecipe.of(warm_recipe, [warm_recipe.recipe.seed])
    start: Settings = {} if experiment.warm is None else {START: str(warm_at)}
    arms: dict[str, ResolvedRecipe] = {}
    described, sets, seeds = {}, {}, experiment.seeds or ()
    searches: dict[str, dict[str, Any]] = {}
    checked_backbones = set()
    for name, settings in experiment.arms.items():
        read = _read(f"arm {name!r}", experiment, settings | start, warm_recipe)
        if not arms:
            seeds = experiment.seeds or (read.recipe.seed,)
            described = _described(experiment, read)
            sets = {title: open_set(f"evaluate: {title}", given) for title, given in described.items()}
        backbone = json.dumps(read.resolved["backbone"])
        if backbone not in checked_backbones:
            checked_backbones.add(backbone)
            _check_images(f"arm {name!r}", read.recipe.backbone, sets)
        if name in experiment.searches:
            with errors_naming(f"arm {name!r}: search"):
                searches[name] = search_over(read, experiment.searches[name]).described
        arms[name] = ResolvedRecipe.of(read, seeds[: experiment.first_seeds.get(name, len(seeds))])
    for name, entry in experiment.cleaned.items():
        check_cleaned(name, arms[name].fields, entry.arm, arms[entry.arm].fields)
    complete = {name: complete_set(given) for name, given in described.items()}
    return Resolved(warm, arms, seeds, sets, complete, experiment.cleaned, searches)


def _read(who: str, experiment: Experiment, settings: Settings, warm: ReadRecipe | None) -> ReadRecipe:
    """Read the recipe of a training, and check everything that can be checked before it begins."""
    try:
        read = read_recipe(experiment.recipe, (), [*experiment.common, *settings.items()])
        check_trainable(read.recipe)
        if warm is not None:
            check_start(read, warm)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None
    return read


def _described(experiment: Experiment, base: ReadRecipe) -> dict[str, dict[str, Any]]:
    """The sets as plain data: those of the experiment, or the recipe's validation set."""
    if experiment.evaluate is not None:
        return experiment.evaluate
    if base.recipe.validation is None:
        return {}
    faces, far = base.resolved[VALIDATION], base.resolved["validation_far"]
    return {VALIDATION: {"faces": faces, "far": far}}


def _check_images(who: str, backbone: Backbone, sets: Mapping[str, MeasuredSet]) -> None:
    for name, measured in sets.items():
        try:
            extract(backbone, measured.faces.select([0]))
        except ValueError as error:
            raise ValueError(f"evaluate: {name}: {who}: {error}") from None
