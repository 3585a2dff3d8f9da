"""The space of a search: numeric fields of a recipe, each with a map from a draw to its value."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.study.search.maps import Map
from verisphere.train.recipe import Settings

#: Fields that all candidates share: their images, their start, the length of the training, and its random numbers.
_SHARED = ("data", "validation", "start", "seed", "epochs", "steps", "unit", "batch_size")


@dataclass(frozen=True)
class Space:
    """The fields, by dotted names in which a number is a place in a list, that a search may change."""

    fields: tuple[str, ...]
    maps: tuple[Map, ...]

    @property
    def start(self) -> Float64[np.ndarray, " fields"]:
        """The draw of each field at which a method with a memory begins."""
        return np.array([of_field.start for of_field in self.maps], np.float64)

    def values(self, draw: Sequence[float]) -> Settings:
        """The values of the fields for a draw."""
        return {
            field: of_field.value(number) for field, of_field, number in zip(self.fields, self.maps, draw, strict=True)
        }

    def readable(self, values: Mapping[str, float | int]) -> dict[str, float | int]:
        """Values in numbers that a person can read, by the last part of the field's name."""
        numbers: dict[str, float | int] = {}
        for field, of_field in zip(self.fields, self.maps, strict=True):
            name = self._short(field)
            for kind, number in of_field.readable(values[field]).items():
                numbers[name if kind == "value" else f"{name} as {kind}"] = number
        return numbers

    def _short(self, field: str) -> str:
        """The last part of a field's name, or the whole name if another field ends in the same part."""
        ends = [other.rpartition(".init_args.")[2] for other in self.fields]
        end = field.rpartition(".init_args.")[2]
        return end if ends.count(end) == 1 else field

    def check(self, resolved: Mapping[str, Any], own_seeds: bool = False) -> None:
        """Refuse fields that a recipe does not have, that are no numbers, or that all candidates must share.

        The recipe is given with the value of every field; candidates may differ in the seed where trainings are whole.
        """
        for field in self.fields:
            shared = field.partition(".")[0]
            if shared in _SHARED and not (own_seeds and field == "seed"):
                raise ValueError(f"space: {field}: all candidates of a search share {shared}; it cannot be searched")
            value = _at(resolved, field)
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise ValueError(f"space: {field} is {shown(value)}; only a number can be searched")
        for field, of_field in zip(self.fields, self.maps, strict=True):
            outer = field.rpartition(".")[0]
            beside = _at(resolved, outer) if outer else resolved
            if isinstance(beside, Mapping):
                fixed = {name: value for name, value in beside.items() if f"{outer}.{name}" not in self.fields}
                with errors_naming(f"space: {field}"):
                    of_field.check(fixed)


def _at(resolved: Mapping[str, Any], field: str) -> Any:
    """The value of a field; a number in its name is a place in a list."""
    value: Any = resolved
    parts = field.split(".")
    for number, part in enumerate(parts):
        inside = value if isinstance(value, Mapping) else {}
        if isinstance(value, list):
            inside = {str(place): entry for place, entry in enumerate(value)}
        if part not in inside:
            has = f"{len(value)} entries, from 0" if isinstance(value, list) else ", ".join(inside) or "none"
            before = ".".join(parts[:number]) or "a recipe"
            raise ValueError(f"{field}: there is no {part} in {before}, which has {has}")
        value = inside[part]
    return value
