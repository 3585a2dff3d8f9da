"""The class centers of teachers: those that they were trained with, or the means of their embeddings of each person."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from verisphere.base.distributed import world
from verisphere.files.json_values import shown
from verisphere.models.run_head import RunHead, open_head
from verisphere.score.cosine import unit
from verisphere.train.distill.settings import Centers

log = logging.getLogger(__name__)


def own_centers(paths: Sequence[Path], people: Sequence[str], asked: Centers) -> Float[Tensor, "classes dim"] | None:
    """The centers that the teachers were trained with, matched by the names of the people; the mean over the teachers.

    Centers have length 1. None says that the means of embeddings are to be taken.
    """
    if asked == "means":
        return None
    total: Tensor | None = None
    for path in paths:
        try:
            of_teacher = _matched(path, people)
        except (ValueError, FileNotFoundError) as error:
            if asked == "own":
                raise ValueError(f"distill.centers is own, but {error}") from None
            if world().first:
                log.info("distill: the teacher's centers are the means of its embeddings, since %s", error)
            return None
        total = of_teacher if total is None else total + of_teacher
    if total is not None and asked == "auto" and world().first:
        log.info("distill: the teacher's centers are those that it was trained with")
    return None if total is None else unit(total)


def _matched(path: Path, people: Sequence[str]) -> Float[Tensor, "classes dim"]:
    """One center for each person, from the run of a teacher."""
    head: RunHead = open_head(path)
    if head.centers.shape[1] > 1:
        raise ValueError(f"{path}: it has {head.centers.shape[1]} centers for each class")
    place = {name: row for row, name in enumerate(head.people)}
    missing = [name for name in people if name not in place]
    if missing:
        raise ValueError(
            f"{path}: it has no class for {len(missing):,} of the {len(people):,} people, the first is "
            f"{shown(missing[0], 200)}"
        )
    return head.centers[[place[name] for name in people], 0]


def mean_centers(
    rows: Float32[np.ndarray, "images dim"], labels: Int64[np.ndarray, " images"], people: Sequence[str]
) -> Float[Tensor, "classes dim"]:
    """The direction of the mean unit embedding of each person's images; images of label -1 belong to nobody.

    >>> rows = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]], np.float32)
    >>> mean_centers(rows, np.array([0, 0, 1]), ["Ann", "Bob"])
    tensor([[0.7071, 0.7071],
            [0.0000, 1.0000]])
    """
    total = torch.zeros(len(people), rows.shape[1], dtype=torch.float64)
    for start in range(0, len(rows), 2**16):  # rows may lie in a file larger than the memory
        known = np.flatnonzero(labels[start : start + 2**16] >= 0) + start
        total.index_add_(0, torch.from_numpy(labels[known]), unit(torch.from_numpy(rows[known]).double()))
    centers = unit(total).float()
    without = (~((centers * centers).sum(1) > 0.5)).nonzero()[:, 0]
    if len(without):
        raise ValueError(
            f"distill: the teacher's embeddings of {shown(people[int(without[0])], 200)} have no mean direction"
        )
    return centers
