"""Other ways to give the same faces to a network: by which rows were made, and by which own scores stand out more."""

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.decide.bounds import mean_bounds
from verisphere.ship.probe import NORMALISATIONS, standing_out
from verisphere.study.why.answer import FALSE_ALARM

#: Own scores of a working model lie at least so many standard deviations above those of strangers; measured: 5 to 7,
#: and 0.3 to 1 for a network without training.
WORKS = 2.0
#: Share of the better way's own score by which it must be better, and that of a weak network, whose own scores lie
#: lower: such a one may like another crop more than the one that it was trained on.
LEAST_GAIN, LEAST_OF_WEAK, WEAK = 0.03, 0.15, 4.0
_BATCH = 64
_FIRST = 16  # people by whom all ways are tried; only those that are better there are tried by all
_SWAPPED = "red and blue exchanged"
#: Places of the view in a face, (height, width, down, right): sides and shift as shares of the face.
_VIEWS = {
    "the middle 86 %, enlarged": (0.86, 0.86, 0.0, 0.0),
    "the middle 80 %, enlarged": (0.8, 0.8, 0.0, 0.0),
    "the middle 75 %, enlarged": (0.75, 0.75, 0.0, 0.0),
    "a view of 116 %": (1.16, 1.16, 0.0, 0.0),
    "a view of 133 %": (1.33, 1.33, 0.0, 0.0),
    "96 of 112 columns, stretched to the whole": (1.0, 0.857, 0.0, 0.0),
    "the whole, squeezed into 96 of 112 columns": (1.0, 1.167, 0.0, 0.0),
    "a view 8 % lower": (1.0, 1.0, 0.08, 0.0),
    "a view 8 % higher": (1.0, 1.0, -0.08, 0.0),
    "a view 8 % further right": (1.0, 1.0, 0.0, 0.08),
    "a view 8 % further left": (1.0, 1.0, 0.0, -0.08),
    "the faces upside down": (-1.0, -1.0, 0.0, 0.0),
}


@dataclass(frozen=True)
class Way:
    """A way to give faces to a network, otherwise than it is said to take them.

    Attributes:
        cause: name of the mistake that it stands for.
        text: the way in words.
        swapped: whether red and blue are exchanged.
        normal: mean and scale in place of the network's own; None for these.
        view: place of the view in a face, see `_VIEWS`; None for the whole.
        bfloat16: whether the network runs in bfloat16.
        grey: whether the images lose their colours.
    """

    cause: str = ""
    text: str = "as they are"
    swapped: bool = False
    normal: tuple[float, float] | None = None
    view: tuple[float, float, float, float] | None = None
    bfloat16: bool = False
    grey: bool = False


AS_THEY_ARE = Way()


def other_ways(network: Backbone, grey: bool, normalised: bool) -> Iterator[Way]:
    """The other ways that are tried; colours only of images that are not all grey, and other normalisations if asked.

    A mistake of colours and one of the normalisation may meet, so both are also combined.
    """
    colours = (False,) if grey else (False, True)
    given = (float(network.mean), float(network.scale))
    others = [normal for normal in NORMALISATIONS if normal != given] if normalised else []
    for swapped in colours:
        for normal in (None, *others):
            parts = [_SWAPPED] if swapped else []
            parts += [] if normal is None else [f"(pixel - {normal[0]:g}) / {normal[1]:g}"]
            names = (["colour order"] if swapped else []) + ([] if normal is None else ["mean and scale"])
            if parts:
                yield Way(" and ".join(names), " and ".join(parts), swapped, normal)
    for text, view in _VIEWS.items():
        yield Way("alignment or crop", text, view=view)


@torch.inference_mode()
def embedded(
    network: Backbone, images: UInt8[Tensor, "images 3 height width"], way: Way, mirrored: bool = True
) -> list[Float64[np.ndarray, "images dim"]]:
    """The rows of the images by a way and, if asked for, those of their mirror images."""
    given = copy.copy(network)
    if way.normal is not None:
        given.mean, given.scale = way.normal
    rows: list[list[np.ndarray]] = [[], []] if mirrored else [[]]
    for part in _seen(images, way).split(_BATCH):
        normalised = given.normalise(part)
        for place, faces in zip(rows, (normalised, normalised.flip(-1)), strict=False):
            with torch.autocast("cpu", torch.bfloat16, enabled=way.bfloat16):
                place.append(given(faces).double().numpy())
    return [np.concatenate(place) for place in rows]


def _seen(images: UInt8[Tensor, "images 3 height width"], way: Way) -> UInt8[Tensor, "images 3 height width"]:
    """The pixels of a way; the border is continued where a view reaches beyond it."""
    seen = images.flip(1) if way.swapped else images
    if way.grey:
        luma = (seen.float() * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(1, keepdim=True)
        seen = luma.round().to(torch.uint8).expand_as(seen).contiguous()
    if way.view is None:
        return seen
    high, wide, down, right = way.view
    place = torch.tensor([[wide, 0.0, 2 * right], [0.0, high, 2 * down]]).expand(len(seen), 2, 3)
    grid = torch.nn.functional.affine_grid(place, list(seen.shape), align_corners=False)
    moved = torch.nn.functional.grid_sample(seen.float(), grid, padding_mode="border", align_corners=False)
    return moved.round().clamp(0, 255).to(torch.uint8)


def cosines(rows: Float64[np.ndarray, "rows dim"], others: Float64[np.ndarray, "rows dim"]) -> np.ndarray:
    """The cosine of each row with the other one of its place."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return (rows * others).sum(1) / np.maximum(lengths, 1e-30)


def is_grey(images: UInt8[Tensor, "images 3 height width"]) -> bool:
    """Whether no image has colours."""
    return bool((images[:, :1] == images).all())


@dataclass(frozen=True)
class Better:
    """Another way by which people's own scores stand out more than by chance; the scores are means over people."""

    way: Way
    own: float
    declared: float
    lower: float


def better_way(
    network: Backbone, images: UInt8[Tensor, "images 3 height width"], ways: Sequence[Way], flip: bool
) -> tuple[Better | None, float]:
    """The way by which own scores stand out the most, if that is beyond chance; and the own score as they are.

    Args:
        network: the network.
        images: two images of each person, one after the other.
        ways: the other ways.
        flip: whether the mirror image's embedding is added.
    """
    few = images[: 2 * _FIRST]
    promising = _own(network, few, AS_THEY_ARE, flip).mean()
    likely = [way for way in ways if _own(network, few, way, flip).mean() > promising]
    declared = _own(network, images, AS_THEY_ARE, flip)
    found: list[Better] = []
    for way in likely:
        own = _own(network, images, way, flip)
        gains = own - declared
        lower, _ = mean_bounds(gains.tolist(), 1 - 2 * FALSE_ALARM / len(ways))
        least = (LEAST_GAIN if own.mean() >= WEAK else LEAST_OF_WEAK) * own.mean()
        if own.mean() >= WORKS and lower > 0 and gains.mean() >= least:
            found.append(Better(way, float(own.mean()), float(declared.mean()), lower))
    return max(found, key=lambda better: better.own, default=None), float(declared.mean())


def _own(
    network: Backbone, images: UInt8[Tensor, "images 3 height width"], way: Way, flip: bool
) -> Float64[np.ndarray, " people"]:
    return standing_out(np.sum(embedded(network, images, way, flip), 0))
