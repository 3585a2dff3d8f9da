"""Augmentation and normalisation of whole batches on the device, in as few passes over the pixels as possible."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float32, Shaped, UInt8
from torch import Tensor

from verisphere.images.luma import LUMA

# One column of random numbers for each decision, drawn whether it is used or not, so that enabling one step does not
# change the others.
_DRAWS = ("flip", "zoom", "shift_y", "shift_x", "degrade", "side", "brightness", "contrast", "saturation", "grey",
          "erase", "area", "aspect", "top", "left")  # fmt: skip


@dataclass(frozen=True)
class Augment:
    """The augmentation of training images; a step at 0 is off and costs nothing. By default images are only flipped.

    >>> Augment(crop=0.1, low_resolution=0.2).flip  # the default stays
    0.5

    Attributes:
        flip: probability of a mirror image.
        crop: jitter of the framing. The window's side is (1 - crop) to (1 + crop) of the image's, and its centre moves
            by up to crop / 2 of the side on each axis; beyond the border, the pixels of the border are repeated.
        low_resolution: probability of shrinking the image, antialiased, and enlarging it again.
        smallest_side: least length of the shorter side of the shrunk image, in pixels; drawn log-uniformly.
        brightness: the image is multiplied by 1 - brightness to 1 + brightness.
        contrast: distances from the image's mean luma are multiplied by 1 - contrast to 1 + contrast.
        saturation: distances from each pixel's luma are multiplied by 1 - saturation to 1 + saturation.
        grey: probability that the image becomes grey.
        erase: probability that a rectangle is set to the mean, which is 0 after normalisation.
        largest_erased: largest area of the rectangle, as a share of the image; the smallest is a quarter of it, and the
            sides are at most 2 : 1.
    """

    flip: float = 0.5
    crop: float = 0.0
    low_resolution: float = 0.0
    smallest_side: int = 16
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    grey: float = 0.0
    erase: float = 0.0
    largest_erased: float = 0.25

    def __post_init__(self) -> None:
        for field in ("flip", "low_resolution", "grey", "erase"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field} is {getattr(self, field)}; a probability lies in [0, 1]")
        for field in ("crop", "brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, field) < 1:
                raise ValueError(f"{field} is {getattr(self, field)}; a strength lies in [0, 1), 0 is off")
        if not 0 < self.largest_erased <= 0.5:
            raise ValueError(f"largest_erased is {self.largest_erased}; a share of the area lies in (0, 0.5]")
        if self.smallest_side < 1:
            raise ValueError(f"smallest_side is {self.smallest_side}; allowed is 1 pixel or more")


def normalise(
    images: UInt8[Tensor, "batch 3 height width"], mean: float = 127.5, scale: float = 127.5
) -> Float32[Tensor, "batch 3 height width"]:
    """(images - mean) / scale, in channels-last memory.

    >>> normalise(torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)).unique()
    tensor([1.])
    """
    _check_scale(scale)
    return (images.contiguous(memory_format=torch.channels_last) - mean).div_(scale)


def augment(
    images: UInt8[Tensor, "batch 3 height width"],
    settings: Augment,
    seed: int,
    mean: float = 127.5,
    scale: float = 127.5,
    places: Sequence[int] | None = None,
) -> Float32[Tensor, "batch 3 height width"]:
    """Augmented images, normalised as by `normalise`, in channels-last memory.

    Flip, crop and low resolution are linear in rows and in columns: together they are one matrix for the rows and one
    for the columns of each image. Brightness, contrast, saturation and grey together are one sum of the image, its luma
    and an offset; values are clipped to [0, 255] once, after that sum. Steps that are off are not computed.

    >>> images = torch.arange(12, dtype=torch.uint8).view(1, 3, 2, 2)
    >>> mirrored = augment(images, Augment(flip=1.0), seed=0)
    >>> bool((mirrored == normalise(images.flip(3))).all())
    True

    Args:
        images: RGB, [0, 255].
        settings: the steps and their strengths.
        seed: determines every draw, in the same way on every device; each step of a training needs another seed.
        mean, scale: numbers of the normalisation, in units of [0, 255].
        places: position of each image in the whole batch, where ranks share one batch: the images are augmented as in
            the whole batch. None where the images are the whole batch, in order.

    Raises:
        ValueError: smallest_side is larger than the images, scale is not positive, or places does not have one position
            for each image.
    """
    _check_scale(scale)
    if places is not None and (len(places) != len(images) or min(places, default=0) < 0):
        raise ValueError(f"{len(places)} places from {min(places, default=0)} on came with {len(images)} images")
    height, width = images.shape[-2:]
    if settings.low_resolution and settings.smallest_side > min(height, width):
        raise ValueError(f"smallest_side is {settings.smallest_side} but the images are {height} x {width}")
    drawn = _draw(range(len(images)) if places is None else places, seed, images.device)
    if images.device.type == "cpu" and replace(settings, flip=0.0) == _OFF:
        return _mirrored(images, drawn["flip"] < settings.flip, mean, scale)
    # Half precision would round the weights of a resampling by a grey level.
    with torch.autocast(images.device.type, enabled=False):
        pixels = _reframe(images, settings, drawn)
        recoloured = settings.brightness or settings.contrast or settings.saturation or settings.grey
        if recoloured or settings.erase:  # these are several times faster on whole planes than between channels
            pixels = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        centred = _recolour(pixels, settings, drawn, mean) if recoloured else pixels - mean
        if settings.erase:
            centred.mul_(_kept(settings, drawn, height, width))
        return centred.div_(scale).contiguous(memory_format=torch.channels_last)


def mirrored_images(settings: Augment, seed: int, places: Sequence[int]) -> Bool[Tensor, " batch"]:
    """Which images `augment` mirrors, by the same arguments.

    >>> mirrored_images(Augment(flip=1.0), seed=0, places=range(2))
    tensor([True, True])
    """
    return _draw(places, seed, torch.device("cpu"))["flip"] < settings.flip


_OFF = Augment(flip=0.0)


def _mirrored(
    images: UInt8[Tensor, "batch 3 height width"], mirrored: Bool[Tensor, " batch"], mean: float, scale: float
) -> Float32[Tensor, "batch 3 height width"]:
    """Flip and normalisation, one image at a time, which then stays in the processor's cache."""
    normalised = torch.empty(images.shape, memory_format=torch.channels_last)
    for image, place, flip in zip(images, normalised, mirrored.tolist(), strict=True):
        torch.sub(image.flip(-1) if flip else image, mean, out=place).div_(scale)
    return normalised


