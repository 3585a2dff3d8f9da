"""Other ways to give the same faces to a network: by which rows were made, or by which it works better."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.images.luma import LUMA
from verisphere.ship.probe import NORMALISATIONS

#: Of a view of a face: what is shown at (x, y), in shares of half the sides, lies at the matrix times (x, y, 1).
Matrix = tuple[float | int, float | int, float | int, float | int, float | int, float | int]
Pixels = UInt8[Tensor, "images 3 height width"]
#: That of ImageNet, for each channel; no network of verisphere has it, but rows of other programs do.
IMAGENET = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
_BATCH = 64
VIEWS: dict[str, Matrix] = {
    **{f"a view of {size:.0%} of the sides": (size, 0, 0, 0, size, 0) for size in (0.75, 0.86, 1.16, 1.33)},
    **{f"a view of {wide:.0%} of the width": (wide, 0, 0, 0, 1, 0) for wide in (0.857, 1.167)},
    **{f"a view 8 % {where}": (1, 0, 0, 0, 1, down) for where, down in (("lower", 0.16), ("higher", -0.16))},
    **{f"a view 8 % further {where}": (1, 0, by, 0, 1, 0) for where, by in (("right", 0.16), ("left", -0.16))},
    **{f"faces turned by {by * 90} degrees": (0, by, 0, -by, 0, 0) for by in (1, -1)},
    "faces turned by 180 degrees": (-1, 0, 0, 0, -1, 0),
    "faces upside down": (1, 0, 0, 0, -1, 0),
}


def exchanged(images: Pixels) -> Pixels:
    """The images with red and blue exchanged."""
    return images.flip(1)


def grey(images: Pixels) -> Pixels:
    """The images without their colours."""
    luma = (images.float() * torch.tensor(LUMA, dtype=torch.float32).view(3, 1, 1)).sum(1, keepdim=True)
    return luma.round().to(torch.uint8).expand_as(images).contiguous()


def view(matrix: Matrix) -> Callable[[Pixels], Pixels]:
    """What shows another part of the images; the border is continued where it reaches beyond it."""

    def shown(images: Pixels) -> Pixels:
        matrices = torch.tensor(matrix, dtype=torch.float32).view(1, 2, 3).expand(len(images), 2, 3)
        grid = torch.nn.functional.affine_grid(matrices, list(images.shape), align_corners=False)
        moved = torch.nn.functional.grid_sample(images.float(), grid, padding_mode="border", align_corners=False)
        return moved.round().clamp(0, 255).to(torch.uint8)

    return shown


@dataclass(frozen=True)
class Way:
    """A way to give faces to a network, otherwise than it is said to take them."""

    cause: str = ""  # name of the mistake that it stands for
    text: str = "as they are"
    change: Callable[[Pixels], Pixels] | None = None  # of the images before they are normalised
    normal: tuple[float | tuple[float, ...], float | tuple[float, ...]] | None = None
    bfloat16: bool = False  # whether the network runs in it


AS_THEY_ARE = Way()


def other_pixels(network: Backbone, images: Pixels, normals: bool) -> Iterator[Way]:
    """Other colours and normalisations and both, since such mistakes meet; colours only of images that have some."""
    given = (network.mean, network.scale)
    others = [None, *(normal for normal in (*NORMALISATIONS, IMAGENET) if normals and normal != given)]
    for swapped in (False,) if (images[:, :1] == images).all() else (False, True):
        for normal in others:
            names = (["colour order"] if swapped else []) + (["mean and scale"] if normal else [])
            texts = ["red and blue exchanged"] if swapped else []
            texts += ["the mean and deviation of ImageNet"] if normal == IMAGENET else []
            texts += [f"(pixel - {normal[0]:g}) / {normal[1]:g}"] if normal and normal != IMAGENET else []
            if names:
                yield Way(" and ".join(names), " and ".join(texts), exchanged if swapped else None, normal)
    yield Way("mean and scale", "255 - pixel", torch.bitwise_not)


OTHER_VIEWS = tuple(Way("alignment or crop", text, view(matrix)) for text, matrix in VIEWS.items())
TURNED = tuple(way for way in OTHER_VIEWS if way.text.startswith("faces turned"))


@torch.inference_mode()
def embedded(
    network: Backbone, images: Pixels, way: Way = AS_THEY_ARE, mirrored: bool = True
) -> list[Float64[np.ndarray, "images dim"]]:
    """The rows of the images by a way and, if asked for, those of their mirror images."""
    given, (mean, scale) = copy.copy(network), (torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    if way.normal is not None:
        given.mean, given.scale = 0.0, 1.0
        mean, scale = (torch.tensor(part, dtype=torch.float32).view(-1, 1, 1) for part in way.normal)
    rows: list[list[np.ndarray]] = [[], []] if mirrored else [[]]
    for part in (images if way.change is None else way.change(images)).split(_BATCH):
        normalised = (given.normalise(part) - mean) / scale
        for place, faces in zip(rows, (normalised, normalised.flip(-1)), strict=False):
            with torch.autocast("cpu", torch.bfloat16, enabled=way.bfloat16):
                place.append(given(faces).double().numpy())
    return [np.concatenate(place) for place in rows]


def cosines(rows: Float64[np.ndarray, "rows dim"], others: Float64[np.ndarray, "rows dim"]) -> np.ndarray:
    """The cosine of each row with the other one of its place."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return (rows * others).sum(1) / np.maximum(lengths, 1e-30)
