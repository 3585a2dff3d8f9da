"""The lists of CALFW and CPLFW: an image and a number a line, two lines for each pair.

Layout: `pairs_CALFW.txt` (Zheng et al. 2017, Cross-Age LFW, arXiv:1708.08197) and `pairs_CPLFW.txt` (Zheng and Deng
2018, Cross-Pose LFW), all genuine pairs first. The number is 0 on both lines of an impostor pair; for a genuine pair it
is the fold, from 1, in CALFW's list, and 1 in CPLFW's. A copy of CPLFW's list has a header, `name same_person`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from verisphere.base.identity import folded
from verisphere.files.image_names import without_suffix
from verisphere.files.json_values import shown
from verisphere.files.pair_lists.pair_list import Layout, PairList
from verisphere.files.pair_lists.runs import two_lines_a_pair
from verisphere.files.text import Line, is_count, numbered_lines

_PERSON = re.compile(r"(.+)_\d+$")


def _is_image(line: str) -> bool:
    words = line.split()
    return len(words) == 2 and is_count(words[1]) and without_suffix(words[0]) != words[0]


def _looks(path: Path, head: Sequence[str]) -> bool:
    return bool(head) and (_is_image(head[0]) or (_is_header(head[0]) and len(head) > 1 and _is_image(head[1])))


def _is_header(line: str) -> bool:
    words = line.split()
    return len(words) == 2 and not is_count(words[1])


def _read(path: Path) -> PairList:
    """Reads a list: fold k has the k-th tenth of the genuine pairs and of the impostor pairs, in list order.

    If genuine pairs state their folds, these are used; the impostor pairs are divided into blocks of the same size.
    """
    lines = numbered_lines(path)
    pairs = two_lines_a_pair(path, lines[1:] if _is_header(lines[0][1]) and not _is_image(lines[0][1]) else lines)
    rows = [(*_image(path, left), *_image(path, right)) for left, right in pairs]
    numbers = tuple(left[0] for left, _ in pairs)
    people = []
    for line, (left, number, right, other) in zip(numbers, rows, strict=True):
        if number != other:
            raise ValueError(f"{path}: line {line + 1}: {other}, but the other image of the pair has {number}")
        both = _person(path, line, left), _person(path, line + 1, right)
        if (number > 0) not in (both[0] == both[1], folded(both[0]) == folded(both[1])):  # the rule of names may decide
            raise ValueError(
                f"{path}: line {line}: {shown(left)} and {shown(right)} have {number}, which says that they show "
                f"{'one person' if number else 'two people'}, but their names say otherwise"
            )
        people.append(both)
    stated = [number for _, number, _, _ in rows]
    named = ((line, left, right, one > 0) for line, (left, one, right, _) in zip(numbers, rows, strict=True))
    return PairList.of(path, named, folds=_folds(path, stated, numbers), people=tuple(people))


def _image(path: Path, line: Line) -> tuple[str, int]:
    number, text = line
    if not _is_image(text):
        raise ValueError(
            f"{path}: line {number}: {shown(text, 100)} is not `image.jpg N`, where N is 0 for two people, and the "
            "fold or 1 for one"
        )
    name, count = text.split()
    return name, int(count)


def _person(path: Path, line: int, name: str) -> str:
    named = _PERSON.fullmatch(without_suffix(name.rpartition("/")[2]))
    if named is None:
        raise ValueError(f"{path}: line {line}: {shown(name, 100)} does not name a person, as `Name_0001.jpg` does")
    return named[1]


def _folds(path: Path, stated: Sequence[int], lines: Sequence[int]) -> tuple[int, ...] | None:
    """The fold of each pair from 0; None if the list states no folds and is to be cut into ten blocks."""
    sizes = Counter(number for number in stated if number)
    impostors, folds = stated.count(0), max(sizes, default=0)
    last = lines[-1]
    if folds <= 1:
        if sizes[1] != impostors or impostors % 10:
            raise ValueError(
                f"{path}: line {last}: ends {sizes[1]} genuine and {impostors} impostor pairs, which do not make ten "
                "folds with equally many of each; is a line missing?"
            )
        return None
    size = sizes[1]
    if not size:
        raise ValueError(f"{path}: line {lines[0]}: fold {folds}, but no genuine pair is in fold 1; folds count from 1")
    for fold in range(1, folds + 1):
        if sizes[fold] != size:
            line = next((line for line, number in zip(lines, stated, strict=True) if number == fold), last)
            raise ValueError(
                f"{path}: line {line}: fold {fold} has {sizes[fold]} genuine pairs, but fold 1 has {size}; is a line "
                "missing?"
            )
    if impostors != folds * size:
        raise ValueError(
            f"{path}: line {last}: ends {impostors} impostor pairs, but {folds} folds of {size} genuine pairs have as "
            f"many, {folds * size}; is a line missing?"
        )
    placed, seen = [], 0
    for number in stated:
        placed.append(number - 1 if number else seen // size)
        seen += number == 0
    return tuple(placed)


CALFW = Layout("CALFW, CPLFW", "Ann_0001.jpg 1", _looks, _read)
