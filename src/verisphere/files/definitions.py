"""Definitions as plain data: recipes, searches, sets and models, checked against the annotations of what they fill.

A class stands as `class_path` and `init_args`, or as its path alone; one of verisphere may go by its bare name. A
definition is first completed, which checks every value and adds the defaults, and then built.

A YAML file may have a base: `base: NAME` takes all values of another file, which the values of this file override. A
base is a file, by a path relative to the file that names it, or a recipe that comes with verisphere, by its name. A
base may have a base itself. A value overrides that of the base as follows:

- A mapping is merged name by name.
- A mapping whose `class_path` differs from the base's replaces the whole object, arguments included.
- Everything else replaces: lists, texts, numbers, and null, which is a value and does not restore the default.
"""

import difflib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import yaml

from verisphere.base.words import unknown_name
from verisphere.files.class_paths import name_present_module, present_name, present_names
from verisphere.files.documents import LARGEST_YAML, PlainLoader, load_yaml, read_yaml, read_yaml_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import Reading, shortened, shown
from verisphere.files.packaged_recipes import check_recipe, locate_recipe, nearest_recipes, text_of_recipe

BASE = "base"


@dataclass(frozen=True, eq=False)
class YamlFile:
    """A file of a chain of bases, and the content of this file alone, with current class paths."""

    path: Path
    text: str
    content: Any


@dataclass(frozen=True, eq=False)
class Based:
    """A YAML file with the values of all its bases, but without `base`; and its files: itself, its base, and so on."""

    content: Any
    files: tuple[YamlFile, ...]

    def origin(self, parts: Sequence[str]) -> tuple[Path, int] | None:
        """File and line that set a value; None if no file of the chain does. In a list, a part is a position."""
        for file in self.files:
            if (line := _line(file.text, parts)) is not None:
                return file.path, line
        return None


def read_based(path: Path) -> Based:
    """Read a YAML file and its bases."""
    check_recipe(path)
    files: list[YamlFile] = []
    letters = 0
    following: Path | None = path
    while following is not None:
        here = following
        _check_circle(files, here)
        text = text_of_recipe(here)
        letters += len(text)
        if letters > LARGEST_YAML:
            raise ValueError(f"{path}: {letters:,} letters of YAML with its bases; at most {LARGEST_YAML:,} are read")
        with errors_naming(here):
            content = present_names(read_yaml(text))
            if files and not isinstance(content, dict):
                raise ValueError(f"a base has fields and their values, not {shown(content)}")
            files.append(YamlFile(here, text, content))
            following = _base(content, here)
    merged = files[-1].content
    for file in reversed(files[:-1]):
        merged = merge(merged, file.content)
    if isinstance(merged, dict):
        merged = {name: value for name, value in merged.items() if name != BASE}
    return Based(merged, tuple(files))


def _base(content: Any, path: Path) -> Path | None:
    """The base that a file names; None if it names none."""
    if not isinstance(content, dict) or BASE not in content:
        return None
    named = content[BASE]
    if not isinstance(named, str) or not named:
        raise ValueError(f"base is {shown(named)}; expected the name of a recipe, or a path relative to this file")
    found = locate_recipe(named, path.parent)
    if found is None:
        raise FileNotFoundError(f"{path}: base {shown(named)}: there is no such file or recipe{nearest_recipes(named)}")
    check_recipe(found)
    return found


def _check_circle(files: Sequence[YamlFile], path: Path) -> None:
    places = [file.path.resolve() for file in files]
    if path.resolve() in places:
        chain = [*(file.path for file in files[places.index(path.resolve()) :]), path]
        raise ValueError(f"{files[0].path}: its bases form a circle: {' > '.join(map(str, chain))}")


def merge(base: Any, over: Any) -> Any:
    """The values of a base, overridden by others.

    >>> merge({"epochs": 1, "optimizer": {"name": "sgd", "rate": 0.1}}, {"optimizer": {"rate": 0.2}})
    {'epochs': 1, 'optimizer': {'name': 'sgd', 'rate': 0.2}}
    >>> merge({"class_path": "A", "init_args": {"margin": 1}}, {"class_path": "B"})
    {'class_path': 'B'}
    >>> merge({"class_path": "A", "init_args": {"margin": 1}}, {"init_args": {"scale": 64}})
    {'class_path': 'A', 'init_args': {'margin': 1, 'scale': 64}}
    """
    if isinstance(base, str) and isinstance(over, dict) and over.keys() == {"init_args"}:
        base = {"class_path": base}  # a class without arguments may be written as only its path
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    if "class_path" in over and over["class_path"] != base.get("class_path"):
        return over
    changed = {name: merge(base[name], value) if name in base else value for name, value in over.items()}
    return {**base, **changed}


