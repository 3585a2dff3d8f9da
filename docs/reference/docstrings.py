"""What a class says of itself: its sentence, its arguments with type, default and meaning, and its paper."""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_SECTION = re.compile(r"^(Args|Attributes):$", re.MULTILINE)
_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): ", re.MULTILINE)
_WORDS = {float: "number", int: "whole number", str: "text", bool: "true or false", Path: "path"}


@dataclass(frozen=True)
class Argument:
    """An argument of a class, or a field of a recipe.

    Attributes:
        name: as a recipe writes it.
        kind: its type in words.
        default: as YAML writes it; empty if the argument has none and must be given.
        meaning: its line in the docstring, with unit and range; empty if there is none.
        group: the class of its fields, where it is a group of fields.
    """

    name: str
    kind: str
    default: str
    meaning: str
    group: type | None = None


def summary(owner: object) -> str:
    """The first paragraph of a docstring, in one line."""
    return _line((inspect.getdoc(owner) or "").split("\n\n")[0])


def paper(owner: type) -> str:
    """What the module of a class says that it implements, with the paper; empty if it names none."""
    line = summary(inspect.getmodule(owner))
    return line if re.search(r"arXiv:|AAAI|et al\.", line) else ""


def arguments(owner: type) -> list[Argument]:
    """The arguments of a class in their order; an inherited one has the meaning that the parent states."""
    hints = get_type_hints(owner if is_dataclass(owner) else owner.__init__)  # type: ignore[misc]  # of the class itself
    meanings = _meanings(owner)
    by_name = {field.name: field for field in fields(owner)} if is_dataclass(owner) else {}
    made = []
    for name, parameter in inspect.signature(owner).parameters.items():
        hint = hints.get(name, Any)
        group = hint if isinstance(hint, type) and is_dataclass(hint) else None
        default = _default(by_name.get(name), parameter.default)
        meaning = meanings.get(name) or _in_summary(owner, name)
        made.append(Argument(name, kind_in_words(hint), default, meaning, group))
    return made


def kind_in_words(hint: Any) -> str:
    """A type as a user of a recipe would say it.

    >>> kind_in_words(float | None), kind_in_words(list[int]), kind_in_words(Literal["max", "softmax"])
    ('number or null', 'list: whole number', '`max`, `softmax`')
    """
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(dict.fromkeys(kind_in_words(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(hint))
    if get_origin(hint) is not None and (inside := [part for part in get_args(hint) if part is not Ellipsis]):
        return f"list: {' or '.join(dict.fromkeys(kind_in_words(part) for part in inside))}"
    if hint is NoneType:
        return "null"
    if isinstance(hint, type) and is_dataclass(hint):
        return "fields"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))


def _default(field: Field[Any] | None, default: Any) -> str:
    factory: Callable[[], Any] | Any = MISSING if field is None else field.default_factory
    if factory is not MISSING:
        return "" if isinstance(factory, type) and is_dataclass(factory) else _as_yaml(factory())
    return "" if default is inspect.Parameter.empty else _as_yaml(default)


def _as_yaml(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_as_yaml, value))}]"
    return str(value)


def _meanings(owner: type) -> dict[str, str]:
    """The meaning of each argument, from the docstrings of a class and of its parents."""
    found: dict[str, str] = {}
    for parent in reversed(owner.__mro__):
        text = inspect.cleandoc(parent.__doc__ or "")
        for start in _SECTION.finditer(text):
            section = re.split(r"\n(?=\S)", text[start.end() :].strip("\n"))[0]
            entries = list(_ENTRY.finditer(section))
            ends = [entry.start() for entry in entries[1:]] + [len(section)]
            for entry, end in zip(entries, ends, strict=True):
                for name in entry[1].split(", "):
                    found[name] = _line(section[entry.end() : end])
    return found


def _in_summary(owner: type, name: str) -> str:
    """What the sentence of a class, or of the nearest parent, says of an argument that it names; empty if none does."""
    sentences = (summary(parent) for parent in owner.__mro__)
    naming = (sentence for sentence in sentences if f"`{name}`" in sentence)
    return re.split(r"[;.](?:\s|$)| \(", next(naming, ""))[0]


def _line(text: str) -> str:
    return " ".join(text.split())
