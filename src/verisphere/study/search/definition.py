"""The definition of a search, read from a YAML file and checked.

A search trains candidates of one recipe that differ in some fields, and looks for the values with the highest reward. A
map turns a number in [0, 1], or a draw, into the value of a field; the method draws; the schedule says how many
candidates each round trains, and for how long; the reward is a figure, such as TAR at a FAR, on a held-out set.

recipe: synthetic/search_softmax     # relative to this file, or the name of a packaged one
set: {epochs: 8}                     # fields of the recipe
space:                               # a map for each searched field
  loss.init_args.factor: {class_path: verisphere.study.search.ModulatingFactor, init_args: {scale: 16}}
method: {class_path: verisphere.study.search.Reinforce}
schedule: {class_path: verisphere.study.search.EachEpoch, init_args: {candidates: 4}}
reward:                              # a set as in an experiment's `evaluate`, and which figure of it
  faces: {class_path: ..., init_args: {...}}
  figure: tar
  far: ["1e-2"]
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from verisphere.backbones.extract import extract
from verisphere.base.words import unknown_name
from verisphere.files.class_paths import present_names
from verisphere.files.definitions import build, complete, options, read_based
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.packaged_recipes import find_recipe, locate_recipe
from verisphere.study.search.method import Method
from verisphere.study.search.reward import Reward
from verisphere.study.search.rounds import Round
from verisphere.study.search.schedule import SearchSchedule
from verisphere.study.search.space import Map, Space
from verisphere.train.preparation import domains_for_loss, length_of
from verisphere.train.recipe import ReadRecipe, Settings, changed_recipe, read_recipe

_DEFAULTS = {
    "method": "verisphere.study.search.reinforce.Reinforce",
    "schedule": "verisphere.study.search.schedule.EachEpoch",
}
_ALLOWED_KEYS = ("recipe", "set", "space", "method", "schedule", "reward")


@dataclass(frozen=True, eq=False)
class Search:
    """A search that was read and checked; the reward replaces the recipe's validation, and `described` has the rest."""

    read: ReadRecipe
    space: Space
    method: Method
    schedule: SearchSchedule
    reward: Reward
    described: dict[str, Any]


@dataclass(frozen=True)
class _Parts:
    """The objects that a search names by class, with a map for each field."""

    space: dict[str, Map]
    method: Method
    schedule: SearchSchedule

    @property
    def of_space(self) -> Space:
        return Space(tuple(self.space), tuple(self.space.values()))


def parts_of(described: Mapping[str, Any]) -> tuple[Space, SearchSchedule]:
    """Space and schedule of a search from `search.json`, without its recipe and its reward."""
    parts, _ = _parts(described, described["space"])
    return parts.of_space, parts.schedule


def read_search(path: str | Path, overrides: Sequence[str] = ()) -> Search:
    """Read a search from a file; options `--field value` override fields of its recipe."""
    with _file_of_a_search(path) as (content, folder):
        return search_of(content, folder, overrides)


def recipe_of_search(
    path: str | Path, overrides: Sequence[str], instead: Settings
) -> tuple[ReadRecipe, Mapping[str, Any]]:
    """The recipe of a search, with the fields in `instead`, and the search as plain data; nothing else is opened."""
    with _file_of_a_search(path) as (content, folder):
        check_keys(content)
        read = _recipe(content.get("recipe"), _fields(content, "set"), folder, overrides, instead)
        return read, content


