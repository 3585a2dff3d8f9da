"""Errors of a recipe in one line: jsonargparse's messages shortened, and for an unknown field those that exist."""

import difflib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from importlib import import_module
from types import NoneType
from typing import Any, get_args, get_type_hints

from verisphere.files.class_paths import name_present_module
from verisphere.files.json_values import shown
from verisphere.words import unknown_name

_MOST_LETTERS = 500  # of a message
_SEARCHED = 4000  # letters at either end of a message that are searched

#: Patterns of jsonargparse's messages (lines joined by "; ") and their replacements, applied in this order.
_WORDING = (
    (r'Parser key "([^"]*)":;?', r"\1:"),
    (r"Problem with given class_path '([^']*)':;?", r"\1:"),
    (r"Does not validate against any of the Union subtypes; .*?Errors:; ", ""),
    (r"; Given value type: .*?; Given value: Namespace\(.*", ""),
    (r"; Given value type: .*?; Given value: ", ", got "),
    (r"(Expected a <class '\w+'>); Expected a <class 'NoneType'>", r"\1 or null"),
    (r"; Expected a <class 'NoneType'>", ""),
    (r"Expected a <class '(?:\w+\.)*(\w+)'>", r"expected \1"),
    (r"Expected a (?:typing\.)?Literal\[(.*?)\]", r"expected one of \1"),
    (r"\. Got value: ", ", got "),
    (r"Not a valid subclass of (\w+)", r"not a \1"),
    (r"; Subclass types expect one of:.*?(, got .*)?$", r"\1; expected a class_path and its init_args"),
    (r"(No module named '(?!verisphere\b)[^']*')", r"\1; is the folder it lies in on PYTHONPATH?"),
    (r"Unexpected config:", "expected fields and their values, got:"),
    (r'in "<unicode string>", ', ""),
    (r"'\w+' object has no attribute 'keys'", "init_args names no arguments; omit it for the defaults"),
)

#: A value of the wrong kind, and each kind in words.
_WRONG_KIND = re.compile(r"(?P<field>[\w.]+): expected (?P<kind>bool|float|int|str)(?: or null)?, got (?P<value>.*)")
_KINDS = {"bool": "true or false", "float": "a number", "int": "a whole number", "str": "text"}
_PLAIN = re.compile(r"[\[{(].*|-?[\d.]+|True|False|null")  # what stands for itself; other values are text

_UNKNOWN = (
    re.compile(r"(?P<class>[\w.]+): Option '(?P<field>[\w.]+)' is not accepted"),
    re.compile(r"Group '(?P<group>\w+)' does not accept option '(?P<field>\w+)'"),
    re.compile(r"Option '(?P<field>[\w.]+)' is not accepted"),
    re.compile(r"unrecognized arguments: --(?:(?P<group>\w+)\.)?(?P<field>\w+)[= ]?.*"),
)


#: A class that is named without its import path.
_BARE_CLASS = re.compile(r"Expected a dot import path string: (?P<name>\w+)")
_HOUSES = ("verisphere.losses", "verisphere.backbones", "verisphere.pairs", "verisphere.images")
#: What other trainers call a field.
_OTHER_NAMES = {"lr": "rate", "learning_rate": "rate"}


def explain(error: Exception, recipe: type) -> str:
    """A message of jsonargparse as one line; for an unknown field it adds the nearest one and all that exist.

    Args:
        error: exception that its parser raised.
        recipe: dataclass that was to be filled.
    """
    text = "; ".join(line for line in (line.strip(" -") for line in str(error).splitlines()) if line)
    if len(text) > 2 * _SEARCHED:  # it quotes a long value in full; the patterns below take quadratic time
        text = f"{text[:_SEARCHED]} ... {text[-_SEARCHED:]}"
    for pattern, replacement in _WORDING:
        text = re.sub(pattern, replacement, text)
    text = _WRONG_KIND.sub(_in_words, text)
    text = _BARE_CLASS.sub(_with_path, name_present_module(text))
    for unknown_field in _UNKNOWN:
        if match := unknown_field.search(text):
            named = match.groupdict()
            allowed = _fields(recipe, named.get("group"), named.get("class"))
            if allowed:
                inside = named.get("class") or named.get("group")
                unknown = unknown_name("field", named["field"], allowed)
                if not inside and (path := _inside_group(recipe, named["field"])):
                    unknown = f"there is no field {named['field']!r} (did you mean {path}?)"
                text = text[: match.start()] + (f"{inside}: {unknown}" if inside else unknown)
            break
    return text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + " ..."


