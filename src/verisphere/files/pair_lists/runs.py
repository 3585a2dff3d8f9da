"""Folds and pairs that follow from the order of the lines: folds as runs of equal length, and pairs of two lines."""

import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from verisphere.files.pair_lists.pair_list import place_text
from verisphere.files.text import Line


def folds_of_runs(source: str | Path, genuine: Sequence[bool], lines: Sequence[int | str]) -> tuple[int, ...] | None:
    """The folds of a list that has, for each fold, a run of genuine pairs and then as many impostor pairs.

    A list with one run of each kind has no folds: the protocol cuts it into ten blocks, each with a tenth of either.

    >>> folds_of_runs("list", [True, False, True, False], [1, 2, 3, 4])
    (0, 0, 1, 1)
    """
    runs = [(kind, len(list(run))) for kind, run in itertools.groupby(genuine)]
    usual = Counter(length for _, length in runs).most_common(1)[0][0]
    end = 0
    for number, (kind, length) in enumerate(runs):
        end += length
        name, where = "genuine" if kind else "impostor", place_text(lines[end - 1])
        if kind != (number % 2 == 0):
            raise ValueError(f"{source}: {where}: a fold begins with {length} {name} pairs; genuine ones come first")
        if length != usual:
            raise ValueError(
                f"{source}: {where}: ends {length} {name} pairs in a row, but each fold of this layout has equally "
                f"many of each kind, here {usual}; is a line missing?"
            )
    if len(runs) % 2:
        raise ValueError(f"{source}: {where}: the list ends without the {usual} impostor pairs of its last fold")
    folds = tuple(pair // (2 * usual) for pair in range(len(genuine)))
    return None if len(runs) == 2 else folds


def two_lines_a_pair(path: Path, lines: Sequence[Line]) -> list[tuple[Line, Line]]:
    """Join lines 2k and 2k + 1 into pairs."""
    if len(lines) % 2:
        raise ValueError(
            f"{path}: line {lines[-1][0]}: an image without a second one; this layout has two lines for each pair"
        )
    return list(zip(lines[::2], lines[1::2], strict=True))
