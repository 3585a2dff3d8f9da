"""What a camera does to a synthetic face: exposure and contrast, blur, sensor noise, loss of detail, and rounding.

Works on luma and half-size chroma, as cameras do. The lossy step quantises an 8 x 8 block transform like JPEG's, with
the integer transform of H.264's High profile in place of the cosines: its products are sums of integers below 2^24,
exact in float32, so a matrix product gives the same bits in whatever order it adds.
"""

from functools import cache

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from verisphere.data.synthetic_identity import Columns
from verisphere.data.synthetic_random import noise

Plane = Float[Tensor, "faces height width"]

# ITU-T H.264, 8.5.13: rows are orthogonal, of squared lengths 512, 578, 320, 578, 512, 578, 320, 578
TRANSFORM = (
    (8, 8, 8, 8, 8, 8, 8, 8),
    (12, 10, 6, 3, -3, -6, -10, -12),
    (8, 4, -4, -8, -8, -4, 4, 8),
    (10, -3, -12, -6, 6, 12, 3, -10),
    (8, -8, -8, 8, 8, -8, -8, 8),
    (6, -12, 3, 10, -10, -3, 12, -6),
    (4, -8, 8, -4, -4, 8, -8, 4),
    (3, -6, 10, -12, 12, -10, 6, -3),
)


@cache
def _block_transform() -> tuple[Float[Tensor, "64 64"], Float[Tensor, " 64"], Float[Tensor, " 64"]]:
    """The transform of a flattened block, the squared length of its rows, and each row's frequency."""
    rows = torch.tensor(TRANSFORM, dtype=torch.float32)
    squares = (rows * rows).sum(1)
    frequency = torch.arange(8.0)
    return (
        torch.kron(rows, rows),
        torch.kron(squares, squares),
        torch.maximum(frequency[:, None], frequency[None, :]).flatten(),
    )


def quantise(
    plane: Float[Tensor, "faces height width"], step: Float[Tensor, " faces"], detail: Float[Tensor, " faces"]
) -> Float[Tensor, "faces height width"]:
    """Round the plane's 8 x 8 block spectra, in place of JPEG.

    Args:
        plane: integers in [-256, 255]; height and width are multiples of 8.
        step: the coarseness: the rounding step of the lowest frequency, in grey levels of an orthonormal transform.
        detail: frequencies of this number or above are dropped: 8 keeps all, 4 leaves half the resolution.
    """
    transform, squares, frequency = (table.to(plane.device) for table in _block_transform())
    faces, height, width = plane.shape
    blocks = plane.view(faces, height // 8, 8, width // 8, 8).transpose(2, 3).reshape(-1, 64)
    spectrum = (blocks @ transform.T).view(faces, -1, 64)  # exact: |sums| <= 256 * 64 * 64 = 2^20
    # steps grow with frequency, as JPEG's tables do; in units of the unnormalised spectrum
    unit = squares.sqrt()
    steps = step[:, None] * (1 + frequency * 0.75) * unit
    steps = torch.where(frequency < detail[:, None], steps, float("inf"))[:, None]
    levels = spectrum.div_(steps).round_()
    # weights are rounded to 2^-11 so that the sums below, under 2^13, are exact as well
    back = torch.where(steps.isinf(), 0, steps) / squares * 2.0**11
    weights = levels.mul_(back).round_().mul_(2.0**-11)
    blocks = weights.view(-1, 64) @ transform
    return blocks.view(faces, height // 8, width // 8, 8, 8).transpose(2, 3).reshape(faces, height, width)


def blur(plane: Plane, across: Float[Tensor, " faces"], down: Float[Tensor, " faces"]) -> Plane:
    """Mix each pixel with its neighbours by weights in [0, 1], separately across and down, in place."""
    for dimension, weight in ((2, across), (1, down)):
        size = plane.shape[dimension]
        middle = plane.narrow(dimension, 1, size - 2)
        around = plane.narrow(dimension, 0, size - 2) + plane.narrow(dimension, 2, size - 2)
        around.mul_(0.5).sub_(middle).mul_(weight[:, None, None] * 0.5)
        middle.add_(around)
    return plane


def halved(plane: Plane) -> Float[Tensor, "faces half_height half_width"]:
    """The mean of every 2 x 2 pixels."""
    rows = plane[:, ::2] + plane[:, 1::2]
    return (rows[:, :, ::2] + rows[:, :, 1::2]).mul_(0.25)


def expose(picture: Float[Tensor, "faces 3 height width"], photo: Columns) -> Float[Tensor, "faces 3 height width"]:
    """Exposure and a film-like curve, in place: v (1 + c) / (v + c), steep in the dark and bounded in the light."""
    gain = 1 + photo["exposure"].clamp(-0.8, 1.5)
    curve = 0.95 + photo["contrast"].clamp(-0.5, 0.5)
    tint = photo["tint"]
    balance = torch.stack((gain, gain * (1 + tint), gain), 1)
    picture.mul_(balance).clamp_(min=0)
    return picture.mul_((1 + curve)[:, None]).div_(picture + curve[:, None])


def photograph(
    picture: Float[Tensor, "faces 3 height width"], photo: Columns, key: Int64[Tensor, " faces"]
) -> UInt8[Tensor, "faces 3 height width"]:
    """The picture as a camera of the photograph's quality stores it; overwrites the picture."""
    faces, _, height, width = picture.shape
    red, green, blue = expose(picture, photo).clamp_(0, 1.2).unbind(1)
    luma = (red * 0.299).add_(green * 0.587).add_(blue * 0.114)
    chroma_blue = halved(blue.sub_(luma).mul_(0.564))
    chroma_red = halved(red.sub_(luma).mul_(0.713))
    across, down = photo["blur_x"].flatten(), photo["blur_y"].flatten()
    blur(luma, across, down)
    pixels = height * width
    grain = noise(key, pixels + pixels // 2)
    luma.add_((grain[:, :pixels].view(faces, height, width)).mul(photo["grain"]))
    chroma_grain = photo["grain"] * 0.7
    chroma_blue.add_(grain[:, pixels : pixels * 5 // 4].view_as(chroma_blue).mul(chroma_grain))
    chroma_red.add_(grain[:, pixels * 5 // 4 :].view_as(chroma_red).mul(chroma_grain))
    step, detail = photo["loss"].flatten(), photo["detail"].flatten()
    levels = [
        quantise(plane.mul_(255).sub_(offset).round_().clamp_(-256, 255), step * coarser, detail)
        for plane, offset, coarser in ((luma, 128, 1.0), (chroma_blue, 0, 1.6), (chroma_red, 0, 1.6))
    ]
    luma = levels[0].add_(128.5)  # half a level: the conversion to bytes below cuts off
    blue_excess, red_excess = (plane.repeat_interleave(2, 1).repeat_interleave(2, 2) for plane in levels[1:])
    stored = torch.empty_like(picture)
    torch.add(luma, red_excess * 1.402, out=stored[:, 0])
    torch.add(luma, blue_excess * 1.772, out=stored[:, 2])
    torch.sub(luma, red_excess.mul_(0.714), out=stored[:, 1])
    stored[:, 1].sub_(blue_excess.mul_(0.344))
    return stored.clamp_(0, 255).to(torch.uint8)
