"""The gate of a gallery, fitted on the aligned faces of other people, and its verdicts on faces."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Float64

from verisphere.base.device import choose_device
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Embeddings, Progress, printable, quietly
from verisphere.base.words import unknown_name
from verisphere.decide import Far, exact_rate, one_probe_each
from verisphere.files.embeddings import known_people, note_crowds
from verisphere.files.gate import MEASURES, Gate, Limit, Measured, Side, read_gate
from verisphere.files.landmarks import points_of_images, read_landmarks
from verisphere.images.detect.pose import place_of
from verisphere.images.faces import Faces
from verisphere.images.quality import detail_of, light_of, measure
from verisphere.measure.protocols.plausible import implausible_set
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of
from verisphere.models.folder import Model
from verisphere.score import pair_scores, top_k, unit_rows
from verisphere.ship.calibration_check import NOTHING, Accepted, refuse_implausible, refuse_training_people
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces
from verisphere.ship.notes import origins_of

#: What is asked for where it was measured and nothing else is named; docs/enrolment.md says why.
ASKED = ("detail", "size")
_OF_LIMITS = 0.25  # part of the good photographs refused by limits; the alarm, which needs more, has the rest
_NO_POINTS = np.full((5, 2), np.nan, np.float32)


def fit_gate(
    measured: Measured, embeddings: Embeddings, *, good: Far = "2e-2", measures: Sequence[str] = (), images: str = ""
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
    return Gate(*about, in_training=embeddings.shared_with_training)


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


def fit(
    faces: Path,
    model: Path,
    landmarks: Path | None = None,
    good: Far = "2e-2",
    measures: Sequence[str] = (),
    device: str | None = None,
    accepted: Accepted = NOTHING,
    progress: Progress = quietly,
) -> Gate:
    """The gate of a gallery, from aligned faces of other people than its own; see `fit_gate`.

    Raises:
        ValueError: unless accepted, implausible scores, or people or images that the model was trained on.
    """
    opened, images, measured = _opened(faces, model, landmarks, device, progress)
    embeddings = embed(opened, images, str(faces), progress=progress)
    note_crowds(faces, embeddings.identities)
    if not accepted.training_people:
        refuse_training_people(embeddings, faces)
    reasons = refuse_implausible(faces, implausible_set(known_people(embeddings, faces)), accepted.implausible)
    measured["length"] = lengths_of(embeddings.embeddings)
    gate = fit_gate(measured, embeddings, good=good, measures=measures, images=faces.name)
    return replace(gate, implausible=tuple(reasons))


def check(
    faces: Path,
    gate: Path,
    model: Path,
    landmarks: Path | None = None,
    device: str | None = None,
    progress: Progress = quietly,
) -> str:
    """The verdicts on aligned faces that are to be embedded by a model, for which the gate was fitted, as a text."""
    asked, (opened, images, measured) = read_gate(gate), _opened(faces, model, landmarks, device, progress)
    origin = origin_of(opened, bool(opened.flip), torch.float32, str(faces), images.source)
    check_same_origin(f"{faces} is by {model}", origin, gate, asked.origin, "fit a gate for this model")
    needed = {limit.measure for limit in asked.limits}
    if "length" in needed:
        measured["length"] = lengths_of(embed(opened, images, str(faces), progress=progress).embeddings)
    reasons = asked.reasons(measured)
    lines = [*asked.warnings(), f"{reasons.count(()):,} of {len(reasons):,} images are accepted"]
    if unknown := needed - measured.keys():
        lines.append(f"not checked, because there are no --landmarks: {', '.join(sorted(unknown))}")
    refused = (f"{name}: {'; '.join(why)}" for name, why in zip(images.names, reasons, strict=True) if why)
    return "\n".join([*lines, *map(printable, refused)])


def gate_of(
    path: Path, model: Model, find: FindFaces
) -> Callable[[Sequence[FaceOfPhotograph], np.ndarray], list[tuple[str, ...]]]:
    """Why the gate of a file, which must have been fitted for this model, refuses faces with these embeddings."""
    gate = read_gate(path)
    for origin in origins_of(model, find):
        check_same_origin(f"{model.folder} embeds", origin, path, gate.origin, "fit a gate for this model")

    def reasons(faces: Sequence[FaceOfPhotograph], rows: np.ndarray) -> list[tuple[str, ...]]:
        points = np.stack([_NO_POINTS if face.crop is None else face.crop.landmarks for face in faces])
        crops = np.stack([face.pixels for face in faces if face.pixels is not None])
        images = torch.from_numpy(crops).permute(0, 3, 1, 2)
        measured = {"detail": detail_of(images), **light_of(images), **place_of(points), "length": lengths_of(rows)}
        return gate.reasons(measured)

    return reasons


def _opened(
    faces: Path, model: Path, landmarks: Path | None, device: str | None, progress: Progress
) -> tuple[EmbeddingModel, Faces, dict[str, np.ndarray]]:
    opened = open_model(model, choose_device(device))
    images = open_faces(faces, size=opened.backbone.input_size)
    listed = {} if landmarks is None else place_of(points_of_images(images.names, read_landmarks(landmarks)))
    return opened, images, measure(images, progress) | listed
