"""images.json: what a folder or archive of images says of them, written beside the images by `render` and `align`.

A training or calibration on these images carries the record on to the model, so that whoever decides by the model's
threshold can read on what it was set. Sets made elsewhere have no such file; then nothing of this is known.
"""

import json
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from verisphere.data.files import read_file, real_path, regular
from verisphere.data.json_values import from_json
from verisphere.vocabulary import ImageSource

NAME = "images.json"
FORMAT = 1
_LARGEST = 2**16  # bytes
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


@dataclass(frozen=True)
class _Content:
    """The fields of the file.

    Attributes:
        format: version of the format.
        drawn: a renderer drew the images, of people who do not exist.
        alignment: template and finder of the landmarks; None where nothing is known.
    """

    format: int
    drawn: bool
    alignment: str | None


def images_json(drawn: bool, alignment: str | None) -> str:
    """The text of `images.json`.

    Args:
        drawn: a renderer drew the images, of people who do not exist.
        alignment: template and finder of the landmarks, such as `arcface_112x112 by MTCNN`.
    """
    return json.dumps({"format": FORMAT, "drawn": drawn, "alignment": alignment}, indent=2) + "\n"


def read_source(path: Path, inside: Sequence[str] = ()) -> ImageSource:
    """Where the images of a folder, archive or list come from.

    Args:
        path: folder, zip archive, or list, which lies beside the images' folders.
        inside: folders, from the top, that all images lie in; the file may lie in any of them.

    Raises:
        ValueError: `images.json` is not such a file.
    """
    place, root = real_path(path).name, path if path.is_dir() or path.suffix.lower() == ".zip" else path.parent
    for depth in range(len(inside) + 1):
        name = "/".join((*inside[:depth], NAME))
        text = _content(root, name)
        if text is not None:
            try:
                found = from_json(_Content, json.loads(text))
                if found.format != FORMAT:
                    raise ValueError(f"its format is {found.format}, this version reads {FORMAT}")
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{root / name}: not what `verisphere align` or `render` writes: {error}") from None
            return replace(ImageSource(place), drawn=found.drawn, alignment=found.alignment)
    return ImageSource(place, drawn=False)


def _content(root: Path, name: str) -> bytes | None:
    """A small file below a folder or in an archive; None where there is none."""
    if root.is_dir():
        file = root / name
        if not file.is_file():
            return None
        return read_file(file, _LARGEST)
    try:
        with open(root, "rb", opener=regular) as opened, zipfile.ZipFile(opened) as archive:
            entries = {info.filename: info for info in archive.infolist() if info.filename == name}
            if name not in entries:
                return None
            size = entries[name].file_size
            if size > _LARGEST:
                raise ValueError(f"{root / name}: {size:,} bytes, more than the {_LARGEST:,} allowed")
            return archive.read(entries[name])
    except _DAMAGE as error:
        raise ValueError(f"{root / name}: cannot be read from the archive ({error})") from None
