"""Memory and work of an inversion, computed before it begins."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from verisphere.backbones.backbone import Backbone
from verisphere.base.device import device_of
from verisphere.study.invert.inversion import Inversion, followed
from verisphere.study.invert.terms import BatchNormStatistics
from verisphere.train.dry_run.measured import saved_bytes

_FEW, _MORE = 2, 4
_FLOAT = 4
_BACKWARD = 2  # memory of the backward, as a multiple of what the forward keeps for it
_OF_IMAGES = 6  # values, their gradient, two averages of Adam, the network's input, and a temporary one
_STEP = 2  # work of a step as a multiple of a forward: images need gradients, weights do not


@dataclass(frozen=True)
class Plan:
    """Memory and work of an inversion; `bytes` are of weights, and of the largest batch with its backward."""

    images: int
    batches: int
    steps: int
    bytes: int
    flops: int

    def text(self) -> str:
        """The plan in a line."""
        batches = f"{self.batches:,} batch{'es' if self.batches > 1 else ''}"
        return (
            f"{self.images:,} images in {batches} of {self.steps:,} steps: {self.bytes / 2**30:.2f} GiB beside the "
            f"libraries, {self.flops / 1e12:,.1f} TFLOP"
        )


def plan_of(backbone: Backbone, images: int, settings: Inversion) -> Plan:
    """The plan, measured in two forwards on few images."""
    backbone.eval().requires_grad_(False)
    device = device_of(backbone)
    followed(backbone, torch.zeros(1, 3, *backbone.input_size, device=device).requires_grad_())
    states = [*backbone.parameters(), *backbone.buffers()]
    counter = FlopCounterMode(display=False)

    def saved(batch: int) -> int:
        pixels = torch.zeros(batch, 3, *backbone.input_size, device=device).requires_grad_()
        with BatchNormStatistics(backbone) if settings.batch_norm else nullcontext() as statistics:

            def forward() -> torch.Tensor:
                embeddings = backbone(pixels)
                return embeddings.sum() + (statistics.distance() if statistics is not None else 0.0)

            return saved_bytes(forward, [*states, pixels])

    few = saved(_FEW)
    with counter:
        more = saved(_MORE)
    batch = min(images, settings.batch_size)
    an_image = (more - few) // (_MORE - _FEW)
    height, width = backbone.input_size
    weights = sum(tensor.nbytes for tensor in states)
    held = _BACKWARD * (few + (batch - _FEW) * an_image) + batch * _OF_IMAGES * 3 * height * width * _FLOAT
    work = counter.get_total_flops() // _MORE * _STEP * settings.steps * images
    return Plan(images, -(-images // settings.batch_size), settings.steps, weights + held, work)
