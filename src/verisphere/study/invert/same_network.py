"""Whether two models are one network, adopted, exported or changed in two ways: such a model judges nothing."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from verisphere.backbones.backbone import Backbone
from verisphere.models.embed import EmbeddingModel
from verisphere.score.cosine import unit

_IMAGES, _CELLS = 32, 14  # images on which two models are compared, and their cells in each direction
_ALIKE = 0.85  # correlation of their cosines; docs/inversion.md has that of one network and of two


def same_network(one: EmbeddingModel, other: EmbeddingModel) -> bool:
    """Whether two models distinguish images alike, as one network does that was adopted, exported or changed twice.

    The cosines between images are compared, which remain where a network was made smaller, resamples its images, or has
    an output that was turned or padded; each embedding is added to that of the mirror image, as a changed network may
    do. The other model takes the images as its own pixels and as those of the first, in both orders of the colours.
    """
    coarse = torch.rand((_IMAGES, 3, _CELLS, _CELLS), generator=torch.Generator().manual_seed(0)) * 255
    drawn = [_resized(coarse, model.backbone.input_size).round().to(torch.uint8) for model in (one, other)]
    ours, theirs = (model.backbone.normalise(images) for model, images in zip((one, other), drawn, strict=True))
    first, as_ours = _cosines(one.backbone, ours), _resized(ours, other.backbone.input_size)
    return any(
        float(first @ _cosines(other.backbone, pixels)) > _ALIKE
        for given in ([theirs] if torch.equal(theirs, as_ours) else [theirs, as_ours])
        for pixels in (given, given.flip(1))
    )


def _resized(images: Float[Tensor, "images 3 _ _"], size: tuple[int, int]) -> Float[Tensor, "images 3 height width"]:
    return torch.nn.functional.interpolate(images, size, mode="bilinear", antialias=True)


def _cosines(backbone: Backbone, pixels: Float[Tensor, "images 3 height width"]) -> Float64[np.ndarray, " pairs"]:
    """The cosines of all pairs of images, less their mean and at length 1; zero if they are all equal."""
    pixels = pixels.to(next(iter(backbone.parameters()), pixels).device)
    with torch.inference_mode():
        rows = unit((backbone(pixels) + backbone(pixels.flip(3))).double().cpu())
    cosines = (rows @ rows.T).numpy()[np.triu_indices(len(rows), 1)]
    cosines -= cosines.mean()
    length = np.linalg.norm(cosines)
    return cosines / length if length > 1e-9 else np.zeros_like(cosines)
