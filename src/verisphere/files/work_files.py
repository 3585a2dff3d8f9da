"""Work files of a long computation: the finished blocks, from which a stopped computation continues."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from verisphere.collectives import on_first_rank
from verisphere.distributed import world
from verisphere.files.disk import remove_whole, write_text, write_whole
from verisphere.files.documents import read_json_file
from verisphere.files.lock import alone_in

log = logging.getLogger(__name__)

#: Folder of the work files, inside that of the result.
WORK = ".work"
_ABOUT = "about.json"


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
    """Whether the folder of a result holds nothing but a lock among its work files."""
    return [path.relative_to(out) for path in sorted(out.rglob("*"))] == [Path(WORK), Path(WORK, ".lock")]


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
        """The files in a folder; those of another result are removed. All ranks call this together.

        Args:
            folder: the folder, which may be absent.
            about: the inputs that determine the files, as JSON values.
        """

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
