"""What ends a training before its time: a signal, a kill, a terminal that closes, a folder that is removed."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from interrupting import Interrupting
from tiny_runs import OWN, STEPS, files, metrics, read
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.train.loop import TrainingStopped
from verisphere.train.session import train_run
from verisphere.train.stopping import stop_requests

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def test_a_second_signal_ends_it_at_once_and_handlers_are_put_back(recipe, tmp_path):
    before = signal.getsignal(signal.SIGINT)

    def twice(items: Iterable[Any], description: str, total: int | None = None, done: int = 0) -> Iterator[Any]:
        for item in items:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            yield item

    with pytest.raises(KeyboardInterrupt):
        train_run(read(recipe), tmp_path / "run", progress=twice)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_after_the_last_step_is_heard_by_the_context_around_the_training(recipe, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    with stop_requests() as stopping:
        train_run(read(recipe), tmp_path / "run", progress=Interrupting(STEPS - 1, signal.SIGTERM))  # ends by itself
        assert stopping() == signal.SIGTERM
        with pytest.raises(TrainingStopped):
            train_run(read(recipe), tmp_path / "second")
    assert signal.getsignal(signal.SIGTERM) is before
    with stop_requests() as stopping:
        assert stopping() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_ignored_signal_stays_ignored(recipe, tmp_path, number):
    before = signal.signal(number, signal.SIG_IGN)  # as a shell does for a job in the background, and nohup
    try:
        train_run(read(recipe), tmp_path / "run", progress=Interrupting(1, number))
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_a_terminal_and_its_shell_that_both_hang_up_leave_a_checkpoint(recipe, tmp_path, heard_hangup):
    def twice(items: Iterable[Any], description: str, total: int | None = None, done: int = 0) -> Iterator[Any]:
        for item in items:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGHUP)
            yield item

    with pytest.raises(TrainingStopped) as caught:
        train_run(read(recipe), tmp_path / "run", progress=twice)
    assert caught.value.reason == signal.SIGHUP
    assert read_checkpoint(tmp_path / "run").step == 1
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


class Removing:
    """A `Progress` during which somebody removes things after so many steps."""

    def __init__(self, after: int, *paths: Path) -> None:
        self.after, self.paths = after, paths

    def __call__(
        self, items: Iterable[Any], description: str, total: int | None = None, done: int = 0
    ) -> Iterator[Any]:
        for position, item in enumerate(items):
            if description == "training" and position == self.after:
                for path in self.paths:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            yield item


@pytest.mark.parametrize("after", [1, 8], ids=["before a checkpoint", "before the last"])
def test_a_training_whose_folder_is_removed_says_so_and_leaves_nothing_that_looks_whole(recipe, tmp_path, after):
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match=r"run: recipe\.yaml and metrics\.jsonl vanished during the training"):
        train_run(read(recipe), run, progress=Removing(after, run))
    assert not run.exists()


def test_a_training_that_lost_its_log_alone_says_so(recipe, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match=r"run: metrics\.jsonl vanished"):
        train_run(read(recipe), run, progress=Removing(1, run / "metrics.jsonl"))


def test_a_training_that_lost_its_checkpoints_alone_goes_on_and_leaves_new_ones(recipe, tmp_path):
    run = tmp_path / "run"
    train_run(read(recipe), run, progress=Removing(8, run / "checkpoints"))
    assert read_checkpoint(run).step == STEPS


def test_a_folder_that_is_removed_during_the_last_validation(recipe, tmp_path):
    run = tmp_path / "run"
    with pytest.raises(FileNotFoundError, match="vanished during the training"):
        train_run(read(recipe, "--validation", "own_parts.Noise"), run, measure=lambda *_: shutil.rmtree(run) or {})


CODES = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def start(recipe: Path, run: Path, *more: str, terminal: int | None = None) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(OWN), os.environ.get("PYTHONPATH", "")]),
                                "OMP_NUM_THREADS": str(torch.get_num_threads())}  # fmt: skip
    call = [sys.executable, "-m", "verisphere", "train", recipe, "--out", run, *LONG, *more]
    if terminal is None:
        return subprocess.Popen(call, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                preexec_fn=hear_all)  # fmt: skip
    call = [sys.executable, "-c", IN_TERMINAL, *call]
    return subprocess.Popen(call, env=environment, stdin=terminal, stdout=terminal, stderr=terminal, text=True,
                            start_new_session=True, preexec_fn=hear_all)  # fmt: skip


def hear_all() -> None:
    """A process of a test hears Ctrl-C and SIGHUP though the test run itself, under nohup, may not."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


#: Makes the terminal on standard input the one that hangs up, and becomes the command.
IN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
LONG = ("--epochs", "40", "--save_every", "0.34", "--log_every", "10")  # a checkpoint after each of 120 steps


def wait_for_checkpoint(process: subprocess.Popen[str], run: Path, newer_than: int) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        held = list_checkpoints(run)
        if held and int(held[-1].name[5:]) > newer_than:
            return
        time.sleep(0.01)
    assert process.poll() is not None, "no checkpoint within a minute"


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_run_killed_again_and_again_has_only_whole_checkpoints_and_ends_the_same(recipe, tmp_path, workers):
    whole, run = tmp_path / "whole", tmp_path / "killed"
    more = ("--workers", workers)
    train_run(read(recipe, *LONG, *more), whole)
    step = 0
    for kill, pause in enumerate((0.0, 0.013, 0.037, 0.11)):
        process = start(recipe, run, *more, *(["--resume"] if kill else []))
        wait_for_checkpoint(process, run, step)
        time.sleep(pause)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=300)
        for path in list_checkpoints(run):
            checkpoint = read_checkpoint(path)
            for part in ("backbone", "head", "optimizer"):
                checkpoint.tensors(part)
        step = read_checkpoint(run).step
    train_run(read(recipe, *LONG, *more), run, resume=True)
    assert files(run) == files(whole)
    assert metrics(run) == metrics(whole)
    assert {entry.name for entry in (run / "checkpoints").iterdir()} == {path.name for path in list_checkpoints(run)}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), CODES)
def test_a_signal_to_the_whole_group_leaves_a_checkpoint_though_workers_get_it_too(recipe, tmp_path, number, code):
    run = tmp_path / "run"
    # long epochs, since workers are started for each, and are not yet on their guard while they start
    process = start(recipe, run, "--workers", "2", "--data.images", "600", "--save_every", "0.002")
    wait_for_checkpoint(process, run, 0)
    os.killpg(process.pid, number)  # as a terminal and a batch scheduler do
    try:
        _, said = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == code, said
    assert "continue with --resume" in said
    assert said.count("stopping after this step") == 1
    assert read_checkpoint(run).step >= 1


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_terminal_that_is_closed_leaves_a_checkpoint(recipe, tmp_path, workers):
    """Though from then on nothing can be written to it."""
    run = tmp_path / "run"
    terminal, theirs = pty.openpty()
    process = start(recipe, run, "--workers", workers, "--save_every", "100", terminal=theirs)
    os.close(theirs)
    until, seen = time.monotonic() + 300, b""
    while not _logged(run) and process.poll() is None and time.monotonic() < until:
        if select.select([terminal], [], [], 0.05)[0]:
            seen += os.read(terminal, 65536)  # a terminal that nobody reads would hold it up
    os.close(terminal)
    assert process.wait(timeout=300) == 129, seen.decode()
    assert read_checkpoint(run).step >= 1


def _logged(run: Path) -> bool:
    """Whether the training has made its first steps."""
    log = run / "metrics.jsonl"
    return log.is_file() and log.stat().st_size > 0
