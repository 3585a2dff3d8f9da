"""MTCNN as a function from images to faces: an image pyramid and three networks, with non-maximum suppression."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float32, Int64, UInt8
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.images.detect.boxes import corrected, separate, squares
from verisphere.images.detect.detections import Detections, Image
from verisphere.images.detect.nets import OutputNet, ProposalNet, RefinementNet, trained_nets
from verisphere.images.detect.sample import halvings, halvings_for, sample

_SHRINK = 0.709  # factor between levels of the pyramid: the area halves
_CROPS_AT_ONCE = 512  # crops per run of a network; bounds the memory
# Pixels of images of equal size that are searched at a time: more exceed the caches of a CPU, fewer leave a GPU idle.
_PIXELS_AT_ONCE, _PIXELS_AT_ONCE_ON_GPU = 500_000, 8_000_000

Batch = Float[Tensor, "batch 3 _ _"]
Owners = Int64[np.ndarray, " boxes"]  # position in the batch of the image that a box lies in
Boxes = Float32[np.ndarray, "boxes 4"]
Scores = Float32[np.ndarray, " boxes"]


class Detector:
    """Finds faces and their five landmarks (Zhang et al. 2016, arXiv:1604.02878) by the weights in the `mtcnn` wheel.

    An image without any face is searched again inside a border: the networks search squares, and a face that fills its
    image, as in a tight crop, fits into none.

    Args:
        min_face: side of the smallest face that is searched for, in pixels of the searched image; 12 or more.
        max_side: an image with a longer side is shrunk to it for the search; results are in pixels of the original.
        thresholds: the probability that a box must exceed, one for each of the three networks.
        border: width of the border, in longer sides of the image; 0 for no second search.
    """

    name = "MTCNN"

    def __init__(
        self,
        device: str | torch.device = "cpu",
        *,
        min_face: int = 20,
        max_side: int = 1280,
        thresholds: tuple[float, float, float] = (0.6, 0.7, 0.8),
        border: int | float = 0.5,
    ) -> None:
        if min_face < 12:
            raise ValueError(f"min_face is {min_face}; allowed is 12 or more, as the first network looks at 12 x 12")
        if max_side < min_face:
            raise ValueError(f"max_side is {max_side}; allowed is min_face ({min_face}) or more")
        if not all(0 < threshold < 1 for threshold in thresholds):
            raise ValueError(f"thresholds are {thresholds}; allowed are probabilities between 0 and 1")
        if not 0 <= border <= 2:
            raise ValueError(f"border is {border}; allowed is 0 (no second search) to 2 longer sides of the image")
        self.device = torch.device(device)
        self.min_face, self.max_side, self.thresholds, self.border = min_face, max_side, thresholds, border
        self.propose, self.refine, self.output = trained_nets(self.device)

    @torch.inference_mode()
    @full_float32()
    def detect(self, images: Sequence[Image]) -> list[Detections]:
        """The faces in each image, which up to rounding does not depend on the others."""
        found = self._detect(images, 0.0)
        missed = [index for index, faces in enumerate(found) if not len(faces)]
        if self.border and missed:
            again = self._detect([images[index] for index in missed], float(self.border))
            for index, faces in zip(missed, again, strict=True):
                found[index] = faces
        return found

    def how_searched(self, height: int, width: int) -> str:
        """The side of the smallest face that is searched for in an image of this size, in its pixels."""
        scale = max(1, max(height, width) / self.max_side)
        return f"looked for from {self.min_face * scale:.0f} pixels a side"

    def _detect(self, images: Sequence[Image], border: float) -> list[Detections]:
        found: dict[int, Detections] = {}
        for positions in self._together(images, border):
            small = torch.stack([shrunk(images[index], self.max_side) for index in positions]).to(self.device)
            height, width = small.shape[2:]
            margin = round(border * max(height, width))
            # Zero is the grey between black and white here, also where a crop extends beyond the image.
            batch = F.pad((small.float() - 127.5) / 128, (margin,) * 4)
            for index, faces in zip(positions, self._search(batch), strict=True):
                scale = np.array([images[index].shape[1] / width, images[index].shape[0] / height], np.float32)
                found[index] = Detections(
                    (faces.boxes - margin) * np.tile(scale, 2),
                    (faces.landmarks - margin + 0.5) * scale - 0.5,
                    faces.scores,
                )
        return [found[index] for index in range(len(images))]

    def _together(self, images: Sequence[Image], border: float) -> Iterator[list[int]]:
        """Positions of images of equal size that are searched together."""
        by_size: dict[tuple[int, ...], list[int]] = {}
        for index, image in enumerate(images):
            by_size.setdefault(image.shape, []).append(index)
        for (height, width, _), positions in by_size.items():
            margin, scale = 2 * border * max(height, width), min(1, self.max_side / max(height, width))
            searched = (height + margin) * (width + margin) * scale**2
            count = max(1, int((_PIXELS_AT_ONCE if self.device.type == "cpu" else _PIXELS_AT_ONCE_ON_GPU) / searched))
            yield from (positions[start : start + count] for start in range(0, len(positions), count))

    def _search(self, batch: Batch) -> list[Detections]:
        """The faces in images of equal size, in their pixels."""
        largest = max(batch.shape[2:]) / self.refine.side  # step of a crop that shows all of the image
        copies = halvings(batch, int(halvings_for(np.array([largest]))[0]))
        owners, boxes = self._proposals(copies)

        scores, offsets = _outputs_for(self.refine, copies, owners, boxes)
        sure = scores > self.thresholds[1]
        owners, boxes, scores = owners[sure], corrected(boxes, offsets)[sure], scores[sure]
        rows = separate(owners, boxes, scores, 0.7)
        owners, boxes = owners[rows], squares(boxes[rows])

        scores, offsets, places = _outputs_for(self.output, copies, owners, boxes)
        # The networks were trained on coordinates of pixel centres with crops along pixel edges: no half is added.
        corner, sides = boxes[:, None, :2], boxes[:, None, 2:] - boxes[:, None, :2]
        landmarks = corner + sides * places.reshape(-1, 2, 5).swapaxes(1, 2)
        sure = scores > self.thresholds[2]
        owners, boxes, scores, landmarks = owners[sure], corrected(boxes, offsets)[sure], scores[sure], landmarks[sure]
        rows = separate(owners, boxes, scores, 0.7, "smaller")
        each = [rows[owners[rows] == index] for index in range(len(batch))]
        return [Detections(boxes[mine], landmarks[mine], scores[mine]) for mine in each]

    def _proposals(self, copies: Sequence[Batch]) -> tuple[Owners, Boxes]:
        """Squares that may contain a face, and the position of the image of each square."""
        scale = self.propose.side / self.min_face
        levels = []
        while min(copies[0].shape[2:]) * scale >= self.propose.side:
            levels.append(self._proposals_at(copies, scale))
            scale *= _SHRINK
        if not levels:
            return np.zeros(0, np.int64), np.zeros((0, 4), np.float32)
        owners, boxes, scores = (np.concatenate(column) for column in zip(*levels, strict=True))
        rows = separate(owners, boxes, scores, 0.7)
        return owners[rows], squares(boxes[rows])

    def _proposals_at(self, copies: Sequence[Batch], scale: float) -> tuple[Owners, Boxes, Scores]:
        """The proposals of the first network in the images at one scale."""
        images, pixel = _scaled(copies, scale)
        probability, offsets = self.propose(images.contiguous(memory_format=torch.channels_last))
        image, row, column = (probability > self.thresholds[0]).nonzero(as_tuple=True)
        scores = probability[image, row, column].cpu().numpy()
        corner = self.propose.stride * torch.stack([column, row], 1).cpu().numpy()
        boxes = np.concatenate([corner, corner + self.propose.side], 1) * np.tile(pixel, 2)
        boxes = corrected(boxes.astype(np.float32), offsets[image, :, row, column].cpu().numpy())
        owners = image.cpu().numpy()
        rows = separate(owners, boxes, scores, 0.5)
        return owners[rows], boxes[rows], scores[rows]


def shrunk(image: Image, max_side: int) -> UInt8[Tensor, "3 height width"]:
    """The image, with its longer side at most `max_side`."""
    pixels = torch.tensor(image).permute(2, 0, 1)
    scale = max_side / max(pixels.shape[1:])
    if scale >= 1:
        return pixels
    size = [max(1, round(side * scale)) for side in pixels.shape[1:]]
    return F.interpolate(pixels[None], size, mode="bilinear", antialias=True)[0]


def _scaled(copies: Sequence[Batch], scale: float) -> tuple[Batch, np.ndarray]:
    """The images at another scale, and the (width, height) of their pixels in pixels of the first copy."""
    halved = min(int(halvings_for(np.array([1 / scale]))[0]), len(copies) - 1)
    extent = [side * 2**halved for side in copies[halved].shape[2:]]
    size = [max(ProposalNet.side, round(side * scale)) for side in extent]
    images = F.interpolate(copies[halved], size, mode="bilinear", antialias=True)
    return images, np.array([extent[1] / size[1], extent[0] / size[0]])


def _outputs_for(
    net: RefinementNet | OutputNet, copies: Sequence[Batch], owners: Owners, boxes: Boxes
) -> list[np.ndarray]:
    """Every output of the network for crops of these square boxes."""
    parts = []
    for start in range(0, max(len(boxes), 1), _CROPS_AT_ONCE):  # at least once: no boxes give empty outputs
        rows = slice(start, start + _CROPS_AT_ONCE)
        crops = _crops(copies, owners[rows], boxes[rows], net.side)
        parts.append([output.cpu().numpy() for output in net(crops)])
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _crops(copies: Sequence[Batch], owners: Owners, boxes: Boxes, side: int) -> Float[Tensor, "crops 3 side side"]:
    """The crops of square boxes, `side` x `side` pixels each."""
    steps = (boxes[:, 2] - boxes[:, 0]) / side
    halved = np.minimum(halvings_for(steps), len(copies) - 1)
    matrices = np.zeros((len(boxes), 2, 3), np.float32)
    matrices[:, 0, 0] = matrices[:, 1, 1] = steps
    matrices[:, :, 2] = boxes[:, :2]
    matrices /= (2.0 ** halved[:, None, None]).astype(np.float32)
    placed = torch.from_numpy(matrices).to(copies[0].device)
    crops = torch.empty(len(boxes), 3, side, side, device=copies[0].device, memory_format=torch.channels_last)
    for owner, level in np.unique(np.stack([owners, halved], 1), axis=0):
        rows = torch.from_numpy(np.flatnonzero((owners == owner) & (halved == level))).to(crops.device)
        crops[rows] = sample(copies[level][owner], placed[rows], (side, side), places=1)
    return crops
