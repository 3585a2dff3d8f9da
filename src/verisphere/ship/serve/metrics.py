"""What all processes of a service count together: figures as Prometheus text, and what limits are measured by."""

import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_KINDS = {
    "requests_total": ("counter", "Answers, by path and status."),
    "request_seconds": ("summary", "Time from a request's headers to its answer."),
    "decisions_total": ("counter", "Decisions, by path and verdict."),
    "batch_faces": ("summary", "Faces that went through the network together."),
    "batch_searches": ("summary", "Photographs that were looked for in the gallery together."),
    "requests_now": ("gauge", "Requests that are being answered."),
    "people": ("gauge", "People in the gallery."),
}
_TABLES = (
    "counts (name TEXT PRIMARY KEY, value REAL NOT NULL)",
    "buckets (holder TEXT PRIMARY KEY, tokens REAL NOT NULL, passed INT NOT NULL, moment REAL NOT NULL)",
    "answering (process INTEGER PRIMARY KEY, requests INT NOT NULL)",
)
_TAKE = (
    "INSERT INTO buckets VALUES (:holder, :most - 1, 1, :now) ON CONFLICT (holder) DO UPDATE SET "
    "(tokens, passed, moment) = (SELECT held - (held >= 1), held >= 1, :now FROM "
    "(SELECT min(tokens + (:now - moment) * :rate, :most) AS held)) RETURNING passed"
)


class Metrics:
    """Counts since the start of the service, by name and labels as Prometheus writes them.

    Processes that are given one file count together, each step in one statement; without a file one counts alone.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._database = sqlite3.connect(file or ":memory:", timeout=10, isolation_level=None, check_same_thread=False)
        for setting in ("journal_mode = WAL", "synchronous = OFF"):
            self._done(f"PRAGMA {setting}")
        for table in _TABLES:
            self._done(f"CREATE TABLE IF NOT EXISTS {table}")
        self._done("INSERT OR REPLACE INTO answering VALUES (?, 0)", os.getpid())

    def add(self, name: str, amount: float = 1.0) -> None:
        """Add to a count."""
        add = "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value"
        self._done(f"INSERT INTO counts VALUES (?, ?) {add}", name, amount)

    def took(self, name: str, amount: float) -> None:
        """Add to the sum and the count of a summary."""
        self.add(f"{name}_sum", amount)
        self.add(f"{name}_count")

    def began(self, requests: int) -> None:
        """Add to the requests that this process is answering."""
        self._done("UPDATE answering SET requests = requests + ? WHERE process = ?", requests, os.getpid())

    def ended(self, process: int | None) -> None:
        """What a process that has ended was answering is over."""
        self._done("DELETE FROM answering WHERE process = ?", process)

    @property
    def now(self) -> int:
        """Requests that are being answered."""
        return int(self._done("SELECT sum(requests) FROM answering")[0][0])

    def passes(self, holder: str, rate: float, most: float) -> bool:
        """Whether a request of a key is within its rate, of which at most so many requests may be saved up."""
        about = {"holder": holder, "rate": rate, "most": most, "now": time.monotonic()}
        return bool(self._database.execute(_TAKE, about).fetchall()[0][0])

    def text(self, now: Mapping[str, int]) -> str:
        """All counts, and figures of this moment."""
        values: dict[str, float] = {**dict(self._done("SELECT name, value FROM counts")), **now}
        lines = list[str]()
        for name, (kind, meaning) in _KINDS.items():
            lines += [f"# HELP verisphere_{name} {meaning}", f"# TYPE verisphere_{name} {kind}"]
            lines += [
                f"verisphere_{series} {value:.12g}" for series, value in values.items() if series.startswith(name)
            ]
        return "\n".join(lines) + "\n"

    def _done(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, values).fetchall()
