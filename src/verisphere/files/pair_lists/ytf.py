"""YouTube Faces' list of pairs of videos.

Layout: `splits.txt` (Wolf, Hassner and Maoz 2011, Face recognition in unconstrained videos): the split, the number of
the pair in it, two videos and the label, between commas, with or without a header. A video is a folder of frames,
`Name/3`. In `splits_corrected.txt` of the same authors the label contradicts the folders' names for some pairs, so only
the label decides.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList, PairRow
from verisphere.files.text import is_count, numbered_lines

_FIELDS = 5


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split(",")]


def _is_pair(cells: Sequence[str]) -> bool:
    return len(cells) == _FIELDS and is_count(cells[0]) and is_count(cells[1]) and "/" in cells[2] and "/" in cells[3]


def _looks(path: Path, head: Sequence[str]) -> bool:
    rows = [_cells(line) for line in head[:2]]
    return bool(rows) and (_is_pair(rows[0]) or (len(rows) == 2 and len(rows[0]) == _FIELDS and _is_pair(rows[1])))


def _read(path: Path) -> PairList:
    """Reads a list: splits are the folds; they must be equally large, with pairs numbered from 1 in order."""
    lines = numbered_lines(path)
    rows = lines if is_count(_cells(lines[0][1])[0]) else lines[1:]
    pairs, folds = list[PairRow](), list[int]()
    size = Counter[int]()
    for line, text in rows:
        cells = _cells(text)
        if not _is_pair(cells):
            raise ValueError(f"{path}: line {line}: {shown(text, 100)} is not `split, number, Name/3, Other/0, label`")
        fold, number = int(cells[0]), int(cells[1])
        if cells[4] not in ("0", "1"):
            raise ValueError(f"{path}: line {line}: label {shown(cells[4])}; allowed are 1 (genuine) and 0 (impostor)")
        size[fold] += 1
        if number != size[fold]:
            raise ValueError(
                f"{path}: line {line}: pair {number} of split {fold}, where pair {size[fold]} follows; is a line "
                "missing?"
            )
        pairs.append((line, cells[2], cells[3], cells[4] == "1"))
        folds.append(fold)
    for fold, count in size.items():
        if count != size[folds[0]]:
            last = max(line for (line, _), number in zip(rows, folds, strict=True) if number == fold)
            raise ValueError(
                f"{path}: line {last}: ends {count} pairs of split {fold}, but split {folds[0]} has {size[folds[0]]}; "
                "is a line missing?"
            )
    people = tuple((video.split("/")[0], other.split("/")[0]) for _, video, other, _ in pairs)
    return PairList.of(path, pairs, folds=tuple(folds), videos=True, people=people)


YTF = Layout("YTF", "1, 1, Ann/1, Ann/3, 1", _looks, _read)
