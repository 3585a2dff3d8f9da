"""What pair terms remember: the online-updating set of AnchorFace, and OneFace's queue of features and labels.

Both keep unit features with the identities they belong to, fp32 or bf16, on the training's device or in host memory,
and of several processes each its share. Features are constants: no gradient reaches the steps that made them.
"""

from collections.abc import Callable
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from verisphere.collectives import total
from verisphere.distributed import world
from verisphere.pairs.counts import check_count
from verisphere.score.stored import EMPTY, Stored
from verisphere.vocabulary import NO_CLASS, check_word

Storage = Literal["float32", "bfloat16"]
Place = Literal["device", "host"]


class Memory(nn.Module):
    """Base of the memories: unit features in one tensor, a row each, of which a process holds `rows`.

    Args:
        storage: type of the features. bfloat16 takes half the room and rounds each number by up to 0.4 %; what is
            compared is then the rounded feature.
        place: "device", where the training is, or "host", from where they are brought in runs.

    Attributes:
        rows: of all rows those that this process holds.

    Raises:
        ValueError: an unknown storage or place.
    """

    features: Tensor

    def __init__(self, storage: Storage = "float32", place: Place = "device") -> None:
        super().__init__()
        check_word("storage", storage, Storage)
        check_word("place", place, Place)
        self.storage, self.place = storage, place
        self.rows = range(0)

    def _make_room(self, count: int, dim: int, share_of: int, each: int = 1) -> None:
        """Room for `count` features, of which this process takes its share of `share_of` things of `each` rows."""
        share = world().share(share_of)
        self.rows = range(share.start * each, share.stop * each)
        assert share_of * each == count, (share_of, each, count)
        self.register_buffer("features", torch.zeros(len(self.rows), dim, dtype=getattr(torch, self.storage)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Moves to a device what belongs there; numbers keep their types, whatever the model's become."""

        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found.to(tensor.dtype) if found.is_floating_point() else found

        if self.place == "host":
            features = self._buffers.pop("features", None)
            super()._apply(moved, recurse)
            if features is not None:
                self._buffers["features"] = features
            return self
        return super()._apply(moved, recurse)

    def _write(self, places: Int64[Tensor, " some"], units: Float[Tensor, "some dim"]) -> None:
        """Put features at these of the rows held here."""
        features = self.features
        features.index_copy_(0, places.to(features.device), units.to(features.device, features.dtype))


class OnlineSet(Memory):
    """AnchorFace's online-updating set (Liu et al. 2022, section 3.2): the latest K features of each of N identities.

    A feature is usable for M steps, the one that inserts it counted. (Algorithm 1 as printed decrements before it uses
    the set, which gives M - 1; the text says M.) A new feature takes a free place of its identity, or that of the
    oldest feature; several of one identity in a batch are inserted one after another. Of features that were inserted in
    one earlier step, and so are equally old, the one in the first place goes first.

    Of several processes each holds the identities of its share, in order.

    Args:
        features_per_identity: K.
        valid_steps: M.
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
        """Make room for so many identities; it is empty."""
        each = self.features_per_identity
        self.identities = identities
        self._make_room(identities * each, dim, identities, each)
        self.register_buffer("until", torch.zeros(len(self.rows), dtype=torch.int64))

    def insert(
        self, units: Float[Tensor, "batch dim"], labels: Int64[Tensor, " batch"], step: int
    ) -> Int64[Tensor, " batch"]:
        """Insert the global batch; rows of no identity (-1) have no place.

        Args:
            units: features of length 1.
            labels: whose they are.
            step: steps made before this one.

        Returns:
            Where each row's copy lies among those held here; -1 where it does not: another process holds it, it has no
            identity, or K later rows of its identity are in the batch.
        """
        each = self.features_per_identity
        held = range(self.rows.start // each, self.rows.stop // each)
        copies = torch.full_like(labels, -1)
        here = ((labels >= held.start) & (labels < held.stop)).nonzero()[:, 0]
        if not len(here):
            return copies
        identity = (labels[here] - held.start).to(self.until.device)
        order = identity.argsort(stable=True)
        identity, here = identity[order], here[order.to(here.device)]
        turn = _turn(identity)  # how many of its identity come before it in the batch
        # the oldest first, expired and empty places before all, the first of equal ones before the others
        left = self.until.view(-1, each)[identity].sub(step).clamp(min=0)
        by_age = left.argsort(dim=1, stable=True)
        slot = by_age.gather(1, (turn % each)[:, None])[:, 0]  # after K turns the first of the batch is the oldest
        place = identity * each + slot
        last = _last_of_each(place)
        place, here = place[last], here[last.to(here.device)]
        self._write(place, units[here].detach())
        self.until[place] = step + self.valid_steps
        copies[here] = place.to(copies.device)
        return copies

    def remaining(self, step: int) -> Int64[Tensor, "identities each"]:
        """How many steps each feature held here is usable for yet, this one counted; 0 where there is none."""
        return (self.until - step).clamp(min=0).view(-1, self.features_per_identity)

    def stored(self, step: int) -> Stored:
        """The features that are usable at a step; call it after the step's `insert`."""
        identity = torch.arange(self.rows.start, self.rows.stop, device=self.until.device) // self.features_per_identity
        return Stored(self.features, torch.where(self.until > step, identity, EMPTY))

    def fill(self, step: int) -> float:
        """Share of all places whose feature is usable."""
        usable = total((self.until > step).sum()[None])
        return float(usable) / max(self.identities * self.features_per_identity, 1)

    def held(self) -> dict[str, range]:
        """See `PairTerm.held`."""
        return {"features": self.rows, "until": self.rows}


class FeatureQueue(Memory):
    """OneFace's feature and label queues (Liu et al. 2022, section 4.2): the last K batches, and each row's domain.

    Places are counted through all batches; of several processes each holds its share of them, in order.

    Args:
        batches: K.
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
        """Make room for batches of this size; it is empty."""
        self.capacity = self.batches * batch_size
        self._make_room(self.capacity, dim, self.capacity)
        self.register_buffer("labels", torch.full((len(self.rows),), EMPTY, dtype=torch.int64))
        self.register_buffer("domains", torch.full((len(self.rows),), EMPTY, dtype=torch.int64))
        self.register_buffer("entered", torch.zeros((), dtype=torch.int64))

    def insert(
        self,
        units: Float[Tensor, "batch dim"],
        labels: Int64[Tensor, " batch"],
        domains: Int64[Tensor, " batch"] | None = None,
    ) -> None:
        """Enter the global batch, over the oldest rows.

        Args:
            units: features of length 1.
            labels: whose they are.
            domains: number of each row's domain; none without.

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
        """What this process holds of the queue, or of one domain in it."""
        labels = self.labels if domain is None else self.labels.masked_fill(self.domains != domain, EMPTY)
        return Stored(self.features, labels)

    def fill(self) -> float:
        """Share of the places that are taken."""
        return min(int(self.entered) / max(self.capacity, 1), 1.0)

    def held(self) -> dict[str, range]:
        """See `PairTerm.held`."""
        return {"features": self.rows, "labels": self.rows, "domains": self.rows}


def stored_centers(centers: Float[Tensor, "held subcenters dim"], first: int) -> Stored:
    """Class centers in place of stored features, as constants (AnchorFace, variant -FC).

    Args:
        centers: as stored, of the classes held here.
        first: number of the first class held.
    """
    rows = torch.nn.functional.normalize(centers.detach().float().flatten(0, 1), dim=1)
    classes = torch.arange(first, first + len(centers), device=centers.device)
    # a center of length 0 has no direction
    labels = torch.where(rows.any(1), classes.repeat_interleave(centers.shape[1]), EMPTY)
    return Stored(rows, labels)


def _turn(ordered: Int64[Tensor, " some"]) -> Int64[Tensor, " some"]:
    """How many equal numbers stand before each; equal ones stand together."""
    return torch.arange(len(ordered), device=ordered.device) - torch.searchsorted(ordered, ordered)


def _last_of_each(places: Int64[Tensor, " some"]) -> Int64[Tensor, " distinct"]:
    """Where each place comes the last time."""
    distinct, which = places.unique(return_inverse=True)
    last = torch.full_like(distinct, -1)
    return last.scatter_reduce(0, which, torch.arange(len(places), device=places.device), "amax")


__all__ = ["EMPTY", "NO_CLASS", "FeatureQueue", "Memory", "OnlineSet", "Place", "Storage", "stored_centers"]
