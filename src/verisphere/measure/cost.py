"""What a measuring command would take of a set: pieces, pairs, bytes, CPU time, memory, and what ends first."""

import math
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import torch

from verisphere.base.device import memory_of
from verisphere.base.vocabulary import Progress
from verisphere.base.words import printable
from verisphere.base.work import About, Arrays, Compute
from verisphere.decide import Far, exact_rate
from verisphere.files.npz import header_in_npz, read_npz
from verisphere.files.results import Result
from verisphere.files.sharded import manifest_of, read_manifest
from verisphere.files.streamed_rows import ENDING, is_features, open_templates
from verisphere.files.vectors import is_table
from verisphere.measure.protocols.listed_pairs import SCORED_TOGETHER
from verisphere.measure.sides import ONE_WAY
from verisphere.score.exact.limits import LEAST_PIECES, PAIRS_A_PIECE

Kind: TypeAlias = Literal[
    "all-pairs",
    "cluster",
    "distractors",
    "duplicates",
    "gallery",
    "identification",
    "ijb",
    "overlap",
    "pairs",
    "people",
    "report",
    "two-sets",
]


def _two(count: int) -> int:
    return count * (count - 1) // 2


#: Of each command pairs a CPU second of one core at 512 numbers a row, medians of benchmarks/results.csv (all_pairs,
#: clusters, distractors), and its pairs by the rows and people of a set and the rows of galleries or distractors.
COMMANDS: Mapping[Kind, tuple[float, Callable[[int, int, int], int]]] = {
    "all-pairs": (1.68e8, lambda rows, people, others: _two(rows)),
    "cluster": (1.4e8, lambda rows, people, others: _two(rows)),
    "distractors": (4.86e7, lambda rows, people, others: rows * others),
    "duplicates": (1.4e8, lambda rows, people, others: _two(rows) + _two(people)),
    "gallery": (1.69e8, lambda rows, people, others: people * others),
    "identification": (1.69e8, lambda rows, people, others: rows * (others or people)),
    "ijb": (1.69e8, lambda rows, people, others: 0),
    "overlap": (1.4e8, lambda rows, people, others: 2 * people * others),  # images, and no more people
    "pairs": (1.69e8, lambda rows, people, others: 0),
    "people": (1.4e8, lambda rows, people, others: _two(people)),
    "report": (1.68e8, lambda rows, people, others: _two(rows)),
    "two-sets": (1.68e8, lambda rows, people, others: rows * others),
}
#: CPU seconds of the linkage of a face, and of reading and comparing a listed pair (ijb; a CSV of 932,374 pairs).
EACH: Mapping[Kind, float] = {"cluster": 3.3e-4, "ijb": 7.2e-7, "pairs": 9.4e-6}
_AT_A_HIGH_FAR, _HIGH_FAR = 4.4e7, 5e-3  # of all pairs where a FAR is higher than this
_HELD = 3.25  # times the bytes of the rows: as read, at length 1, in the order of tiles, and in int8
_PROGRAM, _OF_A_ROW = 500_000_000, 600  # bytes of memory: of the program; of names of 20 letters while they are read
_OF_A_TREE = 6_600  # bytes of memory for each face of a tree, files written (clusters)


@dataclass(frozen=True)
class Cost(Result):
    """What a command would take.

    Attributes:
        rows: rows; 0 for a set of images.
        pieces: pieces that processes divide, about.
        pairs: pairs that would be compared, at most.
        bytes: bytes of the rows that are read, or of the pieces of images that are kept.
        memory: bytes of memory of one process.
        mapped: bytes of mapped files in the folder of temporary files.
        uncounted: steps of the command that these figures do not count.
    """

    source: str
    rows: int
    dim: int
    pieces: int
    pairs: int
    bytes: int
    cpu_hours: float
    memory: int
    mapped: int
    rate: str
    uncounted: str = ""

    def text(self) -> str:
        """The figures, a line each."""
        mapped = f", and {self.mapped / 1e9:.3g} GB of mapped files (TMPDIR)" if self.mapped else ""
        pairs = f"pairs    {self.pairs:,} at most\n" if self.pairs else ""
        besides = f"; without {self.uncounted}" if self.uncounted else ""
        rows = f"{self.rows:,} rows of {self.dim} numbers; nothing" if self.rows else "nothing more"
        return (
            f"{printable(self.source)}: {rows} was computed\npieces   about {self.pieces:,}\n{pairs}"
            f"bytes    {self.bytes / 1e9:.3g} GB\nCPU      {self._time()} of one core, {self.rate}{besides}\n"
            f"memory   {self.memory / 1e9:.3g} GB a process{mapped}\nfirst    {self._first()}"
        )

    def _time(self) -> str:
        hours = self.cpu_hours
        return f"{hours:.3g} hours" if hours >= 1 else f"{max(3600 * hours, 0.01):.2g} s"

    def _first(self) -> str:
        """What ends first on this machine."""
        memory, disk = memory_of(torch.device("cpu")), shutil.disk_usage(tempfile.gettempdir()).free
        if self.memory > memory:
            return f"memory ends: {memory / 1e9:.3g} GB are free here"
        if self.mapped > disk:
            return f"the disk ends: {disk / 1e9:.3g} GB are free in {tempfile.gettempdir()} (TMPDIR)"
        return "hours end: memory and disk suffice here"


