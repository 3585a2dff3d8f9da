"""The sparse engine: exact, and little dearer than one product of low precision, for losses with few probable classes.

A loss with `zero_up_to`, such as Q-Margin, gives another class no term and no gradient unless its cosine is above a
bound, and the bound over some of the classes is at most that over all. So one screened product finds every class that
may matter to a row of the batch, exact cosines of those find the few that do, and the dense engine computes with copies
of them. The result is that over all classes, to within rounding.

With `HeadSGD` the other centers are not touched: they are updated late, see `verisphere.head.late`.
"""

import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from verisphere.base.vocabulary import NO_CLASS, check_word
from verisphere.head.dense import Dense
from verisphere.head.interface import SGDStep, View, ViewRequest, WholeEngine
from verisphere.head.late import LateCenters
from verisphere.head.sampled import SampledGradient, with_copies
from verisphere.head.screened import CenterScreen, Near, Undecided, fastest_type
from verisphere.head.streamed import Streamed
from verisphere.head.subcenters import SubCenters
from verisphere.losses.class_loss import ClassLoss, Rows, compared_rows

log = logging.getLogger(__name__)

Screening = Literal["auto", "int8", "bfloat16", "float32"]

#: A center is rounded again once its direction may have turned by more: 1.3 logits at scale 64, for itself alone.
SLACK = 0.02
#: The screen cannot decide if more than this share of all pairs remains open; so many are always allowed.
OPEN_SHARE, OPEN_PAIRS = 1 / 32, 2**19
#: The same for pairs whose exact cosines are computed, each of which costs as much as a hundred screened ones.
EXACT_SHARE, EXACT_PAIRS = 1 / 128, 2**16
#: Pairs of each row that are computed first, the nearest that the floor is taken from, and numbers multiplied at once.
FIRST_PAIRS, NEAREST, MULTIPLIED_AT_ONCE = 8, 64, 2**19
#: More than rounding moves a cosine of float32.
ROUNDING = 1e-5
#: A cosine below all others, for a row whose own class another rank holds.
FAR = -1e3
#: Logits of the classes that remain, beyond which these are streamed.
DENSE_LOGITS = 2**24
#: Most steps that are streamed after the screen could not decide, before it is tried again.
LONGEST_WAIT = 64


def why_not_sparse(loss: ClassLoss, subcenters: SubCenters) -> str | None:
    """Why the sparse engine cannot run a loss over such centers; None if it can."""
    dense = [type(term).__name__ for _, term in loss.terms if term.query != "none" and not _is_sparse(term)]
    if dense or not _sparse_terms(loss):
        name = dense[0] if dense else type(loss).__name__
        return f"{name} has no bound below which other classes have no gradient, as QMargin has"
    if subcenters.count > 1 and subcenters.pooling != "max":
        return f"pooling {subcenters.pooling!r} needs the cosines to all sub-centers, where 'max' needs the largest"
    if subcenters.pull_together:
        return f"pull_together is {subcenters.pull_together}, which moves the centers of all classes"
    return None


def _is_sparse(loss: ClassLoss) -> bool:
    bounded = type(loss).zero_up_to is not ClassLoss.zero_up_to
    return bounded and loss.query == "embedding" and loss.similarity == "cosine" and not loss.teacher


def _sparse_terms(loss: ClassLoss) -> list[ClassLoss]:
    return [term for _, term in loss.terms if term.query != "none"]


class Kept:
    """What the engine keeps between the steps of one head, beside its state.

    Attributes:
        late: the centers, some of which lack the last steps.
        screen: the screen of the centers; None before the first step.
        steps: number of batches so far.
        streamed: number of those that the streamed engine computed.
        wait: number of steps that were streamed after the last that the screen could not decide; 0 once it has decided.
    """

    def __init__(self) -> None:
        self.late = LateCenters()
        self.screen: CenterScreen | None = None
        self.steps = self.streamed = self.wait = self._waiting = self._rewritten = 0

    def __reduce__(self) -> tuple[type, tuple[()]]:
        """A copy keeps nothing: a head brings up its centers before it is copied."""
        return Kept, ()

    def screen_of(self, centers: Tensor, dtype: torch.dtype) -> tuple[CenterScreen, Float32[Tensor, "..."] | None]:
        """The screen of the centers, and how far each direction may have turned since they were rounded."""
        self.late.of(centers)
        if self.screen is None or self._rewritten != self.late.rewritten:
            self.screen = None  # its memory serves the next
            self.screen, self._rewritten = CenterScreen(centers, dtype), self.late.rewritten
        turned = self.late.turned()
        if turned is not None:
            loose = (turned > SLACK).any(1).nonzero()[:, 0]
            self.late.bring_up(loose)
            self.screen.renew(loose)
            turned[loose] = 0.0
        return self.screen, turned

    def waits(self) -> bool:
        """Whether this step is to be streamed, as the screen could not decide one of the last."""
        self._waiting -= self._waiting > 0
        return self._waiting > 0

    def undecided(self, reason: object) -> None:
        """Record a step that it could not decide: the next are streamed, ever more of them."""
        self.wait = min(2 * self.wait + 1, LONGEST_WAIT)
        self._waiting = self.wait + 1
        count = self.streamed + 1
        if count & (count - 1) == 0:  # at the first, the second, the fourth ...
            log.warning("the streamed engine computes a step for the sparse one (%d so far): %s", count, reason)


