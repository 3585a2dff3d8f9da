"""Every fault in the structure of a RecordIO file and of the index and the list beside it."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from verisphere.files.disk import regular
from verisphere.files.errors import Fault, fault_of
from verisphere.packs.manifest import Manifest, read_manifest
from verisphere.packs.recordio_index import (
    Index,
    NameList,
    index_path,
    list_path,
    read_index,
    read_name_list,
    repeated_texts,
    repeats,
)
from verisphere.packs.recordio_labels import Identities, identity_header, ids_are_keys, whole
from verisphere.packs.recordio_layout import EXACT, MAGIC, Surveyed, survey

_FIRST_STEP, _LAST_STEP = 1 << 10, 1 << 20  # bytes searched at a time for the next record after damage


@dataclass(eq=False)
class _Survey:
    """Findings of the walk through the records, by position in the order of the keys; unknown labels are NaN.

    Attributes:
        labels: the first two labels of each record.
        images: bytes of each record's image; -1 if the record is malformed.
        ids_are_keys: whether the ids in the headers are meant to be the keys.
        other_ids: number of records whose id differs from their key.
    """

    labels: Float64[np.ndarray, "records 2"]
    images: Int64[np.ndarray, " records"]
    ids_are_keys: bool
    other_ids: int = 0


def faults(path: Path) -> Iterator[Fault]:
    """Every fault in the structure of a pack; see `verisphere.packs.pack.Format`.

    The records are walked in the order of their places, their headers read and their images skipped; after a malformed
    record, the index says where the next one begins. Without an index, the next one is searched for. If most ids in the
    headers differ from the keys, the program that wrote the file put something else there, and a single fault reports
    this for all records.
    """
    try:
        size = _size(path)
        if not index_path(path).is_file():
            yield Fault(str(path), "", None, f"there is no index {index_path(path).name} beside it")
            yield from _unindexed(path, size)
            return
        index = read_index(path)
        listed = read_name_list(path)
    except (ValueError, OSError) as error:
        yield fault_of(error, path)
        return
    place = str(index_path(path))
    for line in index.wrong.tolist():
        yield Fault(place, "", None, f"line {line}: not `key<TAB>offset` with two whole numbers from 0")
    for row in repeats(index.keys).tolist():
        reason = f"line {index.lines[row]} of {index_path(path).name} has its key, which an earlier line has too"
        yield Fault(str(path), str(index.keys[row]), int(index.offsets[row]), reason)
    order = np.argsort(index.keys, kind="stable")
    keys, offsets, lines = (column[order] for column in (index.keys, index.offsets, index.lines))
    if not len(keys):
        yield Fault(str(path), "", None, "no records")
        return
    index = Index(keys, offsets, lines, index.wrong)
    identities, wrong_header = None, ""
    try:
        identities = identity_header(path, keys, offsets)
    except ValueError as error:
        wrong_header = str(error).partition(f" at byte {offsets[0]}: ")[2]
    named = _Named(path, keys, identities, listed)
    images = _image_rows(keys, identities)
    compared = ids_are_keys(path, keys[images], offsets[images]) if len(images) else True
    seen = _Survey(np.full((len(keys), 2), np.nan), np.full(len(keys), -1, np.int64), compared)
    yield from _walk(path, size, index, named, seen)
    if not seen.ids_are_keys and seen.other_ids:
        reason = f"{seen.other_ids} of {len(keys)} headers have another id than their key"
        yield Fault(str(path), "", None, f"{reason}, so swapped lines of the index would not be noticed")
    if wrong_header and seen.images[0] >= 0:  # of a malformed record, the walk has reported it
        yield Fault(str(path), "0", int(offsets[0]), wrong_header)
    yield from _label_faults(path, index, identities, named, seen)
    yield from _list_faults(path, index, identities, listed, seen)
    yield from _manifest_faults(path, index, identities, named, seen)


class _Named:
    """The name of a record in faults: from the manifest or the list, as the pack names it, else its key."""

    def __init__(self, path: Path, keys: np.ndarray, identities: Identities | None, listed: NameList | None) -> None:
        images = _image_rows(keys, identities)
        try:
            manifest = read_manifest(path, len(images))
        except (ValueError, OSError):  # reported as a fault of its own
            manifest = None
        self.keys, self.rows = keys, np.full(len(keys), -1, np.int64)
        self.names: Sequence[str] = ()
        if manifest is not None and manifest.names is not None:
            self.rows[images], self.names = np.arange(len(images)), manifest.names
        elif listed is not None and len(listed.keys):
            by_key = np.argsort(listed.keys, kind="stable")
            place = np.minimum(np.searchsorted(listed.keys[by_key], keys), len(by_key) - 1)
            self.rows = np.where(listed.keys[by_key][place] == keys, by_key[place], -1)
            self.names = listed.names

    def __getitem__(self, row: int) -> str:
        position = int(self.rows[row])
        return str(self.keys[row]) if position < 0 else self.names[position]


def _size(path: Path) -> int:
    with open(path, "rb", opener=regular) as file:
        return os.fstat(file.fileno()).st_size


def _image_rows(keys: np.ndarray, identities: Identities | None) -> Int64[np.ndarray, " images"]:
    """The positions, among sorted keys, of the images."""
    if identities is None:
        return np.arange(len(keys))
    return np.arange(*np.searchsorted(keys, [1, identities.end]).tolist())


# --- the records ---


def _walk(path: Path, size: int, index: Index, named: _Named, seen: _Survey) -> Iterator[Fault]:
    """Walks the records in the order of their places; nothing may lie between them."""
    where = str(path)
    expected, damaged, before = 0, False, ""  # where the next record begins, and whether inside a malformed one
    with open(path, "rb", buffering=0, opener=regular) as opened:
        file = opened.fileno()
        for row in np.argsort(index.offsets, kind="stable").tolist():
            key, offset = int(index.keys[row]), int(index.offsets[row])
            if offset >= size:
                yield Fault(where, named[row], offset, f"past the end of the file, which has {size} bytes")
                continue
            if offset < expected:
                reason = f"it begins within record {before}, or where that begins; are two lines of the index one?"
                yield Fault(where, named[row], offset, reason)
                if offset % 4:
                    continue
            yield from _between(path, file, expected, offset, damaged)
            try:
                record = survey(file, offset, size)
            except ValueError as error:
                yield Fault(where, named[row], offset, str(error))
                expected, damaged = max(expected, offset), True
                continue
            yield from _noted(where, named[row], key, offset, record, seen, row)
            expected, damaged, before = max(record.end, expected), False, named[row]
        yield from _between(path, file, expected, size, damaged)


def _noted(where: str, name: str, key: int, offset: int, record: Surveyed, seen: _Survey, row: int) -> Iterator[Fault]:
    """Keeps the header of a record; a fault if its id is not the key in a file whose ids are keys."""
    header = record.header
    seen.labels[row, : len(header.labels)], seen.images[row] = header.labels, record.image_bytes
    if header.id != key:
        seen.other_ids += 1
        if seen.ids_are_keys:
            reason = f"its header has the id {header.id}, but its key is {key}; were lines of the index swapped?"
            yield Fault(where, name, offset, reason)


def _between(path: Path, file: int, begin: int, end: int, damaged: bool) -> Iterator[Fault]:
    """Faults before the next record of the index: records that the index lacks, or bytes that are no record.

    Args:
        path: the file.
        file: descriptor of the open file.
        begin: byte after the last record or, if that record is malformed, its first byte.
        end: byte at which the next record begins.
        damaged: whether the bytes from `begin` belong to a malformed record; then only whole records behind them are
            reported.
    """
    if damaged and begin < end:
        begin = _next_record(file, begin + 4, end)
    while begin < end:
        try:
            record = survey(file, begin, end)
        except ValueError:
            following = _next_record(file, begin + 4, end)
            if not damaged:
                yield Fault(str(path), "", begin, f"{following - begin} bytes that are no record of the index")
            begin = following
            continue
        yield Fault(str(path), "", begin, f"a record with the id {record.header.id}, which the index does not have")
        begin, damaged = record.end, False


def _unindexed(path: Path, size: int) -> Iterator[Fault]:
    """Walks the records of a file without an index; after damage, the next record is searched for."""
    with open(path, "rb", buffering=0, opener=regular) as opened:
        file, offset = opened.fileno(), 0
        while offset < size:
            try:
                record = survey(file, offset, size)
                if not whole(np.array(record.header.labels[:1], np.float32)).all() and record.image_bytes:
                    yield Fault(str(path), str(record.header.id), offset, _label_text(record.header.labels[0]))
                offset = record.end
            except ValueError as error:
                yield Fault(str(path), "", offset, str(error))
                offset = _next_record(file, offset + 4, size)


def _next_record(file: int, offset: int, size: int) -> int:
    """The next multiple of 4 bytes with the number that begins a record; `end` if there is none."""
    offset, step = (offset + 3) // 4 * 4, _FIRST_STEP  # a hostile file can have such a number in every second word
    while offset < size:
        data = os.pread(file, min(step, size - offset), offset)
        places = np.flatnonzero(np.frombuffer(data, "<u4", len(data) // 4) == MAGIC)
        if len(places):
            return offset + 4 * int(places[0])
        offset, step = offset + step, min(2 * step, _LAST_STEP)
    return size


# --- labels ---


def _label_text(label: float) -> str:
    return f"label {label:g} is out of range; allowed are whole numbers from -1 to {EXACT}"


def _label_faults(
    path: Path, index: Index, identities: Identities | None, named: _Named, seen: _Survey
) -> Iterator[Fault]:
    """Faults of records without an image or a label, and of identities whose ranges contradict the labels."""
    images = _image_rows(index.keys, identities)
    legible = images[seen.images[images] >= 0]
    if identities is None:
        strays = (seen.images[legible] == 0) & ~np.isnan(seen.labels[legible, 1])
        if strays.any():
            row = int(legible[strays][0])
            reason = f"{strays.sum()} records have two labels and no image, as those of identities, the first is this"
            yield Fault(str(path), named[row], int(index.offsets[row]), f"{reason}; but no identity header can be read")
        legible = legible[~strays]
    for row in legible[seen.images[legible] == 0].tolist():
        yield Fault(str(path), named[row], int(index.offsets[row]), "no image in it")
    for row in legible[~whole(seen.labels[legible, 0].astype(np.float32))].tolist():
        yield Fault(str(path), named[row], int(index.offsets[row]), _label_text(seen.labels[row, 0]))
    if identities is None:
        return
    if len(images) != identities.end - 1:
        yield Fault(
            str(path), "0", int(index.offsets[0]), f"an identity header of {identities.end - 1} images, but the index "
            f"has {len(images)} of the keys 1 to {identities.end - 1}"
        )  # fmt: skip
    behind = np.searchsorted(index.keys, identities.end)
    stated = seen.labels[0, 1] - seen.labels[0, 0]
    rows = np.arange(behind, len(index.keys))
    if len(rows) and stated != len(rows) and identities.end + len(rows) < EXACT:
        yield Fault(
            str(path), "0", int(index.offsets[0]), f"an identity header of {stated:g} identities, but there are "
            f"{len(rows)} records behind the images"
        )  # fmt: skip
    yield from _range_faults(path, index, identities, rows, images, named, seen)


def _range_faults(
    path: Path,
    index: Index,
    identities: Identities,
    rows: Int64[np.ndarray, " identities"],
    images: Int64[np.ndarray, " images"],
    named: _Named,
    seen: _Survey,
) -> Iterator[Fault]:
    owner = np.full(len(images), -1, np.int64)  # identity record of each image
    image_keys = index.keys[images]
    exact = True
    for row in rows[seen.images[rows] >= 0].tolist():
        first, after = seen.labels[row].tolist()
        place = str(path), str(index.keys[row]), int(index.offsets[row])
        if after > EXACT and identities.end >= EXACT:
            exact = False  # keys that float32 cannot state are not compared
            continue
        if seen.images[row] or not (1 <= first < after <= identities.end) or first % 1 or after % 1:
            reason = (
                f"it should be an identity's range of keys from 1 to {identities.end}, and is {first:g} to {after:g}"
            )
            yield Fault(*place, reason)
            continue
        covered = slice(*np.searchsorted(image_keys, [int(first), int(after)]).tolist())
        taken = np.flatnonzero(owner[covered] >= 0)
        if len(taken):
            at = covered.start + int(taken[0])
            reason = f"its identity has the key {image_keys[at]}, which is an image of identity record {owner[at]} too"
            yield Fault(*place, reason)
        owner[covered] = index.keys[row]
        labels = seen.labels[images[covered], 0]
        for at in np.flatnonzero(
            (labels != labels[:1]) & ~np.isnan(labels) & (seen.images[images[covered]] > 0)
        ).tolist():
            wrong = int(images[covered.start + at])
            reason = (
                f"label {labels[at]:g}, but it lies in the range of record {index.keys[row]}, of label {labels[0]:g}"
            )
            yield Fault(str(path), named[wrong], int(index.offsets[wrong]), reason)
    if len(rows) and exact:
        for row in images[owner < 0].tolist():
            yield Fault(str(path), named[row], int(index.offsets[row]), "in the range of no identity record")


# --- the files beside ---


def _list_faults(
    path: Path, index: Index, identities: Identities | None, listed: NameList | None, seen: _Survey
) -> Iterator[Fault]:
    """Faults of a list: other keys or labels than the pack's, or a repeated name."""
    if listed is None:
        return
    where, list_name = str(list_path(path)), list_path(path).name
    for line, reason in listed.wrong.items():
        yield Fault(where, "", None, f"line {line}: {reason}")
    images = _image_rows(index.keys, identities)
    for row in repeated_texts(listed.names):
        yield Fault(where, listed.names[row], None, f"line {listed.lines[row]}: the name stands there twice")
    for row in repeats(listed.keys).tolist():
        yield Fault(
            where, listed.names[row], None, f"line {listed.lines[row]}: key {listed.keys[row]} stands there twice"
        )
    place = np.searchsorted(index.keys[images], listed.keys)
    place = np.minimum(place, max(len(images) - 1, 0))
    present = index.keys[images][place] == listed.keys if len(images) else np.zeros(len(listed.keys), bool)
    for row in np.flatnonzero(~present).tolist():
        reason = f"line {listed.lines[row]}: no image has its key {listed.keys[row]}"
        yield Fault(where, listed.names[row], None, reason)
    for at in np.flatnonzero(~np.isin(index.keys[images], listed.keys) & (seen.images[images] != 0)).tolist():
        row = int(images[at])
        yield Fault(str(path), str(index.keys[row]), int(index.offsets[row]), f"{list_name} does not have this image")
    labels = seen.labels[images[place], 0] if len(images) else np.zeros(len(place))
    for row in np.flatnonzero(present & ~np.isnan(labels) & (labels != listed.labels)).tolist():
        image = int(images[place[row]])
        reason = f"label {labels[row]:g}, but line {listed.lines[row]} of {list_name} has {listed.labels[row]} for it"
        yield Fault(str(path), listed.names[row], int(index.offsets[image]), reason)


def _manifest_faults(
    path: Path, index: Index, identities: Identities | None, named: _Named, seen: _Survey
) -> Iterator[Fault]:
    """Faults of a manifest: another number of images than the pack's, or a label without an identity."""
    images = _image_rows(index.keys, identities)
    try:
        manifest: Manifest | None = read_manifest(path, len(images))
    except (ValueError, OSError) as error:
        yield fault_of(error, path)
        return
    if manifest is None or manifest.people is None:
        return
    labels = seen.labels[images, 0]
    for row in images[labels >= len(manifest.people)].tolist():
        reason = (
            f"label {seen.labels[row, 0]:g} is out of range: the manifest has {len(manifest.people)} people, from 0"
        )
        yield Fault(str(path), named[row], int(index.offsets[row]), reason)
