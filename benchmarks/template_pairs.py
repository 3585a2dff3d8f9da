"""TAR at six FARs over a list of 15.7 million template pairs of IJB-C's shape: ours and gather + roc_curve.

IJB-C compares 3,531 gallery templates with 19,593 probe templates: 19,557 genuine and 15,638,932 impostor pairs. The
embeddings are made up (512 numbers, scores of impostors about 0 +- 0.044), the list is as long as the real one. What is
timed begins with unit rows and the list's row numbers in memory and ends with the table: reading files is not in it.

Every measurement is a process of its own, since memory is counted; the processes take turns. Memory is the peak of the
resident set, less what it was with rows and list loaded. Peers hold the rows as float32, or as float64 as InsightFace's
evaluation of IJB does. glibc keeps freed memory for everyone, which spares the peers most of their page faults;
`--allocator default` leaves glibc as whoever does not know of it has it.

"With pooling" begins with the 469,375 rows of IJB-C's faces in memory, each a template's row at a made-up length, and
their templates, media and detector scores; what it pools has the directions of the rows that the others begin with.

`python benchmarks/template_pairs.py [--rounds R] [--only NAME ...] [--allocator default]`
"""

import argparse
import ctypes
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from harness import write

from head import keep_everything, peak, reset_peak

if TYPE_CHECKING:
    from verisphere.score.templates import Membership

GALLERY, PROBES, SIZE = 3_531, 19_593, 512
GENUINE, IMPOSTORS = 19_557, 15_638_932
FACES = 469_375
FARS = ("1e-1", "1e-2", "1e-3", "1e-4", "1e-5", "1e-6")
BATCH = 100_000  # pairs that the peers gather at once
List = tuple[np.ndarray, np.ndarray, np.ndarray]  # left row, right row, genuine
Table = Callable[[np.ndarray, List], Callable[[], list[float]]]


