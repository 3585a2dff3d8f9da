"""Identification that ranks the images of a gallery, not its people: rank-k rates, and mean average precision."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from verisphere.base.vocabulary import Embeddings, Precision, Progress, quietly
from verisphere.base.words import RANKS
from verisphere.decide.bounds import binomial_bounds
from verisphere.decide.identification import RankRate
from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.reaching import Reaching

ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class ByImage:
    """The ranks of the images of the mated probes' people among all images."""

    mean_average_precision: float
    mated_total: int
    ranks: tuple[RankRate, ...]


def ranked_by_image(
    probes: Embeddings,
    gallery: Embeddings,
    ranks: Sequence[int] = RANKS,
    precision: Precision = "float32",
    progress: Progress = quietly,
) -> ByImage:
    """Exact rank-k rates and mean average precision of the mated probes; the images of the gallery are ranked by score.

    Of the M images of a probe's person, the j-th by descending score is found after j images of the person and all
    images of other people that score as high or higher (ties lose), o(j). The average precision is the mean over j of
    j / (j + o(j)); the rank is 1 + o(1).
    """
    people, person = np.unique(gallery.identities.astype(str), return_inverse=True)
    order = np.argsort(person, kind="stable")
    shown = probes.identities.astype(str)
    own = np.searchsorted(people, shown).clip(max=len(people) - 1)
    mated = people[own] == shown
    if not mated.any():
        raise ValueError(f"none of {len(probes)} probes is mated, so no rank can be stated")
    own = own[mated]
    images = np.bincount(person)
    begin = (images.cumsum() - images)[own]  # in `order`, where the images of a person lie together
    first = np.append(0, images[own].cumsum())
    probe = np.repeat(np.arange(len(own)), images[own])
    row = order[np.repeat(begin, images[own]) + np.arange(len(probe)) - first[probe]]
    units, rows = unit_rows(probes.embeddings[mated]), unit_rows(gallery.embeddings)
    score = pair_scores(units, torch.from_numpy(probe), torch.from_numpy(row), rows).numpy() + 0.0  # -0.0 is 0.0
    score = score[np.lexsort((score, probe))]
    reaching = Reaching(units, score, first, precision=precision)
    for portion in progress(rows.split(ROWS_AT_ONCE), "ranking images", -(-len(rows) // ROWS_AT_ONCE)):
        reaching.take(portion)
    # Of M ascending scores, equal ones stand together; as many of the person's own reach a score as from the first on.
    new = np.ones(len(score), bool)
    new[1:] = (score[1:] != score[:-1]) | (probe[1:] != probe[:-1])
    own_reaching = first[1:][probe] - np.flatnonzero(new)[new.cumsum() - 1]
    others = reaching.counts() - own_reaching
    turn = first[1:][probe] - np.arange(len(score))  # j, by descending score
    precisions = np.bincount(probe, turn / (turn + others)) / images[own]
    rank = 1 + others[turn == 1]
    found = {k: int((rank <= k).sum()) for k in ranks}
    return ByImage(
        float(precisions.mean()),
        len(rank),
        tuple(
            RankRate(k, count / len(rank), count, len(rank), *binomial_bounds(count, len(rank)))
            for k, count in found.items()
        ),
    )
