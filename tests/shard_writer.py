"""A folder of shards, written as `embed` writes it."""

from pathlib import Path

import numpy as np

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import columns_of
from verisphere.files.sharded import Store, moved, shortened_rows, widened, write_manifest, write_shard


def written(folder: Path, rows: Embeddings, store: Store = "float32", at_once: int = 4) -> Path:
    shards = []
    for number, start in enumerate(range(0, len(rows), at_once)):
        part = rows.take(np.arange(start, min(start + at_once, len(rows))))
        kept, units = shortened_rows(part.embeddings, store)
        columns = columns_of(part) | ({} if units is None else {"units": units})
        shards.append(write_shard(folder, number, kept, columns, moved(part.embeddings, widened(kept, units))))
    write_manifest(folder, rows.embeddings.shape[1], store, shards)
    return folder
