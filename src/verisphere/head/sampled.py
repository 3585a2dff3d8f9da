"""The sampled engine: all classes of the batch and a random share of the others; no other class is read or written.

PartialFC (An et al. 2021, arXiv:2010.05222; 2022, arXiv:2203.15565), with three differences. Classes that are not drawn
keep their centers and momentum, without weight decay. A loss that sums over the classes weighs the random ones so that
sum and gradient are unbiased; a softmax runs over the classes drawn, uncorrected, as in the papers. And drawing takes
time and memory that grow with the number of classes drawn, not with that of all classes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from verisphere.base.distributed import world
from verisphere.base.seeds import Stream, mixed_seed
from verisphere.base.vocabulary import NO_CLASS, check_whole
from verisphere.head.interface import DeferredGradient, Engine, SGDStep, View, ViewRequest, WholeEngine, check_engine
from verisphere.head.sharded import Sharded
from verisphere.head.streamed import Streamed

#: Default share of the classes that a step uses, as in PartialFC's tables.
SAMPLE_RATE = 0.1

#: A sample enlarged for the batch's own classes has one of few sizes, since each size compiles element-wise work anew.
_SIGNIFICANT_BITS = 5


class Draws(nn.Module):
    """The seed and the number of draws so far, as a checkpoint keeps them; in evaluation mode nothing is drawn."""

    state: Int64[Tensor, "2"]

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.register_buffer("state", torch.tensor([seed, 0]))

    def next(self, device: torch.device) -> torch.Generator:
        """The generator of the next draw, which differs between ranks."""
        seed, count = self.state.tolist()
        self.state[1] += 1
        return torch.Generator(device).manual_seed(mixed_seed(Stream.CLASSES, seed, count, world().rank))


def distinct(population: int, count: int, generator: torch.Generator) -> Int64[Tensor, "count"]:
    """`count` different numbers below `population`, in any order; every such set is equally likely.

    Duplicates are drawn again. Which numbers are drawn does not depend on their values, so no set is preferred. Beyond
    half the population the complement is drawn, so time and memory grow with `count` alone.
    """
    device = generator.device
    if not count:
        return torch.empty(0, dtype=torch.int64, device=device)
    if 2 * count > population:
        keep = torch.ones(population, dtype=torch.bool, device=device)
        keep[distinct(population, population - count, generator)] = False
        return keep.nonzero()[:, 0]
    first = torch.randint(population, (count,), generator=generator, device=device).unique()
    more = first[:0]
    while missing := count - len(first) - len(more):
        new = torch.randint(population, (missing,), generator=generator, device=device)
        new = torch.cat([more, new]).unique()
        place = torch.searchsorted(first, new).clamp(max=len(first) - 1)
        more = new[first[place] != new]
    return torch.cat([first, more])


def drawn(
    positives: Int64[Tensor, "positive"], classes: int, count: int, generator: torch.Generator
) -> Int64[Tensor, "sampled"]:
    """The classes of the batch, which are ascending, each once, and random others, `count` in all, ascending."""
    others = distinct(classes - len(positives), count - len(positives), generator)
    # The n-th class outside the batch is n, and one more for each class of the batch before it.
    before = positives - torch.arange(len(positives), device=positives.device)
    return torch.cat([positives, others + torch.searchsorted(before, others, right=True)]).sort().values


def sample_size(rate: float, classes: int, positives: int) -> int:
    """Number of classes a step uses: the share of all, or those of the batch and a quarter as many others, if more.

    With few others a loss that sums would count each of them a hundred times: unbiased, but of too large a variance.

    >>> sample_size(0.1, 1000, 40), sample_size(0.01, 1000, 20), sample_size(0.5, 2, 2), sample_size(0.01, 9, 0)
    (100, 25, 2, 1)
    """
    share, least = round(rate * classes), positives + max(-(-positives // 4), 1)
    if least > share:
        unit = 1 << max(least.bit_length() - _SIGNIFICANT_BITS, 0)
        share = -(-least // unit) * unit
    return min(share, classes)


@dataclass(frozen=True)
class Sampled(WholeEngine):
    """PartialFC: in training each step uses the classes of the batch and random others, up to a share of all.

    A loss that sums over the classes counts each random class (N - P) / (S - P) times, for S classes of which P are the
    batch's, so that its value and gradient are those of all N on average; so does the mean distance of sub-centers. A
    softmax counts each class once, as in the papers: its normaliser is that of the classes drawn. A loss that needs the
    nearest other classes gets the nearest of those drawn, and one that compares with a teacher compares the two
    softmaxes over those drawn. In evaluation mode all classes are used and nothing is drawn.
    Under `Sharded` each rank draws among the classes that it holds.

    With `HeadSGD` a step reads and writes the centers and momentum of the classes drawn, with weight decay, and no
    other. Otherwise the centers get a gradient of their size, 0 for classes that were not drawn, and an optimizer may
    change those too, by momentum and weight decay.

    >>> from verisphere.head import Head
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Sampled(rate=0.5)).engine.rate
    0.5

    Attributes:
        rate: share of the classes that a step uses, in (0, 1]; see `sample_size`.
        inner: the engine that computes with the classes drawn.
        seed: seed of the draws.
        draws: the random state; a head takes it into its `state_dict`.

    Raises:
        ValueError: a rate or a seed outside its range, or an inner engine that cannot weigh its classes.
    """

    rate: float = SAMPLE_RATE
    inner: Engine = field(default_factory=Streamed)
    seed: int = 0
    _draws: Draws = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(
                f"rate is {self.rate}; it must be in (0, 1], the share of the classes to use (0.1 is usual)"
            )
        check_whole("seed", self.seed)
        if not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed}; it must be in [0, 2^63)")
        check_engine("inner", self.inner)
        if isinstance(self.inner, Sampled | Sharded):
            raise ValueError(
                f"inner is {type(self.inner).__name__}, which cannot weigh the classes drawn; allowed are Dense, "
                "Streamed and Auto (over several processes: Sharded(Sampled(...)))"
            )
        object.__setattr__(self, "_draws", Draws(self.seed))

    @property
    def draws(self) -> Draws:
        """The random state of the engine."""
        return self._draws

    def forget(self, loading: bool = False) -> None:
        """Make the steps that some of the inner engine's centers lack."""
        self.inner.forget(loading)

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """Some of the centers, for a batch with these labels."""
        if not self.draws.training:
            return self.inner.view(centers, request)
        generator = self.draws.next(centers.device)  # also where all classes are used: the ranks count draws alike
        positives = request.labels[request.labels != NO_CLASS].unique()
        size = sample_size(self.rate, len(centers), len(positives))
        if size == len(centers):
            return self.inner.view(centers, request)
        self.inner.forget()  # a batch before, of which it got all classes, may have left some of them late
        classes = drawn(positives, len(centers), size, generator)
        # how often a random class counts
        repeats = (len(centers) - len(positives)) / (size - len(positives))
        weights = torch.full((size,), repeats, dtype=request.dtype, device=centers.device)
        weights[torch.searchsorted(classes, positives)] = 1.0
        rows, request = with_copies(centers, request, classes, centers.detach().index_select(0, classes))
        teacher = request.teacher
        if teacher is not None:
            teacher = replace(teacher, centers=teacher.centers.index_select(0, classes))
        return self.inner.view(rows, replace(request, class_weights=weights, teacher=teacher))


