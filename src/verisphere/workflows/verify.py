"""Two photographs, or two folders of them: the same person or not, at the threshold a model was shipped with.

A comparison of two photographs is decided as everywhere: same iff score > threshold. Of two sets of photographs every
one is compared with every one, and they show the same person iff more than half of the comparisons pass. By Markov's
inequality that happens to two different people at most twice as often as a single comparison passes, so the promise
about one comparison carries over to sets, at twice the rate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32, Float64, UInt8

from verisphere.data.decode import MAX_BYTES, decode, why_unread
from verisphere.data.files import check_file, read_file
from verisphere.data.image_files import ImageFiles, image_files
from verisphere.decide import Far, GuaranteedThreshold
from verisphere.detect import Detections, Detector, crop_face, template_named, why_none
from verisphere.embed.model_folder import Model
from verisphere.report.results import json_text
from verisphere.report.tables import number, table
from verisphere.score import pair_scores, unit_rows
from verisphere.vocabulary import Progress, quietly
from verisphere.workflows.align import Skipped

Pixels = UInt8[np.ndarray, "_ _ 3"]  # RGB; each photograph of a size of its own
SHOWN = 5  # photographs that a note names
BATCH = 16  # photographs decoded and searched for faces at a time


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


@dataclass(frozen=True)
class Verification:
    """What a comparison came to.

    Attributes:
        same: more than half of the comparisons passed (of one comparison: it passed).
        score: the score itself; of several the lower median, which is above the threshold iff more than half are.
        threshold: what it was held against, with its guarantee.
        meaning: the guarantee in words.
        comparisons: photographs of one side times those of the other.
        passed: how many scored above the threshold.
    """

    same: bool
    score: float
    threshold: GuaranteedThreshold
    meaning: str
    comparisons: int
    passed: int
    left: Person
    right: Person
    model: str

    def text(self) -> str:
        """The answer, the score, the threshold and its meaning; then what was left out."""
        answer = "same person" if self.same else "different people"
        sign = ">" if self.same else "<="
        digits = _digits_apart(self.score, self.threshold.threshold)
        score = f"score {self.score:.{digits}f} {sign} threshold {self.threshold.threshold:.{digits}f}"
        if self.comparisons > 1:
            score = f"{self.passed} of {self.comparisons} comparisons pass, median {score}"
        lines = [f"{answer}: {score}", self.meaning, *([SETS] if self.comparisons > 1 else [])]
        return "\n".join([*lines, *_notes(self.left), *_notes(self.right)])

    def json(self) -> str:
        """The same as JSON."""
        return json_text(self)


@dataclass(frozen=True)
class Match:
    """A person of the gallery whose photographs pass."""

    name: str
    score: float
    passed: int
    comparisons: int


@dataclass(frozen=True)
class Identification:
    """Who of a gallery a probe shows.

    Attributes:
        matches: the people that pass, best score first, at most as many as were asked for.
        passing: how many people pass in all.
        best: the best of those that do not pass, to show how near the threshold they came; None where all pass.
        people: people in the gallery with a photograph that took part.
        left_out: people of the gallery none of whose photographs could be used.
    """

    matches: tuple[Match, ...]
    passing: int
    best: Match | None
    people: int
    left_out: tuple[str, ...]
    threshold: GuaranteedThreshold
    meaning: str
    probe: Person
    skipped: tuple[Skipped, ...]
    model: str

    def text(self) -> str:
        """The matches as a table, or 'nobody', with what the threshold means for a gallery of this size."""
        if self.matches:
            rows = [
                [match.name, number(match.score), f"{match.passed} / {match.comparisons}"] for match in self.matches
            ]
            answer = table(["person", "score", "comparisons that pass"], rows)
            if self.passing > len(self.matches):
                answer += f"\nand {self.passing - len(self.matches)} more"
        else:
            near = f"; nearest: {self.best.name}, score {self.best.score:.4f}" if self.best else ""
            answer = f"nobody: no score above the threshold {self.threshold.threshold:.4f}{near}"
        lines = [answer, self.meaning, self._gallery_note(), *_notes(self.probe)]
        lines += _some([f"{one.name} ({one.reason})" for one in self.skipped], "skipped")
        lines += _some(self.left_out, "left out, as none of their photographs can be used")
        return "\n".join(lines)

    def _gallery_note(self) -> str:
        wrong = float(self.threshold.far_target) * self.people
        return (
            f"{self.people} people were compared: at a false accept rate of {self.threshold.far_target} a comparison, "
            f"a stranger passes as {wrong:.3g} of them on average (up to twice that where people have several photos)"
        )

    def json(self) -> str:
        """The same as JSON."""
        return json_text(self)


SETS = (
    "sets of photographs are the same person iff more than half of all comparisons pass; two different people's do at "
    "most twice as often as one comparison"
)


def verify(
    left: Path, right: Path, model: Model, find: FindFaces, *, far: Far | None = None, progress: Progress = quietly
) -> Verification:
    """Decide whether two photographs, or two folders or archives of one person's photographs each, show one person.

    Args:
        left: an image file, or a folder or zip archive of them.
        right: the other.
        model: with its threshold.
        find: how a face is got out of a photograph.
        far: which of the model's thresholds; needed where it has several.
        progress: shown over the photographs.

    Raises:
        FileNotFoundError: one of them is not there.
        ValueError: no photograph of one side shows a face; or the model has no such threshold.
    """
    threshold = model.threshold(None if far is None else str(far))
    (one, first), (other, second) = (_person(path, model, find, progress) for path in (left, right))
    scores = _scores(first, second)
    passed = int((scores > threshold.threshold).sum())
    score = lower_median(scores)
    return Verification(
        same=score > threshold.threshold,
        score=score,
        threshold=threshold,
        meaning=threshold.meaning(),
        comparisons=len(scores),
        passed=passed,
        left=one,
        right=other,
        model=str(model.folder),
    )


def identify(
    probe: Path,
    gallery: Path,
    model: Model,
    find: FindFaces,
    *,
    far: Far | None = None,
    top: int = 5,
    progress: Progress = quietly,
) -> Identification:
    """Find who of a gallery a probe shows: the people whose photographs pass the threshold, best first, or nobody.

    A person with several photographs passes, and is ranked, as in `verify`.

    Args:
        probe: an image file, or a folder or archive of one person's photographs.
        gallery: folder or zip archive with a folder of photographs a person.
        model: with its threshold.
        find: how a face is got out of a photograph.
        far: which of the model's thresholds; needed where it has several.
        top: how many matches to list.
        progress: shown over the photographs.

    Raises:
        FileNotFoundError: one of them is not there.
        ValueError: no face in the probe, or in any photograph of the gallery; images outside a person's folder.
    """
    if top < 1:
        raise ValueError(f"top must be at least 1, got {top}")
    threshold = model.threshold(None if far is None else str(far))
    person, rows = _person(probe, model, find, progress)
    files = image_files(gallery, "Name/image.jpg")
    owners = [_owner(name, gallery) for name in files.names]
    unread_owners = {name.rpartition("/")[0] for name in files.unread} - {""}
    seen = _seen(files.names, _contents(files), find, progress)
    used = [index for index, look in enumerate(seen) if look.pixels is not None]
    if not used:
        raise ValueError(f"{gallery}: none of its {len(seen)} photographs can be used; {_first(files.names, seen)}")
    enrolled = _embed(model, seen)
    matches = []
    for name in sorted({owners[index] for index in used}):
        own = np.array([owners[index] == name for index in used])
        scores = _scores(rows, enrolled[own])
        matches.append(Match(name, lower_median(scores), int((scores > threshold.threshold).sum()), len(scores)))
    matches.sort(key=lambda match: -match.score)
    passing = [match for match in matches if match.score > threshold.threshold]
    return Identification(
        matches=tuple(passing[:top]),
        passing=len(passing),
        best=matches[len(passing)] if len(passing) < len(matches) else None,
        people=len(matches),
        left_out=tuple(sorted({*owners, *unread_owners} - {owners[index] for index in used})),
        threshold=threshold,
        meaning=threshold.meaning(),
        probe=person,
        skipped=(*_skipped(files.names, seen), *_unread(files)),
        model=str(model.folder),
    )


def lower_median(scores: Float64[np.ndarray, " scores"]) -> float:
    """The middle score, the lower one of two: above a threshold iff more than half of the scores are.

    >>> lower_median(np.array([0.1, 0.9, 0.4, 0.6]))
    0.4
    """
    return float(np.sort(scores)[(len(scores) - 1) // 2])


def _digits_apart(score: float, threshold: float) -> int:
    """Digits at which two numbers look different, 4 where that is enough."""
    return next((digits for digits in (4, 6, 9, 12) if f"{score:.{digits}f}" != f"{threshold:.{digits}f}"), 17)


def _owner(name: str, gallery: Path) -> str:
    folder, _, _ = name.rpartition("/")
    if not folder:
        raise ValueError(f"{gallery}: {name!r} lies in no person's folder; a gallery has one folder a person")
    return folder


def _scores(
    left: Float32[np.ndarray, "left dim"], right: Float32[np.ndarray, "right dim"]
) -> Float64[np.ndarray, " pairs"]:
    """Score of every row of one side with every row of the other."""
    units = unit_rows(np.concatenate([left, right]))
    first, second = torch.meshgrid(torch.arange(len(left)), len(left) + torch.arange(len(right)), indexing="ij")
    return pair_scores(units, first.flatten(), second.flatten()).numpy()


def _person(
    path: Path, model: Model, find: FindFaces, progress: Progress
) -> tuple[Person, Float32[np.ndarray, "photos dim"]]:
    names: Sequence[str]
    unread: tuple[Skipped, ...] = ()
    if path.is_dir() or path.suffix.lower() == ".zip":
        files = image_files(path)
        names, seen, unread = files.names, _seen(files.names, _contents(files), find, progress), _unread(files)
    else:
        names, seen = [path.name], _seen([path.name], [partial(_read, path)], find, quietly)
    if all(look.pixels is None for look in seen):
        count = f"none of its {len(seen)} photographs can be used; " if len(seen) > 1 else ""
        raise ValueError(f"{path}: {count}{_first(names, seen) if count else seen[0].reason}")
    person = Person(
        name=str(path),
        photos=tuple(name for name, look in zip(names, seen, strict=True) if look.pixels is not None),
        skipped=(*_skipped(names, seen), *unread),
        with_several_faces=tuple(name for name, look in zip(names, seen, strict=True) if look.faces > 1),
    )
    return person, _embed(model, seen)


def _embed(model: Model, seen: Sequence[Look]) -> Float32[np.ndarray, "photos dim"]:
    return model.embed(np.stack([look.pixels for look in seen if look.pixels is not None]))


def _skipped(names: Sequence[str], seen: Sequence[Look]) -> tuple[Skipped, ...]:
    return tuple(Skipped(name, look.reason) for name, look in zip(names, seen, strict=True) if look.pixels is None)


def _unread(files: ImageFiles) -> tuple[Skipped, ...]:
    return tuple(Skipped(name, why_unread(name)) for name in files.unread)


def _first(names: Sequence[str], seen: Sequence[Look]) -> str:
    return f"the first, {names[0]}: {seen[0].reason}"


def _contents(files: ImageFiles) -> list[Callable[[], bytes]]:
    return [partial(_content, files, position) for position in range(len(files.names))]


def _content(files: ImageFiles, position: int) -> bytes:
    ((_, data),) = files.read([position])
    return data


def _read(path: Path) -> bytes:
    check_file(path, "photograph or folder")
    return read_file(path, MAX_BYTES)


def _seen(
    names: Sequence[str], contents: Sequence[Callable[[], bytes]], find: FindFaces, progress: Progress
) -> list[Look]:
    """What each photograph shows; a batch of photographs is in memory at a time."""
    seen: list[Look] = []
    waiting: list[tuple[int, str, Pixels]] = []

    def search() -> None:
        looks = find([pixels for _, _, pixels in waiting], [name for _, name, _ in waiting])
        for (place, _, _), look in zip(waiting, looks, strict=True):
            seen[place] = look
        waiting.clear()

    for name, content in progress(zip(names, contents, strict=True), "looking for faces", len(names)):
        try:
            waiting.append((len(seen), name, decode(content(), name)))
            seen.append(Look(None, 0))  # until it has been searched
        except ValueError as error:
            seen.append(Look(None, 0, str(error).removeprefix(f"{name}: ")))
        if len(waiting) == BATCH:
            search()
    if waiting:
        search()
    return seen


def _notes(person: Person) -> list[str]:
    several = _some(person.with_several_faces, "with several faces, the most central taken")
    return [*several, *_some([f"{one.name} ({one.reason})" for one in person.skipped], "skipped")]


def _some(items: Sequence[str], what: str) -> list[str]:
    """One line for the first few of them, and how many more there are."""
    if not items:
        return []
    more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return [f"{what}: {', '.join(items[:SHOWN])}{more}"]
