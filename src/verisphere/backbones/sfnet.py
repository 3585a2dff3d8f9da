"""SFNet: SphereFace's residual networks without batch normalisation (Liu et al. 2017, arXiv:1704.08063, table 2).

SphereFace2 compares all its losses on SFNet-20.
"""

from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone

#: Residual blocks in each of the four stages, by depth: every stage has one strided convolution and two a block.
BLOCKS = {20: (1, 2, 4, 1), 64: (3, 8, 16, 3)}
CHANNELS = (3, 64, 128, 256, 512)

#: Standard deviation of a residual convolution's weights, SphereFace's own: without normalisation, a block must start
#: close to its shortcut, or the values would explode over 30 consecutive blocks.
RESIDUAL_STD = 0.01


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    """A 3 x 3 convolution: small weights inside a block (stride 1), Xavier's for the strided ones."""
    convolution = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
    if stride == 1:
        nn.init.normal_(convolution.weight, std=RESIDUAL_STD)
    else:
        nn.init.xavier_normal_(convolution.weight)
    nn.init.constant_(convolution.get_parameter("bias"), 0.0)
    return convolution


class _Block(nn.Module):
    """Two convolutions, each with PReLU, added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            _conv(channels, channels, 1), nn.PReLU(channels), _conv(channels, channels, 1), nn.PReLU(channels)
        )

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        return x + self.layers(x)


class SFNet(Backbone):
    """SFNet-20 or SFNet-64 on 112 x 112 faces, normalised by (pixel - 127.5) / 127.5.

    >>> sum(part.numel() for part in SFNet(20, embedding_size=128).parameters())
    14871488

    Args:
        depth: 20 or 64 convolutions.
        embedding_size: numbers in an embedding.

    Raises:
        ValueError: an argument outside its range.
    """

    def __init__(self, depth: int = 20, embedding_size: int = 512) -> None:
        super().__init__(embedding_size)
        if depth not in BLOCKS:
            raise ValueError(f"depth is {depth}; allowed are {', '.join(map(str, BLOCKS))}")
        layers: list[nn.Module] = []
        for (inputs, outputs), repeats in zip(pairwise(CHANNELS), BLOCKS[depth], strict=True):
            layers += [_conv(inputs, outputs, 2), nn.PReLU(outputs), *(_Block(outputs) for _ in range(repeats))]
        self.layers = nn.Sequential(*layers)
        height, width = (side // 16 for side in self.input_size)
        self.project = nn.Linear(CHANNELS[-1] * height * width, embedding_size)
        nn.init.xavier_normal_(self.project.weight)
        nn.init.zeros_(self.project.bias)

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network on images of the right size."""
        return self.project(self.layers(images).flatten(1))
