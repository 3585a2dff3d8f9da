"""EfficientNet-B0 for aligned faces (Tan and Le 2019, arXiv:1905.11946): the light network of ArcFace's table 9.

Table 1 of that paper gives the stages. Two things differ here, since ArcFace does not state how it adapts the network
to faces. The first convolution has stride 1 in place of 2: a 112 x 112 face then has as many places inside as the
paper's 224 x 224 image, and takes the same work. The average over the places is replaced by a depthwise convolution
over all of them, as in MobileFaceNet, before the linear embedding with batch norm.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import silu

from verisphere.backbones.backbone import Backbone
from verisphere.backbones.mobilefacenet import LARGEST_FACE, WIDEST, scaled_channels

#: Stages of table 1: (expansion, kernel, channels, blocks, stride of the first).
STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
#: Channels before the first stage and after the last.
STEM, LAST = 32, 1280
#: The strides of the stages make an image smaller by this factor.
SHRINKING = 16
#: Squeeze-and-excitation has a quarter of a block's input channels inside.
SQUEEZED = 4


class SqueezeExcitation(nn.Module):
    """Channels weighted by a function of all channels' means (Hu et al. 2018, arXiv:1709.01507), with SiLU."""

    def __init__(self, channels: int, inside: int) -> None:
        super().__init__()
        self.squeeze, self.excite = nn.Conv2d(channels, inside, 1), nn.Conv2d(inside, channels, 1)

    def forward(self, x: Float[Tensor, "batch channels _ _"]) -> Float[Tensor, "batch channels _ _"]:
        """The input times a weight in (0, 1) for each channel."""
        return x * self.excite(silu(self.squeeze(x.mean((2, 3), keepdim=True)))).sigmoid()


def _conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    """A convolution and batch norm, without activation."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class MBConv(nn.Module):
    """1 x 1 up, depthwise, squeeze-and-excitation, 1 x 1 down without activation; added to its input if shapes agree.

    In training an image skips the block with probability `drop`, if its input is added (stochastic depth, Huang et al.
    2016, arXiv:1603.09382). `expansion` is a factor on the channels inside the block.
    """

    def __init__(self, inputs: int, expansion: int, kernel: int, outputs: int, stride: int, drop: float) -> None:
        super().__init__()
        hidden = expansion * inputs
        self.residual, self.drop = stride == 1 and inputs == outputs, drop
        layers = [] if expansion == 1 else [_conv(inputs, hidden, 1), nn.SiLU(inplace=True)]
        layers += [_conv(hidden, hidden, kernel, stride, groups=hidden), nn.SiLU(inplace=True)]
        layers += [SqueezeExcitation(hidden, max(1, inputs // SQUEEZED)), _conv(hidden, outputs, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        """The block."""
        y = self.layers(x)
        if not self.residual:
            return y
        if self.training and self.drop:
            kept = torch.rand(len(x), 1, 1, 1, device=x.device) >= self.drop
            y = y * (kept / (1 - self.drop)).to(y)
        return x + y


class EfficientNet(Backbone):
    """EfficientNet-B0 on aligned faces; 0.8 GFLOP for 112 x 112 (the limit of LFR2019's light track was 1 GFLOP).

    >>> network = EfficientNet(embedding_size=512)
    >>> round(sum(part.numel() for part in network.parameters()) / 1e6, 1)  # millions
    4.7

    Args:
        embedding_size: numbers in an embedding.
        width: factor on every channel count but the embedding's, > 0 and at most 16; counts are rounded to multiples of
            8. Only 1 is B0; the depth stays that of B0.
        drop: probability with which the last block is skipped for an image in training; toward the first block, it
            falls evenly to 0. The released EfficientNet has 0.2.
        face_height: height of a face in pixels, a multiple of 16, at most 1,024.
        face_width: width of a face in pixels, likewise.
        mean: value subtracted from a pixel in [0, 255].
        scale: value by which the difference is then divided, > 0.

    Raises:
        ValueError: an argument outside its range.
    """

    def __init__(
        self,
        embedding_size: int = 512,
        width: float = 1.0,
        drop: float = 0.2,
        face_height: int = 112,
        face_width: int = 112,
        mean: float = 127.5,
        scale: float = 127.5,
    ) -> None:
        super().__init__(embedding_size)
        for name, side in (("face_height", face_height), ("face_width", face_width)):
            if side % SHRINKING or not SHRINKING <= side <= LARGEST_FACE:
                raise ValueError(
                    f"{name} is {side}; it must be a multiple of {SHRINKING}, which the strides divide it by, and at "
                    f"most {LARGEST_FACE:,}"
                )
        if not (math.isfinite(width) and 0 < width <= WIDEST):
            raise ValueError(f"width is {width}; allowed is more than 0, and at most {WIDEST} (1 is B0)")
        if not 0 <= drop < 1:
            raise ValueError(f"drop is {drop}; a probability below 1 is allowed (0.2 is usual)")
        self.input_size = face_height, face_width
        self._set_normalisation(mean, scale)
        inputs = scaled_channels(STEM, width)
        self.stem = nn.Sequential(_conv(3, inputs, 3), nn.SiLU(inplace=True))
        blocks: list[nn.Module] = []
        count = sum(repeats for *_, repeats, _ in STAGES)
        for expansion, kernel, channels, repeats, first_stride in STAGES:
            outputs = scaled_channels(channels, width)
            for stride in [first_stride] + [1] * (repeats - 1):
                blocks.append(MBConv(inputs, expansion, kernel, outputs, stride, drop * len(blocks) / (count - 1)))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        last = scaled_channels(LAST, width)
        self.mix = nn.Sequential(_conv(inputs, last, 1), nn.SiLU(inplace=True))
        places = face_height // SHRINKING, face_width // SHRINKING
        self.pool = nn.Sequential(nn.Conv2d(last, last, places, groups=last, bias=False), nn.BatchNorm2d(last))
        self.project = nn.Sequential(nn.Conv2d(last, embedding_size, 1, bias=False), nn.BatchNorm2d(embedding_size))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network on images of the right size."""
        return self.project(self.pool(self.mix(self.blocks(self.stem(images))))).flatten(1)
