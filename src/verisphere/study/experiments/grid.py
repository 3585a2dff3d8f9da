"""Grids of recipe fields: their values, their combinations, and names of arms that can be names of folders."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from verisphere.files.documents import read_yaml
from verisphere.files.json_values import shown
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
