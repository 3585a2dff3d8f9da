"""Lists of template pairs by the million (`template template 0|1` a line), read as numbers without a loop over lines.

The file is read in portions that fit into a core's cache. If every line of a portion is three groups of digits with one
space between them, which is the published form, the digits of all lines are added up place by place. A portion with
anything else (tabs, further spaces, a mistake) is read line by line.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8

from verisphere.base.vocabulary import Comparisons
from verisphere.files.disk import check_file, regular
from verisphere.files.json_values import shown
from verisphere.files.text import LONGEST_LINE, MOST_DIGITS, is_count

_BYTES_AT_ONCE = 1 << 19
_LARGEST_TABLE = 1 << 24  # templates up to this number are looked up in a table, larger ones are searched
_LAYOUT = "a line is `template template label`, whole numbers, label 1 (one person) or 0, as in 1 11065 1"
_SEPARATORS = np.frombuffer(b"  \n", np.uint8)


def read_template_pairs(path: Path, templates: Int64[np.ndarray, " templates"], source: Path) -> Comparisons:
    """Reads `ijbc_template_pair_label.txt`: pairs of positions in the templates, which are ascending; and the labels.

    A line has two templates, and 1 where they show one person, else 0. 17 bytes a pair are held.
    """
    check_file(path)
    lines = sum(portion.count(b"\n") for portion in _portions(path))
    left, right, genuine = np.empty(lines, np.int64), np.empty(lines, np.int64), np.empty(lines, bool)
    lookup = _Lookup(templates)
    read = 0  # lines of pairs
    ended = False  # only blank lines may follow
    for portion in _portions(path):
        numbers = None if ended else _regular(np.frombuffer(portion, np.uint8))
        if numbers is None:
            numbers, ended = _line_by_line(path, portion, read, ended)
        part = slice(read, read + len(numbers))
        for side, column in ((left, 0), (right, 1)):
            positions = lookup(numbers[:, column])
            unknown = np.flatnonzero(positions < 0)
            if len(unknown):
                raise ValueError(
                    f"{path}: line {read + unknown[0] + 1}: template {numbers[unknown[0], column]} is not in {source}"
                )
            side[part] = positions
        genuine[part] = numbers[:, 2] == 1
        read += len(numbers)
    if not read:
        raise ValueError(f"{path}: it lists no pair; {_LAYOUT}")
    return Comparisons(left[:read], right[:read], genuine[:read], lines=range(1, read + 1))


class _Lookup:
    """Positions of templates by their numbers."""

    def __init__(self, templates: Int64[np.ndarray, " templates"]) -> None:
        self.templates, self.table = templates, None
        if templates[-1] < _LARGEST_TABLE:
            self.table = np.full(templates[-1] + 1, -1, np.int32)
            self.table[templates] = np.arange(len(templates))

    def __call__(self, numbers: Int64[np.ndarray, " some"]) -> np.ndarray:
        """The position of each template; -1 where it is unknown."""
        if self.table is not None:
            positions = self.table[np.minimum(numbers, len(self.table) - 1)]
            return np.where(numbers < len(self.table), positions, -1)
        positions = np.searchsorted(self.templates, numbers).clip(max=len(self.templates) - 1)
        return np.where(self.templates[positions] == numbers, positions, -1)


def _portions(path: Path) -> Iterator[bytes]:
    """The file in portions of whole lines, with line feeds alone at their ends; the last line is completed."""
    rest, lines = b"", 0
    with open(path, "rb", opener=regular) as file:
        first = True
        while read := file.read(_BYTES_AT_ONCE):
            if first:
                read, first = read.removeprefix(b"\xef\xbb\xbf"), False
            end = read.rfind(b"\n") + 1
            if end:
                portion = rest + read[:end]
                rest = read[end:]
                lines += portion.count(b"\n")
                yield portion.replace(b"\r\n", b"\n")
            else:
                rest += read
                if len(rest) > LONGEST_LINE:
                    raise ValueError(
                        f"{path}: line {lines + 1}: longer than {LONGEST_LINE:,} bytes; is it a list at all?"
                    )
    if rest:
        yield rest + b"\n"


def _regular(text: UInt8[np.ndarray, " bytes"]) -> Int64[np.ndarray, "lines 3"] | None:
    """The numbers of lines that all have the published form; None if one line does not."""
    ends = np.flatnonzero(text < ord("0"))
    if len(ends) % 3 or text.max() > ord("9") or (text[ends].reshape(-1, 3) != _SEPARATORS).any():
        return None
    digits = np.diff(ends, prepend=-1) - 1
    longest = digits.max()
    if digits.min() < 1 or longest > MOST_DIGITS:
        return None
    numbers = np.zeros(len(ends), np.int64)
    for place in range(longest):
        digit = text[ends - 1 - place].astype(np.int64) - ord("0")  # before a number's first digit: excluded below
        digit[digits <= place] = 0
        numbers += digit * 10**place
    rows = numbers.reshape(-1, 3)
    return rows if rows[:, 2].max() <= 1 else None


def _line_by_line(path: Path, portion: bytes, before: int, ended: bool) -> tuple[Int64[np.ndarray, "lines 3"], bool]:
    """The numbers of a portion of whole lines after others, and whether a blank line has ended the list."""
    numbers: list[Sequence[int]] = []
    for number, line in enumerate(portion.split(b"\n")[:-1], before + 1):
        text = line.decode("utf-8", "replace").strip()
        words = text.split()
        if not words:
            ended = True
        elif ended:
            raise ValueError(f"{path}: a blank line after line {before + len(numbers)}, before other lines")
        elif len(words) == 3 and all(map(is_count, words)) and words[2] in ("0", "1"):
            numbers.append([int(word) for word in words])
        else:
            raise ValueError(f"{path}: line {number}: {shown(text, 100)}; {_LAYOUT}")
    return np.array(numbers, np.int64).reshape(-1, 3), ended
