"""What may be enrolled in a gallery: a gate fitted on other people, and the alarm on a photograph of a wrong person."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import unknown_name
from verisphere.decide import Far, exact_rate
from verisphere.decide.gallery import one_probe_each
from verisphere.files.gate import MEASURES, Gate, Limit, Measured, Side
from verisphere.score import pair_scores, top_k, unit_rows

#: What is asked for where it was measured and nothing else is named; docs/enrolment.md says why.
ASKED = ("detail", "size")
_OF_LIMITS = 0.25  # part of the good photographs refused by limits; the alarm, which needs more, has the rest


@dataclass(frozen=True)
class Alarm:
    """The other person, by whose photograph (a row) a new one is stopped; scores with it and with its own person."""

    person: int
    row: int
    score: float
    own: float | None

    def reason(self, name: str) -> str:
        """Why it is stopped, in words, with the name of the other person."""
        if self.own is None:
            return f"a first photograph, and it passes the gallery's threshold for {name} ({self.score:.4f})"
        return f"nearer to {name} ({self.score:.4f}) than to the photographs of its own person ({self.own:.4f})"


def alarm(
    gallery: Float32[Tensor, "rows dim"] | Float32[np.ndarray, "rows dim"],
    persons: Int64[np.ndarray, " rows"],
    row: Float32[Tensor, " dim"],
    person: int | None,
    threshold: float,
    margin: float = 0.0,
) -> Alarm | None:
    """Whether a new photograph is to be stopped; None if it is not.

    If its person has others, it is stopped where it is nearer to another person by more than the margin. A first
    photograph is stopped if it passes the gallery's threshold for somebody.

    >>> alarm(torch.eye(3), np.array([7, 8, 9]), torch.eye(3)[1], person=7, threshold=0.5).reason("Ben")
    'nearer to Ben (1.0000) than to the photographs of its own person (0.0000)'

    Args:
        gallery: a row of length 1 for each enrolled photograph.
        persons: number of the person of each row.
        row: the embedding of the new photograph, at length 1.
        person: number of its person, who may have no row yet, or None.
        threshold: threshold of the gallery.
        margin: see `Gate`.
    """
    mine = np.zeros(len(persons), bool) if person is None else persons == person
    if mine.all():
        return None
    exclude = (torch.tensor([person]), torch.from_numpy(persons)) if mine.any() else None
    (score,), (nearest,) = (found[0].tolist() for found in top_k(row[None], gallery, 1, "float32", exclude))
    own = float(top_k(row[None], gallery[np.flatnonzero(mine)], 1, "float32")[0]) if mine.any() else None
    stopped = score > (threshold if own is None else own + margin)
    return Alarm(int(persons[nearest]), nearest, score, own) if stopped else None


def fit_gate(
    measured: Measured,
    embeddings: Embeddings,
    *,
    good: Far = "2e-2",
    measures: Sequence[str] = (),
    images: str = "",
) -> Gate:
    """The gate that refuses at most a share of the good photographs of other people than those to be enrolled.

    A quarter of the share is for the limits, equally for each, and the rest for the alarm on a second photograph.

    Args:
        measured: measures of the images, all of which are taken as good.
        embeddings: the embeddings of the images.
        good: most good photographs that are refused, as a share.
        measures: what is asked for; by default `ASKED`, where it was measured.
        images: name of the set.
    """
    share, person = float(exact_rate(good)), np.unique(embeddings.identities, return_inverse=True)[1]
    asked: list[Any] = [name for name in measures or ASKED if measures or name in measured]
    if unknown := [name for name in asked if name not in measured]:
        raise ValueError(unknown_name("measure", unknown[0], list(measured)))
    ends = [(name, side) for name in asked for side in MEASURES[name][1]]
    of_each = share * _OF_LIMITS / len(ends)
    limits = tuple(Limit(name, side, _limit(measured[name], side, of_each)) for name, side in ends)
    enrolled = one_probe_each(person, seed=0)
    rest = np.delete(np.arange(len(person)), enrolled)
    if not len(rest):
        raise ValueError(f"nobody of {images or 'the set'} has two photographs, which the alarm is fitted on")
    new, units = rest[one_probe_each(person[rest], seed=0)], unit_rows(embeddings.embeddings)
    at, ours, number = map(torch.from_numpy, (new, enrolled[person[new]], person))
    others = top_k(units[at], units[enrolled], 1, "float32", (number[at], number[enrolled]))[0][:, 0]
    nearer = (others - pair_scores(units, at, ours)).numpy()
    margin = max(_limit(nearer, "most", share * (1 - _OF_LIMITS)), 0.0)
    return Gate(images, int(person.max()) + 1, len(person), embeddings.origin, limits, margin)


def lengths_of(embeddings: Float32[np.ndarray, "images dim"]) -> Float64[np.ndarray, " images"]:
    """The measure `length`: of the embeddings as the model gives them."""
    return np.linalg.norm(embeddings.astype(np.float64), axis=1)


def _limit(numbers: np.ndarray, side: Side, share: float) -> float:
    """The number that at most this share of the images are beyond."""
    order = np.sort(numbers[~np.isnan(numbers)])
    if not len(order):
        raise ValueError("no image was measured; do the landmarks name these images?")
    beyond = int(share * len(order))
    return float(order[beyond] if side == "least" else order[-1 - beyond])
