"""The numbers of an inversion from a YAML file, with changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from verisphere.files.bases import read_based
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.files.packaged_recipes import find_recipe
from verisphere.invert.inversion import Inversion
from verisphere.words import unknown_name


def read_settings(path: Path, changes: Mapping[str, Any]) -> Inversion:
    """The numbers of an inversion.

    Args:
        path: YAML file whose keys are fields of `Inversion`, or the name of a packaged one, such as `inversions/small`.
        changes: fields with values that override those of the file.
    """
    file = find_recipe(path, what="recipe of an inversion")
    with errors_naming(file.name):
        content = read_based(file.path).content
        if not isinstance(content, Mapping):
            raise ValueError(f"holds {shown(content)}; expected fields of an inversion, such as steps: 600")
        allowed = list(Inversion.__dataclass_fields__)
        for key in content:
            if key not in allowed:
                raise ValueError(unknown_name("field", str(key), allowed))
        read = from_json(Inversion, content)
    return from_json(Inversion, {**{name: getattr(read, name) for name in allowed}, **changes})
