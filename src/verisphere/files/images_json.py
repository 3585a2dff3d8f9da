"""images.json: a record of the images in a folder or archive, written beside them by `render` and `align`.

A training or calibration on these images copies the record to the model, so that a user of the model's threshold can
read on which images it was set. Sets from elsewhere have no such file; the origin of their images is then unknown.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from verisphere.files.class_paths import present_name
from verisphere.files.disk import read_file, real_path, regular
from verisphere.files.documents import read_json
from verisphere.files.json_values import from_json
from verisphere.vocabulary import ImageSource

NAME = "images.json"
#: The record for images of `verisphere.images.SyntheticFaces`.
SYNTHETIC = ImageSource("verisphere.images.SyntheticFaces", drawn=True, alignment="the place they are drawn at")
FORMAT = 1
_MOST_BYTES = 2**16  # bytes
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class _Content:
    """The fields of the file.

    Attributes:
        format: version of the format.
        drawn: whether a renderer drew the images, of people who do not exist; None if unknown.
        alignment: template and finder of the landmarks; None if unknown.
    """

    format: int
    drawn: bool | None
    alignment: str | None


def images_json(drawn: bool | None, alignment: str | None) -> str:
    """The text of `images.json`.

    Args:
        drawn: whether a renderer drew the images, of people who do not exist; None if unknown.
        alignment: template and finder of the landmarks, such as `arcface_112x112 by MTCNN`.
    """
    return json.dumps({"format": FORMAT, "drawn": drawn, "alignment": alignment}, indent=2) + "\n"


def read_source(path: Path, names: Sequence[str]) -> ImageSource:
    """The source of the images of a folder, archive, list, or of one image file.

    `images.json` describes all images below its folder. It is searched for from the folder that holds the folders of
    the images, which may be a domain's, or from the folder of the images if they have but one, upward to the folder
    above that of the set or image; the innermost file counts. Parts of a set that were aligned differently are stated
    together: `arcface_112x112+sphereface_112x96 by MTCNN`.

    Args:
        path: folder, zip archive, list, or image file.
        names: paths of the images, below the folder, in the archive, or in the list; the name of the image file.

    Returns:
        the source; without such a file, only its name is known.
    """
    packed = path.suffix.lower() == ".zip" and not path.is_dir()
    root = path if packed or path.is_dir() else path.parent
    inner = {os.path.dirname(name) for name in names} or {""}
    if len(inner) > 1:
        inner = {os.path.dirname(folder) for folder in inner}
    above = [os.pardir] if path.is_dir() or tuple(names) == (path.name,) else []
    chains = [[folder, *map(str, PurePath(folder).parents)] if folder else [""] for folder in inner]
    files = [[NAME if folder in ("", ".") else f"{folder}/{NAME}" for folder in chain + above] for chain in chains]
    texts = (_packed_texts if packed else _texts)(root, {file for chain in files for file in chain})
    innermost = {next((file for file in chain if file in texts), "") for chain in files} - {""}
    place = real_path(path).name
    return _together(place, [_parsed(texts[file], place, root / file) for file in sorted(innermost)])


def _together(place: str, parts: Sequence[ImageSource]) -> ImageSource:
    """The source of a set whose parts have these; what nothing is recorded of counts as the rest."""
    drawn = {part.drawn for part in parts} or {None}
    recorded = sorted({part.alignment for part in parts if part.alignment is not None})
    if len(recorded) > 1:
        templates = {word for alignment in recorded if (word := ImageSource(place, None, alignment).template)}
        finders = {alignment.partition(" by ")[2] for alignment in recorded} - {""}
        recorded = [" by ".join("+".join(sorted(words)) for words in (templates, finders) if words)]
    return ImageSource(place, True if True in drawn else None if None in drawn else False, *recorded)


def described_source(description: Mapping[str, Any]) -> ImageSource:
    """The source of the images of a data set in a recipe, for trainings by versions that did not record sources.

    Args:
        description: `class_path` and `init_args`; a set can contain another one, as `ByLight` does.
    """
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
        raise ValueError(f"{file}: not what `verisphere align` or `render` writes: {error}") from None
    return ImageSource(place, content.drawn, content.alignment)


def _texts(root: Path, names: Collection[str]) -> dict[str, bytes]:
    """The files of these names below a folder that exist."""
    return {name: read_file(root / name, _MOST_BYTES) for name in names if (root / name).is_file()}


def _packed_texts(root: Path, names: Collection[str]) -> dict[str, bytes]:
    """The entries of these names in an archive."""
    try:
        with open(root, "rb", opener=regular) as opened, zipfile.ZipFile(opened) as archive:
            entries = [info for info in archive.infolist() if info.filename in names]
            for info in entries:
                if info.file_size > _MOST_BYTES:
                    raise ValueError(
                        f"{root / info.filename}: {info.file_size:,} bytes, more than the {_MOST_BYTES:,} allowed"
                    )
            return {info.filename: archive.read(info) for info in entries}
    except _DAMAGE as error:
        raise ValueError(f"{root / NAME}: cannot be read from the archive ({error})") from None
