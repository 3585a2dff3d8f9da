"""What the processes of a group exchange: sums, maxima and gathered rows, with and without gradient, and words.

A quantity is either *alike*, computed by every process from the same numbers, or *partial*, a process's own summand.
`summed` and `entering` are the two doors between them, and each is the other's derivative: a sum over the processes on
one way, nothing on the other. Without a group there is one process, and everything here gives back what it was given.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

from verisphere.distributed import world

T = TypeVar("T")


class FailedElsewhere(ValueError):
    """Another process cannot go on, and says why itself; this one's message repeats it."""


@dataclass(frozen=True)
class Call:
    """One collective, and the bytes that this process put in."""

    kind: str
    payload: int


@dataclass(eq=False)
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


def counts(count: int) -> list[int]:
    """How many each process has of something; the numbers go by way of the CPU where they can, past a busy GPU."""
    if world().size == 1:
        return [count]
    on = "cpu" if "cpu" in dist.get_backend_config() else "cuda"
    return gathered(torch.tensor([count], device=on)).tolist()


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
    assert sizes[here.rank] == len(rows), "every process knows how many rows each has"
    mine = _filled(rows, max(sizes))
    found = rows.new_empty(here.size * len(mine), *rows.shape[1:])
    _note("gather", mine)
    _gather(found, mine)
    return _parts(found, sizes)


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


def _filled(rows: Tensor, most: int) -> Tensor:
    """With zeros up to so many rows: processes exchange equally many."""
    if len(rows) == most:
        return rows.contiguous()
    return torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])


def _parts(filled: Tensor, sizes: list[int]) -> Tensor:
    """The rows of each process without what they were filled with."""
    most = max(sizes)
    if all(size == most for size in sizes):
        return filled
    return torch.cat([filled[rank * most : rank * most + size] for rank, size in enumerate(sizes)])


# These two, which take one tensor each way and not a list, have lost the names of torch 2.9 since.
def _gather(found: Tensor, mine: Tensor) -> None:
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(found, mine)


def _scatter(mine: Tensor, all_of_them: Tensor) -> None:
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(mine, all_of_them)


# The backward of these talks as well, and processes must do so in one order. They do if they ran the same forward:
# autograd takes the nodes that are ready in the reverse order of their making, one at a time for each device. A node is
# ready once all who used its result have gone, and those were made later. So, with all tensors on one device, the order
# is the forward's reversed, however the work between two exchanges differs from process to process. What must not
# differ is whether such a node is reached at all: a process without a part in a result still makes it from its inputs.


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
        everyones = torch.cat([_filled(part, most) for part in by_all.split(sizes)])
        mine = by_all.new_empty(most, *by_all.shape[1:])
        _note("scatter", everyones)
        _scatter(mine, everyones)
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


def told(text: str) -> list[str]:
    """What each process has to say, in their order."""
    if world().size == 1:
        return [text]
    said = text.encode("utf-8", "surrogateescape")
    sizes = counts(len(said))
    if not max(sizes):
        return [""] * len(sizes)
    everything = gathered(torch.tensor(list(said), dtype=torch.uint8), sizes)
    return [bytes(part.tolist()).decode("utf-8", "surrogateescape") for part in everything.split(sizes)]


def together(work: Callable[[], T]) -> T:
    """What `work` returns on this process; if it fails on any, it fails on all.

    The work itself must not wait for other processes.

    Raises:
        FailedElsewhere: on a process whose own work went well while another's did not.
        ValueError, OSError: what the work raised here.
    """
    failure: ValueError | OSError | None = None
    try:
        result = work()
    except (ValueError, OSError) as error:
        failure = error
    said = told("" if failure is None else str(failure) or type(failure).__name__)
    if failure is not None:
        raise failure
    for rank, text in enumerate(said):
        if text:
            raise FailedElsewhere(f"process {rank}: {text}")
    return result


def first_alone(work: Callable[[], str]) -> str:
    """What `work` returns on the first process, which alone does it; known to all.

    Raises:
        FailedElsewhere: it failed there.
    """
    return told(together(lambda: work() if world().first else ""))[0]
