"""MobileFaceNet: about a million parameters for phones and for experiments (Chen et al. 2018, arXiv:1804.07573)."""

from collections.abc import Callable
from math import isfinite
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from verisphere.backbones.backbone import Backbone
from verisphere.base.vocabulary import check_word

Activation = Literal["prelu", "relu"]

#: Table 1 of the paper, its bottleneck rows: (expansion, channels, repeats, stride of the first).
BOTTLENECKS = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))

#: The strides of the network make an image smaller by this factor.
SHRINKING = 16
#: Pixels of a side of a face.
LARGEST_FACE = 1024
#: The largest `width`; at 16 the network has about 220 million weights.
WIDEST = 16


def scaled_channels(channels: int, width: float) -> int:
    """`width` times `channels`, rounded to a multiple of 8 (which vector units like), at least 8.

    >>> scaled_channels(64, 0.5), scaled_channels(64, 0.3), scaled_channels(64, 0.01)
    (32, 16, 8)
    """
    return max(8, int(channels * width / 8 + 0.5) * 8)


def _conv(
    inputs: int, outputs: int, kernel: int | tuple[int, int], stride: int = 1, padding: int = 0, groups: int = 1
) -> nn.Sequential:
    """A convolution without activation: linear, as the paper calls it."""
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))


class _Bottleneck(nn.Module):
    """1 x 1 up, 3 x 3 depthwise, 1 x 1 down without activation; added to its input where the shape allows."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, stride: int, activation: Callable[[int], nn.Module]
    ) -> None:
        super().__init__()
        self.residual = stride == 1 and inputs == outputs
        self.layers = nn.Sequential(
            _conv(inputs, hidden, 1),
            activation(hidden),
            _conv(hidden, hidden, 3, stride, padding=1, groups=hidden),
            activation(hidden),
            _conv(hidden, outputs, 1),
        )

    def forward(self, x: Float[Tensor, "batch _ _ _"]) -> Float[Tensor, "batch _ _ _"]:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileFaceNet(Backbone):
    """MobileFaceNet, by default on 112 x 112 faces.

    >>> sum(part.numel() for part in MobileFaceNet(embedding_size=128).parameters())
    1003136

    Args:
        embedding_size: numbers in an embedding; the paper has 128, and 0.99 million weights (without the slopes of
            PReLU).
        width: factor on every channel count but the embedding's, > 0 and at most 16; counts are rounded to multiples of
            8.
        activation: "prelu" as in the paper, or "relu", which trains twice as fast on a CPU.
        face_height: height of a face in pixels, a multiple of 16, at most 1,024.
        face_width: width of a face in pixels, likewise; 96 with SphereFace's template.
        mean: value subtracted from a pixel in [0, 255].
        scale: value by which the difference is then divided, > 0.

    Raises:
        ValueError: an argument outside its range.
    """

    def __init__(
        self,
        embedding_size: int = 512,
        width: float = 1.0,
        activation: Activation = "prelu",
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
        self.input_size = face_height, face_width
        self._set_normalisation(mean, scale)
        if not (isfinite(width) and 0 < width <= WIDEST):
            raise ValueError(f"width is {width}; allowed is more than 0, and at most {WIDEST} (1 is the paper's)")
        check_word("activation", activation, Activation)
        activate: Callable[[int], nn.Module] = (
            nn.PReLU if activation == "prelu" else lambda channels: nn.ReLU(inplace=True)
        )
        stem, last = scaled_channels(64, width), scaled_channels(512, width)
        self.stem = nn.Sequential(
            _conv(3, stem, 3, stride=2, padding=1),
            activate(stem),
            _conv(stem, stem, 3, padding=1, groups=stem),
            activate(stem),
        )
        bottlenecks: list[nn.Module] = []
        inputs = stem
        for expansion, channels, repeats, first_stride in BOTTLENECKS:
            outputs = scaled_channels(channels, width)
            for stride in [first_stride] + [1] * (repeats - 1):
                bottlenecks.append(_Bottleneck(inputs, expansion * inputs, outputs, stride, activate))
                inputs = outputs
        self.bottlenecks = nn.Sequential(*bottlenecks)
        self.mix = nn.Sequential(_conv(inputs, last, 1), activate(last))
        # 7 x 7 for 112 x 112: one weight for each place and channel instead of an average, since the middle of an
        # aligned face says more than its corners (section 3.2).
        self.pool = _conv(last, last, (face_height // SHRINKING, face_width // SHRINKING), groups=last)
        self.project = _conv(last, embedding_size, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")

    def embed(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The network on images of the right size."""
        x = self.mix(self.bottlenecks(self.stem(images)))
        return self.project(self.pool(x)).flatten(1)
