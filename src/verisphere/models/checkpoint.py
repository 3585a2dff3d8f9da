"""Checkpoints: safetensors and JSON in a folder that is complete or absent. Nothing in one is executed on reading.

A single process writes `backbone`, `head`, `optimizer` and, with pair terms, `pairs`, each into its own file. Of
several, each rank writes the sharded rows of classes and memories that it holds into its own file, and rank 0
everything else. Either kind can be read with any world size; all ranks must see the same files.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from verisphere.base.collectives import gather_text, on_every_rank, on_first_rank
from verisphere.base.distributed import World, world
from verisphere.files.disk import MAX_TABLE, digest, remove_whole, write_whole
from verisphere.files.documents import read_json_file, read_text
from verisphere.head.head import Head
from verisphere.models.build import check_fits


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


FORMAT = 1
#: Format of a checkpoint whose classes are split over files; earlier versions cannot read it.
SPLIT_FORMAT = 2
#: Parts with sharded tensors; all other parts are replicated.
SHARED = "head", "optimizer", "pairs"
_NAME = re.compile(r"step-\d{8}")
#: Names under which `write_whole` and `remove_whole` work; a killed process leaves them behind.
_LEFTOVER = re.compile(r"\.(part|gone)-[0-9a-f]+-step-\d{8}(\.lock)?")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: its folder and the content of `state.json`.

    Attributes:
        state: everything else in `state.json`, such as how to build the backbone.
        shards: files that each hold the rows of some classes, in the order of the classes; empty if `head` and
            `optimizer` hold all rows.
    """

    path: Path
    step: int
    sha256: dict[str, str]
    state: dict[str, Any]
    shards: tuple[Shard, ...] = ()
    _intact: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def people(self) -> tuple[str, ...] | None:
        """The people of the classes, in their order, as the run lists them; None if it has no such list."""
        listed = self.path.parent.parent / "people.txt"
        return tuple(read_text(listed, MAX_TABLE).removesuffix("\n").split("\n")) if listed.is_file() else None

    def tensors(self, part: str, held: ByClass | None = None) -> dict[str, Tensor]:
        """The tensors of one part: `backbone`, `head`, `optimizer` or `pairs`; of sharded ones those held."""
        path = self._checked(part)
        try:
            if part not in SHARED or (held is None and not self.shards):
                return load_file(path)
            shards = self.shards if held is None else held.of(self.shards, part)
            return read_rows(path, [(self._checked(shard.name), shard) for shard in shards], part, held)
        except (OSError, SafetensorError) as error:
            raise self._damaged(path, str(error)) from None

    def file(self, part: str) -> Path:
        """The file of a part, after checking that its bytes are those that were written."""
        return self._checked(part)

    def _checked(self, name: str) -> Path:
        """The path of a file whose digest is right; the digest of each file is computed once."""
        path = self.path / f"{name}.safetensors"
        if name not in self._intact:
            try:
                if digest(path) != self.sha256.get(name):
                    raise self._damaged(path, "it is not what was written")
            except OSError as error:
                raise self._damaged(path, str(error)) from None
            self._intact.add(name)
        return path

    def _damaged(self, path: Path, reason: str) -> ValueError:
        return ValueError(f"{path} is damaged ({reason}); an older checkpoint beside {self.path.name} may be whole")


def save_checkpoint(
    run: Path,
    step: int,
    parts: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    keep: int = 2,
    held: ByClass | None = None,
) -> Path:
    """Write `run/checkpoints/step-XXXXXXXX` completely or not at all, then remove all but the newest `keep`.

    Only one training at a time writes to a run, so incomplete files of an earlier one are removed too. All ranks call
    this; the folder gets its final name when the files of all ranks are on the disk. `held` says which rows of sharded
    tensors this rank holds; all other tensors are taken from rank 0.
    """
    path = run / "checkpoints" / f"step-{step:08d}"
    # a checkpoint of the same step is complete already
    if on_first_rank(lambda: "there" if path.exists() else "") != "there":
        if held is None or world().size == 1:
            write_whole(path, lambda partial: _write(partial, path, step, parts, state, {}, {}))
        else:
            _write_split(path, step, parts, state, held)
    on_first_rank(lambda: _remove_old(run, keep))
    return path


def _write_split(
    path: Path, step: int, parts: dict[str, dict[str, Tensor]], state: dict[str, Any], held: ByClass
) -> None:
    """Write the rows of all ranks into a temporary folder, then the files of rank 0, then rename the folder."""

    def prepare() -> str:
        staging = path.with_name(f".part-{secrets.token_hex(4)}-{path.name}")
        staging.mkdir(parents=True)
        return staging.name

    def write_rows() -> str:
        shard = Shard.of(world(), held.rows)
        written = write_shard(staging / f"{shard.name}.safetensors", parts, held)
        others = {name: [rows.start, rows.stop] for name, rows in held.others.items()}
        return json.dumps([shard.name, [shard.held.start, shard.held.stop], others, written])

    def complete(partial: Path) -> None:
        os.replace(staging, partial)
        others = {
            part: {name: tensor for name, tensor in tensors.items() if not held.splits(part, name, tensor.ndim)}
            for part, tensors in parts.items()
        }
        digests = {name: written for name, _, _, written in rows}
        shards = {name: ends for name, ends, _, _ in rows}
        further = {name: named for name, _, named, _ in rows if named}
        _write(
            partial, path, step, others, state, digests, {"shards": shards, **({"rows": further} if further else {})}
        )

    staging = path.with_name(on_first_rank(prepare))
    try:
        rows = [json.loads(text) for text in gather_text(on_every_rank(write_rows))]
        on_first_rank(lambda: write_whole(path, complete))
    finally:
        if world().first and staging.exists():
            remove_whole(staging)