def _line(text: str, parts: Sequence[str]) -> int | None:
    """The line of a value in a YAML text; None if the text lacks it."""
    node, line = yaml.compose(text, Loader=PlainLoader), None
    for part in parts:
        if isinstance(node, yaml.MappingNode):
            entries = {key.value: (key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)}
            if part not in entries:
                return None
            key, node = entries[part]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            node = node.value[int(part)]
            line = node.start_mark.line + 1
        else:
            return None
    return line


T = TypeVar("T")
_OURS = "verisphere."
_PLACES = ("class_path", "init_args")
_PLACE = "place_in_definition"  # of an error that a class raised
_REQUIRED = inspect.Parameter.empty
_NEGATIVE = re.compile(r"-(\d+|\d*\.\d+)([eE][-+]?\d+)?")


def refuse_python(path: str) -> None:
    """Refuse a class path of the standard library, such as os.system."""
    if path.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(
            f"{shown(path)} is of Python itself; a class is named by its import path, such as verisphere.losses.ArcFace"
        )


def complete(hint: Any, value: object, where: str = "", allow: Callable[[str], None] = refuse_python) -> Any:
    """A definition as plain data with the values of all fields and arguments; nothing is built.

    A text is read as YAML where the hint asks for something else. `allow` raises ValueError for a class path that must
    not be imported.
    """
    return _Complete(allow).entry(hint, value, where)


def build(kind: type[T] | Any, completed: object, where: str = "") -> T:
    """The object that completed plain data describe."""
    built: T = _Build().value(kind, completed, where)
    return built


def place_of(error: ValueError) -> str:
    """Dotted name of the object whose class refused its arguments; empty for another error."""
    return str(error.__dict__.get(_PLACE, ""))


def names_class(value: Any) -> bool:
    """Whether plain data names a class."""
    return isinstance(value, dict) and "class_path" in value


