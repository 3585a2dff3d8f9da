"""Fields of a recipe as settings: dotted names with values, as experiments and searches give them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

from verisphere.files.documents import read_yaml
from verisphere.files.json_values import shown
from verisphere.train.recipe import ReadRecipe, read_recipe

#: Values of recipe fields, by their names on the command line, such as `loss.init_args.margin`.
Settings: TypeAlias = dict[str, Any]


def check_plain(where: str, value: object) -> None:
    """Refuse values that YAML can hold and a recipe cannot.

    Args:
        where: name of the value in messages.
        value: value read from YAML.
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


def as_options(settings: Settings) -> list[str]:
    """Settings as the `--field=value` options of `train`.

    >>> as_options({"epochs": 2, "engine": "dense", "clip": None, "validation_far": ["1e-3"]})
    ['--epochs=2', '--engine=dense', '--clip=null', '--validation_far=["1e-3"]']
    """
    return [f"--{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()]


def overridden_fields(overrides: Sequence[str]) -> set[str]:
    """The fields that `--field value` or `--field=value` options name."""
    return {word[2:].partition("=")[0] for word in overrides if word.startswith("--")}


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


def read_with(recipe: Path, given: Sequence[str], settings: Settings) -> ReadRecipe:
    """Read a recipe with settings, also those of places inside lists.

    Args:
        recipe: the file.
        given: `--field=value` options, which come first.
        settings: values by dotted name.
    """
    whole, inside = split_settings(settings)
    given = [*given, *as_options(whole)]
    return read_recipe(recipe, [*given, *(as_options(changed_lists(recipe, given, inside)) if inside else ())])


def changed_lists(recipe: Path, given: Sequence[str], inside: Settings) -> Settings:
    """The fields of a recipe that hold changed lists, in full and with the changes."""
    read = read_recipe(recipe, list(given))
    lists = {name: read.resolved.get(name) for name in {name.partition(".")[0] for name in inside}}
    return changed_inside(lists, inside)


def changed_values(who: str, before: object, now: object) -> list[str]:
    """The values in which two definitions as plain data differ, in words.

    >>> changed_values("recipe", {"epochs": 4, "seed": 0}, {"epochs": 5, "seed": 0})
    ['recipe: epochs was 4 and is 5']

    Args:
        who: name of the owner of the values, for the messages.
        before, now: the definitions.
    """
    old, new = _leaves(before), _leaves(now)
    return [
        f"{who}: {name or 'it'} was {shown(old.get(name))} and is {shown(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """All values inside, by dotted name."""
    inside: Iterable[tuple[object, object]]
    if isinstance(value, Mapping) and value:
        inside = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {name: value}
    return {
        leaf: value_inside
        for key, entry in inside
        for leaf, value_inside in _leaves(entry, f"{name}.{key}" if name else str(key)).items()
    }
