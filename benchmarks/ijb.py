"""`verisphere evaluate ijb` as a whole on made-up files of IJB-C's size: seconds, and the peak of its memory.

469,375 rows of 512 numbers (an .npz of 1 GB), 23,124 templates, 15,658,489 listed pairs, detector scores, two galleries
and 19,593 probes, covariates; written once by a process of its own. What is measured is the command, from its start to
its exit: reading, checking and digesting every file, pooling, and the figures. Memory is the peak of the resident set,
Python and PyTorch (0.25 GB) included.

`python benchmarks/ijb.py [--rounds R] [--folder FOLDER]`; a folder that is given is kept, and not written again.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import write
from template_pairs import FACES, GALLERY, GENUINE, IMPOSTORS, PROBES, SIZE, made_up

TEMPLATES, LARGEST = GALLERY + PROBES, 187_955  # templates, and the largest of their numbers
FIRST_GALLERY = 1_772
HEADER = "TEMPLATE_ID,SUBJECT_ID,FILENAME,GENDER\n"
ONE_TO_ONE = ("--meta", "meta.txt", "--pairs", "pairs.txt", "--scores", "scores.txt")
ONE_TO_N = ("--gallery", "G1.csv", "--gallery", "G2.csv", "--probes", "mixed.csv")
COMMANDS = {
    "1:1": ONE_TO_ONE,
    "1:1 and 1:N": (*ONE_TO_ONE, *ONE_TO_N),
    "1:1 in two groups, and 1:N": (*ONE_TO_ONE, *ONE_TO_N, "--covariates", "people.csv", "--group-by", "GENDER"),
}


def write_files(folder: Path) -> None:
    """Files as InsightFace's kit lays them out, templates ascending, the faces of a template together."""
    rows, (left, right, genuine) = made_up()
    random = np.random.default_rng(5)
    numbers = np.sort(random.choice(np.arange(1, LARGEST + 1), TEMPLATES, replace=False))
    gallery = np.zeros(TEMPLATES, bool)
    gallery[random.permutation(TEMPLATES)[:GALLERY]] = True
    number = np.concatenate([numbers[gallery], numbers[~gallery]])  # of each row; the list stays ascending
    share = random.exponential(size=TEMPLATES) ** 2
    faces = 1 + np.bincount(random.choice(TEMPLATES, FACES - TEMPLATES, p=share / share.sum()), minlength=TEMPLATES)
    order = np.argsort(number)
    template, medium = np.repeat(order, faces[order]), np.cumsum(random.random(FACES) < 0.4)
    embeddings = np.empty((FACES, SIZE), np.float32)
    for start in range(0, FACES, 1 << 13):
        some = template[start : start + (1 << 13)]
        embeddings[start : start + len(some)] = 20 * rows[some]
        embeddings[start : start + len(some)] += 0.5 * random.standard_normal((len(some), SIZE), dtype=np.float32)
    names = np.array([f"loose_crop/{face + 1}.jpg" for face in range(FACES)])
    np.savez(folder / "e.npz", embeddings=embeddings, names=names, identities=np.full(FACES, "unknown"))
    scores, points = random.uniform(0.3, 1, FACES), " ".join(["50.000"] * 10)
    with open(folder / "meta.txt", "w") as meta, open(folder / "scores.txt", "w") as file:
        for face, (tid, mid) in enumerate(zip(number[template].tolist(), medium.tolist(), strict=True), 1):
            meta.write(f"{face}.jpg {tid} {mid}\n")
            file.write(f"{face}.jpg {points} {scores[face - 1]:.3f}\n")
    with open(folder / "pairs.txt", "w") as file:
        columns = (number[left].tolist(), number[right].tolist(), genuine.astype(int).tolist())
        file.writelines(f"{one} {other} {label}\n" for one, other, label in zip(*columns, strict=True))
    mates = np.full(PROBES, GALLERY)  # 36 probes show a person of neither gallery
    mates[right[genuine] - GALLERY] = left[genuine]
    people = [
        f"{tid},{person},x.jpg,{person % 2}.0\n" for tid, person in zip(number, [*range(GALLERY), *mates], strict=True)
    ]
    parts = {
        "G1": people[:FIRST_GALLERY],
        "G2": people[FIRST_GALLERY:GALLERY],
        "mixed": people[GALLERY:],
        "people": people,
    }
    for name, lines in parts.items():
        (folder / f"{name}.csv").write_text(HEADER + "".join(lines))


def measure(folder: Path, arguments: tuple[str, ...]) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds, and bytes at the peak of one call."""
    command = [sys.executable, "-m", "verisphere", "evaluate", "ijb", "e.npz", *arguments, "--threads", "1"]
    before, start = os.times(), time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[2:4]) - sum(before[2:4]), usage.ru_maxrss * 1024.0


def run(folder: Path, rounds: int) -> None:
    if not (folder / "people.csv").is_file():
        subprocess.run([sys.executable, __file__, "--child", "--folder", folder], check=True)
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            runs[name].append(measure(folder, arguments))
    for name, measured in runs.items():
        wall, cpu, memory = (statistics.median(column) for column in zip(*measured, strict=True))
        notes = f"peak {memory / 1e6:.0f} MB"
        pairs = GENUINE + IMPOSTORS
        write("ijb", f"IJB-C's size, d={SIZE}, the whole command", name, wall, cpu, pairs, "pairs", rounds, notes)
        print(f"{'':14s} {notes}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are kept; without it in a temporary folder")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        write_files(options.folder)
    elif options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        run(options.folder, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), options.rounds)


if __name__ == "__main__":
    main()
