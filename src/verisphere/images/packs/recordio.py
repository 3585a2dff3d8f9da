"""RecordIO of MXNet, as packs of faces use it (`train.rec` with `train.idx`): see `recordio_layout` for the layout.

A pack of InsightFace (MS1M, Glint360K, WebFace) has an identity header: record 0 holds no image and two labels, `end`
and `last`. The images are the records 1 to `end - 1`. Each record from `end` up to `last` belongs to one identity: it
holds no image but a range of keys, [first, after the last), which are those of the identity's images. Packs of MXNet's
`im2rec` have no such records: all their records are images.

The rules are the same whether a pack is opened or verified. Opening looks at the headers that state a label, and ends
at the first fault. Verifying walks all records first.
"""

import math
import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np
from jaxtyping import Float64, Int, Int64

from verisphere.base.vocabulary import NO_CLASS, NOBODY
from verisphere.files.disk import regular
from verisphere.files.errors import Fault, FaultError, errors_naming, fault_of
from verisphere.files.image_suffixes import MAX_BYTES
from verisphere.files.images_json import read_source
from verisphere.images.packs.columns import Coded, Numbers, Texts, take
from verisphere.images.packs.image_files import ReadInPlace
from verisphere.images.packs.manifest import Manifest, manifest_path, read_manifest
from verisphere.images.packs.pack import Format, Pack, Row
from verisphere.images.packs.recordio_index import (
    Index,
    NameList,
    index_path,
    list_path,
    read_index,
    read_name_list,
    repeats,
)
from verisphere.images.packs.recordio_layout import (
    EXACT,
    LABELS,
    UNSEEN,
    gather_headers,
    header_of,
    image_record,
    read_record,
    record_bytes,
    walk,
    walk_without_index,
    whole,
)
from verisphere.images.packs.records import repeated

_SAMPLE = 64  # images of which the ids are compared with the keys when a pack is opened
_AT_ONCE = 1 << 12  # identities whose images are labelled at a time
_UNKNOWN = NO_CLASS - 1
_MOST_IMAGES = 1 << 40  # more are a mistake in a file


@dataclass(frozen=True, eq=False)
class RecordIOImages:
    """The images of a pack."""

    keys: Int64[np.ndarray, " images"]
    offsets: Int64[np.ndarray, " images"]
    labels: Int[np.ndarray, " images"]  # from -1
    names: Texts | None
    manifest: Manifest | None
    ids_are_keys: bool  # as at least half of a sample of images has it


def contents(path: Path, thorough: bool) -> Generator[Fault, None, RecordIOImages | None]:
    """The images of a pack, and its faults; see `verisphere.images.packs.pack.Format.contents`.

    Thoroughly, the records are walked in the order of their places, their headers read and their images skipped. If
    most ids in the headers differ from the keys, a single fault reports this for all records.
    """
    with open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
    if thorough and not index_path(path).is_file():
        yield Fault(str(path), "", None, f"there is no index {index_path(path).name} beside it")
        yield from walk_without_index(path)
        return None
    index, listed = read_index(path), read_name_list(path)
    yield from _index_faults(path, index, size, thorough)
    if not len(index.keys):
        yield Fault(str(path), "", None, "no records")
        return None
    for line, reason in {} if listed is None else listed.wrong.items():
        yield Fault(str(list_path(path)), "", None, f"line {line}: {reason}")
    keys, offsets = index.keys, index.offsets
    if not (keys[1:] > keys[:-1]).all():  # copies would be as large as the index
        order = np.argsort(keys, kind="stable")
        keys, offsets = keys[order], offsets[order]
        del order
    end = yield from _end_of_images(path, keys, offsets, thorough)
    if not end:
        keys, offsets = index.keys, index.offsets
    images = slice(*np.searchsorted(keys, [1, end]).tolist()) if end else slice(0, len(keys))
    records = _Records(path, keys, offsets, end, images, listed, thorough)
    try:
        records.manifest = read_manifest(path, len(records.image_keys))
    except (ValueError, OSError) as error:
        yield fault_of(error, manifest_path(path))
    if thorough:
        seen = records.seen = np.full((len(keys), 2), np.nan), np.full(len(keys), UNSEEN, np.int64)
        yield from walk(path, keys, offsets, records.name, records.ids_are_keys, *seen)
    labels = yield from records.labels()
    manifest = records.manifest
    if manifest is not None and manifest.people is not None:
        for image in np.flatnonzero(labels >= len(manifest.people)).tolist():
            reason = f"label {labels[image]} is out of range: the manifest has {len(manifest.people)} people, from 0"
            yield records.fault(images.start + image, reason)
    names = None if listed is None else listed.names
    if names is not None and not thorough and not np.array_equal(records.rows, np.arange(len(names))):
        names = names.take(records.rows)
    if names is not None and (manifest is None or manifest.names is None):
        for _, row in repeated(names):
            reason = f"{names[row]!r} stands there twice; names must be unique"
            yield Fault(str(list_path(path)), "", None, reason)
    if thorough:
        return None
    return RecordIOImages(records.image_keys, offsets[images], labels, names, manifest, records.ids_are_keys)


