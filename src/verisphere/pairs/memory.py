"""The memories of pair terms: AnchorFace's online-updating set, and OneFace's queue of features and labels.

Both store unit features with their identities, in float32 or bfloat16, on the training's device or in host memory, and
sharded over the ranks. Features are constants: no gradient reaches the steps that computed them.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.base.collectives import total
from verisphere.base.distributed import world
from verisphere.base.vocabulary import NO_CLASS, check_word
from verisphere.score.stored import EMPTY, Stored

Storage = Literal["float32", "bfloat16"]
Place = Literal["device", "host"]


def check_count(name: str, count: int, least: int = 1, most: int = 10**6) -> None:
    """Refuse a count out of range; the default maximum is beyond any use, and below what overflows a tensor's size."""
    if count < least:
        raise ValueError(f"{name} is {count}; it must be at least {least}")
    if count > most:
        raise ValueError(f"{name} is {count:,}; it must be at most {most:,}")


class Memory(nn.Module):
    """Base of the memories: unit features as the rows of one tensor, which is sharded over the ranks.

    Args:
        storage: type of the features. bfloat16 takes half the memory and rounds each number by up to 0.4 %; comparisons
            then use the rounded feature.
        place: "device" is the training's device; "host" is host memory, from which blocks of features are copied to the
            device.

    Attributes:
        rows: numbers of the rows that this rank holds.
    """

    features: Tensor

    def __init__(self, storage: Storage = "float32", place: Place = "device") -> None:
        super().__init__()
        check_word("storage", storage, Storage)
        check_word("place", place, Place)
        self.storage, self.place = storage, place
        self.rows = range(0)

    def _allocate(self, groups: int, rows_per_group: int, dim: int) -> None:
        """Allocate this rank's share of the groups; the rows of a group are on one rank."""
        share = world().share(groups)
        self.rows = range(share.start * rows_per_group, share.stop * rows_per_group)
        self.register_buffer("features", torch.zeros(len(self.rows), dim, dtype=getattr(torch, self.storage)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Move buffers as a module does, but keep their types, and features in host memory if that is their place."""

        def moved(tensor: Tensor) -> Tensor:
            result = fn(tensor)
            return result.to(tensor.dtype) if result.is_floating_point() else result

        if self.place == "host":
            features = self._buffers.pop("features", None)
            super()._apply(moved, recurse)
            if features is not None:
                self._buffers["features"] = features
            return self
        return super()._apply(moved, recurse)

    def held(self) -> dict[str, range]:
        """Names of the sharded tensors, and the rows of each that this rank holds."""
        raise NotImplementedError(f"{type(self).__name__} has no held(); a memory names its sharded tensors there")

    def _write(self, places: Int64[Tensor, " inserted"], units: Float[Tensor, "inserted dim"]) -> None:
        """Write features to rows of this rank, counted from its first."""
        features = self.features
        features.index_copy_(0, places.to(features.device), units.to(features.device, features.dtype))


class OnlineSet(Memory):
    """AnchorFace's online-updating set (Liu et al. 2022, section 3.2): the latest K features of each of N identities.

    A feature is usable for M steps, including the step that inserts it. (Algorithm 1 as printed decrements before it
    uses the set, which gives M - 1; the text says M.) A new feature takes a free place of its identity, or replaces the
    oldest feature; several features of one identity in a batch are inserted one after another. Among features of equal
    age, which were inserted in one earlier step, the one in the first place is replaced first.

    Each rank holds the features of its share of the identities, in order.

    >>> memory = OnlineSet(features_per_identity=2, valid_steps=10)
    >>> memory.prepare(identities=3, dim=2)
    >>> memory.insert(torch.eye(2), torch.tensor([0, 2]), step=0).tolist()
    [0, 4]
    >>> memory.fill(step=0), memory.fill(step=10)  # 2 of 6 places, until they expire
    (0.3333333333333333, 0.0)

    Args:
        features_per_identity: number of places for each identity, K.
        valid_steps: number of steps for which a feature is usable, M.
        storage: see `Memory`.
        place: see `Memory`.

    Raises:
        ValueError: a number below 1; see `Memory`.
    """

    until: Tensor

    def __init__(
        self,
        features_per_identity: int = 5,
        valid_steps: int = 1000,
        storage: Storage = "float32",
        place: Place = "device",
    ) -> None:
        super().__init__(storage, place)
        check_count("features_per_identity", features_per_identity)
        check_count("valid_steps", valid_steps, most=10**12)
        self.features_per_identity, self.valid_steps = features_per_identity, valid_steps
        self.identities = 0

    def prepare(self, identities: int, dim: int) -> None:
        """Allocate an empty set for this many identities."""
        self.identities = identities
        self._allocate(identities, self.features_per_identity, dim)
        self.register_buffer("until", torch.zeros(len(self.rows), dtype=torch.int64))

    def insert(
        self, units: Float[Tensor, "batch dim"], labels: Int64[Tensor, " batch"], step: int
    ) -> Int64[Tensor, " batch"]:
        """Insert the global batch; rows without an identity (-1) are skipped.

        Args:
            units: features of length 1.
            labels: identity of each row.
            step: number of steps made before this one.

        Returns:
            For each row of the batch the row of this rank's features that stores its copy. It is -1 for a row without a
            copy here: another rank holds it, the row has no identity, or K later rows of its identity replaced it.
        """
        places = self.features_per_identity
        held = range(self.rows.start // places, self.rows.stop // places)
        copies = torch.full_like(labels, -1)
        here = ((labels >= held.start) & (labels < held.stop)).nonzero()[:, 0]
        if not len(here):
            return copies
        identity = (labels[here] - held.start).to(self.until.device)
        order = identity.argsort(stable=True)
        identity, here = identity[order], here[order.to(here.device)]
        turn = _count_equal_before(identity)  # rows of the same identity before this one in the batch
        # Expired and empty places come first, then the oldest; places of equal age stay in order.
        steps_left = self.until.view(-1, places)[identity].sub(step).clamp(min=0)
        by_age = steps_left.argsort(dim=1, stable=True)
        slot = by_age.gather(1, (turn % places)[:, None])[
            :, 0
        ]  # after K turns the first row of the batch is the oldest
        place = identity * places + slot
        last = _last_occurrences(place)
        place, here = place[last], here[last.to(here.device)]
        self._write(place, units[here].detach())
        self.until[place] = step + self.valid_steps
        copies[here] = place.to(copies.device)
        return copies

    def remaining(self, step: int) -> Int64[Tensor, "identities places"]:
        """For each place of this rank the number of steps left, including this one; 0 without a usable feature."""
        return (self.until - step).clamp(min=0).view(-1, self.features_per_identity)

    def stored(self, step: int) -> Stored:
        """This rank's features, with `EMPTY` labels where they are unusable at a step; call it after `insert`."""
        identity = torch.arange(self.rows.start, self.rows.stop, device=self.until.device) // self.features_per_identity
        return Stored(self.features, torch.where(self.until > step, identity, EMPTY))

    def fill(self, step: int) -> float:
        """The share of all places, over all ranks, with a usable feature."""
        usable = total((self.until > step).sum()[None])
        return float(usable) / max(self.identities * self.features_per_identity, 1)

    def held(self) -> dict[str, range]:
        """See `Memory`."""
        return {"features": self.rows, "until": self.rows}


class FeatureQueue(Memory):
    """OneFace's feature and label queues (Liu et al. 2022, section 4.2): the last K batches, and each row's domain.

    Places are numbered through all batches; each rank holds its share of them, in order.

    >>> queue = FeatureQueue(batches=2)
    >>> queue.prepare(batch_size=2, dim=2)
    >>> queue.insert(torch.eye(2), torch.tensor([0, 2]))
    >>> queue.fill(), queue.stored().labels.tolist()
    (0.5, [0, 2, -2, -2])

    Args:
        batches: number of batches that the queue holds, K.
        storage: see `Memory`.
        place: see `Memory`.

    Raises:
        ValueError: fewer than one batch; see `Memory`.
    """

    labels: Tensor
    domains: Tensor
    entered: Tensor

    def __init__(self, batches: int = 1000, storage: Storage = "float32", place: Place = "device") -> None:
        super().__init__(storage, place)
        check_count("batches", batches)
        self.batches = batches
        self.capacity = 0

    def prepare(self, batch_size: int, dim: int) -> None:
        """Allocate an empty queue for batches of this size."""
        self.capacity = self.batches * batch_size
        self._allocate(self.capacity, 1, dim)
        self.register_buffer("labels", torch.full((len(self.rows),), EMPTY, dtype=torch.int64))
        self.register_buffer("domains", torch.full((len(self.rows),), EMPTY, dtype=torch.int64))
        self.register_buffer("entered", torch.zeros((), dtype=torch.int64))

    def insert(
        self,
        units: Float[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        domains: Int64[Tensor, " batch"] | None = None,
    ) -> None:
        """Insert the global batch in place of the oldest rows.

        Args:
            units: features of length 1.
            labels: identity of each row.
            domains: number of each row's domain; None for data without domains.

        Raises:
            ValueError: more rows than the queue has places.
        """
        if len(labels) > self.capacity:
            raise ValueError(f"a batch of {len(labels)} does not fit a queue of {self.capacity} places")
        first = int(self.entered)
        place = torch.arange(first, first + len(labels), device=labels.device) % self.capacity - self.rows.start
        here = ((place >= 0) & (place < len(self.rows))).nonzero()[:, 0]
        if len(here):
            self._write(place[here], units[here].detach())
            self.labels[place[here]] = labels[here]
            self.domains[place[here]] = EMPTY if domains is None else domains[here]
        self.entered += len(labels)

    def stored(self, domain: int | None = None) -> Stored:
        """This rank's part of the queue, with `EMPTY` labels for the rows of other domains than the one asked for."""
        labels = self.labels if domain is None else self.labels.masked_fill(self.domains != domain, EMPTY)
        return Stored(self.features, labels)

    def fill(self) -> float:
        """The share of all places, over all ranks, that hold a feature."""
        return min(int(self.entered) / max(self.capacity, 1), 1.0)

    def held(self) -> dict[str, range]:
        """See `Memory`."""
        return {"features": self.rows, "labels": self.rows, "domains": self.rows}


def stored_centers(centers: Float[Tensor, "held subcenters dim"], first: int) -> Stored:
    """Class centers, of any length, in place of stored features, as constants (AnchorFace, variant -FC)."""
    rows = torch.nn.functional.normalize(centers.detach().float().flatten(0, 1), dim=1)
    classes = torch.arange(first, first + len(centers), device=centers.device)
    # A center of length 0 has no direction, so it is not compared.
    labels = torch.where(rows.any(1), classes.repeat_interleave(centers.shape[1]), EMPTY)
    return Stored(rows, labels)


def _count_equal_before(ordered: Int64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
    """For each entry of an ascending tensor the number of equal entries before it."""
    return torch.arange(len(ordered), device=ordered.device) - torch.searchsorted(ordered, ordered)


def _last_occurrences(places: Int64[Tensor, " rows"]) -> Int64[Tensor, " distinct"]:
    """The index of the last occurrence of each distinct place."""
    distinct, which = places.unique(return_inverse=True)
    last = torch.full_like(distinct, -1)
    return last.scatter_reduce(0, which, torch.arange(len(places), device=places.device), "amax")


__all__ = ["EMPTY", "NO_CLASS", "FeatureQueue", "Memory", "OnlineSet", "Place", "Storage", "stored_centers"]
