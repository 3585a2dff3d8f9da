"""RecordIO of MXNet, as packs of faces use it (`train.rec` with `train.idx`): see `recordio_layout` for the layout.

A pack of InsightFace (MS1M, Glint360K, WebFace) has an identity header: record 0 holds no image and two labels, `end`
and `last`. The images are the records 1 to `end - 1`. Each record from `end` up to `last` belongs to one identity: it
holds no image but a range of keys, [first, after the last), which are those of the identity's images. Packs of MXNet's
`im2rec` have no such records: all their records are images.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from jaxtyping import Int, Int64

from verisphere.base.vocabulary import NO_CLASS, NOBODY
from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError, errors_naming
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.images_json import read_source
from verisphere.images.packs.columns import Coded, Numbers, Texts, take
from verisphere.images.packs.image_files import ReadInPlace
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.recordio_contents import contents
from verisphere.images.packs.recordio_index import index_path, list_path
from verisphere.images.packs.recordio_layout import EXACT, header_of, image_record, read_record, record_bytes

_IN_FOLDER = "train.rec"  # the usual name of a pack of faces


@dataclass(frozen=True, eq=False)
class Records(ReadInPlace):
    """Images in records; the file is opened anew for each request.

    Keys and offsets in bytes are those of the index, and codes are positions in the labels of the pack. The id in a
    record's header must equal its key where `ids_are_keys`.
    """

    by_image = "names", "keys", "offsets", "codes"
    path: Path
    names: Sequence[str]
    keys: Int64[np.ndarray, " images"]
    offsets: Int64[np.ndarray, " images"]
    codes: Int[np.ndarray, " images"]
    labels: Int64[np.ndarray, " labels"]
    ids_are_keys: bool

    def read(self, positions: Sequence[int]) -> Iterator[tuple[str, bytes]]:
        """For each image its file, name and place as a text for error messages, and its bytes."""
        rows = np.asarray(positions, np.int64)
        keys, labels = self.keys[rows].tolist(), self.labels[self.codes[rows]].tolist()
        places = zip(take(self.names, rows), self.offsets[rows].tolist(), keys, labels, strict=True)
        with ExitStack() as files:
            file = size = None
            for record, offset, key, label in places:
                try:
                    if file is None or size is None:
                        file = files.enter_context(open(self.path, "rb", buffering=0, opener=regular)).fileno()
                        size = os.fstat(file).st_size
                    image = _image(read_record(file, offset, size), key if self.ids_are_keys else None, label)
                except (OSError, ValueError) as error:
                    reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
                    raise FaultError(Fault(str(self.path), record, offset, reason)) from None
                yield f"{self.path}: record {record} at byte {offset}", image

    def place(self, position: int) -> tuple[str, int]:
        """The file, and the byte at which the record of an image begins."""
        return str(self.path), int(self.offsets[position])


def _image(data: bytes, key: int | None, label: int) -> bytes:
    """The image in the data of a record, whose header must have this label and, unless it is None, this key."""
    header = header_of(data, len(data))
    if key is not None and header.id != key:
        raise ValueError(f"its header has the id {header.id}, but its key is {key}; were lines of the index swapped?")
    if header.labels[0] != label:
        raise ValueError(
            f"its header has the label {header.labels[0]:g}, but the pack has {label} for it; is the index, or the "
            "list, that of another file?"
        )
    if header.image == len(data):
        raise ValueError("no image in it")
    return data[header.image :]


def is_recordio(path: Path) -> bool:
    """Whether a path is meant as a RecordIO file, or is a folder with such a file under the usual name."""
    return (path / _IN_FOLDER).is_file() if path.is_dir() else path.suffix.lower() == ".rec"


def _contents(path: Path, thorough: bool) -> Generator[Fault, None, Pack | None]:
    """The images of a RecordIO file, or of `train.rec` in a folder, and of the index and the list beside it.

    The order is that of the index or, with an identity header, that of the keys. Names come from the manifest of a
    converted pack, else from the list beside the file; else the keys are the names. Labels come from the identity
    records (the label of each is in the header of the first image of its range), else from the list, else from the
    headers of all records, which are then all read once. When an image is read, the label in its header is compared,
    whatever the source of the labels. The id in the header is compared with the key if the writer put the key there,
    which at least half of a sample of records must show; programs exist that write 0, or the key of an earlier file.
    Identities come from the manifest; else they are the labels as text, and the label -1 is
    `verisphere.base.vocabulary.NOBODY`.
    """
    path = path / _IN_FOLDER if path.is_dir() else path
    held = yield from contents(path, thorough)
    if held is None:
        return None
    manifest, names = held.manifest, held.names or Numbers(held.keys)
    if manifest is not None and manifest.names is not None:
        names = Texts.of(manifest.names)
    labels, codes = _distinct(held.labels)
    people = None if manifest is None else manifest.people
    values = tuple(str(label) if people is None or label == NO_CLASS else people[label] for label in labels.tolist())
    files = Records(path, names, held.keys, held.offsets, codes, labels, held.ids_are_keys)
    source = read_source(path, ()) if manifest is None else manifest.source
    domains = None if manifest is None else manifest.domains
    return Pack(path, "recordio", names, Coded(values, codes), files, source, domains)


def _distinct(labels: Int[np.ndarray, " images"]) -> tuple[np.ndarray, np.ndarray]:
    """The distinct labels in order, and the position of each image's label among them; does not sort all images."""
    present = np.zeros(int(labels.max(initial=NO_CLASS)) + 2, bool)
    present[labels + 1] = True
    number = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return np.flatnonzero(present) - 1, number[labels + 1]


