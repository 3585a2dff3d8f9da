"""Every table of how often promises and intervals hold, and of how soon a watch notices: `make promises`.

    python benchmarks/coverage_of_promises.py [--full] [--anew] [--part-of K] [--processes N] [--data D] [--second FILE]

Without --full this is a quick look of a few minutes: smaller tables, in NAME_quick.csv, made anew each time. With it
the tables of the docs are completed: cells that are there are kept, so a stopped run continues, and --anew removes them
first. Two processes run at once, each on one thread, and the longest begin. With --part-of 20 a twentieth of the sets
is drawn, into NAME_quick.csv, and the last line says how long all of them take.
"""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from cells import FOLDER, Size, parser

TABLES = ("intervals", "few_people", "promises", "galleries", "monitoring", "both_errors", "probability")


@dataclass(frozen=True)
class Task:
    """A process that fills cells of one table.

    Attributes:
        script: its name.
        options: which cells.
        lfw: whether it reads LFW.
        whole: whether it always draws all sets, since most of its time is not theirs.
    """

    script: str
    options: tuple[str, ...] = ()
    lfw: bool = False
    whole: bool = False

    def run(self, size: Size, data: Path | None, second: Path | None) -> tuple["Task", int, float]:
        """The exit status, and CPU seconds for all sets."""
        command = [sys.executable, str(FOLDER / f"{self.script}.py"), *self.options]
        command += ["--full"] * size.full
        command += ["--part-of", str(size.part_of)] * (size.part_of > 1)
        command += ["--data", str(data)] * (self.lfw and data is not None)
        command += ["--second", str(second)] * (self.script == "galleries" and second is not None)
        # one thread each: processes that share cores would wait for one another
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = (used.ru_utime + used.ru_stime) * (1 if self.whole else size.part_of)
        print(f"{seconds:7.0f} s of CPU  {self.name}", file=sys.stderr, flush=True)
        return self, process.returncode, seconds

    @property
    def name(self) -> str:
        """What it is called."""
        return " ".join((self.script, *self.options))


#: The longest first.
FULL = (
    Task("intervals", ("--people", "400")),
    Task("few_people", ("--only", "LFW"), lfw=True),
    Task("few_people", ("--only", "tails", "floor")),
    Task("few_people", ("--only", "worlds")),
    Task("few_people", ("--only", "peers")),
    Task("disjoint"),
    Task("promises"),
    Task("galleries", lfw=True, whole=True),
    Task("both_errors", lfw=True),
    Task("monitoring", whole=True),
    Task("intervals", ("--people", "40", "100")),
    Task("probability", lfw=True, whole=True),
)
LFW = ("few_people", "galleries", "both_errors", "probability")
QUICK = tuple(Task(name, lfw=name in LFW) for name in (*TABLES, "disjoint"))


def main() -> int:
    made = parser(__doc__, "the tables of the docs")
    made.add_argument("--anew", action="store_true", help="with --full: remove the tables first")
    made.add_argument("--processes", type=int, default=2, metavar="N", help="how many run at once (2)")
    made.add_argument("--data", type=Path, help="folder of LFW, as lfw_embeddings.npz")
    made.add_argument("--second", type=Path, metavar="FILE.npz", help="LFW by a second model, for rules of galleries")
    options = made.parse_args()
    size, started = Size.of(options), time.monotonic()
    if options.anew or not size.of_docs:
        for name in TABLES:
            size.path(name).unlink(missing_ok=True)
    with ThreadPoolExecutor(options.processes) as pool:
        tasks = FULL if size.full else QUICK
        ended = list(pool.map(lambda task: task.run(size, options.data, options.second), tasks))
    hours = sum(seconds for _, _, seconds in ended) / 3600
    wall = (time.monotonic() - started) / 3600
    print(f"{hours:.2f} hours of CPU for all sets, {wall:.2f} hours by the clock", file=sys.stderr)
    failed = [task.name for task, status, _ in ended if status]
    if failed:
        print(f"not completed: {', '.join(failed)}; the same command continues", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
