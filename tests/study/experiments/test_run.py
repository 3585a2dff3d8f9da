"""Trainings of an experiment as processes: how many at a time, failures, signals passed on. A script stands in."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from processes import forked
from verisphere.study.experiments import child as tied
from verisphere.study.experiments.folder import Run
from verisphere.study.experiments.run import Failure, Launch, train_runs

# Notes when it began and ended; its recipe says how it ends. A signal makes it note that, as a training's checkpoint.
SCRIPT = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def stop(number, frame):
    (folder / "stopped").write_text(str(number))
    print("verisphere: stopped; a checkpoint has been saved", flush=True)
    raise SystemExit(128 + number)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
word = (folder / "recipe.yaml").read_text()
(folder / "began").write_text(f"{time.monotonic()} {os.environ.get('OMP_NUM_THREADS')}")
print("first line", flush=True)
if word == "fail":
    print("verisphere: step 3: the loss is nan", file=sys.stderr)
    sys.exit(2)
if word == "die":
    os.kill(os.getpid(), signal.SIGKILL)
if word == "lost":
    __import__("shutil").rmtree(folder)
    sys.exit(2)
if word == "silent":
    os._exit(7) if not (folder / "log.txt").write_text("") else None
if word == "long" and not (folder / "stopped").exists():
    time.sleep(300)
since = time.monotonic()
while word == "together" and len(list(folder.parents[1].glob("*/*/began"))) < 3 and time.monotonic() < since + 300:
    time.sleep(0.02)
time.sleep(0.1)
(folder / "ended").write_text(str(time.monotonic()))
"""


@dataclass(frozen=True)
class Stand(Launch):
    """Starts the script in place of a training."""

    def words(self, run: Run) -> list[str]:
        """The script's command."""
        return [sys.executable, "-S", "-c", SCRIPT, str(run.begin().parent)]


def runs_of(folder: Path, **recipes: str) -> list[Run]:
    return [Run(arm, 0, folder / arm / "seed-0", recipe) for arm, recipe in recipes.items()]


def test_one_that_fails_takes_no_other_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    runs = runs_of(tmp_path, one="", two="fail", three="die", four="silent", five="")
    with caplog.at_level(logging.INFO, "verisphere"):
        failures = train_runs(runs, Stand(jobs=2, threads=1))
    assert [run.finished for run in runs] == [True, False, False, False, True]
    assert sorted((failure.run.arm, failure.line) for failure in failures) == [
        ("four", "exit code 7"),
        ("three", "ended by SIGKILL, perhaps because memory ran out"),
        ("two", "step 3: the loss is nan"),
    ]
    assert Failure(runs[1], "why").text == f"two, seed 0: why (see {tmp_path / 'two' / 'seed-0' / 'log.txt'})"
    assert sum("of 5)" in line for line in caplog.messages) == 5
    assert any(line.startswith("two, seed 0: step 3: the loss is nan (") for line in caplog.messages)
    assert "first line" in (tmp_path / "one" / "seed-0" / "log.txt").read_text()


@pytest.mark.parametrize(("jobs", "word"), [(1, ""), (3, "together")])
def test_so_many_at_a_time(tmp_path: Path, jobs: int, word: str):
    runs = runs_of(tmp_path, a=word, b=word, c=word)
    assert train_runs(runs, Stand(jobs=jobs, threads=5)) == []
    began = [(run.folder / "began").read_text().split() for run in runs]
    ended = [float((run.folder / "ended").read_text()) for run in runs]
    assert (max(float(time) for time, _ in began) < min(ended)) == (jobs == 3)
    assert {threads for _, threads in began} == {"5"}


def test_what_is_finished_is_not_made_again(tmp_path: Path):
    runs = runs_of(tmp_path, a="", b="fail")
    assert len(train_runs(runs, Stand(jobs=2))) == 1
    first = (runs[0].folder / "began").read_text()
    again = [runs[0], replace(runs[1], recipe="")]  # whatever made it fail is gone
    assert train_runs(again, Stand(jobs=2)) == []
    assert (runs[0].folder / "began").read_text() == first
    assert runs[1].finished


