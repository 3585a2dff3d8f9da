"""What makes an aligned face good or bad to enrol, in numbers of one image alone: detail and light."""

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.work import ranges
from verisphere.images.faces import Faces
from verisphere.images.luma import LUMA

# Waves a height. A crop of 32 pixels has at most 16; of 112, a disc of radius 3 suppresses 23, a motion of 8 pixels 14.
_COARSE, _FINE = (2.0, 10.0), (14.6, 28.0)
_DIRECTIONS = 6
_IMAGES_AT_ONCE = 256


def detail_of(images: UInt8[Tensor, "images 3 height width"]) -> Float64[np.ndarray, " images"]:
    """Power of fine detail in the direction that has least of it, less that of coarse detail, in decibels.

    Enlarging a small face and defocus suppress fine detail in all directions, and motion in one; none changes coarse
    detail. Power is the mean spectrum of luma in a Hann window, over 14.6 to 28 waves a height in each of six
    directions, and over 2 to 10 waves in all. Brightness and contrast do not change the difference.
    """
    height, width = images.shape[-2:]
    luma = torch.einsum("nchw,c->nhw", images.float(), torch.tensor(LUMA))
    window = torch.outer(*(torch.hann_window(side + 2, periodic=False)[1:-1] for side in (height, width)))
    power = torch.fft.rfft2((luma - luma.mean((1, 2), keepdim=True)) * window).abs().square().double().flatten(1)
    down, across = torch.fft.fftfreq(height)[:, None] * height, torch.fft.rfftfreq(width)[None] * height
    waves = torch.hypot(down, across).flatten()
    turn = torch.atan2(down, across).flatten() / torch.pi * _DIRECTIONS
    once = ((across > 0) | (down > 0)).flatten()  # the spectrum has each vertical wave twice
    fine = torch.where(once & (waves >= _FINE[0]) & (waves < _FINE[1]), (turn + 0.5).floor() % _DIRECTIONS, -1)
    least = torch.stack([power[:, fine == number].mean(1) for number in range(_DIRECTIONS)]).amin(0)
    coarse = power[:, once & (waves >= _COARSE[0]) & (waves < _COARSE[1])].mean(1)
    return (10 * torch.log10((least + 1e-9) / (coarse + 1e-9))).numpy()


def light_of(images: UInt8[Tensor, "images 3 height width"]) -> dict[str, Float64[np.ndarray, " images"]]:
    """Mean luma of the middle of a crop, its standard deviation, and the percentage of black or white pixels."""
    height, width = images.shape[-2:]
    top, left = round(height * 0.2), round(width * 0.2)
    middle = images[:, :, top : height - top, left : width - left].double()
    luma = torch.einsum("nchw,c->nhw", middle, torch.tensor(LUMA, dtype=torch.float64)).flatten(1)
    clipped = ((luma < 8) | (luma > 247)).double().mean(1) * 100
    return {"brightness": luma.mean(1).numpy(), "contrast": luma.std(1).numpy(), "clipped": clipped.numpy()}


def measure(faces: Faces, progress: Progress = quietly) -> dict[str, Float64[np.ndarray, " images"]]:
    """Detail and light of each image of a set of aligned faces; `place_of` adds size and pose."""
    batches = ranges(len(faces), _IMAGES_AT_ONCE)
    images = map(faces.images, progress(batches, "measuring", len(batches)))
    parts = [{"detail": detail_of(batch), **light_of(batch)} for batch in images]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
