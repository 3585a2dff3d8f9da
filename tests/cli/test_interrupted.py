"""Ctrl-C at any moment of the command's life: while it loads, while it ends; and what stays ignored."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


ENDING = """
import atexit, os, runpy, signal, sys
atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), print("ended")))
sys.argv = ["verisphere", "evaluate", "scores", "none.csv"]
runpy.run_module("verisphere", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_python_shuts_down_changes_nothing():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "ended\n")
    assert done.stderr == "verisphere: none.csv: there is no such file\n"


# The imports take seconds, so they are made once, and each case is a fork.
RUNNING = """
import json, os, runpy, signal, sys
from verisphere.measure import evaluate

def begin(number, before, folder):
    for stream, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(os.path.join(folder, name), os.O_CREAT | os.O_WRONLY), stream)
    evaluate.evaluate_scores = lambda *_: os.kill(os.getpid(), number) or (print("went on"), sys.exit(7))
    sys.argv = ["verisphere", "evaluate", "scores", "any.csv"]
    signal.signal(number, before)
    runpy.run_module("verisphere", run_name="__main__", alter_sys=True)

codes = []
for number, before, folder in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        begin(getattr(signal, number), getattr(signal, before), folder)
        sys.exit(0)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""


ENDS = {
    ("SIGINT", "default_int_handler"): (130, "", "verisphere: stopped\n"),
    ("SIGHUP", "SIG_DFL"): (129, "", ""),
    ("SIGTERM", "SIG_DFL"): (143, "", ""),
    ("SIGINT", "SIG_IGN"): (7, "went on\n", ""),  # a job in the background
    ("SIGHUP", "SIG_IGN"): (7, "went on\n", ""),  # under nohup
}


def test_a_signal_while_a_verb_works(tmp_path: Path):
    folders = [tmp_path / "-".join(case) for case in ENDS]
    for folder in folders:
        folder.mkdir()
    cases = json.dumps([[*case, str(folder)] for case, folder in zip(ENDS, folders, strict=True)])
    done = subprocess.run([sys.executable, "-c", RUNNING, cases], capture_output=True, text=True, check=True)
    said = [((folder / "out").read_text(), (folder / "err").read_text()) for folder in folders]
    ends = [(code, *texts) for code, texts in zip(json.loads(done.stdout), said, strict=True)]
    assert dict(zip(ENDS, ends, strict=True)) == ENDS


def test_the_command_is_the_module_that_takes_ctrl_c_in_hand_first():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"verisphere": "verisphere.__main__:main"}


@pytest.mark.slow
def test_ctrl_c_from_outside_at_any_time_of_the_start():
    """Spread over the first seconds, from when Python has begun with the command."""
    script = "import os, runpy, sys; import verisphere.__main__; print(flush=True); sys.argv = {}; {}".format(
        ["verisphere", "train", "none.yaml", "--out", "none"],
        "sys.exit(verisphere.__main__.main())",
    )
    ends = []
    for place in range(20):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(timeout=0.02 + 0.1 * place)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGINT)
        ends.append((process.communicate()[1].decode(), process.returncode))
    assert {end for end in ends if end[1] == 130} == {("verisphere: stopped\n", 130)}
    assert {end[1] for end in ends} <= {130, 2}
    assert all(said.count("\n") == 1 for said, _ in ends)
