"""Broken and hostile ONNX files at the command line: exit code 2, one line that names the file, nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostile_graphs import UNFIT, UNREAD, Attack
from verisphere.cli import main
from verisphere.files import limited_run

TOLD = ("--colour", "RGB", "--mean", "0", "--scale", "1", "--template", "mine_8x8")
#: All of them: tests/models/test_foreign_onnx.py.
SOME = ("random bytes", "a pipe", "weights in /dev/zero", "a name that steers", "an operator's name that steers")

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def refused(folder: Path, attack: Attack, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    attack(folder)
    before = sorted(os.listdir(folder))
    assert main(["adopt", str(folder / "net.onnx"), *TOLD, "--out", str(folder / "model")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"verisphere: {folder}/net.")
    assert line in said.err
    assert said.err.endswith("\n")
    assert said.err.removesuffix("\n").isprintable()
    assert len(said.err) < 1100
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize("name", SOME)
def test_a_graph_that_is_refused_before_it_runs(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(subprocess, "run", None)  # no process is started
    refused(tmp_path, *UNREAD[name], capsys)


@pytest.mark.parametrize("name", ["a cycle", "too slow"])
def test_a_graph_that_is_refused_by_running_it(name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(limited_run, "CPU_SECONDS", 1)
    monkeypatch.setattr(limited_run, "MEMORY", 3 << 30)
    refused(tmp_path, *UNFIT[name], capsys)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the largest memory of a process is read in /proc")
@pytest.mark.parametrize("name", ["joined with itself", "an endless device"])
def test_in_a_process_of_its_own(name, tmp_path):
    """The memory of the command itself stays that of its libraries."""
    attack, line = (UNREAD | UNFIT)[name]
    attack(tmp_path)
    # not `ru_maxrss`, which begins with the memory of the process that started this one
    script = (
        "import sys; from verisphere.cli import main; code = main(sys.argv[1:]); "
        "status = open('/proc/self/status').read().split(); print(status[status.index('VmHWM:') + 1]); sys.exit(code)"
    )
    words = ["adopt", tmp_path / "net.onnx", *TOLD, "--out", tmp_path / "model"]
    done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert line in done.stderr
    assert int(done.stdout) < 600 << 10  # kB
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
