"""Paths of images whose format states the identity by the folder: `Name/image.jpg`, or `domain/Name/image.jpg`.

An identity can be any text, but the name of a folder cannot. If every identity can be the name of a folder on Linux,
macOS and Windows, the folders have these names; if one cannot (it is empty, begins with a dot, ends in a dot or a
space, holds a slash, a control character or one of `\\ : * ? " < > |`, is reserved on Windows, is longer than 200
bytes, or differs from another one in upper and lower case alone), all folders are numbered from 0 by first appearance,
and the manifest holds the identities. Images of nobody lie in the folder -1. The manifest likewise holds the domains if
one of them cannot be the name of a folder, or if there is only one domain: a reader would take its folder for one that
all images share.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from verisphere.base.vocabulary import NOBODY
from verisphere.files.image_suffixes import SUFFIXES, why_unread
from verisphere.images.packs.columns import Coded, coded
from verisphere.images.packs.image_files import is_hidden
from verisphere.images.packs.pack import Row

_LONGEST = 200  # bytes of a name; file systems allow 255
_NEVER = frozenset('/\\:*?"<>|')
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))]
)
_MAGIC = (
    (b"\xff\xd8\xff", ".jpg"),
    (b"\x89PNG", ".png"),
    (b"BM", ".bmp"),
    (b"P5", ".pgm"),
    (b"P6", ".ppm"),
    (b"II*\0", ".tif"),
    (b"MM\0*", ".tif"),
)


def people_of(identities: Sequence[str]) -> tuple[str, ...]:
    """The identities except `NOBODY`, each once, by first appearance.

    >>> people_of(["b", "-1", "a", "b"])
    ('b', 'a')
    """
    column = coded(identities)
    codes, first = np.unique(column.codes, return_index=True)
    return tuple(person for code in codes[first.argsort()].tolist() if (person := column.values[code]) != NOBODY)


def can_name_a_file(name: str) -> bool:
    """Whether a text can be the name of a file or a folder on every common system.

    >>> can_name_a_file("Ann Lee"), can_name_a_file("a/b"), can_name_a_file("CON"), can_name_a_file("..")
    (True, False, False, False)
    """
    return (
        name.isprintable()
        and not _NEVER & set(name)
        and not is_hidden(name)
        and name == name.strip(" ").rstrip(".")
        and name.partition(".")[0].lower() not in _RESERVED
        and 0 < len(name.encode()) <= _LONGEST
    )


def can_name_folders(names: Sequence[str]) -> bool:
    """Whether these different texts can be the names of folders beside each other."""
    return len({folded(name) for name in names}) == len(names) and all(map(can_name_a_file, names))


def folded(name: str) -> str:
    """A name in the form in which a case-insensitive file system compares it."""
    return unicodedata.normalize("NFC", name).casefold()


@dataclass
class FileNames:
    """The paths of rows, and the information that a manifest must add to them."""

    folders: dict[str, str]  # name of the folder of each identity
    domains: bool  # whether a folder of the domain lies above that of the identity
    people: tuple[str, ...] | None  # in the order of the folders' numbers; None where the folders have their names
    paths: list[str] = field(default_factory=list)
    names: bool = False  # whether any row so far has a name that differs from its path
    _taken: set[str] = field(default_factory=set)

    def named(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, each named by its path."""
        for row in rows:
            path = self._path(row)
            self._taken.add(folded(path))
            self.names |= path != row.name
            self.paths.append(path)
            yield replace(row, name=path)

    def _path(self, row: Row) -> str:
        folder = self.folders[row.identity]
        folder = f"{row.domain}/{folder}" if self.domains else folder
        base = row.name.rpartition("/")[2]
        if not base.lower().endswith(SUFFIXES) or why_unread(base):
            base += suffix_of(row.data)
        path = f"{folder}/{base}"
        if can_name_a_file(base) and folded(path) not in self._taken:
            return path
        number = len(self.paths)
        while folded(path := f"{folder}/image {number}{suffix_of(row.data)}") in self._taken:
            number += 1
        return path


def file_names(identities: Sequence[str], domains: Sequence[str] | None) -> FileNames:
    """The naming of images with these identities and domains by paths."""
    people = people_of(identities)
    numbered = not can_name_folders(people)
    folders = {person: str(number) if numbered else person for number, person in enumerate(people)} | {NOBODY: NOBODY}
    column = Coded((), np.empty(0, np.int64)) if domains is None else coded(domains)
    groups = [column.values[code] for code in np.unique(column.codes).tolist()]
    return FileNames(folders, len(groups) > 1 and can_name_folders(groups), people if numbered else None)


def suffix_of(data: bytes) -> str:
    """The suffix of an image, by its first bytes; .jpg if these bytes do not begin an image.

    >>> suffix_of(b"BM\\x00\\x00"), suffix_of(b"?")
    ('.bmp', '.jpg')
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    return next((suffix for beginning, suffix in _MAGIC if data.startswith(beginning)), ".jpg")
