"""Packs that any file manager opens: a folder or a zip archive with one folder a person, in domains or without."""

import logging
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from verisphere.files.images_json import read_source
from verisphere.packs.image_files import counted, image_files
from verisphere.packs.pack import Fault, Format, Pack

log = logging.getLogger(__name__)


def read_folder(path: Path) -> Pack:
    """The images of `Name/image.jpg`, or `domain/Name/image.jpg`, in a folder or a zip archive, sorted by path.

    Folders that all images share are skipped. Hidden files and files without an image suffix are skipped; photographs
    in formats that are not read are skipped with a warning.

    Raises:
        ValueError: no image is found, the images do not all lie at one depth below a person's folder, or an archive is
            malformed.
    """
    files = image_files(path, "Name/image.jpg")
    if files.unread:
        _warn_of_unread(path, counted(files.unread))
    parts = [name.split("/") for name in files.names]
    shared = _shared_levels(parts)
    depth = len(parts[0]) - shared
    for name, split in zip(files.names, parts, strict=True):
        if len(split) - shared != depth or depth not in (2, 3):
            raise ValueError(
                f"{path}: {name!r} is not Name/image: images lie in one folder a person, all at one depth; with "
                "domains it is domain/Name/image, again all at one depth"
            )
    return Pack(
        path,
        "folder" if path.is_dir() else "zip",
        tuple("/".join(split[shared:]) for split in parts),
        tuple(split[-2] for split in parts),
        files,
        read_source(path, files.names),
        tuple(split[shared] for split in parts) if depth == 3 else None,
    )


@cache  # the images of training and of validation often come from one place
def _warn_of_unread(path: Path, what: str) -> None:
    log.warning("%s: %s", path, what)


def _shared_levels(parts: Sequence[Sequence[str]]) -> int:
    """The number of folders above that of a person, or of a domain, that all images share."""
    levels, first = 0, parts[0]
    while all(len(split) > levels + 2 and split[levels] == first[levels] for split in parts):
        levels += 1
    return levels


def _faults(path: Path) -> Iterator[Fault]:
    """What keeps the folder or archive from being opened."""
    try:
        read_folder(path)
    except (ValueError, OSError) as error:
        yield Fault(str(path), "", None, str(error).removeprefix(f"{path}: "))


_LOOKS = "Name/image.jpg, or domain/Name/image.jpg"
FOLDER = Format("folder", f"a folder with {_LOOKS}", Path.is_dir, read_folder, _faults, None)
ZIP = Format(
    "zip",
    f"a .zip archive with {_LOOKS}",
    lambda path: path.suffix.lower() == ".zip" and not path.is_dir(),
    read_folder,
    _faults,
    None,
)
