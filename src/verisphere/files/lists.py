"""Lists for face images: people, and pairs."""

import csv
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.files.json_values import shown
from verisphere.files.text import Line, numbered_lines, refuse_repeats, text_lines

_DIGITS = 18  # most digits of a whole number, which 64 bits can hold


@dataclass(frozen=True)
class PairList:
    """Pairs of images to compare, in list order.

    Attributes:
        left, right: name of each image, such as `Abel_Pacheco/Abel_Pacheco_0001.jpg`.
        genuine: whether both images show the same person.
        folds: number of the fold of each pair; None where the list has no folds.
        lines: line of each pair in the list, for errors; None for pairs from elsewhere.
        source: name of the list for error messages.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    genuine: tuple[bool, ...]
    folds: tuple[int, ...] | None = None
    lines: tuple[int, ...] | None = None
    source: str = "pairs"

    def __post_init__(self) -> None:
        if not self.left:
            raise ValueError(f"{self.source}: no pairs; is the list empty?")
        for field in ("right", "genuine", "folds", "lines"):
            values = getattr(self, field)
            if values is not None and len(values) != len(self.left):
                raise ValueError(f"{self.source}: {field} has {len(values)} entries but left has {len(self.left)}")

    def __len__(self) -> int:
        return len(self.left)

    def positions(self, names: Sequence[str]) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]:
        """Positions of the left and the right image of each pair among the names of a set.

        Names must agree exactly, suffix included.

        Raises:
            ValueError: the set does not have some images; names the first one with its line, and states their number.
        """
        position = {name: index for index, name in enumerate(names)}
        sides = self.left, self.right
        try:
            left, right = (np.fromiter(map(position.__getitem__, side), np.int64, len(side)) for side in sides)
        except KeyError:
            missing = {name for side in sides for name in side if name not in position}
            raise ValueError(self._missing(missing, names)) from None
        return left, right

    def _missing(self, missing: set[str], names: Sequence[str]) -> str:
        pair, first = next(
            (pair, name) for pair, both in enumerate(zip(self.left, self.right, strict=True)) for name in both
            if name in missing
        )  # fmt: skip
        line = "" if self.lines is None else f" on line {self.lines[pair]}"
        spelled = f"names there look like {shown(names[0], 200)}" if len(names) else "the set is empty"
        return f"{self.source}: {len(missing)} images are not in the set, first {shown(first, 200)}{line}; {spelled}"


def read_people(path: str | Path) -> tuple[str, ...]:
    """The people in a list, in its order.

    There are three layouts: LFW's `peopleDevTrain.txt` (a line with the count, then lines `Name<TAB>images`), LFW's
    `people.txt` (a line with the number of sections, then sections of the first layout), and, for a file without tabs,
    one name per line.

    Raises:
        ValueError: a count disagrees with the lines that follow, a line is malformed, or a person is listed twice.
    """
    lines = numbered_lines(path)
    if not lines:
        raise ValueError(f"{path}: no people; the file is empty")
    # A tab distinguishes the layouts, not a leading number: the identities of many sets are numbers.
    named = _people_with_counts(path, lines) if any("\t" in text for _, text in lines) else lines
    refuse_repeats(path, named)
    return tuple(name for _, name in named)


def read_pairs(path: str | Path) -> PairList:
    """The pairs of an LFW pair list, or of a CSV file with a header naming `left`, `right`, `label`, optionally `fold`.

    LFW's list has a line `folds<TAB>count`, or `count` alone for a list without folds; then, for each fold, `count`
    genuine pairs `Name i j` and `count` impostor pairs `Name i Other j`. Image i of Name is `Name/Name_000i.jpg`. In
    CSV a label is exactly 1 (genuine) or 0 (impostor); other columns are ignored.

    Raises:
        ValueError: a line is malformed or missing; names the line.
    """
    with text_lines(path) as lines:
        header = next((line.split(maxsplit=2) for line in lines if line.strip()), None)
    if header is None:
        raise ValueError(f"{path}: no pairs; the file is empty")
    if len(header) <= 2 and all(_is_count(word) for word in header):
        return _lfw_pairs(path, numbered_lines(path))
    return _csv_pairs(path)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _people_with_counts(path: str | Path, lines: Sequence[Line]) -> list[Line]:
    heads = [index for index, (_, text) in enumerate(lines) if "\t" not in text]
    for index in heads:
        number, text = lines[index]
        if not _is_count(text):
            raise ValueError(f"{path}: line {number}: {shown(text, 100)} is neither a count nor `Name<TAB>images`")
    if heads[:1] != [0]:
        raise ValueError(f"{path}: line {lines[0][0]}: {shown(lines[0][1])} where LFW's layout has the count of people")
    if heads[1:2] == [1]:
        number, sections = lines[0][0], int(lines[0][1])
        heads = heads[1:]
        if len(heads) != sections:
            raise ValueError(f"{path}: line {number}: announces {sections} sections, but {len(heads)} follow")
    people: list[Line] = []
    for head, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        number, count = lines[head][0], int(lines[head][1])
        if end - head - 1 != count:
            raise ValueError(f"{path}: line {number}: announces {count} people, but {end - head - 1} follow")
        people.extend(_person(path, line) for line in lines[head + 1 : end])
    return people


def _person(path: str | Path, line: Line) -> Line:
    number, text = line
    name, _, images = text.rpartition("\t")
    if not _is_count(images) or int(images) == 0 or "\t" in name:
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} is not `Name<TAB>images` with one image or more")
    return number, name


def _lfw_pairs(path: str | Path, lines: Sequence[Line]) -> PairList:
    header = [int(word) for word in lines[0][1].split()]
    folds, count = header if len(header) == 2 else (1, header[0])
    rows = lines[1:]
    if len(rows) != folds * 2 * count:
        raise ValueError(
            f"{path}: line {lines[0][0]}: announces {folds} x (2 x {count}) = {folds * 2 * count} pairs, "
            f"but {len(rows)} follow"
        )
    genuine = [row // count % 2 == 0 for row in range(len(rows))]
    pairs = [_lfw_pair(path, line, kind) for line, kind in zip(rows, genuine, strict=True)]
    return PairList(
        left=tuple(left for left, _ in pairs),
        right=tuple(right for _, right in pairs),
        genuine=tuple(genuine),
        folds=tuple(row // (2 * count) for row in range(len(rows))) if len(header) == 2 else None,
        lines=tuple(number for number, _ in rows),
        source=str(path),
    )


def _lfw_pair(path: str | Path, line: Line, genuine: bool) -> tuple[str, str]:
    number, text = line
    words = text.split(maxsplit=4)
    expected = "a genuine pair, `Name i j`" if genuine else "an impostor pair, `Name i Other j`"
    if len(words) != (3 if genuine else 4) or not (_is_count(words[1]) and _is_count(words[-1])):
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} where the header puts {expected}")
    left, right = (words[0], words[1]), (words[-2] if not genuine else words[0], words[-1])
    if not genuine and left[0] == right[0]:
        raise ValueError(f"{path}: line {number}: {shown(text)} cannot be {expected}")
    first, second = (f"{name}/{name}_{int(image):04d}.jpg" for name, image in (left, right))
    return first, second


def _csv_pairs(path: str | Path) -> PairList:
    with text_lines(path) as lines:
        reader = csv.reader(lines)
        try:
            columns = [name.strip() for name in next(row for row in reader if row)]
            absent = [name for name in ("left", "right", "label") if name not in columns]
            if absent:
                raise ValueError(
                    f"{path}: line 1: neither an LFW header (`folds<TAB>count`) nor a CSV header: no column "
                    f"{absent[0]!r} among {shown(columns, 200)}"
                )
            return _pairs_below(path, columns, ((reader.line_num, row) for row in reader if row))
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None


def _pairs_below(path: str | Path, columns: list[str], rows: Iterable[tuple[int, list[str]]]) -> PairList:
    """The pairs below a header, in one pass, since there can be many millions."""
    place = {name: number for number, name in enumerate(columns)}
    of_left, of_right, of_label, of_fold = (place.get(name, -1) for name in ("left", "right", "label", "fold"))
    left, right, genuine, folds, lines = [], [], [], [], []
    names: dict[str, str] = {}  # repeated names share one string
    for number, row in rows:
        if len(row) != len(columns):
            _check_pair_row(path, number, columns, row)
            row += [""] * (len(columns) - len(row))
        one, two, label = row[of_left].strip(), row[of_right].strip(), row[of_label].strip()
        if not one or not two or label not in ("0", "1"):
            _check_pair_row(path, number, columns, row)
        left.append(names.setdefault(one, one))
        right.append(names.setdefault(two, two))
        genuine.append(label == "1")
        lines.append(number)
        if of_fold >= 0:
            fold = row[of_fold].strip()
            if not _is_count(fold):
                _check_pair_row(path, number, columns, row)
            folds.append(int(fold))
    return PairList(
        left=tuple(left),
        right=tuple(right),
        genuine=tuple(genuine),
        folds=tuple(folds) if of_fold >= 0 else None,
        lines=tuple(lines),
        source=str(path),
    )


def _check_pair_row(path: str | Path, number: int, columns: list[str], cells: list[str]) -> None:
    if len(cells) > len(columns):
        raise ValueError(f"{path}: line {number}: more values than the header has columns")
    row = dict(itertools.zip_longest(columns, cells))  # None where the line ends early
    for column in ("left", "right"):
        if not (row[column] or "").strip():
            raise ValueError(f"{path}: line {number}: no image in column {column!r}")
    if (row["label"] or "").strip() not in ("0", "1"):
        raise ValueError(
            f"{path}: line {number}: label {shown(row['label'])}; allowed are 1 (genuine) and 0 (impostor)"
        )
    if "fold" in row and not _is_count((row["fold"] or "").strip()):
        raise ValueError(
            f"{path}: line {number}: fold {shown(row['fold'])} is not a whole number from 0 of at most {_DIGITS} digits"
        )
