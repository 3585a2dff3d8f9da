"""The conditions under which synthetic faces are photographed, and the draws they shape.

Domains are capture conditions only: no domain represents a group of people.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from verisphere.images.synthetic.draws import keys, normals, uniforms
from verisphere.images.synthetic.identity import PERSON, PHOTO, Columns, scaled


@dataclass(frozen=True)
class Domain:
    """A capture condition, a row of `domains.csv`: how alike people are, and the quality of camera and light.

    Attributes:
        spread: factor on the differences of people from the mean face.
        kinship: share of the variance of every trait that a family (a few consecutive people) has in common; in [0, 1].
        pose: factor on turns and framing.
        light: factor on the variation of the light.
        exposure: value that is added to the exposure; 1 doubles the usual light.
        blur: largest weight of neighbouring pixels, in [0, 1].
        grain: largest standard deviation of the sensor's noise, as a share of white.
        loss: largest rounding step of the lossy storage, in grey levels.
        detail: least number of the 8 frequencies in each direction that storage keeps.
        worn: probability of glasses; caps and objects in front of the face are proportionally rarer.
    """

    spread: float
    kinship: float
    pose: float
    light: float
    exposure: float
    blur: float
    grain: float
    loss: float
    detail: float
    worn: float

    def __post_init__(self) -> None:
        for name in ("kinship", "blur", "worn"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} of a domain is {getattr(self, name)}; it is a share, 0 to 1")
        if not 1 <= self.detail <= 8:
            raise ValueError(f"detail of a domain is {self.detail}; 1 to 8 of 8 frequencies survive")
        if self.loss <= 0 or self.grain < 0:
            raise ValueError(f"loss and grain of a domain are {self.loss} and {self.grain}; above 0 and at least 0")


def _domains() -> dict[str, Domain]:
    table = (files("verisphere.images.synthetic") / "domains.csv").read_text(encoding="utf-8")
    names = [field.name for field in fields(Domain)]
    return {row["name"]: Domain(*(float(row[name]) for name in names)) for row in csv.DictReader(table.splitlines())}


DOMAINS = _domains()


@dataclass(frozen=True)
class Difficulty:
    """Factors on every domain: on the differences between people, and on those between their photographs."""

    spread: float
    nuisance: float


DIFFICULTIES: Mapping[str, Difficulty] = {
    "easy": Difficulty(spread=1.3, nuisance=0.55),
    "medium": Difficulty(spread=1.12, nuisance=1.0),
    "hard": Difficulty(spread=0.9, nuisance=1.3),
}

SCALED_BY_POSE = ("yaw", "pitch", "roll", "shift_x", "shift_y", "zoom")
SCALED_BY_LIGHT = ("light_x", "light_y", "warmth", "tint", "fill_warmth", "exposure", "contrast")

# objects that are worn at random, and settings of the camera, in addition to the columns of `PHOTO`
EXTRA = ("glasses", "sunglasses", "cap", "cover", "blur_x", "blur_y", "grain", "loss", "detail")


def domain_columns(names: Sequence[str]) -> Columns:
    """The numbers of these domains, one row for each domain."""
    fieldnames = tuple(field.name for field in fields(Domain))
    rows = [[float(getattr(DOMAINS[name], field)) for field in fieldnames] for name in names]
    return Columns(torch.tensor(rows), fieldnames)


def draw_person(
    own: Int64[Tensor, " faces"], family: Int64[Tensor, " faces"], domain: Columns, level: Difficulty
) -> Columns:
    """The traits of the people with these keys, of these families."""
    kinship, spread = domain["kinship"][:, 0], domain["spread"][:, 0] * level.spread
    mixed = normals(own, len(PERSON)) * (1 - kinship).sqrt() + normals(family, len(PERSON)) * kinship.sqrt()
    return scaled(mixed * spread, PERSON)


def draw_photo(key: Int64[Tensor, " faces"], domain: Columns, level: Difficulty) -> Columns:
    """The circumstances of the photographs with these keys: the columns of `PHOTO` and of `EXTRA`."""
    factors = dict.fromkeys(SCALED_BY_POSE, domain["pose"]) | dict.fromkeys(SCALED_BY_LIGHT, domain["light"])
    draws = normals(key, len(PHOTO))
    for name, factor in factors.items():
        draws[:, list(PHOTO).index(name)] *= factor.flatten() * level.nuisance
    usual = scaled(draws, PHOTO)
    usual.values[:, usual.names.index("exposure")] += domain["exposure"].flatten()
    extra = _extra(uniforms(keys(key, torch.full_like(key, -1)), len(EXTRA)), domain, level)
    return Columns(torch.cat([usual.values, extra], 1), usual.names + EXTRA)


def _extra(chance: Float[Tensor, "faces extras"], domain: Columns, level: Difficulty) -> Float[Tensor, "faces extras"]:
    """Objects that are worn (0 or 1) and settings of the camera, in the order of `EXTRA`, from uniform draws."""
    draw = dict(zip(EXTRA, chance.unbind(1), strict=True))
    worn, blur, grain, loss = (domain[name].flatten() * level.nuisance for name in ("worn", "blur", "grain", "loss"))
    lost = (8 - domain["detail"].flatten()) * level.nuisance
    columns = {
        "glasses": draw["glasses"] < worn,
        "sunglasses": draw["glasses"] < worn * 0.2,  # a fifth of the glasses are dark
        "cap": draw["cap"] < worn * 0.33,
        "cover": draw["cover"] < worn * 0.25,
        "blur_x": (draw["blur_x"] * blur).clamp(max=1),
        "blur_y": (draw["blur_y"] * blur).clamp(max=1),
        "grain": (draw["grain"] * 0.7 + 0.3) * grain,
        "loss": (draw["loss"] * 0.7 + 0.3) * loss,
        "detail": 8 - draw["detail"] * lost,
    }
    return torch.stack([columns[name].float() for name in EXTRA], 1)
