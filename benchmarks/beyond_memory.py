"""A set larger than the memory that is allowed: all pairs of a folder of shards, and embedding into one.

    python benchmarks/beyond_memory.py all-pairs [--rows 300000] [--dim 512] [--limit 600] [--far 1e-4]
    python benchmarks/beyond_memory.py embed MODEL [--rows 100000] [--store float32]

Embedding takes images that are drawn as they are read: coloured stripes, quicker than faces.

`--limit` is in MiB. Where a control group for memory can be made (as root, version 1 or 2), the command runs in one: it
counts pages of files too, so that what is read once must be read again. Else its private memory is limited
(RLIMIT_DATA). A row says the most private memory (RssAnon), the most pages of files (RssFile or RssShmem), and what was
read from the disk. The folder of `--folder` needs 4.25 times the bytes of the rows.
"""

import argparse
import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from harness import write

from verisphere.base.vocabulary import Embeddings
from verisphere.files.embeddings import columns_of
from verisphere.files.sharded import write_manifest, write_shard
from verisphere.images import Faces

IMAGES, AT_ONCE = 5, 1 << 15  # images of a person; rows of a shard
GROUPS = (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"), (Path("/sys/fs/cgroup"), "memory.max")


class Stripes(Faces):
    """Images of stripes, the same for the same number."""

    def __init__(self, count: int) -> None:
        self.names = tuple(f"{number // IMAGES}/{number}" for number in range(count))
        self.identities = tuple(str(number // IMAGES) for number in range(count))

    def contents(self, indices: Sequence[int]) -> bytes:
        """The numbers of the images."""
        return str([*indices]).encode()

    def images(self, indices: Sequence[int]) -> torch.Tensor:
        """Rows of pixels drawn by the number of the image."""
        stripes = [np.random.default_rng(number).integers(256, size=(3, 112, 1), dtype=np.uint8) for number in indices]
        return torch.from_numpy(np.repeat(np.stack(stripes), 112, axis=3))


def drawn(folder: Path, rows: int, dim: int) -> None:
    """People with five images each, whose impostor scores spread around 0.1, in shards."""
    random = np.random.default_rng(0)
    apart = 0.35 * random.normal(size=dim).astype(np.float32)
    count = -(-rows // AT_ONCE)
    for number in range(count):
        place = np.arange(number * AT_ONCE, min((number + 1) * AT_ONCE, rows))
        people = place // IMAGES
        first, last = people[0], people[-1]
        centers = np.stack(
            [np.random.default_rng([1, person]).normal(size=dim) for person in range(first, last + 1)]
        ).astype(np.float32)
        some = centers[people - first] + 0.8 * random.normal(size=(len(place), dim)).astype(np.float32) + apart
        write_shard(folder, number, some, columns_of(Embeddings(some, place, people)), 0.0, {})
    write_manifest(folder, dim, "float32", count)


@contextlib.contextmanager
def limited(mebibytes: int) -> Iterator[tuple[str, list[str]]]:
    """How the memory of a command is limited, and the words before the command."""
    for parent, limit in GROUPS:
        group = parent / f"beyond-memory-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / limit).write_text(str(mebibytes << 20))
        except OSError:
            group.rmdir()
            continue
        try:
            yield "control group", ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"]
        finally:
            group.rmdir()
        return
    yield "RLIMIT_DATA", ["sh", "-c", f'ulimit -d {mebibytes << 10} && exec "$@"', "sh"]


def numbers(path: Path) -> dict[str, int]:
    """Lines `name: number` of a file below /proc; none where the process has ended."""
    with contextlib.suppress(OSError):
        words = (line.split() for line in path.read_text().splitlines())
        return {word[0].rstrip(":"): int(word[1]) for word in words if len(word) > 1 and word[1].isdigit()}
    return {}


def measured(case: str, variant: str, command: Sequence[object], items: int, unit: str, limit: int | None) -> None:
    """Run a command, and write a row."""
    with limited(limit) if limit else contextlib.nullcontext(("no limit", list[str]())) as (how, before):
        usage, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.Popen([*before, sys.executable, "-m", "verisphere", *map(str, command)])
        private = files = read = 0
        while process.poll() is None:
            status, io = (numbers(Path(f"/proc/{process.pid}/{name}")) for name in ("status", "io"))
            private, files = max(private, status.get("RssAnon", 0)), max(files, status.get("RssFile", 0))
            files, read = max(files, status.get("RssShmem", 0)), max(read, io.get("read_bytes", 0))
            time.sleep(0.2)
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with {process.returncode}")
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    allowed = f"{limit} MiB allowed ({how})" if limit else how
    extra = f"{allowed}; private {private >> 10} MiB, files {files >> 10} MiB, read from disk {read >> 20} MiB"
    write("beyond_memory", case, variant, wall, cpu, items, unit, 1, extra)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["all-pairs", "embed"])
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--limit", type=int, default=None, metavar="MIB")
    parser.add_argument("--far", action="append")
    parser.add_argument("--screen", default="int8")
    parser.add_argument("--store", default="float32")
    parser.add_argument("--shards", type=int, default=AT_ONCE)
    parser.add_argument("--folder", type=Path, help="where the set and the mapped files lie (the folder of TMPDIR)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as room:
        os.environ["TMPDIR"] = room
        if options.what == "embed":
            faces = Path(room, "stripes.yaml")
            faces.write_text(f"class_path: beyond_memory.Stripes\ninit_args: {{count: {options.rows}}}\n")
            os.environ["PYTHONPATH"] = f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"
            command = ["embed", options.model, faces, "--out", f"{room}/set", "--shards", options.shards]
            command += ["--store", options.store, "--trust-code"]
            case = f"embed {options.rows:,} drawn images in shards of {options.shards:,}"
            measured(case, f"{options.model.name}, {options.store}", command, options.rows, "images", options.limit)
            return
        drawn(Path(room, "set"), options.rows, options.dim)
        fars = options.far or ["1e-4"]
        command = ["evaluate", "all-pairs", f"{room}/set", *(word for far in fars for word in ("--far", far))]
        command += ["--screen", options.screen]
        case = f"all pairs, {options.rows:,} rows, d={options.dim}: {options.rows * options.dim * 4 >> 20} MiB of rows"
        pairs = options.rows * (options.rows - 1) // 2
        measured(
            case, f"verisphere, FAR {', '.join(fars)}, screen {options.screen}", command, pairs, "pairs", options.limit
        )


if __name__ == "__main__":
    main()
