"""Sharded rows, in one file per rank: class centers, the optimizer's state of them, and memories of pair terms."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from verisphere.base.distributed import World
from verisphere.files.disk import digest


@dataclass(frozen=True)
class Shard:
    """A file with the rows of some classes, and `others`, by `part/name`, such as the memory of a pair term."""

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
        """The shard of a rank.

        >>> Shard.of(World(rank=0, size=2), range(3)).name
        'head-00001-of-00002'
        """
        return cls(f"head-{here.rank + 1:05d}-of-{here.size:05d}", held)


def shards_of(described: Any, others: Any = None) -> tuple[Shard, ...]:
    """The shards that a checkpoint's state describes, by their classes; `others` are rows of tensors by `part/name`."""
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
    shards.sort(key=lambda shard: (shard.held.start, shard.held.stop, shard.name))
    _check_consecutive([(shard.name, shard.held) for shard in shards], "class")
    for tensor in {tensor for shard in shards for tensor in shard.others}:
        with_tensor = ((shard.name, shard.others[tensor]) for shard in shards if tensor in shard.others)
        _check_consecutive(sorted(with_tensor, key=_by_ends), f"{tensor}'s row")
    return tuple(shards)


def _range(where: str, ends: Any) -> range:
    if not (isinstance(ends, list) and len(ends) == 2 and all(type(end) is int and 0 <= end < 2**62 for end in ends)):
        raise ValueError(f"{where}, which are no first and last one")
    return range(*ends)


def _by_ends(named: tuple[str, range]) -> tuple[int, int]:
    return named[1].start, named[1].stop


def _check_consecutive(named: Sequence[tuple[str, range]], what: str) -> None:
    following = 0
    for name, held in named:
        if held.start != following:
            raise ValueError(f"shard {name} begins with {what} {held.start} where {following} would follow")
        following = held.stop


@dataclass(frozen=True)
class ByClass:
    """The sharded tensors, and the rows that a rank holds or requests; most tensors have one row per class.

    Attributes:
        rows: the classes.
        has: whether a tensor of a part and name has one row per class, if it has rows.
        others: rows of tensors that are sharded in another way, by `part/name`.
    """

    rows: range
    has: Callable[[str, str], bool]
    others: Mapping[str, range] = field(default_factory=dict)

    def splits(self, part: str, name: str, axes: int) -> bool:
        """Whether a tensor is sharded; a number without axes, such as a count of steps, is not."""
        return axes > 0 and (f"{part}/{name}" in self.others or self.has(part, name))

    def rows_of(self, part: str, name: str) -> range:
        """The rows of a tensor that the rank holds or requests."""
        return self.others.get(f"{part}/{name}", self.rows)

    def of(self, shards: Sequence[Shard], part: str) -> list[Shard]:
        """The shards that hold some of the rows; at least one, which gives the shape of an empty tensor."""
        own = {name: rows for name, rows in self.others.items() if name.partition("/")[0] == part}

        def holds_some(shard: Shard) -> bool:
            if own:
                return any(_overlap(rows, shard.others[name]) for name, rows in own.items() if name in shard.others)
            return _overlap(self.rows, shard.held)

        return [shard for shard in shards if holds_some(shard)] or list(shards[:1])


def _overlap(left: range, right: range) -> bool:
    return left.start < right.stop and right.start < left.stop


def write_shard(file: Path, parts: dict[str, dict[str, Tensor]], held: ByClass) -> str:
    """Write the sharded tensors, as `part/name`; returns the digest of the file."""
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
    """Read the tensors of a part from its file and from shards; only the requested rows of sharded tensors are read."""
    tensors: dict[str, Tensor] = {}
    with safe_open(file, "pt") as opened:
        for name in opened.keys():  # noqa: SIM118  # not a dict
            if held is not None and held.splits(part, name, len(opened.get_slice(name).get_shape())):
                tensors[name] = _rows(opened, name, held.rows_of(part, name))
            else:
                tensors[name] = opened.get_tensor(name)
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
    return tensors | {name: rows[0] if len(rows) == 1 else torch.cat(rows) for name, rows in pieces.items()}


def _rows(opened: safe_open, name: str, rows: range) -> Tensor:
    first = max(rows.start, 0)
    return opened.get_slice(name)[first : max(rows.stop, first)]
