"""Embedding into a folder of shards: in memory that does not grow with the rows, and continued after any stop."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from verisphere import __version__
from verisphere.base.collectives import on_every_rank, on_first_rank
from verisphere.base.device import device_of
from verisphere.base.distributed import ALONE, world
from verisphere.base.identity import decided, settled
from verisphere.base.vocabulary import Embeddings, Progress, quietly
from verisphere.base.work import PartEnded
from verisphere.files.embeddings import columns_of
from verisphere.files.errors import errors_naming
from verisphere.files.sharded import (
    MANIFEST,
    Manifest,
    Store,
    about_shard,
    is_written,
    moved,
    read_manifest,
    shortened_rows,
    widened,
    write_manifest,
    write_shard,
)
from verisphere.files.work import changed_values, digest_of, refuse_other, result_folder
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

    The ranks of a joined group divide the shards that are missing. A shard has whole batches, so its rows are those of
    `embed` for the whole set.

    Args:
        model: the model.
        faces: the images.
        images: the path of the images, for the origin.
        out: the folder.
        rows: rows of a shard, rounded up to whole batches; None for the default.
        store: type of the stored numbers.
        how: flip, batch_size, workers and precision, as `embed` takes them.
        progress: reports the progress over the shards.
        part: number of this part, from 0, and number of parts, whose shards alone are computed; parts do not know of
            each other, and the one that finds all shards there writes the manifest.
        merge: refuse to compute a shard.

    Raises:
        PartEnded: the shards of the part are there, and others are missing.
    """
    rows, batch = ROWS if rows is None else rows, max(how["batch_size"], 1)  # `embed` refuses a wrong batch size
    if rows < 1:
        raise ValueError(f"--shards is {rows}; a shard has 1 row or more")
    rows = -(-rows // batch) * batch
    names, identities = np.array(faces.names), np.array(faces.identities)
    rule = decided(faces.names_rule)
    with errors_naming(images):
        (people,) = settled([("", names, identities)], rule)
    count, domains = -(-len(faces) // rows), None if faces.domains is None else np.array(faces.domains)
    options = {name: str(value) for name, value in how.items() if name != "workers"}
    options |= {"verisphere": __version__, "torch": torch.__version__, "device": device_of(model.backbone).type}
    source = {"path": images, **asdict(faces.source)} if model.sha256 else None  # of the origin, which a set has once
    made_by, source = json.loads(json.dumps([model.made_by, source]))  # as they are read from a shard
    known = {"model": made_by, "images": digest_of([names, identities, domains]), "source": source, "names": rule}
    about = {**known, "rows": rows, "store": store, **options}

    def images_of(number: int) -> range:
        return range(number * rows, min((number + 1) * rows, len(faces)))

    def about_images(number: int) -> dict[str, Any]:
        with errors_naming(images):
            return about | {"contents": faces.contents(images_of(number)).hex()}

    def missing_shards() -> str:
        return json.dumps([number for number in range(count) if not is_written(out, number)])

    def check(numbers: Sequence[int]) -> None:
        for number in numbers:
            changed = changed_values("the embedding", about_shard(out, number), about_images(number))
            refuse_other(out, "embedding", changed)

    def write(number: int) -> None:
        part = images_of(number)
        embedded = embed(model, faces.select(part), images, **how, here=ALONE)
        place = slice(part.start, part.stop)
        kept, units = shortened_rows(embedded.embeddings, store)
        stored = widened(kept, units)
        spelled = frozenset(people[place].tolist())
        # what readers read is checked before it is written
        checked: Embeddings = replace(embedded, embeddings=stored, identities=people[place], spelled=spelled)
        columns = columns_of(checked) | ({} if units is None else {"units": units})
        write_shard(out, number, kept, columns, moved(embedded.embeddings, stored), about_images(number))

    def write_each(numbers: Sequence[int]) -> None:
        for number in numbers:
            write(number)

    def finish() -> str:
        write_manifest(out, model.backbone.embedding_size, store, count)
        return ""

    with result_folder(out, alone=part is None):
        here, missing = world(), [int(number) for number in json.loads(on_first_rank(missing_shards))]
        written = sorted({*range(count)} - {*missing})
        on_every_rank(lambda: check(written[here.rank :: here.size]))
        if part is not None:
            missing = [number for number in missing if number % part[1] == part[0]]
        elif merge and missing:
            raise ValueError(f"{out}: {len(missing)} of {count} shards are missing; run the parts that embed them")
        turns = [missing[turn : turn + here.size] for turn in range(0, len(missing), here.size)]
        done = count - len(missing)
        for turn in progress(turns, "embedding shards", len(turns) + done, done):
            on_every_rank(partial(write_each, turn[here.rank : here.rank + 1]))
        if part is not None and (others := json.loads(on_first_rank(missing_shards))):
            raise PartEnded(
                f"part {part[0] + 1}/{part[1]} is embedded: {count - len(others)} of {count} shards are in {out}; the "
                "part that embeds the last one, or --merge, writes the manifest"
            )
        on_first_rank(finish)
    return read_manifest(out / MANIFEST)
