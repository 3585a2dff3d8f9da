"""Cleaning from embeddings alone: LFW beside a loop of scikit-learn's KMeans, and millions of generated rows.

LFW: the sub-centers of 5,749 identities and the angle of each of 13,233 images, from rows in memory. The peer is a loop
over the identities with `sklearn.cluster.KMeans` on rows of length 1 (ten starts, its usual number before version 1.4,
and one), whose centers are divided by their lengths; there is no public spherical k-means for all identities at once.

Generated: 5 million rows of 128 numbers, 50 an identity, in a file; one where the rows of an identity lie together, and
one in which all are mixed. What is measured is a process that finds the sub-centers, applies the rule of 75 degrees and
writes kept.txt and clean.json: wall and CPU seconds, and the peak of its resident set, Python (0.25 GB) included. The
file itself has 2.56 GB of numbers and 0.4 GB of names and identities.

`python benchmarks/cleaning.py [--rows N] [--rounds R] [--data FOLDER] [--folder FOLDER]`; without lfw_embeddings.npz in
the folder of the data the first part is skipped.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import compare, write

from verisphere.files.embeddings import read_embeddings
from verisphere.study.clean.cleaning import Cleaning
from verisphere.study.clean.from_embeddings import Finder, found_in_embeddings
from verisphere.study.clean.rules import Rule
from verisphere.study.clean.spherical_k_means import unit_rows

SIZE, IMAGES = 128, 50


def lfw(path: Path, rounds: int) -> None:
    from sklearn.cluster import KMeans

    embeddings = read_embeddings(path)
    rows = unit_rows(embeddings.embeddings)
    people, labels = np.unique(embeddings.identities, return_inverse=True)

    def ours() -> None:
        Finder(sub_centers=3).sub_classes(rows, labels, len(people))

    def loop(starts: int) -> None:
        for person in range(len(people)):
            own = rows[labels == person]
            centers = KMeans(min(3, len(own)), n_init=starts, random_state=0).fit(own).cluster_centers_
            cosines = own @ unit_rows(centers).T
            votes = np.bincount(cosines.argmax(axis=1))
            np.degrees(np.arccos(np.clip(cosines[:, votes.argmax()], -1, 1)))

    compare(
        "cleaning",
        f"LFW, {len(rows):,} x {SIZE}, K = 3",
        {"ours": ours, "KMeans, 1 start": lambda: loop(1), "KMeans, 10 starts": lambda: loop(10)},
        len(rows),
        "rows",
        rounds,
    )


def write_file(path: Path, rows: int, mixed: bool) -> None:
    """Identities of 50 rows, one in five of them of another direction; in a memory map, so that it is never held."""
    random = np.random.default_rng(0)
    person = np.arange(rows) // IMAGES
    if mixed:
        person = random.permutation(person)
    numbers = path.with_suffix(".npy")
    embeddings = np.lib.format.open_memmap(numbers, "w+", np.float32, (rows, SIZE))
    centers = random.standard_normal((int(person.max()) + 1, SIZE), dtype=np.float32)
    for start in range(0, rows, 1 << 16):
        part = slice(start, min(start + (1 << 16), rows))
        noise = random.standard_normal((part.stop - start, SIZE), dtype=np.float32)
        wrong = random.random((part.stop - start, 1)) < 0.2
        embeddings[part] = np.where(wrong, 0, centers[person[part]]) + noise
    embeddings.flush()
    names = np.char.add("i", np.arange(rows).astype("U8"))
    identities = np.char.add("p", person.astype("U7"))
    np.savez(path, embeddings=embeddings, names=names, identities=identities)
    numbers.unlink()


def clean(path: Path, out: Path) -> None:
    start = time.perf_counter()
    found = found_in_embeddings(path)
    print(f"  found in {time.perf_counter() - start:.1f} s", flush=True)
    Cleaning.by(Rule(), found).write(out)
    print(f"  written after {time.perf_counter() - start:.1f} s", flush=True)


def measure(*arguments: object) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, and bytes at the peak of one call of this file."""
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen([sys.executable, __file__, *map(str, arguments)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4]), usage.ru_maxrss * 1024.0


def generated(folder: Path, rows: int) -> None:
    for mixed, order in ((False, "in order"), (True, "mixed")):
        path = folder / f"{rows}-{order.replace(' ', '-')}.npz"
        if not path.is_file():
            measure("--write", path, "--rows", rows, *(["--mixed"] if mixed else []))
        wall, cpu, memory = measure("--clean", path, "--folder", folder)
        notes = f"peak {memory / 1e6:.0f} MB"
        case = f"{rows:,} x {SIZE}, {rows // IMAGES:,} identities, K = 3, files written"
        write("cleaning", case, order, wall, cpu, rows, "rows", 1, notes)
        print(f"{'':14s} {notes}", flush=True)
        path.unlink()  # 3 GB


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=3, help="of LFW; the generated rows are cleaned once")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--folder", type=Path, help="where the files are written; without it a temporary folder")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mixed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--clean", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write_file(options.write, options.rows, options.mixed)
    elif options.clean:
        clean(options.clean, options.folder / "cleaned")
    else:
        if (options.data / "lfw_embeddings.npz").is_file():
            lfw(options.data / "lfw_embeddings.npz", options.rounds)
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            generated(Path(folder), options.rows)


if __name__ == "__main__":
    main()
