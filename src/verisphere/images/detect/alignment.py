"""Five landmarks to a template: the similarity between them, and the crop that it cuts out of a photo."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt8

from verisphere.images.detect.sample import halvings, halvings_for, sample

Points = Float[np.ndarray, "5 2"]
Image = UInt8[np.ndarray, "_ _ 3"]

_FINE = math.sqrt(2)  # pixels of the image between neighbours in a crop, above which one place a pixel is too few

# Of the landmarks' shape with the template's, 1 where one is a moved copy of the other. A face seen from the side has
# about 0.8, a mirrored one 0.2.
_LEAST_LIKENESS = 0.4


@dataclass(frozen=True)
class Template:
    """Where the five landmarks come to lie in an aligned crop.

    Attributes:
        name: as recipes, model folders and the command line spell it.
        height, width: of the crop, in pixels.
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
#: `sphereface_112x96` is the older one of SphereFace and CosFace: the same with 8 pixels less on either side.
#: `arcface_144x144` shows what `arcface_112x112` shows, in 144 / 112 as many pixels: its scale is about the edge of the
#: crop, so that both have the same field of view.
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
    """The template of this name.

    Raises:
        ValueError: there is none; says which there are.
    """
    if name not in TEMPLATES:
        raise ValueError(f"template {name!r} is not known; allowed are {', '.join(TEMPLATES)}")
    return TEMPLATES[name]


def similarity(points: Points, targets: Points) -> Float64[np.ndarray, "2 3"]:
    """The rotation, scale and shift that brings points closest to targets, in the sum of squared distances.

    The solution of Umeyama 1991 ("Least-squares estimation of transformation parameters between two point patterns",
    eqs. 40 to 42) in the plane, where it needs no decomposition: with a point (x, y) as the complex number x + iy, it
    is the line of best fit z -> a z + b. It holds no reflection, as no complex a mirrors the plane.

    Returns:
        the matrix for (x, y, 1), from points to targets.

    Raises:
        ValueError: points that are not finite or all the same, or whose shape is unlike the targets' altogether.
    """
    if not np.isfinite(points).all():
        raise ValueError(f"landmarks must be finite, got {_text(points)}")
    here, there = (np.asarray(each, np.float64) @ np.array([1, 1j]) for each in (points, targets))
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
    """The crop of an image in which the five landmarks lie as in the template, as well as a similarity can bring them.

    Bilinear, as is usual; but of an image that is much larger than the crop (1.4 times and more), every pixel under the
    crop has its share, so that fine detail does not alias. What lies outside the image is black.

    Args:
        image: RGB, [0, 255].
        landmarks: (x, y) of left eye, right eye, nose, left and right mouth corner as seen in the image, in pixels; the
            centre of the first pixel is (0, 0).
        template: where they are to come.

    Raises:
        ValueError: as `similarity`, or the crop lies outside the image altogether.
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
    """The way back of a similarity."""
    turned = np.linalg.inv(matrix[:, :2])
    return np.concatenate([turned, -turned @ matrix[:, 2:]], axis=1)


def _region(
    back: Float64[np.ndarray, "2 3"], template: Template, size: tuple[int, ...], multiple: int
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of all that a crop needs of an image: whole multiples, or the image's own edge."""
    right, bottom = template.width, template.height
    corners = np.array([[0, right, 0, right], [0, 0, bottom, bottom], [1, 1, 1, 1]])
    seen = back @ corners
    low = np.floor(seen.min(axis=1) / multiple - 1) * multiple
    high = np.ceil(seen.max(axis=1) / multiple + 1) * multiple
    low, high = np.maximum(low, 0), np.minimum(high, (size[1], size[0]))
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _text(points: np.ndarray) -> str:
    return " ".join(f"({x:.6g}, {y:.6g})" for x, y in points)
