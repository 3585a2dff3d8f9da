"""Pairs of images to compare, whatever the layout of their list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64

from verisphere.files.json_values import shown


@dataclass(frozen=True)
class Layout:
    """A layout of published lists: how it is recognised, and how it is read.

    Attributes:
        name: what the layout is called in errors and docs, such as the set that was published in it.
        example: one line of it.
        looks: whether a path looks like this layout, by its name and its first lines that are not blank, stripped; a
            folder has no lines.
        read: the pairs; raises ValueError that names file and line.
    """

    name: str
    example: str
    looks: Callable[[Path, Sequence[str]], bool]
    read: Callable[[Path], "PairList"]


@dataclass(frozen=True)
class PairList:
    """Pairs of images, or of folders of frames, to compare, in list order.

    Attributes:
        left, right: name of each image, such as `Abel_Pacheco/Abel_Pacheco_0001.jpg`.
        genuine: whether both images show the same person.
        folds: number of the fold of each pair; None where the list has no folds.
        lines: line of each pair in the list, for errors; None for pairs from elsewhere.
        domains: group of each pair, such as RFW's; None where the list has no groups.
        videos: whether a name is that of a folder, whose images are the frames of a video: one template each.
        source: name of the list for error messages.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    genuine: tuple[bool, ...]
    folds: tuple[int, ...] | None = None
    lines: tuple[int, ...] | None = None
    source: str = "pairs"
    domains: tuple[str, ...] | None = None
    videos: bool = False

    def __post_init__(self) -> None:
        if not self.left:
            raise ValueError(f"{self.source}: no pairs; is the list empty?")
        for field in ("right", "genuine", "folds", "lines", "domains"):
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
