"""The angular triplet loss beside a class-center loss, or alone (ArcFace, Deng et al. 2019, arXiv:1801.07698).

ArcFace's section 3.1 requires arccos<x_pos, x> + m <= arccos<x_neg, x>; the loss is the amount by which this is
violated. The margin is that of its table 2.

Candidates for positives and negatives are the rows of the batch and stored features, which are constants. Candidates
are sharded over the ranks; pairs of an anchor and a positive are few, and replicated. Angles are computed in blocks of
candidates, so no tensor has the size of all triplets, nor an angle for every stored feature.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, pi
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from verisphere.base.collectives import counts, gathered, highest, total
from verisphere.base.device import full_float32
from verisphere.base.distributed import world
from verisphere.base.vocabulary import check_word
from verisphere.pairs.memory import OnlineSet, Place, Storage, check_count
from verisphere.pairs.pair_term import PairOutput, PairTerm, Step, Training
from verisphere.score.cosine import angle
from verisphere.score.stored import EMPTY, Stored, same_label

log = logging.getLogger(__name__)

Mining = Literal["all", "hard", "semihard"]

#: Radians. Two angles that differ by less may be one angle, summed in another order.
ANGLE_TOLERANCE = 1e-6
#: Largest number of angles, and of hinges, that are held at once, by device: 4 MB each on a CPU, 128 MB on a GPU.
AT_ONCE = {"cpu": 1 << 20, "cuda": 1 << 25}


@dataclass(frozen=True, eq=False)
class Triplets:
    """The result over the triplets of a batch; replicated.

    Attributes:
        value: the mean hinge, radians; 0 without triplets.
        gradient: gradient of the mean hinge in the rows of the batch.
        active: number of triplets that miss the margin.
    """

    value: Float[Tensor, ""]
    gradient: Float[Tensor, "batch dim"]
    count: int
    active: int
    anchors: int


def hinge(
    positive: Float[Tensor, "*#shape"], negative: Float[Tensor, "*#shape"], margin: float
) -> Float[Tensor, "*shape"]:
    """The amount by which arccos<x_pos, x> + m <= arccos<x_neg, x> is violated, in radians; 0 where it holds."""
    return (positive + margin - negative).clamp(min=0)


def triplets(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    stored: Stored | None,
    margin: float,
    mining: Mining,
    at_once: int | None = None,
) -> Triplets:
    """The mean hinge over the triplets of a batch, and its gradient.

    The rows of all ranks, of length 1, and their labels (or `NO_CLASS`) are replicated. This rank's share of the stored
    features are candidates too. The margin is in radians; `at_once` angles are held at most; None chooses by device.
    """
    at_once = at_once or AT_ONCE[units.device.type]
    with full_float32(), torch.enable_grad():
        units = units.detach().requires_grad_()
        candidates = _Candidates.of(units, labels, stored)
        pairs = _Pairs.of(units, labels, candidates)
        if not len(pairs.anchor):
            return Triplets(units.new_zeros(()), torch.zeros_like(units), 0, 0, 0)
        if mining == "hard":
            pairs = pairs.farthest(len(labels))
        if mining == "all":
            hinges = _hinges_over_all(units, labels, candidates, pairs, margin, at_once)
        else:
            hinges = _hinges_over_nearest(units, labels, candidates, pairs, margin, at_once, mining == "semihard")
        positives = (units[pairs.anchor[pairs.local]] * candidates.rows(units, pairs.candidate)).sum(1)
        by_units = hinges.by_units + torch.autograd.grad(angle(positives), units, hinges.by_positive[pairs.local])[0]
    divisor = max(hinges.count, 1)
    return Triplets(hinges.sum / divisor, total(by_units) / divisor, hinges.count, hinges.active, hinges.anchors)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """This rank's candidates for positives and negatives: its share of the batch, then its stored features.

    Attributes:
        share: rows of the batch that are candidates of this rank; they come first in the numbering.
        places: rows of `stored` that are not empty; they follow in the numbering.
    """

    share: range
    stored: Shaped[Tensor, "stored dim"]
    places: Int64[Tensor, " filled"]
    labels: Int64[Tensor, " candidates"]

    @classmethod
    def of(
        cls, units: Float[Tensor, "batch dim"], labels: Int64[Tensor, " batch"], stored: Stored | None
    ) -> "_Candidates":
        share = world().share(len(labels))
        if stored is None:
            stored = Stored(units.new_empty(0, units.shape[1], dtype=torch.float32), labels[:0])
        places = (stored.labels != EMPTY).nonzero()[:, 0]
        all_labels = torch.cat([labels[share.start : share.stop], stored.labels[places].to(labels.device)])
        return cls(share, stored.rows, places, all_labels)

    def rows(
        self, units: Float[Tensor, "batch dim"], numbers: Int64[Tensor, " selected"]
    ) -> Float[Tensor, "selected dim"]:
        """The rows of the numbered candidates; rows of the batch carry gradient."""
        batch_rows = len(self.share)
        in_batch = numbers < batch_rows
        if in_batch.all():
            return units[numbers + self.share.start]
        places = self.places[(numbers - batch_rows).clamp(min=0).to(self.places.device)].to(self.stored.device)
        rows = self.stored.index_select(0, places).to(units)
        if not in_batch.any():
            return rows
        return torch.where(in_batch[:, None], units[numbers.clamp(max=batch_rows - 1) + self.share.start], rows)

    def blocks(self, size: int) -> Iterator[Int64[Tensor, " block"]]:
        """The numbers of all candidates, at most `size` at a time; no block mixes rows of the batch and stored rows."""
        for part in (range(len(self.share)), range(len(self.share), len(self.labels))):
            for start in range(part.start, part.stop, size):
                yield torch.arange(start, min(start + size, part.stop), device=self.labels.device)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The pairs of an anchor and a positive of all ranks; `anchor` and `angle` are replicated.

    Attributes:
        anchor: row of the batch that is the anchor of each pair.
        angle: angle between anchor and positive, radians.
        local: the pairs whose positive is a candidate of this rank.
        candidate: number of the positive of each local pair.
    """

    anchor: Int64[Tensor, " pairs"]
    angle: Float[Tensor, " pairs"]
    local: slice
    candidate: Int64[Tensor, " local"]

    @classmethod
    def of(
        cls, units: Float[Tensor, "batch dim"], labels: Int64[Tensor, " batch"], candidates: _Candidates
    ) -> "_Pairs":
        anchor, number = same_label(labels, candidates.labels)
        distinct = number + candidates.share.start != anchor  # a row is no positive of itself
        distinct |= number >= len(candidates.share)  # a stored feature is never the anchor itself
        anchor, number = anchor[distinct], number[distinct]
        with torch.no_grad():
            angles = angle((units[anchor] * candidates.rows(units, number)).sum(1))
        sizes = counts(len(anchor))
        first = sum(sizes[: world().rank])
        local = slice(first, first + len(anchor))
        return cls(gathered(anchor, sizes), gathered(angles, sizes), local, number)

    def farthest(self, batch: int) -> "_Pairs":
        """Select for each anchor the pair with the largest angle; the first of several equal angles."""
        largest = self.angle.new_full((batch,), -inf).scatter_reduce(0, self.anchor, self.angle, "amax")
        place = torch.arange(len(self.anchor), device=self.anchor.device)
        farthest = self.angle == largest[self.anchor]
        first = torch.full((batch,), len(place), device=place.device)
        first.scatter_reduce_(0, self.anchor[farthest], place[farthest], "amin")
        selected = first[self.anchor] == place
        selected_here = selected[self.local]
        start = int(selected[: self.local.start].sum())
        local = slice(start, start + int(selected_here.sum()))
        return _Pairs(self.anchor[selected], self.angle[selected], local, self.candidate[selected_here])


