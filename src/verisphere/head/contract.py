"""What a head asks of an engine, so that every loss runs on each.

An engine looks at class centers. One that holds all of them is *whole*; one that holds a process's share gives partial
results, and the two doors of `verisphere.distributed` lead from those to what every process knows and back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from verisphere.head.nearest import nearest_others
from verisphere.head.subcenters import SubCenters
from verisphere.losses.contract import NO_CLASS, ClassLoss, Similarity, compared_rows


@dataclass(frozen=True)
class SGDStep:
    """One step of `torch.optim.SGD`.

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
        """Update centers and momentum buffer in place, as `torch.optim.SGD` does; only while `current`.

        Args:
            step: rate, momentum and weight decay.
            buffer: momentum buffer; None where the step has no momentum.
        """
        ...


@dataclass(frozen=True, eq=False)
class CenterQuery:
    """What a head asks of an engine for one batch.

    Attributes:
        labels: class of each row of the global batch; -1 is no class, and excludes no class.
        subcenters: how the cosines to a class's sub-centers become one.
        similarity: how rows and centers are compared.
        dtype: type of the rows, which the engine computes in.
        defer: receives the gradient of the centers before it is computed, for an update without it. An engine may give
            the gradient to autograd all the same. None: the gradient goes to autograd.
        class_weights: how often each class counts in a sum over the classes, and in the mean of `View.spread`; None
            counts each once. A softmax counts each class once whatever the weights are.
    """

    labels: Int64[Tensor, "batch"]
    subcenters: SubCenters
    similarity: Similarity
    dtype: torch.dtype
    defer: Callable[[DeferredGradient], None] | None = None
    class_weights: Float[Tensor, "classes"] | None = None


@dataclass(frozen=True)
class Batch:
    """The global batch, as one process sees it.

    Attributes:
        embeddings: of every process's rows; each hands on the gradient that it has found, and those add up.
        agreed: the same numbers, for what every process computes alike.
        labels: of them.
        weights: of them, without gradient.
        mine: which rows are this process's own.
    """

    embeddings: Float[Tensor, "batch dim"]
    agreed: Float[Tensor, "batch dim"]
    labels: Int64[Tensor, "batch"]
    weights: Float[Tensor, "batch"] | None
    mine: slice


@dataclass(frozen=True)
class Own:
    """Each row and its own class.

    Attributes:
        cosine: to it (or product), pooled over the sub-centers; 0 for a row whose class is not here.
        center: the nearest of its sub-centers, as it is compared; None unless asked for.
    """

    cosine: Float[Tensor, "batch"]
    center: Float[Tensor, "batch columns"] | None


