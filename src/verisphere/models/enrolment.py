"""What may be enrolled in a gallery: a gate fitted on other people."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64

from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import unknown_name
from verisphere.decide import Far, exact_rate
from verisphere.decide.gallery import one_probe_each
from verisphere.files.gate import MEASURES, Gate, Limit, Measured, Side
from verisphere.score import pair_scores, top_k, unit_rows

#: What is asked for where it was measured and nothing else is named; docs/enrolment.md says why.
ASKED = ("detail", "size")
_OF_LIMITS = 0.25  # part of the good photographs refused by limits; the alarm, which needs more, has the rest


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
