"""Triplets of a batch: which there are, by how much they miss the margin, and the gradient of that.

Candidates for positives and negatives are the rows of the batch and stored features, which are constants. Of several
processes each looks after its share of them; pairs of an anchor and a positive are few, and everyone has all of them.
Angles are made in runs of candidates, so nothing of the size of all triplets exists, nor an angle for each stored
feature.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from verisphere.collectives import counts, gathered, highest, total
from verisphere.distributed import world
from verisphere.score.cosine import angle
from verisphere.score.exact.screen import full_float32
from verisphere.score.stored import EMPTY, Stored, same_label

Mining = Literal["all", "hard", "semihard"]

SAME = 1e-6  # radians: angles so near each other may be one, summed in another order
CELLS = 1 << 20  # angles, and hinges, that live at once: 4 MB each


@dataclass(frozen=True, eq=False)
class Triplets:
    """What triplets say; alike on every process.

    Attributes:
        value: the mean hinge, radians; 0 without triplets.
        gradient: of it, in the rows of the batch.
        count: triplets.
        active: those that fall short of the margin.
        anchors: rows that are the anchor of one.
    """

    value: Float[Tensor, ""]
    gradient: Float[Tensor, "batch dim"]
    count: int
    active: int
    anchors: int


def hinge(
    positive: Float[Tensor, "*#shape"], negative: Float[Tensor, "*#shape"], margin: float
) -> Float[Tensor, "*shape"]:
    """By how much arccos<x_pos, x> + m <= arccos<x_neg, x> is missed; radians.

    Args:
        positive: angle of the anchor to the positive.
        negative: angle of the anchor to the negative.
        margin: m.
    """
    return (positive + margin - negative).clamp(min=0)


def triplets(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    stored: Stored | None,
    margin: float,
    mining: Mining,
    cells: int = CELLS,
) -> Triplets:
    """The mean hinge over the triplets of a batch, and its gradient.

    Args:
        units: rows of length 1 of all processes, alike on each.
        labels: whose they are, or `NO_CLASS`.
        stored: further candidates, of several processes each its part.
        margin: m, radians.
        mining: which triplets, see `AngularTriplet`.
        cells: how many angles may live at once.
    """
    with full_float32(), torch.enable_grad():
        units = units.detach().requires_grad_()
        candidates = _Candidates.of(units, labels, stored)
        pairs = _Pairs.of(units, labels, candidates)
        if not len(pairs.anchor):
            return Triplets(units.new_zeros(()), torch.zeros_like(units), 0, 0, 0)
        if mining == "hard":
            pairs = pairs.farthest(len(labels))
        if mining == "all":
            found = _over_all(units, labels, candidates, pairs, margin, cells)
        else:
            found = _over_nearest(units, labels, candidates, pairs, margin, cells, mining == "semihard")
        positives = (units[pairs.anchor[pairs.mine]] * candidates.rows(units, pairs.own)).sum(1)
        by_units = found.by_units + torch.autograd.grad(angle(positives), units, found.by_positive[pairs.mine])[0]
    each = max(found.count, 1)
    return Triplets(found.summed / each, total(by_units) / each, found.count, found.active, found.anchors)


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Positives and negatives that this process looks after: its share of the batch, and its stored features.

    Attributes:
        share: rows of the batch; candidates are numbered from these on.
        stored: further ones.
        places: of those of them that are not empty.
        labels: of all.
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
        kept = Stored(units.new_empty(0, units.shape[1], dtype=torch.float32), labels[:0]) if stored is None else stored
        places = (kept.labels != EMPTY).nonzero()[:, 0]
        every = torch.cat([labels[share.start : share.stop], kept.labels[places].to(labels.device)])
        return cls(share, kept.rows, places, every)

    def rows(self, units: Float[Tensor, "batch dim"], numbers: Int64[Tensor, " some"]) -> Float[Tensor, "some dim"]:
        """Rows of these candidates, those of the batch with gradient."""
        own = len(self.share)
        inside = numbers < own
        if inside.all():
            return units[numbers + self.share.start]
        places = self.places[(numbers - own).clamp(min=0).to(self.places.device)].to(self.stored.device)
        rows = self.stored.index_select(0, places).to(units)
        if not inside.any():
            return rows
        return torch.where(inside[:, None], units[numbers.clamp(max=own - 1) + self.share.start], rows)

    def runs(self, size: int) -> Iterator[Int64[Tensor, " some"]]:
        """All of them, so many at a time; rows of the batch and stored ones apart."""
        for part in (range(len(self.share)), range(len(self.share), len(self.labels))):
            for start in range(part.start, part.stop, size):
                yield torch.arange(start, min(start + size, part.stop), device=self.labels.device)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs of an anchor and a positive, of all processes; alike on each.

    Attributes:
        anchor: row of the batch.
        angle: between the two, radians.
        mine: those whose positive is a candidate of this process.
        own: number of that candidate.
    """

    anchor: Int64[Tensor, " pairs"]
    angle: Float[Tensor, " pairs"]
    mine: slice
    own: Int64[Tensor, " mine"]

    @classmethod
    def of(
        cls, units: Float[Tensor, "batch dim"], labels: Int64[Tensor, " batch"], candidates: _Candidates
    ) -> "_Pairs":
        anchor, number = same_label(labels, candidates.labels)
        apart = number + candidates.share.start != anchor  # a row with itself; stored ones have higher numbers
        apart |= number >= len(candidates.share)
        anchor, number = anchor[apart], number[apart]
        with torch.no_grad():
            angles = angle((units[anchor] * candidates.rows(units, number)).sum(1))
        sizes = counts(len(anchor))
        first = sum(sizes[: world().rank])
        mine = slice(first, first + len(anchor))
        return cls(gathered(anchor, sizes), gathered(angles, sizes), mine, number)

    def farthest(self, batch: int) -> "_Pairs":
        """Of each anchor the pair with the largest angle, the first of equal ones."""
        most = self.angle.new_full((batch,), -inf).scatter_reduce(0, self.anchor, self.angle, "amax")
        place = torch.arange(len(self.anchor), device=self.anchor.device)
        best = self.angle == most[self.anchor]
        first = torch.full((batch,), len(place), device=place.device)
        first.scatter_reduce_(0, self.anchor[best], place[best], "amin")
        keep = first[self.anchor] == place
        here = keep[self.mine]
        start = int(keep[: self.mine.start].sum())
        mine = slice(start, start + int(here.sum()))
        return _Pairs(self.anchor[keep], self.angle[keep], mine, self.own[here])


