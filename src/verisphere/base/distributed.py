"""Process groups of one training or measurement: how they start, and the rank of this process.

A launcher such as torchrun starts the same command several times and sets rank and world size in the environment, from
which `joined` starts the process group. Without a launcher there is one process. `Groups` divides the ranks into groups
that work side by side.
"""

import atexit
import gc
import importlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist

#: Seconds that a rank waits for the others before it raises an error.
PATIENCE = 600.0
_LONGEST, _LAST_PORT = 1e9, 2**16 - 1
#: How long a group waits for another one. When a process ends, its connections close, which ends the wait.
_WHILE_OTHERS_WORK = timedelta(days=30)
_BETWEEN_LOOKS = 0.01
_GIVEN = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"


@dataclass(frozen=True)
class World:
    """Rank and world size; the local rank is the number of the process among those of its machine."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank is {self.rank} of {self.size} processes; it must be in [0, {self.size})")
        if self.local_rank < 0:
            raise ValueError(f"local_rank is {self.local_rank}; it must not be negative")

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which writes files and reports."""
        return self.rank == 0

    def share(self, count: int, rank: int | None = None) -> range:
        """The range of `count` items that a rank (by default this one) takes; sizes differ by at most 1, larger first.

        >>> [World(size=3).share(8, rank) for rank in range(3)]
        [range(0, 3), range(3, 6), range(6, 8)]
        """
        each, more = divmod(count, self.size)
        rank = self.rank if rank is None else rank
        first = rank * each + min(rank, more)
        return range(first, first + each + (rank < more))


#: One process.
ALONE = World()


