"""The tables of a gallery, and what its stores have in common: SQL, transactions and facts."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int64

from verisphere.files.json_values import shown
from verisphere.files.results import json_text

FORMAT = "verisphere gallery 1"
_VALUES = 9_000  # of one statement

#: A slot is the number of a row; those of removed photographs wait for `compact`. They are below zero once the rows are
#: gone, while other files may still hold names and images. Audit entries name people by random codes alone.
_TABLES = (
    "facts (name {text} PRIMARY KEY, value {text} NOT NULL)",
    "people (person {key}, name {text} NOT NULL, folded {text} NOT NULL UNIQUE, code {text} NOT NULL UNIQUE, "
    "consent {text} NOT NULL, expires {text}, enrolled {text} NOT NULL, operator {text} NOT NULL)",
    "photographs (slot BIGINT PRIMARY KEY, person BIGINT NOT NULL REFERENCES people, name {text} NOT NULL, "
    "digest {text} NOT NULL, image {bytes}, enrolled {text} NOT NULL, operator {text} NOT NULL, "
    "UNIQUE (person, digest))",
    "removed (slot BIGINT PRIMARY KEY)",
    "strangers (stranger {key}, name {text} NOT NULL, folded {text} NOT NULL, embedding {bytes} NOT NULL, "
    "score DOUBLE PRECISION, slot BIGINT)",
    "audit (entry {key}, moment {text} NOT NULL, operator {text} NOT NULL, action {text} NOT NULL, "
    "code {text} NOT NULL, photographs BIGINT NOT NULL)",
)

#: Score, person and slot of the best people of each probe; minus infinity, -1 and -1 where there is none.
Nearest: TypeAlias = tuple[
    Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]
]
#: New rows, perhaps of another size, from the slots and rows that there are.
Convert: TypeAlias = Callable[
    [Int64[np.ndarray, " some"], Float32[np.ndarray, "some dim"]], Float32[np.ndarray, "some new_dim"]
]


class Tables:
    """The tables of one gallery, which one thread uses at a time; its name has no password. SQL has `?` for values."""

    name: str
    _database: Any
    _words: ClassVar[dict[str, str]]  # for a numbered key, bytes and text
    _mark: ClassVar[str] = "?"
    _to_read: ClassVar[tuple[str, ...]]  # statements that begin a transaction
    _to_write: ClassVar[tuple[str, ...]]
    _within = False
    _seen: tuple[int, ...] = ()  # the state of the tables of which something is held in memory

    def writing(self) -> AbstractContextManager[None]:
        """A transaction of the only writer, or a part of the one around it: all of what happens in it, or nothing."""
        return self._transaction(self._to_write, self._sweep)

    def reading(self) -> AbstractContextManager[None]:
        """Within it the tables and rows are those of one moment."""
        return self._transaction(self._to_read, self._arrive)

    def select(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement finds."""
        with self._errors():
            cursor = self._cursor()
            cursor.execute(sql.replace("?", self._mark), values)
            return cursor.fetchall() if cursor.description else []

    def change(self, sql: str, each: Iterable[Sequence[Any]] = ((),)) -> None:
        """Carry out a statement for each of some values."""
        with self._errors():
            self._cursor().executemany(sql.replace("?", self._mark), each)

    def among(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        """What a statement finds that ends in IN, for any number of values."""
        for start in range(0, len(values), _VALUES):
            part = values[start : start + _VALUES]
            yield from self.select(f"{sql} ({', '.join('?' * len(part))})", *part)

    def count(self, table: str) -> int:
        """The number of rows of a table."""
        return int(self.select(f"SELECT count(*) FROM {table}")[0][0])

    def fact(self, name: str) -> Any:
        """A fact from its JSON; None where it is not known."""
        values = self.select("SELECT value FROM facts WHERE name = ?", name)
        return json.loads(values[0][0]) if values else None

    def set_fact(self, name: str, value: object) -> None:
        """Write a fact as JSON."""
        self.change("DELETE FROM facts WHERE name = ?", [(name,)])
        self.change("INSERT INTO facts VALUES (?, ?)", [(name, json_text(value).strip())])

    @property
    def dim(self) -> int:
        """Numbers of a row."""
        return int(self.fact("dim"))

    def next_slot(self) -> int:
        """The slot of the next row."""
        last = self.select("SELECT max(slot) FROM photographs UNION ALL SELECT max(slot) FROM removed")
        return 1 + max(slot for (slot,) in [(-1,), *last] if slot is not None)

    def close(self) -> None:
        """Close the store."""
        self._database.close()

    @contextmanager
    def _transaction(self, begin: Sequence[str], begun: Callable[[], object]) -> Iterator[None]:
        if self._within:
            yield
            return
        try:
            for statement in begin:
                self.select(statement)
                self._within = True
            begun()
            yield
            with self._errors():
                self._database.commit()
        except BaseException:
            self._seen = ()  # its slots may become other people's
            try:
                self._database.rollback()
            except Exception:  # of whatever kind the driver has: the connection may be gone
                self._database.close()  # which ends it too
            raise
        finally:
            self._within = False

    def _create(self, facts: dict[str, str]) -> None:
        for table in _TABLES:
            self.select(f"CREATE TABLE {table.format(**self._words)}")
        self.change("INSERT INTO facts VALUES (?, ?)", {"format": FORMAT, **facts}.items())

    def _check(self) -> None:
        known = dict(self.select("SELECT name, value FROM facts WHERE name IN ('format', 'dim')"))
        if known.get("format") != FORMAT or not known.get("dim", "").isdecimal():
            raise ValueError(f"{self.name}: format {shown(known.get('format'))}, and this version reads {FORMAT!r}")

    def _cursor(self) -> Any:
        return self._database.cursor()

    def _errors(self) -> AbstractContextManager[None]:
        """The errors of a database as lines that name the gallery; each database has its own."""
        raise NotImplementedError

    def _sweep(self) -> None:
        """What a writer does first."""

    def _arrive(self) -> None:
        """What a reader does first."""
