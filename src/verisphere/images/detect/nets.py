"""The three networks of MTCNN: proposals, refinement, output.

Zhang et al. 2016, "Joint Face Detection and Alignment Using Multitask Cascaded Convolutional Networks",
arXiv:1604.02878, fig. 2; with the layer widths of the weights in the `mtcnn` wheel. All three take RGB pixels as
(value - 127.5) / 128. Boxes are offsets of left, top, right and bottom, in widths and heights of the input
box; landmarks are five x and then five y, from its left and top, in the same units.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn

from verisphere.images.detect.weights import read_weights


def _convolution(inputs: int, outputs: int, side: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, side), nn.PReLU(outputs)]


class _Flatten(nn.Module):
    """One vector for each crop, in the order (width, height, channels) of the stored weights."""

    def forward(self, maps: Float[Tensor, "crops channels height width"]) -> Float[Tensor, "crops features"]:
        return maps.permute(0, 3, 2, 1).flatten(1)


class ProposalNet(nn.Module):
    """P-Net: applied to every 12 x 12 pixels of an image, at a stride of two pixels on both axes."""

    #: Side of the input of one output, and distance between two outputs; in pixels.
    side, stride = 12, 2

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            *_convolution(3, 10, 3), nn.MaxPool2d(2, 2, ceil_mode=True),
            *_convolution(10, 16, 3),
            *_convolution(16, 32, 3),
        )  # fmt: skip
        self.box = nn.Conv2d(32, 4, 1)
        self.face = nn.Conv2d(32, 2, 1)

    def forward(
        self, images: Float[Tensor, "batch 3 height width"]
    ) -> tuple[Float[Tensor, "batch rows columns"], Float[Tensor, "batch 4 rows columns"]]:
        """Probability of a face, and box offsets, at each place."""
        features = self.trunk(images)
        return self.face(features).softmax(1)[:, 1], self.box(features)


class RefinementNet(nn.Module):
    """R-Net: a second look at each proposal, cropped to 24 x 24."""

    side = 24

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            *_convolution(3, 28, 3), nn.MaxPool2d(3, 2, ceil_mode=True),
            *_convolution(28, 48, 3), nn.MaxPool2d(3, 2),
            *_convolution(48, 64, 2),
            _Flatten(), nn.Linear(576, 128), nn.PReLU(128),
        )  # fmt: skip
        self.box = nn.Linear(128, 4)
        self.face = nn.Linear(128, 2)

    def forward(
        self, crops: Float[Tensor, "crops 3 24 24"]
    ) -> tuple[Float[Tensor, " crops"], Float[Tensor, "crops 4"]]:
        """Probability of a face, and box offsets."""
        features = self.trunk(crops)
        return self.face(features).softmax(1)[:, 1], self.box(features)


class OutputNet(nn.Module):
    """O-Net: the last look at each box, cropped to 48 x 48, which also gives the landmarks."""

    side = 48

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            *_convolution(3, 32, 3), nn.MaxPool2d(3, 2, ceil_mode=True),
            *_convolution(32, 64, 3), nn.MaxPool2d(3, 2),
            *_convolution(64, 64, 3), nn.MaxPool2d(2, 2, ceil_mode=True),
            *_convolution(64, 128, 2),
            _Flatten(), nn.Linear(1152, 256), nn.PReLU(256),
        )  # fmt: skip
        self.box = nn.Linear(256, 4)
        self.landmarks = nn.Linear(256, 10)
        self.face = nn.Linear(256, 2)

    def forward(
        self, crops: Float[Tensor, "crops 3 48 48"]
    ) -> tuple[Float[Tensor, " crops"], Float[Tensor, "crops 4"], Float[Tensor, "crops 10"]]:
        """Probability of a face, box offsets, and landmarks."""
        features = self.trunk(crops)
        return self.face(features).softmax(1)[:, 1], self.box(features), self.landmarks(features)


def trained_nets(device: torch.device) -> tuple[ProposalNet, RefinementNet, OutputNet]:
    """The three networks with the weights of the `mtcnn` wheel, in evaluation mode."""
    nets = ProposalNet(), RefinementNet(), OutputNet()
    for net, name in zip(nets, ("pnet", "rnet", "onet"), strict=True):
        fill(net, read_weights(name))
        # Channels last: on a CPU, pooling is several times as fast, and each network two to three times.
        net.to(device=device, memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload]
    return nets


@torch.no_grad()
def fill(net: nn.Module, arrays: Sequence[Float32[np.ndarray, "..."]]) -> None:
    """Copy arrays into a network's parameters, in the order in which it declares them.

    Convolutions are (height, width, in, out), dense layers (in, out), slopes (1, 1, channels) or (channels).
    """
    parameters = list(net.named_parameters())
    if len(parameters) != len(arrays):
        raise ValueError(f"{type(net).__name__} has {len(parameters)} parameters, but {len(arrays)} arrays were stored")
    turned = {1: (0,), 2: (1, 0), 3: (2, 0, 1), 4: (3, 2, 0, 1)}
    for (name, parameter), array in zip(parameters, arrays, strict=True):
        value = array.transpose(turned[array.ndim])
        if value.size != parameter.numel() or value.shape[: parameter.ndim] != tuple(parameter.shape):
            raise ValueError(f"{type(net).__name__}.{name} is {tuple(parameter.shape)}, stored is {array.shape}")
        parameter.copy_(torch.from_numpy(np.array(value)).view(parameter.shape))
