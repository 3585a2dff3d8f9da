"""A forked command stands for one that is started anew: its streams, folder, paths, exit code and signals."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from processes import forked


def adopt(folder: Path) -> "subprocess.Popen[str]":
    """A command that imports a module of its working directory, or of PYTHONPATH."""
    words = [*forked(), "adopt", "waiting:embed", "--trust-code", "--out", "model"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(words, cwd=folder, text=True, env=os.environ | {"PYTHONPATH": "deeper"}, **pipes)


def test_streams_folder_paths_and_exit_code(tmp_path: Path):
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "other.py").write_text("import sys\nprint(sys.stdin.read())\nraise ValueError('no luck')\n")
    (tmp_path / "waiting.py").write_text("import other\n")
    process = adopt(tmp_path)
    out, err = process.communicate("read")
    assert (process.returncode, out) == (2, "read\n")
    assert err == "verisphere: function 'waiting:embed' cannot be loaded: no luck\n"


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "verisphere: stopped\n"), (signal.SIGKILL, -signal.SIGKILL, "")]
)
def test_a_signal_reaches_the_command(tmp_path: Path, number: int, code: int, said: str):
    (tmp_path / "waiting.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    process = adopt(tmp_path)
    assert process.stdout is not None
    command = int(process.stdout.readline())
    assert command != process.pid
    process.send_signal(number)
    assert (process.communicate()[1], process.returncode) == (said, code)
    while Path(f"/proc/{command}").exists():  # for as long as it takes to count it as ended
        time.sleep(0.01)


def test_a_signal_that_ends_the_command_ends_what_waits_for_it(tmp_path: Path):
    (tmp_path / "waiting.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGABRT)\n")
    process = adopt(tmp_path)
    assert (process.communicate(), process.returncode) == (("", ""), -signal.SIGABRT)
