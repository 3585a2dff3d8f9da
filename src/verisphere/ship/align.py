"""Aligned crops of the faces on photos, with a list that states the outcome for each photo."""

import hashlib
import io
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import Image

from verisphere.base.device import choose_device
from verisphere.base.provenance import GIVEN_LANDMARKS
from verisphere.base.vocabulary import Progress, check_word, printable, quietly
from verisphere.base.work import Arrays, divided, for_first_rank, ranges, results
from verisphere.decide import Far
from verisphere.decide.point import far_text
from verisphere.decide.sample_size import enough_people
from verisphere.files.disk import digest, refuse_overwriting, write_whole
from verisphere.files.image_suffixes import why_unread
from verisphere.files.images_json import NAME, images_json, read_source
from verisphere.files.landmarks import BOX_COLUMNS, POINT_COLUMNS, ListedFaces, read_landmarks
from verisphere.files.results import Result
from verisphere.files.tables import csv_text
from verisphere.images.detect import FaceDetector, detector_named, template_named
from verisphere.images.packs.folders import write_archive, write_folder
from verisphere.images.packs.image_files import counted, image_files
from verisphere.images.packs.pack import Row
from verisphere.ship.face_search import (
    FaceOfPhotograph,
    Pixels,
    Skipped,
    Status,
    detected_faces,
    file_contents,
    listed_faces,
    search_photographs,
)

log = logging.getLogger(__name__)

ImageFormat = Literal["png", "jpg"]

#: Names of the lists, inside the result: a line for each photo, and the photo of each crop of every face.
LIST, PHOTOGRAPHS = "align.csv", "photographs.csv"
_COLUMNS = ("name", "crop", "status", "reason", "faces", *BOX_COLUMNS, *POINT_COLUMNS, "score")

_SKIPPED_NAMED = 5  # skipped photos that the text names
_PIECE = 64  # photos of a piece of work, some seconds; no batch of them has photos of another


@dataclass(frozen=True)
class AlignResult(Result):
    """The outcome of an alignment of the photos of a folder or an archive, mostly as numbers of photos.

    On those with `several` faces the most central one was cropped. The list `skipped` has the photos that `no_face`,
    `unreadable` and `other_format` count, in the source's order; `unused` are listed with landmarks, but not there.
    People are folders with a crop.
    """

    source: str
    out: str
    template: str
    aligned: int
    several: int
    no_face: int
    unreadable: int
    other_format: tuple[str, ...]
    skipped: tuple[Skipped, ...]
    unused: tuple[str, ...] = ()
    people: int = 0
    for_far: str | None = None
    crops: int | None = None

    def text(self) -> str:
        """The counts, the first photos that were skipped, and the name of the full list."""
        lines = [
            f"{printable(self.out)}: {self.aligned:,} of {self.aligned + len(self.skipped):,} photos aligned to "
            f"{printable(self.template)}"
        ]
        if self.crops is not None:
            lines.append(f"faces: {self.crops:,}; {PHOTOGRAPHS}, in the result, says which are on one photo")
        elif self.several:
            lines.append(f"several faces, of which the most central was taken: {self.several:,}")
        if self.no_face:
            lines.append(f"skipped, no face found: {self.no_face:,}")
        if self.unreadable:
            lines.append(f"skipped as unreadable: {self.unreadable:,}")
        if self.other_format:
            lines.append(f"skipped by format: {printable(counted(self.other_format))}")
        lines += [f"  {printable(f'{photo.name}: {photo.reason}')}" for photo in self.skipped[:_SKIPPED_NAMED]]
        if len(self.skipped) > _SKIPPED_NAMED:
            lines.append(f"  and {len(self.skipped) - _SKIPPED_NAMED:,} more")
        if self.unused:
            names = f"not in {self.source}: {len(self.unused):,}, first {self.unused[0]}"
            lines.append(f"with landmarks, but {printable(names)}")
        if self.for_far is not None:
            lines.append(f"with a crop: {enough_people(self.for_far, self.people)[1]}")
        lines.append(f"{LIST}, in the result, says of every photo what became of it")
        return "\n".join(lines)


