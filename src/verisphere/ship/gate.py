"""The gate of a gallery, fitted on the aligned faces of other people, and its verdicts on faces."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, UInt8

from verisphere.base.device import choose_device
from verisphere.base.provenance import check_same_origin
from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.decide import Far
from verisphere.files.gate import Gate, read_gate
from verisphere.files.landmarks import points_of_images, read_landmarks
from verisphere.images.detect.pose import place_of
from verisphere.images.faces import Faces
from verisphere.images.quality import detail_of, light_of, measure
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import EmbeddingModel, embed, open_model, origin_of
from verisphere.models.enrolment import fit_gate, lengths_of


def fit(
    faces: Path,
    model: Path,
    landmarks: Path | None = None,
    good: Far = "2e-2",
    measures: Sequence[str] = (),
    device: str | None = None,
    progress: Progress = quietly,
) -> Gate:
    """The gate of a gallery, from aligned faces of other people than its own; see `fit_gate`."""
    opened, images, measured = _opened(faces, model, landmarks, device, progress)
    embeddings = embed(opened, images, str(faces), progress=progress)
    measured["length"] = lengths_of(embeddings.embeddings)
    return fit_gate(measured, embeddings, good=good, measures=measures, images=faces.name)


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
    lines = [f"{reasons.count(()):,} of {len(reasons):,} images are accepted"]
    if unknown := needed - measured.keys():
        lines.append(f"not checked, because there are no --landmarks: {', '.join(sorted(unknown))}")
    refused = (f"{name}: {'; '.join(why)}" for name, why in zip(images.names, reasons, strict=True) if why)
    return "\n".join([*lines, *map(printable, refused)])


def reasons_of(
    gate: Gate,
    crops: UInt8[np.ndarray, "faces height width 3"],
    points: Float32[np.ndarray, "faces 5 2"],
    rows: Float32[np.ndarray, "faces dim"],
) -> list[tuple[str, ...]]:
    """Why a gate refuses each of some aligned faces, with their points in the photographs (or NaN) and embeddings."""
    images = torch.from_numpy(crops).permute(0, 3, 1, 2)
    measured = {"detail": detail_of(images), **light_of(images), **place_of(points), "length": lengths_of(rows)}
    return gate.reasons(measured)


def _opened(
    faces: Path, model: Path, landmarks: Path | None, device: str | None, progress: Progress
) -> tuple[EmbeddingModel, Faces, dict[str, np.ndarray]]:
    opened = open_model(model, choose_device(device))
    images = open_faces(faces, size=opened.backbone.input_size)
    listed = {} if landmarks is None else place_of(points_of_images(images.names, read_landmarks(landmarks)))
    return opened, images, measure(images, progress) | listed
