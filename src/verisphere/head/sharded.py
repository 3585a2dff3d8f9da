"""The sharded engine: each process holds the centers of some classes, and all work on one global batch.

As in PartialFC (An et al. 2021, arXiv:2010.05222) embeddings and labels are gathered, and no process sees the centers
of another. What is a matter of rows, one number each, every process computes alike for the whole global batch; products
it makes for its own classes only, by an engine of its own.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from verisphere import distributed
from verisphere.distributed import World
from verisphere.head.contract import Batch, CenterQuery, Engine, Own, View
from verisphere.head.passes import known_shift
from verisphere.losses.contract import NO_CLASS, ClassLoss


@dataclass(frozen=True)
class Sharded:
    """Classes split over processes, in order and as evenly as their number allows.

    A step exchanges the following, for B rows in all and at most b a process (those with fewer fill up), P processes,
    embeddings of d numbers and centers of c (d, or one more with a class bias); bytes are what a process puts in, for
    float32, before whatever an exchange makes of them on the wire:

    | what                               | exchange | bytes     | when                                               |
    |------------------------------------|----------|-----------|----------------------------------------------------|
    | how many rows, weights, gradients  | gather   | 8         | always; by way of the CPU where that can be        |
    | embeddings                         | gather   | 4 b d     | always                                             |
    | labels                             | gather   | 8 b       | always                                             |
    | weights                            | gather   | 4 b       | if given                                           |
    | losses of the rows                 | sum      | 4 B       | one term, `linear` and not of own centers, without |
    |                                    |          |           | `pull_together`, such as SphereFace2               |
    | own cosines                        | sum      | 4 B       | any other, and so the next four                    |
    | own centers                        | sum      | 4 B c     | a term compares with them                          |
    | largest logits                     | maximum  | 4 B       | each softmax term without a bound up to 64         |
    | sums over the classes              | sum      | 4 B       | each term that looks at other classes              |
    | spread of the sub-centers          | sum      | 4         | `pull_together`                                    |
    | nearest other cosines, n a row     | gather   | 4 B n     | a term asks for them                               |
    | gradient of a context's item       | sum      | 4 or 4 B  | backward, if it needs one: a number, or one a row  |
    | gradient of the own centers        | sum      | 4 B c     | backward, each term that compares with them        |
    | gradient of the embeddings         | scatter  | 4 P b d   | backward, where the loss depends on them           |

    So SphereFace2 sends features and labels, and what comes back is a vector of losses, the features' gradient and that
    of its bias, one number. Centers, their gradients and their momentum stay where they are.

    Every process calls the head equally often; some may have no row. What is computed alike is alike to the bit, and
    with it what the loss learns, where machines, PyTorch and thread counts are of one kind.

    Attributes:
        inner: the engine that looks at the classes held here.
        world: the processes; by default those that have met by now.
        classes: how many there are in all; a head fills it in, see `for_classes`.

    Raises:
        ValueError: fewer classes than processes; from `batch`, the processes are not those of `world`, or only some of
            them have weights.
    """

    inner: Engine
    world: World = field(default_factory=distributed.world)
    classes: int | None = None

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < self.world.size:
            raise ValueError(
                f"classes is {self.classes} for {self.world.size} processes; each must hold at least one: start fewer"
            )

    @property
    def draws(self) -> nn.Module | None:
        """The state of an inner engine that chooses at random."""
        return self.inner.draws

    def for_classes(self, classes: int) -> "Sharded":
        """The same, for a head with so many classes."""
        return replace(self, inner=self.inner.for_classes(classes), classes=classes)

    def held(self, classes: int) -> range:
        """Which of so many classes this process holds the centers of."""
        return self.world.share(classes)

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
    ) -> Batch:
        """The rows of all processes, in their order."""
        if distributed.world() != self.world:
            raise ValueError(
                f"the engine was made for {self.world} but this process is {distributed.world()}; "
                "make it after the processes have met, and use it until they part"
            )
        # One number tells all three.
        wanted = torch.is_grad_enabled() and embeddings.requires_grad
        told = distributed.counts(4 * len(labels) + 2 * wanted + (weights is not None))
        sizes, weighted = [number // 4 for number in told], sum(number % 2 for number in told)
        if 0 < weighted < len(told):
            raise ValueError(f"{weighted} of {len(told)} processes gave weights; all must, or none")
        if not wanted and any(number // 2 % 2 for number in told):
            # One without rows, say, takes its part in the exchanges of the others' backward.
            if not torch.is_grad_enabled():
                raise ValueError("this process computes without gradient, another with one; all must, or none")
            embeddings = embeddings.detach().requires_grad_()
        everyones = distributed.gathered_with_gradient(embeddings, sizes)
        first = sum(sizes[: self.world.rank])
        return Batch(
            everyones,
            distributed.agreed(everyones),
            distributed.gathered(labels, sizes),
            None if weights is None else distributed.gathered(weights, sizes),
            slice(first, first + len(labels)),
        )

    def view(self, centers: Float[Tensor, "classes subcenters columns"], query: CenterQuery) -> "ShardedView":
        """The centers held here, for the global batch."""
        assert self.classes is not None, "a head asks for_classes first"
        held, labels = self.held(self.classes), query.labels
        absent = (labels < held.start) | (labels >= held.stop)
        inner = self.inner.view(centers, replace(query, labels=(labels - held.start).masked_fill(absent, NO_CLASS)))
        here = ~absent
        if self.world.first:
            here |= labels == NO_CLASS
        return ShardedView(inner, here, len(held), self.classes)


class ShardedView:
    """The centers of all processes, for one batch; see `verisphere.head.contract.View`.

    Args:
        inner: those held here.
        here: rows that this process answers for.
        held: how many classes it holds.
        classes: how many there are in all.
    """

    def __init__(self, inner: View, here: Bool[Tensor, "batch"], held: int, classes: int) -> None:
        self._inner, self._here, self._held, self._classes = inner, here, held, classes

    @property
    def part(self) -> View:
        """Those held here."""
        return self._inner

    @property
    def here(self) -> Bool[Tensor, "batch"]:
        """Rows of a class held here; the first process has those of no class, too."""
        return self._here

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> Own:
        """See `View.own`: each row's is 0 but on the process that holds its class."""
        part = self._inner.own(query, center)
        return Own(distributed.summed(part.cosine), None if part.center is None else distributed.summed(part.center))

    @torch.no_grad()
    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, strangers: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """See `View.nearest`: the largest of the largest."""
        part = self._inner.nearest(query, count, strangers=True)
        part = F.pad(part, (0, count - part.shape[1]), value=-math.inf)
        found = distributed.gathered(part[None])  # (process, batch, count)
        most = min(count, self._classes - (not strangers))
        return found.movedim(0, 1).flatten(1).topk(most, dim=1).values

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """The other classes of each row, of all processes; query and context are those that are `entering`."""
        part = self._inner.rest(loss, query, context, row_gradient)
        if loss.reduce == "sum":
            return distributed.summed(part)
        return _Joined.apply(part, known_shift(loss, self._classes))

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over all classes of the distance between their sub-centers."""
        return distributed.summed(self._inner.spread(columns) * (self._held / self._classes))

    def entering(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """See `verisphere.distributed.entering`; what needs no gradient costs nothing."""
        return distributed.entering(alike) if alike.requires_grad else alike

    def summed(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """See `verisphere.distributed.summed`."""
        return distributed.summed(partial)


class _Joined(torch.autograd.Function):
    """log of the sum over the processes of exp(what each has); minus infinity where none has anything.

    From partial to alike: the gradient of the whole, which all know, becomes each one's share of it.
    """

    @staticmethod
    def forward(ctx: Any, part: Tensor, shift: float | None) -> Tensor:
        top: Tensor | float
        if shift is None:
            top = distributed.highest(part)
            top = top.masked_fill(top == -math.inf, 0.0)
        else:
            top = shift  # what a chunk's sums have room for, these sums of them have, too
        whole = top + distributed.total((part - top).exp()).log()
        ctx.save_for_backward(torch.where(part == -math.inf, 0.0, (part - whole).exp()))
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_whole: Tensor) -> tuple[Tensor, None]:
        (share,) = ctx.saved_tensors
        return by_whole * share, None