def align_photos(
    source: Path,
    out: Path,
    *,
    template: str = "arcface_112x112",
    landmarks: Path | None = None,
    detector: str | FaceDetector | None = None,
    image_format: ImageFormat = "png",
    min_face: int = 20,
    for_far: Far | None = None,
    every_face: bool = False,
    device: str | None = None,
    trust_code: bool = False,
    progress: Progress = quietly,
) -> AlignResult:
    """Finds the face on each photo and writes its crop, aligned to a template, under the path of the photo.

    A crop has the path of its photo with the suffix of its format; where paths of photos differ only in the suffix, the
    crops keep it, as in `a.jpg.png` and `a.bmp.png`. A photo that cannot be read, or shows no face, is skipped.
    The result, an archive if it ends in .zip and else a folder, appears completely or not at all.

    The ranks of a launch share the photos where `verisphere align` was launched so; PartEnded is then raised on all but
    rank 0, which writes.
    """
    check_word("image_format", image_format, ImageFormat)
    if landmarks is not None and detector is not None:
        raise ValueError("landmarks and detector are both given, and each says where the faces are; omit one")
    template_named(template)
    refuse_overwriting(out, [source, landmarks])
    if out.suffix.lower() != ".zip" and out.is_file():
        raise FileExistsError(f"{out}: a file; crops go into a folder, or into an archive whose name ends in .zip")
    files = image_files(source)
    if for_far is not None:
        enough, needed = enough_people(for_far, len(_folders(files.names)))
        log.log(logging.INFO if enough else logging.WARNING, "%s: %s", source, needed)
    suffix = f".{image_format}"
    crops = crop_names(files.names, suffix)
    drawn = read_source(source, files.names).drawn
    listed: dict[str, ListedFaces] = {} if landmarks is None else _read_listed(landmarks, files.names, source)
    if landmarks is None:
        if detector is None or isinstance(detector, str):
            detector = detector_named(
                "mtcnn" if detector is None else detector, choose_device(device), min_face, trust_code
            )
        finder, find = detector.name, detected_faces(template, detector, others=every_face)
    else:
        finder, find = (
            f"{GIVEN_LANDMARKS}{landmarks.name}",
            listed_faces(template, listed, landmarks, others=every_face),
        )
    contents = file_contents(files)
    outside, inside = (progress, quietly) if divided() else (quietly, progress)

    def compute(some: Iterable[range]) -> Iterator[Arrays]:
        chosen = [*some]
        places = [place for piece in chosen for place in piece]
        photos = [files.names[place] for place in places], [contents[place] for place in places]
        faces = iter(inside(search_photographs(*photos, find, together=_PIECE), "aligning", len(places)))
        for piece in chosen:
            outcomes, encoded = [], b""
            for place, face in zip(piece, faces, strict=False):
                lines, parts = _outcome(files.names[place], crops[place], face, suffix, every_face)
                images = [image_file(pixels, image_format) for pixels in parts]
                outcomes.append((face.faces > 1 and bool(images), lines, [*map(len, images)]))
                encoded += b"".join(images)
            text = json.dumps(outcomes).encode()
            yield {"outcomes": np.frombuffer(text, np.uint8), "crops": np.frombuffer(encoded, np.uint8)}

    def about() -> list[object]:
        known, seen = None if landmarks is None else digest(landmarks), hashlib.sha256()
        for content in contents:
            try:
                seen.update(hashlib.sha256(content()).digest())
            except ValueError as error:  # an unreadable file is skipped, and stays so
                seen.update(str(error).encode())
        how = getattr(find, "how", finder), known, template, image_format, every_face, choose_device(device).type
        return [*how, *files.names, seen.hexdigest()]

    found = for_first_rank(results("crops", about, ranges(len(crops), _PIECE), compute, outside, "aligning"))
    rows: list[tuple[str, ...]] = []
    skipped: list[Skipped] = []
    counts = Counter[str]()
    shared: list[tuple[str, str]] = []

    def cropped() -> Iterator[Row]:
        for part in found:
            data = io.BytesIO(part["crops"].tobytes())
            for several, lines, sizes in json.loads(part["outcomes"].tobytes()):
                photo, _, status, reason, *_ = lines[0]
                for (_, crop, *_), size in zip(lines, sizes, strict=False):  # a line without a crop has no size
                    yield Row(crop, "", data.read(size))
                    shared.append((crop, photo))
                if not sizes:
                    skipped.append(Skipped(photo, reason))
                rows.extend(map(tuple, lines))
                counts["several"] += several
                counts[status] += 1
        for photo in files.unread:
            skipped.append(Skipped(photo, why_unread(photo)))
            rows.append(_row_without_crop(photo, "other format", why_unread(photo)))
        skipped.sort(key=lambda photo: photo.name.split("/"))  # the source's order
        rows.sort(key=lambda row: row[0].split("/"))
        if not counts["aligned"]:
            first = f"the first, {skipped[0].name}: {skipped[0].reason}"
            raise ValueError(f"{source}: none of its {len(rows)} photos gives a crop; {first}")
        yield Row(LIST, "", csv_text(_COLUMNS, rows).encode())
        if every_face:
            yield Row(PHOTOGRAPHS, "", csv_text(("name", "photograph"), shared).encode())
        yield Row(NAME, "", images_json(drawn, f"{template} by {finder}").encode())

    write = write_archive if out.suffix.lower() == ".zip" else write_folder
    write_whole(out, lambda path: write(path, cropped()))
    return AlignResult(
        source=str(source),
        out=str(out),
        template=template,
        aligned=counts["aligned"],
        several=counts["several"],
        no_face=counts["no face"],
        unreadable=counts["unreadable"],
        other_format=tuple(files.unread),
        skipped=tuple(skipped),
        unused=tuple(sorted(set(listed) - set(files.names))),
        people=len(_folders([row[1] for row in rows if row[1]])),
        for_far=None if for_far is None else far_text(for_far),
        crops=len(shared) if every_face else None,
    )


