"""images.json: a record of the images in a folder or archive, written beside them by `data render` and `align`."""

import json
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from verisphere.base.provenance import DRAWN_IN_PLACE, GIVEN_LANDMARKS
from verisphere.base.vocabulary import ImageSource
from verisphere.files.archives import archive_entries, numbers_of, read_entry
from verisphere.files.class_paths import present_name
from verisphere.files.disk import read_file, real_path, regular
from verisphere.files.documents import read_json
from verisphere.files.json_values import from_json

NAME = "images.json"
#: The record for images of `verisphere.images.SyntheticFaces`.
SYNTHETIC = ImageSource("verisphere.images.SyntheticFaces", drawn=True, alignment=DRAWN_IN_PLACE)
FORMAT = 1
_MOST_BYTES = 2**16  # bytes
_FOLDERS = 1 << 12  # whose answer is remembered


@dataclass(frozen=True)
class _Content:
    """The fields of the file; None for what is unknown."""

    format: int
    drawn: bool | None
    alignment: str | None


def images_json(drawn: bool | None, alignment: str | None) -> str:
    """The text of `images.json`; None for what is unknown."""
    return json.dumps({"format": FORMAT, "drawn": drawn, "alignment": alignment}, indent=2) + "\n"


def read_source(path: Path, names: Sequence[str]) -> ImageSource:
    """The source of the images of a folder, archive or list, or of an image file; without such a file, its name alone.

    For each image the file in the nearest folder above it counts, also above the folder of the set. Parts that were
    aligned differently are stated together: `arcface_112x112+sphereface_112x96 by MTCNN`.
    """
    packed = path.suffix.lower() == ".zip" and not path.is_dir()
    root = str(real_path(path) if path.is_dir() else real_path(path.parent))
    every = archive_entries(path) if packed else ()
    entries = {info.filename: info for info in every if os.path.basename(info.filename) == NAME}
    folders = map(os.path.dirname, names or ("",))  # those of a set that is sorted come one after another

    @lru_cache(_FOLDERS)
    def nearest(folder: str, has_images: bool = False) -> str | None:
        file, outer = os.path.join(folder, NAME), os.path.dirname(folder)
        # far above a set such a file may be of something else
        of_set = has_images or folder == root or folder.startswith(os.path.join(root, ""))
        if os.path.isfile(file) and (of_set or _is_ours(Path(file))):
            return file
        return None if outer == folder else nearest(outer)

    @lru_cache(_FOLDERS)
    def beside(folder: str) -> str | None:
        return nearest(os.path.realpath(os.path.join(root, folder)), True)

    @lru_cache(_FOLDERS)
    def packed_nearest(folder: str) -> str | None:
        file = os.path.join(folder, NAME)
        if file in entries:
            return file
        return packed_nearest(os.path.dirname(folder)) if folder else nearest(root)

    files = set(map(packed_nearest if packed else beside, folders))
    place, parts = real_path(path).name, []
    for file in sorted(filter(None, files)):
        if file in entries:
            parts.append(_parsed(_packed_text(path, file, entries[file]), place, path / file))
        else:
            parts.append(_parsed(read_file(Path(file), _MOST_BYTES), place, Path(file)))
    return joint_source(place, parts)


def _is_ours(file: Path) -> bool:
    """Whether a file of this name, which may belong to anything above a set, is such a record."""
    try:
        return file.is_file() and bool(_parsed(read_file(file, _MOST_BYTES), "", file))
    except (OSError, ValueError):
        return False


def joint_source(place: str, parts: Sequence[ImageSource]) -> ImageSource:
    """The source of a set whose parts have these; what nothing is recorded of counts as the rest.

    Alignments without a template come first, so that the joined one has none: that of some images is unknown. Given
    landmarks come last, so that the detectors before them are compared.
    """
    drawn = {part.drawn for part in parts} or {None}
    recorded = sorted({part.alignment for part in parts if part.alignment is not None})
    if len(recorded) > 1:
        without = {DRAWN_IN_PLACE for alignment in recorded if alignment.startswith(DRAWN_IN_PLACE)}
        rest = [alignment.removeprefix(DRAWN_IN_PLACE).removeprefix(" and ") for alignment in recorded]
        parted = [alignment.partition(" by ") for alignment in rest]
        both = _each_once({template for template, *_ in parted}), _each_once({finder for *_, finder in parted})
        recorded = [" and ".join(filter(None, [*without, " by ".join(filter(None, both))]))]
    return ImageSource(place, True if True in drawn else None if None in drawn else False, *recorded)


def _each_once(words: set[str]) -> str:
    """Templates or finders as one text; some of several may be joined already, and given landmarks are one word."""
    if len(words) > 1:
        parts = [part for word in words for part in re.split(rf"\+(?={GIVEN_LANDMARKS})", word)]
        words = {one for part in parts for one in ([part] if part.startswith(GIVEN_LANDMARKS) else part.split("+"))}
    return "+".join(sorted(filter(None, words), key=lambda word: (word.startswith(GIVEN_LANDMARKS), word)))


def described_source(description: Mapping[str, Any]) -> ImageSource:
    """The source of the images of a described set, or of the set inside it, for trainings that recorded none."""
    arguments = description.get("init_args")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    inner = [value for value in arguments.values() if isinstance(value, Mapping) and "class_path" in value]
    sources = [described_source(data_set) for data_set in inner]
    place = present_name(str(description.get("class_path", "")))
    if place.startswith("verisphere.images.") and place.endswith(".SyntheticFaces"):
        return SYNTHETIC
    if any(source.drawn for source in sources):
        return next(source for source in sources if source.drawn)
    if sources:
        return sources[0]
    path = arguments.get("path")
    return ImageSource(Path(path).name if isinstance(path, str) else place)


def _parsed(text: bytes, place: str, file: Path) -> ImageSource:
    try:
        content = from_json(_Content, read_json(text.decode("utf-8")))
        if content.format != FORMAT:
            raise ValueError(f"its format is {content.format}, this version reads {FORMAT}")
    except ValueError as error:
        raise ValueError(f"{file}: not what `verisphere align` or `data render` writes: {error}") from None
    return ImageSource(place, content.drawn, content.alignment)


def _packed_text(archive: Path, file: str, entry: zipfile.ZipInfo) -> bytes:
    if entry.file_size > _MOST_BYTES:
        size = entry.file_size
        raise ValueError(f"{archive / file}: {size:,} bytes, more than the {_MOST_BYTES:,} allowed")
    with open(archive, "rb", opener=regular) as opened:
        return read_entry(opened.fileno(), str(archive / file), *numbers_of(entry))
