"""The tables of a gallery, and what each store of them does."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Float32, Float64, Int64
from torch import Tensor

FORMAT = "verisphere gallery 1"

#: A slot is the number of a row; those of removed photographs wait for `compact`. Audit entries name people by random
#: codes alone. A stranger is the `same` as an enrolled person if an operator has said so.
_TABLES = (
    "facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "people (person {key}, name TEXT NOT NULL, folded TEXT NOT NULL UNIQUE, code TEXT NOT NULL UNIQUE, "
    "consent TEXT NOT NULL, expires TEXT, enrolled TEXT NOT NULL, operator TEXT NOT NULL)",
    "photographs (slot BIGINT PRIMARY KEY, person BIGINT NOT NULL REFERENCES people, name TEXT NOT NULL, "
    "digest TEXT NOT NULL, image {bytes}, enrolled TEXT NOT NULL, operator TEXT NOT NULL, UNIQUE (person, digest))",
    "removed (slot BIGINT PRIMARY KEY)",
    "strangers (stranger {key}, name TEXT NOT NULL, folded TEXT NOT NULL, embedding {bytes} NOT NULL, "
    "score DOUBLE PRECISION, slot BIGINT, same BIGINT)",
    "audit (entry {key}, moment TEXT NOT NULL, operator TEXT NOT NULL, action TEXT NOT NULL, code TEXT NOT NULL, "
    "photographs BIGINT NOT NULL)",
)

Values: TypeAlias = Sequence[Any]
#: Score, person and slot of the best people of each probe; minus infinity, -1 and -1 where there is none.
Nearest: TypeAlias = tuple[
    Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]
]


def schema(key: str, of_bytes: str) -> list[str]:
    """The statements that make the tables, with a database's words for a numbered key and for bytes."""
    return [f"CREATE TABLE {table.format(key=key, bytes=of_bytes)}" for table in _TABLES]


#: New rows, perhaps of another size, from the slots and rows that there are.
Convert: TypeAlias = Callable[
    [Int64[np.ndarray, " some"], Float32[np.ndarray, "some dim"]], Float32[np.ndarray, "some new_dim"]
]


@runtime_checkable
class Store(Protocol):
    """The tables and rows of one gallery. SQL has `?` for values."""

    name: str

    def writing(self) -> AbstractContextManager[None]:
        """A transaction of the only writer, or a part of the one around it: all of what happens in it, or nothing."""

    def reading(self) -> AbstractContextManager[None]:
        """Within it the tables and rows are those of one moment."""

    def select(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement finds."""

    def change(self, sql: str, each: Iterable[Values] = ((),)) -> None:
        """Carry out a statement for each of some values."""

    def insert_person(self, values: Values) -> int:
        """Insert a person, and give the number."""

    def next_slot(self) -> int:
        """The slot of the next row."""

    def add_rows(self, first: int, rows: Float32[np.ndarray, "rows dim"]) -> None:
        """Add rows of length 1, within `writing`; their photographs have been inserted or are inserted next."""

    def rows(self, slots: Int64[np.ndarray, " some"]) -> Float32[np.ndarray, "some dim"]:
        """Rows by their slots."""

    def nearest(
        self, probes: Float32[Tensor, "probes dim"], count: int, without: Sequence[int] = ()
    ) -> tuple[
        Float64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"], Int64[np.ndarray, "probes count"]
    ]:
        """The best people of each probe, best first, without some people; see `best_people`."""

    def rewrite(self, convert: Convert, dim: int) -> None:
        """Give the slots anew without removed ones, within `writing`, and every row the numbers that follow from it."""

    def compact(self) -> str:
        """Remove every trace of what was removed; what is still to do, or empty."""

    def size(self) -> int:
        """Bytes on disk."""

    def close(self) -> None:
        """Close the store."""
