"""A gallery in PostgreSQL: a schema of its own, with its rows as pgvector's `vector` in a table beside the photographs.

Each writer locks one table for its whole transaction, so that the promise which it writes is that of the gallery as
committed; readers see the gallery of one moment. No index stands over the rows. The server's float32 products only
screen them: whatever may be among the answers by `rough_error` is scored here, as in every store.
"""

import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from weakref import finalize

import numpy as np
from jaxtyping import Float32, Int64
from torch import Tensor

from verisphere.base.words import install_extra
from verisphere.files.gallery_store.tables import Convert, Nearest, Tables
from verisphere.score.pairs import rough_error
from verisphere.score.top_k import best_people

_WAIT_S = 60
_SCANNED = 16  # probes, for each of which the server scans the rows; for more of them all rows are fetched once
_INLINE = 1900  # numbers of a row that fits into a page; longer ones are kept beside the table
_URL = re.compile(r"postgres(?:ql)?:/{1,3}(?:([^:@/?#]*)(?::([^@/?#]*))?@)?([^@/?#]*)/([^@/?#]+)(\?[^#]*)?#(.*)", re.S)
_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_ADDRESS = (
    "the address of a gallery in PostgreSQL is postgresql://USER@HOST/DATABASE#NAME, NAME of small letters, digits and "
    "_; keep the password in PGPASSWORD or a .pgpass file, or write each of / ? # @ within it as % and its code"
)
_PATH = (
    "SELECT set_config('search_path', format('%%I, %%I', ?::text, coalesce((SELECT nspname FROM pg_extension JOIN "
    "pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'), 'public')), false), "
    "set_config('lock_timeout', ?, false), set_config('client_connection_check_interval', '5s', false)"
)
_ROWS = "SELECT slot, person, vector_send(embedding) FROM {} JOIN embeddings USING (slot) WHERE {} ORDER BY slot"
_NEAR = (
    "WITH products AS MATERIALIZED (SELECT slot, person, -(embedding <#> ?::vector) AS product FROM photographs "
    "JOIN embeddings USING (slot) WHERE person <> ALL(?)), "
    "last AS (SELECT max(product) AS product FROM products GROUP BY person ORDER BY 1 DESC OFFSET ? LIMIT 1) "
) + _ROWS.format("products", "product >= coalesce((SELECT product FROM last), '-Infinity') - ?::float8")