@dataclass(frozen=True, eq=False)
class _Hinges:
    """The hinges of all triplets; replicated, except for `by_units`.

    Attributes:
        by_positive: gradient of the sum in the angle of each pair.
        by_units: gradient of the sum in the rows of the batch through the negatives of this rank; partial.
        active: number of triplets with a hinge above 0.
    """

    sum: Float[Tensor, ""]
    by_positive: Float[Tensor, " pairs"]
    by_units: Float[Tensor, "batch dim"]
    count: int
    active: int
    anchors: int


def _hinges_over_all(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    candidates: _Candidates,
    pairs: _Pairs,
    margin: float,
    at_once: int,
) -> _Hinges:
    """Combine every pair with every negative."""
    summed, by_units = pairs.angle.new_zeros(()), torch.zeros_like(units)
    negatives, active = (torch.zeros_like(pairs.anchor) for _ in range(2))  # for each pair
    for numbers in candidates.blocks(max(at_once // max(len(units), 1), 1)):
        angles = angle(units @ candidates.rows(units, numbers).T)  # (batch, block)
        constant, by_angle = angles.detach(), torch.zeros_like(angles)
        for block in _slices(len(pairs.anchor), max(at_once // len(numbers), 1)):
            anchor = pairs.anchor[block]
            negative = labels[anchor][:, None] != candidates.labels[numbers]
            hinges = hinge(pairs.angle[block][:, None], constant[anchor], margin) * negative
            above_zero = hinges > 0
            summed += hinges.sum()
            negatives[block] += negative.sum(1)
            active[block] += above_zero.sum(1)
            by_angle.index_add_(
                0, anchor, -above_zero.to(by_angle)
            )  # the slope of a hinge in the negative's angle is -1
        by_units += torch.autograd.grad(angles, units, by_angle)[0]
    negatives, active = total(torch.stack([negatives, active]))
    anchors = len(pairs.anchor[negatives > 0].unique())
    return _Hinges(total(summed), active.to(units), by_units, int(negatives.sum()), int(active.sum()), anchors)


def _hinges_over_nearest(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    candidates: _Candidates,
    pairs: _Pairs,
    margin: float,
    at_once: int,
    beyond_positive: bool,
) -> _Hinges:
    """Combine every pair with its nearest negative, or with the nearest of those that are farther than the positive."""
    nearest, number = torch.full_like(pairs.angle, inf), torch.zeros_like(pairs.anchor)
    for numbers in candidates.blocks(max(at_once // max(len(units), 1), 1)):
        with torch.no_grad():
            angles = angle(units @ candidates.rows(units, numbers).T)  # (batch, block)
        for block in _slices(len(pairs.anchor), max(at_once // len(numbers), 1)):
            anchor = pairs.anchor[block]
            to_block, allowed = angles[anchor], labels[anchor][:, None] != candidates.labels[numbers]
            if beyond_positive:
                allowed &= to_block > pairs.angle[block][:, None] + ANGLE_TOLERANCE
            smallest, column = to_block.masked_fill(~allowed, inf).min(1)
            nearer = smallest < nearest[block]
            nearest[block] = torch.where(nearer, smallest, nearest[block])
            number[block] = torch.where(nearer, numbers[column], number[block])
    smallest = -highest(-nearest)
    local = _on_lowest_rank((nearest == smallest) & smallest.isfinite())
    hinges = hinge(pairs.angle, smallest, margin).where(smallest.isfinite(), 0.0)
    active = hinges > 0
    rows = candidates.rows(units, number[local])
    angles = angle((units[pairs.anchor[local]] * rows).sum(1))
    by_units = torch.autograd.grad(angles, units, -active[local].to(units))[0]
    anchors = len(pairs.anchor[smallest.isfinite()].unique())
    count = int(smallest.isfinite().sum())
    return _Hinges(hinges.sum(), active.to(units), by_units, count, int(active.sum()), anchors)


def _on_lowest_rank(holds_nearest: Bool[Tensor, " pairs"]) -> Bool[Tensor, " pairs"]:
    """Pairs for which this rank is the lowest one that holds a nearest negative; each pair counts on one rank only."""
    rank = world().rank
    lowest = -highest(torch.where(holds_nearest, -rank, -world().size))
    return holds_nearest & (lowest == rank)


def _slices(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


class AngularTriplet(PairTerm):
    """The mean hinge over triplets of the global batch: [theta(anchor, positive) + m - theta(anchor, negative)]+.

    Anchors are rows of the batch; a positive is another image of the same person, a negative an image of another
    person. A row whose person is none of the classes is no anchor, but a negative for every anchor. With `accumulate`
    triplets are formed within each part of a batch. An image has a positive in its batch only if the batch contains
    several images of its person: see the recipe's `images_per_identity`.

    Logged: `triplet_loss`, the mean before its weight; `triplet_active`, the share of triplets that miss the margin;
    `triplet_anchors`, the number of rows of the batch that have a triplet.

    >>> import torch
    >>> from verisphere.pairs import GlobalBatch, Step, Training
    >>> embeddings, labels = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), torch.tensor([0, 0, 1])
    >>> step = Step(GlobalBatch.of(embeddings, labels), embeddings, labels)
    >>> output = AngularTriplet(margin=0.35)(step)
    >>> output.figures["triplet_anchors"], round(float(output.loss), 4)
    (2.0, 0.0331)

    Args:
        margin: m, in radians, in [0, pi]. The default is table 2's.
        mining: the triplets that count. "all": every triplet. "hard": for each anchor the positive farthest from it and
            the negative nearest to it (Hermans et al. 2017, arXiv:1703.07737, eq. 5). "semihard": for each anchor and
            positive the nearest negative that is farther from the anchor than the positive (Schroff et al. 2015,
            FaceNet, arXiv:1503.03832, section 3.2); a pair without such a negative forms no triplet, and a negative
            beyond the margin forms a triplet whose hinge is 0.
        weight: factor on the loss.
        memory: number of features of earlier batches that are stored for each identity, as further positives and
            negatives; 0 stores none.
        valid_steps: number of steps for which a stored feature is usable, see `OnlineSet`.
        storage: type of the stored features, see `Memory`.
        place: place of the stored features, see `Memory`.

    Raises:
        ValueError: a number or name outside what is allowed.
    """

    def __init__(
        self,
        margin: float = 0.35,
        mining: Mining = "all",
        weight: float = 1.0,
        memory: int = 0,
        valid_steps: int = 1000,
        storage: Storage = "float32",
        place: Place = "device",
    ) -> None:
        super().__init__()
        if not 0 <= margin <= pi:
            raise ValueError(f"margin is {margin}; it is an angle in radians, from 0 to pi")
        check_word("mining", mining, Mining)
        if not (isfinite(weight) and weight >= 0):
            raise ValueError(f"weight is {weight}; it must be a number and not negative")
        check_count("memory", memory, least=0)
        self.margin, self.mining, self.weight = margin, mining, weight
        self.memory = OnlineSet(memory, valid_steps, storage, place) if memory else None
        self._warned = False

    def prepare(self, training: Training) -> None:
        """Allocate the memory, if the term has one."""
        if self.memory is not None:
            self.memory.prepare(training.classes, training.embedding_size)

    def forward(self, step: Step) -> PairOutput:
        """Compute the loss; 0 for a batch without triplets, which is reported once."""
        batch, stored = step.batch, None
        if self.memory is not None:
            stored = self.memory.stored(
                step.number
            )  # earlier steps only: the batch itself takes part with its gradient
        mined = triplets(batch.units, batch.labels, stored, self.margin, self.mining)
        if self.memory is not None:
            self.memory.insert(batch.units, batch.labels, step.number)
        if not mined.count and not self._warned:
            log.warning(
                "step %d: a batch of %d images has no triplet, which needs two images of one person and one of "
                "another; images_per_identity sets how many images of each person a batch contains",
                step.number + 1,
                len(batch.labels),
            )
            self._warned = True
        figures = {
            "triplet_loss": float(mined.value),
            "triplet_active": mined.active / max(mined.count, 1),
            "triplet_anchors": float(mined.anchors),
        }
        return PairOutput(batch.loss(self.weight * mined.value, self.weight * mined.gradient), figures=figures)
