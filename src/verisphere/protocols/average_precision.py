"""Mean average precision of identification: how early all of a person's images in the gallery are found."""

from dataclasses import dataclass

import numpy as np
import torch

from verisphere.score.pairs import pair_scores, unit_rows
from verisphere.score.reaching import Reaching
from verisphere.vocabulary import Embeddings, Precision, Progress, quietly


@dataclass(frozen=True)
class MeanAveragePrecision:
    """The mean over mated probes of the average precision.

    Attributes:
        value: the mean, at most 1.
        mated_total: number of mated probes.
    """

    value: float
    mated_total: int

    def __post_init__(self) -> None:
        if not (0 < self.value <= 1 and self.mated_total >= 1):
            raise ValueError(f"a mean average precision of {self.value} over {self.mated_total} probes cannot be")


def mean_average_precision(
    probes: Embeddings, gallery: Embeddings, precision: Precision = "float32", progress: Progress = quietly
) -> MeanAveragePrecision:
    """The exact mean average precision of the mated probes; the images of the gallery are ranked by score.

    Of the M images of a probe's person, the j-th by descending score is found after j images of the person and all
    images of other people that score as high or higher (ties lose), o(j). The average precision is the mean over j of
    j / (j + o(j)).

    Args:
        probes: the images to identify.
        gallery: images of the enrolled people.
        precision: type of the screening products; changes speed, never the answer.
        progress: reports the progress over the gallery.

    Raises:
        ValueError: no probe is mated.
    """
    people, person = np.unique(gallery.identities.astype(str), return_inverse=True)
    order = np.argsort(person, kind="stable")
    shown = probes.identities.astype(str)
    own = np.searchsorted(people, shown).clip(max=len(people) - 1)
    mated = people[own] == shown
    if not mated.any():
        raise ValueError(f"none of {len(probes)} probes is mated, so there is no average precision")
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
    for portion in progress(rows.split(1 << 13), "ranking the images of each person", -(-len(rows) // (1 << 13))):
        reaching.take(portion)
    # Of M ascending scores, equal ones stand together; as many of the person's own reach a score as from the first on.
    new = np.ones(len(score), bool)
    new[1:] = (score[1:] != score[:-1]) | (probe[1:] != probe[:-1])
    own_reaching = first[1:][probe] - np.flatnonzero(new)[new.cumsum() - 1]
    others = reaching.counts() - own_reaching
    turn = first[1:][probe] - np.arange(len(score))  # j, by descending score
    each = np.bincount(probe, turn / (turn + others)) / images[own]
    return MeanAveragePrecision(float(each.mean()), len(each))
