"""Dataclasses from plain JSON values, each value checked against the annotation of its field."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_hints_of = cache(get_type_hints)  # a file may hold a million objects of one class
_LARGEST_WHOLE_NUMBER = 10**308  # largest whole number that is read as a float
_KIND_IN_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "an object",
          list: "a list", tuple: "a list", Sequence: "a list"}  # fmt: skip


def from_json(kind: type[T], value: object, where: str = "") -> T:
    """A dataclass from a JSON object; the inverse of `verisphere.files.results.to_json`.

    A field that the object has and the dataclass lacks is ignored. A number that is not finite is null, with a field
    `<name>_is_infinite` beside it.
    """
    return cast("T", Reading().fields(kind, value, where))


def as_kind(hint: Any, value: object, where: str) -> Any:
    """A plain value converted for a field with this annotation, such as 1 to 1.0 for a float; see `from_json`."""
    return Reading().value(hint, value, where)


class Reading:
    """Plain values turned into what annotations ask for; `verisphere.files.definitions` extends it to classes."""

    item = "[{}]"

    def value(self, hint: Any, value: object, where: str) -> Any:
        """A value for this annotation. True is not a number, and 1.0 is not a whole number; 1 is a number."""
        origin, options = get_origin(hint) or hint, get_args(hint)
        if origin in (UnionType, Union):
            if value is None and NoneType in options:
                return None
            return self._of_one_kind([option for option in options if option is not NoneType], value, where)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return self.fields(hint, value, where)
        if origin is Literal and type(value) is str and value in options:
            return value
        if origin in (tuple, list, Sequence) and isinstance(value, list | tuple):
            return self.sequence(origin, options, value, where)
        if origin in (dict, Mapping) and isinstance(value, Mapping):
            of_each = options[1] if options else Any
            read = self.value if of_each is Any else self.entry
            if odd := [name for name in value if not isinstance(name, str)]:
                raise ValueError(f"{where} has the key {shown(odd[0])}, not text; YAML takes it for more: quote it")
            return {name: read(of_each, entry, _inside(where, name)) for name, entry in value.items()}
        if origin is Any or type(value) is origin:
            return value
        if origin is float and type(value) is int and abs(value) <= _LARGEST_WHOLE_NUMBER:
            return float(value)
        if isinstance(hint, type) and hint not in _KIND_IN_WORDS:
            return self.named(hint, value, where)
        allowed = " or ".join(map(repr, options)) if origin is Literal else _KIND_IN_WORDS.get(origin, str(origin))
        raise ValueError(f"{where} must be {allowed}, got {'null' if value is None else shown(value)}")

    def fields(self, kind: type, value: object, where: str) -> Any:
        """A dataclass from a mapping."""
        if not isinstance(value, Mapping):
            raise ValueError(f"{where or 'it'} must be an object, got {'null' if value is None else shown(value)}")
        hints, fields = _hints_of(kind), {}
        for field in dataclasses.fields(kind):
            name = _inside(where, field.name)
            if field.name not in value:
                if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
                    continue  # a field that older files do not have
                raise ValueError(f"{name} is missing")
            fields[field.name] = self.entry(hints[field.name], _finite_or_not(value, field.name), name)
        try:
            return kind(**fields)
        except ValueError as error:
            raise ValueError(f"{where}: {error}" if where else str(error)) from None

    def entry(self, hint: Any, value: object, where: str) -> Any:
        """A value that has a name."""
        return self.value(hint, value, where)

    def sequence(self, origin: object, options: tuple[Any, ...], value: Sequence[object], where: str) -> Any:
        """A list or tuple from a list."""
        of_each = options[:1] * len(value) if origin is not tuple or options[1:] == (...,) else options
        if len(of_each) != len(value) and options:
            raise ValueError(f"{where} must be a list of {len(of_each)}, got {shown(value)}")
        items = (
            self.value(of_item, entry, f"{where}{self.item.format(place)}")
            for place, (of_item, entry) in enumerate(zip(of_each or [Any] * len(value), value, strict=True))
        )
        return (list if origin is list else tuple)(items)

    def named(self, kind: type, value: object, where: str) -> Any:
        """An object of a class that is no dataclass, which plain data alone do not make."""
        raise ValueError(f"{where} must be a {kind.__name__}, got {shown(value)}")

    def _of_one_kind(self, hints: Sequence[Any], value: object, where: str) -> Any:
        """A value for the first annotation that accepts it; if none does, the error is that of the first."""
        for hint in hints:
            with suppress(ValueError):
                return self.value(hint, value, where)
        return self.value(hints[0], value, where)


def _finite_or_not(fields: Mapping[str, Any], name: str) -> object:
    """The value of a field; infinity or NaN if null represents it."""
    if fields[name] is not None or f"{name}_is_infinite" not in fields:
        return fields[name]
    return math.copysign(math.inf, fields.get(f"{name}_sign") or 1) if fields[f"{name}_is_infinite"] else math.nan


def _inside(where: str, name: object) -> str:
    return f"{where}.{name}" if where else str(name)


def shown(value: object, longest: int = 60) -> str:
    """A value for an error message: its Python representation, cut to `longest` letters.

    >>> shown([1, 2.5]), len(shown("x" * 99))
    ('[1, 2.5]', 60)
    """
    return _cut(repr(value), longest)


def shortened(text: str, longest: int = 60) -> str:
    """A text for an error message: without control characters, cut to `longest` letters.

    >>> shortened("a\\x1bb"), len(shortened("x" * 99))
    ('a\\\\x1bb', 60)
    """
    return _cut(repr(text)[1:-1], longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
