"""A gallery in a folder: one SQLite file for its tables, and a memory-mapped file for its rows.

The slots in the database say how many rows count. A writer appends rows behind these, waits for the disk, and commits
their photographs; `compact` writes a new file of rows, whose name the database takes on in the same way. Whatever a
killed process leaves behind does not count, and the next writer removes it.

SQLite needs files of its own beside the database, also to read. Where the disk is full or may not be written, the
database is opened as immutable, unless a journal holds changes. Such a reader compares the times and sizes of the files
after each statement, so that nothing of a transaction that another process makes meanwhile is ever returned.
"""

import errno
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar
from weakref import finalize

import numpy as np
from jaxtyping import Float32, Int64
from torch import Tensor

from verisphere.files.disk import regular
from verisphere.files.gallery_store.tables import Convert, Nearest, Tables
from verisphere.score.top_k import best_people

DATABASE = "gallery.db"
JOURNAL = f"{DATABASE}-wal"
_WAIT_S = 10.0
_ROWS = re.compile(r"rows-[0-9]+\.f32")
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE")  # the last is a quota's
_AT_ONCE = 1 << 14  # rows that are copied together


def is_folder(path: str | Path) -> bool:
    """Whether a path is the folder of a gallery that `verisphere gallery create` made."""
    return (Path(path) / DATABASE).is_file()


