"""Where a gallery that changes is kept: its tables and its rows, and what changes them all at once or not at all."""

from verisphere.files.gallery_store.facts import among, count_of, fact, set_fact
from verisphere.files.gallery_store.schema import FORMAT, Store
from verisphere.files.gallery_store.sqlite import SqliteStore, create_sqlite, is_gallery

__all__ = ["FORMAT", "SqliteStore", "Store", "among", "count_of", "create_sqlite", "fact", "is_gallery", "set_fact"]
