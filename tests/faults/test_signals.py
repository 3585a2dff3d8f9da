"""Ctrl-C, SIGTERM and a lost terminal, at several moments of each verb that works for long."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.verbs import Act, environment, listing, said
from verisphere.models.checkpoint import read_checkpoint

SIGNALS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
VERBS = {
    "embed": ("embed", "network.yaml", "faces", "--out", "out/made.npz", "--workers", 0, "--batch-size", 4),
    "evaluate": ("evaluate", "all-pairs", "set.npz", "--json", "out/made.json"),
    "calibrate": ("calibrate", "set.npz", "--far", "0.2", "--out", "out/made.json", "--guarantee", "approximate"),
}


def code_of(done: subprocess.CompletedProcess[str]) -> int:
    """As a shell shows it: of a process that a signal has ended, 128 and its number."""
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_that_is_stopped_has_its_exit_code_and_writes_nothing(verb, number, act: Act, world: Path):
    for at in (1, 2):
        done = act(*VERBS[verb], signal=int(number), at=at)
        assert code_of(done) == SIGNALS[number], done.stderr
        assert len(said(done)) <= 1
        assert done.stdout == ""
        assert listing(world / "out") == {} if (world / "out").exists() else True


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_training_that_is_stopped_leaves_a_checkpoint_at_any_step(number, act: Act, world: Path):
    for at in (1, 9, 23):
        run = f"run-{at}"
        done = act("train", "recipe.yaml", "--out", run, signal=int(number), at=at)
        assert code_of(done) == SIGNALS[number], done.stderr
        (line,) = said(done)
        assert line.endswith("a checkpoint has been saved, continue with --resume")
        assert read_checkpoint(world / run).step == at
        again = act("train", "recipe.yaml", "--out", run, "--resume")
        assert again.returncode == 0, again.stderr
        assert read_checkpoint(world / run).step == 24


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_while_the_program_is_loaded_is_no_traceback(number, world: Path):
    call = [sys.executable, "-m", "verisphere", "evaluate", "all-pairs", "set.npz"]
    for seconds in (0.1, 0.3, 0.6, 1.0, 1.5):
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)  # or it would be handed down as ignored
        try:
            process = subprocess.Popen(
                call, cwd=world, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        finally:
            signal.signal(signal.SIGINT, before)
        time.sleep(seconds)
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=300)
        done = subprocess.CompletedProcess(call, process.returncode, out, err)
        assert len(err.splitlines()) <= 1, (seconds, err)
        assert code_of(done) in (0, SIGNALS[number])
        said(done)
