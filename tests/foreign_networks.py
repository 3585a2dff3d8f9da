"""The networks of other projects, written anew as functions over tensors in the published layout of their names.

The first pass makes the tensors at random as it asks for them, so that a network and its checkpoint are one function.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

#: Numbers in an embedding; few, since the last layer of an IResNet has 25,088 weights for each.
SIZE = 8
Network = Callable[["Weights", Tensor], Tensor]


class Weights(dict[str, Tensor]):
    """Tensors by name; a name that is asked for the first time gets random ones."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._random = torch.Generator().manual_seed(seed)

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> Tensor:
        if name not in self:
            self[name] = torch.rand(shape, generator=self._random) * (high - low) + low
        return self[name]

    def convolve(self, x: Tensor, name: str, outputs: int, kernel: Any, stride: int = 1, **more: int) -> Tensor:
        sides = (kernel, kernel) if isinstance(kernel, int) else kernel
        inputs = x.shape[1] // more.get("groups", 1)
        reach = 2.5 / (inputs * sides[0] * sides[1]) ** 0.5
        weight = self.uniform(f"{name}.weight", (outputs, inputs, *sides), -reach, reach)
        return F.conv2d(x, weight, stride=stride, **more)  # type: ignore[arg-type]

    def connect(self, x: Tensor, name: str, bias: bool) -> Tensor:
        reach = 2.5 / x.shape[1] ** 0.5
        weight = self.uniform(f"{name}.weight", (SIZE, x.shape[1]), -reach, reach)
        return F.linear(x, weight, self.uniform(f"{name}.bias", (SIZE,), -0.3, 0.3) if bias else None)

    def norm(self, x: Tensor, name: str, epsilon: float = 1e-5, affine: bool = True) -> Tensor:
        shape = (x.shape[1],)
        weight = self.uniform(f"{name}.weight", shape, 0.6, 1.1) if affine else None
        bias = self.uniform(f"{name}.bias", shape, -0.3, 0.3) if affine else None
        mean = self.uniform(f"{name}.running_mean", shape, -0.3, 0.3)
        # some variances are so small that epsilon shows
        variance = self.uniform(f"{name}.running_var", shape, 1e-3, 1.2)
        self.setdefault(f"{name}.num_batches_tracked", torch.tensor(5))
        return F.batch_norm(x, mean, variance, weight, bias, eps=epsilon)

    def prelu(self, x: Tensor, name: str) -> Tensor:
        return F.prelu(x, self.uniform(f"{name}.weight", (x.shape[1],), 0.0, 0.5))


def insightface(weights: Weights, x: Tensor, epsilon: float = 1e-5) -> Tensor:
    """IResNet-18 of arcface_torch; of MagFace with its epsilon."""
    x = weights.prelu(weights.norm(weights.convolve(x, "conv1", 64, 3, padding=1), "bn1", epsilon), "prelu")
    for stage, channels in enumerate((64, 128, 256, 512), start=1):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 - block
            inner = weights.convolve(weights.norm(x, f"{name}.bn1", epsilon), f"{name}.conv1", channels, 3, padding=1)
            inner = weights.prelu(weights.norm(inner, f"{name}.bn2", epsilon), f"{name}.prelu")
            inner = weights.convolve(inner, f"{name}.conv2", channels, 3, stride, padding=1)
            if block == 0:
                x = weights.convolve(x, f"{name}.downsample.0", channels, 1, stride)
                x = weights.norm(x, f"{name}.downsample.1", epsilon)
            x = x + weights.norm(inner, f"{name}.bn3", epsilon)
    x = weights.connect(weights.norm(x, "bn2", epsilon).flatten(1), "fc", bias=True)
    return weights.norm(x, "features", epsilon)


def magface(weights: Weights, x: Tensor) -> Tensor:
    """IResNet-18 of MagFace."""
    return insightface(weights, x, epsilon=2e-5)


def adaface(weights: Weights, x: Tensor) -> Tensor:
    """IR-18 of AdaFace, its feature divided by the norm."""
    x = weights.convolve(x, "input_layer.0", 64, 3, padding=1)
    x = weights.prelu(weights.norm(x, "input_layer.1"), "input_layer.2")
    for block, channels in enumerate((64, 64, 128, 128, 256, 256, 512, 512)):
        name, stride = f"body.{block}.res_layer", 2 - block % 2
        inner = weights.convolve(weights.norm(x, f"{name}.0"), f"{name}.1", channels, 3, padding=1)
        inner = weights.prelu(weights.norm(inner, f"{name}.2"), f"{name}.3")
        inner = weights.norm(weights.convolve(inner, f"{name}.4", channels, 3, stride, padding=1), f"{name}.5")
        if x.shape[1] == channels:
            x = F.max_pool2d(x, 1, stride) + inner
        else:
            shortcut = f"body.{block}.shortcut_layer"
            x = weights.norm(weights.convolve(x, f"{shortcut}.0", channels, 1, stride), f"{shortcut}.1") + inner
    x = weights.connect(weights.norm(x, "output_layer.0").flatten(1), "output_layer.3", bias=True)
    return F.normalize(weights.norm(x, "output_layer.4", affine=False))


def _row(
    weights: Weights, x: Tensor, layers: list[tuple[str, str, str]], shapes: list[tuple[int, Any, int, int]]
) -> Tensor:
    """Convolutions in a row, each with a batch norm and, where it is named, a PReLU."""
    for (convolution, norm, prelu), (outputs, kernel, stride, groups) in zip(layers, shapes, strict=True):
        padding = 1 if kernel == 3 else 0
        x = weights.convolve(x, convolution, outputs, kernel, stride, padding=padding, groups=groups)
        x = weights.norm(x, norm)
        x = weights.prelu(x, prelu) if prelu else x
    return x


