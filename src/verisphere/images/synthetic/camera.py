"""The camera of the synthetic faces: exposure and contrast, blur, sensor noise, loss of detail, and rounding.

The functions work on luma and half-size chroma, as cameras do. The lossy step quantises an 8 x 8 block transform like
that of JPEG, with the integer transform of H.264's High profile in place of the cosines: its products are sums of
integers below 2^24, exact in float32, so a matrix product gives the same bits in every order of summation.
"""

from functools import cache

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from verisphere.images.luma import LUMA
from verisphere.images.synthetic.draws import noise
from verisphere.images.synthetic.identity import Columns

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
    """The transform of a flattened block, the squared lengths of its rows, and each row's higher frequency."""
    rows = torch.tensor(TRANSFORM, dtype=torch.float32)
    squares = (rows * rows).sum(1)
    frequency = torch.arange(8.0)
    highest = torch.maximum(frequency[:, None], frequency[None, :]).flatten()
    return torch.kron(rows, rows), torch.kron(squares, squares), highest


def quantise(
    plane: Float[Tensor, "faces height width"],
    step: Float[Tensor, " faces"],
    detail: Float[Tensor, " faces"],
    grow: int,
) -> Float[Tensor, "faces grown_height grown_width"]:
    """Rounds the 8 x 8 block spectra of a plane, and returns the result at `grow` times its size.

    Args:
        plane: whole numbers in [-256, 255]; height and width are multiples of 8.
        step: rounding step of the lowest frequency, in grey levels of an orthonormal transform; above 0.
        detail: frequencies at or above this number are dropped: 8 keeps all, 4 halves the resolution.
        grow: number of times that each pixel is repeated, horizontally and vertically.
    """
    transform, squares, frequency = (table.to(plane.device) for table in _block_transform())
    faces, height, width = plane.shape
    blocks = plane.view(faces, height // 8, 8, width // 8, 8).transpose(2, 3).reshape(-1, 64)
    spectrum = (blocks @ transform.T).view(faces, -1, 64)  # exact: no sum exceeds 256 * 64 * 64 = 2^20
    # steps grow with frequency, as in JPEG's tables; their unit is that of the spectrum, which is not normalised
    steps = step[:, None] * (1 + frequency * 0.75) * squares.sqrt()
    kept = (frequency < detail[:, None]).float()
    # 2^-11 is the unit of the weights: sums below 2^13 of their products with whole numbers are exact as well
    weights = (steps * kept / squares * 2.0**11)[:, None]
    levels = spectrum.div_(steps[:, None]).round_().mul_(weights).round_().mul_(2.0**-11)
    grown = transform.view(64, 8, 8).repeat_interleave(grow, 1).repeat_interleave(grow, 2).reshape(64, -1)
    blocks = (levels.view(-1, 64) @ grown).view(faces, height // 8, width // 8, 8 * grow, 8 * grow)
    return blocks.transpose(2, 3).reshape(faces, height * grow, width * grow)


def blur(plane: Plane, across: Float[Tensor, " faces"], down: Float[Tensor, " faces"]) -> Plane:
    """Mixes each pixel with its neighbours by weights in [0, 1], horizontally, then vertically, in place."""
    for dimension, weight in ((2, across), (1, down)):
        size = plane.shape[dimension]
        middle = plane.narrow(dimension, 1, size - 2)
        around = plane.narrow(dimension, 0, size - 2) + plane.narrow(dimension, 2, size - 2)
        around.mul_(0.5).sub_(middle).mul_(weight[:, None, None] * 0.5)
        middle.add_(around)
    return plane


def halved(plane: Plane) -> Float[Tensor, "faces half_height half_width"]:
    """The mean of each block of 2 x 2 pixels."""
    rows = plane[:, ::2] + plane[:, 1::2]
    return (rows[:, :, ::2] + rows[:, :, 1::2]).mul_(0.25)


def expose(picture: Float[Tensor, "faces 3 height width"], photo: Columns) -> Float[Tensor, "faces 3 height width"]:
    """Exposure and a film-like curve, in place: v (1 + c) / (v + c), steep in the dark, and 1 at 1."""
    gain = 1 + photo["exposure"].clamp(-0.65, 1.5)
    curve = (1.5 + photo["contrast"] * 1.5).clamp(0.6, 4)[:, None]
    picture.mul_(torch.stack((gain, gain * (1 + photo["tint"]), gain), 1)).clamp_(0, 1.2)
    bend = picture + curve
    return picture.mul_(1 + curve).div_(bend)


def photograph(
    picture: Float[Tensor, "faces 3 height width"], photo: Columns, key: Int64[Tensor, " faces"]
) -> UInt8[Tensor, "faces 3 height width"]:
    """The picture as a camera of the photograph's quality stores it. The picture is overwritten."""
    faces, _, height, width = picture.shape
    red, green, blue = expose(picture, photo).unbind(1)
    luma = (red * LUMA[0]).add_(green * LUMA[1]).add_(blue * LUMA[2])
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
    luma = quantise(luma.mul_(255).sub_(128).round_().clamp_(-256, 255), step, detail, 1)
    chroma = torch.cat((chroma_blue, chroma_red)).mul_(255).round_().clamp_(-256, 255)
    coarse = (step * 1.6).repeat(2)
    blue_excess, red_excess = quantise(chroma, coarse, detail.repeat(2), 2).chunk(2)
    stored = torch.empty_like(picture)
    luma.add_(128.5)  # half a level more, since the conversion to bytes truncates
    torch.add(luma, red_excess * 1.402, out=stored[:, 0])
    torch.sub(luma, red_excess.mul_(0.714), out=stored[:, 1])
    torch.add(luma, blue_excess * 1.772, out=stored[:, 2])
    stored[:, 1].sub_(blue_excess.mul_(0.344))
    return stored.clamp_(0, 255).to(torch.uint8)
