"""A test of whether images look like aligned crops of faces, on a sample of a set, never on a single image.

With the detector, five landmarks are found in each image. The similarity that maps them to the template moves the
points of the template by a distance: about 2 of 112 pixels for crops aligned by the landmarks of another detector, 7
and more for faces cut out by their boxes, 14 for whole photographs.

Without the detector, brightness is used: below an eye, and near the tip of the nose, a face is brighter than at the eye
itself. In aligned crops the positions of the template show this difference; if the face lies elsewhere, they do not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from verisphere.images.detect.alignment import TEMPLATES, Points, Template, inverse, similarity
from verisphere.images.detect.crop import choose_face
from verisphere.images.detect.detections import Image
from verisphere.images.detect.detector import Detector
from verisphere.images.luma import LUMA

#: Most images of a set that are examined.
SAMPLE = 64

_MOST_DISPLACEMENT = 5 / 112  # share of the crop's height; a set with a larger median is not aligned
# Least lower quartile of the detector's scores; below it, the images may be drawings, or show no faces.
_SURE_SCORE = 0.995
_LEAST_CONTRAST = 0.45  # standard deviations of an image's brightness
_LEAST_IMAGES = 32  # images from which the mean contrast is significant
# Width for height of the landmarks of a set beside the template's. Measured with the detector: 1.09 to 1.18 for aligned
# sets, and 1.18 to 1.34 for sets that were stretched by a sixth: only the clear ones are doubted.
_WIDE = (0.95, 1.22)
_LEAST_FACES = 16  # images from which the median displacement is significant, where they may be drawings


@dataclass(frozen=True)
class Doubt:
    """The reason, in figures, why images do not look like aligned crops, and the places of the furthest ones."""

    reason: str
    examples: tuple[int, ...]


def template_of_size(size: tuple[int, int]) -> Template | None:
    """The template whose crops have this (height, width), if there is one."""
    return next((template for template in TEMPLATES.values() if template.size == size), None)


def doubt_alignment(
    images: Sequence[Image], template: Template, detector: Detector | None, *, photographs: bool = False
) -> Doubt | None:
    """The reason why images do not look aligned to a template; None if they do, or if the evidence is too weak.

    Of `photographs`, images that are known not to be drawings, fewer than sixteen can be judged by landmarks.
    """
    if detector is None:
        return _doubt_by_brightness(images, template)
    return None if len(images) < _LEAST_FACES and not photographs else _doubt_by_landmarks(images, template, detector)


def _doubt_by_landmarks(images: Sequence[Image], template: Template, detector: Detector) -> Doubt | None:
    landmarks = sure_landmarks(images, template, detector)
    if not landmarks:
        return None
    away = {position: displacement(points, template) for position, points in landmarks.items()}
    middle = float(np.median([*away.values()]))
    if middle <= _MOST_DISPLACEMENT * template.height:
        return None
    return Doubt(
        f"the faces found in {len(away)} of {len(images)} images lie {middle:.0f} pixels from their places in "
        f"{template.name} (median; 2 to 3 where images are aligned)",
        tuple(sorted(away, key=lambda position: (-away[position], position))),
    )


def sure_landmarks(images: Sequence[Image], template: Template, detector: Detector) -> dict[int, Points]:
    """The landmarks of the faces that are found, by position; none where few are, or where they may be drawings."""
    with_face = [(position, faces) for position, faces in enumerate(detector.detect(images)) if len(faces)]
    if 2 * len(with_face) <= len(images):
        return {}
    chosen = [(position, faces, choose_face(faces, *template.size)) for position, faces in with_face]
    if np.quantile([faces.scores[face] for _, faces, face in chosen], 0.25) < _SURE_SCORE:
        return {}
    return {position: faces.landmarks[face] for position, faces, face in chosen}


def doubt_shape(landmarks: Sequence[Points], template: Template) -> Doubt | None:
    """The reason why all faces look stretched alike: the size of a displacement does not show it, its direction does.

    The affine map from the template to the landmarks is estimated for each of sixteen faces or more; their mean has a
    small error.
    """
    if len(landmarks) < _LEAST_FACES:
        return None
    points = np.concatenate([np.array(template.points), np.ones((5, 1))], 1)
    maps = np.array([np.linalg.lstsq(points, np.array(face, np.float64), rcond=None)[0] for face in landmarks])
    ratio = np.log(np.linalg.norm(maps[:, 0], axis=1) / np.linalg.norm(maps[:, 1], axis=1))
    middle, error = float(ratio.mean()), float(ratio.std(ddof=1) / np.sqrt(len(ratio)))
    if np.log(_WIDE[0]) <= middle + error and middle - error <= np.log(_WIDE[1]):
        return None
    return Doubt(f"the faces of {len(ratio)} images are {np.exp(middle):.2f} times as wide for their height as in "
                 f"{template.name} (mean; 1.1 to 1.2 where images are aligned)", ())  # fmt: skip


def displacement(landmarks: Points, template: Template) -> float:
    """Mean distance in pixels by which the points of the template move under the similarity closest to the landmarks.

    So a profile can be in its place although its landmarks do not fit the template.
    """
    points = np.array(template.points)
    try:
        back = inverse(similarity(landmarks, points))
    except ValueError:  # not shaped like a face's
        return float(template.height)
    return float(np.linalg.norm(points @ back[:, :2].T + back[:, 2] - points, axis=1).mean())


def _doubt_by_brightness(images: Sequence[Image], template: Template) -> Doubt | None:
    if len(images) < _LEAST_IMAGES:
        return None
    contrast = np.array([eye_contrast(image, template) for image in images])
    if contrast.mean() >= _LEAST_CONTRAST:
        return None
    return Doubt(
        f"in {len(images)} images the places of the eyes in {template.name} are darker than cheeks and nose by "
        f"{contrast.mean():.1f} standard deviations of brightness (mean; about 2 where images are aligned)",
        tuple(np.argsort(contrast, kind="stable").tolist()),
    )


def eye_contrast(image: Image, template: Template) -> float:
    """Difference in brightness of the places below the eyes and above the tip of the nose to the places of the eyes.

    The sum of both differences, in standard deviations of the image's brightness: about 2.3 in aligned crops.
    """
    grey = image.astype(np.float64) @ LUMA
    unit = float(np.linalg.norm(np.subtract(template.points[1], template.points[0])))  # between the eyes: 35 of 112

    def brightness(x: float, y: float, wide: float, high: float) -> float:
        left, right, top, bottom = (round(edge) for edge in (x - wide, x + wide, y - high, y + high))
        return float(grey[max(top, 0) : bottom + 1, max(left, 0) : right + 1].mean())

    eyes = template.points[:2]
    dark = np.mean([brightness(x, y, 0.17 * unit, 0.085 * unit) for x, y in eyes])
    below = np.mean([brightness(x, y + 0.27 * unit, 0.17 * unit, 0.085 * unit) for x, y in eyes])
    x, y = template.points[2]
    nose = brightness(x, y - 0.1 * unit, 0.115 * unit, 0.115 * unit)
    return float((below + nose - 2 * dark) / (grey.std() + 0.001 * 255))


def checking_detector() -> Detector | None:
    """A detector for `doubt_alignment`, which searches once; None where its weights are not installed."""
    try:
        with torch.random.fork_rng(devices=()):  # the networks start with random weights
            return Detector("cpu", border=0)
    except ValueError:
        return None
