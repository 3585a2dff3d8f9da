"""Lists of pairs as CSV with a header naming `left`, `right`, `label` and optionally `fold`."""

import csv
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList, PairRow
from verisphere.files.text import MOST_DIGITS, is_count, text_lines

_REQUIRED = ("left", "right", "label")


def _looks(path: Path, head: Sequence[str]) -> bool:
    try:
        return bool(head) and any(cell.strip() in _REQUIRED for cell in next(csv.reader([head[0]])))
    except csv.Error:  # a cell too long for a header
        return False


def _read(path: Path) -> PairList:
    """Reads a CSV: a label is exactly 1 (genuine) or 0 (impostor); other columns are ignored."""
    with text_lines(path) as lines:
        reader = csv.reader(lines)
        try:
            columns = [name.strip() for name in next(row for row in reader if row)]
            absent = [name for name in _REQUIRED if name not in columns]
            if absent:
                raise ValueError(f"{path}: line 1: no column {absent[0]!r} among {shown(columns, 200)}")
            return _pairs_below(path, columns, ((reader.line_num, row) for row in reader if row))
        except csv.Error as error:
            raise ValueError(f"{path}: line {reader.line_num}: {error}") from None


def _pairs_below(path: str | Path, columns: list[str], rows: Iterable[tuple[int, list[str]]]) -> PairList:
    """The pairs below a header, in one pass, since there can be many millions."""
    place = {name: number for number, name in enumerate(columns)}
    of_left, of_right, of_label, of_fold = (place.get(name, -1) for name in ("left", "right", "label", "fold"))
    pairs, folds = list[PairRow](), []
    names: dict[str, str] = {}  # repeated names share one string
    for number, row in rows:
        if len(row) != len(columns):
            _check_pair_row(path, number, columns, row)
            row += [""] * (len(columns) - len(row))
        first, second, label = row[of_left].strip(), row[of_right].strip(), row[of_label].strip()
        if not first or not second or label not in ("0", "1"):
            _check_pair_row(path, number, columns, row)
        pairs.append((number, names.setdefault(first, first), names.setdefault(second, second), label == "1"))
        if of_fold >= 0:
            fold = row[of_fold].strip()
            if not is_count(fold):
                _check_pair_row(path, number, columns, row)
            folds.append(int(fold))
    return PairList.of(path, pairs, folds=tuple(folds) if of_fold >= 0 else None)


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
    if "fold" in row and not is_count((row["fold"] or "").strip()):
        raise ValueError(
            f"{path}: line {number}: fold {shown(row['fold'])} is not a whole number from 0 of at most {MOST_DIGITS} "
            "digits"
        )


TABLE = Layout("CSV", "left,right,label[,fold]", _looks, _read)
