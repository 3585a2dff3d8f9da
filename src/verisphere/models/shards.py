"""Rows that processes share, in one file for each: class centers, what an optimizer keeps of them, and memories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from verisphere.distributed import World
from verisphere.files.disk import digest


@dataclass(frozen=True)
class Shard:
    """A file with the rows of some classes.

    Attributes:
        name: of the file, without its suffix.
        held: the classes.
        others: rows of tensors that are not by class, as of a pair term's memory, by `part/name`.

    Raises:
        ValueError: the name leads elsewhere, or the classes are none in a row.
    """

    name: str
    held: range
    others: Mapping[str, range] = field(default_factory=dict)

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


def shards_of(described: Any, others: Any = None) -> tuple[Shard, ...]:
    """The shards that a checkpoint's state describes, name by name with first class and the class after the last.

    Args:
        described: the classes of each.
        others: of each, rows of further tensors by `part/name`; None where there are none.

    Raises:
        ValueError: they are not ranges that follow each other from 0 on.
    """
    if not isinstance(described, dict) or not described:
        raise ValueError("it names no shards")
    further = {} if others is None else others
    if not isinstance(further, dict) or not further.keys() <= described.keys():
        raise ValueError("it names rows of shards that there are not")
    shards = []
    for name, ends in described.items():
        rows = further.get(name, {})
        if not isinstance(rows, dict):
            raise ValueError(f"shard {name} has rows that belong to no tensor")
        named = {
            tensor: _range(f"shard {name} has the rows {ends!r} of {tensor}", ends) for tensor, ends in rows.items()
        }
        shards.append(Shard(name, _range(f"shard {name} has the classes {ends!r}", ends), named))
    shards.sort(key=lambda one: (one.held.start, one.held.stop, one.name))
    _check_in_a_row([(one.name, one.held) for one in shards], "class")
    for tensor in {tensor for one in shards for tensor in one.others}:
        having = sorted(((one.name, one.others[tensor]) for one in shards if tensor in one.others), key=_by_ends)
        _check_in_a_row(having, f"{tensor}'s row")
    return tuple(shards)


def _range(where: str, ends: Any) -> range:
    if not (isinstance(ends, list) and len(ends) == 2 and all(type(end) is int and 0 <= end < 2**62 for end in ends)):
        raise ValueError(f"{where}, which are no first and last one")
    return range(*ends)


def _by_ends(named: tuple[str, range]) -> tuple[int, int]:
    return named[1].start, named[1].stop


def _check_in_a_row(named: Sequence[tuple[str, range]], what: str) -> None:
    met = 0
    for name, held in named:
        if held.start != met:
            raise ValueError(f"shard {name} begins with {what} {held.start} where {met} would follow")
        met = held.stop


@dataclass(frozen=True)
class ByClass:
    """Which tensors have rows that processes share, and the rows that a process has or wants: as a rule one a class.

    Attributes:
        rows: the classes.
        has: whether a tensor of this part and name has a row a class, should it have rows at all.
        others: rows of tensors that are shared otherwise, by `part/name`.
    """

    rows: range
    has: Callable[[str, str], bool]
    others: Mapping[str, range] = field(default_factory=dict)

    def splits(self, part: str, name: str, axes: int) -> bool:
        """Whether a tensor's rows are shared; a number without axes, as a count of steps, has none."""
        return axes > 0 and (f"{part}/{name}" in self.others or self.has(part, name))

    def rows_of(self, part: str, name: str) -> range:
        """The rows of a tensor that the process has or wants."""
        return self.others.get(f"{part}/{name}", self.rows)

    def of(self, shards: Sequence[Shard], part: str) -> list[Shard]:
        """Those of the shards that hold some of the rows; one at least, for the shape of no rows."""
        own = {name: rows for name, rows in self.others.items() if name.partition("/")[0] == part}

        def meets(shard: Shard) -> bool:
            if own:
                return any(_meet(rows, shard.others[name]) for name, rows in own.items() if name in shard.others)
            return _meet(self.rows, shard.held)

        return [one for one in shards if meets(one)] or list(shards[:1])


def _meet(one: range, other: range) -> bool:
    return one.start < other.stop and other.start < one.stop


def write_shard(file: Path, parts: dict[str, dict[str, Tensor]], held: ByClass) -> str:
    """Write the tensors whose rows are shared, as `part/name`; returns the file's digest.

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


def read_rows(file: Path, shards: Sequence[tuple[Path, Shard]], part: str, held: ByClass | None) -> dict[str, Tensor]:
    """The tensors of a part: those in its own file, and those that lie in shards; of the latter no row more than asked.

    Args:
        file: of the part.
        shards: files and what they hold, in the order of the rows; none where `file` has everything.
        part: its name.
        held: which rows of which tensors of `file`, and of all tensors in shards, are wanted; None wants all.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    found: dict[str, Tensor] = {}
    with safe_open(file, "pt") as opened:
        for name in opened.keys():  # noqa: SIM118  # it is no dict
            if held is not None and held.splits(part, name, len(opened.get_slice(name).get_shape())):
                found[name] = _rows(opened, name, held.rows_of(part, name))
            else:
                found[name] = opened.get_tensor(name)
    pieces: dict[str, list[Tensor]] = {}
    for place, shard in shards:
        with safe_open(place, "pt") as opened:
            for name in opened.keys():  # noqa: SIM118
                owner, _, own = name.partition("/")
                if owner == part:
                    has, rows = shard.others.get(name, shard.held), opened.get_slice(name).get_shape()[0]
                    if rows != len(has):
                        what = "classes" if has is shard.held else f"rows of {name}"
                        raise OSError(f"{place.name} holds {rows} {what}, {len(has)} were written")
                    wanted = has if held is None else held.rows_of(part, own)
                    first, stop = max(has.start, wanted.start), min(has.stop, wanted.stop)
                    pieces.setdefault(own, []).append(_rows(opened, name, range(first - has.start, stop - has.start)))
    return found | {name: some[0] if len(some) == 1 else torch.cat(some) for name, some in pieces.items()}


def _rows(opened: safe_open, name: str, rows: range) -> Tensor:
    first = max(rows.start, 0)
    return opened.get_slice(name)[first : max(rows.stop, first)]
