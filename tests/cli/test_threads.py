"""Threads of the command line: settings before PyTorch loads, those of the environment first, and `--threads`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from verisphere.cli import threads
from verisphere.cli.start import main
from verisphere.cli.threads import available_cores, fitting_number, idle_cores, prepare, threads_argument

CORES = "cpu0 {0} 0 0 {1} 0 0 0 0 0 0\ncpu1 {2} 0 0 {3} 0 0 0 0 0 0\n"


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch were not loaded yet."""
    monkeypatch.delitem(sys.modules, "torch")


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize(
    "own",
    [{"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "active"}, {"KMP_BLOCKTIME": "0"}, {"KMP_LIBRARY": "turnaround"}],
)
def test_a_choice_of_the_user_is_kept(own: dict[str, str]):
    environment = {**own, "OMP_NUM_THREADS": "3"}
    assert not prepare(None, environment)
    assert environment == {**own, "OMP_NUM_THREADS": "3"}


@pytest.mark.usefixtures("unloaded")
def test_what_is_put_in_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    environment: dict[str, str] = {}
    assert prepare(None, environment)
    assert environment == {"GOMP_SPINCOUNT": "10000"}
    for given, number, expected in [({}, None, "4"), ({"OMP_NUM_THREADS": "1"}, None, "1"), ({}, 3, "3")]:
        environment = {"LOCAL_WORLD_SIZE": "2", **given}
        prepare(number, environment)
        assert environment["OMP_NUM_THREADS"] == expected  # two processes of a launch share eight cores


def test_a_program_that_has_loaded_pytorch_keeps_its_environment():
    environment: dict[str, str] = {}
    assert not prepare(3, environment)
    assert environment == {}


@pytest.mark.parametrize(
    ("cores", "sharing", "expected"), [(0.0, 1, 1), (0.4, 1, 1), (1.4, 1, 1), (1.9, 1, 2), (7.7, 2, 4), (99.0, 1, 8)]
)
def test_the_number_that_fits_the_idle_cores(monkeypatch, cores: float, sharing: int, expected: int):
    monkeypatch.setattr(threads, "available_cores", lambda: 8)
    assert fitting_number(cores, sharing) == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (CORES.format(100, 100, 100, 100), CORES.format(150, 100, 100, 150), 1.0),  # one core busy, the other idle
        (CORES.format(100, 100, 100, 100), CORES.format(125, 125, 125, 125), 1.0),  # both half busy
        (CORES.format(1, 1, 1, 1), CORES.format(1, 51, 1, 51), 2.0),
    ],
)
def test_the_idle_cores_are_those_of_the_last_half_second(monkeypatch, tmp_path: Path, before, after, expected):
    file = tmp_path / "stat"
    file.write_text("cpu 9 9 9 9\n" + before + "cpu7 0 0 0 9 0 0 0 0\n")  # the last is none of this process
    monkeypatch.setattr(threads, "_STAT", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr(threads, "_quota", lambda: 64.0)
    monkeypatch.setattr(threads.time, "sleep", lambda seconds: file.write_text("cpu 9 9 9 9\n" + after))
    assert idle_cores() == pytest.approx(expected)


def test_without_such_a_file_the_load_average_says_it(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(threads, "_STAT", tmp_path / "none")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (2.5, 0.0, 0.0))
    monkeypatch.setattr(threads.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(threads, "_quota", lambda: 64.0)
    assert idle_cores() == 5.5


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        ("0::/a/b\n", {"a/cpu.max": "250000 100000", "a/b/cpu.max": "max 100000"}, 2),
        ("0::/gone\n", {"cpu.max": "50000 100000"}, 1),  # inside a container; half a core
        ("3:cpu,cpuacct:/a\n", {"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"}, 3),
        ("3:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("3:memory:/\n", {}, 4),
    ],
)
def test_the_quota_of_a_container_counts(
    monkeypatch, tmp_path: Path, groups: str, files: dict[str, str], expected: int
):
    monkeypatch.setattr(threads, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(threads, "_CGROUPS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(4)))
    (tmp_path / "cgroup").write_text(groups)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert available_cores() == expected


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "9999", ""])
def test_what_is_no_number_of_threads(text: str):
    with pytest.raises(Exception, match="neither a number from 1 to 1024 nor auto"):
        threads_argument(text)


@pytest.mark.usefixtures("process_as_it_was")
def test_a_verb_computes_with_the_number_that_is_asked_for(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / "scores.csv").write_text("score,label\n0.9,1\n0.1,0\n")
    before = torch.get_num_threads()
    monkeypatch.setattr(threads, "idle_cores", lambda: 0.3)
    try:
        for asked, number in (("2", 2), ("auto", 1)):
            assert (
                main(["--default-allocator", "evaluate", "scores", str(tmp_path / "scores.csv"), "--threads", asked])
                == 0
            )
            assert torch.get_num_threads() == number
    finally:
        torch.set_num_threads(before)
    err = capsys.readouterr().err
    assert err == f"--threads auto: 1, as 0.3 of {available_cores()} cores are idle\n"


def test_the_openmp_of_pytorch_reads_what_the_command_line_sets(tmp_path: Path):
    """And importing the library, or loading PyTorch by it, sets nothing."""
    (tmp_path / "scores.csv").write_text("score,label\n0.9,1\n0.1,0\n")
    script = (
        "import os, sys, verisphere\n"
        "before = dict(os.environ)\n"
        "from verisphere.cli import main\n"
        "assert dict(os.environ) == before\n"
        "main(['evaluate', 'scores', sys.argv[1]])\n"
        "import torch\n"
    )
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_LIBRARY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "scores.csv"], capture_output=True, text=True, timeout=300,
        env=environment | {"OMP_DISPLAY_ENV": "verbose"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "GOMP_SPINCOUNT = '10000'" in done.stderr or "GOMP_SPINCOUNT" not in done.stderr  # another OpenMP
