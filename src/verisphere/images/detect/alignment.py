"""Alignment of five landmarks to a template: the rotation, scale and shift between them, and the crop of a photo."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt8

from verisphere.images.detect.detections import Image
from verisphere.images.detect.sample import halvings, halvings_for, sample

Points = Float[np.ndarray, "5 2"]

_FINE = math.sqrt(2)  # image pixels between neighbours in a crop; beyond it one sample per pixel is too few

# Least likeness of the shape of the landmarks to that of the template; 1 for equal shapes. A profile has about 0.8, a
# mirrored face 0.2.
_LEAST_LIKENESS = 0.4


@dataclass(frozen=True)
class Template:
    """The places of the five landmarks in an aligned crop.

    Attributes:
        points: (x, y) of left eye, right eye, nose, left and right mouth corner as seen in the crop, in pixels; the
            centre of the first pixel is (0, 0).
    """

    name: str
    height: int
    width: int
    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if min(self.height, self.width) < 1:
            raise ValueError(f"template {self.name}: {self.height} x {self.width} pixels; allowed is 1 or more")
        if [len(point) for point in self.points] != [2] * 5:
            raise ValueError(f"template {self.name}: {self.points} are not five points of x and y")

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the crop."""
        return self.height, self.width


# The template that ArcFace's code introduced, for 112 x 112 pixels.
_ARCFACE = ((38.2946, 51.6963), (73.5318, 51.5014), (56.0252, 71.7366), (41.5493, 92.3655), (70.7299, 92.2041))

#: Templates by name; the name ends in height x width.
#: `sphereface_112x96` is the older template of SphereFace and CosFace: 8 pixels less on the left and on the right.
#: `arcface_144x144` has the field of view of `arcface_112x112` in 144 / 112 as many pixels: it is scaled about the
#: corner of the crop.
TEMPLATES = {
    template.name: template
    for template in (
        Template("arcface_112x112", 112, 112, _ARCFACE),
        Template("sphereface_112x96", 112, 96, tuple((x - 8, y) for x, y in _ARCFACE)),
        Template(
            "arcface_144x144",
            144,
            144,
            tuple(((x + 0.5) * 144 / 112 - 0.5, (y + 0.5) * 144 / 112 - 0.5) for x, y in _ARCFACE),
        ),
    )
}


def template_named(name: str) -> Template:
    """The template of this name."""
    if name not in TEMPLATES:
        raise ValueError(f"template {name!r} is not known; allowed are {', '.join(TEMPLATES)}")
    return TEMPLATES[name]


def resized(template: Template, size: tuple[int, int], share: float = 1.0) -> Template:
    """A template for crops of another size, whose height shows `share` of the height that the template shows.

    The middle stays in the middle; a crop that is wider or narrower in proportion shows more or less on its sides.

    >>> resized(TEMPLATES["sphereface_112x96"], (112, 112)).points == TEMPLATES["arcface_112x112"].points
    True

    Args:
        size: (height, width) of the crop, in pixels.
        share: below 1 the face is larger in the crop, above 1 smaller.
    """
    height, width = size
    scale = height / (template.height * share)
    points = tuple(
        (
            (x + 0.5 - template.width / 2) * scale + width / 2 - 0.5,
            (y + 0.5 - template.height / 2) * scale + height / 2 - 0.5,
        )
        for x, y in template.points
    )
    return Template(template.name, height, width, points)


def similarity(points: Points, targets: Points) -> Float64[np.ndarray, "2 3"]:
    """The matrix, of (x, y, 1), of the rotation, scale and shift with the least sum of squares from points to targets.

    The solution of Umeyama 1991 ("Least-squares estimation of transformation parameters between two point patterns",
    eqs. 40 to 42) in the plane, where it needs no decomposition: with a point (x, y) as the complex number x + iy, it
    is the line of best fit z -> a z + b. It holds no reflection, as no complex a mirrors the plane.
    """
    if not np.isfinite(points).all():
        raise ValueError(f"landmarks must be finite, got {_text(points)}")
    here, there = (np.asarray(places, np.float64) @ np.array([1, 1j]) for places in (points, targets))
    about, about_targets = here - here.mean(), there - there.mean()
    spread, spread_targets = np.linalg.norm(about), np.linalg.norm(about_targets)
    if spread < 1e-3:
        raise ValueError(f"landmarks must be apart, got {_text(points)}; do they come from a failed detection?")
    product = np.vdot(about, about_targets)
    if abs(product) < _LEAST_LIKENESS * spread * spread_targets:
        raise ValueError(
            f"landmarks {_text(points)} are not shaped like a face's; their order must be left eye, right eye, nose, "
            "left and right mouth corner, left and right as seen in the image"
        )
    turn = product / spread**2
    shift = there.mean() - turn * here.mean()
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def align(image: Image, landmarks: Points, template: Template) -> UInt8[np.ndarray, "height width 3"]:
    """The crop of an image in which the five landmarks are as close to the template as a similarity allows.

    Sampling is bilinear, as usual; where the image has 1.4 times the resolution of the crop or more, every pixel under
    the crop contributes, so that fine detail does not alias. Places outside the image are black.

    Args:
        landmarks: (x, y) of left eye, right eye, nose, left and right mouth corner as seen in the image, in pixels; the
            centre of the first pixel is (0, 0).
    """
    back = inverse(similarity(landmarks, np.array(template.points)))
    back[:, 2] += 0.5 - back[:, :2].sum(axis=1) / 2  # from centres at whole numbers to edges at whole numbers
    step = math.hypot(*back[:, 0])  # pixels of the image between neighbours in the crop
    halved = int(halvings_for(np.array([step]))[0])
    left, top, right, bottom = _region(back, template, image.shape[:2], 2**halved)
    if left >= right or top >= bottom:
        raise ValueError(
            f"landmarks {_text(landmarks)} put the face outside the {image.shape[1]} x {image.shape[0]} image"
        )
    region = torch.tensor(image[top:bottom, left:right]).permute(2, 0, 1)[None].float()
    copies = halvings(region, halved)
    back[:, 2] -= left, top
    matrix = torch.from_numpy(back / 2 ** (len(copies) - 1)).float()
    crop = sample(copies[-1][0], matrix[None], template.size, places=2 if step > _FINE else 1)[0]
    return crop.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()


def inverse(matrix: Float64[np.ndarray, "2 3"]) -> Float64[np.ndarray, "2 3"]:
    """The inverse of a similarity."""
    turned = np.linalg.inv(matrix[:, :2])
    return np.concatenate([turned, -turned @ matrix[:, 2:]], axis=1)


def _region(
    back: Float64[np.ndarray, "2 3"], template: Template, size: tuple[int, ...], multiple: int
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of the region of an image that a crop needs, in whole multiples or up to the edge."""
    right, bottom = template.width, template.height
    corners = np.array([[0, right, 0, right], [0, 0, bottom, bottom], [1, 1, 1, 1]])
    seen = back @ corners
    low = np.floor(seen.min(axis=1) / multiple - 1) * multiple
    high = np.ceil(seen.max(axis=1) / multiple + 1) * multiple
    low, high = np.maximum(low, 0), np.minimum(high, (size[1], size[0]))
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _text(points: np.ndarray) -> str:
    return " ".join(f"({x:.6g}, {y:.6g})" for x, y in points)
