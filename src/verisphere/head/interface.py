"""The interface between a head and its engines, by which every loss runs on every engine.

An engine computes with the class centers. One that holds all of them is *whole*; one that holds a rank's share gives
partial results, which `to_replicated` of `verisphere.base.collectives` turns into replicated ones; `to_partial` is the
way back.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from verisphere.base.vocabulary import NO_CLASS
from verisphere.head.nearest import cosines_to_others, nearest_others
from verisphere.head.subcenters import SubCenters
from verisphere.head.teacher import Teacher
from verisphere.losses.class_loss import ClassLoss, Similarity, compared_rows


@dataclass(frozen=True)
class SGDStep:
    """One step of `torch.optim.SGD`.

    >>> SGDStep(rate=0.1, momentum=0.9).nesterov
    False

    Attributes:
        rate: learning rate.
        momentum: share of the momentum buffer that stays.
        weight_decay: factor on the parameters that is added to their gradient.
        nesterov: whether to look ahead along the momentum.
    """

    rate: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False


@runtime_checkable
class DeferredGradient(Protocol):
    """A gradient of the centers that has not been computed: what it takes to update them without it."""

    @property
    def current(self) -> bool:
        """Whether the centers are still those that the gradient belongs to."""
        ...

    def apply(self, step: SGDStep, buffer: Float[Tensor, "classes subcenters columns"] | None) -> None:
        """Update centers and momentum buffer in place, as `torch.optim.SGD` does; only while `current`."""
        ...

    def blocks(self) -> Iterator[Float[Tensor, "centers columns"]]:
        """Compute the gradient block by block, without those classes for which it is 0 by design."""
        ...

    def scale(self, factor: Float[Tensor, ""] | float) -> None:
        """Multiply the gradient by a number."""
        ...


@dataclass(frozen=True, eq=False)
class ViewRequest:
    """What a head asks of an engine for one batch.

    Attributes:
        labels: class of each row of the global batch; -1 is no class, and excludes no class.
        dtype: type of the rows, which the engine computes in.
        loss: the loss of the head, for an engine that chooses classes by it.
        query: the rows as they are compared, without gradient, for the same.
        defer: receives the gradient of the centers before it is computed, for an update without it. An engine may give
            the gradient to autograd all the same. None: the gradient goes to autograd.
        class_weights: how often each class counts in a sum over the classes, and in the mean of `View.spread`; None
            counts each once. A softmax or normalised loss counts each class once whatever the weights are.
        most_held: classes that the rank with most of them holds, for a choice that all ranks have to make alike; 0 for
            that of these centers.
    """

    labels: Int64[Tensor, "batch"]
    subcenters: SubCenters
    similarity: Similarity
    dtype: torch.dtype
    loss: ClassLoss
    query: Float[Tensor, "batch columns"]
    defer: Callable[[DeferredGradient], None] | None = None
    class_weights: Float[Tensor, "classes"] | None = None
    teacher: Teacher | None = None
    most_held: int = 0


@dataclass(frozen=True)
class Batch:
    """The global batch, as one rank sees it.

    Attributes:
        embeddings: rows of all ranks, for partial computations: the gradients of the ranks are summed.
        replicated: the same numbers, for computations that every rank repeats: each rank hands on its share of the
            gradient.
        weights: weight of each row, without gradient.
        local_rows: the rows that this rank contributed.
        teacher: the teacher's embedding of each row, without gradient; None without a teacher.
    """

    embeddings: Float[Tensor, "batch dim"]
    replicated: Float[Tensor, "batch dim"]
    labels: Int64[Tensor, "batch"]
    weights: Float[Tensor, "batch"] | None
    local_rows: slice
    teacher: Float[Tensor, "batch teacher_dim"] | None = None


@dataclass(frozen=True)
class OwnClass:
    """The own class of each row.

    Attributes:
        cosine: cosine (or product) of row and own class, pooled over the sub-centers; 0 where this engine does not hold
            the class.
        center: the sub-center nearest to the row, as it is compared; None unless requested.
    """

    cosine: Float[Tensor, "batch"]
    center: Float[Tensor, "batch columns"] | None


@runtime_checkable
class View(Protocol):
    """The centers prepared for one batch: created by an engine, used by the head for that batch only."""

    @property
    def partial(self) -> "View":
        """The view of this rank's classes only, whose results are partial; a whole view returns itself."""
        ...

    @property
    def owned(self) -> Bool[Tensor, "batch"]:
        """Rows whose class this rank holds; rows without a class belong to rank 0."""
        ...

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> OwnClass:
        """Compute the own class of each row."""
        ...

    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, own_elsewhere: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """The `count` largest cosines of each row to other classes, descending, without gradient.

        The result has fewer columns where there are fewer other classes.

        Args:
            own_elsewhere: whether another rank may hold a row's own class, so that all classes here are other classes;
                a row whose own class is here then ends with minus infinity.
        """
        ...

    def sums(
        self, query: Float[Tensor, "batch columns"], function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Float64[Tensor, "numbers batch"]:
        """The sums over the other classes of what `function` makes of the cosines of these rows; see `Rows.sums`."""
        ...

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """Reduce the other classes of each row as `loss.reduce` says: minus infinity or 0 where there are none.

        The backward pass reaches the query and every item of the context that needs a gradient, if only with zeros.

        Args:
            context: items of the loss's context, one number a row each.
            row_gradient: gradient of the mean loss in this result up to one factor, where it is known before the
                forward pass: an engine may then need a single pass.
        """
        ...

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers, by the first `columns` columns."""
        ...

    def to_partial(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """A replicated tensor for use with this rank's classes; its gradient is summed over the ranks."""
        ...

    def to_replicated(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The sum of a partial tensor over the ranks."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Computes with all class centers; the head computes what concerns rows only."""

    @property
    def draws(self) -> nn.Module | None:
        """Random state of the engine, for the head's `state_dict`; None for an engine without randomness."""
        ...

    def forget(self, loading: bool = False) -> None:
        """Make the steps that some centers lack (when `loading` all, if they can be made); the centers may change."""
        ...

    def for_classes(self, classes: int) -> "Engine":
        """The engine for a head with this many classes."""
        ...

    def held(self, classes: int) -> range:
        """The classes whose centers this rank holds."""
        ...

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
        teacher: Float[Tensor, "rows teacher_dim"] | None = None,
    ) -> Batch:
        """Gather the global batch from the rows of each rank."""
        ...

    def view(self, centers: Float[Tensor, "classes subcenters columns"], request: ViewRequest) -> View:
        """The centers for a batch."""
        ...


def check_engine(name: str, engine: object) -> None:
    """Refuse an object that is no engine, such as the class itself instead of an instance."""
    if isinstance(engine, type) or not isinstance(engine, Engine):
        raise TypeError(
            f"{name} is {engine!r}; a head takes an object of verisphere.head: Auto(), Dense(), Streamed(...), "
            "Sparse(...), Sampled(...) or Sharded(...)"
        )


class WholeEngine:
    """Base of the engines that hold every class."""

    @property
    def draws(self) -> nn.Module | None:
        """None: there is no randomness."""
        return None

    def forget(self, loading: bool = False) -> None:
        """Nothing: every step is made at once."""

    def for_classes(self, classes: int) -> Any:  # the subclass's own kind; beartype takes no Self outside a class
        """The engine with a state of its own, so that one object may be given to several heads."""
        return deepcopy(self)

    def held(self, classes: int) -> range:
        """All classes."""
        return range(classes)

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
        teacher: Float[Tensor, "rows teacher_dim"] | None = None,
    ) -> Batch:
        """These rows are the whole batch."""
        return Batch(embeddings, embeddings, labels, weights, slice(0, len(labels)), teacher)