def test_time_counts_that_was_not_lost(tmp_path: Path):
    """What a signal ended goes on from its checkpoint; what failed does not."""
    runs = runs_of(tmp_path, a="fail", b="die")
    train_runs(runs, Stand(jobs=2))
    assert (runs[0].seconds, (runs[0].folder / "stopped.json").exists()) == (0, False)
    assert runs[1].seconds > 0
    script = SCRIPT.replace("os.kill(os.getpid(), signal.SIGKILL)", "pass")
    (checkpoint := runs[1].folder / "checkpoints" / "step-00000001").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SCRIPT", script)
        assert train_runs(runs[1:], Stand()) == []
    assert checkpoint.is_dir()
    took = [json.loads((runs[1].folder / name).read_text())["seconds"] for name in ("stopped.json", "finished.json")]
    assert runs[1].seconds == pytest.approx(sum(took))


def test_a_training_whose_folder_was_removed_takes_no_other_with_it(tmp_path: Path):
    runs = runs_of(tmp_path, a="lost", b="")
    (failure,) = train_runs(runs, Stand())
    assert "has lost its log.txt; was it removed while it trained?" in failure.line
    assert runs[1].finished


@pytest.mark.parametrize(
    ("number", "raised", "passed_on"),
    [
        (signal.SIGINT, KeyboardInterrupt, signal.SIGINT),
        (signal.SIGTERM, SystemExit, signal.SIGTERM),
        (signal.SIGHUP, SystemExit, signal.SIGTERM),
    ],
)
def test_a_signal_reaches_every_training_and_they_are_waited_for(
    tmp_path: Path, number: int, raised: type, passed_on: int
):
    runs = runs_of(tmp_path, a="long", b="long", c="")

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    def interrupt() -> None:
        while not all((run.folder / "began").exists() for run in runs[:2]):
            time.sleep(0.02)
        os.kill(os.getpid(), number)

    before = {one: signal.signal(one, leave) for one in (signal.SIGTERM, signal.SIGHUP)}  # as the command line does
    try:
        threading.Thread(target=interrupt).start()
        with pytest.raises(raised):
            train_runs(runs, Stand(jobs=2))
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    assert [(run.folder / "stopped").read_text() for run in runs[:2]] == [str(int(passed_on))] * 2
    assert not (runs[2].folder / "began").exists()
    assert not any(run.finished for run in runs)
    assert runs[0].seconds > 0
    assert train_runs(runs, Stand(jobs=2)) == []  # the next start goes on


def test_an_experiment_that_is_killed_leaves_no_training_behind(tmp_path: Path):
    """Nor do they wait for its next start: each has left its checkpoint and let go of its lock."""
    (run,) = runs_of(tmp_path, a="long")
    script = f"""
import sys
sys.path[:0] = {[str(folder) for folder in Path(__file__).parents[:3]]}
from pathlib import Path
from test_run import Stand, runs_of, train_runs
train_runs(runs_of(Path({str(tmp_path)!r}), a="long"), Stand())
"""
    experiment = subprocess.Popen([*forked(), "-c", script])
    while not (run.folder / "began").exists():
        assert experiment.poll() is None
        time.sleep(0.05)
    experiment.kill()
    experiment.wait()
    for _ in range(6000):
        if (run.folder / "stopped").exists():
            break
        time.sleep(0.05)
    assert (run.folder / "stopped").read_text() == str(int(signal.SIGTERM))


def test_nothing_is_started_for_a_parent_that_is_gone(tmp_path: Path):
    words = [sys.executable, "-I", "-S", tied.__file__, "1", sys.executable, "-c", "print('began')"]
    assert subprocess.run(words, capture_output=True, check=True, text=True).stdout == ""


