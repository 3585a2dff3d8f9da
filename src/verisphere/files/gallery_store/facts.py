"""Questions that every store of a gallery is asked: facts, counts, and what is among many values."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from verisphere.files.gallery_store.schema import Store
from verisphere.files.results import json_text

_VALUES = 9_000  # of one statement


def fact(store: Store, name: str) -> Any:
    """A fact from its JSON; None where it is not known."""
    found = store.select("SELECT value FROM facts WHERE name = ?", name)
    return json.loads(found[0][0]) if found else None


def set_fact(store: Store, name: str, value: object) -> None:
    """Write a fact as JSON."""
    store.change("DELETE FROM facts WHERE name = ?", [(name,)])
    store.change("INSERT INTO facts VALUES (?, ?)", [(name, json_text(value))])


def count_of(store: Store, table: str) -> int:
    """The number of rows of a table."""
    return int(store.select(f"SELECT count(*) FROM {table}")[0][0])


def among(store: Store, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """What a statement finds that ends in IN, for any number of values."""
    for start in range(0, len(values), _VALUES):
        part = values[start : start + _VALUES]
        yield from store.select(f"{sql} ({', '.join('?' * len(part))})", *part)
