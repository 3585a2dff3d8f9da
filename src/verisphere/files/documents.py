"""YAML and JSON from files as plain values, within limits: no small file can take much memory or much time.

Every reader of YAML or JSON in this package uses these functions, so that one rule holds for all of them.
"""

import json
import math
import re
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml

from verisphere.files.disk import check_file, read_file
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown

T = TypeVar("T")

#: Most bytes of a YAML file; the longest recipe of this package has 3,000.
LARGEST_YAML = 2**18
#: Most bytes of a JSON file.
LARGEST_JSON = 2**26
#: Most nested lists and mappings; a class with its arguments takes two levels.
MOST_YAML_LEVELS = 32
_MOST_JSON_LEVELS = 200  # of JSON, in which a document may hold another one

_MOST_LETTERS = 2**20  # letters of a YAML text with its aliases expanded
_LETTERS_PER_VALUE = 32  # letters that each value counts in addition to its own, for the memory of an object
_MOST_LOADS_OF_TEXT = 4  # how many times a quoted text inside a quoted text is examined as YAML
_NUMBER = re.compile(r"[-+]?(0[xX][0-9a-fA-F_]+|0b[01_]+|[0-9][0-9_:]*)")
_TAG = "tag:yaml.org,2002:"  # the expansion of !!
_BASE_60 = re.compile(r"[-+]?[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_LONGEST_NUMBER = 40  # letters of a whole number; 2^64 has 20 digits, and beyond 4,300 Python raises another error


class PlainLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # which of the two, C decides
    """Safe YAML that reads 1e-3 as a number, and a date as text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - of PyYAML
        letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


#: A number such as 1e-3, which PyYAML by itself takes for text: the arguments of `add_implicit_resolver`.
YAML_FLOAT = ("tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789"))
PlainLoader.add_implicit_resolver(*YAML_FLOAT)


def read_text(path: Path, largest: int) -> str:
    """The text of a UTF-8 file of at most `largest` bytes."""
    content = read_file(path, largest)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}") from None


def read_yaml_file(path: Path) -> Any:
    """Plain values from a YAML file."""
    text = read_text(path, LARGEST_YAML)
    with errors_naming(path):
        return read_yaml(text)


def load_yaml(text: str) -> Any:
    """Plain values from YAML; raises `yaml.YAMLError` for what is none, and ValueError for what exceeds the limits."""
    check_yaml(text)
    return yaml.load(text, Loader=PlainLoader)  # a safe loader


def read_yaml(text: str) -> Any:
    """Plain values from YAML."""
    try:
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {yaml_problem(error)}") from None


def yaml_problem(error: yaml.YAMLError) -> str:
    """The error of a YAML parser in one line."""
    mark = getattr(error, "problem_mark", None)
    where = f" in line {mark.line + 1}" if mark is not None else ""
    return f"{getattr(error, 'problem', None) or str(error).splitlines()[0]}{where}"


def check_yaml(text: str) -> None:
    """Refuses YAML that is not safe to load: it must be bounded in size and depth, with unique names in each mapping.

    No value is built: the limits are checked on the events of the parser, so that aliases of aliases (the "billion
    laughs") are counted and not expanded. A quoted text that is YAML itself has the same limits, because the reader of
    recipes loads a text where a number or a list is expected.
    """
    _check(text, _MOST_LOADS_OF_TEXT)


def _check(text: str, again: int) -> None:
    if len(text) > LARGEST_YAML:
        raise ValueError(f"{len(text):,} letters of YAML; at most {LARGEST_YAML:,} are read")
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of a command line or of a file's name that are not UTF-8
        raise ValueError(f"{shown(text)} is not Unicode: it holds bytes that are not UTF-8") from None
    open_collections: list[_Open] = [_Open(None, False)]
    sizes: dict[str, int] = {}
    for event in yaml.parse(text, Loader=PlainLoader):
        line = event.start_mark.line + 1 if event.start_mark is not None else 0
        tag = getattr(event, "tag", None) or ""
        if tag.startswith(_TAG):
            # the functions of a loader for tags trust that a value is what its tag claims
            raise ValueError(f"the tag !!{shown(tag.removeprefix(_TAG))[1:-1]} in line {line}; no tag is read")
        if isinstance(event, yaml.CollectionStartEvent):
            if len(open_collections) > MOST_YAML_LEVELS:
                raise ValueError(f"nested more than {MOST_YAML_LEVELS} deep in line {line}")
            open_collections.append(_Open(event.anchor, isinstance(event, yaml.MappingStartEvent)))
            continue
        anchor = None
        if isinstance(event, yaml.CollectionEndEvent):
            ended = open_collections.pop()
            anchor, size = ended.anchor, ended.size
        elif isinstance(event, yaml.ScalarEvent):
            anchor, size = event.anchor, len(event.value) + _LETTERS_PER_VALUE
            _check_number(event, line)
            if again and event.style:
                _check_text(event.value, again - 1, line)
            open_collections[-1].name(event.value, line)
        elif isinstance(event, yaml.AliasEvent):
            if any(collection.anchor == event.anchor for collection in open_collections):
                raise ValueError(f"*{shown(event.anchor)} in line {line} stands inside what it stands for")
            size = sizes.get(event.anchor or "", _LETTERS_PER_VALUE)
        else:
            continue
        open_collections[-1].add(size)
        if anchor is not None:
            sizes[anchor] = size
        if open_collections[-1].size > _MOST_LETTERS:
            raise ValueError(
                f"more than {_MOST_LETTERS:,} letters by line {line}, with what aliases stand for written out"
            )


class _Open:
    """A list or mapping that has not ended: its anchor, the letters in it, and the names of a mapping."""

    def __init__(self, anchor: str | None, mapping: bool) -> None:
        self.anchor, self.mapping, self.size, self.entries = anchor, mapping, _LETTERS_PER_VALUE, 0
        self.lines: dict[str, int] = {}

    def add(self, size: int) -> None:
        self.size += size
        self.entries += 1

    def name(self, text: str, line: int) -> None:
        """Records a scalar, which is a name if it is the first of a pair in a mapping."""
        if self.mapping and self.entries % 2 == 0:
            if text in self.lines:
                raise ValueError(f"{shown(text)} is there twice, in line {self.lines[text]} and in line {line}")
            self.lines[text] = line


def _check_text(text: str, again: int, line: int) -> None:
    """Refuses a text that would exceed the limits if it were read as YAML; a text that is not YAML passes."""
    try:
        _check(text, again)
    except yaml.YAMLError:
        pass
    except ValueError as error:
        raise ValueError(f"the text in line {line} holds YAML with {error}") from None


def _check_number(event: yaml.ScalarEvent, line: int) -> None:
    """Refuses whole numbers that Python cannot read or write back, and those to base 60 (190:20:30 is 685,230)."""
    if event.implicit[0] and len(event.value) > _LONGEST_NUMBER and _NUMBER.fullmatch(event.value):
        raise ValueError(f"a whole number of {len(event.value):,} letters in line {line}")
    if event.implicit[0] and _BASE_60.fullmatch(event.value):
        raise ValueError(
            f"{shown(event.value)} in line {line}: YAML reads it as a number to base 60; put a text into quotes"
        )


def read_result(kind: type[T], path: Path, what: str, largest: int = LARGEST_JSON, /, **marks: object) -> T:
    """A result from the JSON file that a verb has written; a ValueError in one line says what is wrong with it."""
    check_file(path)
    try:
        document = read_json_file(path, largest)
        for name, value in marks.items():
            seen = document.get(name) if isinstance(document, dict) else document
            if seen != value:
                raise ValueError(f"{name} {shown(seen)}, and this version reads {name} {shown(value)}")
        return from_json(kind, document)
    except ValueError as error:
        raise ValueError(f"{path}: not {what}: {error}") from None


def read_json_file(path: Path, largest: int = LARGEST_JSON, not_finite: bool = False) -> Any:
    """Plain values from a JSON file; errors do not name the file, because the caller describes it."""
    return read_json(read_text(path, largest), not_finite)


def read_json(text: str, not_finite: bool = False) -> Any:
    """Plain values from JSON, with NaN and Infinity only on request: Python writes them and JSON does not have them."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=_whole,
            parse_float=float if not_finite else _finite,
            parse_constant=float if not_finite else _no_number,
        )
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None
    # How deep Python itself reads depends on its version; code that walks a value needs a level of calls for each.
    level = [value]
    for _ in range(_MOST_JSON_LEVELS):
        parts = (part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list))
        level = [inner for part in parts for inner in part]
    if level:
        raise ValueError("its JSON is nested too deeply")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names: set[str] = set()
        for name, _ in pairs:
            if name in names:
                raise ValueError(f"{shown(name)} stands in it twice")
            names.add(name)
    return fields


def _whole(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a whole number of {len(text):,} letters")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{shown(text)} is too large a number")
    return number


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")
