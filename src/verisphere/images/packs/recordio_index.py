"""The two text files beside RecordIO: the index, with the place of each record, and the list, with names.

Facts of MXNet (`python/mxnet/recordio.py`, `tools/im2rec.py`) and InsightFace (`face2rec2.py`): a line of the index is
`key<TAB>offset`. A line of a list is `key<TAB>label[<TAB>label ...]<TAB>path`; that of InsightFace is
`aligned<TAB>path<TAB>label[<TAB>...]`, whose lines are the keys from 1.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int, Int64, UInt8

from verisphere.base.mapped import Growing
from verisphere.files.disk import regular
from verisphere.files.text import LONGEST_LINE
from verisphere.images.packs.columns import GrowingTexts, Texts
from verisphere.images.packs.recordio_layout import survey

_BLOCK = 1 << 20  # bytes parsed at a time; several arrays with eight bytes per character are in memory as well
_MOST_DIGITS = 18  # digits of a whole number that 64 bits always hold
NOT_WHOLE = -2
"""The value in a column for a text that is not a whole number from -1."""

_TAB, _LINE_END, _RETURN, _POINT, _MINUS, _ZERO = b"\t\n\r.-0"


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of a file that are not blank, each from its start up to its stop in `text`, the bytes of a block."""

    text: UInt8[np.ndarray, " bytes"]
    numbers: Int64[np.ndarray, " lines"]
    starts: Int64[np.ndarray, " lines"]
    stops: Int64[np.ndarray, " lines"]

    def tabs(self) -> tuple[Int64[np.ndarray, " tabs"], Int64[np.ndarray, " lines"], Int64[np.ndarray, " lines"]]:
        """Positions of all tabs; for each line the position of its first tab among them, and its number of tabs."""
        tabs = np.flatnonzero(self.text == _TAB)
        first = np.searchsorted(tabs, self.starts)
        return tabs, first, np.searchsorted(tabs, self.stops) - first

    def whole(
        self, starts: Int64[np.ndarray, " lines"], stops: Int64[np.ndarray, " lines"]
    ) -> Int64[np.ndarray, " lines"]:
        """The whole number in a column of digits, from `starts` up to `stops` in each line; else `NOT_WHOLE`."""
        width = stops - starts
        good = (width > 0) & (width <= _MOST_DIGITS)
        numbers = np.zeros(len(starts), np.int64)
        for place in range(int(width[good].max(initial=0))):
            inside = good & (place < width)
            digits = self.text[np.where(inside, starts + place, 0)] - np.uint8(_ZERO)  # below "0" it wraps to > 9
            numbers = np.where(inside, numbers * 10 + digits, numbers)
            good &= ~inside | (digits <= 9)
        return np.where(good, numbers, NOT_WHOLE)

    def labels(
        self, starts: Int64[np.ndarray, " lines"], stops: Int64[np.ndarray, " lines"]
    ) -> Int64[np.ndarray, " lines"]:
        """The whole number in a column of labels such as 12, 12.000000 or -1.000000; else `NOT_WHOLE`."""
        points = np.append(np.flatnonzero(self.text == _POINT), len(self.text))
        point = np.minimum(points[np.searchsorted(points, starts)], stops)
        begins = np.minimum(starts, len(self.text) - 1)
        minus = (self.text[begins] == _MINUS) & (starts < stops)
        numbers = self.whole(starts + minus, point)
        behind = self.whole(point + 1, stops)
        fraction = (stops - point > 1) & (behind != 0)
        wrong = fraction | (numbers == NOT_WHOLE) | (minus & (numbers > 1))
        return np.where(wrong, NOT_WHOLE, np.where(minus, -numbers, numbers))

    def texts(self, starts: Int64[np.ndarray, " lines"], stops: Int64[np.ndarray, " lines"]) -> Texts:
        """The texts of a column in all lines; UnicodeDecodeError where they are not UTF-8."""
        width = stops - starts
        ends = np.cumsum(width)
        utf8 = self.text[np.repeat(starts - (ends - width), width) + np.arange(int(width.sum()))]
        utf8.tobytes().decode()
        return Texts(utf8, ends)


