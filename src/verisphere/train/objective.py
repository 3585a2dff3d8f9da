"""What is trained: a backbone and a head over its embeddings."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.embed.backbone import Backbone
from verisphere.head.head import Head, HeadOutput


class Objective(nn.Module):
    """From normalised images and labels to a loss.

    The backbone runs in `precision` (autocast for bfloat16); the head computes in float32 whatever it is given.

    Args:
        backbone: network that makes the embeddings.
        head: class centers and loss.
        precision: of the backbone, float32 or bfloat16.
        run: what computes the embeddings in training: the backbone itself, unless a compiled form of it is given, or
            one whose gradients add up over processes.
        apart: what a backward that others will follow before the step goes inside of; see `AddedUp.apart`.
    """

    def __init__(
        self,
        backbone: Backbone,
        head: Head,
        precision: torch.dtype = torch.float32,
        run: Callable[[Tensor], Tensor] | None = None,
        apart: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__()
        self.backbone, self.head, self.precision = backbone, head, precision
        self._run = backbone.__call__ if run is None else run
        self.apart = apart

    def forward(
        self,
        images: Float[Tensor, "batch 3 height width"],
        labels: Int64[Tensor, " batch"],
        weights: Float[Tensor, " batch"] | None = None,
    ) -> HeadOutput:
        """The mean loss over the batch, and each image's."""
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.precision == torch.bfloat16):
            embeddings = self._run(images)
        return self.head(embeddings, labels, weights)
