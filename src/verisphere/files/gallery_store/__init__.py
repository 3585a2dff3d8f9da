"""Where a gallery that changes is kept: in a folder or on a server, changed all at once or not at all."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from verisphere.files.disk import write_whole
from verisphere.files.gallery_store.postgres import PostgresStore
from verisphere.files.gallery_store.sqlite import SqliteStore, is_folder, new_folder

Store: TypeAlias = SqliteStore | PostgresStore


def _is_address(place: str | Path) -> bool:
    return str(place).startswith(("postgresql:/", "postgres:/"))


def is_gallery(place: str | Path) -> bool:
    """Whether a place is an address, or the folder of a gallery that `verisphere gallery create` made."""
    return _is_address(place) or is_folder(place)


def open_store(place: str | Path) -> Store:
    """The store of a gallery; refused where there is none, or it is damaged or of another version."""
    return PostgresStore(place) if _is_address(place) else SqliteStore(place)


def create_store(place: str | Path, facts: dict[str, str], fill: Callable[[Store], object]) -> None:
    """Make the store of a gallery with these facts and what is then filled in, completely or not at all."""
    if _is_address(place):
        PostgresStore(place, facts, fill).close()
    else:
        write_whole(place, lambda partial: new_folder(partial, facts, fill))