def blocks_of_lines(path: Path) -> Iterator[Lines]:
    """The lines of a file, some thousands at a time."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size  # not more than the size: some files below /proc are endless
        rest, number, read = b"", 1, 0
        while read < size:
            block = file.read(min(_BLOCK, size - read))
            read = read + len(block) if block else size
            text = rest + block
            cut = text.rfind(b"\n") + 1 if read < size else len(text)
            rest = text[cut:]
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"{path}: line {number + text.count(_LINE_END)}: longer than {LONGEST_LINE:,} bytes")
            if cut:
                yield _lines(np.frombuffer(text, np.uint8, cut), number)
                number += text.count(b"\n", 0, cut)


def _lines(text: UInt8[np.ndarray, " bytes"], number: int) -> Lines:
    ends = np.flatnonzero(text == _LINE_END)
    starts = np.concatenate([[0], ends + 1])
    stops = np.append(ends, len(text))
    stops = stops - ((stops > starts) & (text[np.maximum(stops - 1, 0)] == _RETURN))
    written = np.flatnonzero(stops > starts)
    return Lines(text, number + written, starts[written], stops[written])


@dataclass(frozen=True, eq=False)
class Index:
    """Where each record begins, in the order of the index; `wrong` numbers the lines that are not `key<TAB>offset`."""

    keys: Int64[np.ndarray, " records"]
    offsets: Int64[np.ndarray, " records"]
    lines: Int[np.ndarray, " records"]
    wrong: Int[np.ndarray, " wrong"]


@dataclass(frozen=True, eq=False)
class NameList:
    """Keys, first labels and names of the images, a line each; and the malformed lines, with the reason."""

    keys: Int64[np.ndarray, " images"]
    labels: Int64[np.ndarray, " images"]
    names: Texts
    lines: Int64[np.ndarray, " images"]
    wrong: dict[int, str]


def index_path(path: Path) -> Path:
    """Where the index of a pack lies."""
    return path.with_suffix(".idx")


def list_path(path: Path) -> Path:
    """Where the list of a pack lies."""
    return path.with_suffix(".lst")


def read_index(path: Path) -> Index:
    """The index of a pack; without an index, the file is read from record to record.

    Without one, the key of a record is the id in its header; if an id appears twice, all keys are numbers from 0.
    """
    place = index_path(path)
    if not place.is_file():
        return _scanned(path)
    columns = Growing("q"), Growing("q"), Growing("i")
    for block in blocks_of_lines(place):
        for column, part in zip(columns, _index_columns(block), strict=True):
            column.extend(part)
    keys, offsets, lines = (column.array() for column in columns)
    good = (keys != NOT_WHOLE) & (offsets != NOT_WHOLE)
    if good.all():
        return Index(keys, offsets, lines, np.zeros(0, np.int64))
    return Index(keys[good], offsets[good], lines[good], lines[~good])


def repeats(column: Int64[np.ndarray, " rows"]) -> Int64[np.ndarray, " repeats"]:
    """The positions of the numbers in a column that occurred earlier in it, in order."""
    if bool((column[1:] > column[:-1]).all()):
        return np.zeros(0, np.int64)
    order = np.argsort(column, kind="stable")
    return np.sort(order[1:][column[order[1:]] == column[order[:-1]]])


def read_name_list(path: Path) -> NameList | None:
    """The list beside a pack; None if there is none."""
    place = list_path(path)
    if not place.is_file():
        return None
    keys, labels, lines = (Growing("q") for _ in range(3))
    every, wrong = GrowingTexts(), dict[int, str]()
    insightface: bool | None = None
    for block in blocks_of_lines(place):
        tabs, first, count = block.tabs()
        enough = count >= 2
        for number in block.numbers[~enough].tolist():
            wrong[number] = "not `key<TAB>label<TAB>path`, or `aligned<TAB>path<TAB>label`"
        block = Lines(block.text, block.numbers[enough], block.starts[enough], block.stops[enough])
        if not len(block.numbers):
            continue
        first, count = first[enough], count[enough]
        one, two, last = tabs[first], tabs[first + 1], tabs[first + count - 1]
        if insightface is None:
            insightface = bool(block.labels(one[:1] + 1, two[:1])[0] == NOT_WHOLE)
        if insightface:
            third = np.where(count > 2, tabs[np.minimum(first + 2, len(tabs) - 1)], block.stops)
            key, label, begin, end = block.numbers, block.labels(two + 1, third), one + 1, two
        else:
            key, label, begin, end = block.whole(block.starts, one), block.labels(one + 1, two), last + 1, block.stops
        bad = (key == NOT_WHOLE) | (label == NOT_WHOLE) | (end <= begin)
        for number in block.numbers[bad].tolist():
            wrong[number] = "its key and its first label are not whole numbers, or its path is empty"
        try:
            names = block.texts(begin[~bad], end[~bad])
        except UnicodeDecodeError as error:
            raise ValueError(f"{place}: not UTF-8 text ({error.reason})") from None
        every.extend(names)
        for column, values in ((keys, key), (labels, label), (lines, block.numbers)):
            column.extend(values[~bad])
    return NameList(keys.array(), labels.array(), every.texts(), lines.array(), wrong)


def _index_columns(lines: Lines) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tabs, first, count = lines.tabs()
    alone = count == 1
    tab = np.where(alone, np.append(tabs, 0)[first], lines.starts)
    numbers = lines.numbers.astype(np.int32)  # enough for two billion lines; keys and offsets can be larger
    return lines.whole(lines.starts, tab), lines.whole(tab + 1, lines.stops), numbers


def _scanned(path: Path) -> Index:
    """The records of a file one after the other."""
    with open(path, "rb", buffering=0, opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        found = np.fromiter(
            ((offset, number) for offset, number in _records(path, file.fileno(), size)),
            np.dtype([("offset", np.int64), ("number", np.uint64)]),
        )
    keys = found["number"].astype(np.int64)
    counted = np.arange(len(found), dtype=np.int64)
    if len(repeats(keys)) or (keys < 0).any():
        keys = counted
    return Index(keys, np.ascontiguousarray(found["offset"]), counted + 1, np.zeros(0, np.int64))


def _records(path: Path, file: int, size: int) -> Iterator[tuple[int, int]]:
    offset = 0
    while offset < size:
        try:
            record = survey(file, offset, size)
        except ValueError as error:
            raise ValueError(f"{path}: record at byte {offset}: {error}; and there is no index beside it") from None
        yield offset, record.header.id
        offset = record.end
