"""A gallery in a folder: one SQLite file for its tables, and a memory-mapped file for its rows.

The database counts the rows. A writer appends rows, waits for the disk, and commits their number together with their
photographs; `compact` writes a new file of rows, whose name the database takes on in the same way. Whatever a killed
process leaves behind is not counted, and the next writer removes it.
"""

import errno
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

from verisphere.files.disk import write_whole
from verisphere.files.gallery_store.mapped_rows import append_rows, mapped_rows
from verisphere.files.gallery_store.schema import FORMAT, Convert, Values, schema
from verisphere.files.json_values import shown
from verisphere.score.best_people import best_people

DATABASE = "gallery.db"
_WAIT_S = 10.0
_ROWS = re.compile(r"rows-[0-9]+\.f32")
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_WRITE")  # the last is a quota's
_AT_ONCE = 1 << 14  # rows that are copied together


def is_folder(path: str | Path) -> bool:
    """Whether a path is the folder of a gallery that `verisphere gallery create` made."""
    return (Path(path) / DATABASE).is_file()


class SqliteStore:
    """The store of a gallery's folder; see `Store`. One thread uses it at a time."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.name = str(folder)
        if not is_folder(folder):
            raise FileNotFoundError(
                f"{folder}: no gallery that `verisphere gallery create` made (it has no {DATABASE}); a folder of "
                "photographs is searched by `verisphere identify`"
            )
        self._seen: tuple[int, ...] = ()  # generation, rows and version of what is below; shorter where it is behind
        self._mapped: np.ndarray = np.empty((0, 0), np.float32)
        self._person: np.ndarray = np.empty(0, np.int64)
        with self._errors():
            self._database = sqlite3.connect(
                self.folder / DATABASE, timeout=_WAIT_S, isolation_level=None, check_same_thread=False
            )
            for setting in ("trusted_schema = OFF", "secure_delete = ON", "synchronous = FULL", "foreign_keys = ON"):
                self._database.execute(f"PRAGMA {setting}")
            known = dict(self._database.execute("SELECT name, value FROM facts WHERE name IN ('format', 'dim')"))
        if known.get("format") != FORMAT or not known.get("dim", "").isdecimal():
            raise ValueError(f"{folder}: format {shown(known.get('format'))}, and this version reads {FORMAT!r}")

    @property
    def dim(self) -> int:
        """Numbers of a row."""
        return self._number("dim")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """SQLite's errors as lines that name the gallery."""
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

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction of the only writer, or a part of the one around it: all of what happens in it, or nothing."""
        if self._database.in_transaction:
            yield
            return
        with self._errors():
            self._database.execute("BEGIN IMMEDIATE")
        try:
            self._sweep()
            yield
            with self._errors():
                self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            self._seen = ()  # its slots may become other people's
            raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Within it the tables and rows are those of one moment."""
        if self._database.in_transaction:
            yield
            return
        while True:
            with self._errors():
                self._database.execute("BEGIN")
            try:
                self._refresh()
                break
            except BaseException as error:
                self._database.execute("ROLLBACK")
                if not isinstance(error, FileNotFoundError) or not self._rows_file().exists():
                    raise  # else `compact` has replaced the file of rows between the two reads
        try:
            yield
        finally:
            self._database.execute("ROLLBACK")

    def select(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement finds."""
        with self._errors():
            return self._database.execute(sql, values).fetchall()

    def change(self, sql: str, each: Iterable[Values] = ((),)) -> None:
        """Carry out a statement for each of some values."""
        with self._errors():
            self._database.executemany(sql, each)
        self._seen = self._seen[:1]

    def insert_person(self, values: Values) -> int:
        """Insert a person, and give the number."""
        columns = "name, folded, code, consent, expires, enrolled, operator"
        with self._errors():
            found = self._database.execute(f"INSERT INTO people ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return int(found.lastrowid or 0)

    def next_slot(self) -> int:
        """The slot of the next row."""
        return self._number("rows")

    def add_rows(self, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
        """Add rows of length 1, within `writing`."""
        mapped_rows(self._rows_file(), first, self.dim)
        append_rows(self._rows_file(), first, rows)
        self.change("UPDATE facts SET value = ? WHERE name = 'rows'", [(str(first + len(rows)),)])

    def rows(self, slots: Int64[np.ndarray, " some"]) -> Float32[np.ndarray, "some dim"]:
        """Rows by their slots."""
        return np.array(mapped_rows(self._rows_file(), self._number("rows"), self.dim)[slots])

    def nearest(
        self, probes: Float32[Tensor, "probes dim"], count: int, without: Sequence[int] = ()
    ) -> tuple[
        Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]
    ]:
        """The best people of each probe, best first, without some people."""
        self._refresh()
        person = self._person
        if len(without):
            person = np.where(np.isin(person, np.array(without, np.int64)), -1, person)
        scores, slots = best_people(probes, self._mapped, person, count)
        return scores, np.where(slots >= 0, person[slots], -1) if len(person) else slots, slots

    def rewrite(self, convert: Convert, dim: int) -> None:
        """Give the slots anew without removed ones, within `writing`, and every row the numbers that follow from it."""
        slots = np.array([slot for (slot,) in self.select("SELECT slot FROM photographs ORDER BY slot")], np.int64)
        new = self.folder / f"rows-{self._number('generation') + 1}.f32"
        former = mapped_rows(self._rows_file(), self._number("rows"), self.dim)
        new.touch(0o600)
        for start in range(0, len(slots), _AT_ONCE):
            part = slots[start : start + _AT_ONCE]
            append_rows(new, start, convert(part, former[part]))
        moved = [(place, slot) for place, slot in enumerate(slots.tolist()) if place != slot]
        self.change("UPDATE photographs SET slot = ? WHERE slot = ?", moved)  # ascending, and never upwards
        self.change("UPDATE strangers SET slot = ? WHERE slot = ?", moved)
        self.change("DELETE FROM removed")
        facts = (("rows", len(slots)), ("generation", self._number("generation") + 1), ("dim", dim))
        self.change("UPDATE facts SET value = ? WHERE name = ?", [(str(value), name) for name, value in facts])

    def compact(self) -> str:
        """Remove every trace of what was removed; what is still to do, or empty."""
        with self.writing():
            self.rewrite(lambda slots, rows: rows, self.dim)
        with self.writing():
            pass  # the rows of before are removed
        self.select("VACUUM")
        if self.select("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]:
            return "another process reads this gallery, so that its journal could not be emptied: compact again later"
        return ""

    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def close(self) -> None:
        """Close the store."""
        self._database.close()
        self._mapped = np.empty((0, 0), np.float32)  # a mapped file keeps its disk

    def _number(self, fact: str) -> int:
        return int(self.select("SELECT value FROM facts WHERE name = ?", fact)[0][0])

    def _rows_file(self) -> Path:
        return self.folder / f"rows-{self._number('generation')}.f32"

    def _sweep(self) -> None:
        """Remove files of rows that a finished or killed `compact` has left, as the only writer."""
        for file in self.folder.iterdir():
            if _ROWS.fullmatch(file.name) and file != self._rows_file():
                file.unlink(missing_ok=True)

    def _refresh(self) -> None:
        """Map the rows, and read the person of each, unless they are known; only new ones where others are."""
        generation, rows = self._number("generation"), self._number("rows")
        seen = (generation, rows, *self.select("PRAGMA data_version")[0])
        if seen == self._seen:
            return
        self._mapped = mapped_rows(self._rows_file(), rows, self.dim)
        kept = self._person[:rows] if self._seen[:1] == (generation,) else self._person[:0]
        self._person = np.concatenate([kept, np.full(rows - len(kept), -1, np.int64)])
        found = self.select("SELECT slot, person FROM photographs WHERE slot >= ?", len(kept))
        pairs = np.array(found, np.int64).reshape(-1, 2)
        self._person[pairs[:, 0]] = pairs[:, 1]
        self._person[np.array([slot for (slot,) in self.select("SELECT slot FROM removed")], np.int64)] = -1
        self._seen = seen


def create_sqlite(folder: Path, facts: dict[str, str], fill: Callable[[SqliteStore], object]) -> None:
    """Make the folder of a gallery with these facts and what is then filled in, completely or not at all."""

    def write(partial: Path) -> None:
        partial.mkdir(mode=0o700)
        (partial / "rows-1.f32").touch(0o600)
        (partial / DATABASE).touch(0o600)
        database = sqlite3.connect(partial / DATABASE, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        for statement in schema("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB"):
            database.execute(statement)
        known = {"format": FORMAT, "rows": "0", "generation": "1", **facts}
        database.executemany("INSERT INTO facts VALUES (?, ?)", known.items())
        database.close()
        store = SqliteStore(partial)
        try:
            fill(store)
        finally:
            store.close()

    write_whole(folder, write)
