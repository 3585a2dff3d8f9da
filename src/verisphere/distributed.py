"""Several processes of one training or measurement: who one is among them, and what they tell each other.

A launcher such as torchrun starts the same command several times and says in the environment who is who; `joined` takes
that up. Without a launcher there is one process, and everything here gives back what it was given.

A quantity is either *alike*, computed by every process from the same numbers, or *partial*, a process's own summand.
`summed` and `entering` are the two doors between them, and each is the other's derivative: a sum over the processes on
one way, nothing on the other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import isfinite
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Seconds that a process waits for the others before it gives them up.
PATIENCE = 600.0
_GIVEN = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"


@dataclass(frozen=True)
class World:
    """The processes that work together, and which of them this one is.

    Attributes:
        rank: number of this process, from 0.
        size: how many there are.
        local_rank: number of this process among those of its machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and talks."""
        return self.rank == 0

    def share(self, count: int, rank: int | None = None) -> range:
        """Which of `count` things in a row belong to a process; shares differ by at most one, larger ones first.

        >>> [World(size=3).share(8, rank) for rank in range(3)]
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        each, more = divmod(count, self.size)
        rank = self.rank if rank is None else rank
        first = rank * each + min(rank, more)
        return range(first, first + each + (rank < more))


def world() -> World:
    """The processes that have been joined; one, unless `joined` or the user's own program has started a group."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    rank = dist.get_rank()
    return World(rank, dist.get_world_size(), int(os.environ.get("LOCAL_RANK", rank)))


def launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE") or 1) > 1


@contextmanager
def joined(cuda: bool = False, patience: float = PATIENCE) -> Iterator[World]:
    """Meet the other processes that a launcher has started, and part from them at the end; alone without a launcher.

    Processes talk by gloo. With `cuda` they talk by NCCL about what lies on a GPU, and need one each.

    Args:
        cuda: whether GPUs are used.
        patience: seconds after which one who waits for the others gives up, with an error.

    Raises:
        ValueError: the environment is not what a launcher leaves, or there are more processes than GPUs.
    """
    if not launched() or (dist.is_available() and dist.is_initialized()):
        yield world()
        return
    missing = [name for name in _GIVEN if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']} but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} "
            "not set: start the processes with torchrun, which sets all of them"
        )
    if not (isfinite(patience) and patience > 0):
        raise ValueError(f"patience is {patience}; it must be a positive number of seconds")
    if cuda:
        local = int(os.environ.get("LOCAL_RANK", os.environ["RANK"]))
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"process {local} of this machine has no GPU of its own: PyTorch sees {torch.cuda.device_count()}; "
                "start one process a GPU, or train with --device cpu"
            )
        torch.cuda.set_device(local)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timedelta(seconds=patience))
    try:
        yield world()
    finally:
        dist.destroy_process_group()


# What they tell each other ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One collective, and the bytes that this process put in."""

    kind: str
    payload: int


@dataclass
class Traffic:
    """Collectives in the order in which they were called.

    Attributes:
        calls: each of them.
    """

    calls: list[Call] = field(default_factory=list)

    @property
    def payload(self) -> int:
        """Bytes of all of them together, as `Call` counts them."""
        return sum(call.payload for call in self.calls)


_counting: list[Traffic] = []


@contextmanager
def counted() -> Iterator[Traffic]:
    """Count this process's collectives; those that `torch.distributed` is asked for elsewhere, as by DDP, are not seen.

    >>> with counted() as traffic:
    ...     _ = total(torch.ones(3))
    >>> traffic.calls  # one process has nobody to tell
    []
    """
    traffic = Traffic()
    _counting.append(traffic)
    try:
        yield traffic
    finally:
        _counting.remove(traffic)


def total(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The sum of what the processes have, without gradient."""
    return _reduced(partial, dist.ReduceOp.SUM, "sum")


def highest(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The largest of what the processes have, element by element, without gradient."""
    return _reduced(partial, dist.ReduceOp.MAX, "maximum")


def counts(count: int, device: torch.device | str = "cpu") -> list[int]:
    """How many each process has of something."""
    return [int(one) for one in gathered(torch.tensor([count], device=device))]


def gathered(rows: Shaped[Tensor, "rows *shape"], sizes: list[int] | None = None) -> Shaped[Tensor, "all *shape"]:
    """The rows of all processes, in their order, without gradient.

    Args:
        rows: of this process.
        sizes: how many rows each process has; None where all have as many.
    """
    here = world()
    rows = rows.detach()
    if here.size == 1:
        return rows
    sizes = [len(rows)] * here.size if sizes is None else sizes
    most = max(sizes)
    mine = rows.new_zeros(most, *rows.shape[1:])
    mine[: len(rows)] = rows
    found = rows.new_empty(here.size, most, *rows.shape[1:])
    _note("gather", mine)
    dist.all_gather(list(found.unbind()), mine)
    return torch.cat([part[:size] for part, size in zip(found.unbind(), sizes, strict=True)])


def gathered_with_gradient(rows: Shaped[Tensor, "rows *shape"], sizes: list[int]) -> Shaped[Tensor, "all *shape"]:
    """The rows of all processes, in their order; each row's gradient is the sum of what the processes find for it."""
    return rows if world().size == 1 else _Gathered.apply(rows, sizes)


def summed(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """From partial to alike: the sum over the processes, whose gradient every process knows already."""
    return partial if world().size == 1 else _Summed.apply(partial)


def entering(alike: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """From alike to partial: the same number, whose gradient is the sum of what the processes find for it."""
    return alike if world().size == 1 else _Entering.apply(alike)


def agreed(alike: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The same number, for a use that is alike on every process: each hands on its share of the gradient, 1 / size.

    That is for one that comes from `gathered_with_gradient`, where the processes' gradients add up.
    """
    size = world().size
    return alike if size == 1 else _Scaled.apply(alike, 1.0 / size)


def meet() -> None:
    """Wait until every process has come here."""
    if world().size > 1:
        total(torch.zeros(1))


def _reduced(partial: Tensor, operation: Any, kind: str) -> Tensor:
    if world().size == 1:
        return partial.detach()
    result = partial.detach().clone(memory_format=torch.contiguous_format)
    _note(kind, result)
    dist.all_reduce(result, operation)
    return result


def _note(kind: str, tensor: Tensor, times: int = 1) -> None:
    for traffic in _counting:
        traffic.calls.append(Call(kind, tensor.numel() * tensor.element_size() * times))


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return gathered(rows, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_all: Tensor) -> tuple[Tensor, None]:
        most, sizes = max(ctx.sizes), ctx.sizes
        parts = []
        for part in by_all.split(sizes):
            padded = by_all.new_zeros(most, *by_all.shape[1:])
            padded[: len(part)] = part
            parts.append(padded)
        mine = torch.empty_like(parts[0])
        _note("scatter", mine, len(parts))
        dist.reduce_scatter(mine, parts)
        return mine[: sizes[world().rank]], None


class _Summed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor) -> Tensor:
        return total(partial)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sum: Tensor) -> Tensor:
        return by_sum


class _Entering(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alike: Tensor) -> Tensor:
        return alike.view_as(alike)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, partial: Tensor) -> Tensor:
        return total(partial)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, alike: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return alike.view_as(alike)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_alike: Tensor) -> tuple[Tensor, None]:
        return by_alike * ctx.factor, None