def world() -> World:
    """Rank and world size of the current process group; rank 0 of 1 without a group."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    local = int(os.environ.get("LOCAL_RANK", dist.get_rank()))
    return World(dist.get_rank(process_group()), dist.get_world_size(process_group()), local)


def process_group() -> Any:
    """The current process group, as `torch.distributed` takes it; None stands for the group of all ranks."""
    return _present[-1] if _present else None


#: Process groups that replace the group of all ranks, the current one last.
_present: list[Any] = []


class Groups:
    """All ranks, divided into groups of equal size that work side by side.

    The ranks of a group are consecutive. Every rank must create this object, and all must call the same
    collectives inside `together`. The number is that of this rank's group, from 0.
    """

    def __init__(self, count: int = 1) -> None:
        here = world()
        if count < 1 or here.size % count:
            raise ValueError(
                f"groups is {count}; it must divide the number of processes, which is {here.size} "
                "(torchrun --nproc-per-node N starts N)"
            )
        size = here.size // count
        self.count, self.number = count, here.rank // size
        self._own = self._all = None
        if count > 1:
            members = [list(range(first, first + size)) for first in range(0, here.size, size)]
            groups = [dist.new_group(ranks) for ranks in members]
            self._own = groups[self.number]
            self._all = dist.new_group(timeout=_WHILE_OTHERS_WORK)
            _parted.extend([*groups, self._all])

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Inside this context `world` and the collectives refer to this rank's group."""
        with _in(self._own):
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside this context the collectives refer to all ranks, and wait for groups that are still working."""
        with _in(self._all):
            yield


@contextmanager
def unhurried() -> Iterator[None]:
    """Inside this context the collectives wait for ranks that are still working, however long it takes."""
    group = dist.new_group(timeout=_WHILE_OTHERS_WORK) if world().size > 1 else None
    if group is not None:
        _parted.append(group)
    with _in(group):
        yield


@contextmanager
def _in(group: Any) -> Iterator[None]:
    if group is None:
        yield
        return
    _present.append(group)
    try:
        yield
    finally:
        _present.pop()


def launched() -> bool:
    """Whether a launcher has started this process as one of several."""
    return os.environ.get("WORLD_SIZE", "") not in ("", "0", "1")


@contextmanager
def joined(cuda: bool = False, patience: float = PATIENCE) -> Iterator[World]:
    """Start the process group that a launcher describes, and destroy it at the end; without a launcher, rank 0 of 1.

    The backend is gloo; `cuda` adds NCCL for tensors on a GPU, and each rank then needs a GPU to itself. A model in DDP
    that exists until the program ends, for example in a global variable, keeps gloo's threads alive as well.
    Waiting for other ranks ends with an error after `patience` seconds.
    """
    if not launched() or (dist.is_available() and dist.is_initialized()):
        yield world()
        return
    missing = [name for name in _GIVEN if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']} but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} "
            "not set: start the processes with torchrun, which sets all of them"
        )
    if not 0 < patience <= _LONGEST:
        raise ValueError(f"patience is {patience}; it must be a positive number of seconds, at most {_LONGEST:g}")
    rank, size, port = _given("RANK"), _given("WORLD_SIZE"), _given("MASTER_PORT")
    if not 0 < port <= _LAST_PORT:
        raise ValueError(f"MASTER_PORT is {port} in the environment; allowed are ports from 1 to {_LAST_PORT}")
    if rank >= size:
        raise ValueError(f"RANK is {rank} and WORLD_SIZE {size}; ranks count from 0: was one of the two set by hand?")
    if cuda:
        local = _given("LOCAL_RANK") if os.environ.get("LOCAL_RANK") else rank
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"process {local} of this machine has no GPU of its own: PyTorch sees {torch.cuda.device_count()}; "
                "start one process a GPU, or train with --device cpu"
            )
        torch.cuda.set_device(local)
    # Gloo's threads exist as long as anything refers to the group, and a thread that is still running when Python shuts
    # down aborts the process. Functions of `torch.distributed.nn.functional` take the current group as a default
    # argument, so the module is imported while no group exists. A model in DDP, which the traceback of a reported error
    # may still refer to, is collected before the shutdown. Such a model must not hold the last reference: it would
    # destroy the group while holding the GIL, and wait for a thread that needs the GIL to free a tensor. A Python
    # object that destroys a group releases the GIL.
    importlib.import_module("torch.distributed.nn.functional")
    atexit.unregister(_let_go)
    atexit.register(_let_go)
    try:
        store, *_ = next(iter(dist.rendezvous("env://", timeout=timedelta(seconds=patience))))
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            timeout=timedelta(seconds=patience),
            store=_of_this_start(store, rank, size, patience),
            rank=rank,
            world_size=size,
        )
    except dist.DistError as error:
        where = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        why = str(error).partition("\n")[0]
        raise ConnectionError(f"process {rank} of {size} has not met the others at {where}: {why}") from error
    try:
        yield world()
    finally:
        _parted.append(dist.group.WORLD)
        dist.destroy_process_group()


def _of_this_start(store: dist.Store, rank: int, size: int, patience: float) -> dist.Store:
    """The part of a launcher's store that belongs to this start of its ranks, agreed upon by all of them.

    Ranks that torchrun starts again find its store as those before left it, and would wait at their addresses. The
    number of starts does not distinguish them, since each machine counts its own (pytorch/pytorch#135712). So each rank
    says a word that nobody said before; rank 0 repeats all words until each rank has seen its own among them.
    """
    own, until = uuid4().hex, time.monotonic() + patience
    here, seen = ([f"verisphere/{what}/{other}" for other in range(size)] for what in ("here", "seen"))
    store.set(here[rank], own)
    while time.monotonic() < until:
        if rank == 0:
            store.set("verisphere/start", " ".join(word.decode() for word in store.multi_get(here)))
        start = store.get("verisphere/start").decode().split()
        if len(start) == size and start[rank] == own:
            store.set(seen[rank], start[0])
            if rank or (store.check(seen) and {*store.multi_get(seen)} == {own.encode()}):
                return dist.PrefixStore(f"verisphere/{start[0]}", store)
        time.sleep(_BETWEEN_LOOKS)
    raise dist.DistStoreError(f"not all of {size} ranks were there in {patience:g} s")


#: Process groups, kept until the program ends: their threads end with it.
_parted: list[Any] = []


def _let_go() -> None:
    """At exit, release the objects that the last exception refers to, and then the groups."""
    for name in ("last_exc", "last_value", "last_traceback", "last_type"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    gc.collect()
    _parted.clear()


def _given(name: str) -> int:
    text = os.environ[name]
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{name} is {text!r} in the environment; it must be a whole number, as torchrun sets it")
    return int(text)