class PostgresStore(Tables):
    """The store of a gallery in PostgreSQL; see `Tables`. `Path` may have made one slash of the two of its place."""

    _words: ClassVar = {
        "key": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "text": 'TEXT COLLATE "C"',
    }
    _mark = "%s"
    _to_read = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",)
    _to_write = ("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", "LOCK TABLE facts IN SHARE ROW EXCLUSIVE MODE")

    def __init__(
        self,
        place: str | Path,
        new: dict[str, str] | None = None,
        fill: Callable[["PostgresStore"], object] = lambda store: None,
    ) -> None:
        match = _URL.fullmatch(str(place))
        if match is None or "password" in (match[5] or "") or not _NAME.fullmatch(match[6]):
            raise ValueError(_ADDRESS)
        user, password, host, database, options, self._schema = match.groups(default="")
        end = f"{host}/{database}{options}"
        self.name = f"postgresql://{user}@{end}#{self._schema}" if user else f"postgresql://{end}#{self._schema}"
        self._address = f"postgresql://{user}:{password}@{end}" if password else self.name.partition("#")[0]
        self._connect()
        if new is not None:
            with self._transaction(("BEGIN",), lambda: self._create(new)):
                fill(self)
        tables = "SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = 'facts'"
        if not self.select(tables, self._schema):
            raise FileNotFoundError(f"{self.name}: no gallery that `verisphere gallery create` made")
        self._check()

    def _connect(self) -> None:
        try:
            import psycopg
        except ImportError:
            needed = f"a gallery in PostgreSQL needs psycopg, not installed here; {install_extra('postgres')}"
            raise ValueError(f"{self.name}: {needed}") from None
        with self._errors():
            self._database = psycopg.connect(self._address, autocommit=True, prepare_threshold=None)
            finalize(self, self._database.close)
        self.select(_PATH, self._schema, f"{_WAIT_S}s")

    def _cursor(self) -> Any:
        if self._database.closed and not self._within:
            self._connect()
        return self._database.cursor(binary=True)

    def _create(self, facts: dict[str, str]) -> None:
        """Make the tables. No statistics are kept of names, images and rows: they would hold some of them."""
        self.change("CREATE EXTENSION IF NOT EXISTS vector")
        self.change(f"CREATE SCHEMA {self._schema}")
        self.select(_PATH, self._schema, f"{_WAIT_S}s")
        super()._create(facts)
        self._create_rows(self.dim)
        columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?"
        for table, column in self.select(f"{columns} AND data_type IN ('text', 'bytea')", self._schema):
            self.change(f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0")

    def _create_rows(self, dim: int) -> None:
        key = "slot BIGINT PRIMARY KEY REFERENCES photographs ON DELETE CASCADE"
        self.change(f"CREATE TABLE embeddings ({key}, embedding vector({dim}) NOT NULL)")
        storage = ", ALTER embedding SET STORAGE PLAIN" if dim <= _INLINE else ""
        self.change(f"ALTER TABLE embeddings ALTER embedding SET STATISTICS 0{storage}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from psycopg import Error, errors

        try:
            yield
        except errors.LockNotAvailable:
            text = f"others have been writing to this gallery, or reading it, for {_WAIT_S} seconds; try again"
            raise ValueError(f"{self.name}: {text}") from None
        except Error as error:
            text = " ".join((error.diag.message_primary or str(error)).split())
            raise ValueError(f"{self.name}: {text}") from None

    def add_rows(self, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
        """Add rows of length 1, within `writing`; their photographs have been inserted."""
        self._copy(range(first, first + len(rows)), rows)

    def _copy(self, slots: Iterable[int], rows: Float32[np.ndarray, "rows dim"]) -> None:
        head = struct.pack(">HH", rows.shape[1], 0)
        copying = "COPY embeddings FROM STDIN WITH (FORMAT BINARY)"
        with self._errors(), self._database.cursor() as cursor, cursor.copy(copying) as copy:
            copy.set_types(["int8", "bytea"])
            for slot, row in zip(slots, rows.astype(">f4"), strict=True):
                copy.write_row((slot, head + row.tobytes()))

    def rows(self, slots: Int64[np.ndarray, " some"]) -> Float32[np.ndarray, "some dim"]:
        """Rows by their slots."""
        there, _, rows = self._fetched(_ROWS.format("photographs", "slot = ANY(?)"), slots.tolist())
        return rows[np.searchsorted(there, slots)]

    def nearest(self, probes: Float32[Tensor, "probes dim"], count: int, without: Sequence[int] = ()) -> Nearest:
        """The best people of each probe, best first, without some people; see `best_people`."""
        gone, error, found = list(without), 2 * rough_error(probes.shape[1]), []
        searches: list[tuple[Tensor, str, list[Any]]] = [
            (probes, _ROWS.format("photographs", "person <> ALL(?)"), [gone])
        ]
        if 0 < len(probes) <= _SCANNED:
            searches = [(probe[None], _NEAR, [str(probe.tolist()), gone, count - 1, error]) for probe in probes]
        for part, sql, values in searches:
            slot, person, rows = self._fetched(sql, *values)
            scores, near = best_people(part, rows, person, count)
            found.append((scores, np.append(person, -1)[near], np.append(slot, -1)[near]))
        scores, persons, slots = (np.concatenate(column) for column in zip(*found, strict=True))
        return scores, persons, slots

    def rewrite(self, convert: Convert, dim: int) -> None:
        """Give every row the numbers that follow from its slot and its numbers, within `writing`; slots stay."""
        slots, _, rows = self._fetched(_ROWS.format("photographs", "true"))
        self.change("DROP TABLE embeddings")
        self._create_rows(dim)
        self._copy(slots.tolist(), convert(slots, rows) if len(slots) else rows)
        self.set_fact("dim", dim)

    def compact(self) -> None:
        """Remove every trace of removed photographs from the files of the tables; see `SqliteStore.compact`."""
        gone = self.select("SELECT slot FROM removed")
        held = list[str]()
        tables = self.select("SELECT table_name FROM information_schema.tables WHERE table_schema = ?", self._schema)

        def note(diagnostic: Any) -> None:
            held.extend(re.findall(r"\d+", diagnostic.message_detail or "")[:1])  # in any language

        self._database.add_notice_handler(note)
        try:
            for (table,) in tables:
                self.select(f"VACUUM (FULL, VERBOSE) {table}")
        finally:
            self._database.remove_notice_handler(note)
        if any(map(int, held)):
            text = "another transaction of this server may still see what was removed"
            raise ValueError(f"{self.name}: {text}; end it, and compact again")
        self.change("DELETE FROM removed WHERE slot = ?", gone)

    def size(self) -> int:
        """Bytes of the tables on the server's disk."""
        tables = "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = ? AND relkind = 'r'"
        return int(self.select(f"SELECT sum(pg_total_relation_size(c.oid))::bigint {tables}", self._schema)[0][0])

    def _fetched(
        self, sql: str, *values: Any
    ) -> tuple[Int64[np.ndarray, " some"], Int64[np.ndarray, " some"], Float32[np.ndarray, "some dim"]]:
        """Slot, person and row of what a statement finds."""
        numbers, content = list[tuple[int, int]](), bytearray()
        with self._errors(), self._database.cursor(binary=True) as cursor:
            for slot, person, row in cursor.stream(sql.replace("?", "%s"), values):
                numbers.append((slot, person))
                content += row[4:]
        slots, persons = np.array(numbers, np.int64).reshape(-1, 2).T
        rows = np.frombuffer(content, np.uint32).reshape(-1, self.dim)
        return slots, persons, (rows.byteswap(inplace=True) if sys.byteorder == "little" else rows).view(np.float32)
