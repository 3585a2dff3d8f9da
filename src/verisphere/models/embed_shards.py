"""Embedding into a folder of shards: in memory that does not grow with the rows, and continued after any stop."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from verisphere.base.collectives import on_first_rank
from verisphere.base.device import device_of
from verisphere.base.identity import decided, settled
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.base.work import Arrays, ranges, results, working
from verisphere.files.embeddings import columns_of
from verisphere.files.errors import errors_naming
from verisphere.files.sharded import (
    MANIFEST,
    Manifest,
    Store,
    moved,
    read_manifest,
    shortened_rows,
    widened,
    write_manifest,
    write_shard,
)
from verisphere.files.work import WorkFolder, result_folder
from verisphere.images.faces import Faces
from verisphere.models.embed import EmbeddingModel, embed

ROWS = 1 << 15  # of a shard


def embed_in_shards(
    model: EmbeddingModel,
    faces: Faces,
    images: str,
    out: Path,
    rows: int | None,
    store: Store,
    how: Mapping[str, Any],
    progress: Progress = quietly,
    part: tuple[int, int] | None = None,
    merge: bool = False,
) -> Manifest:
    """Embed images into a folder of shards, and write its manifest last.

    Shards are pieces of work, which the ranks of a joined group divide. A shard has whole batches, so its rows are
    those of `embed` for the whole set, which has the options `how`. Images have a path, for the origin; a part, and
    `merge`, are those of a `WorkFolder`.
    """
    rows, batch = ROWS if rows is None else rows, max(how["batch_size"], 1)  # `embed` refuses a wrong batch size
    if rows < 1:
        raise ValueError(f"--shards is {rows}; a shard has 1 row or more")
    rows = -(-rows // batch) * batch
    names, identities = np.array(faces.names), np.array(faces.identities)
    rule = decided(faces.names_rule)
    with errors_naming(images):
        (people,) = settled([("", names, identities)], rule)
    domains = None if faces.domains is None else np.array(faces.domains)
    settings = [*(str(value) for name, value in how.items() if name != "workers"), device_of(model.backbone).type]
    source = {"path": images, **asdict(faces.source)} if model.sha256 else None  # of the origin, which a set has once

    def about() -> list[object]:
        with errors_naming(images):
            contents = faces.contents(range(len(faces))).hex()
        settled_by = [model.made_by, source, rule, rows, store, settings]
        return [names, identities, *([] if domains is None else [domains]), contents, settled_by]

    def write(piece: range) -> Arrays:
        place = slice(piece.start, piece.stop)
        embedded = embed(model, faces.select(piece), images, **how)
        kept, units = shortened_rows(embedded.embeddings, store)
        stored = widened(kept, units)
        spelled = frozenset(people[place].tolist())
        # what readers read is checked before it is written
        checked: Embeddings = replace(embedded, embeddings=stored, identities=people[place], spelled=spelled)
        columns = columns_of(checked) | ({} if units is None else {"units": units})
        return write_shard(out, piece.start // rows, kept, columns, moved(embedded.embeddings, stored))

    task, pieces = f"{images}, {rows} rows a shard in {store}", ranges(len(faces), rows)
    with result_folder(out, alone=part is None) as work, WorkFolder(work, task, part, merge) as folder, working(folder):
        shards = [*results("shards", about, pieces, partial(map, write), progress, "embedding shards")]
        on_first_rank(lambda: write_manifest(out, model.backbone.embedding_size, store, shards))
    return read_manifest(out / MANIFEST)