@contextmanager
def _file_of_a_search(path: str | Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """The content of a search's file, and the folder to which its recipe is relative; errors name the file."""
    file = find_recipe(path, what="search")
    based = read_based(file.path)
    with errors_naming(file.name):
        if not isinstance(based.content, Mapping) or "space" not in based.content:
            raise ValueError("not a search: it has no space, the fields to search; see docs/search.md")
        named_in, _ = based.origin(["recipe"]) or (file.path, 0)
        yield based.content, named_in.parent


def planned_rounds(content: Mapping[str, Any], epochs: float, seed: int) -> tuple[Round, ...]:
    """The rounds that a search takes if all of its candidates have the same reward; nothing is trained."""
    if not isfinite(epochs):
        raise ValueError("a training is stated in steps and the rounds of a search in epochs; add --images")
    parts, _ = _parts(content, _fields(content, "space"))
    parts.schedule.begin(epochs, parts.of_space, seed)
    parts.method.begin(parts.of_space.start, seed)
    rounds: list[Round] = []
    while starts := parts.schedule.next(rounds, parts.method):
        rounds.append(Round(starts, (0.0,) * len(starts)))
    return tuple(rounds)


def search_of(content: Mapping[str, Any], folder: Path, overrides: Sequence[str] = ()) -> Search:
    """A search from plain data; the path of its recipe is relative to the folder."""
    check_keys(content)
    settings, space = (_fields(content, key) for key in ("set", "space"))
    twice = sorted(dict(options(overrides)).keys() & (settings.keys() | space.keys()))
    if twice:
        raise ValueError(f"--{twice[0]}: the search sets it; change it there")
    return search_over(_recipe(content.get("recipe"), settings, folder, overrides), content)


def check_keys(content: Mapping[str, Any], allowed: Sequence[str] = _ALLOWED_KEYS) -> None:
    """Refuse keys that a search does not have."""
    for key in content:
        if key not in allowed:
            raise ValueError(unknown_name("key", str(key), list(allowed)))


def search_over(read: ReadRecipe, content: Mapping[str, Any]) -> Search:
    """A search over a recipe whose validation is not used; space, method, schedule and reward are plain data."""
    space, given = (_fields(content, key) for key in ("space", "reward"))
    if not given:
        raise ValueError("reward is missing: a set by which candidates are compared, with faces and far")
    if not space:
        raise ValueError("space is empty; name at least one field of the recipe")
    if read.recipe.schedule.shape == "plateau":
        raise ValueError(
            "schedule.shape is plateau, which follows a validation set; a search has its reward instead: take another"
        )
    parts, described = _parts(content, space)
    of_space = parts.of_space
    of_space.check(read.resolved, own_seeds=parts.schedule.whole)
    length = length_of(read.recipe)
    domains_for_loss(read.recipe)
    parts.schedule.begin(length.epochs, of_space, read.recipe.seed)
    shortest = parts.schedule.shortest
    if shortest * length.steps_per_epoch < 1:
        raise ValueError(f"schedule: a round of {shortest:g} epochs has no step; an epoch has {length.steps_per_epoch}")
    parts.method.begin(of_space.start, read.recipe.seed)
    _check_ends(read, of_space)
    reward = Reward.of(present_names(given))
    with errors_naming("reward"):
        extract(read.recipe.backbone, reward.measured_set.faces.select([0]))
    return Search(read, of_space, parts.method, parts.schedule, reward, described | {"reward": reward.described})


def _check_ends(read: ReadRecipe, space: Space) -> None:
    """Refuse values that the recipe does not take before anything is trained: the start, and the ends of all ranges."""
    for draw in (space.start.tolist(), [0.0] * len(space.fields), [1.0] * len(space.fields)):
        values = space.values(draw)
        named = ", ".join(f"{field} {value:g}" for field, value in values.items())
        with errors_naming(f"space: {named}"):
            changed_recipe(read, values)


def _fields(content: Mapping[str, Any], key: str) -> Settings:
    given = content.get(key) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} is {shown(given)}; expected names with values")
    return dict(given)


def _recipe(
    name: object, settings: Settings, folder: Path, overrides: Sequence[str], instead: Settings | None = None
) -> ReadRecipe:
    """The recipe that all candidates share; without validation, which the reward replaces."""
    if not isinstance(name, str):
        raise ValueError(f"recipe is {shown(name)}; expected the path of a recipe, relative to this file, or its name")
    file = locate_recipe(name, folder) or folder / name  # a missing file is reported by its reader
    given = [*settings.items(), *options(overrides), ("validation", None), ("validate_every", 0)]
    return read_recipe(file, (), [*given, *(instead or {}).items()])


def _parts(content: Mapping[str, Any], space: Settings) -> tuple[_Parts, dict[str, Any]]:
    """Space, method and schedule as objects, and as plain data with all arguments."""
    named = {key: content[key] for key in ("method", "schedule") if key in content}
    described = complete(_Parts, {**_DEFAULTS, **present_names(named), "space": present_names(space)})
    return build(_Parts, described), described
