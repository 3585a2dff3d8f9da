"""A set larger than the memory that is allowed: all pairs of a folder of shards, and embedding into one.

    python benchmarks/beyond_memory.py all-pairs [--rows 300000] [--dim 512] [--limit 600] [--far 1e-4] [--store int8]
    python benchmarks/beyond_memory.py all-pairs --rows 1000000 --far 1e-6 --kill-after 500 --kill-after 900
    python benchmarks/beyond_memory.py embed MODEL [--rows 100000] [--store float32]

Embedding takes images that are drawn as they are read: coloured stripes, quicker than faces.

`--kill-after` keeps the pieces in a work folder, ends the process by SIGKILL after as many of its CPU seconds, once for
each time it is named, and starts the command again; the row says how many pieces there are, and counts the CPU seconds
of all starts.

`--limit` is in MiB. Where a control group for memory can be made (as root, version 1 or 2), the command runs in one: it
counts pages of files too, so that what is read once must be read again. Else its private memory is limited
(RLIMIT_DATA). A row says the most private memory (RssAnon), the most pages of files (RssFile or RssShmem), and what was
read from the disk. The folder of `--folder` needs 4.25 times the bytes of the rows.
"""

import argparse
import contextlib
import json
import os
import resource
import signal
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
from verisphere.files.sharded import Store, moved, shortened_rows, widened, write_manifest, write_shard
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


def drawn(folder: Path, rows: int, dim: int, store: Store) -> None:
    """People with five images each, whose impostor scores spread around 0.1, in shards."""
    random = np.random.default_rng(0)
    apart = 0.35 * random.normal(size=dim).astype(np.float32)
    shards = []
    for number in range(-(-rows // AT_ONCE)):
        place = np.arange(number * AT_ONCE, min((number + 1) * AT_ONCE, rows))
        people = place // IMAGES
        first, last = people[0], people[-1]
        centers = np.stack(
            [np.random.default_rng([1, person]).normal(size=dim) for person in range(first, last + 1)]
        ).astype(np.float32)
        some = centers[people - first] + 0.8 * random.normal(size=(len(place), dim)).astype(np.float32) + apart
        kept, units = shortened_rows(some, store)
        stored = widened(kept, units)
        columns = columns_of(Embeddings(stored, place, people)) | ({} if units is None else {"units": units})
        shards.append(write_shard(folder, number, kept, columns, moved(some, stored)))
    write_manifest(folder, dim, store, shards)
    os.sync()
    for path in folder.iterdir():  # pages that this process has written would be read beside the limit
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


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


def watched(process: subprocess.Popen[bytes], most: dict[str, int], kill_after: float) -> int:
    """Wait for a process, or kill it after so many CPU seconds; note the most memory, and return the bytes read."""
    read, ticks = 0, os.sysconf("SC_CLK_TCK")
    while process.poll() is None:
        with contextlib.suppress(OSError):
            times = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
            if sum(map(int, times)) > kill_after * ticks:
                process.kill()
        status, io = (numbers(Path(f"/proc/{process.pid}/{name}")) for name in ("status", "io"))
        for name, fields in (("private", ["RssAnon"]), ("files", ["RssFile", "RssShmem"])):
            most[name] = max(most[name], *(status.get(field, 0) for field in fields))
        read = max(read, io.get("read_bytes", 0))
        time.sleep(0.2)
    return read


def measured(
    case: str,
    variant: str,
    command: Sequence[object],
    items: int,
    unit: str,
    limit: int | None,
    kills: Sequence[float] = (),
    work: Path | None = None,
) -> None:
    """Run a command, killed and started again so often, and write a row."""
    with limited(limit) if limit else contextlib.nullcontext(("no limit", list[str]())) as (how, before):
        usage, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        most, read, kept = {"private": 0, "files": 0}, 0, list[int]()
        for kill_after in (*kills, float("inf")):
            process = subprocess.Popen([*before, sys.executable, "-m", "verisphere", *map(str, command)])
            read += watched(process, most, kill_after)
            kept.append(0 if work is None else len([*work.glob("*/0*[0-9].npz")]))
            print(f"ended with {process.returncode}, {kept[-1]} pieces are kept", flush=True)
            if process.returncode != -signal.SIGKILL:
                break
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with {process.returncode}")
    cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
    allowed = f"{limit} MiB allowed ({how})" if limit else how
    extra = f"{allowed}; private {most['private'] >> 10} MiB, files {most['files'] >> 10} MiB"
    extra += f", read from disk {read >> 20} MiB"
    if work is not None:
        at = " and ".join(map(str, kept[:-1]))
        extra += f"; killed {len(kept) - 1} times, when {at} of {kept[-1]} pieces were kept; the starts are counted"
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
    parser.add_argument("--store", choices=["float32", "float16", "int8"], default="float32")
    parser.add_argument("--shards", type=int, default=AT_ONCE)
    parser.add_argument("--kill-after", type=float, action="append", metavar="SECONDS")
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
        drawn(Path(room, "set"), options.rows, options.dim, options.store)
        fars = options.far or ["1e-4"]
        command = ["evaluate", "all-pairs", f"{room}/set", *(word for far in fars for word in ("--far", far))]
        command += ["--screen", options.screen, "--json", f"{room}/figures.json"]
        work = Path(room, "work") if options.kill_after else None
        command += [] if work is None else ["--work", work]
        case = f"all pairs, {options.rows:,} rows, d={options.dim}: {options.rows * options.dim * 4 >> 20} MiB of rows"
        case += "" if options.store == "float32" else f", stored as {options.store}"
        pairs = options.rows * (options.rows - 1) // 2
        variant = f"verisphere, FAR {', '.join(fars)}, screen {options.screen}"
        measured(case, variant, command, pairs, "pairs", options.limit, options.kill_after or (), work)
        point = json.loads(Path(room, "figures.json").read_text())["operating_points"][0]
        counted = point["genuine_total"] + point["impostor_total"]
        print(point)
        if counted != pairs:
            raise SystemExit(f"{counted:,} pairs are counted, of {pairs:,}")


if __name__ == "__main__":
    main()
