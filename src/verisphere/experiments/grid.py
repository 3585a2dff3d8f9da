"""Grids of recipe fields: their values as text, their combinations, and names that are also names of folders."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import product
from typing import Any, TypeAlias

from verisphere.files.documents import read_yaml
from verisphere.files.json_values import shown

Scalar: TypeAlias = str | int | float | bool | None
#: Values of recipe fields, each named as on the command line, such as `loss.init_args.margin`.
Settings: TypeAlias = dict[str, Any]

_UNSAFE = re.compile(r"[^A-Za-z0-9._=+,@-]+")
_LONGEST = 80  # letters of a folder's name
_DIGITS = 12  # of a digest: among a million names two alike are one chance in 500


def check_plain(where: str, value: object) -> None:
    """Refuse what YAML can hold and a recipe cannot.

    Args:
        where: what to call the value.
        value: from YAML.

    Raises:
        ValueError: a date, bytes, a set; a mapping with a key that is no text.
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
        ValueError: no field, a field twice, or values that are not YAML scalars.
    """
    found: dict[str, list[Scalar]] = {}
    for word in words:
        field, equals, values = word.partition("=")
        if not (equals and field.strip() and values.strip()):
            raise ValueError(f"--grid {word}: expected FIELD=V1,V2,... such as loss.init_args.margin=0.3,0.4")
        if field in found:
            raise ValueError(f"--grid {word}: {field} is there twice; give all its values in one")
        try:
            found[field] = check_values(field, read_yaml(f"[{values}]"))
        except ValueError as error:
            raise ValueError(f"--grid {word}: {error}") from None
    return found


def check_values(field: str, values: object) -> list[Scalar]:
    """The values of a field of a grid.

    Raises:
        ValueError: they are no list of YAML scalars, or one is there twice.
    """
    if not isinstance(values, list) or not values:
        raise ValueError(f"{field} has {shown(values)}; expected a list of values")
    nested = [value for value in values if not isinstance(value, str | int | float | bool | None)]
    if nested:
        raise ValueError(f"{field} has the value {shown(nested[0])}; a grid takes text and numbers, an arm the rest")
    texts = [text_of(value) for value in values]
    again = [text for text in texts if texts.count(text) > 1]
    if again:
        raise ValueError(f"{field} has the value {again[0]} twice")
    return values


def text_of(value: Scalar) -> str:
    """A value as a name shows it: as YAML writes it, text without quotes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def crossed(arms: Mapping[str, Settings], grid: Mapping[str, Sequence[Scalar]]) -> dict[str, Settings]:
    """Every arm at every combination of the grid's values; the last field varies fastest.

    >>> crossed({"": {}}, {"loss.init_args.margin": [0.3, 0.4]})
    {'margin=0.3': {'loss.init_args.margin': 0.3}, 'margin=0.4': {'loss.init_args.margin': 0.4}}

    Raises:
        ValueError: two combinations would have one name.
    """
    short = short_names(list(grid))
    found: dict[str, Settings] = {}
    for (arm, settings), values in product(arms.items(), product(*grid.values())):
        point = dict(zip(grid, values, strict=True))
        words = ([arm] if arm else []) + [f"{short[field]}={text_of(value)}" for field, value in point.items()]
        name = ",".join(words)
        if name in found:
            raise ValueError(f"two arms would both be called {name!r}; rename one")
        found[name] = settings | point
    return found


def parted(settings: Settings) -> tuple[Settings, Settings]:
    """Settings of whole fields, and those of something inside a list, such as `pair_terms.0.init_args.far`.

    >>> parted({"epochs": 2, "pair_terms.0.init_args.far": "1e-3"})
    ({'epochs': 2}, {'pair_terms.0.init_args.far': '1e-3'})
    """
    inside = {name: value for name, value in settings.items() if any(part.isdecimal() for part in name.split("."))}
    return {name: value for name, value in settings.items() if name not in inside}, inside


def parted_words(overrides: Sequence[str]) -> tuple[list[str], Settings]:
    """The same of `--field value` and `--field=value` words, with the values of the latter read as YAML.

    >>> parted_words(["--epochs", "2", "--pair_terms.0.init_args.K=3"])
    (['--epochs', '2'], {'pair_terms.0.init_args.K': 3})

    Raises:
        ValueError: a value is missing, or is not YAML.
    """
    whole, inside = [], {}
    left = iter(overrides)
    for word in left:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not parted({name: None})[1]:
            whole.append(word)
            continue
        given = value if equals else next(left, None)
        if given is None:
            raise ValueError(f"--{name}: expected a value")
        try:
            inside[name] = read_yaml(given)
            check_plain("it", inside[name])
        except ValueError as error:
            raise ValueError(f"--{name}: {error}") from None
    return whole, inside


def changed_inside(lists: Settings, settings: Settings) -> Settings:
    """Fields that hold lists, with some numbers or words inside changed; what was given stays as it was.

    >>> changed_inside({"pair_terms": [{"init_args": {"far": "1e-4"}}]}, {"pair_terms.0.init_args.far": "1e-3"})
    {'pair_terms': [{'init_args': {'far': '1e-3'}}]}

    Args:
        lists: the fields as plain data.
        settings: by name, the parts joined by dots; a number is a place in a list, from 0.

    Raises:
        ValueError: there is no such place.
    """
    found = deepcopy(lists)
    for name, value in settings.items():
        *way, last = name.split(".")
        at: Any = found
        for number, part in enumerate(way):
            at = _inside(at, part, name, ".".join(way[:number]))
        _inside(at, last, name, ".".join(way))
        at[int(last) if isinstance(at, list) else last] = value
    return found


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
    """For each field its last part, with as many before it as tell the fields apart; `init_args` says nothing.

    >>> short_names(["loss.init_args.margin", "optimizer.rate"])
    {'loss.init_args.margin': 'margin', 'optimizer.rate': 'rate'}
    >>> list(short_names(["loss.init_args.scale", "augment.scale"]).values())
    ['loss.scale', 'augment.scale']
    """
    parts = [[part for part in field.split(".") if part != "init_args"] for field in fields]
    # nor does a place in a list, where the rest tells
    parts = [[part for part in one if not part.isdecimal()] or one for one in parts] if not _alike(parts) else parts
    longest = max(map(len, parts), default=1)
    for length in range(1, longest + 1):
        names = [".".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return dict(zip(fields, names, strict=True))
    return {field: field for field in fields}


def _alike(fields: Sequence[Sequence[str]]) -> bool:
    """Whether some fields differ in nothing but places in lists."""
    without = [tuple(part for part in one if not part.isdecimal()) for one in fields]
    return len(set(without)) < len(without)


def folder_name(name: str) -> str:
    """A name that any file system and shell takes; one that had to be changed says so by digits of its digest.

    >>> folder_name("margin=0.3,scale=32"), folder_name("+TAR"), folder_name("rate 1/2")
    ('margin=0.3,scale=32', '+TAR', 'rate_1_2~fd5be127a2da')
    """
    safe = _UNSAFE.sub("_", name)[:_LONGEST]
    safe = f"_{safe[1:]}" if safe.startswith(".") else safe
    return safe if safe == name else f"{safe}~{hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]}"


def check_folders(kind: str, names: Iterable[str]) -> None:
    """Refuse names that would share a folder.

    Raises:
        ValueError: names both.
    """
    taken: dict[str, str] = {}
    for name in names:
        other = taken.setdefault(folder_name(name), name)
        if other != name:
            raise ValueError(f"{kind} {other!r} and {name!r} would share the folder {folder_name(name)}; rename one")
