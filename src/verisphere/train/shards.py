"""Rows of class centers, and of what an optimizer keeps of them, in one file for each process that holds some."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from verisphere.data.files import digest
from verisphere.distributed import World


@dataclass(frozen=True)
class Shard:
    """A file with the rows of some classes.

    Attributes:
        name: of the file, without its suffix.
        held: the classes.

    Raises:
        ValueError: the name leads elsewhere, or the classes are none in a row.
    """

    name: str
    held: range

    def __post_init__(self) -> None:
        if not self.name.replace("-", "").isalnum():
            raise ValueError(f"a shard's file is called {self.name!r}; its name is of letters, digits and hyphens")
        if self.held.step != 1 or self.held.start < 0 or self.held.stop < self.held.start:
            raise ValueError(f"shard {self.name} has the classes of {self.held}; they come in a row, from 0 up")

    @classmethod
    def of(cls, here: World, held: range) -> "Shard":
        """That of a process.

        >>> Shard.of(World(rank=0, size=2), range(3)).name
        'head-00001-of-00002'
        """
        return cls(f"head-{here.rank + 1:05d}-of-{here.size:05d}", held)


def shards_of(described: Any) -> tuple[Shard, ...]:
    """The shards that a checkpoint's state describes, name by name with first class and the class after the last.

    Raises:
        ValueError: they are not ranges of classes that follow each other from 0 on.
    """
    if not isinstance(described, dict) or not described:
        raise ValueError("it names no shards")
    shards = []
    for name, ends in described.items():
        if not (
            isinstance(ends, list) and len(ends) == 2 and all(type(end) is int and 0 <= end < 2**62 for end in ends)
        ):
            raise ValueError(f"shard {name} has the classes {ends!r}, which are no first and last one")
        shards.append(Shard(name, range(*ends)))
    shards.sort(key=lambda one: (one.held.start, one.held.stop))
    met = 0
    for one in shards:
        if one.held.start != met:
            raise ValueError(f"shard {one.name} begins with class {one.held.start} where {met} would follow")
        met = one.held.stop
    return tuple(shards)


@dataclass(frozen=True)
class ByClass:
    """Which tensors have a row for each class, and the classes whose rows a process has or wants.

    Attributes:
        rows: the classes.
        has: whether a tensor of this part and name is one of them, should it have rows at all.
    """

    rows: range
    has: Callable[[str, str], bool]

    def splits(self, part: str, name: str, axes: int) -> bool:
        """Whether a tensor has a row for each class; a number without axes, as a count of steps, has none."""
        return axes > 0 and self.has(part, name)

    def of(self, shards: Sequence[Shard]) -> list[Shard]:
        """Those of the shards that hold some of the classes; one at least, for the shape of no rows."""
        some = [one for one in shards if one.held.start < self.rows.stop and self.rows.start < one.held.stop]
        return some or list(shards[:1])


def write_shard(file: Path, parts: dict[str, dict[str, Tensor]], held: ByClass) -> str:
    """Write the tensors that have a row a class, as `part/name`; returns the file's digest.

    Raises:
        OSError: it cannot be written.
    """
    rows = {
        f"{part}/{name}": tensor.detach().cpu().contiguous()
        for part, tensors in parts.items()
        for name, tensor in tensors.items()
        if held.splits(part, name, tensor.ndim)
    }
    if not file.parent.is_dir():
        raise OSError(
            f"{file.parent.parent}: the folder that the first process made in it is not to be seen by another; the "
            "processes of a training need a file system that they share"
        )
    try:
        save_file(rows, file)
    except SafetensorError as error:  # such as a full disk
        raise OSError(f"{file.parent.parent}: {file.name} cannot be written: {error}") from None
    return digest(file)


def read_rows(file: Path, shards: Sequence[tuple[Path, range]], part: str, held: ByClass | None) -> dict[str, Tensor]:
    """The tensors of a part: those in its own file, and those that lie in shards; of the latter no row more than asked.

    Args:
        file: of the part.
        shards: files and their classes, in the order of the classes; none where `file` has everything.
        part: its name.
        held: which rows of which tensors of `file`, and of all tensors in shards, are wanted; None wants all.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    found: dict[str, Tensor] = {}
    with safe_open(file, "pt") as opened:
        for name in opened.keys():  # noqa: SIM118  # it is no dict
            if held is not None and held.splits(part, name, len(opened.get_slice(name).get_shape())):
                found[name] = _rows(opened, name, held.rows)
            else:
                found[name] = opened.get_tensor(name)
    pieces: dict[str, list[Tensor]] = {}
    for place, has in shards:
        wanted = has if held is None else range(max(has.start, held.rows.start), min(has.stop, held.rows.stop))
        with safe_open(place, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                owner, _, own = name.partition("/")
                if owner == part:
                    rows = opened.get_slice(name).get_shape()[0]
                    if rows != len(has):
                        raise OSError(f"{place.name} holds {rows} classes, {len(has)} were written")
                    inside = range(wanted.start - has.start, wanted.stop - has.start)
                    pieces.setdefault(own, []).append(_rows(opened, name, inside))
    return found | {name: some[0] if len(some) == 1 else torch.cat(some) for name, some in pieces.items()}


def _rows(opened: safe_open, name: str, rows: range) -> Tensor:
    first = max(rows.start, 0)
    return opened.get_slice(name)[first : max(rows.stop, first)]