def _named(name: str, linear: bool = False) -> tuple[str, str, str]:
    return f"{name}.conv", f"{name}.bn", "" if linear else f"{name}.prelu"


#: Name of the stage in InsightFace_Pytorch, whether it is a group, and its hidden channels, channels, repeats, stride.
_STAGES = (
    ("conv_23", 128, 64, 1, 2),
    ("conv_3", 128, 64, 4, 1),
    ("conv_34", 256, 128, 1, 2),
    ("conv_4", 256, 128, 6, 1),
    ("conv_45", 512, 128, 1, 2),
    ("conv_5", 256, 128, 2, 1),
)


def _bottlenecks(weights: Weights, x: Tensor, in_one_row: bool) -> Tensor:
    block = 0
    for name, hidden, channels, repeats, stride in _STAGES:
        for repeat in range(repeats):
            if in_one_row:
                start = f"blocks.{block}.conv"
                layers = [tuple(f"{start}.{place}" for place in places) for places in ((0, 1, 2), (3, 4, 5), (6, 7))]
                layers[2] = (*layers[2], "")
            else:
                start = name if stride == 2 else f"{name}.model.{repeat}"
                layers = [_named(f"{start}.conv"), _named(f"{start}.conv_dw"), _named(f"{start}.project", linear=True)]
            shapes = [(hidden, 1, 1, 1), (hidden, 3, stride, hidden), (channels, 1, 1, 1)]
            inner = _row(weights, x, layers, shapes)  # type: ignore[arg-type]
            x = inner if stride == 2 else x + inner
            block += 1
    return x


def mobilefacenet_pytorch(weights: Weights, x: Tensor) -> Tensor:
    """MobileFacenet of Xiaoccer's MobileFaceNet_Pytorch, on 112 x 96 faces."""
    x = _row(weights, x, [_named("conv1"), _named("dw_conv1")], [(64, 3, 2, 1), (64, 3, 1, 64)])
    x = _bottlenecks(weights, x, in_one_row=True)
    layers = [_named("conv2"), _named("linear7", linear=True), _named("linear1", linear=True)]
    return _row(weights, x, layers, [(512, 1, 1, 1), (512, (7, 6), 1, 512), (SIZE, 1, 1, 1)]).flatten(1)


def insightface_pytorch(weights: Weights, x: Tensor) -> Tensor:
    """MobileFaceNet of TreB1eN's InsightFace_Pytorch, its embedding divided by the norm."""
    x = _row(weights, x, [_named("conv1"), _named("conv2_dw")], [(64, 3, 2, 1), (64, 3, 1, 64)])
    x = _bottlenecks(weights, x, in_one_row=False)
    layers = [_named("conv_6_sep"), _named("conv_6_dw", linear=True)]
    x = _row(weights, x, layers, [(512, 1, 1, 1), (512, (7, 7), 1, 512)]).flatten(1)
    return F.normalize(weights.norm(weights.connect(x, "linear", bias=False), "bn"))


#: Of each source: network, height and width of a face, and its input of RGB pixels in [0, 255].
NETWORKS: dict[str, tuple[Network, tuple[int, int], Callable[[Tensor], Tensor]]] = {
    "arcface_torch": (insightface, (112, 112), lambda pixels: (pixels / 255 - 0.5) / 0.5),
    "adaface": (adaface, (112, 112), lambda pixels: (pixels.flip(1) / 255 - 0.5) / 0.5),
    "magface": (magface, (112, 112), lambda pixels: pixels.flip(1) / 255),
    "mobilefacenet_pytorch": (mobilefacenet_pytorch, (112, 96), lambda pixels: (pixels - 127.5) / 128),
    "insightface_pytorch": (insightface_pytorch, (112, 112), lambda pixels: (pixels.flip(1) / 255 - 0.5) / 0.5),
}


def checkpoint(source: str, weights: dict[str, Tensor]) -> dict[str, Any]:
    """A checkpoint as the project saves it, with what belongs to its training beside the network."""
    more = torch.zeros(3)
    if source == "adaface":
        named = {f"model.{name}": tensor for name, tensor in weights.items()}
        return {"epoch": 2, "state_dict": {**named, "head.kernel": more}, "hyper_parameters": {"lr": 0.1}}
    if source == "magface":
        named = {f"features.module.{name}": tensor for name, tensor in weights.items()}
        return {"arch": "iresnet18", "state_dict": {**named, "parallel_fc.weight": more}, "optimizer": {"state": {}}}
    return {"epoch": 2, "net_state_dict": weights} if source == "mobilefacenet_pytorch" else dict(weights)


def embed(source: str, weights: Weights, pixels: Tensor) -> Tensor:
    """Embeddings of RGB pixels (images, 3, height, width) by the source's own network; fills `weights` first."""
    network, _, normalised = NETWORKS[source]
    with torch.no_grad():
        return network(weights, normalised(pixels.float()))


def faces(source: str, count: int = 2) -> Tensor:
    """Noise of the size that a source's network takes, uint8."""
    shape = (count, 3, *NETWORKS[source][1])
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


def saved(path: Path, source: str, seed: int = 0) -> Weights:
    """A random checkpoint of a source, written to a path."""
    weights = Weights(seed)
    embed(source, weights, faces(source, 1))
    torch.save(checkpoint(source, dict(weights)), path)
    return weights
