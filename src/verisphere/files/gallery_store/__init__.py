"""Where a gallery that changes is kept: its tables and its rows, and what changes them all at once or not at all."""

from verisphere.files.gallery_store.facts import among, count_of, fact, set_fact
from verisphere.files.gallery_store.places import create_store, is_gallery, open_store
from verisphere.files.gallery_store.schema import FORMAT, Store

__all__ = ["FORMAT", "Store", "among", "count_of", "create_store", "fact", "is_gallery", "open_store", "set_fact"]
