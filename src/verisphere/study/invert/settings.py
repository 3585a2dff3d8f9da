"""The numbers of an inversion from a YAML file, with changes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from verisphere.files.bases import read_based
from verisphere.files.definitions import build, complete, options, with_values
from verisphere.files.errors import errors_naming
from verisphere.files.packaged_recipes import find_recipe
from verisphere.study.invert.inversion import Inversion


def read_settings(path: Path, overrides: Sequence[str] = ()) -> Inversion:
    """The numbers of an inversion.

    Args:
        path: YAML file whose keys are fields of `Inversion`, or the name of a packaged one, such as `inversions/small`.
        overrides: `--field value` options, which override those of the file.
    """
    file = find_recipe(path, what="recipe of an inversion")
    content = read_based(file.path).content
    with errors_naming(file.name):
        given = with_values(Inversion, content, options(overrides)) if isinstance(content, Mapping) else content
        return build(Inversion, complete(Inversion, given))
