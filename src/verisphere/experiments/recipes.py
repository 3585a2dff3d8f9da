"""The recipes of an experiment's trainings and the sets it measures, resolved and checked before the first training."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jsonargparse

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.decide import exact_rate, lacking_text
from verisphere.experiments.arms import SEED, START, Experiment, words
from verisphere.experiments.checks import check_start, check_trainable
from verisphere.experiments.grid import Settings, changed_inside, parted
from verisphere.images.faces import Faces
from verisphere.images.select import positions_with_images, require_people
from verisphere.train.explain import check_given, explain
from verisphere.train.recipe import ReadRecipe, read_recipe

VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """A set that every finished training is measured on.

    Attributes:
        faces: its images.
        far: target FARs, over all pairs.
        one_far: target FAR of one threshold over the set's domains; null measures none.
        flip: add the embedding of the mirror image.
    """

    faces: Faces
    far: tuple[str | float, ...] = ("1e-2", "1e-3")
    one_far: str | float | None = None
    flip: bool = False

    def __post_init__(self) -> None:
        if not self.far:
            raise ValueError("far is empty; expected one target FAR or more")
        for far in (*self.far, *(() if self.one_far is None else (self.one_far,))):
            exact_rate(far)
        require_people(self.faces)
        positions_with_images(self.faces.identities, at_least=2)
        if self.one_far is not None:
            _check_domains(self.faces)


@dataclass(frozen=True, eq=False)
class ResolvedRecipe:
    """The recipe of an arm, every field with its value.

    Attributes:
        fields: as plain data, but for the seed those of all its trainings.
        yaml: for each seed the recipe of that training.
    """

    fields: dict[str, Any]
    yaml: dict[int, str]

    @classmethod
    def of(cls, read: ReadRecipe, seeds: Sequence[int]) -> "ResolvedRecipe":
        """A recipe at some seeds; its network and images are let go of."""
        return cls(read.resolved, {seed: replace(read, resolved=read.resolved | {SEED: seed}).yaml for seed in seeds})


@dataclass(frozen=True, eq=False)
class Resolved:
    """An experiment ready to be made.

    Attributes:
        warm: the first training; None where there is none.
        arms: by name.
        seeds: of each arm.
        sets: what to measure on; none where neither experiment nor recipe names a set.
        described: the sets as plain data.
    """

    warm: ResolvedRecipe | None
    arms: dict[str, ResolvedRecipe]
    seeds: tuple[int, ...]
    sets: dict[str, MeasuredSet]
    described: dict[str, dict[str, Any]]


def resolve(experiment: Experiment, warm_at: Path) -> Resolved:
    """Read every recipe and open every set, so that what is wrong with one is known before hours of training.

    Args:
        experiment: what is asked for.
        warm_at: folder of the first training, which the arms start from where there is one.

    Raises:
        FileNotFoundError: there is no such recipe.
        ValueError: a field or value that no recipe has; what would end a training at its beginning; a set that cannot
            be measured, or images that a backbone refuses; names the arm or set.
    """
    common = _common(experiment)
    first = None if experiment.warm is None else _read("warm", experiment.recipe, common, experiment.warm, None)
    warm = None if first is None else ResolvedRecipe.of(first, [first.recipe.seed])
    start: Settings = {} if experiment.warm is None else {START: str(warm_at)}
    arms: dict[str, ResolvedRecipe] = {}
    described, sets, seeds = {}, {}, experiment.seeds or ()
    looked_at = set()
    for name, settings in experiment.arms.items():
        read = _read(f"arm {name!r}", experiment.recipe, common, settings | start, first)
        if not arms:
            seeds = experiment.seeds or (read.recipe.seed,)
            described = _described(experiment, read)
            sets = {title: _open(title, given) for title, given in described.items()}
        backbone = json.dumps(read.resolved["backbone"])
        if backbone not in looked_at:
            looked_at.add(backbone)
            _check_images(f"arm {name!r}", read.recipe.backbone, sets)
        arms[name] = ResolvedRecipe.of(read, seeds)
    return Resolved(warm, arms, seeds, sets, {name: _complete(one) for name, one in described.items()})


def _common(experiment: Experiment) -> list[str]:
    """The words that all trainings share, what is changed inside lists among them."""
    if not experiment.inside:
        return list(experiment.common)
    return [*experiment.common, *words(_lists(experiment.recipe, experiment.common, experiment.inside))]


def _lists(recipe: Path, given: Sequence[str], inside: Settings) -> Settings:
    """The fields that hold the lists in which something is changed, whole and changed."""
    read = read_recipe(recipe, list(given))
    lists = {name: read.resolved.get(name) for name in {name.partition(".")[0] for name in inside}}
    return changed_inside(lists, inside)


def _read(who: str, recipe: Path, common: Sequence[str], settings: Settings, warm: ReadRecipe | None) -> ReadRecipe:
    """A training's recipe, after all that can be said of it before it begins."""
    whole, inside = parted(settings)
    given = [*common, *words(whole)]
    try:
        read = read_recipe(recipe, [*given, *(words(_lists(recipe, given, inside)) if inside else ())])
        check_trainable(read.recipe)
        if warm is not None:
            check_start(read, warm)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None
    return read


