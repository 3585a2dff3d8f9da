"""Records of a pack in the order of reading, the columns that they form, and their faults."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int64

from verisphere.base.mapped import Growing
from verisphere.base.vocabulary import ImageSource
from verisphere.files.errors import Fault
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.json_values import shortened, shown
from verisphere.files.text import LONGEST_NAME
from verisphere.images.packs.columns import Coded, GrowingTexts, Texts, coded
from verisphere.images.packs.manifest import read_manifest
from verisphere.images.packs.pack import Pack
from verisphere.images.packs.spans import Spans

LONGEST_IMAGE_NAME = 4096  # characters; the longest path of Linux


class Record(NamedTuple):
    """One image of a pack, and the run of bytes in which it lies, in the file `part` of the pack."""

    name: str
    identity: str
    offset: int
    size: int
    domain: str | None = None
    part: int = 0


class RecordColumns:
    """The columns of records that arrive one at a time."""

    def __init__(self) -> None:
        self._names, self._people, self._domains = GrowingTexts(), GrowingTexts(), GrowingTexts()
        self._offsets, self._sizes, self._parts = Growing("q"), Growing("q"), Growing("i")
        self._without_domain = 0

    def add(self, record: Record) -> None:
        """Appends one record."""
        self._names.append(record.name)
        self._people.append(record.identity)
        self._domains.append(record.domain or "")
        self._without_domain += record.domain is None
        self._offsets.append(record.offset)
        self._sizes.append(record.size)
        self._parts.append(record.part)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def names(self) -> Texts:
        """Name of each record."""
        return self._names.texts()

    @cached_property
    def identities(self) -> Coded:
        """Identity of each record."""
        return coded(self._people.texts())

    @cached_property
    def domains(self) -> Coded | None:
        """Domain of each record; None where no record has one."""
        if self._without_domain == len(self):
            return None
        if self._without_domain:
            raise ValueError(
                f"{self._without_domain:,} of {len(self):,} images have no domain; allowed are domains for all images, "
                "or for none"
            )
        return coded(self._domains.texts())

    def spans(self, paths: tuple[Path, ...], names: Sequence[str]) -> Spans:
        """The bytes of each record, by position."""
        parts = self._parts.array() if len(paths) > 1 else None
        return Spans(paths, names, self._offsets.array(), self._sizes.array(), parts)


def contents_of_records(
    path: Path, form: str, parts: tuple[Path, ...], records: Iterable[Record | Fault], thorough: bool
) -> Generator[Fault, None, Pack | None]:
    """The pack of these records, in their order, and its faults; see `verisphere.images.packs.pack.Format.contents`."""
    columns, faulty = RecordColumns(), False
    for record in records:
        if isinstance(record, Fault):
            faulty = True
            yield record
            continue
        columns.add(record)
        if thorough and record.size > MAX_BYTES:
            yield too_large(parts[record.part], record)
    names, domains = columns.names, None
    try:
        domains = columns.domains
    except ValueError as error:
        yield Fault(str(path), "", None, str(error))
    if not len(names) and not faulty:
        yield Fault(str(path), "", None, "no images")
    files = columns.spans(parts, names)
    for first, again in repeated(names):
        file, offset = files.place(again)
        reason = f"the name of image {again + 1:,} is already that of image {first + 1:,}; names are unique"
        yield Fault(file, shortened(names[again], 200), offset, reason)
    source = None if thorough else source_of(path, len(names))
    return None if source is None else Pack(path, form, names, columns.identities, files, source, domains)


def too_large(file: Path, record: Record) -> Fault:
    """The fault of an image that is larger than an image can be."""
    return Fault(
        str(file),
        record.name,
        record.offset,
        f"{record.size} bytes, more than the {MAX_BYTES} allowed for an image file",
    )


def source_of(path: Path, images: int) -> ImageSource:
    """The source of the images of a pack, from the manifest beside it; without a manifest, only the name is known."""
    manifest = read_manifest(path, images)
    return ImageSource(path.name) if manifest is None else manifest.source


def repeated(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """For each repetition of a name, the position where the name occurs first and the position of the repetition.

    >>> list(repeated(["a", "b", "a"]))
    [(0, 2)]
    """
    hashes = hashes_of(names)
    order = np.argsort(hashes, kind="stable")
    alike = hashes[order[1:]] == hashes[order[:-1]]
    suspects = np.union1d(order[1:][alike], order[:-1][alike])  # by hash; few, so a dict holds their names
    first: dict[str, int] = {}
    for position in suspects.tolist():
        place = first.setdefault(names[position], position)
        if place != position:
            yield place, position


def hashes_of(names: Sequence[str]) -> Int64[np.ndarray, " names"]:
    """The hash of each name: 8 bytes where a set of names would take a hundred."""
    return np.fromiter(map(hash, names), np.int64, len(names))


def text_fault(what: str, value: object, longest: int = LONGEST_NAME) -> str | None:
    """Why a value from a file cannot be a name, an identity or a domain; None if it can.

    >>> text_fault("identity", "Ann"), text_fault("identity", "")
    (None, "identity '' has 0 characters; allowed are 1 to 255")
    """
    if not isinstance(value, str):
        return f"{what} is {shown(value)}; allowed are text and whole numbers"
    if not 0 < len(value) <= longest:
        return f"{what} {shown(value)} has {len(value)} characters; allowed are 1 to {longest}"
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        return f"{what} {shown(value)} is not Unicode: it has half of a surrogate pair"
    return None


def as_text(value: object) -> object:
    """A whole number as text; any other value unchanged."""
    return str(value) if type(value) is int else value
