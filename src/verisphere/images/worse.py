"""Worse copies of aligned faces, by which an enrolment gate is chosen: small faces enlarged, motion, defocus."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from scipy.ndimage import convolve
from torch import Tensor

from verisphere.base.vocabulary import ImageSource
from verisphere.images.faces import Faces

#: How far each kind goes in a crop of 112 pixels: pixels across the reduced crop, pixels of motion, radius of the disc.
RANGES = {"reduced": (12.0, 32.0), "motion": (8.0, 24.0), "defocus": (3.0, 8.0)}
_PARTS = 5  # by which a pixel of a kernel is divided on each axis


def reduced(face: np.ndarray, side: float, draw: np.random.Generator) -> np.ndarray:
    """A crop of so many pixels, enlarged again as an alignment does, by one of two filters."""
    small = Image.fromarray(face).resize((round(side), round(side)), Image.Resampling.BILINEAR)
    filters = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC)
    return np.asarray(small.resize((face.shape[1], face.shape[0]), filters[draw.integers(2)]))


def motion(face: np.ndarray, length: float, draw: np.random.Generator) -> np.ndarray:
    """The camera or the face moved along a line of so many pixels, in any direction."""
    angle = draw.uniform(0, math.pi)

    def near(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
        return (np.abs(along) <= length / 2) & (np.abs(across) <= 0.5)

    return _blurred(face, near, length / 2)


def defocus(face: np.ndarray, radius: float, draw: np.random.Generator) -> np.ndarray:
    """Each point became a disc of this radius."""
    return _blurred(face, lambda x, y: np.hypot(x, y) <= radius, radius)


def _blurred(face: np.ndarray, inside: Callable[[np.ndarray, np.ndarray], np.ndarray], reach: float) -> np.ndarray:
    """The mean over a shape around each pixel, which is drawn with `_PARTS` points a pixel on each axis."""
    side = 2 * math.ceil(reach + 0.5) + 1
    points = (np.arange(side * _PARTS) - (side * _PARTS - 1) / 2) / _PARTS
    kernel = inside(points[None], points[:, None]).reshape(side, _PARTS, side, _PARTS).mean((1, 3))
    kernel = (kernel / kernel.sum()).astype(np.float32)
    planes = [convolve(face[..., colour].astype(np.float32), kernel, mode="nearest") for colour in range(3)]
    return np.stack(planes, -1).round().clip(0, 255).astype(np.uint8)


KINDS = {"reduced": reduced, "motion": motion, "defocus": defocus}


def worse(face: np.ndarray, seed: int, image: int) -> tuple[np.ndarray, str, float]:
    """A worse copy of an image, its kind (reduced half of the time, else blurred) and how far it goes."""
    draw = np.random.default_rng([seed, image])
    kind = ("reduced", "reduced", "motion", "defocus")[draw.integers(4)]
    extent = draw.uniform(*RANGES[kind])
    return KINDS[kind](face, extent, draw), kind, extent


class Worse(Faces):
    """A worse copy of each image of a set; equal sets have equal copies."""

    def __init__(self, faces: Faces) -> None:
        self.faces, self.names, self.identities = faces, faces.names, faces.identities
        self.names_rule = faces.names_rule

    @property
    def source(self) -> ImageSource:
        """Source of the images of the set."""
        return self.faces.source

    def images(self, indices: Sequence[int]) -> UInt8[Tensor, "batch 3 height width"]:
        """The copies at these positions."""
        faces = self.faces.images(indices).permute(0, 2, 3, 1).numpy()
        copies = [worse(face, 0, place)[0] for face, place in zip(faces, indices, strict=True)]
        return torch.from_numpy(np.stack(copies)).permute(0, 3, 1, 2).contiguous()