class _Complete(Reading):
    """Plain values checked, converted, and completed by defaults; they stay plain."""

    item = ".{}"

    def __init__(self, allow: Callable[[str], None]) -> None:
        self.allow = allow

    def entry(self, hint: Any, value: object, where: str) -> Any:
        """A value with a name, which may be a text that is YAML."""
        loaded = _loaded(value)
        if isinstance(loaded, str) or loaded is value:
            return self.value(hint, value, where)
        try:
            return self.value(hint, loaded, where)
        except ValueError:
            with suppress(ValueError):
                return self.value(hint, value, where)
            raise

    def fields(self, kind: type, value: object, where: str) -> dict[str, Any]:
        if isinstance(value, str) and Path(value).is_file():
            value = read_yaml_file(Path(value))
        if not isinstance(value, Mapping):
            raise ValueError(f"{f'{where}: ' if where else ''}expected fields and their values, got {shown(value)}")
        return self._arguments(kind, value, where, where, self._text_or_entry)

    def _text_or_entry(self, hint: Any, value: object, where: str) -> Any:
        """The value of a field, in which a text is read as YAML only where the field takes no text."""
        if isinstance(value, str) and value != "null":
            with suppress(ValueError):
                return self.value(hint, value, where)
        return self.entry(hint, value, where)

    def sequence(self, origin: object, options: tuple[Any, ...], value: Sequence[object], where: str) -> list[Any]:
        return list(super().sequence(origin, options, value, where))

    def named(self, kind: type, value: object, where: str) -> Any:
        if kind is Path and isinstance(value, str):
            return value
        given = {"class_path": value} if isinstance(value, str) else value
        if not (isinstance(given, Mapping) and isinstance(given.get("class_path"), str) and {*given} <= {*_PLACES}):
            raise ValueError(
                f"{where}: not a {kind.__name__}, got {shown(value)}; expected a class_path and its init_args"
            )
        path, owner = self.found(kind, given["class_path"], where)
        arguments = given.get("init_args", {})
        if not isinstance(arguments, Mapping):
            raise ValueError(f"{where}: {path}: init_args names no arguments; omit it for the defaults")
        inside = f"{where}.init_args" if where else ""
        completed = self._arguments(owner, arguments, inside, f"{where}: {path}", self.entry)
        return {"class_path": path} | ({"init_args": completed} if completed or "init_args" in given else {})

    def found(self, kind: type, path: str, where: str) -> tuple[str, Any]:
        """Path and class of a class path, or of the bare name of one of ours; a function may promise an object."""
        path = present_name(path)
        try:
            self.allow(path)
            path = path if "." in path else _with_house(kind, path)
            module, _, name = path.rpartition(".")
            owner = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            outside = isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("verisphere")
            hint = "; is the folder it lies in on PYTHONPATH?" if outside else ""
            raise ValueError(f"{where}: {path}: {name_present_module(str(error))}{hint}") from None
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from error
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            said = f"{type(error).__name__}: {error}"
            raise ValueError(f"{where}: {shown(path)}: its module fails while it is imported: {said}") from error
        made = owner if isinstance(owner, type) else _hints(owner).get("return")
        if not (isinstance(made, type) and issubclass(made, kind)):
            raise ValueError(f"{where}: Import path {path} does not correspond to a subclass of {kind.__name__}")
        if inspect.isabstract(owner):
            raise ValueError(f"{where}: {path} is abstract; name a class that derives from it")
        return path, owner

    def replaced(self, kind: type, before: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
        """A class over another one, which keeps those of its arguments that it takes too."""
        arguments = before.get("init_args") or {}
        kept: dict[str, Any] = {}
        with suppress(ValueError):  # a class that cannot be found is reported where the definition is completed
            known = _parameters(self.found(kind, over["class_path"], "it")[1])
            for name in arguments.keys() & known.keys():
                with suppress(ValueError):
                    self.entry(known[name][0], arguments[name], name)
                    kept[name] = arguments[name]
        return {**over, "init_args": {**kept, **(over.get("init_args") or {})}}

    def _arguments(
        self, owner: Any, given: Mapping[Any, Any], where: str, who: str, entry: Callable[[Any, object, str], Any]
    ) -> dict[str, Any]:
        known, who = _parameters(owner), f"{who}: " if who else ""
        for name in given:
            if name not in known:
                raise ValueError(who + unknown_name("field", shortened(str(name)), list(known)))
        missing = [name for name, (_, default) in known.items() if default is _REQUIRED and given.get(name) is None]
        if missing:
            raise ValueError(f"{who}the following arguments are required: {', '.join(missing)}")
        completed = {}
        for name, (hint, default) in known.items():
            place = f"{where}.{name}" if where else name
            if name in given and not (given[name] is None and default is None):
                completed[name] = entry(hint, given[name], place)
            elif isinstance(hint, type) and is_dataclass(hint):
                completed[name] = self.fields(hint, {}, place)
            else:
                completed[name] = entry(hint, default, place) if isinstance(default, str) else _plain(default)
        return completed


class _Build(Reading):
    """Completed plain values turned into objects."""

    item = ".{}"

    def fields(self, kind: type, value: Any, where: str) -> Any:
        """A dataclass, whose own errors name its fields."""
        known = _parameters(kind)
        return kind(**{name: self.value(known[name][0], entry, f"{where}.{name}") for name, entry in value.items()})

    def named(self, kind: type, value: Any, where: str) -> Any:
        if kind is Path:
            return Path(value)
        path = value["class_path"]
        module, _, name = path.rpartition(".")
        owner = getattr(sys.modules[module], name)
        known = _parameters(owner)
        arguments = {
            name: None if entry is None else self.value(known[name][0], entry, f"{where}.{name}")
            for name, entry in value.get("init_args", {}).items()
        }
        try:
            made = owner(**arguments)
        except ValueError as error:
            error.__dict__.setdefault(_PLACE, f"{where}.init_args")
            raise
        except (OSError, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # the user's code may raise anything; errors of ours are not changed
            if path.startswith(_OURS):
                raise
            raise ValueError(f"{where} {path}: {type(error).__name__}: {error}") from error
        if not isinstance(made, kind):
            raise ValueError(f"{where}: expected a {kind.__name__}, but what it names made {shown(made)}")
        return made


def _with_house(kind: type, name: str) -> str:
    """The import path of a class of ours that goes by its bare name."""
    house = ".".join(kind.__module__.split(".")[:2])
    ours = [key for key, value in vars(import_module(house)).items() if isinstance(value, type)]
    if name in ours:
        return f"{house}.{name}"
    near = difflib.get_close_matches(name[:100], ours, n=1)
    hint = f" (did you mean {house}.{near[0]}?)" if near else ""
    raise ValueError(f"{shortened(name)} is no import path{hint}")


@cache
def _parameters(owner: Any) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of each argument; `**kwargs` stand for the arguments of the class above."""
    if is_dataclass(owner):
        hints = _hints(owner)
        return {field.name: (hints.get(field.name, Any), _default(field)) for field in fields(owner) if field.init}
    known: dict[str, tuple[Any, Any]] = {}
    bases = [vars(base).get("__init__") for base in owner.__mro__] if isinstance(owner, type) else [owner]
    for call in filter(None, bases):
        hints, parameters = _hints(call), list(inspect.signature(call).parameters.values())
        for parameter in parameters[isinstance(owner, type) :]:
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                known.setdefault(parameter.name, (hints.get(parameter.name, Any), parameter.default))
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return known


def _default(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return _REQUIRED if field.default_factory is MISSING else field.default_factory()


def _hints(owner: Any) -> dict[str, Any]:
    try:
        return get_type_hints(owner)
    except (NameError, TypeError):  # a user's class may have annotations that name what is not imported
        return {}


def _plain(default: Any) -> Any:
    if isinstance(default, tuple | list):
        return [_plain(entry) for entry in default]
    return str(default) if isinstance(default, Path) else default


def _loaded(value: object) -> Any:
    """The value that a text has as YAML; one that is not YAML stays as it is."""
    if not isinstance(value, str) or not value.strip():
        return value
    try:
        return present_names(load_yaml(value))
    except yaml.YAMLError:
        return value


# --- values over those of a definition --------------------------------------------------------------------------------


def options(words: Sequence[str]) -> list[tuple[str, str]]:
    """The names and texts of `--field value` or `--field=value` options.

    >>> options(["--epochs", "2", "--loss.margin=0.3"])
    [('epochs', '2'), ('loss.margin', '0.3')]
    """
    named, following = [], iter(words)
    for word in following:
        name, equals, text = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name:
            raise ValueError(f"unrecognized arguments: {shortened(word)}")
        if not equals:
            text = next(following, "--")
        if not equals and text.startswith("-") and not _NEGATIVE.fullmatch(text):
            raise ValueError(f"argument --{shortened(name)}: expected one argument")
        try:
            _loaded(text)
        except ValueError as error:
            raise ValueError(f"--{shortened(name)}: {error}") from None
        named.append((name, text))
    return named


def with_values(owner: type, definition: Mapping[str, Any], values: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """A definition with other values at some dotted names, in which `init_args` may be omitted.

    A number in a name is a place in a list, from 0; a `+` at its end appends to a list. A mapping goes over the one
    before, and a class keeps those arguments of the one before that it takes too.

    >>> from verisphere.images.augment import Augment
    >>> with_values(Augment, {"flip": 0.5}, [("crop", "0.1")])
    {'flip': 0.5, 'crop': '0.1'}
    """
    whole = dict(definition)
    for name, value in values:
        first, *rest = name.removesuffix("+").split(".")
        hint = _hints(owner).get(first, object)
        (kind, *_) = get_args(hint) or (hint,)
        kind = kind if isinstance(kind, type) and kind.__module__.startswith(_OURS) else object
        whole[first] = _with_value(whole.get(first), rest, value, kind, first, append=name.endswith("+"))
    return whole


def _with_value(before: Any, names: list[str], value: Any, kind: type, where: str, append: bool) -> Any:
    """What stands at a place once a value is set there or further inside."""
    if not names or names == ["class_path"]:
        return _over(before, value, kind, where, append)
    name = names[0]
    before = [] if before is None and name.isdecimal() else _loaded(before)
    if isinstance(before, str):
        before = {"class_path": before}
    if isinstance(before, list):
        if not name.isdecimal():
            names, name = [str(len(before) - 1), *names], str(len(before) - 1)
        if not 0 <= int(name) < len(before):
            raise ValueError(f"{where}.{name}: there is no {name} in {where}, which has {len(before)} entries, from 0")
        item = _with_value(before[int(name)], names[1:], _loaded(value), object, f"{where}.{name}", append)
        return [item if place == int(name) else entry for place, entry in enumerate(before)]
    inside = dict(before) if isinstance(before, Mapping) else {}
    if "class_path" in inside and name not in _PLACES:
        names, name = ["init_args", *names], "init_args"
    inside[name] = _with_value(inside.get(name), names[1:], value, object, f"{where}.{name}", append)
    return inside


def _over(before: Any, value: Any, kind: type, where: str, append: bool) -> Any:
    loaded = _loaded(value)
    if append:
        return [*(before or []), *(loaded if isinstance(loaded, list) else [loaded])]
    before = {"class_path": before} if isinstance(before, str) and kind is not object else before
    if names_class(before) and isinstance(loaded, str | dict):
        over = loaded if isinstance(loaded, dict) else {"class_path": loaded}
        same = over.get("class_path", before["class_path"]) == before["class_path"]
        return merge(before, over) if same else _Complete(refuse_python).replaced(kind, before, over)
    # mappings inside the arguments of a class are values, and are replaced as one
    is_group = "." not in where or where.endswith(".init_args")
    return merge(before, loaded) if is_group and isinstance(before, dict) and isinstance(loaded, dict) else value
