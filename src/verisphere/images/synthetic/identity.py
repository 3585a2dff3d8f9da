"""The parameters of a synthetic face: the traits of a person, the circumstances of a photograph, and natural colours.

Traits and circumstances are tables: each line states the name of a number, its mean and its standard deviation. Lengths
are in half frames (the frame extends from -1 to 1), x to the right and y down, from the middle of the head at zoom 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor


class Spread(NamedTuple):
    """The distribution of one number: nearly normal, bounded at 3.47 standard deviations from the mean."""

    mean: float
    deviation: float


PERSON: Mapping[str, Spread] = {
    # skull, jaw and ears
    "skull_width": Spread(0.55, 0.033),
    "skull_top": Spread(0.78, 0.035),
    "chin": Spread(0.71, 0.055),
    "jaw_taper": Spread(0.30, 0.085),
    "chin_point": Spread(0.30, 0.14),
    "cheekbones": Spread(0.0, 0.035),
    "ear_size": Spread(0.15, 0.026),
    "ear_height": Spread(-0.01, 0.045),
    "ear_flare": Spread(0.035, 0.028),
    # eyes and brows
    "eye_distance": Spread(0.265, 0.024),
    "eye_height": Spread(-0.09, 0.030),
    "eye_width": Spread(0.118, 0.013),
    "eye_opening": Spread(0.052, 0.011),
    "eye_tilt": Spread(0.06, 0.13),
    "eye_depth": Spread(0.55, 0.25),
    "lid_fold": Spread(0.030, 0.013),
    "brow_gap": Spread(0.150, 0.024),
    "brow_tilt": Spread(0.06, 0.13),
    "brow_arch": Spread(0.055, 0.035),
    "brow_thickness": Spread(0.030, 0.010),
    "brow_width": Spread(0.165, 0.022),
    # nose and mouth
    "nose_length": Spread(0.300, 0.042),
    "nose_width": Spread(0.105, 0.020),
    "nose_bridge": Spread(0.060, 0.014),
    "nose_tip": Spread(0.055, 0.014),
    "mouth_gap": Spread(0.190, 0.026),
    "mouth_width": Spread(0.205, 0.028),
    "upper_lip": Spread(0.038, 0.013),
    "lower_lip": Spread(0.052, 0.015),
    "cupids_bow": Spread(0.35, 0.25),
    # colours: positions on the curves of `skin_colour`, `hair_colour` and `iris_colour`
    "melanin": Spread(0.60, 0.30),
    "hemoglobin": Spread(0.55, 0.16),
    "eumelanin": Spread(1.75, 0.80),
    "pheomelanin": Spread(0.30, 0.22),
    "grey": Spread(-0.55, 0.50),
    "iris": Spread(0.60, 0.40),
    "lip_blood": Spread(0.75, 0.25),
    # hair, beard, age and marks
    "hairline": Spread(0.47, 0.060),
    "hairline_bend": Spread(0.35, 0.45),
    "parting": Spread(0.0, 0.22),
    "hair_volume": Spread(0.055, 0.030),
    "hair_length": Spread(-0.05, 0.50),
    "beard": Spread(-0.50, 0.60),
    "moustache": Spread(-0.60, 0.60),
    "age": Spread(0.25, 0.30),
    "cheek_mark_x": Spread(0.0, 0.22),
    "cheek_mark_y": Spread(0.22, 0.12),
    "cheek_mark": Spread(-0.4, 0.7),
    "brow_mark_x": Spread(0.0, 0.20),
    "brow_mark_y": Spread(-0.36, 0.06),
    "brow_mark": Spread(-0.6, 0.7),
}

PHOTO: Mapping[str, Spread] = {
    # pose (sines of the angles) and framing; `Domain.pose` scales these
    "yaw": Spread(0.0, 0.18),
    "pitch": Spread(0.0, 0.10),
    "roll": Spread(0.0, 0.08),
    "shift_x": Spread(0.0, 0.06),
    "shift_y": Spread(0.02, 0.05),
    "zoom": Spread(1.0, 0.055),
    # expression
    "smile": Spread(0.12, 0.22),
    "mouth_open": Spread(-0.02, 0.035),
    "mouth_stretch": Spread(1.0, 0.06),
    "lids": Spread(0.92, 0.14),
    "brow_raise": Spread(0.0, 0.016),
    "gaze_x": Spread(0.0, 0.018),
    "gaze_y": Spread(0.0, 0.008),
    "hair_day": Spread(0.0, 0.018),
    "blush": Spread(0.0, 0.07),
    # light: its direction, the share of ambient light, its colour temperature; `Domain.light` scales these
    "light_x": Spread(0.0, 0.55),
    "light_y": Spread(-0.30, 0.35),
    "ambient": Spread(0.46, 0.10),
    "warmth": Spread(0.0, 0.16),
    "tint": Spread(0.0, 0.05),
    "fill_warmth": Spread(0.0, 0.12),
    "exposure": Spread(-0.10, 0.22),
    "contrast": Spread(0.0, 0.25),
    # the background, the clothes, and objects in front of the person
    "wall_light": Spread(0.0, 1.0),
    "wall_hue": Spread(0.0, 1.0),
    "wall_other": Spread(0.0, 1.0),
    "wall_angle": Spread(0.0, 1.0),
    "wall_bend": Spread(0.0, 1.0),
    "wall_pattern": Spread(0.0, 1.0),
    "cloth_light": Spread(0.0, 1.0),
    "cloth_hue": Spread(0.0, 1.0),
    "cloth_cut": Spread(0.0, 1.0),
    "glasses_size": Spread(0.145, 0.012),
    "glasses_height": Spread(0.115, 0.012),
    "frame_shade": Spread(0.15, 0.12),
    "cover_angle": Spread(0.0, 1.0),
    "cover_depth": Spread(0.0, 1.0),
}


@dataclass(frozen=True)
class Columns:
    """Numbers of several faces, each read by name as a plane that broadcasts over pixels.

    Attributes:
        values: one row for each face, one column for each name.
        names: the columns' names, in order.
    """

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
