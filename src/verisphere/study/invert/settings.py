"""The numbers of an inversion from a YAML file, with changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from verisphere.files.bases import read_based
from verisphere.files.definitions import build, complete, options, with_values
from verisphere.files.errors import errors_naming
from verisphere.files.packaged_recipes import find_recipe
from verisphere.study.invert.inversion import Inversion


def read_settings(path: Path, overrides: Sequence[str] = ()) -> Inversion:
    """The numbers of an inversion from a YAML file, or a packaged one, under `--field value` options."""
    file = find_recipe(path, what="recipe of an inversion")
    content = read_based(file.path).content
    with errors_naming(file.name):
        given = with_values(Inversion, content, options(overrides)) if isinstance(content, Mapping) else content
        return build(Inversion, complete(Inversion, given))
