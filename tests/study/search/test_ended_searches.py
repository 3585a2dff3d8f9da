"""Searches that are ended from outside, by a kill or a signal, and continued."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from small_disk import enlarged, mounted
from tiny_runs import OWN
from tiny_searches import left, searched, written

CANDIDATES = 480  # of less than a tenth of a second each, three an epoch
LONG = ("--epochs", str(CANDIDATES // 3))

pytestmark = pytest.mark.slow


def surroundings() -> dict[str, str]:
    """The environment of a search that finds the tests' own parts."""
    path = os.pathsep.join([str(OWN), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def start(search: Path, out: Path) -> subprocess.Popen[str]:
    """By two ranks, each a group."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    call = [sys.executable, *launcher, "-m", "verisphere", "search", search, "--out", out, *LONG, "--groups", "2"]
    return subprocess.Popen(
        list(map(str, call)),
        env=surroundings(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def newest(out: Path) -> float:
    times = [0.0]
    for path in out.rglob("*"):
        try:
            times.append(path.stat().st_mtime)
        except OSError:  # a partial file that was renamed meanwhile
            continue
    return max(times)


def wait_for_work(process: subprocess.Popen[str], out: Path, since: float) -> None:
    until = time.monotonic() + 600
    while newest(out) <= since:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, "nothing was written within ten minutes"
        time.sleep(0.01)


def end_group(process: subprocess.Popen[str], number: int, seconds: float = 600) -> str:
    os.killpg(process.pid, number)
    try:
        return process.communicate(timeout=seconds)[1]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def test_groups_that_are_killed_and_stopped_end_with_the_bits_of_one_process(tmp_path: Path):
    """Each at a random moment; test_whole_searches.py ends a search of one process at every stage."""
    path, out, moment = written(tmp_path), tmp_path / "ended", random.Random(0)
    searched(path, tmp_path / "whole", *LONG)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        before = newest(out)
        process = start(path, out)
        wait_for_work(process, out, before)
        time.sleep(moment.uniform(0.0, 0.8))
        assert process.poll() is None, "the search ended by itself; make it longer"
        end_group(process, number)
    searched(path, out, *LONG)
    assert left(out) == left(tmp_path / "whole")


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_full_disk_ends_a_search_in_one_line_and_with_more_room_it_continues(tmp_path: Path, part: float):
    path, short = written(tmp_path), ("--epochs", "2")
    searched(path, tmp_path / "whole", *short)
    size = sum(file.stat().st_blocks for file in (tmp_path / "whole").rglob("*")) / 2
    with mounted(tmp_path / "disk", int(part * size)) as disk:
        call = [sys.executable, "-m", "verisphere", "search", path, "--out", disk / "out", *short]
        done = subprocess.run(list(map(str, call)), env=surroundings(), capture_output=True, text=True, timeout=600)
        said = [line for line in done.stderr.splitlines() if line.startswith("verisphere: ")]
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        assert len(said) == 1, done.stderr
        assert str(disk) in said[0], said
        assert "No space left on device" in said[0], said
        enlarged(disk, int(100 * size))
        searched(path, disk / "out", *short)
        assert left(disk / "out") == left(tmp_path / "whole")
