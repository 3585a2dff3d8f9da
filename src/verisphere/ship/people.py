"""One side of a comparison: a person's photographs, the faces found on them, and their embeddings.

A comparison of two photographs is decided as everywhere: same iff score > threshold. Of two sets of photographs every
one is compared with every one, and they show the same person iff more than half of the comparisons pass. By Markov's
inequality that happens to two different people at most twice as often as a single comparison passes, so the promise
about one comparison carries over to sets, at twice the rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64, UInt8

from verisphere.decide import Far
from verisphere.files.disk import check_file, read_file
from verisphere.images.decode import MAX_BYTES, decode, why_unread
from verisphere.images.detect import Detections, Detector, crop_face, template_named, why_none
from verisphere.images.image_files import ImageFiles, image_files
from verisphere.models.folder import Model
from verisphere.score import pair_scores, unit_rows
from verisphere.ship.align import Skipped
from verisphere.vocabulary import Progress, printable, quietly

Pixels = UInt8[np.ndarray, "_ _ 3"]  # RGB; each photograph of a size of its own
SHOWN = 5  # photographs that a note names
BATCH = 16  # photographs decoded and searched for faces at a time
_CHUNK = 2**20  # comparisons scored at a time


@dataclass(frozen=True, eq=False)
class Look:
    """What a photograph shows.

    Attributes:
        pixels: the aligned crop that the model takes, of the most central face; None where there is none to take.
        faces: how many faces there are.
        reason: why there is no crop.
    """

    pixels: Pixels | None
    faces: int = 1
    reason: str = ""


#: Looks for a face in photographs, given with their names.
FindFaces = Callable[[Sequence[Pixels], Sequence[str]], list[Look]]


def aligned_faces(size: tuple[int, int]) -> FindFaces:
    """Takes photographs as they are: crops that were aligned before.

    Args:
        size: (height, width) that the model takes.
    """

    def find(photos: Sequence[Pixels], names: Sequence[str]) -> list[Look]:
        return [
            Look(pixels)
            if pixels.shape[:2] == size
            else Look(
                None,
                0,
                f"{pixels.shape[1]} x {pixels.shape[0]} pixels, but aligned crops are "
                f"{size[1]} x {size[0]}; without --aligned the face is looked for",
            )
            for pixels in photos
        ]

    return find


def detected_faces(template: str, device: torch.device, min_face: int = 20) -> FindFaces:
    """Looks for faces, and aligns the most central one of each photograph.

    Args:
        template: name of the model's template.
        device: where to look for faces.
        min_face: side of the smallest face looked for, in pixels.

    Raises:
        ValueError: no such template, or the extra `detect` is missing.
    """
    detector, target = Detector(device, min_face=min_face), template_named(template)

    def look(pixels: Pixels, found: Detections) -> Look:
        if not len(found):
            return Look(None, 0, why_none(detector, *pixels.shape[:2]))
        try:
            return Look(crop_face(pixels, found, target).pixels, len(found))
        except ValueError as error:
            return Look(None, len(found), str(error))

    def find(photos: Sequence[Pixels], names: Sequence[str]) -> list[Look]:
        return [look(pixels, found) for pixels, found in zip(photos, detector.detect(photos), strict=True)]

    return find


@dataclass(frozen=True)
class Person:
    """One side of a comparison.

    Attributes:
        name: path as it was given, or the folder's name in a gallery.
        photos: those that took part.
        skipped: those that did not.
        with_several_faces: photographs with more than one face; the most central was taken.
    """

    name: str
    photos: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    with_several_faces: tuple[str, ...]


#: Said where sets of photographs were compared.
SETS = (
    "sets of photographs are the same person iff more than half of all comparisons pass; two different people's do at "
    "most twice as often as one comparison"
)


def lower_median(scores: Float64[np.ndarray, " scores"]) -> float:
    """The middle score, the lower one of two: above a threshold iff more than half of the scores are.

    >>> lower_median(np.array([0.1, 0.9, 0.4, 0.6]))
    0.4
    """
    return float(np.sort(scores)[(len(scores) - 1) // 2])


def scores_between(
    left: Float32[np.ndarray, "left dim"], right: Float32[np.ndarray, "right dim"]
) -> Float64[np.ndarray, "left right"]:
    """Score of every row of one side with every row of the other, in bounded memory beside the result."""
    units = unit_rows(np.concatenate([left, right]))
    found = np.empty((len(left), len(right)))
    step = max(_CHUNK // len(left), 1)
    for start in range(0, len(right), step):
        columns = torch.arange(start, min(start + step, len(right)))
        first, second = torch.meshgrid(torch.arange(len(left)), len(left) + columns, indexing="ij")
        scores = pair_scores(units, first.flatten(), second.flatten())
        found[:, start : start + step] = scores.reshape(first.shape).numpy()
    return found


@dataclass(frozen=True, eq=False)
class Photographs:
    """Photographs with what each shows.

    Attributes:
        names: one a photograph.
        looks: what it shows.
        unread: names of further photographs beside them, of formats that are not read.
    """

    names: Sequence[str]
    looks: Sequence[Look]
    unread: tuple[str, ...] = ()

    @property
    def used(self) -> list[int]:
        """Positions of those with a face that can be compared."""
        return [place for place, look in enumerate(self.looks) if look.pixels is not None]

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """All others, with the reasons."""
        both = zip(self.names, self.looks, strict=True)
        without_face = [Skipped(name, look.reason) for name, look in both if look.pixels is None]
        return (*without_face, *(Skipped(name, why_unread(name)) for name in self.unread))

    def embed(self, model: Model) -> Float32[np.ndarray, "used dim"]:
        """Embeddings of those that can be compared, in order.

        Raises:
            ValueError: there is none.
        """
        if not self.used:
            raise ValueError(f"none of the {len(self.names)} photographs can be used; {self._first()}")
        crops = [look.pixels for look in self.looks if look.pixels is not None]
        return model.embed(np.stack(crops))

    def _first(self) -> str:
        return f"the first, {self.names[0]}: {self.looks[0].reason}"


def look_at(path: Path, find: FindFaces, progress: Progress = quietly) -> Photographs:
    """The photographs of a folder or a zip archive, or the one of an image file, each searched for a face.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        ValueError: a folder or archive without photographs, or a file that is too large.
    """
    if path.is_dir() or path.suffix.lower() == ".zip":
        return searched(image_files(path), find, progress)
    return _searched([path.name], [partial(_read, path)], find, quietly)


def searched(files: ImageFiles, find: FindFaces, progress: Progress) -> Photographs:
    """All photographs of a folder or an archive, each searched for a face."""
    contents = [partial(_content, files, position) for position in range(len(files.names))]
    return replace(_searched(files.names, contents, find, progress), unread=tuple(files.unread))


def person_at(
    path: Path, model: Model, find: FindFaces, progress: Progress
) -> tuple[Person, Float32[np.ndarray, "photos dim"]]:
    """A person's photographs, and their embeddings.

    Args:
        path: an image file, or a folder or zip archive of one person's.
        model: makes the embeddings.
        find: how a face is got out of a photograph.
        progress: shown over the photographs.

    Raises:
        FileNotFoundError: there is nothing at `path`.
        ValueError: no photograph shows a face.
    """
    seen = look_at(path, find, progress)
    if len(seen.names) == 1 and not seen.used:
        raise ValueError(f"{path}: {seen.looks[0].reason}")
    try:
        embeddings = seen.embed(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    person = Person(
        name=str(path),
        photos=tuple(seen.names[place] for place in seen.used),
        skipped=seen.skipped,
        with_several_faces=tuple(name for name, look in zip(seen.names, seen.looks, strict=True) if look.faces > 1),
    )
    return person, embeddings


def _content(files: ImageFiles, position: int) -> bytes:
    ((_, data),) = files.read([position])
    return data


def _read(path: Path) -> bytes:
    check_file(path, "photograph or folder")
    return read_file(path, MAX_BYTES)


def _searched(
    names: Sequence[str], contents: Sequence[Callable[[], bytes]], find: FindFaces, progress: Progress
) -> Photographs:
    """What each photograph shows; a batch of photographs is in memory at a time."""
    looks: list[Look] = []
    waiting: list[tuple[int, str, Pixels]] = []

    def search() -> None:
        found = find([pixels for _, _, pixels in waiting], [name for _, name, _ in waiting])
        for (place, _, _), look in zip(waiting, found, strict=True):
            looks[place] = look
        waiting.clear()

    for name, content in progress(zip(names, contents, strict=True), "looking for faces", len(names)):
        try:
            waiting.append((len(looks), name, decode(content(), name)))
            looks.append(Look(None, 0))  # until it has been searched
        except ValueError as error:
            looks.append(Look(None, 0, str(error).removeprefix(f"{name}: ")))
        if len(waiting) == BATCH:
            search()
    if waiting:
        search()
    return Photographs(names, looks)


def refuse_drawn(model: Model, far: Far | None, accept_drawn: bool) -> str:
    """What to say of a model behind whose threshold drawings stand; nothing where none do.

    Args:
        model: with its threshold.
        far: which of its thresholds.
        accept_drawn: go on all the same.

    Raises:
        ValueError: drawings stand behind the threshold, and that was not accepted; or there is no such threshold.
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
    """Lines on photographs of a person with several faces, and on those that were skipped."""
    several = first_few(person.with_several_faces, "with several faces, the most central taken")
    return [*several, *first_few([f"{one.name} ({one.reason})" for one in person.skipped], "skipped")]


def first_few(items: Sequence[str], what: str) -> list[str]:
    """One line for the first few of them, and how many more there are."""
    if not items:
        return []
    more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return [f"{what}: {', '.join(map(printable, items[:SHOWN]))}{more}"]
