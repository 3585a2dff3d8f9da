"""The recipes that come with verisphere, under short names: `photos`, `losses/arcface`."""

import difflib
import os
import re
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

from verisphere.files.disk import check_file
from verisphere.files.documents import LARGEST_YAML, read_text

FOLDER = Path(__file__).parents[1] / "recipes"
#: The table of losses, whose entries hold the recipes `losses/NAME` and `synthetic/NAME`.
LOSSES = FOLDER / "losses.yaml"
_RECIPE_IN_TABLE = re.compile(r"^    (\w+/\w+):\n((?:      .*\n)+)", re.MULTILINE)
_SUFFIXES = (".yaml", ".yml")
_MOST_GUESSES = 3
_LONGEST_GUESSED = 200  # letters of a name for which near ones are looked for


@cache
def packaged_recipes() -> dict[str, Path]:
    """The file of each name, or its path within the table of losses: those without a group first, then by group."""
    files = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in FOLDER.rglob("*.yaml")}
    del files[LOSSES.stem]
    files |= {path.relative_to(LOSSES).as_posix(): path for path in _in_table()}
    return {name: files[name] for name in sorted(files, key=lambda name: ("/" in name, name))}


@cache
def _in_table() -> dict[Path, str]:
    """The recipes in the table of losses, each below so many empty lines that its lines have their numbers there."""
    table = read_text(LOSSES, LARGEST_YAML)
    found = _RECIPE_IN_TABLE.finditer(table)
    return {LOSSES / each[1]: "\n" * table.count("\n", 0, each.start(2)) + dedent(each[2]) for each in found}


def check_recipe(path: Path) -> None:
    """Refuses a path that is neither a regular file nor within the table of losses."""
    if path not in _in_table():
        check_file(path)


def text_of_recipe(path: Path) -> str:
    """The YAML of a recipe, whether it is a file or stands in the table of losses."""
    return _in_table().get(path) or read_text(path, LARGEST_YAML)


@dataclass(frozen=True)
class NamedRecipe:
    """The name of a recipe as the user typed it, for errors, and its file, or a path in the table of losses."""

    name: str
    path: Path


def find_recipe(named: str | Path, folder: Path = Path(), what: str = "recipe") -> NamedRecipe:
    """The recipe that a path or a name stands for; an existing file takes precedence over a packaged recipe.

    A folder does not: `photos` names the recipe beside a folder photos/ too.
    """
    name, path = str(named), folder / named
    found = locate_recipe(named, folder)
    if found is not None:
        return NamedRecipe(str(path) if found == path else name, found)
    if os.path.isdir(path):
        return NamedRecipe(str(path), path)  # its reader reports that it is a folder
    hint = nearest_recipes(name) or "; `verisphere recipes` lists the recipes that come with it"
    raise FileNotFoundError(f"{name}: there is no such {what}{hint}")


def locate_recipe(named: str | Path, folder: Path = Path()) -> Path | None:
    """The file that a path or a name stands for, as in `find_recipe`; None if there is neither."""
    path = folder / named
    if path in _in_table() or (os.path.exists(path) and not os.path.isdir(path)):
        return path
    return packaged_recipes().get(str(named))


def nearest_recipes(named: str) -> str:
    """The packaged recipes that may have been meant, as the end of an error; empty if none is near."""
    names = list(packaged_recipes())
    path = Path(named)
    parts = (path.with_suffix("") if path.suffix in _SUFFIXES else path).parts
    for start in range(len(parts)):
        if (tail := "/".join(parts[start:])) in names:
            return f"; verisphere has it under the name {tail}"
    last = parts[-1] if parts else ""
    near = [name for name in names if name.rpartition("/")[2] == last]
    if not near and len(named) <= _LONGEST_GUESSED:
        near = difflib.get_close_matches("/".join(parts), names, n=_MOST_GUESSES)
        near += [
            name
            for word in difflib.get_close_matches(last, {name.rpartition("/")[2] for name in names}, n=1)
            for name in names
            if name.rpartition("/")[2] == word and name not in near
        ]
    return f" (did you mean {', '.join(near[:_MOST_GUESSES])}?); `verisphere recipes` lists them" if near else ""


def comment(path: Path) -> str:
    """The lines of comment that a recipe begins with."""
    lines = text_of_recipe(path).lstrip("\n").splitlines(keepends=True)
    return "".join(takewhile(lambda line: line.startswith("#"), lines))


def description(path: Path) -> str:
    """The description of a packaged recipe: the first line of its comment."""
    return comment(path).partition("\n")[0].removeprefix("# ")
