"""The trainings of an experiment: each a process of its own, so that one that fails takes no other with it."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import verisphere.experiments.child
from verisphere.experiments.folder import Run
from verisphere.train.run_folder import alone_in
from verisphere.vocabulary import Progress, quietly

log = logging.getLogger(__name__)

_CHILD = verisphere.experiments.child.__file__
_LOOK = 0.1  # seconds between two looks at who has ended
_LONGEST = 300  # letters of a failure's line
_STOPPED = tuple(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))  # exit codes
_TAIL = 4096  # bytes of a log in which its last line is looked for


class RunsFailed(Exception):
    """Trainings ended before their time; everything else has been done."""


@dataclass(frozen=True)
class Launch:
    """How trainings are started.

    Attributes:
        jobs: how many at a time.
        threads: of each; None leaves that to OMP_NUM_THREADS and PyTorch, but divides the cores among several jobs
            where nothing is set.
        device: where each trains; None lets it choose.
        default_allocator: leave glibc's allocator as it is.
    """

    jobs: int = 1
    threads: int | None = None
    device: str | None = None
    default_allocator: bool = False

    def __post_init__(self) -> None:
        for name, value in (("jobs", self.jobs), ("threads", self.threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")

    def words(self, run: Run) -> list[str]:
        """The command of a training. A run that has not begun is resumed from its beginning."""
        allocator = ["--default-allocator"] if self.default_allocator else []
        device = [] if self.device is None else ["--device", self.device]
        places = [str(run.begin()), "--out", str(run.folder)]
        return [sys.executable, "-m", "verisphere", *allocator, "train", *places, "--resume", *device]

    def environment(self) -> dict[str, str]:
        """This process's, with the number of threads."""
        threads = self.threads
        if threads is None and self.jobs > 1 and "OMP_NUM_THREADS" not in os.environ:
            threads = max(len(os.sched_getaffinity(0)) // self.jobs, 1)
        return {**os.environ} | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})


@dataclass(frozen=True)
class Failure:
    """A training that did not come to its end.

    Attributes:
        run: which.
        line: what it said last.
    """

    run: Run
    line: str

    @property
    def text(self) -> str:
        """The failure in one line."""
        return f"{self.run.title}: {self.line} (see {self.run.folder / 'log.txt'})"


@dataclass(frozen=True)
class _Child:
    process: "subprocess.Popen[bytes]"
    since: float
    said_before: int  # bytes of its log that others have written

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since


def train_runs(runs: Sequence[Run], launch: Launch, progress: Progress = quietly) -> list[Failure]:
    """Make the trainings that are not finished yet; returns those that failed.

    Any exception that ends this early, such as those of Ctrl-C and, on the command line, of SIGTERM and SIGHUP, is
    passed on as a signal to the trainings under way. Each leaves a checkpoint, and the next start continues from there.
    They do the same where this process is killed.

    Raises:
        ValueError: another process trains one of them; nothing has been started then.
    """
    waiting = [run for run in runs if not run.finished]
    if len(waiting) < len(runs):
        log.info("%d of %d trainings are finished already", len(runs) - len(waiting), len(runs))
    if not waiting:
        return []
    for run in waiting:
        if run.folder.is_dir():
            with alone_in(run.folder):
                pass
    active: dict[Run, _Child] = {}
    failures = []
    try:
        ended = progress(_ended(waiting, active, launch), "trainings", len(waiting))
        for number, (run, child) in enumerate(ended, start=1):
            code, seconds = child.process.returncode, child.seconds
            _note(run, code, seconds)
            if code:
                failures.append(Failure(run, _reason(run, code, child.said_before)))
            said = failures[-1].line if code else f"trained in {seconds:.0f} s"
            log.info("%s: %s (%d of %d)", run.title, said, number, len(waiting))
    except BaseException as error:
        _stop(active, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        raise
    return failures


def _ended(waiting: Sequence[Run], active: dict[Run, _Child], launch: Launch) -> Iterator[tuple[Run, _Child]]:
    """Each training as it ends; `active` holds those under way."""
    left = deque(waiting)
    while left or active:
        while left and len(active) < launch.jobs:
            run = left.popleft()
            active[run] = _start(run, launch)
        over = [run for run, child in active.items() if child.process.poll() is not None]
        for run in over:
            yield run, active.pop(run)
        if not over:
            time.sleep(_LOOK)


def _start(run: Run, launch: Launch) -> _Child:
    words = [sys.executable, "-I", "-S", _CHILD, str(os.getpid()), *launch.words(run)]
    with (run.folder / "log.txt").open("ab") as talk:
        before = talk.tell()
        # A session of its own: the terminal's Ctrl-C comes to this process alone, which passes it on once. A second
        # one would end a training without its checkpoint.
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, env=launch.environment(), start_new_session=True
        )
        return _Child(process, time.monotonic(), before)


def _stop(active: dict[Run, _Child], number: signal.Signals) -> None:
    """Pass a signal on, and wait; a second signal meanwhile ends them for good."""
    if not active:
        return
    for child in active.values():
        child.process.send_signal(number)
    try:
        log.warning(
            "stopping what is under way (%d), with checkpoints; the same command goes on from there", len(active)
        )
        for run, child in active.items():
            _note(run, child.process.wait(), child.seconds)
    except BaseException:
        for child in active.values():
            child.process.kill()
        raise


def _note(run: Run, code: int, seconds: float) -> None:
    """Keep how long a training took that came to its end, or was stopped; one that failed will not be gone on with."""
    if code == 0 or code < 0 or code in _STOPPED:
        run.end(seconds, done=code == 0)


def _reason(run: Run, code: int, said_before: int) -> str:
    """What a training said last, or the signal that ended it.

    Args:
        run: the training.
        code: its exit code; a signal's number less than 0.
        said_before: bytes that its log held when it was started: what an earlier start has said.
    """
    if code < 0:
        guess = ", perhaps for want of memory" if code == -signal.SIGKILL else ""
        return f"ended by {signal.Signals(-code).name}{guess}"
    if not (run.folder / "log.txt").is_file():
        return f"exit code {code}, and {run.folder} has lost its log.txt; was it removed while it trained?"
    with (run.folder / "log.txt").open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, said_before))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit code {code}").removeprefix("verisphere: ")[:_LONGEST]
