"""1:N: probes in galleries of people, exactly and in bounded memory; the probe x gallery matrix is never held.

A person's score is the best of that person's images in the gallery. `top_k` finds each probe's best score with another
person. Only mated probes that another person outranks are scored again: products screen the people who score as high as
the mate or higher, pairs that rounding leaves open are scored exactly, and each person counts once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.device import full_float32
from verisphere.base.mapped import rows_at
from verisphere.base.seeds import numpy_generator
from verisphere.base.vocabulary import Embeddings, Precision, Progress, Rule, quietly
from verisphere.base.words import FPIRS, RANKS, check_at_least
from verisphere.base.work import Arrays, divided, ranges, results
from verisphere.decide.identification import (
    Cmc,
    IdentificationPoint,
    MeanPoint,
    MeanRank,
    ProbeScores,
    RankRate,
    cmc,
    identification_point,
    mean_point,
    mean_rank,
    rank_rate,
)
from verisphere.decide.point import Far
from verisphere.measure.protocols.all_pairs import refuse_nobody
from verisphere.score.exact.scan import runs
from verisphere.score.exact.screen import Screen, as_product, products, rounded, true_places
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.top_k import top_k

BLOCK_ROWS = 2048  # gallery rows at a time
TILE_PRODUCTS = 1 << 21  # products at a time
PAIRS_AT_ONCE = 1 << 20  # mated pairs at a time


@dataclass(frozen=True)
class GalleryResult:
    """The figures of one gallery.

    Points are open set, none if only ranks were requested; ranks are closed set, over the mated probes.
    """

    people: int
    images: int
    mated_probes: int
    nonmated_probes: int
    operating_points: tuple[IdentificationPoint, ...]
    ranks: tuple[RankRate, ...]
    cmc: Cmc


@dataclass(frozen=True)
class IdentificationResult:
    """The figures of each gallery, and the mean over galleries if there are several."""

    galleries: dict[str, GalleryResult]
    mean_points: tuple[MeanPoint, ...] | None
    mean_ranks: tuple[MeanRank, ...] | None


def identification(
    scores: Mapping[str, tuple[ProbeScores, int]],
    fpirs: Sequence[Far] = FPIRS,
    ranks: Sequence[int] = RANKS,
    rule: Rule = "at_most",
    open_rank: int = 1,
) -> IdentificationResult:
    """Open-set points and closed-set ranks of each gallery, then averaged."""
    galleries = {}
    for name, (probe_scores, images) in scores.items():
        galleries[name] = GalleryResult(
            people=probe_scores.people,
            images=images,
            mated_probes=len(probe_scores.mate),
            nonmated_probes=len(probe_scores.stranger),
            ranks=tuple(rank_rate(probe_scores, rank) for rank in ranks),
            operating_points=tuple(identification_point(probe_scores, fpir, open_rank, rule) for fpir in fpirs),
            cmc=cmc(probe_scores),
        )
    if len(galleries) < 2:
        return IdentificationResult(galleries, None, None)
    results = galleries.values()
    return IdentificationResult(
        galleries,
        tuple(mean_point(points) for points in zip(*(result.operating_points for result in results), strict=True)),
        tuple(mean_rank(rates) for rates in zip(*(result.ranks for result in results), strict=True)),
    )


def score_probes(
    probes: Embeddings,
    gallery: Embeddings,
    precision: Precision = "float32",
    block: int = BLOCK_ROWS,
    progress: Progress = quietly,
) -> ProbeScores:
    """Score every probe in a gallery; identities determine which probes are mated.

    bfloat16 screens fastest if most mates score far above all other people; otherwise float32 leaves fewer pairs open.
    Neither the precision nor `block`, gallery rows at a time, changes the answer.
    """
    for side in (probes, gallery):
        refuse_nobody(side)
    if not len(probes):
        raise ValueError("there are no probes to search")
    sizes = probes.embeddings.shape[1], gallery.embeddings.shape[1]
    if sizes[0] != sizes[1]:
        raise ValueError(f"probes have {sizes[0]} numbers a row but the gallery has {sizes[1]}")
    names, person = np.unique(gallery.identities.astype(str), return_inverse=True)
    order = np.argsort(person, kind="stable")  # the images of a person lie together
    enrolled = torch.from_numpy(person[order].astype(np.int64))
    rows = unit_rows(rows_at(gallery.embeddings, order))
    shown = probes.identities.astype(str)
    place = np.searchsorted(names, shown).clip(max=len(names) - 1)
    person_on = torch.from_numpy(np.where(names[place] == shown, place, -1).astype(np.int64))
    units = unit_rows(probes.embeddings)
    best = top_k(units, rows, 1, precision, (person_on, enrolled), block, progress)[0][:, 0]
    mated = true_places(person_on >= 0)
    mate = _mate_scores(units[mated], person_on[mated], rows, enrolled)
    rank = torch.ones(len(mated), dtype=torch.int64)
    outranked = true_places(best[mated] >= mate)
    behind = mated[outranked]
    rank[outranked] += people_reaching(
        units[behind], person_on[behind], mate[outranked], rows, enrolled, precision, block, progress
    )
    return ProbeScores(
        mate=mate.numpy(),
        rival=best[mated].numpy(),
        rank=rank.numpy(),
        stranger=best[person_on < 0].numpy(),
        people=len(names),
    )


def people_reaching(
    probes: Float32[Tensor, "probes dim"],
    own: Int64[Tensor, " probes"],
    level: Float64[Tensor, " probes"],
    gallery: Float32[Tensor, "gallery dim"],
    people: Int64[Tensor, " gallery"],
    precision: Precision = "float32",
    block: int = BLOCK_ROWS,
    progress: Progress = quietly,
) -> Int64[Tensor, " probes"]:
    """The number of people of the gallery, other than the probe's own, who score at least as high as the probe's level.

    Rows have length 1. Those of the gallery ascend by `people`, and blocks never divide the rows of a person.
    """
    counts = torch.zeros(len(probes), dtype=torch.int64)
    if not len(probes):
        return counts
    left = rounded(probes, precision)
    parts = list(_whole_people(people, block))
    pieces = runs(len(parts), len(probes) * len(gallery)) if divided() else ranges(len(parts), 1)

    def of_parts(piece: range) -> Arrays:
        return {"counts": torch.stack([*map(of_part, parts[piece.start : piece.stop])]).sum(0).numpy()}

    def of_part(part: slice) -> Int64[Tensor, " probes"]:
        counts = torch.zeros(len(probes), dtype=torch.int64)
        with full_float32():
            right = rounded(gallery[part], precision, part.start)
            error = Screen(left, right).error
            height = max(TILE_PRODUCTS // len(right.rows), 1)
            for start in range(0, len(probes), height):
                tile = slice(start, start + height)
                product = products(left.rows[tile], right.rows)
                # Below `low` a score is under its level, above `high` it is not.
                unit, dtype = left.unit * right.unit, product.dtype
                low = as_product(level[tile] - error, unit, dtype, -1)
                high = as_product(level[tile] + error, unit, dtype, 1)
                place = true_places(product >= low[:, None])
                probe = torch.div(place, product.shape[1], rounding_mode="floor")
                row = place - probe * product.shape[1] + part.start
                reached = people[row] != own[tile][probe]
                doubtful = true_places(reached & (product.view(-1)[place] <= high[probe]))
                close = start + probe[doubtful]
                reached[doubtful] = pair_scores(probes, close, row[doubtful], gallery) >= level[close]
                probe, person = probe[reached], people[row[reached]]
                # The rows of a person are consecutive, so each person counts at its first appearance.
                first = torch.ones(len(probe), dtype=torch.bool)
                first[1:] = (probe.diff() != 0) | (person.diff() != 0)
                counts[tile] += torch.bincount(probe[first], minlength=len(product))
        return counts

    def about() -> list[object]:
        return [probes, own, level, gallery, people, block]

    title, compute = "counting who outranks a mate", partial(map, of_parts)
    for piece in results("outranking", about, pieces, compute, progress, title):
        counts += torch.from_numpy(piece["counts"])
    return counts


def split_gallery(
    embeddings: Embeddings, enrol: int = 1, strangers: float = 0.5, seed: int = 0
) -> tuple[Embeddings, Embeddings]:
    """Probes and a gallery from one set, by a seeded draw.

    A share of the people is held out: all their images are non-mated probes. Of every other person `enrol` random
    images go into the gallery, and the rest are mated probes; a person without further images has no probe. `strangers`
    is that share, rounded to whole people. The rows of both are in the order of the set.
    """
    refuse_nobody(embeddings)
    check_at_least("enrol", enrol)
    if not 0 <= strangers < 1:
        raise ValueError(f"strangers must be a share of the people, at least 0 and below 1, got {strangers}")
    random = numpy_generator(seed)
    names, person = np.unique(embeddings.identities, return_inverse=True)
    held_out = round(strangers * len(names))
    if held_out == len(names):
        raise ValueError(f"a share of {strangers} strangers leaves none of {len(names)} people to enrol")
    known = np.ones(len(names), dtype=bool)
    known[random.permutation(len(names))[:held_out]] = False
    order = random.permutation(len(person))
    order = order[np.argsort(person[order], kind="stable")]  # by person, images in random order
    first = np.searchsorted(person[order], person[order])
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - first
    enrolled = known[person] & (turn < enrol)
    return embeddings.take(~enrolled), embeddings.take(enrolled)


def _mate_scores(
    probes: Float32[Tensor, "probes dim"],
    own: Int64[Tensor, " probes"],
    gallery: Float32[Tensor, "gallery dim"],
    people: Int64[Tensor, " gallery"],
) -> Float64[Tensor, " probes"]:
    """The best score of each probe with its own person's rows, of which there is at least one."""
    first, last = torch.searchsorted(people, own), torch.searchsorted(people, own, right=True)
    best = torch.empty(len(probes), dtype=torch.float64)
    reach = (last - first).cumsum(0)
    start = 0
    while start < len(probes):
        before = int(reach[start - 1]) if start else 0
        stop = max(int(torch.searchsorted(reach, before + PAIRS_AT_ONCE, right=True)), start + 1)
        images = (last - first)[start:stop]
        offset = images.cumsum(0) - images
        left = torch.arange(start, stop).repeat_interleave(images)
        right = torch.arange(len(left)) + (first[start:stop] - offset).repeat_interleave(images)
        scores = pair_scores(probes, left, right, gallery).numpy()
        best[start:stop] = torch.from_numpy(np.maximum.reduceat(scores, offset.numpy()))
        start = stop
    return best


def _whole_people(people: Int64[Tensor, " gallery"], block: int) -> Iterator[slice]:
    """Runs of about `block` rows that end where a person ends."""
    ends = torch.cat([true_places(people.diff() != 0) + 1, torch.tensor([len(people)])])
    start = 0
    while start < len(people):
        fits = int(torch.searchsorted(ends, start + block, right=True)) - 1
        stop = int(ends[fits]) if fits >= 0 and ends[fits] > start else int(ends[torch.searchsorted(ends, start + 1)])
        yield slice(start, stop)
        start = stop
