"""The collectives between ranks: sums, maxima and gathered rows, with and without gradient, and gathered text.

A quantity is either *replicated*, computed by every rank from the same numbers, or *partial*, a rank's own summand.
`to_replicated` and `to_partial` convert between them, and each is the other's derivative: an all-reduce in one
direction, the identity in the other. Without a group there is one process, and every collective returns its input.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

from verisphere.base.distributed import process_group, world

T = TypeVar("T")


class FailedElsewhere(ValueError):
    """Another rank cannot continue; the message repeats the error that it reports."""


@dataclass(frozen=True)
class Call:
    """One collective, and the bytes that this rank contributes."""

    kind: str
    payload: int


@dataclass(eq=False)
class Traffic:
    """Collectives in calling order."""

    calls: list[Call] = field(default_factory=list)

    @property
    def payload(self) -> int:
        """The bytes of all calls, as `Call` counts them."""
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
    on = "cpu" if "cpu" in dist.get_backend_config(process_group()) else "cuda"
    return gathered(torch.tensor([count], device=on)).tolist()


def gathered(rows: Shaped[Tensor, "rows *shape"], sizes: list[int] | None = None) -> Shaped[Tensor, "all *shape"]:
    """Gather the rows of all ranks, in the order of the ranks, without gradient."""
    here = world()
    rows = rows.detach()
    if here.size == 1:
        return rows
    sizes = [len(rows)] * here.size if sizes is None else sizes
    assert sizes[here.rank] == len(rows), "sizes agrees with the rows of this rank"
    local = _padded(rows, max(sizes))
    padded = rows.new_empty(here.size * len(local), *rows.shape[1:])
    _note("gather", local)
    _gather(padded, local)
    return _without_padding(padded, sizes)


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

    A replicated computation applies it to a tensor from `gathered_with_gradient`, which sums the ranks' gradients.
    """
    size = world().size
    return replicated if size == 1 else _Scaled.apply(replicated, 1.0 / size)


def summed_by_ddp(rows: Float[Tensor, "rows *shape"]) -> Float[Tensor, "rows *shape"]:
    """The identity, with the gradient multiplied by the world size, for the output of a model in DDP.

    DDP divides the sum of the ranks' gradients by the world size, as losses need that are the mean of a rank's own
    rows. The loss of a head under `Sharded` is the mean over the rows of all ranks, and its gradients are to be added:

        head(summed_by_ddp(ddp(images)), labels).loss.backward()

    Rows in half precision become float32, since a product with three is not exact in bfloat16.
    """
    size = world().size
    return rows if size == 1 else _Scaled.apply(rows.to(torch.promote_types(rows.dtype, torch.float32)), float(size))


def _reduced(partial: Tensor, operation: Any, kind: str) -> Tensor:
    if world().size == 1:
        return partial.detach()
    result = partial.detach().clone(memory_format=torch.contiguous_format)
    _note(kind, result)
    dist.all_reduce(result, operation, group=process_group())
    return result


def _note(kind: str, tensor: Tensor) -> None:
    for traffic in _counting:
        traffic.calls.append(Call(kind, tensor.numel() * tensor.element_size()))


def _padded(rows: Tensor, most: int) -> Tensor:
    """The rows, padded with zeros to `most`, so that all ranks exchange the same number of rows."""
    if len(rows) == most:
        return rows.contiguous()
    return torch.cat([rows, rows.new_zeros(most - len(rows), *rows.shape[1:])])


def _without_padding(padded: Tensor, sizes: list[int]) -> Tensor:
    """The rows of each rank without their padding."""
    most = max(sizes)
    if all(size == most for size in sizes):
        return padded
    return torch.cat([padded[rank * most : rank * most + size] for rank, size in enumerate(sizes)])


# The variants that take one tensor in place of a list were renamed after torch 2.9.
def _gather(whole: Tensor, local: Tensor) -> None:
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(whole, local, group=process_group())


def _scatter(local: Tensor, whole: Tensor) -> None:
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(local, whole, group=process_group())


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
        whole = torch.cat([_padded(part, most) for part in by_all.split(sizes)])
        local = by_all.new_empty(most, *by_all.shape[1:])
        _note("scatter", whole)
        _scatter(local, whole)
        return local[: sizes[world().rank]], None


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


def gather_text(text: str) -> list[str]:
    """Gather one text from each rank, in the order of the ranks."""
    if world().size == 1:
        return [text]
    encoded = text.encode("utf-8", "surrogateescape")
    sizes = counts(len(encoded))
    if not max(sizes):
        return [""] * len(sizes)
    texts = gathered(torch.tensor(list(encoded), dtype=torch.uint8), sizes)
    return [bytes(part.tolist()).decode("utf-8", "surrogateescape") for part in texts.split(sizes)]


def on_every_rank(work: Callable[[], T]) -> T:
    """The result of `work` on this rank; if it fails on one rank, it fails on all. It must not call collectives."""
    failure: ValueError | OSError | None = None
    try:
        result = work()
    except (ValueError, OSError) as error:
        failure = error
    errors = gather_text("" if failure is None else str(failure) or type(failure).__name__)
    if failure is not None:
        raise failure
    for rank, text in enumerate(errors):
        if text:
            raise FailedElsewhere(f"process {rank}: {text}")
    return result


def on_first_rank(work: Callable[[], str | None]) -> str:
    """Call `work` on rank 0 only and return its text on every rank, when it is done; of work without a text, none."""
    return gather_text(on_every_rank(lambda: (work() if world().first else None) or ""))[0]