class WholeView:
    """Base of the views that see every class; a subclass adds `rest` and `spread`.

    Args:
        own_centers: stored centers of each row's class, with gradient; of any class for a row labelled -1.
    """

    def __init__(
        self,
        own_centers: Float[Tensor, "batch subcenters columns"],
        centers: Float[Tensor, "classes subcenters columns"],
        request: ViewRequest,
    ) -> None:
        self.own_centers, self.centers, self.request = own_centers, centers, request

    @property
    def partial(self) -> Any:  # a View; checking it would read `partial` again, without end
        """The view itself: no class is held elsewhere."""
        return self

    @property
    def owned(self) -> Bool[Tensor, "batch"]:
        """All rows."""
        return torch.ones_like(self.request.labels, dtype=torch.bool)

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> OwnClass:
        """See `View.own`."""
        own_centers = compared_rows(self.own_centers.to(query.dtype), self.request.similarity)
        known = self.request.labels != NO_CLASS
        # not a matrix product, whose backward an autocast around it would do in half precision
        cosines = (query[:, None] * own_centers).sum(2)  # (batch, subcenters)
        pooled = self.request.subcenters.pooled(cosines).masked_fill(~known, 0.0)
        if not center:
            return OwnClass(pooled, None)
        nearest = own_centers[torch.arange(len(cosines), device=cosines.device), cosines.argmax(1)]
        return OwnClass(pooled, nearest.masked_fill(~known[:, None], 0.0))

    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, own_elsewhere: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """See `View.nearest`."""
        nearest = nearest_others(
            query, self.centers, self.request.labels, count, self.request.subcenters, self.request.similarity
        )
        return nearest if own_elsewhere else nearest[:, : len(self.centers) - 1]

    @torch.no_grad()
    def sums(
        self, query: Float[Tensor, "batch columns"], function: Callable[[Tensor], tuple[Tensor, ...]]
    ) -> Float64[Tensor, "numbers batch"]:
        """See `View.sums`."""
        request = self.request
        to_others = cosines_to_others(query, self.centers, request.labels, request.subcenters, request.similarity)
        return torch.stack(
            [
                torch.stack([term.masked_fill(own, 0.0).sum(1, dtype=torch.float64) for term in function(cosine)])
                for cosine, own in to_others
            ]
        ).sum(0)

    def to_partial(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same tensor."""
        return alike

    def to_replicated(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same tensor."""
        return partial