@dataclass(frozen=True, eq=False)
class SampledGradient:
    """The deferred gradient of the classes drawn; see `DeferredGradient`.

    The version is that of the centers; `inner` is the deferred gradient of the copies of those drawn, and updates them.
    """

    centers: Float[Tensor, "classes subcenters columns"]
    version: int
    classes: Int64[Tensor, "sampled"]
    copies: Float[Tensor, "sampled subcenters columns"]
    inner: DeferredGradient

    @property
    def current(self) -> bool:
        """Whether the centers are still those that the gradient belongs to."""
        return bool(self.centers._version == self.version) and self.inner.current

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update the classes drawn, and their momentum, as `torch.optim.SGD` would; all others stay as they are."""
        momentum = None if buffer is None else buffer.index_select(0, self.classes)
        self.inner.apply(step, momentum)
        self.centers.index_copy_(0, self.classes, self.copies)
        if buffer is not None and momentum is not None:
            buffer.index_copy_(0, self.classes, momentum)

    def blocks(self) -> Iterator[Float[Tensor, "centers columns"]]:
        """Compute the gradient of the classes drawn."""
        return self.inner.blocks()

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiply the gradient by a number."""
        self.inner.scale(factor)


@dataclass(frozen=True, eq=False)
class ComputedGradient:
    """A gradient that the inner engine computed although it may be deferred, such as `Dense`; see `DeferredGradient`.

    The centers are copies of those drawn, and the gradient is that of these copies.
    """

    centers: Float[Tensor, "classes subcenters columns"]
    gradient: Float[Tensor, "classes subcenters columns"]

    @property
    def current(self) -> bool:
        """Always current: the copies are private to this step."""
        return True

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update the centers, and the momentum buffer, as `torch.optim.SGD` would."""
        change = self.gradient.add(self.centers, alpha=step.weight_decay)
        if buffer is not None:
            buffer.mul_(step.momentum).add_(change)
            change = change.add_(buffer, alpha=step.momentum) if step.nesterov else buffer
        self.centers.add_(change, alpha=-step.rate)

    def blocks(self) -> Iterator[Float[Tensor, "centers columns"]]:
        """The gradient, in one block."""
        yield self.gradient.flatten(0, 1)

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiply the gradient by a number."""
        self.gradient.mul_(factor)