def test_a_training_of_another_process_is_left_alone(tmp_path: Path):
    runs = runs_of(tmp_path, a="", b="")
    runs[1].folder.mkdir(parents=True)
    hold = "import fcntl, sys; f = open(sys.argv[1], 'a'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"
    words = [sys.executable, "-S", "-c", hold, str(runs[1].folder / ".lock")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"\n"
        with pytest.raises(ValueError, match="another process is writing there; wait for its end, or stop it") as said:
            train_runs(runs, Stand(jobs=2))
        assert str(said.value).startswith(f"{runs[1].folder}: ")
        assert not (runs[0].folder / "began").exists()
        other.stdin.close()
    assert train_runs(runs, Stand(jobs=2)) == []


def test_what_an_earlier_start_has_said_is_no_reason(tmp_path: Path):
    (run,) = runs_of(tmp_path, a="silent")
    run.folder.mkdir(parents=True)
    (run.folder / "log.txt").write_text("verisphere: the loss is nan\n")
    script = SCRIPT.replace('print("first line", flush=True)', "").replace('(folder / "log.txt").write_text("")', '"" ')
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "SCRIPT", script)
        (failure,) = train_runs([run], Stand())
    assert failure.line == "exit code 7"
    assert "the loss is nan" in (run.folder / "log.txt").read_text()


def test_an_error_in_between_stops_them_too(tmp_path: Path):
    def failing(items: Iterable[Any], description: str, total: int | None = None) -> Iterator[Any]:
        for item in items:
            yield item
            raise RuntimeError("a disk that is full")

    runs = runs_of(tmp_path, a="", b="long")
    with pytest.raises(RuntimeError, match="a disk that is full"):
        train_runs(runs, Stand(jobs=2), failing)
    assert (runs[1].folder / "stopped").exists()


def test_cores_are_divided_among_the_jobs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert Launch(jobs=2).environment()["OMP_NUM_THREADS"] == "3"
    monkeypatch.delenv("OMP_NUM_THREADS")
    cores = len(os.sched_getaffinity(0))
    assert Launch(jobs=1).environment() == dict(os.environ)
    assert Launch(jobs=2).environment()["OMP_NUM_THREADS"] == str(max(cores // 2, 1))
    assert Launch(jobs=2, threads=7).environment()["OMP_NUM_THREADS"] == "7"


def test_the_command_of_a_training(tmp_path: Path):
    run = Run("a", 0, tmp_path / "a", "data: x\n")
    recipe = tmp_path / "a" / "recipe.yaml"
    assert Launch(device="cpu", default_allocator=True).words(run)[1:] == [
        "-m", "verisphere", "--default-allocator", "train", str(recipe), "--out", str(run.folder), "--resume",
        "--device", "cpu"]  # fmt: skip
    assert recipe.read_text() == "data: x\n"
    run.end(2.0, done=False)
    changed = replace(run, recipe="data: y\n")
    assert Launch().words(changed)[1:4] == ["-m", "verisphere", "train"]
    assert Launch(threads=2).words(changed)[-2:] == ["--threads", "2"]  # before the number of a checkpoint
    assert recipe.read_text() == "data: y\n"  # nothing has been trained by the first
    assert changed.seconds == 0
    (run.folder / "checkpoints" / "step-00000001").mkdir(parents=True)
    run.begin()
    assert recipe.read_text() == "data: y\n"  # as its checkpoint was made


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(self: Path, text: str, **options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left on device") as raised:
        Run("a", 0, tmp_path / "a", "").end(1.0, done=True)
    assert raised.value.filename == str(tmp_path / "a" / "finished.json")


@pytest.mark.parametrize(("given", "message"), [({"jobs": 0}, "jobs must be at least 1, got 0"),
                                                ({"threads": -1}, "threads must be at least 1, got -1")])  # fmt: skip
def test_counts_are_at_least_one(given: dict, message: str):
    with pytest.raises(ValueError, match=message):
        Launch(**given)
