"""Pairs of images to compare, from a list in any layout."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from verisphere.files.image_names import find_rows
from verisphere.files.json_values import shown


@dataclass(frozen=True)
class Layout:
    """A layout of published lists: how it is recognised, and how it is read."""

    name: str  # that of the set that was published in it
    example: str
    looks: Callable[[Path, Sequence[str]], bool]  # by the path's name and its first lines that are not blank, stripped
    read: Callable[[Path], "PairList"]


@dataclass(frozen=True)
class PairList:
    """Pairs of images, or of folders of frames, to compare, in list order.

    `people` are the two people of each pair, if the names state them and the folders of the published images do not;
    they then replace the identities of the embeddings, whose domains are ignored as well.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    genuine: tuple[bool, ...]
    folds: tuple[int, ...] | None = None
    lines: tuple[int, ...] | tuple[str, ...] | None = None  # in words if the list has several files
    source: str = "pairs"
    domains: tuple[str, ...] | None = None  # group of each pair, such as RFW's
    videos: bool = False  # whether each name is a folder of the frames of a video, which form one template
    people: tuple[tuple[str, str], ...] | None = None
    files: tuple[Path, ...] = ()
    remark: str = ""  # addition to errors about the pairs, such as a known fault of the published list

    def __post_init__(self) -> None:
        if not self.left:
            raise ValueError(f"{self.source}: no pairs; is the list empty?")
        for field in ("right", "genuine", "folds", "lines", "domains", "people"):
            values = getattr(self, field)
            if values is not None and len(values) != len(self.left):
                raise ValueError(f"{self.source}: {field} has {len(values)} entries but left has {len(self.left)}")

    @classmethod
    def of(cls, source: str | Path, rows: Iterable["PairRow"], **more: Any) -> "PairList":
        """The pairs of a list: of each its line, the names of both images, and whether they show the same person."""
        lines, left, right, genuine = tuple(zip(*rows, strict=True)) or ((), (), (), ())
        return cls(left, right, genuine, lines=lines, source=str(source), **more)

    def __len__(self) -> int:
        return len(self.left)

    @property
    def _things(self) -> str:
        return "videos" if self.videos else "images"

    def place(self, pair: int) -> str:
        """The place of a pair in the list, in words.

        >>> PairList(("a",), ("b",), (True,), lines=(3,)).place(0)
        'line 3'
        """
        return f"pair {pair + 1:,}" if self.lines is None else place_text(self.lines[pair])

    def positions(self, names: Sequence[str]) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]:
        """Positions of the left and the right image of each pair among the names of a set; see `positions_and_note`."""
        left, right, _ = self.positions_and_note(names)
        return left, right

    def positions_and_note(
        self, names: Sequence[str]
    ) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"], str]:
        """The positions, and a sentence if images are found under names with another spelling; else an empty text."""
        position = {name: index for index, name in enumerate(names)}
        try:
            left, right = self._rows(position)
        except KeyError:
            position = self._found(names)
            left, right = self._rows(position)
            otherwise = [name for name, row in position.items() if names[row] != name]
            spelling = names[position[otherwise[0]]]
            return (
                left,
                right,
                f"{len(otherwise):,} of {len(position):,} {self._things} are found under names that are spelt "
                f"otherwise, such as {shown(spelling, 200)} for {shown(otherwise[0], 200)}",
            )
        return left, right, ""

    def _rows(self, position: Mapping[str, int]) -> tuple[Int64[np.ndarray, "pairs"], Int64[np.ndarray, "pairs"]]:
        left, right = (
            np.fromiter(map(position.__getitem__, side), np.int64, len(side)) for side in (self.left, self.right)
        )
        return left, right

    def _found(self, names: Sequence[str]) -> dict[str, int]:
        """The row of each listed image, in the order of the list; the names of each group are looked up together."""
        groups: dict[str, dict[str, int]] = {}  # the pair in which each name occurs first
        for pair, (left, right) in enumerate(zip(self.left, self.right, strict=True)):
            group = groups.setdefault("" if self.domains is None else self.domains[pair], {})
            group.setdefault(left, pair)
            group.setdefault(right, pair)
        rows: dict[str, int] = {}
        missing: dict[str, int] = {}
        for group in groups.values():
            found = find_rows(list(group), names)
            rows |= found.rows
            missing |= {name: group[name] for name in found.missing}
            for name, candidates in found.ambiguous.items():
                several = " or ".join(shown(candidate, 200) for candidate in candidates[:2])
                raise ValueError(
                    f"{self.source}: {self.place(group[name])}: {shown(name, 200)} could be {several}, for the set has "
                    "no image of exactly this name; rename its images as the list names them"
                )
        if missing:
            raise ValueError(self._missing(missing, names))
        taken: dict[int, str] = {}
        for name, row in rows.items():
            if row in taken:
                raise ValueError(
                    f"{self.source}: {shown(taken[row], 200)} and {shown(name, 200)} are two images, but both names "
                    f"fit {shown(names[row], 200)}; name the images of the set as the list names them"
                )
            taken[row] = name
        return rows

    def _missing(self, missing: dict[str, int], names: Sequence[str]) -> str:
        first = min(missing, key=missing.__getitem__)
        line = "" if self.lines is None else f" on {self.place(missing[first])}"
        spelled = f"names there look like {shown(names[0], 200)}" if len(names) else "the set is empty"
        lacking = f"{len(missing)} {self._things} are not in the set, first {shown(first, 200)}{line}"
        return f"{self.source}: {lacking}; {spelled}"


#: Line of a pair, or its place in words; names of its left and its right image; whether both show the same person.
PairRow = tuple[int | str, str, str, bool]


def place_text(line: int | str) -> str:
    """The place of a pair in words, from an entry of `PairList.lines`."""
    return f"line {line}" if isinstance(line, int) else line
