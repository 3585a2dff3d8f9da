"""Packs that any file manager opens: a folder or a zip archive with one folder per person, with or without domains."""

import logging
import os
import stat
import zipfile
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from operator import methodcaller
from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import NOBODY
from verisphere.files.archives import archive_entries
from verisphere.files.disk import regular
from verisphere.files.errors import Fault
from verisphere.files.image_suffixes import MAX_BYTES, SUFFIXES, why_unread
from verisphere.files.images_json import read_source
from verisphere.files.json_values import shown
from verisphere.images.packs.columns import Coded, Texts, coded
from verisphere.images.packs.image_files import (
    counted,
    damaged_entries,
    entry_faults,
    image_files,
    is_hidden,
)
from verisphere.images.packs.manifest import Manifest, manifest_path, read_manifest
from verisphere.images.packs.pack import Format, Pack, Row

log = logging.getLogger(__name__)

_LONGEST_END = 22 + (1 << 16) - 1  # bytes of the record with which an archive ends, and of the longest comment
_PARTS = methodcaller("split", "/")  # of a path; those of all images at once would take five times their names
_MOST_LEVELS = 16  # levels of folders; a link that points back at a folder above it ends here


def read_folder(path: Path) -> Pack:
    """The images of `Name/image.jpg`, or `domain/Name/image.jpg`, in a folder or a zip archive, sorted by path.

    Folders that all images share are skipped. A manifest of `verisphere data convert` states the order, and what the
    paths do not have.
    """
    files = image_files(path, "Name/image.jpg")
    if files.unread:
        _warn_of_unread(path, counted(files.unread))
    shared = _shared_levels(files.names)
    depth = files.names[0].count("/") + 1 - shared
    for name in files.names:
        if name.count("/") + 1 - shared != depth or depth not in (2, 3):
            raise ValueError(f"{path}: {name!r} {_DEPTH}")
    pack = Pack(
        path,
        "folder" if path.is_dir() else "zip",
        Texts.of("/".join(split[shared:]) for split in map(_PARTS, files.names)) if shared else files.names,
        coded(split[-2] for split in map(_PARTS, files.names)),
        files,
        read_source(path, files.names),
        coded(split[shared] for split in map(_PARTS, files.names)) if depth == 3 else None,
    )
    manifest = read_manifest(path, len(pack), must_agree=False)
    return replace(pack, source_by_path=True) if manifest is None else _completed(pack, manifest)


@cache  # the images of training and of validation often come from one place
def _warn_of_unread(path: Path, what: str) -> None:
    log.warning("%s: %s", path, what)


_DEPTH = (
    "is not Name/image: images lie in one folder a person, all at one depth; with domains it is domain/Name/image, "
    "again all at one depth"
)


def _shared_levels(names: Sequence[str]) -> int:
    """The number of folders above that of a person, or of a domain, that all images share."""
    levels, first = 0, names[0].split("/")
    while all(len(split) > levels + 2 and split[levels] == first[levels] for split in map(_PARTS, names)):
        levels += 1
    return levels


def _completed(pack: Pack, manifest: Manifest) -> Pack:
    about = manifest_path(pack.path)
    if all(column is None for column in (manifest.files, manifest.names, manifest.people, manifest.domains)):
        return replace(pack, source=manifest.source)  # images may then be added and removed by hand
    if manifest.images != len(pack):
        raise ValueError(f"{about}: it states {manifest.images:,} images, but {pack.path.name} has {len(pack):,}")
    if manifest.files is not None:
        place = {path: position for position, path in enumerate(pack.files.names)}
        if missing := [path for path in manifest.files if path not in place]:
            raise ValueError(f"{about}: {shown(missing[0], 200)} is not in {pack.path.name}")
        pack = pack.keep(np.array([place[path] for path in manifest.files], np.int64))
    identities = pack.identities if manifest.people is None else _people(about, pack.identities, manifest.people)
    return replace(
        pack,
        names=pack.names if manifest.names is None else manifest.names,
        identities=identities,
        domains=pack.domains if manifest.domains is None else coded(manifest.domains),
        source=manifest.source,
    )


def _people(about: Path, folders: Sequence[str], people: Sequence[str]) -> Coded:
    """The identities whose numbers are the names of folders."""
    column = coded(folders)
    for folder in column.values:
        number = folder.isascii() and folder.isdigit() and len(folder) < 19
        if folder != NOBODY and not (number and int(folder) < len(people)):
            raise ValueError(
                f"{about}: it numbers {len(people):,} people from 0, but the folder {shown(folder, 200)} is there"
            )
    return Coded(tuple(NOBODY if folder == NOBODY else people[int(folder)] for folder in column.values), column.codes)


