"""Ctrl-C at any moment of the command's life: while it loads, while it ends; and what stays ignored."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from processes import forked

OWN = Path(__file__).parents[1] / "train"  # own_parts.py

#: At every so many imports a copy of the process is interrupted, and says how it ended and what it wrote.
LOADING = """
import os, runpy, signal, sys, tempfile

class Interrupting:
    seen = 0

    def find_spec(self, name, path=None, target=None):
        if name == "verisphere.cli" or self.seen:
            self.seen += 1
        if self.seen and self.seen % 50 == 1:
            said = tempfile.TemporaryFile()
            copy = os.fork()
            if not copy:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                os.kill(os.getpid(), signal.SIGINT)
                return None
            code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
            said.seek(0)
            print(code, name, repr(said.read().decode()), sep="\\t", flush=True)
        return None

sys.meta_path.insert(0, Interrupting())
sys.argv = ["verisphere", "train", "none.yaml", "--out", "none"]
runpy.run_module("verisphere", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_modules_are_imported_is_one_line():
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True)
    assert done.returncode == 2, done.stderr  # there is no such recipe
    ends = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(ends) >= 20
    assert any(name.startswith("torch.") for _, name, _ in ends)
    assert {(code, said) for code, _, said in ends} == {("130", repr("verisphere: stopped\n"))}, done.stdout


def test_ctrl_c_while_python_shuts_down_changes_nothing(tmp_path: Path):
    (tmp_path / "people.py").write_text(
        "import atexit, os, signal\natexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), print('ended')))\n"
    )
    words = [*forked(), "adopt", "people:embed", "--out", "model", "--trust-code"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "ended\n")
    assert done.stderr.startswith("verisphere: function 'people:embed' cannot be loaded: module 'people' has no ")


#: A recipe whose data send a signal when they are counted.
RECIPE = """\
data: {class_path: people.Signalling}
backbone: {class_path: own_parts.TinyNet}
loss: {class_path: own_parts.OwnLoss}
"""
PEOPLE = """
import os
from own_parts import Noise

class Signalling(Noise):
    def __len__(self):
        os.kill(os.getpid(), NUMBER)
        print("went on", flush=True)
        raise SystemExit(7)
"""


@pytest.mark.parametrize(
    ("number", "before", "method", "code", "out", "err"),
    [
        (signal.SIGINT, signal.SIG_DFL, "__len__", 130, "", "verisphere: stopped\n"),
        (signal.SIGHUP, signal.SIG_DFL, "__len__", 129, "", ""),
        (signal.SIGTERM, signal.SIG_DFL, "__len__", 143, "", ""),
        (signal.SIGTERM, signal.SIG_DFL, "__init__", 143, "", ""),  # where SystemExit is an error of the user's class
        (signal.SIGINT, signal.SIG_IGN, "__len__", 7, "went on\n", ""),  # a job in the background
        (signal.SIGHUP, signal.SIG_IGN, "__len__", 7, "went on\n", ""),  # under nohup
    ],
)
def test_a_signal_while_a_verb_works(
    tmp_path: Path, number: int, before: Any, method: str, code: int, out: str, err: str
):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    (tmp_path / "people.py").write_text(PEOPLE.replace("NUMBER", str(int(number))).replace("__len__", method))
    done = subprocess.run(
        [*forked(), "train", "recipe.yaml", "--out", "run"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(OWN)}, preexec_fn=lambda: signal.signal(number, before),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)


def test_the_command_is_the_module_that_takes_ctrl_c_in_hand_first():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"verisphere": "verisphere.__main__:main"}
