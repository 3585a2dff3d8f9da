"""The sparse engine: exact, and little dearer than one product of low precision, for losses with few probable classes.

A loss with `zero_up_to`, such as Q-Margin, gives another class no term and no gradient unless its cosine is above a
bound, and the bound over some of the classes is at most that over all. So one screened product finds every class that
may matter to a row of the batch, exact cosines of those find the few pairs that do, and the terms of these are added
up. The result is that over all classes, to within rounding.

With `HeadSGD` the other centers are not touched: they are updated late, see `verisphere.head.late`.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from verisphere.base.device import full_float32
from verisphere.base.vocabulary import NO_CLASS, check_word
from verisphere.head.chunk import inverse_length
from verisphere.head.dense import DenseView
from verisphere.head.interface import OwnClass, SGDStep, View, ViewRequest, WholeEngine
from verisphere.head.late import LateCenters
from verisphere.head.sampled import ComputedGradient, SampledGradient, with_copies
from verisphere.head.screened import CenterScreen, Near, Undecided, parts
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss, Rows, compared_rows
from verisphere.score.batch_pairs import fastest

log = logging.getLogger(__name__)

Screening = Literal["auto", "int8", "bfloat16", "float32"]

#: A center is rounded again once its direction may have turned by more: 1.3 logits at scale 64, for itself alone.
SLACK = 0.02
#: The screen cannot decide if more than this share of all pairs remains open; so many are always allowed. A quarter of
#: it is the limit for exact cosines, each of which costs as much as a hundred screened ones.
OPEN_SHARE, OPEN_PAIRS = 1 / 32, 2**19
#: Pairs of each row that are computed first, and the nearest that the floor is taken from.
FIRST_PAIRS, NEAREST = 8, 64
#: More than rounding moves a cosine of float32.
ROUNDING = 1e-5
#: Entries of the table of pairs: rows, times the most pairs of a row.
TABLE = 2**22
#: Most steps that are streamed after the screen could not decide, before it is tried again.
LONGEST_WAIT = 64


def why_not_sparse(loss: ClassLoss, subcenters: SubCenters) -> str | None:
    """Why the sparse engine cannot run a loss over such centers; None if it can."""
    for term in _comparing(loss) or [loss]:
        bounded = type(term).zero_up_to is not ClassLoss.zero_up_to
        if not bounded or term.query != "embedding" or term.similarity != "cosine" or term.teacher:
            return f"{type(term).__name__} has no bound below which other classes have no gradient, as QMargin has"
    if subcenters.count > 1 and subcenters.pooling != "max":
        return f"pooling {subcenters.pooling!r} needs the cosines to all sub-centers, where 'max' needs the largest"
    if subcenters.pull_together:
        return f"pull_together is {subcenters.pull_together}, which moves the centers of all classes"
    return None


def _comparing(loss: ClassLoss) -> list[ClassLoss]:
    return [term for _, term in loss.terms if term.query != "none"]


class Kept:
    """What the engine keeps between the steps of one head, beside its state.

    Attributes:
        late: the centers, some of which lack the last steps, and their screen.
        steps: number of batches so far.
        streamed: number of those that the streamed engine computed, by the reason; None is the screen.
        wait: number of steps to stream after one that the screen could not decide; 0 once it has decided.
        streams_to: number of the last step that is streamed for that.
        why: what the screen said when it could not decide.
    """

    def __init__(self) -> None:
        self.late = LateCenters()
        self.steps = self.wait = self.streams_to = 0
        self.streamed: Counter[str | None] = Counter()
        self.why = ""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A copy keeps nothing: a head brings up its centers before it is copied."""
        return Kept, ()

    def undecided(self, why: object) -> None:
        """Record a step that the screen could not decide: the next are streamed, ever more of them."""
        self.why = str(why)
        self.wait = min(2 * self.wait + 1, LONGEST_WAIT)
        self.streams_to = self.steps + self.wait

    def stream(self, reason: str | None) -> None:
        """Count a step that is streamed, and say so of the 1st, 3rd, 7th, ... for one reason."""
        self.streamed[reason] += 1
        count, why = self.streamed[reason], reason or self.why
        if count & (count + 1) == 0:
            log.warning("the streamed engine computes a step for the sparse one (%d so far): %s", count, why)


