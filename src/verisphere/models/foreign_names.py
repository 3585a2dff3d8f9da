"""The names of layers in other projects' networks and in ours: an explicit table for each project."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from verisphere.backbones.backbone import Colour
from verisphere.backbones.iresnet import BLOCKS
from verisphere.backbones.mobilefacenet import BOTTLENECKS

#: A batch norm's count of training steps, which checkpoints of PyTorch before 0.4.1 do not have.
COUNTER = "num_batches_tracked"
_WEIGHT = ("weight",)
_LINEAR = ("weight", "bias")
_STATISTICS = ("running_mean", "running_var", COUNTER)
_NORM = ("weight", "bias", *_STATISTICS)

#: Name of a layer in the other network, in ours, and the names of its tensors.
Layer = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class WeightSource:
    """A project whose checkpoints can be read.

    Attributes:
        init_args: arguments of the class, beside the depth and the size of an embedding.
        block: pattern of names that finds the residual blocks; None for a network of one depth.
        last: name of the tensor with one row for each number of an embedding.
        containers: entries of a checkpoint that may hold the tensors; else the checkpoint itself holds them.
        prefixes: prefixes of the names, one of which all names have.
        excluded: prefixes of names that belong to the training, not to the network.
        constants: tensors that our network has and the other does not, with their value.
        stands: source that documents the layout of the names and the preprocessing.
    """

    class_path: str
    init_args: dict[str, Any]
    layers: Callable[[int], Iterator[Layer]]
    block: str | None
    last: str
    containers: tuple[str, ...]
    prefixes: tuple[str, ...]
    excluded: tuple[str, ...]
    colour: Colour
    template: str
    stands: str
    constants: dict[str, float] = field(default_factory=dict)


def _iresnet(depth: int) -> Iterator[Layer]:
    """InsightFace's names of an IResNet: blocks are counted from 0 in each of the four stages."""
    yield from (("conv1", "stem.0", _WEIGHT), ("bn1", "stem.1", _NORM), ("prelu", "stem.2", _WEIGHT))
    inside = (
        ("bn1", _NORM),
        ("conv1", _WEIGHT),
        ("bn2", _NORM),
        ("prelu", _WEIGHT),
        ("conv2", _WEIGHT),
        ("bn3", _NORM),
    )
    ours = 0
    for stage, blocks in enumerate(BLOCKS[depth], start=1):
        for block in range(blocks):
            theirs = f"layer{stage}.{block}"
            for place, (name, tensors) in enumerate(inside):
                yield f"{theirs}.{name}", f"blocks.{ours}.layers.{place}", tensors
            if block == 0:
                yield f"{theirs}.downsample.0", f"blocks.{ours}.shortcut.0", _WEIGHT
                yield f"{theirs}.downsample.1", f"blocks.{ours}.shortcut.1", _NORM
            ours += 1
    yield from (("bn2", "project.0", _NORM), ("fc", "project.3", _LINEAR), ("features", "project.4", _NORM))


def _adaface(depth: int) -> Iterator[Layer]:
    """AdaFace's names of an IR network: blocks in one row; the first stage, which keeps 64 channels, has no convolution
    in a shortcut; the last batch norm has only statistics.
    """
    for place, tensors in enumerate((_WEIGHT, _NORM, _WEIGHT)):
        yield f"input_layer.{place}", f"stem.{place}", tensors
    block = 0
    for stage, blocks in enumerate(BLOCKS[depth]):
        for first in [True] + [False] * (blocks - 1):
            for place, tensors in enumerate((_NORM, _WEIGHT, _NORM, _WEIGHT, _WEIGHT, _NORM)):
                yield f"body.{block}.res_layer.{place}", f"blocks.{block}.layers.{place}", tensors
            if first and stage > 0:
                yield f"body.{block}.shortcut_layer.0", f"blocks.{block}.shortcut.0", _WEIGHT
                yield f"body.{block}.shortcut_layer.1", f"blocks.{block}.shortcut.1", _NORM
            block += 1
    for place, tensors in ((0, _NORM), (3, _LINEAR), (4, _STATISTICS)):
        yield f"output_layer.{place}", f"project.{place}", tensors


def _mobilefacenet(depth: int) -> Iterator[Layer]:
    """MobileFaceNet_Pytorch's names: bottlenecks in one row."""
    yield from _activated("conv1", "stem.0", "stem.1")
    yield from _activated("dw_conv1", "stem.2", "stem.3")
    ours = ("0.0", "0.1", "1", "2.0", "2.1", "3", "4.0", "4.1")
    for block in range(sum(repeats for _, _, repeats, _ in BOTTLENECKS)):
        tensors_of_layers = (_WEIGHT, _NORM, _WEIGHT, _WEIGHT, _NORM, _WEIGHT, _WEIGHT, _NORM)
        for place, tensors in enumerate(tensors_of_layers):
            yield f"blocks.{block}.conv.{place}", f"bottlenecks.{block}.layers.{ours[place]}", tensors
    yield from _activated("conv2", "mix.0", "mix.1")
    yield from _linear("linear7", "pool")
    yield from _linear("linear1", "project")


