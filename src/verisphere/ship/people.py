"""One side of a comparison: the photographs of a person, the faces on them, and their embeddings.

Two photographs show the same person iff score > threshold, as everywhere. Two sets of photographs are compared in all
pairs, and show the same person iff more than half of the comparisons pass. By Markov's inequality, this happens for two
different people at most twice as often as a single comparison passes, so the guarantee for one comparison also holds
for sets, at twice the rate.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64

from verisphere.decide import Far
from verisphere.files.disk import check_file, read_file
from verisphere.files.errors import errors_naming
from verisphere.files.image_suffixes import MAX_BYTES, why_unread
from verisphere.models.folder import Model
from verisphere.packs.image_files import ImageFiles, image_files
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces, Skipped, file_contents, search_photographs
from verisphere.vocabulary import Progress, printable, quietly

log = logging.getLogger(__name__)

PHOTOGRAPHS_NAMED = 5  # photographs that a note names
_PHOTOGRAPHS_AT_ONCE = 16  # decoded and searched together
_COMPARISONS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Person:
    """One side of a comparison.

    Attributes:
        name: the given path, or the name of the folder in a gallery.
        photos: names of the photographs that were compared.
        skipped: the photographs that were not.
        with_several_faces: names of photographs with more than one face, of which the most central was used.
    """

    name: str
    photos: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    with_several_faces: tuple[str, ...]


#: Note for a comparison of sets of photographs.
SETS = (
    "sets of photographs are the same person iff more than half of all comparisons pass; two different people's do at "
    "most twice as often as one comparison"
)


def lower_median(scores: Float64[np.ndarray, " scores"]) -> float:
    """The median, of two middle scores the lower one: it is above a threshold iff more than half of the scores are.

    >>> lower_median(np.array([0.1, 0.9, 0.4, 0.6]))
    0.4
    """
    return float(np.sort(scores)[(len(scores) - 1) // 2])


def scores_between(
    left: Float32[np.ndarray, "left dim"], right: Float32[np.ndarray, "right dim"]
) -> Float64[np.ndarray, "left right"]:
    """Score of every row of one side with every row of the other; memory is bounded in addition to the result."""
    units = unit_rows(np.concatenate([left, right]))
    scores = np.empty((len(left), len(right)))
    step = max(_COMPARISONS_AT_ONCE // len(left), 1)
    for start in range(0, len(right), step):
        columns = torch.arange(start, min(start + step, len(right)))
        first, second = torch.meshgrid(torch.arange(len(left)), len(left) + columns, indexing="ij")
        part = pair_scores(units, first.flatten(), second.flatten())
        scores[:, start : start + step] = part.reshape(first.shape).numpy()
    return scores


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs and the face on each.

    Attributes:
        names: one name for each photograph.
        faces: one face for each photograph.
        unread: names of further photographs beside them, in formats that are not read.
    """

    names: Sequence[str]
    faces: Sequence[FaceOfPhotograph]
    unread: tuple[str, ...] = ()

    @property
    def used(self) -> list[int]:
        """Positions of the photographs with a face that can be compared."""
        return [place for place, face in enumerate(self.faces) if face.pixels is not None]

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """All other photographs, with the reasons."""
        named = zip(self.names, self.faces, strict=True)
        without_face = [Skipped(name, face.reason) for name, face in named if face.pixels is None]
        return (*without_face, *(Skipped(name, why_unread(name)) for name in self.unread))

    def embed(self, model: Model) -> Float32[np.ndarray, "used dim"]:
        """Embeddings of the photographs that can be compared, in order.

        Raises:
            ValueError: no photograph can be compared.
        """
        if not self.used:
            first = f"the first, {self.names[0]}: {self.faces[0].reason}"
            raise ValueError(f"none of the {len(self.names)} photographs can be used; {first}")
        return model.embed(np.stack([face.pixels for face in self.faces if face.pixels is not None]))


def photographs_at(path: Path, find: FindFaces, progress: Progress = quietly) -> Photographs:
    """The photographs of a folder or a zip archive, or the one photograph of an image file, each searched for a face.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: a folder or archive without photographs, or a file that is too large.
    """
    if path.is_dir() or path.suffix.lower() == ".zip":
        return photographs_in(image_files(path), find, progress)
    return Photographs([path.name], list(search_photographs([path.name], [partial(_read, path)], find)))