class SqliteStore(Tables):
    """The store of a gallery's folder; see `Tables`."""

    _words: ClassVar = {"key": "INTEGER PRIMARY KEY AUTOINCREMENT", "bytes": "BLOB", "text": "TEXT"}
    _to_read, _to_write = ("BEGIN",), ("BEGIN IMMEDIATE",)
    _database: Any = None
    _frozen: OSError | None = None  # why the database is only read, and read as it was

    def __init__(
        self,
        folder: str | Path,
        new: dict[str, str] | None = None,
        fill: Callable[["SqliteStore"], object] = lambda store: None,
    ) -> None:
        self.folder, self.name = Path(folder), str(folder)
        if not is_folder(folder):
            raise FileNotFoundError(
                f"{folder}: no gallery that `verisphere gallery create` made (it has no {DATABASE}); a folder of "
                "photographs is searched by `verisphere identify`"
            )
        self._mapped: np.ndarray = np.empty((0, 0), np.float32)
        self._person: np.ndarray = np.empty(0, np.int64)
        self._open(may_freeze=new is None)
        if new is not None:
            self.select("PRAGMA journal_mode = WAL")
            self._create({"generation": "1", **new})
            fill(self)
        self._check()

    def _open(self, may_freeze: bool = True) -> None:
        """Open the database; as it is now, and for reading alone, where its disk is full or may not be written."""
        self._frozen, self._seen, address = None, (), (self.folder / DATABASE).absolute().as_uri()
        try:
            self._connect(address)
            self.select("SELECT count(*) FROM sqlite_schema")
        except OSError as error:
            since = self._signature()
            if not may_freeze or since.get(JOURNAL, (0, 0))[1]:
                raise
            self._connect(f"{address}?immutable=1")
            self._frozen, self._since = error, since

    def _connect(self, address: str) -> None:
        if self._database is not None:
            self._database.close()
        with self._errors():
            self._database = sqlite3.connect(
                address, timeout=_WAIT_S, isolation_level=None, check_same_thread=False, uri=True
            )
        finalize(self, self._database.close)
        for setting in ("trusted_schema = OFF", "secure_delete = ON", "synchronous = FULL", "foreign_keys = ON"):
            self.select(f"PRAGMA {setting}")

    def _signature(self) -> dict[str, tuple[int, int]]:
        """When the database and its journal were written last, and their sizes."""
        found = {}
        for file in (DATABASE, JOURNAL):
            with suppress(FileNotFoundError):
                about = (self.folder / file).stat()
                found[file] = about.st_mtime_ns, about.st_size
        return found

    def writing(self) -> AbstractContextManager[None]:
        """A transaction of the only writer; see `Tables.writing`."""
        if self._frozen is not None:
            self._open()
        if self._frozen is not None:
            raise self._frozen
        return super().writing()

    def select(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement finds; those of a frozen database count if nobody has changed it since."""
        try:
            return super().select(sql, *values)
        finally:  # for an error may come of what was changed
            if self._frozen is not None and self._signature() != self._since:
                self._open()
                text = "another process has been writing to this gallery meanwhile; try again"
                raise ValueError(f"{self.name}: {text}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            text = str(error)
            if "locked" in text or "busy" in text:
                text = f"another process has been writing to this gallery for {_WAIT_S:.0f} seconds; try again"
            elif getattr(error, "sqlite_errorname", "") in _NO_ROOM:
                raise OSError(errno.ENOSPC, "No space left on device", self.name) from None
            elif "readonly" in text or "unable to open" in text:
                raise PermissionError(errno.EACCES, "Permission denied", str(self.folder / DATABASE)) from None
            elif isinstance(error, sqlite3.ProgrammingError):
                raise
            else:
                text = f"{DATABASE} is not the database of a gallery, or it is damaged ({text})"
            raise ValueError(f"{self.name}: {text}") from None

    def add_rows(self, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
        """Add rows of length 1, within `writing`; their photographs have been inserted."""
        self._map(first)
        _append(self._rows_file(), first, rows)

    def rows(self, slots: Int64[np.ndarray, " some"]) -> Float32[np.ndarray, "some dim"]:
        """Rows by their slots."""
        self._refresh()
        return np.array(self._mapped[slots])

    def nearest(self, probes: Float32[Tensor, "probes dim"], count: int, without: Sequence[int] = ()) -> Nearest:
        """The best people of each probe, best first, without some people; see `best_people`."""
        self._refresh()
        person = self._person
        if len(without):
            person = np.where(np.isin(person, np.array(without, np.int64)), -1, person)
        scores, slots = best_people(probes, self._mapped, person, count)
        return scores, np.where(slots >= 0, person[slots], -1) if len(person) else slots, slots

    def rewrite(self, convert: Convert, dim: int) -> None:
        """Give the slots anew without removed ones, within `writing`, and every row the numbers that follow from it."""
        slots = np.array(self.select("SELECT slot FROM photographs ORDER BY slot"), np.int64).flatten()
        former, generation = self._map(self.next_slot()), self.fact("generation") + 1
        self.set_fact("generation", generation)
        self.set_fact("dim", dim)
        self._rows_file().touch(0o600)
        for start in range(0, len(slots), _AT_ONCE):
            part = slots[start : start + _AT_ONCE]
            _append(self._rows_file(), start, convert(part, former[part]))
        moved = [(place, slot) for place, slot in enumerate(slots.tolist()) if place != slot]
        self.change("UPDATE photographs SET slot = ? WHERE slot = ?", moved)  # ascending, and never upwards
        self.change("UPDATE strangers SET slot = ? WHERE slot = ?", moved)
        waiting = self.count("removed")
        self.change("DELETE FROM removed")
        self.change("INSERT INTO removed VALUES (?)", [(slot,) for slot in range(-waiting, 0)])

    def compact(self) -> None:
        """Remove every trace of what was removed; ValueError where a reader hinders it, and it still waits."""
        with self.writing():
            self.rewrite(lambda slots, rows: rows, self.dim)
            generation = self.fact("generation")
        with self.writing():
            pass  # the rows of before are removed
        self.select("VACUUM")
        if self.select("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            text = "another process reads this gallery, so that its files may still hold what was removed"
            raise ValueError(f"{self.name}: {text}; compact it again later")
        with self.writing():
            if self.fact("generation") == generation:  # else another `compact` has taken over what waits
                self.change("DELETE FROM removed WHERE slot < 0")

    def size(self) -> int:
        """Bytes on disk."""
        size = 0
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it meanwhile
                size += file.stat().st_size
        return size

    def close(self) -> None:
        """Close the store."""
        super().close()
        self._mapped = np.empty((0, 0), np.float32)  # a mapped file keeps its disk

    def _rows_file(self) -> Path:
        return self.folder / f"rows-{self.fact('generation')}.f32"

    def _map(self, rows: int) -> Float32[np.ndarray, "rows dim"]:
        """The first rows of the file, mapped into memory and not read."""
        path, dim = self._rows_file(), self.dim
        size = path.stat().st_size
        if size < 4 * rows * dim:
            needed = f"{rows:,} rows of {dim} numbers take {4 * rows * dim:,}"
            raise ValueError(f"{path}: {size:,} bytes, but {needed}: cut short")
        if not rows:
            return np.empty((0, dim), np.float32)
        with open(path, "rb", opener=regular) as file:
            return np.memmap(file, "<f4", "r", shape=(rows, dim))

    def _sweep(self) -> None:
        """Remove files of rows that a finished or killed `compact` has left, as the only writer."""
        for file in self.folder.iterdir():
            if _ROWS.fullmatch(file.name) and file != self._rows_file():
                file.unlink(missing_ok=True)

    def _arrive(self) -> None:
        try:
            self._refresh()
        except FileNotFoundError:
            former = self._rows_file()
            self.select("ROLLBACK")
            self.select("BEGIN")
            if self._rows_file() == former:
                raise
            self._arrive()  # `compact` has replaced the file of rows between the two reads

    def _refresh(self) -> None:
        """Map the rows, and read the person of each, unless they are known; only new ones where others are."""
        state = self.fact("generation"), *self.select("PRAGMA data_version")[0], self._database.total_changes
        if state == self._seen:
            return
        rows = self.next_slot()
        self._mapped = self._map(rows)
        kept = self._person[:rows] if self._seen[:1] == state[:1] else self._person[:0]
        self._person = np.concatenate([kept, np.full(rows - len(kept), -1, np.int64)])
        added = self.select("SELECT slot, person FROM photographs WHERE slot >= ?", len(kept))
        pairs = np.array(added, np.int64).reshape(-1, 2)
        self._person[pairs[:, 0]] = pairs[:, 1]
        self._person[np.array(self.select("SELECT slot FROM removed WHERE slot >= 0"), np.int64).flatten()] = -1
        self._seen = state


def _append(path: Path, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
    """Write rows behind the first ones of a file, in place of whatever follows them, and wait for the disk."""
    with open(path, "r+b", opener=regular) as file:
        file.truncate(4 * first * rows.shape[1])
        file.seek(0, os.SEEK_END)
        try:
            file.write(np.ascontiguousarray(rows, "<f4").data)
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:  # of a full disk, without a name
            raise OSError(error.errno, error.strerror, str(path)) from None


def new_folder(folder: Path, facts: dict[str, str], fill: Callable[[SqliteStore], object]) -> None:
    """Make the folder of a gallery with these facts and what is then filled in."""
    folder.mkdir(mode=0o700)
    (folder / "rows-1.f32").touch(0o600)
    (folder / DATABASE).touch(0o600)
    SqliteStore(folder, facts, fill).close()
