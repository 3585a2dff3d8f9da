"""Process groups of one training or measurement: rank and world size, and the collectives between the ranks.

A launcher such as torchrun starts the same command several times and sets rank and world size in the environment, from
which `joined` starts the process group. Without a launcher there is one process, and every collective returns its
input.

A quantity is either *replicated*, computed by every rank from the same numbers, or *partial*, a rank's own summand.
`to_replicated` and `to_partial` convert between them, and each is the other's derivative: an all-reduce in one
direction, the identity in the other.
"""

import atexit
import gc
import importlib
import os
import sys
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
    """Rank and world size.

    Attributes:
        rank: number of this process, from 0.
        size: number of processes, the world size.
        local_rank: number of this process among those of its machine.

    Raises:
        ValueError: a rank outside the world size.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank is {self.rank} of {self.size} processes; it must be in [0, {self.size})")
        if self.local_rank < 0:
            raise ValueError(f"local_rank is {self.local_rank}; it must not be negative")

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and reports."""
        return self.rank == 0

    def share(self, count: int, rank: int | None = None) -> range:
        """Which of `count` things in a row belong to a process; shares differ by at most one, larger ones first.

        Args:
            count: how many things there are.
            rank: of the process; None is this one.

        >>> [World(size=3).share(8, rank) for rank in range(3)]
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        each, more = divmod(count, self.size)
        rank = self.rank if rank is None else rank
        first = rank * each + min(rank, more)
        return range(first, first + each + (rank < more))


#: One process.
ALONE = World()


def world() -> World:
    """Rank and world size of the present process group; one process without a group."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    rank = dist.get_rank()
    return World(rank, dist.get_world_size(), int(os.environ.get("LOCAL_RANK", rank)))


def launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    return bool(os.environ.get("WORLD_SIZE")) and _given("WORLD_SIZE") > 1


@contextmanager
def joined(cuda: bool = False, patience: float = PATIENCE) -> Iterator[World]:
    """Start the process group that a launcher describes, and destroy it at the end; one process without a launcher.

    The backend is gloo, with `cuda` also NCCL for tensors on a GPU, of which every process needs its own. A model in
    DDP that lives to the end of the program, in a global, say, keeps gloo's threads alive, too.

    Args:
        cuda: whether GPUs are used.
        patience: seconds after which waiting for other ranks ends with an error.

    Raises:
        ValueError: the environment is not what a launcher leaves, or there are more processes than GPUs.
        ConnectionError: the other ranks could not be reached.
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
    rank, size = _given("RANK"), _given("WORLD_SIZE")
    if rank >= size:
        raise ValueError(f"RANK is {rank} and WORLD_SIZE {size}; ranks count from 0: was one of the two set by hand?")
    if cuda:
        local = _given("LOCAL_RANK") if os.environ.get("LOCAL_RANK") else rank
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"process {local} of this machine has no GPU of its own: PyTorch sees {torch.cuda.device_count()}; "
                "start one process a GPU, or train with --device cpu"
            )
        torch.cuda.set_device(local)
    # Gloo's threads live as long as anything holds the group, and one that meets Python's shutdown aborts the process.
    # The functions of this module have the group of the moment as a default, so it is imported while there is none;
    # a model in DDP, in the frames of an error that has been told, is collected before the shutdown.
    # Such a model must not be the last to hold the group: it would end the group with the interpreter's lock in hand,
    # and wait for a thread that waits for this lock to free a tensor. A Python object that ends a group lets go of it.
    importlib.import_module("torch.distributed.nn.functional")
    atexit.unregister(_let_go)
    atexit.register(_let_go)
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timedelta(seconds=patience))
    except dist.DistError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        why = str(error).partition("\n")[0]
        raise ConnectionError(f"process {rank} of {size} has not met the others at {where}: {why}") from error
    try:
        yield world()
    finally:
        _parted.append(dist.group.WORLD)
        dist.destroy_process_group()


#: Groups whose processes have parted, and whose threads end with the program.
_parted: list[Any] = []


def _let_go() -> None:
    """Of what an error holds that nobody caught, or somebody did, at the program's end; then of the groups."""
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    gc.collect()
    _parted.clear()


def _given(name: str) -> int:
    text = os.environ[name]
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{name} is {text!r} in the environment; it must be a whole number, as torchrun sets it")
    return int(text)


# Collectives --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """One collective, and the bytes that this process put in."""

    kind: str
    payload: int


