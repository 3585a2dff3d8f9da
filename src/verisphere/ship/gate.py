"""The gate of a gallery, from measures of other people's faces, and its verdicts on faces."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64

from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Embeddings
from verisphere.base.words import unknown_name
from verisphere.decide import Far, exact_rate, one_probe_each
from verisphere.files.embeddings import known_people
from verisphere.files.gate import MEASURES, Gate, Limit, Measured, Side, read_gate
from verisphere.images.detect.pose import place_of
from verisphere.images.quality import detail_of, light_of
from verisphere.models.folder import Model
from verisphere.score import pair_scores, top_k, unit_rows
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces
from verisphere.ship.notes import origins_of

log = logging.getLogger(__name__)

#: What is asked for where it was measured and nothing else is named; docs/enrolment.md says why.
ASKED = ("detail", "size")
#: The share of good photographs that is refused at most where it is neither named nor chosen.
GOOD = "2e-2"
_OF_LIMITS = 0.25  # part of the good photographs refused by limits; the alarm, which needs more, has the rest
_NO_POINTS = np.full((5, 2), np.nan, np.float32)


def fit_gate(
    measured: Measured, embeddings: Embeddings, *, good: Far = GOOD, measures: Sequence[str] = (), images: str = ""
) -> Gate:
    """The gate that refuses at most a share of the good photographs of other people than those to be enrolled.

    All images are taken as good. A quarter of the share `good` is for the limits, equally for each measure (`ASKED`,
    unless others are named), and the rest for the alarm on a second photograph, without images of nobody who is known.
    """
    share = float(exact_rate(good))
    asked: list[Any] = [name for name in measures or ASKED if measures or name in measured]
    if unknown := [name for name in asked if name not in measured]:
        raise ValueError(unknown_name("measure", unknown[0], list(measured)))
    ends = [(name, side) for name in asked for side in MEASURES[name][1]]
    of_each = share * _OF_LIMITS / len(ends)
    limits = tuple(Limit(name, side, _limit(measured[name], side, of_each)) for name, side in ends)
    known = known_people(embeddings, images or "the set")
    person = np.unique(known.identities, return_inverse=True)[1]
    enrolled = one_probe_each(person, seed=0)
    rest = np.delete(np.arange(len(person)), enrolled)
    if not len(rest):
        raise ValueError(f"nobody of {images or 'the set'} has two photographs, which the alarm is fitted on")
    new, units = rest[one_probe_each(person[rest], seed=0)], unit_rows(known.embeddings)
    at, ours, number = map(torch.from_numpy, (new, enrolled[person[new]], person))
    others = top_k(units[at], units[enrolled], 1, "float32", (number[at], number[enrolled]))[0][:, 0]
    nearer = (others - pair_scores(units, at, ours)).numpy()
    margin = max(_limit(nearer, "most", share * (1 - _OF_LIMITS)), 0.0)
    about = images, int(person.max()) + 1, len(embeddings), embeddings.origin, limits, margin
    return Gate(*about, in_training=embeddings.shared_with_training, names_rule=embeddings.names_rule)


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


def gate_of(
    path: Path, model: Model, find: FindFaces
) -> Callable[[Sequence[FaceOfPhotograph], np.ndarray], list[tuple[str, ...]]]:
    """Why the gate of a file, which must have been fitted for this model, refuses faces with these embeddings."""
    gate = read_gate(path)
    for line in gate.warnings():
        log.warning("%s: %s", path, line)
    for origin in origins_of(model, find):
        check_same_origin(f"{model.folder} embeds", origin, path, gate.origin, "fit a gate for this model")

    def reasons(faces: Sequence[FaceOfPhotograph], rows: np.ndarray) -> list[tuple[str, ...]]:
        points = np.stack([_NO_POINTS if face.crop is None else face.crop.landmarks for face in faces])
        crops = np.stack([face.pixels for face in faces if face.pixels is not None])
        images = torch.from_numpy(crops).permute(0, 3, 1, 2)
        measured = {"detail": detail_of(images), **light_of(images), **place_of(points), "length": lengths_of(rows)}
        return gate.reasons(measured)

    return reasons