@dataclass(frozen=True, eq=False)
class _Walked:
    """What a walk over the negatives finds; alike on every process, but for one gradient.

    Attributes:
        summed: hinges together.
        by_positive: gradient of that in the angle of each pair.
        by_units: in the rows of the batch, as far as this process's negatives give it.
        count: triplets.
        active: those with a hinge above 0.
        anchors: rows with a triplet.
    """

    summed: Float[Tensor, ""]
    by_positive: Float[Tensor, " pairs"]
    by_units: Float[Tensor, "batch dim"]
    count: int
    active: int
    anchors: int


def _over_all(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    candidates: _Candidates,
    pairs: _Pairs,
    margin: float,
    cells: int,
) -> _Walked:
    """Every pair with every negative."""
    summed, by_units = pairs.angle.new_zeros(()), torch.zeros_like(units)
    negatives, active = (torch.zeros_like(pairs.anchor) for _ in range(2))  # of each pair
    for numbers in candidates.runs(max(cells // max(len(units), 1), 1)):
        angles = angle(units @ candidates.rows(units, numbers).T)  # (batch, some)
        constant, by_angle = angles.detach(), torch.zeros_like(angles)
        for some in _runs(len(pairs.anchor), max(cells // len(numbers), 1)):
            anchor = pairs.anchor[some]
            apart = labels[anchor][:, None] != candidates.labels[numbers]
            missed = hinge(pairs.angle[some][:, None], constant[anchor], margin) * apart
            acts = missed > 0
            summed += missed.sum()
            negatives[some] += apart.sum(1)
            active[some] += acts.sum(1)
            by_angle.index_add_(0, anchor, -acts.to(by_angle))  # a hinge falls as fast as its negative goes away
        by_units += torch.autograd.grad(angles, units, by_angle)[0]
    negatives, active = total(torch.stack([negatives, active]))
    anchors = len(pairs.anchor[negatives > 0].unique())
    return _Walked(total(summed), active.to(units), by_units, int(negatives.sum()), int(active.sum()), anchors)


def _over_nearest(
    units: Float[Tensor, "batch dim"],
    labels: Int64[Tensor, " batch"],
    candidates: _Candidates,
    pairs: _Pairs,
    margin: float,
    cells: int,
    farther: bool,
) -> _Walked:
    """Every pair with its nearest negative; of those that are farther than the positive, if so asked."""
    nearest, number = torch.full_like(pairs.angle, inf), torch.zeros_like(pairs.anchor)
    for numbers in candidates.runs(max(cells // max(len(units), 1), 1)):
        with torch.no_grad():
            angles = angle(units @ candidates.rows(units, numbers).T)  # (batch, some)
        for some in _runs(len(pairs.anchor), max(cells // len(numbers), 1)):
            anchor = pairs.anchor[some]
            there, allowed = angles[anchor], labels[anchor][:, None] != candidates.labels[numbers]
            if farther:
                allowed &= there > pairs.angle[some][:, None] + SAME
            least, where = there.masked_fill(~allowed, inf).min(1)
            better = least < nearest[some]
            nearest[some] = torch.where(better, least, nearest[some])
            number[some] = torch.where(better, numbers[where], number[some])
    least = -highest(-nearest)
    mine = _of_the_first((nearest == least) & least.isfinite())
    missed = hinge(pairs.angle, least, margin).where(least.isfinite(), 0.0)
    active = missed > 0
    rows = candidates.rows(units, number[mine])
    angles = angle((units[pairs.anchor[mine]] * rows).sum(1))
    by_units = torch.autograd.grad(angles, units, -active[mine].to(units))[0]
    anchors = len(pairs.anchor[least.isfinite()].unique())
    count = int(least.isfinite().sum())
    return _Walked(missed.sum(), active.to(units), by_units, count, int(active.sum()), anchors)


def _of_the_first(found: Bool[Tensor, " pairs"]) -> Bool[Tensor, " pairs"]:
    """Where this process is the first of those that have found the same."""
    rank = world().rank
    first = -highest(torch.where(found, -rank, -world().size))
    return found & (first == rank)


def _runs(count: int, size: int) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
