"""The sharded engine: each rank holds the centers of some classes, and all ranks work on one global batch.

As in PartialFC (An et al. 2021, arXiv:2010.05222) embeddings and labels are gathered, and no rank sees the centers of
another. Computations on rows, one number each, are replicated over the whole global batch; products are computed for
the rank's own classes only, by an inner engine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from verisphere.base import collectives
from verisphere.base.distributed import World, world
from verisphere.base.vocabulary import NO_CLASS
from verisphere.head.interface import Batch, Engine, OwnClass, View, ViewRequest, check_engine
from verisphere.head.passes import known_shift
from verisphere.losses.class_loss import ClassLoss


@dataclass(frozen=True)
class Sharded:
    """Classes split over ranks, in order and as evenly as their number allows.

    A step exchanges the following, for B rows in all and at most b a rank (smaller shares are padded), world size P,
    embeddings of d numbers and centers of c (d, or d + 1 with a class bias). Bytes are the float32 payload that each
    rank contributes, before any overhead of the collective's algorithm:

    | what                               | exchange | bytes     | when                                               |
    |------------------------------------|----------|-----------|----------------------------------------------------|
    | how many rows, weights, gradients  | gather   | 8         | always; over the CPU where possible                |
    | embeddings                         | gather   | 4 b d     | always                                             |
    | labels                             | gather   | 8 b       | always                                             |
    | weights                            | gather   | 4 b       | if given                                           |
    | the teacher's embeddings of t      | gather   | 4 b t     | a term compares with a teacher                     |
    | its sums over the classes          | sum      | 4 B       | a term compares with a teacher                     |
    | losses of the rows                 | sum      | 4 B       | `loss.partial_losses`, such as SphereFace2         |
    | own cosines                        | sum      | 4 B       | any other loss, and likewise the next four         |
    | own centers                        | sum      | 4 B c     | a term compares centers with them                  |
    | largest logits                     | maximum  | 4 B       | each softmax term without a bound up to 64         |
    | sums over the classes              | sum      | 4 B       | each term that looks at other classes              |
    | spread of the sub-centers          | sum      | 4         | `pull_together`                                    |
    | nearest other cosines, n a row     | gather   | 4 B n     | a term asks for them                               |
    | probabilities and their slopes     | sum      | 16 B      | each Newton step of `QMargin` beyond the nearest   |
    | gradient of a context's item       | sum      | 4 or 4 B  | backward, if it needs one: a number, or one a row  |
    | gradient of the own centers        | sum      | 4 B c     | backward, each term that compares with them        |
    | gradient of the embeddings         | scatter  | 4 P b d   | backward, where the loss depends on them           |

    So SphereFace2 sends features and labels, and receives a vector of losses, the gradient of the features and that of
    its bias, one number. Centers, their gradients and their momentum are never exchanged.

    Every rank calls the head equally often; a rank may have no rows. Replicated results, and with them the parameters
    of the loss, are equal to the bit on all ranks that have the same hardware, PyTorch version and thread count.

    >>> from verisphere.head import Head, Streamed
    >>> from verisphere.losses import ArcFace
    >>> Head(ArcFace(), 10, 4, engine=Sharded(Streamed())).held  # of one process: all classes
    range(0, 10)

    Attributes:
        inner: the engine that computes with the classes held by this rank.
        world: rank and world size; by default those of the present process group.
        classes: number of all classes; a head fills it in, see `for_classes`.

    Raises:
        ValueError: fewer classes than ranks; from `batch`, the process group is not that of `world`, or only some ranks
            have weights.
    """

    inner: Engine
    world: World = field(default_factory=world)
    classes: int | None = None

    def __post_init__(self) -> None:
        check_engine("inner", self.inner)
        if self.classes is not None and self.classes < self.world.size:
            raise ValueError(
                f"classes is {self.classes} for {self.world.size} processes; each must hold at least one: start fewer"
            )

    @property
    def draws(self) -> nn.Module | None:
        """Random state of the inner engine; None for one without randomness."""
        return self.inner.draws

    def forget(self, loading: bool = False) -> None:
        """Make the steps that some of the inner engine's centers lack."""
        self.inner.forget(loading)

    def for_classes(self, classes: int) -> "Sharded":
        """The engine for a head with this many classes."""
        return replace(self, inner=self.inner.for_classes(classes), classes=classes)

    def held(self, classes: int) -> range:
        """The classes whose centers this rank holds."""
        return self.world.share(classes)

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
        teacher: Float[Tensor, "rows teacher_dim"] | None = None,
    ) -> Batch:
        """Gather the rows of all ranks, in the order of the ranks."""
        if world() != self.world:
            raise ValueError(
                f"the engine was made for {self.world} but this process is {world()}; "
                "create it inside the process group that uses it"
            )
        # One number encodes all three.
        wants_gradient = torch.is_grad_enabled() and embeddings.requires_grad
        codes = collectives.counts(4 * len(labels) + 2 * wants_gradient + (weights is not None))
        sizes, weighted = [code // 4 for code in codes], sum(code % 2 for code in codes)
        if 0 < weighted < len(codes):
            raise ValueError(f"{weighted} of {len(codes)} processes gave weights; all must, or none")
        if not wants_gradient and any(code // 2 % 2 for code in codes):
            # A rank without rows, say, must still join the collectives of the backward pass.
            if not torch.is_grad_enabled():
                raise ValueError("this process computes without gradient, another with one; all must, or none")
            embeddings = embeddings.detach().requires_grad_()
        gathered = collectives.gathered_with_gradient(embeddings, sizes)
        first = sum(sizes[: self.world.rank])
        return Batch(
            gathered,
            collectives.scale_gradient(gathered),
            collectives.gathered(labels, sizes),
            None if weights is None else collectives.gathered(weights, sizes),
            slice(first, first + len(labels)),
            None if teacher is None else collectives.gathered(teacher, sizes),
        )

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> "ShardedView":
        """The centers held by this rank, for the global batch."""
        assert self.classes is not None, "a head asks for_classes first"
        held, labels = self.held(self.classes), request.labels
        absent = (labels < held.start) | (labels >= held.stop)
        here = (labels - held.start).masked_fill(absent, NO_CLASS)
        inner = self.inner.view(
            centers, replace(request, labels=here, most_held=len(self.world.share(self.classes, 0)))
        )
        owned = ~absent
        if self.world.first:
            owned |= labels == NO_CLASS
        return ShardedView(inner, owned, len(held), self.classes)


class ShardedView:
    """The centers of all ranks, for one batch; see `View`.

    Owned rows are those whose class this rank holds; on rank 0 also the rows without a class.
    """

    def __init__(self, inner: View, owned: Bool[Tensor, "batch"], held: int, classes: int) -> None:
        self._inner, self._owned, self._held, self._classes = inner, owned, held, classes

    @property
    def partial(self) -> View:
        """The view of the centers held by this rank."""
        return self._inner

    @property
    def owned(self) -> Bool[Tensor, "batch"]:
        """Rows whose class this rank holds; on rank 0 also the rows without a class."""
        return self._owned

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> OwnClass:
        """See `View.own`: summed over the ranks, of which only the one that holds the class contributes."""
        part = self._inner.own(query, center)
        return OwnClass(
            collectives.to_replicated(part.cosine),
            None if part.center is None else collectives.to_replicated(part.center),
        )

    @torch.no_grad()
    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, own_elsewhere: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """See `View.nearest`: the largest of the largest of each rank."""
        part = self._inner.nearest(query, count, own_elsewhere=True)
        part = F.pad(part, (0, count - part.shape[1]), value=-math.inf)
        of_all = collectives.gathered(part[None])  # (rank, batch, count)
        most = min(count, self._classes - (not own_elsewhere))
        return of_all.movedim(0, 1).flatten(1).topk(most, dim=1).values

    def sums(
        self, query: Float[Tensor, "batch columns"], function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Float64[Tensor, "numbers batch"]:
        """See `View.sums`: over the classes of all ranks."""
        return collectives.total(self._inner.sums(query, function))

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """See `View.rest`: over the classes of all ranks; query and context come from `to_partial`."""
        part = self._inner.rest(loss, query, context, row_gradient)
        if loss.reduce != "logsumexp":
            return collectives.to_replicated(part)
        return _Joined.apply(part, known_shift(loss, self._classes))

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over all classes of the distance between their sub-centers."""
        return collectives.to_replicated(self._inner.spread(columns) * (self._held / self._classes))

    def to_partial(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """See `verisphere.base.collectives.to_partial`; a tensor without gradient costs nothing."""
        return collectives.to_partial(alike) if alike.requires_grad else alike

    def to_replicated(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """See `verisphere.base.collectives.to_replicated`."""
        return collectives.to_replicated(partial)


class _Joined(torch.autograd.Function):
    """Log-sum-exp over the ranks of a partial tensor; minus infinity where every rank has minus infinity.

    The backward pass gives each rank its share of the replicated gradient.
    """

    @staticmethod
    def forward(ctx: Any, part: Tensor, shift: float | None) -> Tensor:
        top: Tensor | float
        if shift is None:
            top = collectives.highest(part)
            top = top.masked_fill(top == -math.inf, 0.0)
        else:
            top = shift  # it keeps the sums of a chunk finite, and so the sums over the ranks
        whole = top + collectives.total((part - top).exp()).log()
        ctx.save_for_backward(torch.where(part == -math.inf, 0.0, (part - whole).exp()))
        return whole

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_whole: Tensor) -> tuple[Tensor, None]:
        (share,) = ctx.saved_tensors
        return by_whole * share, None