Drawn = dict[str, Float32[Tensor, " batch"]]  # a number in [0, 1) an image, for each of _DRAWS
Pixels = Shaped[Tensor, "batch 3 height width"]  # uint8, or float32 once resampled; [0, 255]


def _check_scale(scale: float) -> None:
    if not scale > 0:
        raise ValueError(f"scale is {scale}; what is divided by must be positive")


def _draw(places: Sequence[int], seed: int, device: torch.device) -> Drawn:
    # Drawn on the CPU, since generators differ between devices; an image's numbers do not depend on those behind it.
    drawn = torch.rand(max(places, default=-1) + 1, len(_DRAWS), generator=torch.Generator().manual_seed(seed))
    drawn = drawn[torch.tensor(places, dtype=torch.int64)]
    return dict(zip(_DRAWS, drawn.T.contiguous().to(device, non_blocking=True), strict=True))


def _between(low: float, high: float, drawn: Float32[Tensor, " batch"]) -> Float32[Tensor, " batch"]:
    return low + (high - low) * drawn


def _reframe(images: UInt8[Tensor, "batch 3 height width"], settings: Augment, drawn: Drawn) -> Pixels:
    mirrored = drawn["flip"] < settings.flip
    if not (settings.crop or settings.low_resolution):
        return torch.where(mirrored[:, None, None, None], images.flip(-1), images) if settings.flip else images
    height, width = images.shape[-2:]
    zoom = _between(1 - settings.crop, 1 + settings.crop, drawn["zoom"])
    share = _resolution(settings, drawn, min(height, width)) if settings.low_resolution else None
    rows = _resampling(height, zoom, _between(-0.5, 0.5, drawn["shift_y"]) * settings.crop, share)
    columns = _resampling(width, zoom, _between(-0.5, 0.5, drawn["shift_x"]) * settings.crop, share)
    columns = torch.where(mirrored[:, None, None], columns.flip(-2), columns)
    # Two products whose transposes turn channels-last pixels into planes on the way, without a copy between them.
    pixels = images.permute(0, 2, 3, 1).to(torch.float32).flatten(2)  # (batch, old row, old column and channel)
    pixels = (pixels.mT @ rows.mT).view(-1, width, 3 * height)  # (batch, old column, channel and new row)
    return (pixels.mT @ columns.mT).view(-1, 3, height, width)


