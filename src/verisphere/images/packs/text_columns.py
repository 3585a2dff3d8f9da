"""Columns of large tables of text, parsed block by block with numpy: the index and the list of a pack."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from verisphere.files.disk import regular
from verisphere.files.text import LONGEST_LINE

_BLOCK = 1 << 22  # bytes parsed at a time; several arrays with eight bytes per character are in memory as well
_MOST_DIGITS = 18  # digits of a whole number that 64 bits always hold
NOT_WHOLE = -2
"""The value in a column for a text that is not a whole number from -1."""

_TAB, _LINE_END, _RETURN, _POINT, _MINUS, _ZERO = b"\t\n\r.-0"


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines of a file that are not blank.

    Lines count from 1 in the file; each lies in `text`, the bytes of a block, from its start up to its stop, without
    its end.
    """

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

    def texts(self, starts: Int64[np.ndarray, " lines"], stops: Int64[np.ndarray, " lines"]) -> bytes:
        """The texts of a column in all lines, joined."""
        width = np.maximum(stops - starts, 0)
        before = np.cumsum(width) - width
        return self.text[np.repeat(starts - before, width) + np.arange(int(width.sum()))].tobytes()


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
