"""The numbers of an inversion from a YAML file, with changes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verisphere.files.bases import read_based
from verisphere.files.documents import read_yaml
from verisphere.files.errors import errors_naming
from verisphere.files.json_values import from_json, shown
from verisphere.files.packaged_recipes import find_recipe
from verisphere.invert.inversion import Inversion
from verisphere.words import unknown_name


def read_settings(path: Path, overrides: Sequence[str] = ()) -> Inversion:
    """The numbers of an inversion.

    Args:
        path: YAML file whose keys are fields of `Inversion`, or the name of a packaged one, such as `inversions/small`.
        overrides: `--field value` words, which override fields of the file.
    """
    file = find_recipe(path, what="recipe of an inversion")
    with errors_naming(file.name):
        content = read_based(file.path).content
        if not isinstance(content, Mapping):
            raise ValueError(f"holds {shown(content)}; expected fields of an inversion, such as steps: 600")
        read = _checked(content)
    return _checked(asdict(read) | _values(overrides))


def _checked(content: Mapping[str, Any]) -> Inversion:
    allowed = list(Inversion.__dataclass_fields__)
    for key in content:
        if key not in allowed:
            raise ValueError(unknown_name("field", str(key), allowed))
    return from_json(Inversion, content)


def _values(overrides: Sequence[str]) -> dict[str, Any]:
    """The value of each field that the words name, read as in a YAML file.

    >>> _values(["--steps", "4", "--flip=false"])
    {'steps': 4, 'flip': False}
    """
    values, words = dict[str, Any](), iter(overrides)
    for word in words:
        name, equals, value = word.partition("=")
        value = value if equals else next(words, "")
        if not name.startswith("--") or not value:
            raise ValueError(f"{shown(word)}: expected --field value, such as --steps 600")
        with errors_naming(name):
            values[name.removeprefix("--")] = read_yaml(value)
    return values