@runtime_checkable
class View(Protocol):
    """The centers as one batch needs them; made by an engine, used by the head for that batch alone."""

    @property
    def part(self) -> "View":
        """The same of this process's classes alone: what it gives is partial. Itself, where they are all."""
        ...

    @property
    def here(self) -> Bool[Tensor, "batch"]:
        """Rows that this process answers for among those that see them: their class is here, or nowhere."""
        ...

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> Own:
        """Each row's own class.

        Args:
            query: rows ready for comparison with the centers.
            center: whether the nearest sub-center itself is wanted.
        """
        ...

    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, strangers: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """The `count` largest cosines of each row to other classes, falling, without gradient; fewer if there are.

        Args:
            query: rows ready for comparison with the centers.
            count: how many to find.
            strangers: some rows' classes may not be among those seen, and all of these are others to them; a row that
                has one fewer ends with minus infinity.
        """
        ...

    def rest(
        self,
        loss: ClassLoss,
        query: Float[Tensor, "batch columns"],
        context: tuple[Float[Tensor, "batch"], ...],
        row_gradient: Float[Tensor, "batch"] | None = None,
    ) -> Float[Tensor, "batch"]:
        """The other classes of each row, reduced as `loss.reduce` says: minus infinity or 0 where there are none.

        Its backward reaches the query and every item of the context that needs a gradient, if only with zeros.

        Args:
            loss: whose `others` are reduced.
            query: rows ready for comparison with the centers.
            context: of `loss`, one number a row each.
            row_gradient: where the gradient of the whole in this result is known beforehand but for one factor, the
                gradient without that factor: an engine may then do with a single pass.
        """
        ...

    def spread(self, columns: int) -> Float[Tensor, ""]:
        """The mean over the classes of the distance between their sub-centers, by the first `columns` columns."""
        ...

    def entering(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """A number that is alike on every process, for use with a process's own classes."""
        ...

    def summed(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The sum of what the processes have."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Looks at every center; a head leaves that to it, and does all that is a matter of rows alone."""

    @property
    def draws(self) -> nn.Module | None:
        """The state of an engine that chooses at random, for the head's `state_dict`; None of one that does not."""
        ...

    def for_classes(self, classes: int) -> "Engine":
        """This engine, as a head with so many classes will ask it."""
        ...

    def held(self, classes: int) -> range:
        """Which of so many classes this process holds the centers of."""
        ...

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
    ) -> Batch:
        """The global batch that these rows are a part of."""
        ...

    def view(self, centers: Float[Tensor, "classes subcenters columns"], query: CenterQuery) -> View:
        """The centers for a batch.

        Args:
            centers: as stored, of the classes held.
            query: labels of the global batch, and how rows and centers are compared.
        """
        ...


class WholeEngine:
    """Base of the engines that hold every class."""

    @property
    def draws(self) -> nn.Module | None:
        """Nothing is left to chance."""
        return None

    def for_classes(self, classes: int) -> Any:  # the subclass's own kind; beartype takes no Self outside a class
        """Itself: it counts the centers that it sees."""
        return self

    def held(self, classes: int) -> range:
        """All of them."""
        return range(classes)

    def batch(
        self,
        embeddings: Float[Tensor, "rows dim"],
        labels: Int64[Tensor, "rows"],
        weights: Float[Tensor, "rows"] | None,
    ) -> Batch:
        """These rows are all there are."""
        return Batch(embeddings, embeddings, labels, weights, slice(0, len(labels)))


class WholeView:
    """Base of the views that see every class; a subclass adds `rest` and `spread`.

    Args:
        own_centers: of each row's class as they are stored, with gradient; of any class for a row labelled -1.
        centers: as stored.
        query: what the head asked for.
    """

    def __init__(
        self,
        own_centers: Float[Tensor, "batch subcenters columns"],
        centers: Float[Tensor, "classes subcenters columns"],
        query: CenterQuery,
    ) -> None:
        self.own_centers, self.centers, self.asked = own_centers, centers, query

    @property
    def part(self) -> Any:  # a View; checking that would ask for `part` again, without end
        """Itself: there is nothing elsewhere."""
        return self

    @property
    def here(self) -> Bool[Tensor, "batch"]:
        """All."""
        return torch.ones_like(self.asked.labels, dtype=torch.bool)

    def own(self, query: Float[Tensor, "batch columns"], center: bool = False) -> Own:
        """See `View.own`."""
        own_centers = compared_rows(self.own_centers.to(query.dtype), self.asked.similarity)
        known = self.asked.labels != NO_CLASS
        # not a matrix product, whose backward an autocast around it would do in half precision
        cosines = (query[:, None] * own_centers).sum(2)  # (batch, subcenters)
        pooled = self.asked.subcenters.pooled(cosines).masked_fill(~known, 0.0)
        if not center:
            return Own(pooled, None)
        nearest = own_centers[torch.arange(len(cosines), device=cosines.device), cosines.argmax(1)]
        return Own(pooled, nearest.masked_fill(~known[:, None], 0.0))

    def nearest(
        self, query: Float[Tensor, "batch columns"], count: int, strangers: bool = False
    ) -> Float[Tensor, "batch nearest"]:
        """See `View.nearest`."""
        found = nearest_others(
            query, self.centers, self.asked.labels, count, self.asked.subcenters, self.asked.similarity
        )
        return found if strangers else found[:, : len(self.centers) - 1]

    def entering(self, alike: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same number."""
        return alike

    def summed(self, partial: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The same number."""
        return partial