# --- writing ---


def write_recordio(path: Path, rows: Iterable[Row]) -> None:
    """Writes a pack in the layout of InsightFace: the file, its index, and a list with names, under one stem.

    The images have the keys from 1, in the order of `rows`. Identities are labelled from 0 by first appearance; the
    label of `verisphere.base.vocabulary.NOBODY` is -1. The identity header, record 0, follows the images, as in packs
    of `face2rec2`. The header has identity records if the images of each identity are consecutive and no image is of
    nobody; otherwise it states that there are none, and readers take the labels from the images. With 2**24 images or
    more, a number that a float32 label cannot state, there is no identity header.
    """
    label_of: dict[str, int] = {}
    runs: list[int] = []  # key of the first image of each run of one identity
    key, previous = 0, None
    with (
        open(path, "xb") as records,
        open(index_path(path), "x", encoding="ascii") as index,
        open(list_path(path), "x", encoding="utf-8", newline="\n") as names,
    ):
        writer = _Writer(records, index)
        for key, row in enumerate(rows, start=1):
            label = NO_CLASS if row.identity == NOBODY else label_of.setdefault(row.identity, len(label_of))
            _check_row(row, label)
            if row.identity != previous:
                runs.append(key)
                previous = row.identity
            with errors_naming(row.name):
                writer.put(key, (label,), row.data)
            names.write(f"{key}\t{label}\t{row.name}\n")
        if not key:
            raise ValueError(f"{path}: no images to write")
        end = key + 1
        if end <= EXACT:
            one_run_each = len(runs) == len(label_of)  # NOBODY, which has no label, makes one more run
            ranges = list(zip(runs, [*runs[1:], end], strict=True)) if one_run_each else []
            writer.put(0, (end, end + len(ranges)))
            for number, (first, after) in enumerate(ranges, start=end):
                writer.put(number, (first, after))


@dataclass(eq=False)
class _Writer:
    """The file and the index of a pack that is being written."""

    records: BinaryIO
    index: TextIO
    offset: int = 0

    def put(self, key: int, labels: tuple[int, ...], image: bytes = b"") -> None:
        self.index.write(f"{key}\t{self.offset}\n")
        self.offset += self.records.write(record_bytes(image_record(key, labels, image)))


def _can_name(name: str) -> bool:
    return name != "" and not any(mark in name for mark in "\t\n\r")


def _check_row(row: Row, label: int) -> None:
    if not _can_name(row.name):
        raise ValueError(f"{row.name!r}: a name with a tab or a line end, which the list of a pack cannot hold")
    if not row.data:
        raise ValueError(f"{row.name}: no bytes")
    if len(row.data) > MAX_BYTES:
        raise ValueError(f"{row.name}: {len(row.data)} bytes, more than the {MAX_BYTES} allowed for an image file")
    if label > EXACT:
        raise ValueError(f"{row.name}: more than {EXACT:,} identities, which float32 labels cannot number")


RECORDIO = Format(
    "recordio",
    "a RecordIO file of MXNet (.rec, with .idx and perhaps .lst beside it), or a folder with train.rec",
    is_recordio,
    _contents,
    write_recordio,
    ".rec",
    frozenset({"names"}),
    _can_name,
)
