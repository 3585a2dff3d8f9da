"""Which records of a RecordIO file are images, and the label of each."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32, Int, Int64

from verisphere.packs.columns import Texts
from verisphere.packs.recordio_index import Index, NameList, list_path
from verisphere.packs.recordio_layout import EXACT, gather_headers
from verisphere.vocabulary import NO_CLASS

_SAMPLE = 64  # images of which the ids are compared with the keys when a pack is opened
_AT_ONCE = 1 << 12  # identities whose images are labelled at a time
_UNKNOWN = NO_CLASS - 1
_MOST_IMAGES = 1 << 40  # more are a mistake in a file


@dataclass(frozen=True, eq=False)
class Contents:
    """The images of a pack.

    Attributes:
        keys: key of each image.
        offsets: byte at which each image's record begins.
        labels: label of each image, from -1.
        names: name of each image in the list; None if there is no list.
    """

    keys: Int64[np.ndarray, " images"]
    offsets: Int64[np.ndarray, " images"]
    labels: Int[np.ndarray, " images"]
    names: Texts | None


@dataclass(frozen=True, eq=False)
class Identities:
    """An identity header.

    Attributes:
        end: key after that of the last image.
        keys: key of each identity record.
        offsets: byte at which each identity record begins.
    """

    end: int
    keys: Int64[np.ndarray, " identities"]
    offsets: Int64[np.ndarray, " identities"]


def contents(path: Path, index: Index, listed: NameList | None) -> Contents:
    """The images of an index, with the labels from the identity records, the list or the headers of the images."""
    keys, offsets = index.keys, index.offsets
    if not (keys[1:] > keys[:-1]).all():  # copies would be as large as the index
        order = np.argsort(keys, kind="stable")
        keys, offsets = keys[order], offsets[order]
        del order
    identities = identity_header(path, keys, offsets)
    if identities is None:
        keys, offsets = index.keys, index.offsets
    else:
        images = slice(*np.searchsorted(keys, [1, identities.end]).tolist())
        keys, offsets = keys[images], offsets[images]
        if len(keys) != identities.end - 1:
            absent = int(np.setdiff1d(np.arange(1, min(identities.end, len(keys) + 2)), keys)[0])
            raise ValueError(
                f"{path}: its identity header states the images 1 to {identities.end - 1}, but the index has no key "
                f"{absent}"
            )
    rows = None if listed is None else list_rows(path, keys, listed)
    labels = np.full(len(keys), _UNKNOWN, np.int32)
    if identities is not None:
        _fill_from_identities(path, labels, offsets, identities)
    if listed is not None and rows is not None:
        stated = listed.labels[rows]
        wrong = np.flatnonzero((labels != _UNKNOWN) & (labels != stated))
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"{list_path(path)}: line {listed.lines[rows[row]]}: label {stated[row]}, but {path.name} has "
                f"{labels[row]} for record {keys[row]}"
            )
        labels = stated
    unknown = np.flatnonzero(labels == _UNKNOWN)
    labels[unknown] = _read_labels(path, keys[unknown], offsets[unknown])
    _refuse_large(path, keys, labels)
    names = None if listed is None else listed.names
    if names is not None and rows is not None and not np.array_equal(rows, np.arange(len(names))):
        names = names.take(rows)
    return Contents(keys, offsets, labels, names)


def identity_header(
    path: Path, keys: Int64[np.ndarray, " records"], offsets: Int64[np.ndarray, " records"]
) -> Identities | None:
    """The identity header of a file with these keys, which are sorted; None if the file has none.

    The header is record 0 if that has two labels and no image. Programs exist that state no identity records, or a
    number of identities as the second label; then the file has no keys from `end` on.
    """
    if not len(keys) or keys[0] != 0:
        return None
    header = gather_headers(path, offsets[:1])
    first, second = header.labels[0].tolist()
    _refuse_problem(path, keys, offsets, header.problems)
    if header.images[0] or math.isnan(second):
        return None
    if not (2 <= first <= _MOST_IMAGES and first == math.floor(first)):
        raise ValueError(f"{path}: record 0 at byte {offsets[0]}: an identity header whose images end at {first:g}")
    end = int(first)
    if end >= EXACT:  # the nearest float32; the exact key is that of the first record without an image
        near = slice(*np.searchsorted(keys, [end - end // EXACT, end + end // EXACT + 1]).tolist())
        around = gather_headers(path, offsets[near], len(keys))
        ends = (around.images == 0) & ~np.isnan(around.labels[:, 1])
        end = int(keys[near][ends][0]) if ends.any() else int(keys[-1]) + 1
    behind = np.searchsorted(keys, end)
    return Identities(end, keys[behind:], offsets[behind:])


def list_rows(path: Path, keys: Int64[np.ndarray, " images"], listed: NameList) -> Int64[np.ndarray, " images"]:
    """The position in a list of each key."""
    order = np.argsort(listed.keys, kind="stable")
    place = np.minimum(np.searchsorted(listed.keys[order], keys), max(len(order) - 1, 0))
    absent = np.flatnonzero(listed.keys[order][place] != keys) if len(order) else np.arange(len(keys))
    if len(absent):
        raise ValueError(
            f"{list_path(path)}: {len(absent)} of {len(keys)} images are not in this list, the first is record "
            f"{keys[absent[0]]}; if it is a list of other images, move it away, and the keys are the names"
        )
    return order[place]


def whole(labels: Float32[np.ndarray, "..."]) -> np.ndarray:
    """Which labels are whole numbers from -1 that float32 can distinguish."""
    return (labels >= NO_CLASS) & (labels <= EXACT) & (labels == np.floor(labels))


def ids_are_keys(path: Path, keys: Int64[np.ndarray, " images"], offsets: Int64[np.ndarray, " images"]) -> bool:
    """Whether the ids in the headers are the keys, judged by at least half of a sample of images."""
    rows = np.unique(np.linspace(0, len(keys) - 1, _SAMPLE).astype(np.int64))
    rows = rows[keys[rows] != 0] if len(rows) > 1 else rows  # 0 is also the value of an unset id
    headers = gather_headers(path, offsets[rows], len(rows))
    legible = np.setdiff1d(np.arange(len(rows)), list(headers.problems))
    equal = headers.ids[legible] == keys[rows][legible].astype(np.uint64)
    return 2 * int(np.count_nonzero(equal)) >= len(legible)


def _fill_from_identities(
    path: Path, labels: Int[np.ndarray, " images"], offsets: Int64[np.ndarray, " images"], identities: Identities
) -> None:
    """Gives all images in a range of keys the label of the first image of the range.

    Ranges past 2**24, where float32 cannot state every key, are skipped: the images there keep the unknown label.
    """
    headers = gather_headers(path, identities.offsets)
    _refuse_problem(path, identities.keys, identities.offsets, headers.problems)
    ranges = headers.labels.astype(np.float64)
    with np.errstate(invalid="ignore"):
        wrong = ~((ranges >= 1) & (ranges == np.floor(ranges)) & (ranges <= identities.end + EXACT)).all(1)
        wrong |= (headers.images != 0) | (ranges[:, 0] > ranges[:, 1])
        wrong |= (ranges[:, 1] > identities.end) & (identities.end < EXACT)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{path}: record {identities.keys[row]} at byte {identities.offsets[row]}: the identity record of the keys "
            f"{ranges[row, 0]:g} up to {ranges[row, 1]:g}, in a file whose images are 1 to {identities.end - 1}"
        )
    rows = np.flatnonzero((ranges[:, 1] <= EXACT) & (ranges[:, 0] < ranges[:, 1]))
    rows = rows[np.argsort(ranges[rows, 0], kind="stable")]
    starts, stops = ranges[rows].astype(np.int64).T
    overlap = np.flatnonzero(starts[1:] < stops[:-1])
    if len(overlap):
        row = rows[overlap[0] + 1]
        raise ValueError(
            f"{path}: record {identities.keys[row]} at byte {identities.offsets[row]}: an identity from key "
            f"{starts[overlap[0] + 1]}, which is an image of another identity too"
        )
    of_range = _read_labels(path, starts, offsets[starts - 1])
    for begin in range(0, len(rows), _AT_ONCE):
        part = slice(begin, begin + _AT_ONCE)
        counts = stops[part] - starts[part]
        before = np.cumsum(counts) - counts
        places = np.repeat(starts[part] - 1 - before, counts) + np.arange(int(counts.sum()))
        labels[places] = np.repeat(of_range[part], counts)


def _read_labels(
    path: Path, keys: Int64[np.ndarray, " images"], offsets: Int64[np.ndarray, " images"]
) -> Int64[np.ndarray, " images"]:
    """The labels in the headers of images."""
    headers = gather_headers(path, offsets)
    _refuse_problem(path, keys, offsets, headers.problems)
    empty = np.flatnonzero(headers.images == 0)
    if len(empty):
        row = int(empty[0])
        raise ValueError(
            f"{path}: record {keys[row]} at byte {offsets[row]}: no image in it, and no identity header says that it "
            "is the record of an identity"
        )
    labels = headers.labels[:, 0]
    wrong = np.flatnonzero(~whole(labels))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"{path}: record {keys[row]} at byte {offsets[row]}: label {labels[row]:g}; allowed are whole numbers from "
            f"-1 to {EXACT}"
        )
    return labels.astype(np.int64)


def _refuse_problem(path: Path, keys: np.ndarray, offsets: np.ndarray, problems: dict[int, str]) -> None:
    for row, reason in problems.items():
        raise ValueError(f"{path}: record {keys[row]} at byte {offsets[row]}: {reason}")


def _refuse_large(path: Path, keys: np.ndarray, labels: np.ndarray) -> None:
    large = np.flatnonzero((labels > EXACT) | (labels < NO_CLASS))
    if len(large):
        row = int(large[0])
        raise ValueError(
            f"{path}: record {keys[row]}: label {labels[row]}; allowed are whole numbers from -1 to {EXACT}"
        )
