"""LFW's lists of pairs: a header with numbers of folds and pairs, names of people and numbers of images.

Layout: `pairs.txt`, `pairsDevTrain.txt` and `pairsDevTest.txt` (Huang et al. 2007, Labeled Faces in the Wild).
"""

from collections.abc import Sequence
from pathlib import Path

from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList
from verisphere.files.text import Line, is_count, numbered_lines


def _looks(path: Path, head: Sequence[str]) -> bool:
    words = head[0].split(maxsplit=2) if head else []
    return 1 <= len(words) <= 2 and all(map(is_count, words))


def _read(path: Path) -> PairList:
    """A line `folds<TAB>count`, or `count` alone; then, for each fold, `count` genuine pairs and as many impostors.

    A genuine pair is `Name i j`, an impostor pair `Name i Other j`. Image i of Name is `Name/Name_000i.jpg`.
    """
    lines = numbered_lines(path)
    header = [int(word) for word in lines[0][1].split()]
    folds, count = header if len(header) == 2 else (1, header[0])
    rows = lines[1:]
    if len(rows) != folds * 2 * count:
        raise ValueError(
            f"{path}: line {lines[0][0]}: announces {folds} x (2 x {count}) = {folds * 2 * count} pairs, "
            f"but {len(rows)} follow"
        )
    genuine = [row // count % 2 == 0 for row in range(len(rows))]
    pairs = [_pair(path, line, kind) for line, kind in zip(rows, genuine, strict=True)]
    return PairList(
        left=tuple(left for left, _ in pairs),
        right=tuple(right for _, right in pairs),
        genuine=tuple(genuine),
        folds=tuple(row // (2 * count) for row in range(len(rows))) if len(header) == 2 else None,
        lines=tuple(number for number, _ in rows),
        source=str(path),
    )


def _pair(path: str | Path, line: Line, genuine: bool) -> tuple[str, str]:
    number, text = line
    words = text.split(maxsplit=4)
    expected = "a genuine pair, `Name i j`" if genuine else "an impostor pair, `Name i Other j`"
    if len(words) != (3 if genuine else 4) or not (is_count(words[1]) and is_count(words[-1])):
        raise ValueError(f"{path}: line {number}: {shown(text, 100)} where the header puts {expected}")
    left, right = (words[0], words[1]), (words[-2] if not genuine else words[0], words[-1])
    if not genuine and left[0] == right[0]:
        raise ValueError(f"{path}: line {number}: {shown(text)} cannot be {expected}")
    first, second = (f"{name}/{name}_{int(image):04d}.jpg" for name, image in (left, right))
    return first, second


LFW = Layout("LFW", "Abel_Pacheco\t1\t4 below a header `10\t300`", _looks, _read)
