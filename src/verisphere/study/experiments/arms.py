"""The definition of an experiment, as plain data: a recipe with a grid of its fields, or named arms.

An experiment is YAML:

    recipe: arcface.yaml                # relative to this file, or the name of a packaged one
    set: {batch_size: 64}               # fields of all trainings, the warm one included
    warm: {epochs: 4}                   # a first training, whose weights all arms start from
    arms:                               # fields of each arm; {} is the recipe itself
      ArcFace: {}
      narrow: {loss.init_args.margin: 0.1}
      anew: {cleaned: {arm: ArcFace}} # on the images that the rule of cleaning keeps by another arm's sub-centers
      tuned: {search: {space: {loss.init_args.margin: ...}}}               # a search; see docs/search.md
      wide: {loss.init_args.margin: 0.6, first_seeds: 1}                   # at the first seed alone
    grid: {optimizer.rate: [0.05, 0.1]} # every arm at every combination
    seeds: [0, 1, 2]
    baseline: ArcFace
    reward: {faces: ..., far: ["1e-2"]} # of all searches
    evaluate:                           # sets measured after the trainings
      unseen: {faces: {class_path: ..., init_args: {...}}, far: ["1e-2", "1e-3"], one_far: "1e-2"}
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from verisphere.base.words import unknown_name
from verisphere.files.class_paths import present_names
from verisphere.files.definitions import build, complete, options, read_based
from verisphere.files.documents import read_yaml
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.files.packaged_recipes import find_recipe, locate_recipe
from verisphere.study.experiments.cleaned import CLEANED, CleanedFrom, over_grid, split_arms, split_cleaned, waves
from verisphere.study.experiments.searched import SEARCH, split_searches
from verisphere.train.recipe import Settings

Scalar: TypeAlias = str | int | float | bool | None

_UNSAFE = re.compile(r"[^A-Za-z0-9._=+,@-]+")
_MOST_LETTERS = 80  # of a folder's name
_DIGITS = 12  # digits of a digest; the chance that two of a million names agree is 1 in 500


def parse_grid(words: Sequence[str]) -> dict[str, list[Scalar]]:
    """The fields of `--grid FIELD=V1,V2,...` options, each with its values.

    >>> parse_grid(["loss.init_args.margin=0.3,0.4", "engine=dense,auto"])
    {'loss.init_args.margin': [0.3, 0.4], 'engine': ['dense', 'auto']}
    """
    grid: dict[str, list[Scalar]] = {}
    for word in words:
        field, equals, values = word.partition("=")
        if not (equals and field.strip() and values.strip()):
            raise ValueError(f"--grid {word}: expected FIELD=V1,V2,... such as loss.init_args.margin=0.3,0.4")
        if field in grid:
            raise ValueError(f"--grid {word}: {field} is there twice; give all its values in one")
        try:
            grid[field] = check_values(field, read_yaml(f"[{values}]"))
        except ValueError as error:
            raise ValueError(f"--grid {word}: {error}") from None
    return grid


def check_values(field: str, values: object) -> list[Scalar]:
    """Check the values of a field of a grid, and return them."""
    if not isinstance(values, list) or not values:
        raise ValueError(f"{field} has {shown(values)}; expected a list of values")
    nested = [value for value in values if not isinstance(value, str | int | float | bool | None)]
    if nested:
        raise ValueError(f"{field} has the value {shown(nested[0])}; a grid takes text and numbers, an arm the rest")
    texts = [text_of(value) for value in values]
    repeated = [text for text in texts if texts.count(text) > 1]
    if repeated:
        raise ValueError(f"{field} has the value {repeated[0]} twice")
    return values


def text_of(value: Scalar) -> str:
    """A value in the name of an arm: as YAML writes it, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def crossed(arms: Mapping[str, Settings], grid: Mapping[str, Sequence[Scalar]]) -> dict[str, Settings]:
    """Every arm at every combination of the grid's values; the last field varies fastest.

    >>> crossed({"": {}}, {"loss.init_args.margin": [0.3, 0.4]})
    {'margin=0.3': {'loss.init_args.margin': 0.3}, 'margin=0.4': {'loss.init_args.margin': 0.4}}
    """
    short = short_names(list(grid))
    combinations: dict[str, Settings] = {}
    for (arm, settings), values in product(arms.items(), product(*grid.values())):
        point = dict(zip(grid, values, strict=True))
        words = ([arm] if arm else []) + [f"{short[field]}={text_of(value)}" for field, value in point.items()]
        name = ",".join(words)
        if name in combinations:
            raise ValueError(f"two arms would both be called {name!r}; rename one")
        combinations[name] = settings | point
    return combinations