def _folders(names: Sequence[str]) -> set[str]:
    """The folders in which files lie, by the last part of their paths, as a data set reads people."""
    return {name.split("/")[-2] for name in names if "/" in name}


def crop_names(names: Sequence[str], suffix: str) -> tuple[str, ...]:
    """The name of the crop of each photo: the path of the photo with this suffix in place of its own.

    >>> crop_names(["a/1.jpg", "a/2.jpg", "a/2.bmp"], ".png")
    ('a/1.png', 'a/2.jpg.png', 'a/2.bmp.png')
    """
    plain = [os.path.splitext(name)[0] + suffix for name in names]
    photos = Counter(plain)
    crops = tuple(short if photos[short] == 1 else name + suffix for name, short in zip(names, plain, strict=True))
    taken: dict[str, str] = {}
    for name, crop in zip(names, crops, strict=True):
        if taken.setdefault(crop, name) != name:
            raise ValueError(f"{taken[crop]!r} and {name!r} would both become {crop!r}; rename one of them")
    return crops


def _read_listed(landmarks: Path, photos: Sequence[str], source: Path) -> dict[str, ListedFaces]:
    """The faces that a landmarks file lists, at least one of them for a photo of the source."""
    listed = read_landmarks(landmarks)
    if not any(name in listed for name in photos):
        raise ValueError(
            f"{landmarks}: none of its {len(listed)} photos is in {source}; it has names like {next(iter(listed))!r}, "
            f"and there they are like {photos[0]!r}"
        )
    return listed


# --- writing ---


def image_file(pixels: Pixels, image_format: ImageFormat) -> bytes:
    """A crop as an image file."""
    data = io.BytesIO()
    if image_format == "png":
        Image.fromarray(pixels).save(data, "PNG")
    else:
        Image.fromarray(pixels).save(data, "JPEG", quality=95, subsampling=0)
    return data.getvalue()


def _outcome(
    photo: str, crop: str, face: FaceOfPhotograph, suffix: str, every_face: bool
) -> tuple[list[tuple[str, ...]], list[Pixels]]:
    """The lines of `align.csv` for a photo, and the pixels of its crops, one for each line that names one."""
    if face.pixels is None:
        return [_row_without_crop(photo, face.status, face.reason)], []
    parts = [face, *(replace(face, pixels=other.pixels, crop=other) for other in face.others)]
    numbered = [f"{crop.removesuffix(suffix)}_{number}{suffix}" for number in range(1, len(parts) + 1)]
    names = numbered if every_face else [crop]
    lines = [_row(photo, name, part) for name, part in zip(names, parts, strict=True)]
    return lines, [part.pixels for part in parts if part.pixels is not None]


def _row(photo: str, name: str, face: FaceOfPhotograph) -> tuple[str, ...]:
    """The line of `align.csv` for a photo whose crop has this name."""
    crop = face.crop
    assert crop is not None
    left, top, right, bottom = crop.box.tolist()
    places = [f"{value:.2f}" for value in (left, top, right - left, bottom - top, *crop.landmarks.flatten().tolist())]
    score = "" if math.isnan(crop.score) else f"{crop.score:.4f}"
    return (photo, name, face.status, "", str(face.faces), *places, score)


def _row_without_crop(photo: str, status: Status, reason: str) -> tuple[str, ...]:
    return (photo, "", status, reason, "0", *[""] * (len(_COLUMNS) - 5))