def photographs_in(files: ImageFiles, find: FindFaces, progress: Progress) -> Photographs:
    """All photographs of a folder or an archive, each searched for a face."""
    faces = search_photographs(files.names, file_contents(files), find, _PHOTOGRAPHS_AT_ONCE)
    searched = list(progress(faces, "looking for faces", len(files.names)))
    return Photographs(files.names, searched, tuple(files.unread))


def _read(path: Path) -> bytes:
    check_file(path, "photograph or folder")
    return read_file(path, MAX_BYTES)


def person_at(
    path: Path, model: Model, find: FindFaces, progress: Progress
) -> tuple[Person, Float32[np.ndarray, "photos dim"]]:
    """The photographs of a person, and their embeddings.

    Args:
        path: an image file, or a folder or zip archive of photographs of one person.
        model: computes the embeddings.
        find: finds the face on each photograph.
        progress: reports the progress over the photographs.

    Raises:
        FileNotFoundError: `path` does not exist.
        ValueError: no photograph shows a face.
    """
    photographs = photographs_at(path, find, progress)
    if len(photographs.names) == 1 and not photographs.used:
        raise ValueError(f"{path}: {photographs.faces[0].reason}")
    with errors_naming(path):
        embeddings = photographs.embed(model)
    named = zip(photographs.names, photographs.faces, strict=True)
    person = Person(
        name=str(path),
        photos=tuple(photographs.names[place] for place in photographs.used),
        skipped=photographs.skipped,
        with_several_faces=tuple(name for name, face in named if face.faces > 1),
    )
    return person, embeddings


def refuse_drawn(model: Model, far: Far | None, accept_drawn: bool) -> str:
    """The note on a model that was trained or calibrated on drawn faces; empty for any other model.

    Args:
        model: the model with its thresholds.
        far: target FAR of the threshold.
        accept_drawn: accept such a model.

    Raises:
        ValueError: the model was trained or calibrated on drawn faces, which was not accepted; or it has no such
            threshold.
    """
    how = model.drawn(None if far is None else str(far))
    if not how:
        return ""
    follows = "about photographs its threshold promises nothing"
    if how == "trained":
        follows = "it may tell few photographs apart"
    fact = f"this model was {how} on drawn faces, so {follows}"
    if not accept_drawn:
        raise ValueError(
            f"{model.folder}: {fact}; to compare drawings, or to see it run, say --accept-drawn-model "
            "(accept_drawn=True)"
        )
    return fact


def notes_on(person: Person) -> list[str]:
    """Notes on photographs of a person with several faces, and on skipped photographs."""
    several = first_few(person.with_several_faces, "with several faces, the most central taken")
    return [*several, *first_few([f"{photo.name} ({photo.reason})" for photo in person.skipped], "skipped")]


def first_few(items: Sequence[str], what: str) -> list[str]:
    """One line with the first few items and the number of further ones; no line for no items."""
    if not items:
        return []
    more = f", and {len(items) - PHOTOGRAPHS_NAMED} more" if len(items) > PHOTOGRAPHS_NAMED else ""
    return [f"{what}: {', '.join(map(printable, items[:PHOTOGRAPHS_NAMED]))}{more}"]


def warn_if_calibrated_with_another(model: Model, detector: str) -> None:
    """Warns where a threshold was calibrated on crops that another detector found.

    Two detectors place the points differently, so their crops are different images, and a guarantee for one detector
    states nothing exact about the other. If no detector is recorded, there is no warning.

    Args:
        model: the model with its thresholds.
        detector: name of the detector that finds the faces now.
    """
    recorded = {threshold.calibrated_on.alignment or "" for threshold in model.thresholds if threshold.calibrated_on}
    finders = {alignment.partition(" by ")[2] for alignment in recorded} - {"", detector}
    others = sorted(finder for finder in finders if not finder.startswith("the landmarks in "))
    if others:
        log.warning(
            "%s: calibrated on faces that %s found, and %s finds them now: the crops differ, and so may the rates; "
            "calibrate on crops of this detector",
            model.folder, ", ".join(others), detector,
        )  # fmt: skip
