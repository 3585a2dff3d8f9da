"""The space of a search: numeric fields of a recipe, each with a map from a draw to its value.

A draw is a number near [0, 1]. Methods draw without knowing the meaning of a field; a map gives the values that it
takes, and the draw of a value.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from typing import Any

import numpy as np
from jaxtyping import Float64

from verisphere.files.errors import errors_naming
from verisphere.files.json_values import shown
from verisphere.losses.search_softmax import additive_margin
from verisphere.train.recipe import Settings


class Map(ABC):
    """The values of one field.

    Attributes:
        start: the draw at which a method with a memory, such as `Reinforce`, begins.
    """

    start: float

    @abstractmethod
    def value(self, draw: float) -> float | int:
        """The value of the field for a draw; methods that draw evenly draw from [0, 1]."""

    @abstractmethod
    def draw(self, value: float | int) -> float:
        """A draw with this value."""

    def readable(self, value: float | int) -> dict[str, float | int]:
        """The value in numbers that a person can read, by name; for the log and the plots."""
        return {"value": value}

    def varied(self, draw: float, factor: float) -> float:
        """A draw whose value is `factor` times as large, or the nearest that the field takes."""
        return self.draw(self.value(draw) * factor)

    def check(self, beside: Mapping[str, Any]) -> None:  # noqa: B027  # most maps fit any field
        """Refuse arguments that do not fit those beside the field.

        Args:
            beside: the arguments of the same object, by name, as plain data.
        """


class Linear(Map):
    """Values on a line: `low` for a draw of 0, `high` for 1. A draw outside [0, 1] gives the nearer end.

    >>> Linear(0.1, 0.5).value(0.25)
    0.2

    Args:
        low, high: the ends; equal ends make a field that does not change, as a control.
        start: value at which a method with a memory begins; None is the middle.
        whole: round to whole numbers; those at the ends are drawn half as often as each between.
    """

    def __init__(self, low: float, high: float, start: float | None = None, whole: bool = False) -> None:
        if not (isfinite(low) and isfinite(high) and low <= high):
            raise ValueError(f"low is {low} and high {high}; they must be finite numbers in this order")
        if whole and not (low == round(low) and high == round(high)):
            raise ValueError(f"low is {low} and high {high}; with whole they must be whole numbers")
        self.low, self.high, self.whole = low, high, whole
        self.start = 0.5 if start is None else self.draw(_within(start, low, high))

    def value(self, draw: float) -> float | int:
        """low + (high - low) * draw, held in [low, high]."""
        value = self.low + (self.high - self.low) * min(max(draw, 0.0), 1.0)
        return round(value) if self.whole else value

    def draw(self, value: float | int) -> float:
        """The inverse; 0.5 where both ends are equal."""
        return (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5

    def varied(self, draw: float, factor: float) -> float:
        """The number before it is rounded is multiplied, since 2 * 1.2 rounds to 2 again; 0 stays 0."""
        number = self.low + (self.high - self.low) * _held(draw)
        return _held(self.draw(number * factor))


class Logarithmic(Map):
    """Values on a logarithmic scale: `low` for a draw of 0, `high` for 1. A draw outside [0, 1] gives the nearer end.

    >>> round(Logarithmic(0.001, 0.1).value(0.5), 6)
    0.01

    Args:
        low, high: the ends, above 0.
        start: value at which a method with a memory begins; None is the geometric mean of the ends.
    """

    def __init__(self, low: float, high: float, start: float | None = None) -> None:
        if not (isfinite(low) and isfinite(high) and 0 < low <= high):
            raise ValueError(f"low is {low} and high {high}; they must be finite numbers above 0 in this order")
        self.low, self.high = low, high
        self.start = 0.5 if start is None else self.draw(_within(start, low, high))

    def value(self, draw: float) -> float | int:
        """low * (high / low) ** draw, held in [low, high]."""
        value = self.low * (self.high / self.low) ** min(max(draw, 0.0), 1.0)
        return min(max(value, self.low), self.high)  # rounding may pass the end

    def draw(self, value: float | int) -> float:
        """The inverse; 0.5 where both ends are equal."""
        return log(value / self.low) / log(self.high / self.low) if self.high > self.low else 0.5

    def varied(self, draw: float, factor: float) -> float:
        """The value times the factor, held between the ends."""
        return _held(super().varied(draw, factor))


class ModulatingFactor(Map):
    """The modulating factor of `SearchSoftmax` (Wang et al. 2020, arXiv:2007.06542): a = -|x| * exp(scale / 3).

    The released implementation of the paper draws x and maps it to a, which reaches -10000 in table 3. With |x| = 1 the
    factor equals an additive margin of just above 1/3 at any scale.

    >>> ModulatingFactor(scale=30.0).value(1.0)
    -22026.465794806718

    Args:
        scale: the loss's factor from cosine to logit, below 2000, where exp(scale / 3) is still finite.
        start: x at which a method with a memory begins. 0 is a point from which the search has no direction, since
            |x| has its kink there.
    """

    def __init__(self, scale: float = 32.0, start: float = 1.0) -> None:
        if not 0 < scale < 2000:
            raise ValueError(f"scale must lie in (0, 2000), got {scale}")
        if not isfinite(start):
            raise ValueError(f"start must be a finite number, got {start}")
        self.scale, self.start = scale, start

    def value(self, draw: float) -> float | int:
        """-|x| * exp(scale / 3)."""
        return -abs(draw) * exp(self.scale / 3)

    def draw(self, value: float | int) -> float:
        """The draw above 0 with this factor."""
        return -value / exp(self.scale / 3)

    def readable(self, value: float | int) -> dict[str, float | int]:
        """The factor, and the additive margin on the own cosine that it equals."""
        return {"value": value, "margin": additive_margin(value, self.scale)}

    def check(self, beside: Mapping[str, Any]) -> None:
        """Refuse another scale than that of the loss."""
        scale = beside.get("scale")
        if scale is not None and scale != self.scale:
            raise ValueError(
                f"the map has scale {self.scale:g} and the loss {scale:g}; they must be equal, or the factor is "
                "another margin than is shown"
            )


def _held(draw: float) -> float:
    return min(max(draw, 0.0), 1.0)


def _within(start: float, low: float, high: float) -> float:
    if not low <= start <= high:
        raise ValueError(f"start is {start}; it must lie in [{low}, {high}]")
    return start


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
        """Refuse fields that a recipe does not have, that are no numbers, or that all candidates must share."""
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