def _index_faults(path: Path, index: Index, size: int, thorough: bool) -> Iterator[Fault]:
    """Malformed lines, repeated keys or places, and places past the end of the file."""
    name = index_path(path).name
    for line in index.wrong.tolist():
        reason = f"line {line}: not `key<TAB>offset` with two whole numbers from 0"
        yield Fault(str(index_path(path)), "", None, reason)

    def fault(row: int, reason: str) -> Fault:
        return Fault(str(path), str(index.keys[row]), int(index.offsets[row]), reason)

    for row in repeats(index.keys).tolist():
        yield fault(row, f"line {index.lines[row]} of {name} has its key, which an earlier line has too")
    for row in repeats(index.offsets).tolist() if not thorough else ():  # the walk reports what begins within a record
        yield fault(row, f"line {index.lines[row]} of {name} has its offset, which an earlier line has too")
    for row in np.flatnonzero(index.offsets >= size).tolist():
        reason = f"past the end of the file, which has {size} bytes; is it cut short, or {name} the index of another?"
        yield fault(row, reason)


def _end_of_images(
    path: Path, keys: Int64[np.ndarray, " records"], offsets: Int64[np.ndarray, " records"], thorough: bool
) -> Generator[Fault, None, int]:
    """The key after that of the last image, from the identity header; 0 if the file, with sorted keys, has none.

    The header is record 0 if that has two labels and no image. Programs exist that state no identity records, or a
    number of identities as the second label; then the file has no keys from this one on.
    """
    if keys[0] != 0:
        return 0
    header = gather_headers(path, offsets[:1])
    first, second = header.labels[0].tolist()
    for reason in header.problems.values() if not thorough else ():  # the walk will report it
        yield Fault(str(path), "0", int(offsets[0]), reason)
    if header.problems or header.images[0] or math.isnan(second):
        return 0
    if not (2 <= first <= _MOST_IMAGES and first == math.floor(first)):
        yield Fault(str(path), "0", int(offsets[0]), f"an identity header whose images end at {first:g}")
        return 0
    end = int(first)
    if end >= EXACT:  # the nearest float32; the exact key is that of the first record without an image
        near = slice(*np.searchsorted(keys, [end - end // EXACT, end + end // EXACT + 1]).tolist())
        around = gather_headers(path, offsets[near], len(keys))
        ends = (around.images == 0) & ~np.isnan(around.labels[:, 1])
        end = int(keys[near][ends][0]) if ends.any() else int(keys[-1]) + 1
    return end


@dataclass(eq=False)
class _Records:
    """The records of a pack.

    The keys are sorted if there is an identity header, and `end` is the key after that of the last image; else it is 0.
    Images are positions among the records. `seen` has the first two labels of each and the bytes of its image.
    """

    path: Path
    keys: Int64[np.ndarray, " records"]
    offsets: Int64[np.ndarray, " records"]
    end: int
    images: slice
    listed: NameList | None
    thorough: bool
    manifest: Manifest | None = None
    seen: tuple[Float64[np.ndarray, "records 2"], Int64[np.ndarray, " records"]] | None = None

    @property
    def image_keys(self) -> Int64[np.ndarray, " images"]:
        return self.keys[self.images]

    @cached_property
    def rows(self) -> Int64[np.ndarray, " images"]:
        """The position of each image in the list; -1 for one that is in none."""
        listed = np.empty(0, np.int64) if self.listed is None else self.listed.keys
        if not len(listed):
            return np.full(len(self.image_keys), -1)
        order = np.argsort(listed, kind="stable")
        place = np.minimum(np.searchsorted(listed[order], self.image_keys), len(order) - 1)
        return np.where(listed[order][place] == self.image_keys, order[place], -1)

    @cached_property
    def ids_are_keys(self) -> bool:
        """Whether the ids in the headers are the keys."""
        keys, offsets = self.image_keys, self.offsets[self.images]
        rows = np.unique(np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64)) if len(keys) else np.arange(0)
        rows = rows[keys[rows] != 0] if len(rows) > 1 else rows  # 0 is also the value of an unset id
        headers = gather_headers(self.path, offsets[rows], len(rows))
        legible = np.setdiff1d(np.arange(len(rows)), list(headers.problems))
        equal = headers.ids[legible] == keys[rows][legible].astype(np.uint64)
        return 2 * int(np.count_nonzero(equal)) >= len(legible)

    def name(self, row: int) -> str:
        """The name of a record in faults: from the manifest or the list, as the pack names it, else its key."""
        image = row - self.images.start
        if 0 <= image < len(self.image_keys):
            if self.manifest is not None and self.manifest.names is not None:
                return self.manifest.names[image]
            if self.listed is not None and self.rows[image] >= 0:
                return self.listed.names[int(self.rows[image])]
        return str(self.keys[row])

    def fault(self, row: int, reason: str) -> Fault:
        return Fault(str(self.path), self.name(row), int(self.offsets[row]), reason)

    def looked_at(
        self, rows: Int64[np.ndarray, " some"]
    ) -> Generator[Fault, None, tuple[Float64[np.ndarray, "some 2"], Int64[np.ndarray, " some"]]]:
        """The first two labels of some records, and the bytes of their images; `UNSEEN` for malformed ones."""
        if self.seen is not None:
            return self.seen[0][rows], self.seen[1][rows]
        found = gather_headers(self.path, self.offsets[rows])
        for row, reason in found.problems.items():
            yield self.fault(int(rows[row]), reason)
        return found.labels.astype(np.float64), found.images

    # --- labels ---

    def labels(self) -> Generator[Fault, None, Int[np.ndarray, " images"]]:
        """The label of each image: of its range of keys, in the list, or in its own header."""
        first, number = self.images.start, len(self.image_keys)
        stated = np.full(number, _UNKNOWN, np.int32)
        own = (yield from self._own_labels(first + np.arange(number))) if self.thorough else None
        if self.end:
            yield from self._label_ranges(stated, own)
        if self.listed is not None:
            stated = yield from self._listed_labels(stated if own is None else own, self.listed)
        if own is not None:
            return own
        unknown = np.flatnonzero(stated == _UNKNOWN)
        stated[unknown] = yield from self._own_labels(first + unknown)
        return stated

    def _own_labels(self, rows: Int64[np.ndarray, " some"]) -> Generator[Fault, None, Int64[np.ndarray, " some"]]:
        """The labels in the headers of images; `_UNKNOWN` for faulty ones."""
        labels, sizes = yield from self.looked_at(rows)
        stray = (sizes == 0) & ~np.isnan(labels[:, 1]) & (self.end == 0)
        if stray.any():
            reason = f"{stray.sum()} records have two labels and no image, as those of identities, the first is this"
            yield self.fault(int(rows[stray][0]), f"{reason}; but no identity header can be read")
        for row in rows[(sizes == 0) & ~stray].tolist():
            yield self.fault(row, "no image in it")
        good = whole(labels[:, 0])
        for place in np.flatnonzero(~good & (sizes != UNSEEN) & ~stray).tolist():
            yield self.fault(int(rows[place]), f"label {labels[place, 0]:g} is out of range; {LABELS}")
        return np.where(good & (sizes > 0), labels[:, 0], _UNKNOWN).astype(np.int64)

    def _label_ranges(
        self, labels: Int[np.ndarray, " images"], own: Int64[np.ndarray, " images"] | None
    ) -> Iterator[Fault]:
        """Gives all images in the range of an identity the label of its first image.

        Ranges past 2**24, where float32 cannot state every key, are skipped: the images there keep the unknown label.
        """
        keys, end, first = self.image_keys, self.end, self.images.start
        if len(keys) != end - 1:
            reason = f"an identity header of {end - 1} images, but the index has {len(keys)} of the keys 1 to {end - 1}"
            yield self.fault(0, reason)
        rows = np.arange(self.images.stop, len(self.keys))
        bounds, sizes = yield from self.looked_at(rows)
        if self.seen is not None and len(rows) and end + len(rows) < EXACT:
            stated = self.seen[0][0, 1] - self.seen[0][0, 0]
            if stated != len(rows):
                reason = f"an identity header of {stated:g} identities, but there are {len(rows)} records behind the"
                yield self.fault(0, f"{reason} images")
        low, high = bounds.T
        inexact = (high > EXACT) & (end >= EXACT)
        with np.errstate(invalid="ignore"):
            sound = (low >= 1) & (high - low >= self.thorough) & (high <= end) & (sizes == 0)
        sound &= (bounds == np.floor(bounds)).all(axis=1)
        for row in np.flatnonzero(~sound & ~inexact & (sizes != UNSEEN)).tolist():
            reason = f"it should be an identity's range of keys from 1 to {end}, and is {low[row]:g} to {high[row]:g}"
            yield self.fault(int(rows[row]), reason)
        places = np.searchsorted(keys, bounds)  # of each range's images
        kept = np.flatnonzero(sound & ~inexact & (places[:, 0] < places[:, 1]))
        kept = kept[np.argsort(low[kept], kind="stable")]
        starts, stops = places[kept].T
        for place in np.flatnonzero(starts[1:] < stops[:-1]).tolist():
            other = self.keys[rows[kept[place]]]
            reason = f"its identity has the key {keys[starts[place + 1]]}, which is an image of identity record {other}"
            yield self.fault(int(rows[kept[place + 1]]), f"{reason} too")
        of_range = (yield from self._own_labels(first + starts)) if own is None else own[starts]
        for begin in range(0, len(kept), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            counts = stops[part] - starts[part]
            before = np.cumsum(counts) - counts
            covered = np.repeat(starts[part] - before, counts) + np.arange(int(counts.sum()))
            labels[covered] = np.repeat(of_range[part], counts)
            if own is not None:
                record = np.repeat(self.keys[rows[kept[part]]], counts)
                known = (own[covered] != _UNKNOWN) & (labels[covered] != _UNKNOWN)
                for place in np.flatnonzero(known & (own[covered] != labels[covered])).tolist():
                    image = int(covered[place])
                    reason = f"label {own[image]}, but it lies in the range of record {record[place]}, of label"
                    yield self.fault(first + image, f"{reason} {labels[image]}")
        if own is not None and len(rows) and not inexact.any():
            inside = np.cumsum(
                np.bincount(starts, minlength=len(keys) + 1) - np.bincount(stops, minlength=len(keys) + 1)
            )
            for image in np.flatnonzero(inside[: len(keys)] == 0).tolist():
                yield self.fault(first + image, "in the range of no identity record")

    def _listed_labels(
        self, labels: Int[np.ndarray, " images"], listed: NameList
    ) -> Generator[Fault, None, Int64[np.ndarray, " images"]]:
        """The label of each image in the list, whose faults are other labels, missing images and, thoroughly, lines."""
        where, rows = str(list_path(self.path)), self.rows
        absent = np.flatnonzero(rows < 0)
        if len(absent):
            reason = f"{len(absent)} of {len(rows)} images are not in this list, the first is record "
            reason += f"{self.image_keys[absent[0]]}; if it is a list of other images, move it away"
            yield Fault(where, "", None, f"{reason}, and the keys are the names")
        stated = np.append(listed.labels, _UNKNOWN)[rows]
        for image in np.flatnonzero((labels != _UNKNOWN) & (stated != _UNKNOWN) & (labels != stated)).tolist():
            reason = f"line {listed.lines[rows[image]]}: label {stated[image]}, but {self.path.name} has"
            yield Fault(where, "", None, f"{reason} {labels[image]} for record {self.image_keys[image]}")
        for image in np.flatnonzero(stated > EXACT).tolist():
            yield Fault(where, "", None, f"line {listed.lines[rows[image]]}: label {stated[image]}; {LABELS}")
        for row in repeats(listed.keys).tolist() if self.thorough else ():
            reason = f"line {listed.lines[row]}: key {listed.keys[row]} stands there twice"
            yield Fault(where, listed.names[row], None, reason)
        for row in np.flatnonzero(~np.isin(listed.keys, self.image_keys)).tolist() if self.thorough else ():
            reason = f"line {listed.lines[row]}: no image has its key {listed.keys[row]}"
            yield Fault(where, listed.names[row], None, reason)
        return stated


_IN_FOLDER = "train.rec"  # the usual name of a pack of faces


@dataclass(frozen=True, eq=False)
class Records(ReadInPlace):
    """Images in records; the file is opened anew for each request.

    Codes are positions in the labels of the pack; the id in a record's header must equal its key where `ids_are_keys`.
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
