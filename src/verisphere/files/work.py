"""Work that continues: what a stopped computation has finished, and whether a folder was made for the same work.

A result folder holds the blocks of a computation while it is made, a scan of all pairs keeps its state in one sealed
file, and the folders of a search and of an experiment hold what was asked for, which must not have changed.
"""

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from verisphere.base.collectives import on_first_rank
from verisphere.base.distributed import world
from verisphere.files.disk import remove_whole, write_text, write_whole
from verisphere.files.documents import read_json_file
from verisphere.files.json_values import shown
from verisphere.files.lock import alone_in
from verisphere.files.npz import names_in_npz, read_npz

log = logging.getLogger(__name__)

#: Folder of the work files, inside that of the result.
WORK = ".work"
_ABOUT = "about.json"
_SEAL = "seal"  # array with the SHA-256 of all others; shows an edit or damage, not a forgery
_MOST_SHOWN = 3  # values in which two definitions differ


@contextmanager
def result_folder(out: Path) -> Iterator[Path]:
    """Creates the folder of a result; yields the folder of its work files, which is removed at the end.

    If an error ends the context before there was any work, nothing remains. All ranks enter this together.
    """
    work = out / WORK
    lock = ExitStack()

    def begin() -> str:
        if not work.is_dir():
            if out.is_dir() and any(out.iterdir()):
                raise FileExistsError(f"{out}: a folder that is not empty; a result needs a new folder")
            if out.exists() and not out.is_dir():
                raise FileExistsError(f"{out}: a file, and a folder was to be written under its name")
        lock.enter_context(alone_in(work))
        for leftover in out.glob(".part-*"):  # left by a process that was killed while it wrote
            remove_whole(leftover)
        return ""

    def end() -> str:
        remove_whole(work)
        return ""

    missing = _missing(out)
    on_first_rank(begin)
    with lock:
        try:
            yield work
        except BaseException:
            if world().first and _is_empty(out):
                remove_whole(work)
                with suppress(OSError):  # a folder that is not empty stays
                    for folder in missing:
                        folder.rmdir()
            raise
        on_first_rank(end)


def _is_empty(out: Path) -> bool:
    """Whether the folder of a result holds no work: at most a lock, and what the work would be."""
    return {str(path.relative_to(out)) for path in out.rglob("*")} <= {WORK, f"{WORK}/.lock", f"{WORK}/{_ABOUT}"}