def _write(
    folder: Path,
    path: Path,
    step: int,
    parts: dict[str, dict[str, Tensor]],
    state: dict[str, Any],
    digests: dict[str, str],
    shards: dict[str, Any],
) -> None:
    """Write a file for each part, and `state.json`, beside the files of the shards if there are any."""
    folder.mkdir(exist_ok=bool(shards))
    digests = dict(digests)
    for part, tensors in parts.items():
        file = folder / f"{part}.safetensors"
        try:
            save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, file)
        except SafetensorError as error:  # such as a full disk
            raise OSError(f"{path}: {part} cannot be written: {error}") from None
        digests[part] = digest(file)
    fields: dict[str, Any] = {"format": FORMAT, "step": step, "sha256": digests}
    if shards:
        fields |= {"format": SPLIT_FORMAT, **shards}
    (folder / "state.json").write_text(json.dumps(fields | state, indent=2) + "\n")


def _remove_old(run: Path, keep: int) -> None:
    leftovers = [entry for entry in (run / "checkpoints").iterdir() if _LEFTOVER.fullmatch(entry.name)]
    for old in [*list_checkpoints(run)[:-keep], *leftovers]:
        remove_whole(old)


def list_checkpoints(run: Path) -> list[Path]:
    """The complete checkpoints of a run, oldest first."""
    folder = run / "checkpoints"
    return sorted(path for path in folder.glob("step-*") if _NAME.fullmatch(path.name)) if folder.is_dir() else []


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint from its folder, or the newest one of a run's folder."""
    if not (path / "state.json").is_file():
        newest = list_checkpoints(path)
        if not newest:
            raise FileNotFoundError(f"{path}: neither a checkpoint (no state.json) nor a run that has one")
        path = newest[-1]
    file = path / "state.json"
    try:
        state = read_json_file(file, not_finite=True)
        version = state.pop("format")
        if version not in (FORMAT, SPLIT_FORMAT):
            raise ValueError(f"its format is {version!r}, this version reads {FORMAT} and {SPLIT_FORMAT}")
        shards = shards_of(state.pop("shards"), state.pop("rows", None)) if version == SPLIT_FORMAT else ()
        step = state.pop("step")
        if type(step) is not int or step < 0:
            raise ValueError(f"its step is {step!r}, not a number of steps")
        return Checkpoint(path, step, dict(state.pop("sha256")), state, shards)
    except (ValueError, KeyError, TypeError, AttributeError, OSError, OverflowError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{file}: not a checkpoint's state: {reason}") from None


def load_into(module: nn.Module, tensors: dict[str, Tensor], where: str) -> None:
    """Load tensors into a module whose names and shapes must be exactly the same."""
    check_fits(module, {name: tuple(tensor.shape) for name, tensor in tensors.items()}, where)
    module.load_state_dict(tensors)


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """An optimizer's state (momentum and the like) as named tensors: `<parameter number>.<key>`."""
    return {
        f"{number}.{key}": torch.as_tensor(value)
        for number, values in optimizer.state_dict()["state"].items()
        for key, value in values.items()
        if value is not None
    }


def shared_rows(head: Head, optimizer: torch.optim.Optimizer, terms: nn.ModuleList | None = None) -> ByClass:
    """The sharded tensors of a checkpoint, and the rows that this rank holds."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    of_centers = [f"{number}." for number, parameter in enumerate(parameters) if parameter is head.centers]

    def has(part: str, name: str) -> bool:
        return (part, name) == ("head", "centers") or (part == "optimizer" and name.startswith(tuple(of_centers)))

    others = {
        f"pairs/{number}.{name}": rows
        for number, term in enumerate(terms or ())
        for name, rows in term.held().items()  # type: ignore[operator]  # a ModuleList does not keep the type of its modules
    }
    return ByClass(head.held, has, others)


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], where: str) -> None:
    """Restore the tensors of `optimizer_tensors`; settings such as the learning rate are not changed."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        number, _, key = name.partition(".")
        owner = parameters[int(number)] if number.isdecimal() and int(number) < len(parameters) else None
        if owner is None or tensor.shape not in (owner.shape, ()):  # () is a count of steps
            raise ValueError(f"{where} does not fit {type(optimizer).__name__}: {name} {tuple(tensor.shape)}")
        # in the parameter's memory format, which the optimizer's fused loops require
        state.setdefault(int(number), {})[key] = torch.empty_like(owner).copy_(tensor) if tensor.ndim else tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