def cost_of(
    kind: Kind,
    paths: Sequence[Path],
    others: Sequence[Path] = (),
    fars: Sequence[Far] = (),
    passes: int = 1,
    against: Sequence[Path] = (),
    *,
    listed: int = 0,
    products: int = 0,
    held: int | None = None,
    ending: str = ENDING,
) -> Cost:
    """What a command would take of embeddings files, whose rows are not read.

    `listed` pairs are read from lists, and `products` are further pairs, of templates.
    """
    named = {path: _size(path, ending) for path in (*paths, *others, *against)}
    dim, enrolled = named[paths[0]][1], sum(named[path][0] for path in others)
    if kind != "report" and (wrong := [path for path in (*paths, *others) if named[path][1] != dim]):
        raise ValueError(f"{wrong[0]}: {named[wrong[0]][1]} numbers a row, but {paths[0]} has {dim}; {ONE_WAY}")
    rate, pairs_of = COMMANDS[kind]
    if kind in ("all-pairs", "report", "two-sets") and any(exact_rate(far) > _HIGH_FAR for far in fars):
        rate = _AT_A_HIGH_FAR
    sets = [[path] for path in paths] if kind == "report" else [paths]
    counts = [(sum(named[path][0] for path in some), sum(named[path][2] for path in some)) for some in sets]
    rows = sum(count for count, _ in counts)
    if kind == "all-pairs" and (lacking := [path for path in against if named[path][0] < rows]):
        raise ValueError(f"{lacking[0]}: {named[lacking[0]][0]} rows, but it must have the {rows} of {paths[0]}")
    pairs = [pairs_of(*count, enrolled) * passes + products for count in counts]
    dims = [sum(named[path][1] for path in (some[0], *against)) for some in sets]
    compared = sum(pairs) * (1 + len(against)) + listed * (1 + len(against))
    seconds = sum(count * length for count, length in zip(pairs, dims, strict=True)) / 512 / rate
    seconds += EACH.get(kind, 0) * (rows if kind == "cluster" else listed)
    every, sharded = [*named.values()], any(manifest_of(path) is not None for path in named)
    held = rows if kind == "distractors" else held
    numbers = sum(size[0] * size[1] for size in every) if held is None else held * dim
    together = math.ceil(_HELD * 4 * numbers)
    of_rows = _PROGRAM + _OF_A_ROW * sum(size[0] for size in every) + _OF_A_TREE * rows * (kind == "cluster")
    words = f"at {compared / max(seconds, 1e-9):.2g} pairs a second, as measured (docs/scale.md); another CPU differs"
    memory = (of_rows, together) if sharded else (of_rows + together, 0)
    title, read = ", ".join(map(str, named)), sum(size[3] for size in every)
    steps = passes * len(sets)
    pieces = steps * max(LEAST_PIECES, -(-compared // (steps * PAIRS_A_PIECE)))
    pieces = -(-listed // SCORED_TOGETHER) if kind == "pairs" else pieces
    return Cost(title, rows, dim, pieces, compared, read, seconds / 3600, *memory, words)


class NotComputed(ValueError):
    """The results of a step that is only timed."""

    text = "only the first piece was computed"


class FirstPieces:
    """A `Work` that computes the first piece of each step alone, and raises `NotComputed` for the results."""

    def __init__(self) -> None:
        self.pieces, self.bytes, self.cpu, self.wall = 0, 0, 0.0, 0.0

    def __call__(
        self, step: str, about: About, pieces: int, compute: Compute, progress: Progress, title: str
    ) -> Iterable[Arrays]:
        """Compute the first piece twice, since the first time allocates, and count all as the second one."""
        for _ in range(2):
            began = time.perf_counter(), time.process_time()
            (piece,) = compute([0])
        self.wall += pieces * (time.perf_counter() - began[0])
        self.cpu += pieces * max(time.process_time() - began[1], 1e-9)
        self.bytes += pieces * sum(array.nbytes for array in piece.values())
        self.pieces += pieces
        raise NotComputed(NotComputed.text)

    def cost(self, source: str, held: bool) -> Cost:
        """What the work on a set of images would take, whose results are held at once, or not."""
        words = f"by the first of the pieces, which would take {self.wall / 60:.3g} minutes on this device"
        memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + held * self.bytes
        return Cost(source, 0, 0, self.pieces, 0, self.bytes, self.cpu / 3600, memory, 0, words)


def _size(path: Path, ending: str) -> tuple[int, int, int, int]:
    """Rows, numbers in a row, people, and bytes of the rows, from headers and identities."""
    manifest = manifest_of(path)
    if manifest is not None:
        stated = read_manifest(manifest)
        files = [manifest.parent / f"{shard.name}.npz" for shard in stated.shards]
        people = np.concatenate([read_npz(file, ("identities",))["identities"] for file in files])
        width = np.dtype(stated.store).itemsize
        return stated.rows, stated.dim, len(np.unique(people)), stated.rows * stated.dim * width
    if is_features(path) or is_table(path):
        opened = open_templates(path, ending=ending)
        people = np.arange(len(opened)) if opened.identities is None else opened.identities
        return len(opened), opened.dim, len(np.unique(people)), 4 * len(opened) * opened.dim
    shape, dtype = header_in_npz(path, "embeddings")
    if len(shape) != 2 or not math.prod(shape):
        raise ValueError(f"{path}: embeddings have the shape {shape}; a set has rows and numbers")
    people = read_npz(path, ("identities",)).get("identities", np.arange(shape[0]))
    return shape[0], shape[1], len(np.unique(people)), math.prod(shape) * dtype.itemsize
