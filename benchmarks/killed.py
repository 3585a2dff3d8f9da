"""CPU time of a scan whose ranks are all killed thirty times, beside one that nobody disturbs.

    python benchmarks/killed.py [--kills 30] [--rows 40000]
    python benchmarks/killed.py --verb embed --verb "top k" ...     # those of tests/cli/test_working.py; `all` for all

Every launch has two to four ranks, each of which is killed (SIGKILL) within 0.12 seconds of its first piece. It counts
the pieces that were begun, and the CPU seconds of those that were finished; a launch beside it costs what its processes
take to load and to read the rows. The figures of both scans must be equal to the byte.

With verbs it kills the ranks of each, three, two and four in turn, at random moments until so many are killed or all
pieces are kept, continues by one process, and compares the result with that of an undisturbed one.
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
from processes import WorkerFailed, _server, run
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


def _seconds_of_ranks() -> float:
    """CPU seconds of all ranks that have ended: children of the process that forks them."""
    words = Path(f"/proc/{_server()[0].pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")


def killed_verbs(verbs: list[str], kills: int) -> None:
    """A row of results.csv for each verb; raises where a result differs from that of an undisturbed process."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cli"))
    import test_working as working  # not where a rank imports this file
    from harness import write

    launches: list[int] = []

    def counted(worker: Any, size: int, *arguments: Any) -> list[Any]:
        launches.append(size)
        return run(worker, size, *arguments)

    working.run = counted
    with tempfile.TemporaryDirectory() as room:
        inputs = Path(room, "inputs")
        inputs.mkdir()
        alone = working.Alone(working.inputs(inputs, images=80))
        for verb in [*working.VERBS] if verbs == ["all"] else verbs:
            out, expected, began = Path(room, verb), alone[verb], (time.perf_counter(), _seconds_of_ranks())
            out.mkdir()
            launches.clear()
            found = working.killed_and_continued(verb, inputs, out, kills, seed=[*working.VERBS].index(verb))
            assert found == expected, f"{verb}: the result differs from that of one process"
            killed, kept = len((out / "kills").read_text().split()), len(working.kept(out))
            note = f"{killed} ranks killed in {len(launches)} launches of 2 to 4; result equal to the byte"
            took = time.perf_counter() - began[0], _seconds_of_ranks() - began[1]
            write("killed", f"{verb}: {kept} pieces", note, *took, kept, "pieces", 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--verb", action="append")
    options = parser.parse_args()
    if options.verb:
        killed_verbs(options.verb, options.kills)
        return
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
