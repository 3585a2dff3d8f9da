"""The recipes and sets of an experiment, resolved and checked before the first training."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jsonargparse
import numpy as np

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.extract import extract
from verisphere.decide import exact_rate, lacking_text
from verisphere.experiments.arms import SEED, START, Experiment, as_options
from verisphere.experiments.checks import check_cleaned, check_start, check_trainable
from verisphere.experiments.cleaned import CleanedFrom
from verisphere.experiments.grid import Settings, changed_inside, split_settings
from verisphere.experiments.pairs import check_pairs
from verisphere.files.embeddings import known_people
from verisphere.images.faces import Faces
from verisphere.images.select import positions_with_images, require_people
from verisphere.train.explain import check_given, explain
from verisphere.train.recipe import ReadRecipe, read_recipe
from verisphere.vocabulary import NOBODY, Embeddings

VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class MeasuredSet:
    """A set on which every finished training is measured.

    Attributes:
        faces: images of the set.
        far: target FARs over all pairs.
        one_far: target FAR of one threshold over the domains of the set; null measures none.
        flip: add the embedding of the mirror image.
        pairs: lists of pairs of the set's images, in any layout that `evaluate pairs` reads, for an accuracy over their
            folds; several are measured one by one and taken as one.
        drawn_pairs: number of pairs to draw from a set without lists for such an accuracy, half of them genuine; 0
            draws none.
    """

    faces: Faces
    far: tuple[str | float, ...] = ("1e-2", "1e-3")
    one_far: str | float | None = None
    flip: bool = False
    pairs: tuple[str, ...] = ()
    drawn_pairs: int = 0

    def __post_init__(self) -> None:
        if not self.far:
            raise ValueError("far is empty; expected one target FAR or more")
        for far in (*self.far, *(() if self.one_far is None else (self.one_far,))):
            exact_rate(far)
        require_people(self.faces)
        positions_with_images(self.faces.identities, at_least=2)
        if self.one_far is not None:
            _check_domains(self.faces)
        if self.pairs and self.drawn_pairs:
            raise ValueError("pairs and drawn_pairs are both given; pairs are drawn where there is no list")
        if self.pairs or self.drawn_pairs:
            # by placeholders, so that a list that does not fit is known before the trainings and not after
            alike = np.ones((len(self.faces), 1), np.float32)
            rows = Embeddings(alike, np.array(self.faces.names), np.array(self.faces.identities))
            check_pairs(known_people(rows, "faces"), self.pairs, self.drawn_pairs, "faces")


@dataclass(frozen=True, eq=False)
class ResolvedRecipe:
    """The recipe of an arm with the values of all fields.

    Attributes:
        fields: the fields as plain data; all but the seed are those of all trainings of the arm.
        yaml: for each seed, the recipe of the training.
    """

    fields: dict[str, Any]
    yaml: dict[int, str]

    @classmethod
    def of(cls, read: ReadRecipe, seeds: Sequence[int]) -> "ResolvedRecipe":
        """A recipe at some seeds; its network and images are released."""
        return cls(read.resolved, {seed: replace(read, resolved=read.resolved | {SEED: seed}).yaml for seed in seeds})


@dataclass(frozen=True, eq=False)
class Resolved:
    """An experiment whose recipes are resolved and whose sets are open.

    Attributes:
        warm: recipe of the warm training; None if there is none.
        arms: recipes of the arms, by name.
        seeds: seeds of each arm.
        sets: sets to measure on; empty if neither experiment nor recipe names one.
        described: the sets as plain data.
        cleaned: for each arm that trains on cleaned data, the arm that cleans and the rule.
    """

    warm: ResolvedRecipe | None
    arms: dict[str, ResolvedRecipe]
    seeds: tuple[int, ...]
    sets: dict[str, MeasuredSet]
    described: dict[str, dict[str, Any]]
    cleaned: dict[str, CleanedFrom] = field(default_factory=dict)


def resolve(experiment: Experiment, warm_at: Path) -> Resolved:
    """Read all recipes and open all sets, so that errors in them are found before hours of training.

    Args:
        experiment: definition of the experiment.
        warm_at: folder of the warm training, if there is one.

    Raises:
        FileNotFoundError: there is no such recipe.
        ValueError: a field or value of a recipe is invalid; a training would fail at its beginning; a set cannot be
            measured, or a backbone refuses its images; names the arm or set.
    """
    common = _common(experiment)
    warm_recipe = None if experiment.warm is None else _read("warm", experiment.recipe, common, experiment.warm, None)
    warm = None if warm_recipe is None else ResolvedRecipe.of(warm_recipe, [warm_recipe.recipe.seed])
    start: Settings = {} if experiment.warm is None else {START: str(warm_at)}
    arms: dict[str, ResolvedRecipe] = {}
    described, sets, seeds = {}, {}, experiment.seeds or ()
    checked_backbones = set()
    for name, settings in experiment.arms.items():
        read = _read(f"arm {name!r}", experiment.recipe, common, settings | start, warm_recipe)
        if not arms:
            seeds = experiment.seeds or (read.recipe.seed,)
            described = _described(experiment, read)
            sets = {title: _open(title, given) for title, given in described.items()}
        backbone = json.dumps(read.resolved["backbone"])
        if backbone not in checked_backbones:
            checked_backbones.add(backbone)
            _check_images(f"arm {name!r}", read.recipe.backbone, sets)
        arms[name] = ResolvedRecipe.of(read, seeds)
    for name, entry in experiment.cleaned.items():
        check_cleaned(name, arms[name].fields, entry.arm, arms[entry.arm].fields)
    complete = {name: _complete(given) for name, given in described.items()}
    return Resolved(warm, arms, seeds, sets, complete, experiment.cleaned)


def _common(experiment: Experiment) -> list[str]:
    """The options that all trainings share, including changes inside lists."""
    if not experiment.inside:
        return list(experiment.common)
    return [*experiment.common, *as_options(_lists(experiment.recipe, experiment.common, experiment.inside))]


def _lists(recipe: Path, given: Sequence[str], inside: Settings) -> Settings:
    """The fields that hold changed lists, in full and with the changes."""
    read = read_recipe(recipe, list(given))
    lists = {name: read.resolved.get(name) for name in {name.partition(".")[0] for name in inside}}
    return changed_inside(lists, inside)


def _read(who: str, recipe: Path, common: Sequence[str], settings: Settings, warm: ReadRecipe | None) -> ReadRecipe:
    """Read the recipe of a training, and check everything that can be checked before it begins."""
    whole, inside = split_settings(settings)
    given = [*common, *as_options(whole)]
    try:
        read = read_recipe(recipe, [*given, *(as_options(_lists(recipe, given, inside)) if inside else ())])
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
    """A set's description with all arguments, as in a resolved recipe."""
    parser = _parser()
    settings = parser.parse_object(dict(given))
    return json.loads(parser.dump(settings, format="json", skip_unset=False, skip_validation=True))


def _check_images(who: str, backbone: Backbone, sets: Mapping[str, MeasuredSet]) -> None:
    for name, measured in sets.items():
        try:
            extract(backbone, measured.faces.select([0]))
        except ValueError as error:
            raise ValueError(f"evaluate: {name}: {who}: {error}") from None


def _check_domains(faces: Faces) -> None:
    """Refuse domains without genuine or impostor pairs."""
    if faces.domains is None:
        raise ValueError("one_far asks for one threshold over domains, and the images have none")
    counts: dict[str, list[int]] = {}
    for (domain, person), number in Counter(zip(faces.domains, faces.identities, strict=True)).items():
        if person != NOBODY:
            counts.setdefault(domain, []).append(number)
    lacking = {
        domain: [
            kind for kind, any_pair in (("genuine", max(images) > 1), ("impostor", len(images) > 1)) if not any_pair
        ]
        for domain, images in counts.items()
    }
    lacking = {domain: kinds for domain, kinds in lacking.items() if kinds}
    if lacking:
        raise ValueError(
            f"{lacking_text(lacking)}; one threshold needs two people in each domain, and two images of one of them"
        )