def made_up() -> tuple[np.ndarray, List]:
    """Unit rows, gallery first, and the list, ascending by gallery template."""
    random = np.random.default_rng(0)
    people = random.normal(size=(GALLERY, SIZE)).astype(np.float32)
    person = random.integers(0, GALLERY, PROBES)
    blur = random.uniform(1, 4, (PROBES, 1)).astype(np.float32)  # clear and poor probes, so that TAR is not 1
    gallery = people + random.normal(size=people.shape).astype(np.float32)
    rows = np.concatenate([gallery, people[person] + blur * random.normal(size=(PROBES, SIZE)).astype(np.float32)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    grid = np.ones((GALLERY, PROBES), bool)
    grid[person, np.arange(PROBES)] = False
    left, right = np.divmod(np.flatnonzero(grid), PROBES)
    chosen = np.sort(random.permutation(len(left))[:IMPOSTORS])
    left = np.concatenate([left[chosen], person[:GENUINE]])
    right = np.concatenate([right[chosen], np.arange(GENUINE)])
    order = np.argsort(left * PROBES + right)
    return rows, (left[order], GALLERY + right[order], order >= IMPOSTORS)


def any_two(pairs: List) -> List:
    """As many pairs of any two of all templates, in any order: it picks 6 % of its products, IJB-C's list 23 %."""
    random = np.random.default_rng(1)
    left, right = random.integers(0, GALLERY + PROBES, (2, len(pairs[0])))
    return left, right, pairs[2]


def shuffled(pairs: List) -> List:
    order = np.random.default_rng(2).permutation(len(pairs[0]))
    left, right, genuine = (column[order] for column in pairs)
    return left, right, genuine


def as_listed(pairs: List) -> List:
    return pairs


def ours(rows: np.ndarray, pairs: List) -> Callable[[], list[float]]:
    from verisphere.decide import accepted_impostors, operating_point
    from verisphere.score.listed import ListedPairs

    units, (left, right, genuine) = torch.from_numpy(rows), pairs

    def table() -> list[float]:
        listed = ListedPairs(units, left, right, genuine)
        mated, impostor = listed.scores(genuine=True), listed.scores(genuine=False)
        impostor.prepare(accepted_impostors(far, impostor.total) + 1 for far in FARS)
        return [operating_point(mated, impostor, far).tar for far in FARS]

    return table


def pooled(rows: np.ndarray, pairs: List) -> Callable[[], list[float]]:
    from verisphere.score import unit_rows
    from verisphere.score.templates import pool_rows

    faces, membership = made_up_faces(rows)

    def table() -> list[float]:
        templates = pool_rows([faces], membership, len(rows))
        return ours(unit_rows(templates).numpy(), pairs)()

    return table


def made_up_faces(rows: np.ndarray) -> "tuple[np.ndarray, Membership]":
    """Faces of one to hundreds a template, two or three a medium, those of a template together, as IJB-C lists them."""
    from verisphere.score.templates import Membership

    random = np.random.default_rng(3)
    share = random.exponential(size=len(rows)) ** 2
    drawn = random.choice(len(rows), FACES - len(rows), p=share / share.sum())
    template = np.repeat(np.arange(len(rows)), 1 + np.bincount(drawn, minlength=len(rows)))
    faces = np.take(rows, template, axis=0)
    faces *= random.uniform(5, 30, (FACES, 1)).astype(np.float32)
    medium = np.cumsum(random.random(FACES) < 0.4)
    return faces, Membership(np.arange(FACES), template, medium, random.uniform(0.3, 1, FACES))


def gathered(dtype: type):
    """Gather both sides, multiply, sum; then the whole curve, and TAR read off it."""

    def build(rows: np.ndarray, pairs: List) -> Callable[[], list[float]]:
        from sklearn.metrics import roc_curve

        held, (left, right, genuine) = rows.astype(dtype), pairs

        def table() -> list[float]:
            score = np.zeros(len(left))
            for start in range(0, len(left), BATCH):
                part = slice(start, start + BATCH)
                score[part] = np.sum(held[left[part]] * held[right[part]], -1)
            far, tar, _ = roc_curve(genuine, score)
            return [float(tar[np.flatnonzero(far <= float(target))[-1]]) for target in FARS]

        return table

    return build


def products(rows: np.ndarray, pairs: List) -> Callable[[], list[float]]:
    """Nothing but the products of gallery and probes, in strips as ours makes them."""
    low = torch.from_numpy(rows).bfloat16()
    strip = 256
    room = torch.empty(strip, PROBES, dtype=torch.bfloat16)

    def table() -> list[float]:
        for start in range(0, GALLERY, strip):
            some = low[start : min(start + strip, GALLERY)]
            torch.mm(some, low[GALLERY:].T, out=room[: len(some)])
        return []

    return table


VARIANTS: dict[str, tuple[Table, Callable[[List], List]]] = {
    "roof: bf16 products of both sides": (products, as_listed),
    "verisphere": (ours, as_listed),
    "verisphere, with pooling": (pooled, as_listed),
    "verisphere, list shuffled": (ours, shuffled),
    "verisphere, any two templates": (ours, any_two),
    "numpy gather float32 + roc_curve": (gathered(np.float32), as_listed),
    "numpy gather float64 + roc_curve": (gathered(np.float64), as_listed),
}


def measure(name: str, folder: Path, keep: bool) -> dict[str, object]:
    """In a fresh process: seconds, bytes at the peak, and the TARs found."""
    if keep:
        keep_everything()
    build, order = VARIANTS[name]
    rows = np.load(folder / "rows.npy")
    left, right, genuine = order(tuple(np.load(folder / f"{column}.npy") for column in ("left", "right", "genuine")))
    run = build(rows, (left, right, genuine))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = reset_peak()
    run()  # not timed: loads and compiles what it needs, and finds its memory
    memory = peak() - before
    clocks = time.perf_counter(), time.process_time()
    tars = run()
    wall, cpu = time.perf_counter() - clocks[0], time.process_time() - clocks[1]
    return {"wall": wall, "cpu": cpu, "memory": memory, "tars": tars}


def compare(names: list[str], folder: Path, rounds: int, allocator: str) -> None:
    """Measure the variants in turn, print and write a row for each."""
    found: dict[str, list[dict]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            command = [sys.executable, __file__, "--child", name, "--folder", str(folder), "--allocator", allocator]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    case = f"IJB-C's shape, d={SIZE}" + (", glibc's own allocator" if allocator == "default" else "")
    typical = {
        name: {key: statistics.median(one[key] for one in runs) for key in ("wall", "cpu", "memory")}
        for name, runs in found.items()
    }
    for name, runs in found.items():
        notes = f"peak {typical[name]['memory'] / 1e6:.0f} MB"
        if "pooling" in name and "verisphere" in found:
            agree(found["verisphere"][0]["tars"], runs[0]["tars"])
            wall, cpu = (typical[name][key] / typical["verisphere"][key] for key in ("wall", "cpu"))
            notes += f"; takes {wall:.2f} x the time without pooling ({cpu:.2f} x its CPU time)"
        if "numpy" in name and "verisphere" in found:
            agree(found["verisphere"][0]["tars"], runs[0]["tars"])
            wall, cpu, memory = (typical[name][key] / typical["verisphere"][key] for key in ("wall", "cpu", "memory"))
            notes += f"; takes {wall:.0f} x our time ({cpu:.0f} x our CPU time) and {memory:.1f} x our memory"
        pairs = GENUINE + IMPOSTORS
        write("template_pairs", case, name, typical[name]["wall"], typical[name]["cpu"], pairs, "pairs", rounds, notes)
        print(f"{'':14s} {notes}", flush=True)
    if "verisphere" in found:
        print(f"{'':14s} TAR at {', '.join(FARS)}: {found['verisphere'][0]['tars']}")


def agree(ours: list[float], theirs: list[float]) -> None:
    """Rounding of a score by a peer may carry a genuine pair across a threshold, but hardly more than that."""
    assert all(abs(a - b) * GENUINE <= 2 for a, b in zip(ours, theirs, strict=True)), (ours, theirs)


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="variants, by name")
    parser.add_argument("--allocator", choices=["keep", "default"], default="keep", help="what glibc does (see above)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(measure(options.child, options.folder, options.allocator == "keep")))
        return
    with tempfile.TemporaryDirectory() as folder:
        rows, pairs = made_up()
        np.save(Path(folder) / "rows.npy", rows)
        for column, values in zip(("left", "right", "genuine"), pairs, strict=True):
            np.save(Path(folder) / f"{column}.npy", values)
        del rows, pairs
        compare(options.only, Path(folder), options.rounds, options.allocator)


if __name__ == "__main__":
    main()
