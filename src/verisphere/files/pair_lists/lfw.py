"""LFW's lists of pairs: names of people and numbers of images, below a header with the numbers of folds and pairs.

Layout: `pairs.txt`, `pairsDevTrain.txt` and `pairsDevTest.txt` (Huang et al. 2007, Labeled Faces in the Wild), and
`xqlfw_pairs.txt` (Knoche et al. 2021, Cross-Quality LFW). Copies circulate without the header, with the names of
columns in its place, or with commas.
"""

from collections.abc import Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList, PairRow
from verisphere.files.pair_lists.runs import folds_of_runs
from verisphere.files.text import Line, is_count, numbered_lines


def _words(text: str) -> list[str]:
    """The fields, between white space or, if that gives no pair, commas, which a name may hold (`Downey,_Jr`)."""
    words = text.split(maxsplit=4)
    return words if _is_header(words) or _is_pair(words) else text.replace(",", " ").split(maxsplit=4)


def _is_header(words: Sequence[str]) -> bool:
    return 1 <= len(words) <= 2 and all(map(is_count, words))


def _is_pair(words: Sequence[str]) -> bool:
    return len(words) in (3, 4) and is_count(words[1]) and is_count(words[-1])


def _names_columns(words: Sequence[str]) -> bool:
    return len(words) in (3, 4) and not any(map(is_count, words))


def _looks(path: Path, head: Sequence[str]) -> bool:
    rows = [_words(line) for line in head[:2]]
    if not rows:
        return False
    return (
        _is_header(rows[0]) or _is_pair(rows[0]) or (len(rows) == 2 and _names_columns(rows[0]) and _is_pair(rows[1]))
    )


def _read(path: Path) -> PairList:
    """Reads a line `folds<TAB>count`, or `count` alone; then, per fold, `count` genuine pairs and as many impostors.

    A genuine pair is `Name i j`, an impostor pair `Name i Other j`. Image i of Name is `Name/Name_000i.jpg`. Without
    the header, the folds are the runs of genuine and impostor pairs, which must be of equal length.
    """
    lines = numbered_lines(path)
    first = _words(lines[0][1])
    if not _is_header(first):
        return rows_without_header(path, lines[1:] if _names_columns(first) else lines)
    header = [int(word) for word in first]
    folds, count = header if len(header) == 2 else (1, header[0])
    rows = lines[1:]
    if len(rows) != folds * 2 * count:
        raise ValueError(
            f"{path}: line {lines[0][0]}: announces {folds} x (2 x {count}) = {folds * 2 * count} pairs, "
            f"but {len(rows)} follow"
        )
    genuine = [row // count % 2 == 0 for row in range(len(rows))]
    pairs = [
        _pair(path, line, _words(line[1]), "where the header puts ", kind)
        for line, kind in zip(rows, genuine, strict=True)
    ]
    in_folds = tuple(row // (2 * count) for row in range(len(rows))) if len(header) == 2 else None
    return PairList.of(path, pairs, folds=in_folds)


def rows_without_header(path: Path, rows: Sequence[Line], separator: str | None = None) -> PairList:
    """The pairs of rows whose number of fields shows the kind of the pair."""
    pairs = []
    for line in rows:
        words = _words(line[1]) if separator is None else line[1].split(separator)
        pairs.append(_pair(path, line, words, "is not ", {3: True, 4: False}.get(len(words))))
    folds = folds_of_runs(path, [same for *_, same in pairs], [number for number, _ in rows]) if rows else None
    return PairList.of(path, pairs, folds=folds)


def _pair(path: Path, line: Line, words: Sequence[str], expecting: str, genuine: bool | None) -> PairRow:
    """The pair of a row; `genuine` is the expected kind, or None for either kind."""
    number, text = line
    kinds = {True: "a genuine pair, `Name i j`", False: "an impostor pair, `Name i Other j`"}
    expected = " or ".join(kinds.values()) if genuine is None else kinds[genuine]
    if genuine is None or len(words) != (3 if genuine else 4) or not (is_count(words[1]) and is_count(words[-1])):
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} {expecting}{expected}")
    left, right = (words[0], words[1]), (words[-2] if not genuine else words[0], words[-1])
    if not genuine and left[0] == right[0]:
        raise ValueError(f"{path}: line {number}: {shown(text)} cannot be {expected}")
    first, second = (f"{name}/{name}_{int(image):04d}.jpg" for name, image in (left, right))
    return number, first, second, genuine


LFW = Layout("LFW, XQLFW", "Ann 1 4", _looks, _read)
