"""What a measuring command would take of a set: pairs, bytes, CPU time by measured rates, and memory."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch

from verisphere.base.words import printable
from verisphere.decide import Far, exact_rate
from verisphere.files.embeddings import read_embeddings
from verisphere.files.npz import header_in_npz, read_npz
from verisphere.files.results import Result
from verisphere.files.sharded import manifest_of, read_manifest
from verisphere.files.vectors import is_table
from verisphere.measure.sides import ONE_WAY
from verisphere.models.described_faces import open_faces
from verisphere.models.embed import embed, open_model

Kind: TypeAlias = Literal["all-pairs", "gallery", "identification", "duplicates", "people", "cluster"]


def _two(count: int) -> int:
    return count * (count - 1) // 2


#: Of each command pairs a CPU second of one core at 512 numbers a row, medians of benchmarks/results.csv (all_pairs,
#: clusters), and its pairs by the rows and people of a set and the rows of galleries.
COMMANDS: Mapping[Kind, tuple[float, Callable[[int, int, int], int]]] = {
    "all-pairs": (1.68e8, lambda rows, people, enrolled: _two(rows)),
    "gallery": (1.69e8, lambda rows, people, enrolled: people * enrolled),
    "identification": (1.69e8, lambda rows, people, enrolled: rows * (enrolled or people)),
    "duplicates": (1.4e8, lambda rows, people, enrolled: _two(rows) + _two(people)),
    "people": (1.4e8, lambda rows, people, enrolled: _two(people)),
    "cluster": (1.4e8, lambda rows, people, enrolled: _two(rows)),
}
_AT_A_HIGH_FAR, _HIGH_FAR = 4.4e7, 5e-3  # of all pairs where a FAR is higher than this
_LINKAGE = 3.3e-4  # CPU seconds a face
_HELD = 3.25  # times the bytes of the rows: as read, at length 1, in the order of tiles, and in int8
_PROGRAM, _OF_A_ROW = 500_000_000, 600  # bytes of memory: of the program; of names of 20 letters while they are read


@dataclass(frozen=True)
class Cost(Result):
    """What a command would take.

    Attributes:
        source: the set.
        rows: rows, or images.
        dim: numbers in a row.
        pairs: pairs that would be compared, at most.
        read: bytes of rows to read.
        cpu_hours: hours of one core.
        memory: bytes of memory of one process.
        mapped: bytes of mapped files in the folder of temporary files.
        rate: the rate that the hours are by, in words.
    """

    source: str
    rows: int
    dim: int
    pairs: int
    read: int
    cpu_hours: float
    memory: int
    mapped: int
    rate: str

    def text(self) -> str:
        """The figures, a line each."""
        mapped = f", and {self.mapped / 1e9:.3g} GB of mapped files (TMPDIR)" if self.mapped else ""
        pairs = f"pairs    {self.pairs:,} at most\n" if self.pairs else ""
        return (
            f"{printable(self.source)}: {self.rows:,} rows of {self.dim} numbers; nothing was computed\n{pairs}"
            f"read     {self.read / 1e9:.3g} GB\nCPU      {self._time()} of one core, {self.rate}\n"
            f"memory   {self.memory / 1e9:.3g} GB a process{mapped}"
        )

    def _time(self) -> str:
        hours = self.cpu_hours
        return f"{hours:.3g} hours" if hours >= 1 else f"{max(3600 * hours, 0.01):.2g} s"


def cost_of(
    kind: Kind,
    paths: Sequence[Path],
    others: Sequence[Path] = (),
    fars: Sequence[Far] = (),
    passes: int = 1,
    against: Sequence[Path] = (),
) -> Cost:
    """What a command would take of embeddings files, whose rows are not read.

    Args:
        kind: the command.
        paths: embeddings files; several are compared as one set.
        others: embeddings files of galleries, for identification; one that is searched several times, so often.
        fars: target FARs.
        passes: how often the pairs are compared.
        against: embeddings files of other models, whose pairs of the same images are compared as well.

    Raises:
        ValueError: a file of a gallery has rows of another length, or one of another model fewer rows.
    """
    named = {path: _size(path) for path in (*paths, *others, *against)}
    sizes, further = [named[path] for path in paths], [named[path] for path in others]
    rows, people = (sum(size[place] for size in sizes) for place in (0, 2))
    dim, enrolled = sizes[0][1], sum(size[0] for size in further)
    if wrong := [path for path in (*paths, *others) if named[path][1] != dim]:
        raise ValueError(f"{wrong[0]}: {named[wrong[0]][1]} numbers a row, but {paths[0]} has {dim}; {ONE_WAY}")
    if lacking := [path for path in against if named[path][0] < rows]:
        raise ValueError(f"{lacking[0]}: {named[lacking[0]][0]} rows, but it must have the {rows} of {paths[0]}")
    rate, pairs_of = COMMANDS[kind]
    if kind == "all-pairs" and any(exact_rate(far) > _HIGH_FAR for far in fars):
        rate = _AT_A_HIGH_FAR
    pairs = pairs_of(rows, people, enrolled) * passes
    dims = [dim, *(named[path][1] for path in against)]
    seconds = pairs * sum(dims) / 512 / rate + (_LINKAGE * rows if kind == "cluster" else 0)
    every, sharded = [*named.values()], any(manifest_of(path) is not None for path in named)
    held = sum(math.ceil(_HELD * 4 * size[0] * size[1]) for size in every)
    of_rows = _PROGRAM + _OF_A_ROW * sum(size[0] for size in every)
    words = f"at {rate * 512 / dim:.2g} pairs a second, as measured (docs/scale.md); another CPU differs"
    read = sum(size[3] for size in every)
    title = ", ".join(map(str, named))
    memory = (of_rows, held) if sharded else (of_rows + held, 0)
    return Cost(title, rows, dim, pairs * len(dims), read, seconds / 3600, *memory, words)


def cost_of_embedding(
    model: Path,
    faces: Path,
    device: torch.device,
    *,
    people: Path | None = None,
    flip: bool | None = None,
    batch_size: int = 128,
    precision: torch.dtype = torch.float32,
    trust: bool = False,
) -> Cost:
    """What embedding a set would take, by the time of one batch of its images, which is embedded and dropped."""
    opened = open_model(model, device, trust)
    images = open_faces(faces, people, opened.backbone.input_size, trust)
    some = images.select(range(min(max(batch_size, 1), len(images))))
    for _ in range(2):  # the first batch allocates
        began = time.perf_counter(), time.process_time()
        embed(opened, some, str(faces), flip=flip, batch_size=batch_size, precision=precision)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    hours, dim = max(cpu, 1e-9) / len(some) * len(images) / 3600, opened.backbone.embedding_size
    words = f"by {len(some)} images in {cpu:.3g} CPU seconds and {wall:.3g} seconds on {device}, decoding included"
    memory = _PROGRAM + 4 * dim * len(images) + _OF_A_ROW * len(images)
    return Cost(str(faces), len(images), dim, 0, 4 * dim * len(images), hours, memory, 0, words)


def _size(path: Path) -> tuple[int, int, int, int]:
    """Rows, numbers in a row, people, and bytes of the rows, from headers and identities."""
    manifest = manifest_of(path)
    if manifest is not None:
        stated = read_manifest(manifest)
        files = [manifest.parent / f"{shard.name}.npz" for shard in stated.shards]
        people = np.concatenate([read_npz(file, ("identities",))["identities"] for file in files])
        width = np.dtype(stated.store).itemsize
        return stated.rows, stated.dim, len(np.unique(people)), stated.rows * stated.dim * width
    if is_table(path):
        read = read_embeddings(path)
        return *read.embeddings.shape, len(np.unique(read.identities)), path.stat().st_size
    shape, dtype = header_in_npz(path, "embeddings")
    if len(shape) != 2:
        raise ValueError(f"{path}: embeddings must be (rows, dim), got {shape}")
    if not math.prod(shape):
        raise ValueError(f"{path}: embeddings have the shape {shape}; a set has rows and numbers")
    people = read_npz(path, ("identities",)).get("identities", np.arange(shape[0]))
    return shape[0], shape[1], len(np.unique(people)), math.prod(shape) * dtype.itemsize