# --- faults ---


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The pack; every fault of a folder or an archive, or, if there is none, the error that prevents opening it."""
    any_fault = False
    for fault in (_faults_in_folder if path.is_dir() else _faults_in_archive)(path) if thorough else ():
        any_fault = True
        yield fault
    return None if any_fault else read_folder(path)


def _faults_in_folder(path: Path) -> Iterator[Fault]:
    names: list[str] = []
    for name, is_folder, reason in _walked(path, "", 0):
        if reason:
            yield Fault(str(path / name), name, None, reason)
        elif not is_folder and _is_image(name):
            names.append(name)
    yield from _wrong_depths(path, names, {})


def _walked(root: Path, below: str, depth: int) -> Iterator[tuple[str, bool, str]]:
    """Each visible file and folder: its path below the root, whether it is a folder, and its fault."""
    if depth > _MOST_LEVELS:
        yield below, True, f"folders {depth} levels deep; does a link point back at a folder above it?"
        return
    try:
        with os.scandir(root / below) as entries:
            seen = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)
    except OSError as error:
        yield below, True, f"cannot be read ({error.strerror})"
        return
    if depth and not seen:
        yield below, True, "an empty folder; the folder of a person has an image or more"
    for entry in seen:
        inside = f"{below}/{entry.name}" if below else entry.name
        try:
            is_folder = entry.is_dir()
        except OSError as error:  # a circle of links
            yield inside, False, f"cannot be read ({error.strerror})"
            continue
        if is_folder:
            yield inside, True, ""
            yield from _walked(root, inside, depth + 1)
        else:
            yield inside, False, _wrong_file(root / inside, inside) if _is_image(inside) else ""


def _is_image(name: str) -> bool:
    return name.lower().endswith(SUFFIXES) and not why_unread(name)


def _wrong_file(path: Path, name: str) -> str:
    """The fault of an image file, as far as it shows without reading the file; empty if there is none."""
    try:
        name.encode()
        about = path.stat()
    except UnicodeEncodeError:
        return "the name of the file is not UTF-8; rename the file"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not stat.S_ISREG(about.st_mode):
        return "a pipe, a socket or a device, not a regular file"
    if not os.access(path, os.R_OK):
        return "cannot be read (Permission denied)"
    if about.st_size > MAX_BYTES:
        return f"{about.st_size:,} bytes, more than the {MAX_BYTES:,} allowed for an image file"
    return "" if about.st_size else "the file is empty"


def _faults_in_archive(path: Path) -> Iterator[Fault]:
    yield from _behind_the_end(path)
    size, sound, first, at_offset = path.stat().st_size, [], dict[str, int](), dict[int, str]()
    for info in archive_entries(path):
        reasons = list(entry_faults(info, size))
        if info.filename in first:
            reasons.append(f"a second entry of this name; the first lies at byte {first[info.filename]}")
        elif info.header_offset in at_offset:
            reasons.append(f"lies at the byte at which the entry {shown(at_offset[info.header_offset], 200)} lies")
        first.setdefault(info.filename, info.header_offset)
        at_offset.setdefault(info.header_offset, info.filename)
        if not info.file_size and _is_image(info.filename) and not is_hidden(info.filename):
            reasons.append("the file is empty")
        yield from (Fault(str(path), info.filename, info.header_offset, reason) for reason in reasons)
        if not reasons and not is_hidden(info.filename):
            sound.append(info)
    for info, reason in damaged_entries(path, sound):
        yield Fault(str(path), info.filename, info.header_offset, reason)
    yield from _wrong_depths(path, [info.filename for info in sound if _is_image(info.filename)], first)


def _behind_the_end(path: Path) -> Iterator[Fault]:
    """Bytes behind the end record of an archive, which has 22 bytes; its last two state the length of a comment."""
    with open(path, "rb", opener=regular) as file:
        size = file.seek(0, os.SEEK_END)
        begin = file.seek(max(size - _LONGEST_END, 0))
        tail = file.read()
    record = tail.rfind(b"PK\x05\x06")
    end = begin + record + 22 + int.from_bytes(tail[record + 20 : record + 22], "little")
    if record >= 0 and end < size:
        yield Fault(str(path), "", end, f"{size - end:,} bytes behind the end of the archive")


def _wrong_depths(path: Path, names: Sequence[str], offsets: dict[str, int]) -> Iterator[Fault]:
    """A fault for every image that does not lie at the depth at which most images lie."""
    if not names:
        return
    depths = Counter(name.count("/") + 1 for name in names)
    usual = depths.most_common(1)[0][0]
    right = usual - _shared_levels([name for name in names if name.count("/") + 1 == usual]) in (2, 3)
    for name in names:
        if not right or name.count("/") + 1 != usual:
            yield Fault(str(path), name, offsets.get(name), _DEPTH)


# --- writing ---


def write_folder(path: Path, rows: Iterable[Row]) -> None:
    """Write files by their names into a new folder."""
    path.mkdir()
    made: set[str] = set()
    for row in rows:
        folder = row.name.rpartition("/")[0]
        if folder not in made:
            (path / folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        with open(path / row.name, "xb") as file:
            file.write(row.data)


def write_archive(path: Path, rows: Iterable[Row]) -> None:
    """Write files by their names into a new archive."""
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as archive:
        for row in rows:
            entry = zipfile.ZipInfo(row.name)  # of 1980, so that equal images make equal archives
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, row.data)


_LOOKS = "Name/image.jpg, or domain/Name/image.jpg"
FOLDER = Format("folder", f"a folder with {_LOOKS}", Path.is_dir, _contents, write_folder, by_path=True)
ZIP = Format(
    "zip",
    f"a .zip archive with {_LOOKS}",
    lambda path: path.suffix.lower() == ".zip" and not path.is_dir(),
    _contents,
    write_archive,
    ".zip",
    by_path=True,
)