@dataclass(eq=False)
class Traffic:
    """Collectives in calling order.

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
    """Record the collectives of this module; calls of `torch.distributed` elsewhere, as by DDP, are not recorded.

    >>> with counted() as traffic:
    ...     _ = total(torch.ones(3))
    >>> traffic.calls  # one process exchanges nothing
    []
    """
    traffic = Traffic()
    _counting.append(traffic)
    try:
        yield traffic
    finally:
        _counting.remove(traffic)


def total(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """All-reduce by sum, without gradient."""
    return _reduced(partial, dist.ReduceOp.SUM, "sum")


def highest(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """All-reduce by element-wise maximum, without gradient."""
    return _reduced(partial, dist.ReduceOp.MAX, "maximum")


def counts(count: int) -> list[int]:
    """Gather one count of each rank; over the CPU where possible, which does not wait for a busy GPU."""
    if world().size == 1:
        return [count]
    on = "cpu" if "cpu" in dist.get_backend_config() else "cuda"
    return gathered(torch.tensor([count], device=on)).tolist()


def gathered(rows: Shaped[Tensor, "rows *shape"], sizes: list[int] | None = None) -> Shaped[Tensor, "all *shape"]:
    """Gather the rows of all ranks, in the order of the ranks, without gradient.

    Args:
        rows: rows of this rank.
        sizes: number of rows of each rank; None where all have equally many.
    """
    here = world()
    rows = rows.detach()
    if here.size == 1:
        return rows
    sizes = [len(rows)] * here.size if sizes is None else sizes
    assert sizes[here.rank] == len(rows), "sizes agrees with the rows of this rank"
    mine = _padded(rows, max(sizes))
    found = rows.new_empty(here.size * len(mine), *rows.shape[1:])
    _note("gather", mine)
    _gather(found, mine)
    return _without_padding(found, sizes)


def gathered_with_gradient(rows: Shaped[Tensor, "rows *shape"], sizes: list[int]) -> Shaped[Tensor, "all *shape"]:
    """Gather the rows of all ranks, in the order of the ranks; the gradients of a row are summed over the ranks."""
    return rows if world().size == 1 else _Gathered.apply(rows, sizes)


def to_replicated(partial: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """From partial to replicated: all-reduce by sum; the gradient, which is replicated, passes unchanged."""
    return partial if world().size == 1 else _ToReplicated.apply(partial)


def to_partial(replicated: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """From replicated to partial: the identity; the gradient is summed over the ranks."""
    return replicated if world().size == 1 else _ToPartial.apply(replicated)


def scale_gradient(replicated: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The identity, with the gradient divided by the world size.

    For a tensor from `gathered_with_gradient`, which sums the gradients of the ranks, in a replicated computation.
    """
    size = world().size
    return replicated if size == 1 else _Scaled.apply(replicated, 1.0 / size)


def _reduced(partial: Tensor, operation: Any, kind: str) -> Tensor:
    if world().size == 1:
        return partial.detach()
    result = partial.detach().clone(memory_format=torch.contiguous_format)
    _note(kind, result)
    dist.all_reduce(result, operation)
    return result


def _note(kind: str, tensor: Tensor) -> None:
    for traffic in _counting:
        traffic.calls.append(Call(kind, tensor.numel() * tensor.element_size()))


def _padded(rows: Tensor, most: int) -> Tensor:
    """The rows, padded with zeros to `most`: all ranks exchange equally many."""
    if len(rows) == most:
        return rows.contiguous()
    return torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])


def _without_padding(padded: Tensor, sizes: list[int]) -> Tensor:
    """The rows of each rank without their padding."""
    most = max(sizes)
    if all(size == most for size in sizes):
        return padded
    return torch.cat([padded[rank * most : rank * most + size] for rank, size in enumerate(sizes)])


# These two, which take one tensor each way and not a list, have lost the names of torch 2.9 since.
def _gather(found: Tensor, mine: Tensor) -> None:
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(found, mine)


def _scatter(mine: Tensor, all_of_them: Tensor) -> None:
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(mine, all_of_them)


# The backward passes of these functions call collectives as well, which all ranks must do in one order. They do if they
# ran the same forward: autograd runs the nodes that are ready in the reverse order of their creation, one at a time for
# each device. A node is ready once all nodes that used its result have run, and those were created later. So, with all
# tensors on one device, the order is the forward's reversed, however the work between two collectives differs from rank
# to rank. What must not differ is whether such a node is reached at all: a rank that contributes nothing to a result
# still computes it from its inputs.


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return gathered(rows, sizes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_all: Tensor) -> tuple[Tensor, None]:
        sizes: list[int] = ctx.sizes
        most = max(sizes)
        of_all = torch.cat([_padded(part, most) for part in by_all.split(sizes)])
        mine = by_all.new_empty(most, *by_all.shape[1:])
        _note("scatter", of_all)
        _scatter(mine, of_all)
        return mine[: sizes[world().rank]], None


class _ToReplicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, partial: Tensor) -> Tensor:
        return total(partial)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sum: Tensor) -> Tensor:
        return by_sum


class _ToPartial(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replicated: Tensor) -> Tensor:
        return replicated.view_as(replicated)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, partial: Tensor) -> Tensor:
        return total(partial)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replicated: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return replicated.view_as(replicated)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_replicated: Tensor) -> tuple[Tensor, None]:
        return by_replicated * ctx.factor, None
