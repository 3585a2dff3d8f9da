"""CPU time of a scan whose ranks are all killed thirty times, beside one that nobody disturbs.

    python benchmarks/killed.py [--kills 30] [--rows 40000]

Every launch has two to four ranks, each of which is killed (SIGKILL) within 0.12 seconds of its first piece. It counts
the pieces that were begun, and the CPU seconds of those that were finished; a launch beside it costs what its processes
take to load and to read the rows. The figures of both scans must be equal to the byte.
"""

import argparse
import contextlib
import io
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from processes import WorkerFailed, run
from verisphere.base.vocabulary import Embeddings
from verisphere.cli import main as verisphere
from verisphere.files.embeddings import write_embeddings
from verisphere.score import all_pairs
from verisphere.score.exact import scan

PIECES, TILE, SECONDS = 640, 512, 0.12


def rank(rows: str, out: str, seed: int) -> None:
    """A rank, which is killed soon after its first piece unless the seed is negative."""
    log, first, fill = Path(out, "log"), threading.Event(), scan._filled

    def note(line: str) -> None:
        with log.open("a") as lines:
            lines.write(f"{line}\n")

    def filled(*arguments: Any) -> Any:
        if seed >= 0 and not first.is_set():
            seconds = random.Random(f"{seed} {os.environ['RANK']}").uniform(0, SECONDS)
            threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
        first.set()
        note("begun")
        began = time.process_time()
        found = fill(*arguments)
        note(f"finished {time.process_time() - began}")
        return found

    scan._filled, scan.LEAST_PIECES, all_pairs.TILE_ROWS = filled, PIECES, {"cpu": TILE}
    words = ["evaluate", "all-pairs", rows, "--far", "1e-3", "--threads", "1", "--json", f"{out}/figures.json"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert verisphere(["--default-allocator", *words, "--work", f"{out}/work"]) == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=40_000)
    options = parser.parse_args()
    generator, person = np.random.default_rng(0), np.arange(options.rows) // 5
    centers = generator.normal(size=(person[-1] + 1, 128))
    rows = (centers[person] + 0.8 * generator.normal(size=(options.rows, 128))).astype(np.float32)
    figures = []
    with tempfile.TemporaryDirectory() as room:
        write_embeddings(Path(room, "set.npz"), Embeddings(rows, identities=person.astype(str)))
        for name, kills in (("undisturbed", 0), ("killed", options.kills)):
            out, launches, finished = Path(room, name), 0, False
            out.mkdir()
            while not finished:
                seed = launches if launches < kills else -1
                launches += 1
                with contextlib.suppress(WorkerFailed):
                    run(rank, 2 + launches % 3, f"{room}/set.npz", str(out), seed)
                    finished = True
            lines = [line.split() for line in (out / "log").read_text().splitlines()]
            seconds = [float(words[1]) for words in lines if len(words) > 1]
            begun, kept = len(lines) - len(seconds), len([*out.glob("work/01-*/*.npz")])
            print(
                f"{name}: {launches} launches, {begun} pieces begun, {len(seconds)} finished in {sum(seconds):.3f} CPU "
                f"seconds, {kept} kept"
            )
            figures.append((out / "figures.json").read_bytes())
    assert figures[0] == figures[1], "the figures of both scans are equal"


if __name__ == "__main__":
    main()
