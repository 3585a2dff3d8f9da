"""What a training in several processes takes beyond one: gradients that add up, batches divided, errors told to all."""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from verisphere.backbones.backbone import Backbone
from verisphere.distributed import World, world

T = TypeVar("T")

#: What DDP remarks where all is well: a 1 x 1 filter, which has its numbers in the same order in every memory format,
#: calls that order by another name.
_REMARK = "Grad strides do not match bucket view strides"


class AddedUp:
    """A backbone whose gradients are the sums over the processes once a backward is done, by DistributedDataParallel.

    The sum, where DDP takes the mean: the head's loss is the mean over the global batch already, and what its backward
    sends to a process's rows is their share of that mean's gradient. So that gradient is made larger by the number of
    processes on its way in. (A communication hook could add up too, but it is Python that runs on threads of gloo's,
    and those have been seen to bring a process down that was at its end.)

    Parameters that no embedding of a batch depends on get no gradient from it, as on one process.

    Before each batch every process gets the first one's buffers, such as running means: what a process holds beyond
    its checkpoint then has no effect on what follows.

    Args:
        backbone: with at least one parameter that is trained.
        run: what computes the embeddings, as a compiled form of it; None is the backbone itself.
    """

    def __init__(self, backbone: Backbone, run: Callable[[Tensor], Tensor] | None = None) -> None:
        # it comes from the midst of a backward, where no context of ours is around it
        warnings.filterwarnings("ignore", message=_REMARK)
        module = _Through(backbone, backbone.__call__ if run is None else run)
        # Without looking for them, at the price of one small collective, DDP would also arrange its sums anew after the
        # first step, and of three summands the sum depends on that: a resumed run would differ in the last bits.
        self._ddp = DistributedDataParallel(module, find_unused_parameters=True)

    def __call__(self, images: Float[Tensor, "batch 3 height width"]) -> Float[Tensor, "batch dim"]:
        """The embeddings of this process's images."""
        embeddings = self._ddp(images)
        # in float32 at least: times three is not exact, and the head computes so anyway
        return _Times.apply(embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)), float(world().size))

    def apart(self) -> AbstractContextManager[None]:
        """Within it gradients stay each process's own; the next backward outside adds up what has gathered."""
        return self._ddp.no_sync()


def added_up(backbone: Backbone, run: Callable[[Tensor], Tensor] | None = None) -> AddedUp | None:
    """See `AddedUp`; None where there is nothing to add up: on one process, or in a backbone that is not trained."""
    trained = any(parameter.requires_grad for parameter in backbone.parameters())
    return AddedUp(backbone, run) if trained and world().size > 1 else None


class _Through(nn.Module):
    """The backbone for DDP, and how it is called.

    DDP, told to look for parameters that are not used, complains at length should it find none; so there is one.
    """

    def __init__(self, backbone: Backbone, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.backbone, self._run = backbone, run
        trained = next(one for one in backbone.parameters() if one.requires_grad)
        self.unused = nn.Parameter(torch.zeros(1, dtype=trained.dtype, device=trained.device))

    def forward(self, images: Tensor) -> Tensor:
        return self._run(images)


class _Times(torch.autograd.Function):
    """The same numbers; their gradient times a factor."""

    @staticmethod
    def forward(ctx: Any, numbers: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return numbers.view_as(numbers)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def share_buffers(module: nn.Module) -> None:
    """Give every process the first one's buffers, for what they are to do alike with the module as it is."""
    if world().size > 1:
        for buffer in module.buffers():
            dist.broadcast(buffer, 0)


@dataclass(frozen=True)
class Division:
    """How a global batch is worked through: part after part, each divided over the processes.

    Attributes:
        own: for each part, the places in the batch that this process works on.
        weights: share of the batch that each part is, over all processes.
    """

    own: tuple[range, ...]
    weights: tuple[float, ...]

    @property
    def places(self) -> list[int]:
        """The places of all parts that this process works on."""
        return [place for part in self.own for place in part]


def divided(batch: int, parts: int = 1, here: World | None = None) -> Division:
    """The division of a batch; the parts are the same however many processes there are.

    >>> divided(10, parts=2, here=World(rank=1, size=2)).own
    (range(3, 5), range(8, 10))

    Args:
        batch: images of all processes together.
        parts: how many are worked through one after another.
        here: this process among the others; those that have been joined by default.

    Raises:
        ValueError: a part has fewer images than there are processes.
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