@dataclass(frozen=True)
class Sparse(WholeEngine):
    """All classes, exactly, by one screened product, for losses whose probabilities are 0 for nearly all classes.

    With `HeadSGD` a step reads and writes the centers and momentum of the classes that have a gradient. All others are
    updated when they are needed: before a copy, a `state_dict`, a step of another engine, and whenever `head.centers`
    is read. Values are those of `torch.optim.SGD` to within rounding.

    Another optimizer needs the gradient of all centers, and several backward passes before a step add to it, so steps
    without `HeadSGD` are streamed. So are steps that the screen cannot decide, such as those of centers that are nearly
    equal; `streamed_steps` counts both, and warnings say so.

    >>> from verisphere.head import Head, Sparse
    >>> from verisphere.losses import QMargin
    >>> Head(QMargin(), 10, 4, engine=Sparse()).engine.screen
    'auto'

    Attributes:
        streamed: the engine for steps that are streamed.
        screen: type of the screened product; "auto" takes the fastest of the machine. A float32 screen needs no memory,
            bfloat16 two bytes for each number of the centers, int8 one.

    Raises:
        TypeError: `streamed` is no `Streamed(...)`.
        ValueError: an unknown type; from `view`, a loss that has a gradient in every class, or sub-centers that do.
    """

    streamed: Streamed = field(default_factory=Streamed)
    screen: Screening = "auto"
    _kept: Kept = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.streamed, Streamed):
            raise TypeError(f"streamed is {self.streamed!r}; it must be an object: Streamed(...)")
        check_word("screen", self.screen, Screening)
        object.__setattr__(self, "_kept", Kept())

    def forget(self, loading: bool = False) -> None:
        """Make the steps that some centers lack, and expect somebody else to change the centers."""
        self._kept.late.forget(loading)

    @property
    def streamed_steps(self) -> int:
        """Number of batches so far that the streamed engine computed."""
        return self._kept.streamed.total()

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """The centers that matter to a batch; all, where the screen cannot tell."""
        reason = why_not_sparse(request.loss, request.subcenters)
        if reason is not None:
            raise ValueError(f"the engine is Sparse, but {reason}; use Streamed or Auto")
        kept = self._kept
        kept.steps += 1
        if request.class_weights is not None:
            reason = "Sampled weighs the classes that it draws: give it Streamed(), or take Sparse() alone"
        elif request.defer is None and torch.is_grad_enabled() and centers.requires_grad:
            reason = "the gradient of all centers has to exist, which HeadSGD with one backward pass does not need"
        elif kept.steps > kept.streams_to:
            try:
                pairs = self._pairs(centers, request)
            except Undecided as error:
                kept.undecided(error)
            else:
                kept.wait = 0
                classes, column = pairs.of_class.unique(return_inverse=True)
                copies = kept.late.current(classes, both=False)[0]
                few, request = with_copies(centers, request, classes, copies, partial(SparseGradient, late=kept.late))
                return SparseView(few.to(request.dtype), request, pairs._replace(of_class=column))
        kept.stream(reason)
        kept.late.bring_up()
        return self.streamed.view(centers, request)

    @torch.inference_mode(False)  # what is kept for the next step must not be a tensor of that mode
    @torch.no_grad()
    def _pairs(self, centers: Tensor, request: ViewRequest) -> "Pairs":
        """Every pair of a row and a class that has a gradient in this batch."""
        late = self._kept.late
        late.of(centers)
        if late.screen is None:
            name = fastest(centers.device.type, centers.shape[2], None) if self.screen == "auto" else self.screen
            late.screen = CenterScreen(centers, centers.dtype if name == "float32" else getattr(torch, name))
        turned = late.turned()
        loose = (turned > SLACK).any(1).nonzero()[:, 0]
        late.bring_up(loose)
        turned[loose] = 0.0
        search = ClassSearch(centers, late, request)
        most = max(int(OPEN_SHARE * len(request.labels) * centers.shape[:2].numel()), OPEN_PAIRS)
        near = late.screen.near(search.query, search.labels, turned, search.floor_by, most)
        return search.pairs(near, most // 4)


class Pairs(NamedTuple):
    """Pairs of a row and a class, the rank of the class in its row, which is 0 for its own, and the cosines.

    A row's floor is the cosine up to which other classes have no gradient.
    """

    row: Int64[Tensor, " pairs"]
    of_class: Int64[Tensor, " pairs"]
    rank: Int64[Tensor, " pairs"]
    cosines: Float[Tensor, "pairs subcenters"]
    floors: Float[Tensor, "batch"]


class SparseView(DenseView):
    """The pairs that may have a term, for one batch, in a table with as many columns as a row has classes at most.

    Args:
        pairs: the pairs, of which one of each row is that with its own class; any class for a row labelled -1. A class
            is given by its place among the copies.
    """

    def __init__(self, centers: Float[Tensor, "some subcenters columns"], request: ViewRequest, pairs: Pairs) -> None:
        super().__init__(centers[:0], centers, request)
        self._pairs = pairs
        self._known = self._table(pairs.cosines)

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> OwnClass:
        """See `View.own`, without the center; `rest` comes after it, with the same rows."""
        row, of_class, _, cosines, _ = self._pairs
        self._known = self._table(_Cosines.apply(cosines, row, of_class, query, self.centers))
        return OwnClass(self._known[:, 0].masked_fill(self.request.labels == NO_CLASS, 0.0), None)

    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, own_elsewhere: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """See `View.nearest`: of those that may have a term."""
        return self._known[:, 1 : count + 1].detach()

    def sums(
        self, query: Float[Tensor, "batch columns"], function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Float64[Tensor, "numbers batch"]:
        """See `View.sums`."""
        return torch.stack(function(self._known[:, 1:].detach())).sum(2, dtype=torch.float64)

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """See `View.rest`."""
        rest = loss.others(self._known[:, 1:], *(item[:, None] for item in context)).sum(1)
        return sum((0.0 * item for item in context), rest)  # the backward reaches what `others` leaves unused

    def _table(self, cosines: Tensor) -> Float[Tensor, "batch most"]:
        """The cosine of each pair, by row and rank; where a row has fewer, its floor, which has no term."""
        empty = self._pairs.floors[:, None].repeat(1, int(self._pairs.rank.amax()) + 1)
        return empty.index_put((self._pairs.row, self._pairs.rank), self.request.subcenters.pooled(cosines))


class _Cosines(torch.autograd.Function):
    """The cosines of some pairs of a row and a class, which are known; its backward costs what these pairs cost."""

    @staticmethod
    def forward(ctx: Any, cosines: Tensor, row: Tensor, column: Tensor, query: Tensor, centers: Tensor) -> Tensor:
        ctx.save_for_backward(cosines, row, column, query, centers)
        return cosines.view_as(cosines)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_cosines: Tensor) -> tuple[None, None, None, Tensor, Tensor]:
        cosines, row, column, query, centers = ctx.saved_tensors
        flat, count = centers.flatten(0, 1), centers.shape[1]
        center = (count * column[:, None] + torch.arange(count, device=column.device)).flatten()
        inverse = inverse_length(flat)
        factor = by_cosines.flatten() * inverse[center]
        places, shape = torch.stack([row.repeat_interleave(count), center]), (len(query), len(flat))
        # a step along a center changes no cosine
        along = torch.zeros_like(inverse).index_add_(0, center, factor * inverse[center] * cosines.flatten())
        with torch.autocast(query.device.type, enabled=False):
            by_product = torch.sparse_coo_tensor(places, factor, shape, check_invariants=True)
            by_centers = (flat * -along[:, None]).addmm_(by_product.T, query)
            return None, None, None, by_product @ flat, by_centers.view_as(centers)


class ClassSearch:
    """The search for the classes that matter to rows of length 1, whose class is -1 where another rank holds it."""

    def __init__(self, centers: Tensor, late: LateCenters, request: ViewRequest) -> None:
        self._centers, self._late, self._loss, self._subcenters = centers, late, request.loss, request.subcenters
        self.query, self.labels = query, labels = request.query, request.labels
        every = torch.arange(len(query), device=query.device)
        own = labels.clamp(min=0)
        self._of_own = every, own, torch.zeros_like(every), self._cosines(every, own)
        self._own = self._subcenters.pooled(self._of_own[3]).masked_fill(labels == NO_CLASS, -1.0)

    def floor_by(self, center: Int64[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The floor by one center near each row, where its number is not -1."""
        row = torch.arange(len(center), device=center.device)
        cosines = self._cosines(row, torch.div(center.clamp(min=0), self._subcenters.count, rounding_mode="floor"))
        return self.floor(self._subcenters.pooled(cosines).masked_fill(center < 0, -torch.inf)[:, None])

    def floor(self, nearest: Float[Tensor, "batch nearest"]) -> Float[Tensor, "batch"]:
        """The cosine up to which other classes have no gradient, by lower bounds of the largest cosines to some."""
        unknown = torch.full_like(self._own, torch.nan)
        rows = Rows(self._own, unknown, unknown[:, None], self.labels, nearest)
        floors = torch.full_like(self._own, torch.inf)
        for term in _comparing(self._loss):
            context = tuple(item.to(floors).expand(len(floors)) for item in term.context(rows))
            bound = term.zero_up_to(*context)
            assert bound is not None, "checked when the head was built"
            floors = floors.minimum(bound)
        if not bool(floors.isfinite().all()):
            raise Undecided("an embedding is not finite, or the bound of a row is not")
        return floors - ROUNDING

    def pairs(self, near: Near, most: int) -> Pairs:
        """Every pair of a row and a class that has a gradient, by at most so many exact cosines of other classes."""
        row, center, at_most = near
        of_class = torch.div(center, self._subcenters.count, rounding_mode="floor")
        if self._subcenters.count > 1:  # the nearest sub-center of each class
            key, order = ((row << 32) + of_class).unique(return_inverse=True)
            row, of_class = key >> 32, key & (2**32 - 1)
            at_most = at_most.new_full(key.shape, -torch.inf).scatter_reduce_(0, order, at_most, "amax")
        some = (self._rank(row, at_most) < FIRST_PAIRS).nonzero()[:, 0]
        floors = self._exact(row[some], of_class[some], FIRST_PAIRS).floors
        some = (at_most >= floors.index_select(0, row)).nonzero()[:, 0]
        if len(some) > most:
            raise Undecided(f"{len(some):,} pairs of a row and a class may have a gradient")
        *others, floors = self._exact(row[some], of_class[some], NEAREST)
        some = (self._subcenters.pooled(others[3]) > floors.index_select(0, others[0])).nonzero()[:, 0]
        every = [torch.cat([own, item[some]]) for own, item in zip(self._of_own, others, strict=True)]
        pairs = Pairs._make([*every, floors])
        if (int(pairs.rank.amax()) + 1) * len(self.query) > TABLE:
            raise Undecided("a row has a gradient in many classes")
        return pairs

    def _exact(self, row: Tensor, of_class: Tensor, most: int) -> Pairs:
        """These pairs with their exact cosines, and the floors by the largest of each row."""
        cosines = self._cosines(row, of_class)
        pooled = self._subcenters.pooled(cosines)
        rank = self._rank(row, pooled)
        near = rank < most
        table = pooled.new_full((len(self.query), most), -torch.inf)
        table[row[near], rank[near]] = pooled[near]
        return Pairs(row, of_class, rank + 1, cosines, self.floor(table))

    def _rank(self, row: Tensor, value: Tensor) -> Int64[Tensor, " pairs"]:
        """The rank of each pair in its row, 0 for the largest value."""
        order = value.argsort(descending=True)
        order = order[row[order].argsort(stable=True)]
        start = torch.searchsorted(row[order], torch.arange(len(self.query), device=row.device))
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order)).to(row) - start[row[order]])

    def _cosines(self, row: Tensor, of_class: Tensor) -> Float[Tensor, "pairs subcenters"]:
        """The exact cosines of each pair of a row and a class."""
        cosines = []
        for some in parts(self._centers, torch.arange(len(row), device=row.device)):
            rows = compared_rows(self._late.current(of_class[some], both=False)[0].to(self.query), "cosine")
            with full_float32():
                cosines.append(torch.einsum("pd,pkd->pk", self.query[row[some]], rows))
        return torch.cat(cosines)


@dataclass(frozen=True, eq=False)
class SparseGradient(SampledGradient):
    """The deferred gradient of the classes that have one; all others are updated late."""

    late: LateCenters
    inner: ComputedGradient

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update the classes with a gradient, and their momentum, and record the step for all others."""
        self.late.attach(buffer)
        for some in parts(self.copies):
            rows, momentum = self.copies[some], self.late.current(self.classes[some])[1]
            ComputedGradient(rows, self.inner.gradient[some]).apply(step, momentum)
            self.late.write(self.classes[some], rows, momentum, behind=0)
        self.late.advance(step)
