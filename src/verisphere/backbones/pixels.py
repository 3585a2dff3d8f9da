"""Raw pixels as an embedding: the baseline that a trained network has to beat."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from verisphere.backbones.backbone import Backbone


class Pixels(Backbone):
    """The image itself, reduced in size, as a vector; nothing is learned.

    >>> import torch
    >>> network = Pixels(side=8)
    >>> network.embedding_size, network(torch.rand(2, 3, 112, 112)).shape
    (64, torch.Size([2, 64]))

    Args:
        side: pixels a side after averaging.
        grey: average the colours.
        centred: subtract each image's own mean, so that the cosine becomes a correlation and brightness drops out.
    """

    def __init__(self, side: int = 28, grey: bool = True, centred: bool = True) -> None:
        if not 1 <= side <= min(self.input_size):
            raise ValueError(f"side is {side}; it must lie between 1 and {min(self.input_size)}")
        super().__init__(side * side * (1 if grey else 3))
        self.side, self.grey, self.centred = side, grey, centred

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The pixels of each image as one row."""
        small = F.interpolate(images, (self.side, self.side), mode="bilinear", antialias=True)
        vectors = (small.mean(1) if self.grey else small).flatten(1)
        return vectors - vectors.mean(1, keepdim=True) if self.centred else vectors
