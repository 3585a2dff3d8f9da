"""Two images and a label a line, without a header: the label last (1, and -1 or 0), or first (1 or 0).

No set was published in this layout, but lists circulate: `lfw_pair.txt`, `agedb_30_pair.txt` (made of InsightFace's
verification sets) and `lfw_test_pair.txt` have the label last; `lfw_ann.txt`, `agedb_30_ann.txt`, `calfw_ann.txt`,
`cplfw_ann.txt` and `combined_ann.txt` of OpenSphere, the code of SphereFace2, have it first. None states folds.
"""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList, PairRow
from verisphere.files.pair_lists.runs import folds_of_runs
from verisphere.files.text import is_count, numbered_lines

_LABELS = ("1", "0", "-1")
_TEN_FOLDS = 20  # runs of genuine and impostor pairs


def _words(text: str) -> list[str]:
    """The fields, separated by tabs if there are any, so that names can contain spaces."""
    return [word.strip() for word in text.split("\t")] if "\t" in text else text.split()


def _looks_last(path: Path, head: Sequence[str]) -> bool:
    """Whether labels are last: not in LFW's `Ann 4 1`, nor in `3 4 1`, unless all third fields can be labels."""
    rows = [_words(line) for line in head]
    if not rows or len(rows[0]) != 3 or not all(rows[0]) or rows[0][2] not in _LABELS:
        return False
    return not is_count(rows[0][1]) or all(
        len(row) == 3 and is_count(row[0]) and is_count(row[1]) and row[2] in _LABELS for row in rows
    )


def _looks_first(path: Path, head: Sequence[str]) -> bool:
    words = _words(head[0]) if head else []
    return len(words) == 3 and all(words) and words[0] in _LABELS and not is_count(words[1])


def _reader(place: int, example: str) -> Callable[[Path], PairList]:
    def read(path: Path) -> PairList:
        rows, impostor = list[PairRow](), ""
        for number, text in numbered_lines(path):
            words = _words(text)
            if len(words) != 3 or not all(words):
                raise ValueError(f"{path}: line {number}: {shown(text, 100)} is not `{example}`")
            label = words.pop(place)
            if label not in _LABELS:
                raise ValueError(
                    f"{path}: line {number}: label {shown(label)}; allowed are 1 (genuine), and 0 or -1 (impostor)"
                )
            if label != "1" and label != (impostor := impostor or label):
                raise ValueError(
                    f"{path}: line {number}: label {label} for an impostor pair, but others have {impostor}"
                )
            rows.append((number, words[0], words[1], label == "1"))
        genuine = [same for *_, same in rows]
        if sum(1 for _ in itertools.groupby(genuine)) == _TEN_FOLDS:
            folds_of_runs(path, genuine, [number for number, *_ in rows])
        return PairList.of(path, rows)

    return read


LABEL_LAST = Layout("label last", "a.jpg b.jpg 1", _looks_last, _reader(2, "a.jpg b.jpg 1"))
LABEL_FIRST = Layout("label first", "1 a.jpg b.jpg", _looks_first, _reader(0, "1 a.jpg b.jpg"))
