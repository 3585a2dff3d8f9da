"""Grids of recipe fields: their values, their combinations, and names of arms that can be names of folders."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, TypeAlias

from verisphere.files.documents import read_yaml
from verisphere.files.json_values import shown

Scalar: TypeAlias = str | int | float | bool | None
#: Values of recipe fields, by their names on the command line, such as `loss.init_args.margin`.
Settings: TypeAlias = dict[str, Any]

_UNSAFE = re.compile(r"[^A-Za-z0-9._=+,@-]+")
_MOST_LETTERS = 80  # of a folder's name
_DIGITS = 12  # of a digest; the chance that two of a million names agree is 1 in 500


def check_plain(where: str, value: object) -> None:
    """Refuse values that YAML can hold and a recipe cannot.

    Args:
        where: name of the value in messages.
        value: value read from YAML.

    Raises:
        ValueError: the value is or holds a date, bytes, a set, or a mapping with a key that is not text.
    """
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if not isinstance(key, str):
                raise ValueError(
                    f"{where} has the key {shown(key)}; expected text, quoted where YAML takes it for more"
                )
            check_plain(where, inside)
    elif isinstance(value, list):
        for inside in value:
            check_plain(where, inside)
    elif not isinstance(value, str | int | float | None):
        raise ValueError(
            f"{where} has {shown(value)}, a {type(value).__name__}; expected text, numbers, true, false, null, and "
            "lists and mappings of these (quotes make a date text)"
        )


def parse_grid(words: Sequence[str]) -> dict[str, list[Scalar]]:
    """The fields of `--grid FIELD=V1,V2,...` options, each with its values.

    >>> parse_grid(["loss.init_args.margin=0.3,0.4", "engine=dense,auto"])
    {'loss.init_args.margin': [0.3, 0.4], 'engine': ['dense', 'auto']}

    Raises:
        ValueError: an option names no field, a field is named twice, or its values are not YAML scalars.
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
    """Check the values of a field of a grid, and return them.

    Raises:
        ValueError: they are not a list of YAML scalars, or one occurs twice.
    """
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

    Raises:
        ValueError: two combinations would have the same name.
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


def split_settings(settings: Settings) -> tuple[Settings, Settings]:
    """Split settings into those of fields and those of places inside lists, such as `pair_terms.0.init_args.far`.

    >>> split_settings({"epochs": 2, "pair_terms.0.init_args.far": "1e-3"})
    ({'epochs': 2}, {'pair_terms.0.init_args.far': '1e-3'})
    """
    inside = {name: value for name, value in settings.items() if any(part.isdecimal() for part in name.split("."))}
    return {name: value for name, value in settings.items() if name not in inside}, inside


def split_options(overrides: Sequence[str]) -> tuple[list[str], Settings]:
    """Split `--field value` and `--field=value` options likewise; values of places inside lists are read as YAML.

    >>> split_options(["--epochs", "2", "--pair_terms.0.init_args.K=3"])
    (['--epochs', '2'], {'pair_terms.0.init_args.K': 3})

    Raises:
        ValueError: a value is missing, or is not YAML.
    """
    whole, inside = [], {}
    words = iter(overrides)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not split_settings({name: None})[1]:
            whole.append(word)
            continue
        given = value if equals else next(words, None)
        if given is None:
            raise ValueError(f"--{name}: expected a value")
        try:
            inside[name] = read_yaml(given)
            check_plain("it", inside[name])
        except ValueError as error:
            raise ValueError(f"--{name}: {error}") from None
    return whole, inside


def changed_inside(lists: Settings, settings: Settings) -> Settings:
    """A copy of fields that hold lists, with values at some places inside changed.

    >>> changed_inside({"pair_terms": [{"init_args": {"far": "1e-4"}}]}, {"pair_terms.0.init_args.far": "1e-3"})
    {'pair_terms': [{'init_args': {'far': '1e-3'}}]}

    Args:
        lists: the fields as plain data.
        settings: values by dotted name; a number in a name is a place in a list, from 0.

    Raises:
        ValueError: a place does not exist.
    """
    changed = deepcopy(lists)
    for name, value in settings.items():
        *outer, last = name.split(".")
        at: Any = changed
        for number, part in enumerate(outer):
            at = _inside(at, part, name, ".".join(outer[:number]))
        _inside(at, last, name, ".".join(outer))
        at[int(last) if isinstance(at, list) else last] = value
    return changed


def _inside(at: Any, part: str, name: str, before: str) -> Any:
    if isinstance(at, list) and part.isdecimal() and int(part) < len(at):
        return at[int(part)]
    if isinstance(at, Mapping) and part in at:
        return at[part]
    has = (
        f"{len(at)} entries, from 0"
        if isinstance(at, list)
        else f"{', '.join(at)}"
        if isinstance(at, Mapping)
        else "none"
    )
    raise ValueError(f"{name}: there is no {part} in {before or 'a recipe'}, which has {has}")


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
    """Refuse names that would share a folder.

    Raises:
        ValueError: two names have the same folder; names both.
    """
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(folder_name(name), name)
        if other != name:
            raise ValueError(f"{kind} {other!r} and {name!r} would share the folder {folder_name(name)}; rename one")