def _resolution(settings: Augment, drawn: Drawn, side: int) -> Float32[Tensor, " batch"]:
    """Share of the resolution that each image keeps: 1, or at least smallest_side / side."""
    share = (settings.smallest_side / side) ** drawn["side"]
    return torch.where(drawn["degrade"] < settings.low_resolution, share, 1.0)


def _resampling(
    side: int,
    zoom: Float32[Tensor, " batch"],
    shift: Float32[Tensor, " batch"],
    share: Float32[Tensor, " batch"] | None,
) -> Float32[Tensor, "batch side side"]:
    """Weights of the old pixels (last axis) in each new one, along one axis.

    The window of `zoom * side` pixels around the centre, moved by `shift * side`, is sampled at `share * side` points,
    and these are interpolated to `side` pixels; both by a triangle filter, which is widened for shrinking. Rows add up
    to 1. A share of None gives the same result as a share of 1, but faster.
    """
    position = torch.arange(side, dtype=torch.float32, device=zoom.device)
    points = torch.full_like(zoom, side)[:, None] if share is None else (share * side).round()[:, None]
    window = (zoom * side)[:, None]
    start = side / 2 + shift[:, None] * side - window / 2
    sampled = (start + (position + 0.5) * (window / points) - 0.5).clamp(0, side - 1)  # (batch, point)
    shrink = _triangle(sampled, position, (window / points).clamp_min(1))
    if share is None:
        return shrink
    spread = ((position + 0.5) * (points / side) - 0.5).clamp_min(0).minimum(points - 1)  # (batch, new pixel)
    return _triangle(spread, position, torch.ones_like(points)) @ shrink  # points past the last have no weight


def _triangle(
    centres: Float32[Tensor, "batch new"], position: Float32[Tensor, " old"], width: Float32[Tensor, "batch 1"]
) -> Float32[Tensor, "batch new old"]:
    weights = (centres[:, :, None] - position).abs_().div_(-width[:, :, None]).add_(1).clamp_min_(0)
    return weights.div_(weights.sum(-1, keepdim=True))


def _recolour(
    planes: Float32[Tensor, "batch 3 height width"], settings: Augment, drawn: Drawn, mean: float
) -> Float32[Tensor, "batch 3 height width"]:
    """Brightness, contrast, saturation, grey and clipping, then minus `mean`; in place."""
    brightness = _between(1 - settings.brightness, 1 + settings.brightness, drawn["brightness"])
    contrast = _between(1 - settings.contrast, 1 + settings.contrast, drawn["contrast"])
    saturation = _between(1 - settings.saturation, 1 + settings.saturation, drawn["saturation"])
    saturation = torch.where(drawn["grey"] < settings.grey, 0.0, saturation)
    luma = planes[:, 0] * LUMA[0]
    luma.add_(planes[:, 1], alpha=LUMA[1]).add_(planes[:, 2], alpha=LUMA[2])
    gain = brightness * contrast
    offset = brightness * (1 - contrast) * luma.mean((1, 2)) - mean
    luma.mul_((gain * (1 - saturation))[:, None, None]).add_(offset[:, None, None])
    planes.mul_((gain * saturation)[:, None, None, None]).add_(luma[:, None])
    return planes.clamp_(-mean, 255 - mean)


def _kept(settings: Augment, drawn: Drawn, height: int, width: int) -> Float32[Tensor, "batch 1 height width"]:
    """0 in the rectangle that is erased, 1 elsewhere; the whole rectangle lies inside the image."""
    area = _between(settings.largest_erased / 4, settings.largest_erased, drawn["area"]) * (height * width)
    aspect = 2 ** _between(-1.0, 1.0, drawn["aspect"])  # height to width
    tall = (area * aspect).sqrt().round().clamp(1, height)
    wide = (area / aspect).sqrt().round().clamp(1, width)
    top = (drawn["top"] * (height - tall + 1)).floor()
    left = (drawn["left"] * (width - wide + 1)).floor()
    erased = (drawn["erase"] < settings.erase)[:, None]
    rows = (_within(top, tall, height) & erased).float()  # no rows in an image without an erased rectangle
    columns = _within(left, wide, width).float()
    return (1 - rows[:, :, None] * columns[:, None, :])[:, None]


def _within(
    start: Float32[Tensor, " batch"], length: Float32[Tensor, " batch"], side: int
) -> Bool[Tensor, "batch side"]:
    position = torch.arange(side, device=start.device)
    return (position >= start[:, None]) & (position < (start + length)[:, None])
