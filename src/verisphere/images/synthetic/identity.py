"""The parameters of a synthetic face: the traits of a person, the circumstances of a photograph, and natural colours.

Traits and circumstances are rows of `spreads.csv`: the name of a number, its mean and its standard deviation. Lengths
are in half frames (the frame extends from -1 to 1), x to the right and y down, from the middle of the head at zoom 1.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Spread(NamedTuple):
    """The distribution of one number: nearly normal, bounded at 3.47 standard deviations from the mean."""

    mean: float
    deviation: float


def _spreads(of: str) -> dict[str, Spread]:
    table = (files("verisphere.images.synthetic") / "spreads.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(table.splitlines()) if row["of"] == of]
    return {row["name"]: Spread(float(row["mean"]), float(row["deviation"])) for row in rows}


PERSON, PHOTO = _spreads("person"), _spreads("photo")


@dataclass(frozen=True)
class Columns:
    """Numbers, a row a face and a column a name, each read by name as a plane that broadcasts over pixels."""

    values: Float[Tensor, "faces columns"]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.values.shape[1] != len(self.names):
            raise ValueError(f"values has {self.values.shape[1]} columns but {len(self.names)} names were given")

    @cached_property
    def _planes(self) -> dict[str, Float[Tensor, "faces 1 1"]]:
        return dict(zip(self.names, self.values[:, :, None, None].unbind(1), strict=True))

    def __getitem__(self, name: str) -> Float[Tensor, "faces 1 1"]:
        return self._planes[name]

    def at(self, rows: Int64[Tensor, " picked"]) -> "Columns":
        """These rows, in this order."""
        return Columns(self.values[rows], self.names)

    def rows(self, start: int, stop: int) -> "Columns":
        """The faces from `start` to `stop` (exclusive)."""
        return Columns(self.values[start:stop], self.names)


def scaled(draws: Float[Tensor, "faces columns"], table: Mapping[str, Spread]) -> Columns:
    """The numbers of a table from standard draws: mean + deviation * draw."""
    spreads = torch.tensor(list(table.values()), device=draws.device)
    return Columns(draws * spreads[:, 1] + spreads[:, 0], tuple(table))


def transmittance(density: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The share of light that passes a density >= 0: (1 + density / 4)^-4, close to exp(-density), exactly rounded."""
    root = 1 / (1 + density * 0.25)
    square = root * root
    return square * square


def _absorbed(
    first: Float[Tensor, "faces 1 1"],
    first_rgb: tuple[float, float, float],
    second: Float[Tensor, "faces 1 1"],
    second_rgb: tuple[float, float, float],
) -> Float[Tensor, "faces 3 1 1"]:
    """The colour behind two pigments, each given by its amount and its absorption of red, green and blue."""
    first_absorption = first.new_tensor(first_rgb)[:, None, None]
    second_absorption = first.new_tensor(second_rgb)[:, None, None]
    return transmittance(
        first.clamp(min=0)[:, None] * first_absorption + second.clamp(min=0)[:, None] * second_absorption
    )


def skin_colour(
    melanin: Float[Tensor, "faces 1 1"], hemoglobin: Float[Tensor, "faces 1 1"]
) -> Float[Tensor, "faces 3 1 1"]:
    """Skin in white light: melanin absorbs all colours, blue most; hemoglobin absorbs green and blue."""
    return _absorbed(melanin.clamp(min=0.06) + 0.14, (0.60, 1.05, 1.65), hemoglobin, (0.04, 0.55, 0.62))


def hair_colour(
    eumelanin: Float[Tensor, "faces 1 1"], pheomelanin: Float[Tensor, "faces 1 1"], grey: Float[Tensor, "faces 1 1"]
) -> Float[Tensor, "faces 3 1 1"]:
    """Hair from fair through red and brown to black; the share `grey` of the strands has no pigment."""
    pigmented = _absorbed(eumelanin + 0.3, (1.05, 1.45, 2.10), pheomelanin, (0.25, 1.05, 2.00))
    share = grey.clamp(0, 0.9)[:, None]
    return pigmented + (0.72 - pigmented) * share


def iris_colour(iris: Float[Tensor, "faces 1 1"]) -> Float[Tensor, "faces 3 1 1"]:
    """Irises from blue-grey (0) through green and hazel to dark brown (1)."""
    return _absorbed(iris, (0.85, 1.70, 3.30), torch.ones_like(iris), (0.85, 0.62, 0.48))