def _missing(path: Path) -> list[Path]:
    """The missing parent folders of a path, innermost first."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    return missing


@dataclass(frozen=True)
class WorkFiles:
    """Arrays of the finished blocks, one file each, written completely or not at all.

    Attributes:
        folder: folder of the files.
    """

    folder: Path

    @classmethod
    def open(cls, folder: Path, about: dict[str, Any]) -> "WorkFiles":
        """The files in a folder, which can be absent; those of other inputs are removed. All ranks call this."""

        def prepare() -> str:
            folder.mkdir(parents=True, exist_ok=True)
            file = folder / _ABOUT
            if file.is_file() and read_json_file(file) == json.loads(json.dumps(about)):
                return ""
            stale = [entry for entry in folder.iterdir() if entry.suffix == ".npz" or entry == file]
            if stale:
                log.info("%s: work of another checkpoint, data or options: it begins anew", folder.parent)
            for entry in stale:
                entry.unlink()
            write_text(file, json.dumps(about))
            return ""

        on_first_rank(prepare)
        return cls(folder)

    def done(self, kind: str, blocks: int) -> list[bool]:
        """Whether each of some blocks is done; rank 0 checks, so that all ranks agree. All ranks call this together."""
        there = on_first_rank(lambda: json.dumps([self._path(kind, block).is_file() for block in range(blocks)]))
        return [bool(entry) for entry in json.loads(there)]

    def save(self, kind: str, block: int, **arrays: np.ndarray) -> None:
        """Keep the arrays of a block; rank 0 writes. All ranks call this together."""

        def write() -> str:
            write_whole(self._path(kind, block), lambda path: np.savez(path, **arrays))  # type: ignore[arg-type]
            return ""

        on_first_rank(write)

    def load(self, kind: str, block: int, array: str) -> np.ndarray:
        """An array of a block."""
        path = self._path(kind, block)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                return arrays[array]
        except (BadZipFile, EOFError, KeyError, ValueError) as error:
            raise ValueError(f"{path}: a damaged work file ({error}); remove it, and its block is made anew") from None

    def _path(self, kind: str, block: int) -> Path:
        return self.folder / f"{kind}-{block:08d}.npz"


class ScanState:
    """Keeps the state of work in one `.npz` file, which each save replaces as a whole and seals."""

    def __init__(self, path: Path, what: str = "an interrupted scan") -> None:
        """Name the file, and the work in words; nothing is written yet."""
        self.path, self.what = path, what

    def __str__(self) -> str:
        return str(self.path)

    def load(self) -> Mapping[str, np.ndarray] | None:
        """Read the saved arrays; None if there is no file."""
        if not self.path.exists():
            return None
        state = read_npz(self.path, names_in_npz(self.path))
        seal = state.pop(_SEAL, None)
        if seal is None:
            raise ValueError(
                f"{self.path}: not the state of {self.what}, or written by an earlier version; name another file"
            )
        if seal.dtype != np.uint8 or seal.tobytes() != _digest(state):
            raise ValueError(
                f"{self.path}: its arrays do not match their seal, so the file was edited or damaged; name another "
                "file, and the work starts from the beginning"
            )
        return state

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the file's content."""
        sealed = {**state, _SEAL: np.frombuffer(_digest(state), np.uint8)}

        def write(partial: Path) -> None:
            with partial.open("wb") as file:  # an open file, since savez would add .npz to a name without it
                np.savez(file, **sealed)  # type: ignore[arg-type]  # its stub takes names for options

        write_whole(self.path, write)


def _digest(state: Mapping[str, np.ndarray]) -> bytes:
    """SHA-256 of names, types, shapes and contents, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(state):
        array = state[name]
        digest.update(f"{name!r} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def check_folder_of(out: Path, noun: str, beside: Sequence[str] = ()) -> None:
    """Refuse a folder for new work that holds something else, but for files that may be there."""
    if out.is_dir() and any(entry.name not in (".lock", *beside) for entry in out.iterdir()):
        raise ValueError(f"{out}: it holds something, and no {noun}; choose another --out")


def refuse_other(path: Path, noun: str, differing: Sequence[str]) -> None:
    """Refuse a folder that was made for other work, by a file that says what for; no differences are no reason."""
    if differing:
        more = f"; and {len(differing) - _MOST_SHOWN} more" if len(differing) > _MOST_SHOWN else ""
        shown_ones = "; ".join(differing[:_MOST_SHOWN])
        raise ValueError(f"{path}: this folder holds another {noun}: {shown_ones}{more}; choose another --out")


def changed_values(who: str, before: object, now: object) -> list[str]:
    """The values in which two definitions as plain data differ, in words.

    >>> changed_values("recipe", {"epochs": 4, "seed": 0}, {"epochs": 5, "seed": 0})
    ['recipe: epochs was 4 and is 5']
    """
    old, new = _leaves(before), _leaves(now)
    return [
        f"{who}: {name or 'it'} was {shown(old.get(name))} and is {shown(new.get(name))}"
        for name in dict.fromkeys([*old, *new])
        if name not in old or name not in new or old[name] != new[name]
    ]


def _leaves(value: object, name: str = "") -> dict[str, object]:
    """All values inside, by dotted name."""
    inside: Iterable[tuple[object, object]]
    if isinstance(value, Mapping) and value:
        inside = value.items()
    elif isinstance(value, list) and value:
        inside = enumerate(value)
    else:
        return {name: value}
    return {
        leaf: value_inside
        for key, entry in inside
        for leaf, value_inside in _leaves(entry, f"{name}.{key}" if name else str(key)).items()
    }