def _in_words(wrong: re.Match[str]) -> str:
    """A value of the wrong kind as a sentence: epochs must be a number, got 'one'."""
    value = wrong["value"]
    return f"{wrong['field']} must be {_KINDS[wrong['kind']]}, got {value if _PLAIN.fullmatch(value) else repr(value)}"


def _with_path(bare: re.Match[str]) -> str:
    """A class without its import path, and the path of our class that has the nearest name."""
    paths = {
        name: f"{house}.{name}"
        for house in _HOUSES
        for name, value in vars(import_module(house)).items()
        if isinstance(value, type)
    }
    near = difflib.get_close_matches(bare["name"][:100], paths, n=1)
    hint = f" (did you mean {paths[near[0]]}?)" if near else ""
    return f"{bare['name']} is no import path{hint}"


def _inside_group(recipe: type, field: str) -> str | None:
    """Where a field that was given at the top lies inside a group, such as `optimizer.rate`; None if nowhere."""
    field = _OTHER_NAMES.get(field, field)
    groups = ((name, hint) for name, hint in get_type_hints(recipe).items() if is_dataclass(hint))
    return next((f"{name}.{field}" for name, group in groups if field in get_type_hints(group)), None)


def _fields(recipe: type, group: str | None, class_path: str | None) -> list[str]:
    """Fields of the recipe or of a dataclass in it, or arguments of a class that it names; empty if unknown."""
    owner: object = recipe
    if class_path:
        owner = _imported(class_path)
    elif group:
        owner = get_type_hints(recipe).get(group)
        if not is_dataclass(owner):
            return []
    if not isinstance(owner, type):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [name for name, parameter in inspect.signature(owner).parameters.items() if parameter.kind not in kinds]


def raised_by_user_code(error: BaseException, resolved: Mapping[str, Any]) -> str | None:
    """The field and the user's own class in which an error was raised; None if it was raised elsewhere.

    Args:
        error: exception that was raised while the objects of a recipe were built.
        resolved: the recipe's fields that name classes, as plain data.
    """
    modules = set[str]()
    trace = error.__traceback__
    while trace is not None:
        modules.add(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    own = [
        f"{field} {path}"
        for field, value in resolved.items()
        for path in _class_paths(value)
        if path.partition(".")[0] != "verisphere" and path.rpartition(".")[0] in modules
    ]
    return own[0] if own else None


def _class_paths(value: object) -> Iterator[str]:
    """The class paths in a part of a resolved recipe."""
    if isinstance(value, dict):
        if isinstance(value.get("class_path"), str):
            yield value["class_path"]
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from _class_paths(entry)


def check_given(owner: type, given: Mapping[str, Any], where: str = "") -> None:
    """Refuse null for a field whose annotation does not allow it, and a single value where fields are expected.

    jsonargparse reads null as "not given", and accepts any value for a group of fields; the objects built from them
    would fail without naming the field.

    Args:
        owner: dataclass or class whose arguments were given.
        given: the arguments as plain data; a class among them is a `class_path` and its `init_args`.
        where: name of the owner in messages.
    """
    hints, parameters = _hints(owner), inspect.signature(owner).parameters
    for name, value in given.items():
        place = f"{where}.{name}" if where else name
        hint = hints.get(name, Any)
        if isinstance(hint, type) and is_dataclass(hint):
            if not isinstance(value, Mapping):
                raise ValueError(f"{place}: expected fields and their values, got {shown(value)}")
            check_given(hint, value, place)
        elif value is not None:
            _check_classes(value, place)
        elif hint is not Any and NoneType not in (hint, *get_args(hint)) and parameters[name].default is not None:
            raise ValueError(
                _WRONG_KIND.sub(_in_words, f"{place}: expected {getattr(hint, '__name__', hint)}, got null")
            )


def _check_classes(value: object, place: str) -> None:
    """Check the arguments of a class, or of the classes in a list."""
    if isinstance(value, list):
        for number, entry in enumerate(value):
            _check_classes(entry, f"{place}.{number}")
    elif isinstance(value, Mapping) and isinstance(value.get("class_path"), str):
        owner, arguments = _imported(value["class_path"]), value.get("init_args")
        if isinstance(owner, type) and isinstance(arguments, Mapping):
            check_given(owner, arguments, f"{place}.init_args")


def _hints(owner: type) -> dict[str, Any]:
    try:
        return get_type_hints(owner.__init__)  # type: ignore[misc]  # of the class itself
    except (NameError, TypeError):  # a user's class may have annotations that name what is not imported
        return {}


def _imported(class_path: str) -> object:
    """The object that a class path names, if the parser has imported its module."""
    module, _, name = class_path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)