def _described(experiment: Experiment, base: ReadRecipe) -> dict[str, dict[str, Any]]:
    """The sets as plain data: the experiment's, or the recipe's validation."""
    if experiment.evaluate is not None:
        return experiment.evaluate
    if base.recipe.validation is None:
        return {}
    faces, far = base.resolved[VALIDATION], base.resolved["validation_far"]
    return {VALIDATION: {"faces": faces, "far": far}}


def _parser() -> jsonargparse.ArgumentParser:
    parser = jsonargparse.ArgumentParser(exit_on_error=False, prog="set", allow_abbrev=False)
    parser.add_class_arguments(MeasuredSet)
    return parser


def _open(name: str, given: Mapping[str, Any]) -> MeasuredSet:
    parser = _parser()
    try:
        check_given(MeasuredSet, _complete(given))
        built = parser.instantiate(parser.parse_object(dict(given)))
        return MeasuredSet(**{field: built[field] for field in MeasuredSet.__dataclass_fields__})
    except jsonargparse.ArgumentError as error:
        raise ValueError(f"evaluate: {name}: {explain(error, MeasuredSet)}") from None
    except ValueError as error:
        raise ValueError(f"evaluate: {name}: {error}") from None


def _complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """A set's description with every argument, as a resolved recipe has them."""
    parser = _parser()
    settings = parser.parse_object(dict(given))
    return json.loads(parser.dump(settings, format="json", skip_unset=False, skip_validation=True))


def _check_images(who: str, backbone: Backbone, sets: Mapping[str, MeasuredSet]) -> None:
    for name, one in sets.items():
        try:
            extract(backbone, one.faces.select([0]))
        except ValueError as error:
            raise ValueError(f"evaluate: {name}: {who}: {error}") from None


def _check_domains(faces: Faces) -> None:
    """Refuse domains that have no rate at any threshold."""
    if faces.domains is None:
        raise ValueError("one_far asks for one threshold over domains, and the images have none")
    counts: dict[str, list[int]] = {}
    for (domain, _), images in Counter(zip(faces.domains, faces.identities, strict=True)).items():
        counts.setdefault(domain, []).append(images)
    lacking = {
        domain: [kind for kind, there in (("genuine", max(some) > 1), ("impostor", len(some) > 1)) if not there]
        for domain, some in counts.items()
    }
    lacking = {domain: kinds for domain, kinds in lacking.items() if kinds}
    if lacking:
        raise ValueError(
            f"{lacking_text(lacking)}; one threshold needs two people in each domain, and two images of one of them"
        )
