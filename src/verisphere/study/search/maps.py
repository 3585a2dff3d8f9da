"""Maps from a draw, a number near [0, 1], to the value of a field, and back.

Methods draw without knowing the meaning of a field; a map gives the values that a field takes.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import exp, isfinite, log
from typing import Any

from verisphere.losses.search_softmax import additive_margin


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
