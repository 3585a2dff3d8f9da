"""The trainings of an experiment, each in a separate process, so that a failure does not affect the others."""

import logging
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from verisphere.base.vocabulary import Progress, quietly
from verisphere.base.words import check_at_least
from verisphere.files.lock import alone_in
from verisphere.study.experiments import child as one_run
from verisphere.study.experiments.cleaned import clean_for
from verisphere.study.experiments.folder import FINISHED, Run

log = logging.getLogger(__name__)

_CHILD = one_run.__file__
_POLL_SECONDS = 0.1  # between two checks for processes that have ended
_MOST_LETTERS = 300  # of the line of a failure
_STOPPED = tuple(128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))  # exit codes
_TAIL = 4096  # bytes at the end of a log in which its last line is searched


class RunsFailed(Exception):
    """Some trainings failed; everything else has been completed."""


@dataclass(frozen=True)
class Launch:
    """Options for starting trainings."""

    jobs: int = 1  # number of trainings at a time
    threads: int | None = None  # of each training; None leaves them to OMP_NUM_THREADS, or divides the cores among jobs
    device: str | None = None
    default_allocator: bool = False  # leave glibc's allocator unchanged

    def __post_init__(self) -> None:
        for name, value in (("jobs", self.jobs), ("threads", self.threads)):
            if value is not None:
                check_at_least(name, value)

    def words(self, run: Run) -> list[str]:
        """The command of a training; a run that has not begun is resumed from its beginning."""
        allocator = ["--default-allocator"] if self.default_allocator else []
        device = [] if self.device is None else ["--device", self.device]
        threads = [] if self.threads is None else ["--threads", str(self.threads)]  # before those of a checkpoint
        places = [str(run.begin()), "--out", str(run.folder)]
        verb = ["train", *places, "--resume"] if run.search is None else ["search", *places]
        return [sys.executable, "-m", "verisphere", *allocator, *verb, *device, *threads]

    def environment(self) -> dict[str, str]:
        """The environment of this process, with the number of threads."""
        threads = self.threads
        if threads is None and self.jobs > 1 and "OMP_NUM_THREADS" not in os.environ:
            threads = max(len(os.sched_getaffinity(0)) // self.jobs, 1)
        return {**os.environ} | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})


@dataclass(frozen=True)
class Failure:
    """A training that did not reach its end, and the last line of its log."""

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
    log_before: int  # bytes of its log that earlier processes have written

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since


def clean_runs(runs: Sequence[Run], device: torch.device, progress: Progress = quietly) -> list[Failure]:
    """Clean the data of the trainings that ask for it, by trainings that are finished; returns those that failed."""
    waiting = [run for run in runs if run.cleaned is not None and not run.finished]
    failures = []
    for run in progress(waiting, "cleaning", len(waiting)) if waiting else ():
        assert run.cleaned is not None
        assert run.source is not None
        try:
            if not (run.source / FINISHED).is_file():
                raise ValueError(f"arm {run.cleaned.arm!r}, seed {run.seed}, which cleans its data, failed")
            clean_for(run.folder, run.cleaned, run.source, device)
        except (ValueError, OSError) as error:
            failures.append(Failure(run, str(error)[:_MOST_LETTERS]))
            run.folder.mkdir(parents=True, exist_ok=True)
            with (run.folder / "log.txt").open("a", encoding="utf-8") as log_file:
                log_file.write(f"{error}\n")
            log.info("%s: %s", run.title, failures[-1].line)
    return failures


def train_runs(runs: Sequence[Run], launch: Launch, progress: Progress = quietly) -> list[Failure]:
    """Run the trainings that are not finished yet; returns those that failed.

    An exception that ends this function early is passed on to the running trainings as a signal; each saves a
    checkpoint. They also do so if this process is killed.
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
                failures.append(Failure(run, _reason(run, code, child.log_before)))
            outcome = failures[-1].line if code else f"trained in {seconds:.0f} s"
            log.info("%s: %s (%d of %d)", run.title, outcome, number, len(waiting))
    except BaseException as error:
        _stop(active, signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        raise
    return failures


def _ended(waiting: Sequence[Run], active: dict[Run, _Child], launch: Launch) -> Iterator[tuple[Run, _Child]]:
    """Yield each training when it ends; `active` holds the running ones."""
    queue = deque(waiting)
    while queue or active:
        while queue and len(active) < launch.jobs:
            run = queue.popleft()
            active[run] = _start(run, launch)
        ended = [run for run, child in active.items() if child.process.poll() is not None]
        for run in ended:
            yield run, active.pop(run)
        if not ended:
            time.sleep(_POLL_SECONDS)


def _start(run: Run, launch: Launch) -> _Child:
    words = [sys.executable, "-I", "-S", _CHILD, str(os.getpid()), *launch.words(run)]
    with (run.folder / "log.txt").open("ab") as output:
        before = output.tell()
        # A session of its own: only this process receives the terminal's Ctrl-C, and passes it on once. A second one
        # would end a training without a checkpoint.
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=launch.environment(),
            start_new_session=True,
        )
        return _Child(process, time.monotonic(), before)


def _stop(active: dict[Run, _Child], number: signal.Signals) -> None:
    """Pass a signal on and wait for the trainings; a second signal meanwhile kills them."""
    if not active:
        return
    for child in active.values():
        child.process.send_signal(number)
    try:
        log.warning(
            "stopping what is under way (%d), with checkpoints; the same command continues from there", len(active)
        )
        for run, child in active.items():
            _note(run, child.process.wait(), child.seconds)
    except BaseException:
        for child in active.values():
            child.process.kill()
        raise


def _note(run: Run, code: int, seconds: float) -> None:
    """Record the time of a training that finished or was stopped; one that failed is not continued."""
    if code == 0 or code < 0 or code in _STOPPED:
        run.end(seconds, done=code == 0)


def _reason(run: Run, code: int, log_before: int) -> str:
    """The last line of a training's log, or the signal that ended it."""
    if code < 0:
        guess = ", perhaps because memory ran out" if code == -signal.SIGKILL else ""
        return f"ended by {signal.Signals(-code).name}{guess}"
    if not (run.folder / "log.txt").is_file():
        return f"exit code {code}, and {run.folder} has lost its log.txt; was it removed while it trained?"
    with (run.folder / "log.txt").open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, log_before))
        lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit code {code}").removeprefix("verisphere: ")[:_MOST_LETTERS]
