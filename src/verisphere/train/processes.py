"""Training on several ranks: gradients of the backbone summed, batches divided."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from verisphere.backbones.backbone import Backbone
from verisphere.base.collectives import summed_by_ddp
from verisphere.base.distributed import World, process_group, world

T = TypeVar("T")

#: A warning of DDP about a harmless case: the strides of a 1 x 1 filter have several equal descriptions.
_HARMLESS_WARNING = "Grad strides do not match bucket view strides"


class SummedBackbone:
    """A backbone whose gradients are summed over all ranks in the backward, by DistributedDataParallel.

    DDP takes the mean, but the head's loss is already the mean over the global batch, and its backward sends each row
    its share of the gradient of that mean. The gradient that enters the backbone is therefore multiplied by the world
    size. (A communication hook could sum too, but it is Python that runs on gloo's threads, which were seen to crash a
    process that was about to end.)

    Parameters that no embedding of a batch depends on get no gradient from it, as on one rank.

    Before each batch all ranks get the buffers of rank 0, such as running means, so that buffers that are not in the
    checkpoint have no effect on later steps.

    The backbone has at least one trained parameter. `run`, such as the compiled backbone, computes its embeddings; by
    default the backbone itself does.
    """

    def __init__(self, backbone: Backbone, run: Callable[[Tensor], Tensor] | None = None) -> None:
        # for good: the warning is raised inside a backward, where no context manager of ours is active
        warnings.filterwarnings("ignore", message=_HARMLESS_WARNING)
        module = _Through(backbone, backbone.__call__ if run is None else run)
        # Without the search for unused parameters, which costs one small collective, DDP would rearrange its buckets
        # after the first step. The sum of three summands depends on their order: a resumed run would differ in the last
        # bits.
        self._ddp = DistributedDataParallel(module, process_group=process_group(), find_unused_parameters=True)

    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The embeddings of this rank's images."""
        return summed_by_ddp(self._ddp(images))

    def local_gradients(self) -> AbstractContextManager[None]:
        """Gradients accumulate on each rank inside this context; the next backward outside it sums them."""
        return self._ddp.no_sync()


def summed_backbone(backbone: Backbone, run: Callable[[Tensor], Tensor] | None = None) -> SummedBackbone | None:
    """See `SummedBackbone`; None if nothing is to be summed: on one rank, or without trained weights."""
    trained = any(parameter.requires_grad for parameter in backbone.parameters())
    return SummedBackbone(backbone, run) if trained and world().size > 1 else None


class _Through(nn.Module):
    """The backbone as a module for DDP, with an unused parameter: DDP warns where it looks for them and finds none."""

    def __init__(self, backbone: Backbone, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.backbone, self._run = backbone, run
        trained = next(weight for weight in backbone.parameters() if weight.requires_grad)
        self.unused = nn.Parameter(torch.zeros(1, dtype=trained.dtype, device=trained.device))

    def forward(self, images: Tensor) -> Tensor:
        return self._run(images)


def share_buffers(module: nn.Module) -> None:
    """Copy the buffers of rank 0 to all ranks, so that the module computes the same on each."""
    if world().size > 1:
        group = process_group()
        first = 0 if group is None else dist.get_global_rank(group, 0)
        for buffer in module.buffers():
            dist.broadcast(buffer, first, group=group)


@dataclass(frozen=True)
class Division:
    """How a global batch is processed: part after part, each divided over the ranks.

    For each part these are the places in the batch that belong to this rank, and its share of the batch over all ranks.
    """

    own: tuple[range, ...]
    weights: tuple[float, ...]

    @property
    def places(self) -> list[int]:
        """The places of all parts that belong to this rank."""
        return [place for part in self.own for place in part]


def divided(batch: int, parts: int = 1, here: World | None = None) -> Division:
    """The division of a batch; the parts do not depend on the number of ranks.

    >>> divided(10, parts=2, here=World(rank=1, size=2)).own
    (range(3, 5), range(8, 10))
    """
    here = world() if here is None else here
    pieces = [World(size=parts).share(batch, part) for part in range(parts)]
    if min(map(len, pieces)) < here.size:
        raise ValueError(
            f"batch_size is {batch} and accumulate {parts}: a part of {min(map(len, pieces))} images is too small for "
            f"{here.size} processes; raise batch_size, or start fewer of them"
        )
    own = []
    for piece in pieces:
        share = here.share(len(piece))
        own.append(range(piece.start + share.start, piece.start + share.stop))
    return Division(tuple(own), tuple(len(piece) / batch for piece in pieces))