@dataclass(frozen=True)
class Sparse(WholeEngine):
    """All classes, exactly, by one screened product, for losses whose probabilities are 0 for nearly all classes.

    With `HeadSGD` a step reads and writes the centers and momentum of the classes that have a gradient. All others are
    updated when they are needed: before a copy, a `state_dict`, a step of another engine, and whenever `head.centers`
    is read. Values are those of `torch.optim.SGD` to within rounding.

    Another optimizer needs the gradient of all centers, and several backward passes before a step add to it, so steps
    without `HeadSGD` are streamed. So are steps that the screen cannot decide, such as those of centers that are nearly
    equal; `streamed_steps` counts both, and a warning says so.

    >>> from verisphere.head import Head, Sparse
    >>> from verisphere.losses import QMargin
    >>> Head(QMargin(), 10, 4, engine=Sparse()).engine.screen
    'auto'

    Attributes:
        streamed: the engine for steps that are streamed.
        screen: type of the screened product; "auto" takes the fastest of the device. A float32 screen needs no memory,
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

    def forget(self) -> None:
        """Make the steps that some centers lack, and expect somebody else to change the centers."""
        self._kept.late.forget()

    @property
    def streamed_steps(self) -> int:
        """Number of batches so far that the streamed engine computed."""
        return self._kept.streamed

    def for_classes(self, classes: int) -> "Sparse":
        """The engine with a screen of its own, so that one object may be given to several heads."""
        return replace(self)

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """The centers that matter to a batch; all, where the screen cannot tell."""
        assert request.loss is not None, "a head tells its loss"
        reason = why_not_sparse(request.loss, request.subcenters)
        if reason is not None:
            raise ValueError(f"the engine is Sparse, but {reason}; use Streamed or Auto")
        kept = self._kept
        kept.steps += 1
        whole_gradient = request.defer is None and torch.is_grad_enabled() and centers.requires_grad
        if not (whole_gradient or request.class_weights is not None or kept.waits()):
            try:
                classes, copies = self._classes(centers, request)
            except Undecided as error:
                kept.undecided(error)
            else:
                kept.wait = 0
                few = len(request.labels) * copies.shape[:2].numel() <= DENSE_LOGITS
                kind = partial(SparseGradient, kept=kept)
                return (Dense() if few else self.streamed).view(*with_copies(centers, request, classes, copies, kind))
        elif whole_gradient and not kept.streamed:
            log.warning("the streamed engine computes the steps of the sparse one, which need HeadSGD to be sparse")
        kept.streamed += 1
        kept.late.of(centers)
        kept.late.bring_up()
        return self.streamed.view(centers, request)

    @torch.inference_mode(False)  # what is kept for the next step must not be a tensor of that mode
    @torch.no_grad()
    def _classes(self, centers: Tensor, request: ViewRequest) -> tuple[Tensor, Tensor]:
        """Every class with a gradient in this batch, ascending, and copies of their centers."""
        name = fastest_type(centers.device.type) if self.screen == "auto" else self.screen
        dtype = centers.dtype if name == "float32" else getattr(torch, name)
        screen, turned = self._kept.screen_of(centers, dtype)
        search = Search(self._kept.late, request)
        pairs = len(request.labels) * centers.shape[:2].numel()
        near = screen.near(
            search.query, search.labels, turned, search.floor_by, max(int(OPEN_SHARE * pairs), OPEN_PAIRS)
        )
        classes = search.classes(near, max(int(EXACT_SHARE * pairs), EXACT_PAIRS))
        return classes, self._kept.late.current(classes, both=False)[0]


class Search:
    """The search for the classes that matter to rows of length 1, whose class is -1 where another rank holds it."""

    def __init__(self, late: LateCenters, request: ViewRequest) -> None:
        assert request.loss is not None, "a head tells its loss"
        assert request.query is not None, "a head tells its rows"
        self._late, self._loss, self._subcenters = late, request.loss, request.subcenters
        self.query, self.labels = query, labels = request.query, request.labels
        every = torch.arange(len(query), device=query.device)
        own = self._cosines(every, labels.clamp(min=0))
        self._own = own.masked_fill(labels == NO_CLASS, FAR)

    def floor_by(self, center: Int64[Tensor, "batch"]) -> Float[Tensor, "batch"]:
        """The floor by one center near each row, where its number is not -1."""
        row = torch.arange(len(center), device=center.device)
        cosine = self._cosines(row, torch.div(center.clamp(min=0), self._subcenters.count, rounding_mode="floor"))
        return self.floor(cosine.masked_fill(center < 0, -torch.inf)[:, None])

    def floor(self, nearest: Float[Tensor, "batch nearest"]) -> Float[Tensor, "batch"]:
        """The cosine up to which other classes have no gradient, by lower bounds of the largest cosines to some."""
        unknown = torch.full_like(self._own, torch.nan)
        rows = Rows(self._own, unknown, unknown[:, None], self.labels, nearest)
        floors = torch.full_like(self._own, torch.inf)
        for term in _sparse_terms(self._loss):
            context = tuple(item.to(floors).expand(len(floors)) for item in term.context(rows))
            bound = term.zero_up_to(*context)
            assert bound is not None, "checked when the head was built"
            floors = floors.minimum(bound)
        if not bool(floors.isfinite().all()):
            raise Undecided("an embedding is not finite, or the bound of a row is not")
        return floors - ROUNDING

    def classes(self, pairs: Near, most: int) -> Int64[Tensor, " some"]:
        """Every class that has a gradient, with those of the batch, ascending, by at most so many exact cosines."""
        row, center, at_most = pairs
        count = self._subcenters.count
        of_class = torch.div(center, count, rounding_mode="floor")
        if count > 1:  # the nearest sub-center of each class
            classes = int(of_class.amax()) + 1 if len(row) else 1
            key, order = (row * classes + of_class).unique(return_inverse=True)
            row, of_class = torch.div(key, classes, rounding_mode="floor"), key % classes
            at_most = at_most.new_full(key.shape, -torch.inf).scatter_reduce_(0, order, at_most, "amax")
        first = self._best(row, at_most, FIRST_PAIRS)[0]
        cosine = self._cosines(row[first], of_class[first])
        floors = self.floor(self._table(row[first], cosine, FIRST_PAIRS))
        near = (at_most >= floors.index_select(0, row)).nonzero()[:, 0]
        if len(near) > most:
            raise Undecided(f"{len(near):,} pairs of a row and a class may have a gradient")
        row, of_class = row[near], of_class[near]
        cosine = self._cosines(row, of_class)
        floors = self.floor(self._table(row, cosine, NEAREST))
        mattering = of_class[cosine > floors.index_select(0, row)]
        found = torch.cat([mattering, self.labels[self.labels != NO_CLASS]]).unique()
        return found if len(found) else found.new_zeros(1)

    def _table(self, row: Tensor, cosine: Tensor, most: int) -> Float[Tensor, "batch nearest"]:
        """The largest cosines of each row, minus infinity where there are fewer."""
        best, rank = self._best(row, cosine, most)
        table = self.query.new_full((len(self.query), most), -torch.inf)
        table[row[best], rank] = cosine[best]
        return table

    def _best(self, row: Tensor, value: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """The pairs with the largest values of each row, and the rank of each in its row."""
        order = value.argsort(descending=True)
        order = order[row[order].argsort(stable=True)]
        start = torch.searchsorted(row[order], torch.arange(len(self.query), device=row.device))
        rank = torch.arange(len(order), device=row.device) - start[row[order]]
        return order[rank < most], rank[rank < most]

    def _cosines(self, row: Tensor, of_class: Tensor) -> Float[Tensor, " pairs"]:
        """The exact cosine of each pair of a row and a class, pooled over its sub-centers."""
        at_once = max(MULTIPLIED_AT_ONCE // (self._subcenters.count * self.query.shape[1]), 1)
        parts = [
            torch.einsum(
                "pd,pkd->pk",
                self.query[some],
                compared_rows(self._late.current(those, both=False)[0].to(self.query), "cosine"),
            )
            for some, those in zip(row.split(at_once), of_class.split(at_once), strict=True)
        ]
        return self._subcenters.pooled(torch.cat(parts))


@dataclass(frozen=True, eq=False)
class SparseGradient(SampledGradient):
    """The deferred gradient of the classes that have one; all others, which `kept` has, are updated late."""

    kept: Kept

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update the classes with a gradient, and their momentum, and record the step for all others."""
        late = self.kept.late
        late.attach(buffer)
        momentum = late.current(self.classes)[1]
        self.inner.apply(step, momentum)
        late.write(self.classes, self.copies, momentum, step)
        if self.kept.screen is not None:
            self.kept.screen.renew(self.classes)
