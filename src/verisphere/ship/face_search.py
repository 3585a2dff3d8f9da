"""The face on each of many photographs: read and decoded in batches, found or looked up, and cropped to a template."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from jaxtyping import UInt8

from verisphere.files.errors import fault_of
from verisphere.files.image_suffixes import SUFFIXES
from verisphere.files.images_json import read_source
from verisphere.files.landmarks import ListedFaces
from verisphere.images.decode import decode
from verisphere.images.detect import (
    Crop,
    Detections,
    FaceDetector,
    Template,
    choose_face,
    crop_at,
    crop_face,
    template_named,
    why_none,
)
from verisphere.images.packs.image_files import ImageFiles, image_files

T = TypeVar("T")
Pixels = UInt8[np.ndarray, "_ _ 3"]  # RGB; each photograph has a size of its own
Status = Literal["aligned", "no face", "unreadable", "other format"]

PHOTOGRAPHS_AT_ONCE = 32
"""Photographs that are decoded and searched together; fewer where they have more pixels than `_PIXELS_AT_ONCE`."""

_PIXELS_AT_ONCE = 24_000_000


@dataclass(frozen=True, eq=False)
class FaceOfPhotograph:
    """The most central face on a photograph, or the reason why there is none, with the number of faces.

    The crop has the box, landmarks and score; None where the photograph was taken as an aligned crop. The other faces
    are there where they were asked for; one that cannot be aligned is not among them.
    """

    pixels: Pixels | None
    faces: int = 1
    reason: str = ""
    readable: bool = True
    crop: Crop | None = None
    others: tuple[Crop, ...] = ()

    @property
    def status(self) -> Status:
        """The photograph in one word, as `align.csv` has it."""
        if self.pixels is not None:
            return "aligned"
        return "no face" if self.readable else "unreadable"


@dataclass(frozen=True)
class Skipped:
    """A photograph without a crop, and the reason."""

    name: str
    reason: str


FindFaces = Callable[[Sequence[Pixels], Sequence[str]], list[FaceOfPhotograph]]
"""Finds the face on each photograph; takes the pixels and the names of a batch of photographs."""


@dataclass(frozen=True)
class AlignedBy:
    """A way to find faces that says `how` it makes crops, and knows their `ImageSource.alignment` from all others."""

    find: FindFaces
    alignments: tuple[str, ...]
    how: str

    def __call__(self, photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        """The face on each photograph."""
        return self.find(photographs, names)


def alignments_of(find: FindFaces) -> tuple[str, ...]:
    """Template and finder of the crops of a function that finds faces; empty where they are not known."""
    return find.alignments if isinstance(find, AlignedBy) else ()


def recorded_alignments(paths: Sequence[Path]) -> tuple[str, ...]:
    """The alignments that stand beside crops, in files, folders or archives; none for what cannot be read."""
    found: set[str | None] = set()
    for path in paths:
        whole = path.is_dir() or path.suffix.lower() == ".zip"
        if whole or path.suffix.lower() in SUFFIXES:
            names: Sequence[str] = (path.name,)
            with suppress(ValueError, OSError):  # the reader of the images reports it
                names = image_files(path).names if whole else names
            found.add(read_source(path, names).alignment)
    return tuple(sorted(filter(None, found)))


def aligned_faces(size: tuple[int, int], alignments: tuple[str, ...] = ()) -> FindFaces:
    """Takes photographs as aligned crops of this height and width, and searches for no face."""

    def find(photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        return [
            FaceOfPhotograph(pixels)
            if pixels.shape[:2] == size
            else FaceOfPhotograph(
                None,
                0,
                f"{pixels.shape[1]} x {pixels.shape[0]} pixels, but aligned crops are "
                f"{size[1]} x {size[0]}; without --aligned the face is looked for",
            )
            for pixels in photographs
        ]

    return AlignedBy(find, alignments, "aligned crops")


def detected_faces(template: str, detector: FaceDetector, *, others: bool = False) -> FindFaces:
    """Detects faces, and crops the most central one of each photograph; on request the others too."""
    target = template_named(template)

    def crop(pixels: Pixels, detections: Detections) -> FaceOfPhotograph:
        face = _cropped(pixels, detections, target, why_none(detector, *pixels.shape[:2]))
        return replace(face, others=_others(pixels, detections, target)) if others else face

    def find(photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        return [crop(*found) for found in zip(photographs, detector.detect(photographs), strict=True)]

    alignment = f"{template} by {detector.name}"
    return AlignedBy(find, (alignment,), f"{alignment} from {getattr(detector, 'min_face', None)} pixels")


def listed_faces(template: str, listed: Mapping[str, ListedFaces], file: Path, *, others: bool = False) -> FindFaces:
    """Looks up the landmarks that a file lists for each photograph, and crops the faces as `detected_faces` does."""
    target = template_named(template)

    def look_up(pixels: Pixels, name: str) -> FaceOfPhotograph:
        if name not in listed:
            return FaceOfPhotograph(None, 0, f"not listed in {file}")
        faces = listed[name]
        faces.check_inside(*pixels.shape[:2])
        detections = Detections(faces.boxes, faces.landmarks, faces.scores)
        face = _cropped(pixels, detections, target, f"listed without a face in {file}")
        return replace(face, others=_others(pixels, detections, target)) if others else face

    def find(photographs: Sequence[Pixels], names: Sequence[str]) -> list[FaceOfPhotograph]:
        return [look_up(pixels, name) for pixels, name in zip(photographs, names, strict=True)]

    return find


def _cropped(pixels: Pixels, detections: Detections, template: Template, without_face: str) -> FaceOfPhotograph:
    """The crop of the most central face; `without_face` is the reason where nothing was detected."""
    if not len(detections):
        return FaceOfPhotograph(None, 0, without_face)
    try:
        crop = crop_face(pixels, detections, template)
    except ValueError as error:
        return FaceOfPhotograph(None, len(detections), str(error))
    return FaceOfPhotograph(crop.pixels, crop.faces, crop=crop)


def _others(pixels: Pixels, detections: Detections, template: Template) -> tuple[Crop, ...]:
    """The crops of all faces that can be aligned but the most central one."""
    crops = []
    for index in range(len(detections)):
        if index != choose_face(detections, *pixels.shape[:2]):
            with suppress(ValueError):
                crops.append(crop_at(pixels, detections, index, template))
    return tuple(crops)


def file_contents(files: ImageFiles) -> list[Callable[[], bytes]]:
    """For each image file a function that reads it."""
    return [partial(_content, files, position) for position in range(len(files.names))]


def _content(files: ImageFiles, position: int) -> bytes:
    ((_, data),) = files.read([position])
    return data


def search_photographs(
    names: Sequence[str],
    contents: Sequence[Callable[[], bytes]],
    find: FindFaces,
    at_once: int = PHOTOGRAPHS_AT_ONCE,
    together: int = sys.maxsize,
) -> Iterator[FaceOfPhotograph]:
    """The face on each photograph, in order; a batch ends after each run of so many photographs that stay `together`.

    While one batch is searched, a thread reads and decodes the next one, so at most two batches are in memory.
    """
    for batch in _one_ahead(_decoded(names, contents, at_once, together)):
        readable = [(name, found) for name, found in batch if isinstance(found, np.ndarray)]
        faces = iter(find([pixels for _, pixels in readable], [name for name, _ in readable]))
        for _, found in batch:
            yield next(faces) if isinstance(found, np.ndarray) else found


def _decoded(
    names: Sequence[str], contents: Sequence[Callable[[], bytes]], at_once: int, together: int = sys.maxsize
) -> Iterator[list[tuple[str, Pixels | FaceOfPhotograph]]]:
    """The photographs in order, in batches that fit into memory; for one that cannot be decoded, the reason."""
    batch: list[tuple[str, Pixels | FaceOfPhotograph]] = []
    pixels = 0
    for number, (name, content) in enumerate(zip(names, contents, strict=True), 1):
        try:
            photograph = decode(content(), name)
            batch.append((name, photograph))
            pixels += photograph.size // 3
        except ValueError as error:
            batch.append((name, FaceOfPhotograph(None, 0, fault_of(error, name).reason, readable=False)))
        if len(batch) == at_once or pixels >= _PIXELS_AT_ONCE or number % together == 0:
            yield batch
            batch, pixels = [], 0
    if batch:
        yield batch


def _one_ahead(items: Iterator[T]) -> Iterator[T]:
    """The items; while one is worked on, a thread makes the next one, and no more than that."""
    with ThreadPoolExecutor(1) as thread:
        pending = thread.submit(next, items, None)
        while (item := pending.result()) is not None:
            pending = thread.submit(next, items, None)
            yield item
