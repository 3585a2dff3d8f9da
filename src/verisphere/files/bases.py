"""YAML files with a base: `base: NAME` takes all values of another file, and the values of this file override them.

A base is a file, by a path relative to the file that names it, or a recipe that comes with verisphere, by its name. A
base may have a base itself. A value overrides that of the base as follows:

- A mapping is merged name by name.
- A mapping whose `class_path` differs from the base's replaces the whole object, arguments included.
- Everything else replaces: lists, texts, numbers, and null, which is a value and does not restore the default.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from verisphere.files.class_paths import present_names
from verisphere.files.documents import LARGEST_YAML, PlainLoader, read_yaml
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
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