def _insightface_pytorch(depth: int) -> Iterator[Layer]:
    """InsightFace_Pytorch's names: strided bottlenecks are separate layers, the others form groups."""
    yield from _activated("conv1", "stem.0", "stem.1")
    yield from _activated("conv2_dw", "stem.2", "stem.3")
    groups = (("conv_23", 0), ("conv_3", 4), ("conv_34", 0), ("conv_4", 6), ("conv_45", 0), ("conv_5", 2))
    rows = [
        theirs
        for name, blocks in groups
        for theirs in ([f"{name}.model.{block}" for block in range(blocks)] if blocks else [name])
    ]
    for block, theirs in enumerate(rows):
        ours = f"bottlenecks.{block}.layers"
        yield from _activated(f"{theirs}.conv", f"{ours}.0", f"{ours}.1")
        yield from _activated(f"{theirs}.conv_dw", f"{ours}.2", f"{ours}.3")
        yield from _linear(f"{theirs}.project", f"{ours}.4")
    yield from _activated("conv_6_sep", "mix.0", "mix.1")
    yield from _linear("conv_6_dw", "pool")
    yield from (("linear", "project.0", _WEIGHT), ("bn", "project.1", _NORM))


def _linear(theirs: str, ours: str) -> Iterator[Layer]:
    """A convolution and its batch norm."""
    yield from ((f"{theirs}.conv", f"{ours}.0", _WEIGHT), (f"{theirs}.bn", f"{ours}.1", _NORM))


def _activated(theirs: str, ours: str, activation: str) -> Iterator[Layer]:
    """A convolution, its batch norm, and the PReLU that follows."""
    yield from _linear(theirs, ours)
    yield f"{theirs}.prelu", activation, _WEIGHT


SOURCES = {
    "arcface_torch": WeightSource(
        class_path="verisphere.backbones.IResNet",
        init_args={"mean": 127.5, "scale": 127.5},
        layers=_iresnet,
        block=r"layer\d+\.\d+",
        last="fc.weight",
        containers=("state_dict_backbone", "state_dict"),
        prefixes=("", "module."),
        excluded=(),
        colour="RGB",
        template="arcface_112x112",
        stands="InsightFace, recognition/arcface_torch: backbones/iresnet.py; inference.py: RGB, (pixel / 255 - 0.5) / "
        "0.5",
    ),
    "adaface": WeightSource(
        class_path="verisphere.backbones.IResNet",
        init_args={"subsampled_shortcut": True, "mean": 127.5, "scale": 127.5},
        layers=_adaface,
        block=r"body\.\d+",
        last="output_layer.3.weight",
        containers=("state_dict",),
        prefixes=("model.", ""),
        excluded=("head.",),
        constants={"project.4.weight": 1.0, "project.4.bias": 0.0},
        colour="BGR",
        template="arcface_112x112",
        stands="AdaFace: net.py; inference.py, to_input: BGR, (pixel / 255 - 0.5) / 0.5; it divides an embedding by "
        "its norm, which a cosine does too",
    ),
    "magface": WeightSource(
        class_path="verisphere.backbones.IResNet",
        init_args={"free_scale": True, "epsilon": 2e-5, "mean": 0.0, "scale": 255.0},
        layers=_iresnet,
        block=r"layer\d+\.\d+",
        last="fc.weight",
        containers=("state_dict",),
        prefixes=("features.module.", "module.features."),
        excluded=("parallel_fc.", "fc.", "module.fc."),
        colour="BGR",
        template="arcface_112x112",
        stands="MagFace: models/iresnet.py; inference/gen_feat.py: BGR as OpenCV reads it, pixel / 255",
    ),
    "mobilefacenet_pytorch": WeightSource(
        class_path="verisphere.backbones.MobileFaceNet",
        init_args={"face_height": 112, "face_width": 96, "mean": 127.5, "scale": 128.0},
        layers=_mobilefacenet,
        block=None,
        last="linear1.conv.weight",
        containers=("net_state_dict", "state_dict"),
        prefixes=("", "module."),
        excluded=(),
        colour="RGB",
        template="sphereface_112x96",
        stands="Xiaoccer's MobileFaceNet_Pytorch: core/model.py; dataloader/LFW_loader.py: RGB, (pixel - 127.5) / 128, "
        "aligned as SphereFace does",
    ),
    "insightface_pytorch": WeightSource(
        class_path="verisphere.backbones.MobileFaceNet",
        init_args={"mean": 127.5, "scale": 127.5},
        layers=_insightface_pytorch,
        block=None,
        last="linear.weight",
        containers=("state_dict",),
        prefixes=("", "module."),
        excluded=(),
        colour="BGR",
        template="arcface_112x112",
        stands="TreB1eN's InsightFace_Pytorch: model.py, class MobileFaceNet; data/data_pipe.py: BGR, (pixel / 255 - "
        "0.5) / 0.5; it divides an embedding by its norm, which a cosine does too",
    ),
}
