"""Resampling of images: halved copies, and samples along a grid."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor


def halvings(images: Float[Tensor, "batch 3 height width"], count: int) -> list[Float[Tensor, "batch 3 _ _"]]:
    """The images, then copies of half, a quarter, ... of the size: `count` of them, or until a side has one pixel.

    Each pixel is the mean of four: pixel (x, y) of copy k covers the 2^k x 2^k pixels from (2^k x, 2^k y). If a side is
    odd, the last row or column covers fewer.
    """
    copies = [images]
    while len(copies) <= count and min(copies[-1].shape[2:]) > 1:
        copies.append(F.avg_pool2d(copies[-1], 2, ceil_mode=True, count_include_pad=False))
    return copies


def halvings_for(steps: Float[np.ndarray, " crops"]) -> Int64[np.ndarray, " crops"]:
    """Number of halvings after which pixels of a crop that are `steps` apart in the image are 1 to 2 apart."""
    return np.floor(np.log2(np.maximum(steps, 1))).astype(np.int64)


def sample(
    image: Float[Tensor, "3 height width"], matrices: Float[Tensor, "crops 2 3"], size: tuple[int, int], places: int
) -> Float[Tensor, "crops 3 crop_height crop_width"]:
    """Crops of an image, by bilinear sampling; zeros outside the image.

    Args:
        matrices: map a place in the crop, (x, y, 1), to the place in the image. Both are in pixels, measured from the
            left and top edge: the first pixel's centre is at (0.5, 0.5).
        places: number of samples in each direction; a pixel of a crop is their mean. With p places, every pixel of the
            image contributes while neighbours in the crop are at most p pixels apart.
    """
    crops, (height, width), (rows, columns) = len(matrices), image.shape[1:], size
    across, down = (
        (torch.arange(side * places, dtype=image.dtype, device=image.device) + 0.5) / places for side in (columns, rows)
    )
    # Places in the image in the units of the sampler: from -1 at its left or top edge to 1 at the other.
    relative = matrices * (2 / matrices.new_tensor([[width], [height]])) - matrices.new_tensor([0, 0, 1])
    grid = torch.stack(
        [
            relative[:, axis, 0, None, None] * across  # (crop, 1, column)
            + (relative[:, axis, 1, None] * down + relative[:, axis, 2, None])[:, :, None]  # (crop, row, 1)
            for axis in (0, 1)
        ],
        dim=-1,
    )
    # One tall grid over one image: a batch that repeats the image for each crop is slower.
    tall = F.grid_sample(image[None], grid.view(1, -1, places * columns, 2), align_corners=False)
    return F.avg_pool2d(tall[0], places).view(3, crops, rows, columns).transpose(0, 1)
