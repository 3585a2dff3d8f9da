"""One side of a comparison: the photographs of a person, the faces on them, and their embeddings.

Two photographs show the same person iff score > threshold, as everywhere. Two sets of photographs are compared in all
pairs, and show the same person iff more than half of the comparisons pass. By Markov's inequality, this happens for two
different people at most twice as often as a single comparison passes, so the guarantee for one comparison also holds
for sets, at twice the rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float32, Float64, UInt8

from verisphere.base.vocabulary import Progress, printable, quietly
from verisphere.files.disk import check_file, read_file
from verisphere.files.errors import errors_naming
from verisphere.files.image_suffixes import MAX_BYTES, why_unread
from verisphere.images.detect import Crop
from verisphere.images.packs.image_files import ImageFiles, image_files
from verisphere.models.folder import Model
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.face_search import FaceOfPhotograph, FindFaces, Skipped, file_contents, search_photographs

FacePixels = UInt8[np.ndarray, "height width 3"]

_PHOTOGRAPHS_AT_ONCE = 16  # decoded and searched together
_COMPARISONS_AT_ONCE = 2**20


@dataclass(frozen=True)
class Person:
    """One side of a comparison: the photographs that were compared, and those that were not.

    Of photographs `with_several_faces` the most central one was used. The name is the path, or that of a gallery's
    folder.
    """

    name: str
    photos: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    with_several_faces: tuple[str, ...]


@dataclass(frozen=True)
class OtherFace:
    """A face of a photograph at a side of the most central one; (x, y) is the middle of its box, in pixels."""

    photo: str
    side: Literal["left", "right", "top", "bottom"]
    x: int
    y: int

    @classmethod
    def of(cls, photo: str, other: Crop, central: Crop) -> "OtherFace":
        """A face of a photograph, from its crop and that of the most central face."""
        (x, y), (central_x, central_y) = ((crop.box[:2] + crop.box[2:]) / 2 for crop in (other, central))
        across, down = x - central_x, y - central_y
        beside: Literal["left", "right"] = "left" if across < 0 else "right"
        over: Literal["top", "bottom"] = "top" if down < 0 else "bottom"
        return cls(photo, beside if abs(across) >= abs(down) else over, round(float(x)), round(float(y)))

    def __str__(self) -> str:
        return f"the face at the {self.side} ({self.x}, {self.y}) of {printable(self.photo)}"


@dataclass(frozen=True, eq=False)
class EmbeddedPerson:
    """One side of a comparison: a row for each photograph that was used, and one for each other face on them."""

    person: Person
    rows: Float32[np.ndarray, "photos dim"]
    others: tuple[OtherFace, ...]
    other_rows: Float32[np.ndarray, "others dim"]


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
    """Photographs and the face on each; and the names of further ones beside them, in formats that are not read."""

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

    @property
    def others(self) -> list[tuple[OtherFace, FacePixels]]:
        """The other faces of the photographs that can be compared, with their crops."""
        return [
            (OtherFace.of(name, other, face.crop), other.pixels)
            for name, face in zip(self.names, self.faces, strict=True)
            if face.crop is not None
            for other in face.others
        ]

    def embed(self, model: Model) -> Float32[np.ndarray, "used dim"]:
        """Embeddings of the photographs that can be compared, in order."""
        if not self.used:
            first = f"the first, {self.names[0]}: {self.faces[0].reason}"
            raise ValueError(f"none of the {len(self.names)} photographs can be used; {first}")
        return model.embed(np.stack([face.pixels for face in self.faces if face.pixels is not None]))


def photographs_at(path: Path, find: FindFaces, progress: Progress = quietly) -> Photographs:
    """The photographs of a folder or a zip archive, or of one image file, each searched for a face."""
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


def embedded_person(path: Path, model: Model, find: FindFaces, progress: Progress) -> EmbeddedPerson:
    """The photographs of a person, an image file or a folder or zip archive of them, and their embeddings."""
    photographs = photographs_at(path, find, progress)
    if len(photographs.names) == 1 and not photographs.used:
        raise ValueError(f"{path}: {photographs.faces[0].reason}")
    others, crops = zip(*photographs.others, strict=True) if photographs.others else ((), ())
    with errors_naming(path):
        rows = photographs.embed(model)
        other_rows = model.embed(np.stack(crops)) if crops else rows[:0]
    named = zip(photographs.names, photographs.faces, strict=True)
    person = Person(
        name=str(path),
        photos=tuple(photographs.names[place] for place in photographs.used),
        skipped=photographs.skipped,
        with_several_faces=tuple(name for name, face in named if face.faces > 1),
    )
    return EmbeddedPerson(person, rows, others, other_rows)
