"""The faces that a probe passes to a network: aligned crops unchanged, or crops of photographs by templates."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from verisphere.base.device import choose_device
from verisphere.base.vocabulary import Progress, quietly
from verisphere.images.decoded_faces import InMemory
from verisphere.images.detect import TEMPLATES, Detector, FaceDetector, Template, align, choose_face
from verisphere.images.detect.alignment import resized
from verisphere.images.detect.placement import SAMPLE, checking_detector, doubt_alignment, template_of_size
from verisphere.images.faces import Faces
from verisphere.images.photos import Photos
from verisphere.images.synthetic.synthetic_faces import SyntheticFaces

#: Sides of the middle part of an aligned face that is given, enlarged to the whole: the template of a model may be
#: tighter.
CROPS = (1.0, 0.86)
#: Shares of a template's view that are cut from photographs, where there is more around a face than a crop has.
SHARES = (1.0, 0.86, 1.16)
_PHOTOGRAPHS_AT_ONCE = 16
_DRAWN_PEOPLE = 12
#: Template, whose name is empty where faces are taken as they are, and share of its view.
View = tuple[str, float]


@dataclass(frozen=True, eq=False)
class ProbeFaces:
    """Two images of each person, one after the other, seen in several ways, of which the first is the model's own."""

    images: dict[View, UInt8[Tensor, "images 3 height width"]]
    people: int
    origin: str


def probe_faces(
    faces: Faces,
    pairs: Sequence[tuple[int, int]],
    size: tuple[int, int],
    detector: FaceDetector | None = None,
    progress: Progress = quietly,
) -> ProbeFaces:
    """The unchanged faces if they look aligned; else crops of the photographs by every template.

    Each photograph is searched once, and all crops are cut by its landmarks. People without a face on one of their two
    photographs are excluded. Photographs need not look unaligned for a detector that is given; by default MTCNN is
    taken where the images look unaligned and it is installed.
    """
    rows = [index for pair in pairs for index in pair]
    if isinstance(faces, Photos) and (detector is not None or not _look_aligned(faces, rows, size)):
        return _cut(faces, rows, size, detector or Detector(choose_device(None)), progress)
    images = faces.images(rows)
    views = {("", crop): _middle(images, crop) for crop in CROPS}
    origin = "drawn faces" if faces.source.drawn else "images as they are, which no detector finds to be unaligned"
    return ProbeFaces(views, len(pairs), origin)


def drawn_faces(size: tuple[int, int]) -> InMemory:
    """Two easy drawn images of each of a few people, of this height and width: enough to show a normalisation."""
    drawn = SyntheticFaces(_DRAWN_PEOPLE, 2, domains=["studio"], difficulty="easy")
    side, longest = drawn.size, max(size)
    tall, wide = (round(side * length / longest) for length in size)
    top, left = (side - tall) // 2, (side - wide) // 2
    middle = drawn.images(range(len(drawn)))[..., top : top + tall, left : left + wide]
    pixels = torch.nn.functional.interpolate(middle.float(), size, mode="bilinear", align_corners=False)
    return InMemory(pixels.round().to(torch.uint8), drawn.names, drawn.identities, source=drawn.source)


def _look_aligned(faces: Photos, rows: Sequence[int], size: tuple[int, int]) -> bool:
    """Whether a sample looks like aligned crops, is said to be, or cannot be judged."""
    if faces.source.drawn or faces.source.alignment:
        return True
    sample = rows[:: -(-len(rows) // SAMPLE)]
    template = template_of_size(size)
    if template is None and all(photograph.shape[:2] == size for photograph in faces.photographs(sample)):
        return True  # of the size of the network, and aligned in a way that is not known here
    detector = checking_detector()
    if detector is None:
        return True
    try:
        images = faces.images(sample)
    except ValueError:  # of another shape than any crop
        return False
    template = template or resized(TEMPLATES["arcface_112x112"], size)
    seen = [image.permute(1, 2, 0).numpy() for image in images]
    return doubt_alignment(seen, template, detector, photographs=True) is None


def templates_for(size: tuple[int, int]) -> list[Template]:
    """The known templates, each for crops of this size; those that come to the same are there once."""
    different: dict[tuple[tuple[float, float], ...], Template] = {}
    for template in sorted(TEMPLATES.values(), key=lambda template: template.size != size):
        fitting = resized(template, size)
        different.setdefault(tuple((round(x, 1), round(y, 1)) for x, y in fitting.points), fitting)
    return list(different.values())


def _cut(
    faces: Photos, rows: Sequence[int], size: tuple[int, int], detector: FaceDetector, progress: Progress
) -> ProbeFaces:
    targets = {
        (template.name, share): resized(template, size, share) for template in templates_for(size) for share in SHARES
    }
    crops: dict[View, list[np.ndarray]] = {view: [] for view in targets}
    missing: set[int] = set()
    starts = range(0, len(rows), _PHOTOGRAPHS_AT_ONCE)  # an even number: people are not divided
    for start in progress(starts, "finding faces", len(starts)):
        photographs = faces.photographs(rows[start : start + _PHOTOGRAPHS_AT_ONCE])
        searched = zip(photographs, detector.detect(photographs), strict=True)
        for place, (photograph, detections) in enumerate(searched, start):
            try:
                landmarks = detections.landmarks[choose_face(detections, *photograph.shape[:2])]
                cut = {view: align(photograph, landmarks, target) for view, target in targets.items()}
            except ValueError:  # no face, or none that can be aligned
                missing.add(place // 2)
                cut = {view: np.zeros((*size, 3), np.uint8) for view in targets}
            for view, crop in cut.items():
                crops[view].append(crop)
    whole = [place for place in range(len(rows)) if place // 2 not in missing]
    images = {
        view: torch.from_numpy(np.stack(cut)).permute(0, 3, 1, 2)[whole] if whole else torch.empty(0)
        for view, cut in crops.items()
    }
    origin = f"faces on photographs, found by {detector.name}"
    if missing:
        origin += f"; excluded, no face found: {len(missing)} people"
    return ProbeFaces(images, len(whole) // 2, origin)


def _middle(images: Tensor, crop: float) -> Tensor:
    """The middle part of each face, enlarged to the size of the whole."""
    if crop == 1:
        return images
    height, width = images.shape[-2:]
    high, wide = round(height * crop), round(width * crop)
    top, left = (height - high) // 2, (width - wide) // 2
    part = images[..., top : top + high, left : left + wide].float()
    whole = torch.nn.functional.interpolate(part, (height, width), mode="bilinear", align_corners=False)
    return whole.round().clamp(0, 255).to(torch.uint8)
