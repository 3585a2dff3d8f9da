"""images.json: a record of the images in a folder or archive, written beside them by `render` and `align`.

A training or calibration on these images copies the record to the model, so that a user of the model's threshold can
read on which images it was set. Sets from elsewhere have no such file; the origin of their images is then unknown.
"""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
    """The source of the images of a folder, archive or list.

    `images.json` describes all images below its folder. It is searched for in every folder that all of the images
    share, from the folder of the set downward, and in the folder above that of the set; the innermost file counts.

    Args:
        path: folder, zip archive, or list.
        names: paths of the images, below the folder, in the archive, or in the list.

    Returns:
        the source; without such a file, only its name is known.
    """
    packed = path.suffix.lower() == ".zip" and not path.is_dir()
    root = path if packed or path.is_dir() else path.parent
    shared = _shared_folder(names)
    folders = ["/".join(shared[:depth]) for depth in range(len(shared), -1, -1)]
    if not packed:
        folders += [os.pardir] if path.is_dir() else []
    place = real_path(path).name
    for folder in folders:
        name = f"{folder}/{NAME}" if folder else NAME
        text = _content(root, name)
        if text is not None:
            return _parsed(text, place, root / name)
    return ImageSource(place)


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


def _shared_folder(names: Sequence[str]) -> tuple[str, ...]:
    """Names of the folders, from the top, that contain all images."""
    try:
        shared = os.path.commonpath({os.path.dirname(name) for name in names})
    except ValueError:  # no images, or absolute paths among relative ones
        return ()
    return tuple(shared.split("/")) if shared else ()


def _parsed(text: bytes, place: str, file: Path) -> ImageSource:
    try:
        content = from_json(_Content, read_json(text.decode("utf-8")))
        if content.format != FORMAT:
            raise ValueError(f"its format is {content.format}, this version reads {FORMAT}")
    except ValueError as error:
        raise ValueError(f"{file}: not what `verisphere align` or `render` writes: {error}") from None
    return ImageSource(place, content.drawn, content.alignment)


def _content(root: Path, name: str) -> bytes | None:
    """A small file below a folder or in an archive; None if it does not exist."""
    if root.is_dir():
        file = root / name
        if not file.is_file():
            return None
        return read_file(file, _MOST_BYTES)
    try:
        with open(root, "rb", opener=regular) as opened, zipfile.ZipFile(opened) as archive:
            entries = {info.filename: info for info in archive.infolist() if info.filename == name}
            if name not in entries:
                return None
            size = entries[name].file_size
            if size > _MOST_BYTES:
                raise ValueError(f"{root / name}: {size:,} bytes, more than the {_MOST_BYTES:,} allowed")
            return archive.read(entries[name])
    except _DAMAGE as error:
        raise ValueError(f"{root / name}: cannot be read from the archive ({error})") from None
