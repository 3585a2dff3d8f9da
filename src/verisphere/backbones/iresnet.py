"""IR residual networks for faces, plain and with squeeze-and-excitation (Deng et al. 2019, arXiv:1801.07698).

They differ from ResNet (He et al. 2015) in three places: the stem keeps the resolution, a block is BN - conv - BN -
PReLU - conv - BN without an activation after the sum, and the network ends in BN - dropout - FC - BN instead of an
average, since the place of a feature matters in an aligned face.
"""

from math import isfinite

from jaxtyping import Float
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone

#: Residual blocks in each of the four stages, by depth.
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 14, 3), 100: (3, 13, 30, 3), 200: (6, 26, 60, 6)}
CHANNELS = (64, 128, 256, 512)


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class _SqueezeExcitation(nn.Module):
    """Each channel weighted by a function of all channels' means over the image (Hu et al. 2017, arXiv:1709.01507)."""

    def __init__(self, channels: int, reduction: int = 16) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // reduction, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels // reduction, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        return x * self.gate(x)


class _Block(nn.Module):
    """The IR block: the stride sits in its second convolution."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, squeeze_excitation: bool, subsampled_shortcut: bool
    ) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs),
            _conv(inputs, outputs, 3),
            nn.BatchNorm2d(outputs),
            nn.PReLU(outputs),
            _conv(outputs, outputs, 3, stride),
            nn.BatchNorm2d(outputs),
        )
        if squeeze_excitation:
            self.layers.append(_SqueezeExcitation(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if subsampled_shortcut and inputs == outputs:
            self.shortcut = nn.MaxPool2d(1, stride) if stride != 1 else self.shortcut
        elif stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        return self.layers(x) + self.shortcut(x)


class IResNet(Backbone):
    """ArcFace's backbone on 112 x 112 faces; depth 50 has 43.6 million parameters, depth 100 65.2 million.

    >>> sum(part.numel() for part in IResNet(18, embedding_size=128).parameters())
    14390656

    Args:
        depth: 18, 34, 50, 100 or 200; depth 200 is InsightFace's, with 98 blocks.
        embedding_size: numbers in an embedding.
        dropout: probability of dropping a feature before the last layer, 0 <= dropout < 1.
        free_scale: let the last batch norm learn a scale for each number of the embedding. By default it is held at 1,
            as in ArcFace's released networks: a free scale lets single numbers of the embedding fade out.
        subsampled_shortcut: where a strided block keeps the number of channels, its shortcut takes every second pixel,
            as in AdaFace's networks; by default a convolution computes it, as in ArcFace's.
        epsilon: added to the variance in every batch norm, > 0; 2e-5 in MagFace's networks.
        mean: value subtracted from a pixel in [0, 255]; by default that of the class.
        scale: value by which the difference is then divided, > 0; by default that of the class.

    Raises:
        ValueError: an argument outside its range.
    """

    squeeze_excitation: bool = False

    def __init__(
        self,
        depth: int = 50,
        embedding_size: int = 512,
        dropout: float = 0.0,
        free_scale: bool = False,
        subsampled_shortcut: bool = False,
        epsilon: float = 1e-5,
        mean: float | None = None,
        scale: float | None = None,
    ) -> None:
        super().__init__(embedding_size)
        self._set_normalisation(mean, scale)
        if depth not in BLOCKS:
            raise ValueError(f"depth is {depth}; allowed are {', '.join(map(str, BLOCKS))}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout is {dropout}; it must be in [0, 1), the share of features dropped")
        if not (isfinite(epsilon) and epsilon > 0):
            raise ValueError(f"epsilon is {epsilon}; it must be above 0, since a variance can be 0")
        self.stem = nn.Sequential(_conv(3, CHANNELS[0], 3), nn.BatchNorm2d(CHANNELS[0]), nn.PReLU(CHANNELS[0]))
        blocks: list[nn.Module] = []
        inputs = CHANNELS[0]
        for outputs, repeats in zip(CHANNELS, BLOCKS[depth], strict=True):
            for stride in [2] + [1] * (repeats - 1):
                blocks.append(_Block(inputs, outputs, stride, self.squeeze_excitation, subsampled_shortcut))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        height, width = (side // 16 for side in self.input_size)
        self.project = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.Dropout(dropout),
            nn.Flatten(),
            nn.Linear(inputs * height * width, embedding_size),
            nn.BatchNorm1d(embedding_size),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                # As released. A batch norm follows every convolution, so this sets how fast weights turn, not values.
                nn.init.normal_(module.weight, std=0.1)
            elif isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.eps = epsilon
        self.project[-1].weight.requires_grad_(free_scale)

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network on images of the right size."""
        return self.project(self.blocks(self.stem(images)))


class SEResNet(IResNet):
    """IResNet with squeeze-and-excitation, on 144 x 144 faces normalised by (pixel - 127.5) / 128.

    SEResNet50-IR of Search-Softmax (Wang et al. 2020). Arguments and errors are `IResNet`'s.

    >>> sum(part.numel() for part in SEResNet(18, embedding_size=128).parameters())
    16576888
    """

    input_size = (144, 144)
    scale = 128.0
    squeeze_excitation = True
