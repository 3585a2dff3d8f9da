"""Which records of a RecordIO file are images, the label of each, and the faults of the file and of those beside it.

The rules are the same whether a pack is opened or verified. Opening looks at the headers that state a label, and ends
at the first fault. Verifying walks all records first.
"""

import math
import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int, Int64

from verisphere.base.vocabulary import NO_CLASS
from verisphere.files.disk import regular
from verisphere.files.errors import Fault, fault_of
from verisphere.images.packs.columns import Texts
from verisphere.images.packs.manifest import Manifest, manifest_path, read_manifest
from verisphere.images.packs.recordio_index import (
    Index,
    NameList,
    index_path,
    list_path,
    read_index,
    read_name_list,
    repeated_texts,
    repeats,
)
from verisphere.images.packs.recordio_layout import (
    EXACT,
    LABELS,
    UNSEEN,
    gather_headers,
    walk,
    walk_without_index,
    whole,
)

_SAMPLE = 64  # images of which the ids are compared with the keys when a pack is opened
_AT_ONCE = 1 << 12  # identities whose images are labelled at a time
_UNKNOWN = NO_CLASS - 1
_MOST_IMAGES = 1 << 40  # more are a mistake in a file


@dataclass(frozen=True, eq=False)
class Contents:
    """The images of a pack.

    Labels count from -1; the names are those of the list, if there is one. Whether the ids in the headers are the keys
    is judged by at least half of a sample of images.
    """

    keys: Int64[np.ndarray, " images"]
    offsets: Int64[np.ndarray, " images"]
    labels: Int[np.ndarray, " images"]
    names: Texts | None
    manifest: Manifest | None
    ids_are_keys: bool


def contents(path: Path, thorough: bool) -> Generator[Fault, None, Contents | None]:
    """The images of a pack, and its faults; see `verisphere.images.packs.pack.Format.contents`.

    Thoroughly, the records are walked in the order of their places, their headers read and their images skipped; after
    a malformed record, the index says where the next one begins. Without an index, the next one is searched for. If
    most ids in the headers differ from the keys, the program that wrote the file put something else there, and a single
    fault reports this for all records.
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
        for row in repeated_texts(names):
            reason = f"{names[row]!r} stands there twice; names must be unique"
            yield Fault(str(list_path(path)), "", None, reason)
    if thorough:
        return None
    return Contents(records.image_keys, offsets[images], labels, names, manifest, records.ids_are_keys)


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

    The keys are sorted if there is an identity header, and `end` is the key after that of the last image; without such
    a header it is 0. Images are positions among the records. If the records were walked, `seen` has the first two
    labels of each and the bytes of its image.
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