def with_copies(
    centers: Float[Tensor, "classes subcenters columns"],
    request: ViewRequest,
    classes: Int64[Tensor, "sampled"],
    copies: Float[Tensor, "sampled subcenters columns"],
    kind: Callable[..., DeferredGradient] = SampledGradient,
) -> tuple[Float[Tensor, "sampled subcenters columns"], ViewRequest]:
    """Copies of some centers, for autograd, and the request about them; their gradient is deferred as of this kind."""
    to_head, labels, stored, version = request.defer, request.labels.contiguous(), centers.detach(), centers._version

    def defer(gradient: DeferredGradient) -> None:
        assert to_head is not None
        to_head(kind(stored, version, classes, copies, gradient))

    renamed = torch.searchsorted(classes, labels).masked_fill(labels == NO_CLASS, NO_CLASS)
    request = replace(request, labels=renamed, defer=None if to_head is None else defer, most_held=0)
    return _Copies.apply(request.defer, classes, copies, centers), request


class _Copies(torch.autograd.Function):
    """Copies of the centers drawn; their gradient is deferred, or scattered into a gradient of all centers."""

    @staticmethod
    def forward(
        ctx: Any, defer: Callable[[DeferredGradient], None] | None, classes: Tensor, copies: Tensor, centers: Tensor
    ) -> Tensor:
        ctx.defer, ctx.classes, ctx.copies = defer, classes, copies
        ctx.save_for_backward(centers)  # so that autograd refuses centers changed in the meantime
        ctx.set_materialize_grads(False)  # an engine that defers its gradient returns none
        return copies.view_as(copies)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_copies: Tensor | None) -> tuple[None, None, None, Tensor | None]:
        (centers,) = ctx.saved_tensors
        if by_copies is None:
            return None, None, None, None
        if ctx.defer is not None:
            ctx.defer(ComputedGradient(ctx.copies, by_copies))
            return None, None, None, None
        return None, None, None, torch.zeros_like(centers).index_copy_(0, ctx.classes, by_copies)
