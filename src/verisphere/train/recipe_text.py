"""A recipe as text, before it is an object: the file with its bases, words of the command line, and their checks."""

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonargparse
import yaml

from verisphere.files.bases import Based, read_based
from verisphere.files.class_paths import present_name, present_names
from verisphere.files.documents import YAML_FLOAT, check_yaml, yaml_problem
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown

#: Fields that name classes.
CLASS_FIELDS = ("data", "backbone", "loss", "pair_terms", "validation")
_EXAMPLE = "verisphere.losses.ArcFace"
_FIRST_FIELD = re.compile(r"\W{0,2}([A-Za-z_]\w*(?:\.\w+)*)")  # most messages begin with the field
_UNKNOWN_FIELD = re.compile(r"there is no field '(\w+)'")
_LENGTHS = ("epochs", "steps")
_WRITTEN_OUT = ("init_args", "class_path")  # which the command line may omit


def read_recipe_text(path: Path) -> Based:
    """The fields of a recipe's file, over those of its bases."""
    based = read_based(path, _plain_values)
    for file in based.files:
        with errors_naming(file.path):
            check_names(file.content)
    return replace(based, content=_with_one_length(based))


def with_one_length(overrides: list[str]) -> list[str]:
    """Words of the command line; a length in steps or epochs replaces the recipe's in either unit."""
    for stated, other in (("--steps", "--epochs"), ("--epochs", "--steps")):
        values = [
            word.partition("=")[2] or "".join(overrides[place + 1 : place + 2])
            for place, word in enumerate(overrides)
            if word.partition("=")[0] == stated
        ]
        if values and values[-1] != "null" and not any(word.partition("=")[0] == other for word in overrides):
            return [*overrides, f"{other}=null"]
    return overrides


def _with_one_length(based: Based) -> Any:
    """The fields, in which the length of the nearest file that states one replaces that of a base."""
    for file in based.files:
        stated = [name for name in _LENGTHS if isinstance(file.content, dict) and file.content.get(name) is not None]
        if stated:
            others = {name: None for name in _LENGTHS if name in based.content and name not in file.content}
            return {**based.content, **others}
    return based.content


def _plain_values(text: str) -> Any:
    try:
        return _bounded_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {yaml_problem(error)}") from None


def recipe_yaml(fields: Any) -> str:
    """Fields as YAML, which reads back to the same values."""
    return yaml.dump(fields, Dumper=_Dumper, sort_keys=False)


def with_origin(message: str, name: str, based: Based | None, overrides: Sequence[str]) -> str:
    """A message about a recipe, with the recipe's name before it and, where a file set the value, file and line.

    Args:
        message: the error; usually begins with the field.
        name: the recipe as it was named.
        based: the file of the recipe; None if there is none.
        overrides: words of the command line; a value from there has no line.
    """
    parts = _field_of(message, based.content) if based is not None else ()
    origin = based.origin(parts) if based is not None and parts else None
    if based is None or origin is None or _overridden(parts, overrides):
        return f"{name}: {message}"
    path, line = origin
    if path == based.files[0].path:
        return f"{name}: {message} (line {line})"
    return f"{name}: {message} (line {line} of its base {path})"


def _field_of(message: str, content: Any) -> tuple[str, ...]:
    """The keys that lead to the value that a message names; empty if the message names none."""
    begin = _FIRST_FIELD.match(message)
    unknown = _UNKNOWN_FIELD.search(message)
    places = list(_places(content))
    found: tuple[str, ...] = ()
    for word in (begin[1] if begin else "", unknown[1] if unknown else ""):
        ends = tuple(word.split("."))
        fitting = [
            place
            for place in places
            if place[: len(found)] == found and len(place) > len(found) and place[-len(ends) :] == ends
        ]
        fitting = [place for place in fitting if place == ends] or fitting
        if len(fitting) == 1:
            found = fitting[0]
    return found


def _places(value: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that lead to each value inside, lists and mappings included; items of a list are counted from 0."""
    if way:
        yield way
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in inside:
        yield from _places(entry, (*way, str(name)))


def _overridden(parts: Sequence[str], overrides: Sequence[str]) -> bool:
    """Whether a word of the command line sets this value, or part of it."""
    place = [part for part in parts if part not in _WRITTEN_OUT]
    for word in overrides:
        names = word.removeprefix("--").partition("=")[0].removesuffix("+").split(".")
        names = [name for name in names if name not in _WRITTEN_OUT]
        if word.startswith("--") and all(one == other for one, other in zip(names, place, strict=False)):
            return True
    return False


def _bounded_yaml(text: str) -> Any:
    check_yaml(text)
    return present_names(jsonargparse.get_loader("yaml")(text))


#: Name of the loader by which jsonargparse reads recipes and values on the command line.
BOUNDED = "bounded yaml"
jsonargparse.set_loader(BOUNDED, _bounded_yaml, exceptions=(yaml.YAMLError,))


def with_present_names(word: str) -> str:
    """A word of the command line, such as `--backbone=PATH` or `PATH`, with a class path as it is spelled today."""
    option, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
    return f"{option}{equals}{present_name(value)}"


def check_words(overrides: list[str]) -> None:
    """Refuse values of the command line that would take more memory to read than a recipe may."""
    field = ""
    for word in overrides:
        value = word
        if word.startswith("--"):
            field, _, value = word.partition("=")
        if field == "--recipe":
            raise ValueError("--recipe: there is one recipe, and it comes before the fields")
        try:
            if field.removeprefix("--").removesuffix("+") in CLASS_FIELDS or field.endswith(".class_path"):
                named = _bounded_yaml(value)
                _check_classes(named)
                _import(named)
            check_yaml(value)
        except yaml.YAMLError:
            continue  # plain text
        except ValueError as error:
            raise ValueError(f"{field or shown(word)}: {error}") from None


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
        if name in CLASS_FIELDS:
            _check_classes(value)
            _import(value)
        elif isinstance(value, dict):
            check_names(value)


def _check_classes(value: object) -> None:
    """Refuse names of the standard library, such as os.system, before they are imported."""
    if isinstance(value, dict):
        _check_classes(value.get("class_path"))
        _import(value.get("class_path"))
        arguments = value.get("init_args")
        for argument in arguments.values() if isinstance(arguments, dict) else ():
            if isinstance(argument, (dict, list)):
                _check_classes(argument)
    elif isinstance(value, list):
        for entry in value:
            _check_classes(entry)
    elif isinstance(value, str) and "." in value and value.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(f"{shown(value)} is of Python itself; a class is named by its import path, such as {_EXAMPLE}")


def _import(path: object) -> None:
    """Import the module of a class path; the parser reports a module that does not exist."""
    if not isinstance(path, str) or "." not in path or not all(word.isidentifier() for word in path.split(".")):
        return
    try:
        importlib.import_module(path.rpartition(".")[0])
    except ImportError:
        return
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{shown(path)}: its module fails while it is imported: {what}") from error


class _Dumper(yaml.SafeDumper):
    """Quotes strings such as 1e-3: PyYAML reads them as strings, but other readers as numbers."""


_Dumper.add_implicit_resolver(*YAML_FLOAT)