def short_names(fields: Sequence[str]) -> dict[str, str]:
    """The shortest ends of dotted field names that distinguish the fields; `init_args` is omitted.

    >>> short_names(["loss.init_args.margin", "optimizer.rate"])
    {'loss.init_args.margin': 'margin', 'optimizer.rate': 'rate'}
    >>> list(short_names(["loss.init_args.scale", "augment.scale"]).values())
    ['loss.scale', 'augment.scale']
    """
    parts = [[part for part in field.split(".") if part != "init_args"] for field in fields]
    # places in lists are omitted too, unless fields differ in nothing else
    if not _differ_in_places_alone(parts):
        parts = [[part for part in field if not part.isdecimal()] or field for field in parts]
    longest = max(map(len, parts), default=1)
    for length in range(1, longest + 1):
        names = [".".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return dict(zip(fields, names, strict=True))
    return {field: field for field in fields}


def _differ_in_places_alone(fields: Sequence[Sequence[str]]) -> bool:
    """Whether some fields differ only in places in lists."""
    without = [tuple(part for part in field if not part.isdecimal()) for field in fields]
    return len(set(without)) < len(without)


def folder_name(name: str) -> str:
    """A name that is safe in any file system and shell; a name that had to be changed ends with digits of its digest.

    >>> folder_name("margin=0.3,scale=32"), folder_name("+TAR"), folder_name("rate 1/2")
    ('margin=0.3,scale=32', '+TAR', 'rate_1_2~fd5be127a2da')
    """
    safe = _UNSAFE.sub("_", name)[:_MOST_LETTERS]
    safe = f"_{safe[1:]}" if safe.startswith(".") else safe
    return safe if safe == name else f"{safe}~{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def check_folders(kind: str, names: Iterable[str]) -> None:
    """Refuse names that would share a folder."""
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(folder_name(name), name)
        if other != name:
            raise ValueError(f"{kind} {other!r} and {name!r} would share the folder {folder_name(name)}; rename one")


T = TypeVar("T")
SEED, START = "seed", "start"
FIRST_SEEDS = "first_seeds"


@dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment: trainings to be made and measured."""

    recipe: Path
    common: tuple[tuple[str, Any], ...]  # names and values of all trainings; they override the recipe
    warm: Settings | None  # the training whose weights all arms start from
    arms: dict[str, Settings]
    seeds: tuple[int, ...] | None  # None takes the recipe's seed
    baseline: str
    evaluate: dict[str, dict[str, Any]] | None = None  # None takes the recipe's validation set
    cleaned: dict[str, CleanedFrom] = field(default_factory=dict)
    searches: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_seeds: dict[str, int] = field(default_factory=dict)  # how many, for an arm that does not have all

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("there is no arm to train")
        if self.baseline not in self.arms:
            raise ValueError(f"baseline: {unknown_name('arm', self.baseline, list(self.arms))}")
        for name, settings in self.arms.items():
            for owned, instead in ((SEED, "seeds"), (START, "warm")):
                if owned in settings and (owned == SEED or self.warm is not None):
                    raise ValueError(f"arm {name!r} sets {owned}, which is for `{instead}` to say")
        for name in sorted(self.cleaned.keys() & self.searches.keys()):
            raise ValueError(f"arm {name!r} has {CLEANED} and {SEARCH}; a search trains on the recipe's own images")
        for name, entry in self.searches.items():
            for searched in sorted(entry["space"].keys() & self.arms[name].keys()):
                raise ValueError(f"arm {name!r} sets {searched}, which its search chooses; remove one of them")
        for name, entry_from in self.cleaned.items():
            if self.first_seeds.get(name) != self.first_seeds.get(entry_from.arm):
                raise ValueError(f"arm {name!r} has other seeds than arm {entry_from.arm!r}, which cleans its data")
        if self.baseline in self.first_seeds:
            raise ValueError(f"arm {self.baseline!r} is the baseline, so it has all seeds; remove {FIRST_SEEDS}")
        waves(list(self.arms), self.cleaned)  # raises where they cannot be ordered
        if self.seeds is not None:
            _check_seeds(self.seeds)
        check_folders("arms", self.arms)
        check_folders("sets", self.evaluate or {})


@dataclass(frozen=True)
class _File:
    """The keys of an experiment's file; see the beginning of this module."""

    recipe: str
    set: Settings | None = None
    warm: Settings | None = None
    arms: dict[str, Settings | None] | None = None
    grid: dict[str, list[Any]] | None = None
    seeds: list[int] | None = None
    baseline: str | None = None
    evaluate: dict[str, Settings] | None = None
    reward: Settings | None = None

    def __post_init__(self) -> None:
        for what, named in (("arms", self.arms), ("evaluate", self.evaluate)):
            if named is not None and not named:
                raise ValueError(f"{what} is {{}}; expected names, each with its fields")
            for name in named or {}:
                if not name or name != name.strip() or not name.isprintable():
                    raise ValueError(f"{what} has the name {shown(name)}; expected letters that can be seen")
        owners = {"set": self.set, "warm": self.warm, "grid": self.grid}
        for owner, given in [*owners.items(), *(self.arms or {}).items()]:
            for name in given or {}:
                if not name or name.startswith("-"):
                    raise ValueError(f"{owner} names the field {shown(name)}; expected one such as epochs")


def read_experiment(
    path: str | Path, overrides: Sequence[str] = (), grid: Sequence[str] = (), seeds: Sequence[int] | None = None
) -> Experiment:
    """Read an experiment from a file and the options of the command line.

    A YAML file with `recipe` or `arms` is an experiment, any other a recipe. The `--field value` options hold for all
    trainings, `FIELD=V1,V2,...` replaces the values of a field in the file's grid.
    """
    file = find_recipe(path, what="recipe or experiment")
    points, based = parse_grid(grid), read_based(file.path)
    with errors_naming(file.name):
        if not isinstance(based.content, Mapping) or not ({"recipe", "arms"} & based.content.keys()):
            alone = {"recipe": file.path.name}
            return _experiment(file.path.parent, alone, list(overrides), points, seeds)
        named_in, _ = based.origin(["recipe"]) or (file.path, 0)
        return _experiment(named_in.parent, based.content, list(overrides), points, seeds)


def _experiment(
    folder: Path,
    content: Mapping[str, Any],
    overrides: list[str],
    grid: dict[str, list[Scalar]],
    seeds: Sequence[int] | None,
) -> Experiment:
    if "space" in content:
        raise ValueError("it is a search, not an experiment: verisphere search takes it")
    file: _File = build(_File, complete(_File, content))
    shared, warm = file.set or {}, file.warm
    for where, given in (("set", shared), ("warm", warm or {})):
        for key in (CLEANED, SEARCH, FIRST_SEEDS):
            if key in given:
                raise ValueError(f"{where} has {key}, which only an arm can say")
    arms: dict[str, Settings] = {name: dict(given or {}) for name, given in (file.arms or {"": {}}).items()}
    arms, cleaned = split_cleaned(arms)
    arms, searches = split_searches(arms, folder, file.reward)
    arms, first_seeds = split_arms(arms, FIRST_SEEDS)
    for name, count in first_seeds.items():
        if type(count) is not int or count < 1:
            raise ValueError(f"arm {name!r}: {FIRST_SEEDS} is {shown(count)}; expected a whole number of at least 1")
    points = {name: check_values(f"grid: {name}", values) for name, values in (file.grid or {}).items()} | grid
    if SEED in points and (seeds is not None or file.seeds is not None):
        raise ValueError("seed is in the grid and `seeds` are given; remove one of them")
    if SEED in points:
        seeds = complete(list[int], points.pop(SEED), "seeds")
    elif seeds is None:
        seeds = file.seeds
    _check_once(shared, warm, arms, points, overrides, seeds)
    crossing = crossed(arms, points)
    if list(crossing) == [""]:
        crossing = {"recipe": {}}
    return Experiment(
        recipe=locate_recipe(file.recipe, folder) or folder / file.recipe,  # a missing file is reported by its reader
        common=(*shared.items(), *options(overrides)),
        warm=warm,
        arms=crossing,
        seeds=None if seeds is None else tuple(seeds),
        baseline=_baseline(file.baseline, list(arms), list(crossing)),
        evaluate=None if file.evaluate is None else present_names(file.evaluate),
        cleaned=over_grid(cleaned, list(arms), list(crossing)),
        searches=_at_each_point(searches, list(arms), list(crossing)),
        first_seeds=_at_each_point(first_seeds, list(arms), list(crossing)),
    )


def _at_each_point(entries: Mapping[str, T], arms: list[str], crossing: list[str]) -> dict[str, T]:
    """The entries of arms, repeated for each point of the grid; the points of an arm are neighbours."""
    points = len(crossing) // len(arms)
    return {name: entries[arms[at // points]] for at, name in enumerate(crossing) if arms[at // points] in entries}


def _check_seeds(seeds: Sequence[int]) -> None:
    for seed in seeds:
        if not 0 <= seed < 2**31:
            raise ValueError(f"a seed must be 0 or more and below 2^31, got {seed}")
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds is {list(seeds)}; expected one or more, each once")


def _check_once(
    shared: Settings,
    warm: Settings | None,
    arms: Mapping[str, Settings],
    points: Mapping[str, Sequence[Scalar]],
    overrides: Sequence[str],
    seeds: Sequence[int] | None,
) -> None:
    """Refuse a value that another one would silently replace."""
    for name, settings in arms.items():
        both = sorted(settings.keys() & points.keys())
        if both:
            raise ValueError(f"arm {name!r} and the grid both set {both[0]}")
    if seeds is not None and (SEED in shared or SEED in dict(options(overrides))):
        raise ValueError("seed is set and `seeds` are given; remove one of them")
    owners: dict[str, Mapping[str, Any]] = {"warm": warm or {}, "the grid": points} | {
        f"arm {name!r}": settings for name, settings in arms.items()
    }
    for owner, given in owners.items():
        for name in sorted(dict(options(overrides))):
            inside = any(part.isdecimal() for part in name.split("."))
            if name in given or (inside and any(name.startswith(f"{whole}.") for whole in given)):
                raise ValueError(f"--{name}: {owner} sets it; change it there")


def _baseline(given: str | None, arms: list[str], crossing: list[str]) -> str:
    """The arm to compare with: an arm or a point of the grid; for an arm that the grid crosses, its first point."""
    if given is None:
        return crossing[0]
    if given in crossing or given not in arms:
        return given
    return crossing[arms.index(given) * (len(crossing) // len(arms))]
