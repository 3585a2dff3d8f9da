"""A recipe as text, before it is an object: the file with its bases, and their checks."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from verisphere.files.bases import Based, read_based
from verisphere.files.documents import YAML_FLOAT
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown

_CLASS_FIELDS = ("data", "backbone", "loss", "pair_terms", "validation")
_FIRST_FIELD = re.compile(r"\W{0,2}([A-Za-z_]\w*(?:\.\w+)*)")  # most messages begin with the field
_UNKNOWN_FIELD = re.compile(r"there is no field '(\w+)'")
_LENGTHS = ("epochs", "steps")
_WRITTEN_OUT = ("init_args", "class_path")  # which the command line may omit


def read_recipe_text(path: Path) -> Based:
    """The fields of a recipe's file, over those of its bases."""
    based = read_based(path)
    for file in based.files:
        with errors_naming(file.path):
            check_names(file.content)
    return replace(based, content=_with_one_length(based))


def with_one_length(given: Sequence[tuple[str, Any]]) -> tuple[tuple[str, Any], ...]:
    """Values by name; a length in steps or epochs replaces the recipe's in either unit."""
    values = dict(given)
    for stated, other in (_LENGTHS, _LENGTHS[::-1]):
        if values.get(stated) not in (None, "null") and other not in values:
            return (*given, (other, None))
    return tuple(given)


def _with_one_length(based: Based) -> Any:
    """The fields, in which the length of the nearest file that states one replaces that of a base."""
    for file in based.files:
        stated = [name for name in _LENGTHS if isinstance(file.content, dict) and file.content.get(name) is not None]
        if stated:
            others = {name: None for name in _LENGTHS if name in based.content and name not in file.content}
            return {**based.content, **others}
    return based.content


def recipe_yaml(fields: Any) -> str:
    """Fields as YAML, which reads back to the same values."""
    return yaml.dump(fields, Dumper=_Dumper, sort_keys=False)


def with_origin(message: str, place: str, name: str, based: Based | None, overrides: Sequence[str]) -> str:
    """A message about a recipe, with the recipe's name before it and, where a file set the value, file and line.

    Args:
        place: dotted name of the object that refused its arguments; empty for an error that names the whole field.
        overrides: names of values of the command line, which have no line.
    """
    found = None if based is None else _origin(message, place, based)
    if based is None or found is None or _overridden(found[0], overrides):
        return f"{name}: {message}"
    path, line = found[1]
    if path == based.files[0].path:
        return f"{name}: {message} (line {line})"
    return f"{name}: {message} (line {line} of its base {path})"


def _origin(message: str, place: str, based: Based) -> tuple[list[str], tuple[Path, int]] | None:
    """The keys that lead to the value that a message names, with the file and line that set it; None if none did."""
    begin, unknown = _FIRST_FIELD.match(message), _UNKNOWN_FIELD.search(message)
    word, of_place = begin[1].split(".") if begin else [], place.split(".") if place else []
    field = [unknown[1]] if unknown else []
    for parts in ([*word, *field], [*word, "init_args", *field], field, word, [*of_place, *word], of_place):
        if parts and (origin := based.origin(parts)) is not None:
            return parts, origin
    return None


def _overridden(parts: Sequence[str], overrides: Sequence[str]) -> bool:
    """Whether the command line sets this value, or part of it."""
    place = [part for part in parts if part not in _WRITTEN_OUT]
    for override in overrides:
        names = [name for name in override.removesuffix("+").split(".") if name not in _WRITTEN_OUT]
        if all(name == part for name, part in zip(names, place, strict=False)):
            return True
    return False


def check_names(content: object) -> None:
    """Refuse names by which a recipe could set a field twice, or include another file."""
    if not isinstance(content, dict):
        return
    if "recipe" in content and "space" in content:
        raise ValueError("it is a search, not a recipe: verisphere search takes it")
    if "recipe" in content:
        raise ValueError("there is no field 'recipe': a recipe stands on another one by base: NAME")
    for name, value in content.items():
        if isinstance(name, str) and "." in name:
            group, _, field = name.partition(".")
            raise ValueError(f"{shown(name)}: write it as {shown(field)} under {shown(group)}")
        if isinstance(value, dict) and name not in _CLASS_FIELDS:
            check_names(value)


class _Dumper(yaml.SafeDumper):
    """Quotes strings such as 1e-3: PyYAML reads them as strings, but other readers as numbers."""


_Dumper.add_implicit_resolver(*YAML_FLOAT)
