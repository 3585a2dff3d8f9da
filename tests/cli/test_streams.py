"""Standard streams that are closed, and a working directory that is gone: no traceback, no words in another's place."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from processes import forked

#: Calls, and their exit codes: help, a slip, an error, a result.
CALLS = {
    "--version": 0,
    "train --help": 0,
    "nonsense": 2,
    "evaluate scores none.csv": 2,
    "evaluate scores s.csv --far 0.5 --json out.json": 0,
}
CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


#: The command as a user starts it. Python itself is the same for every call, so the others are forked.
WHOLE = (sys.executable, "-m", "verisphere")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("score,label\n0.9,1\n0.8,1\n0.1,0\n0.2,0\n0.3,0\n")
    return tmp_path


def run(place: Path, call: str, redirected: str, words: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """By a shell, which closes streams as a user or a scheduler does."""
    line = f"exec {shlex.join(words or forked())} {call} {redirected}"
    return subprocess.run(["sh", "-c", line], cwd=place, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(("call", "code"), CALLS.items())
@pytest.mark.parametrize("closed", CLOSED)
def test_a_closed_stream_discards_what_would_go_there(place: Path, call: str, code: int, closed: str):
    done = run(place, call, CLOSED[closed])
    assert done.returncode == code
    assert "Traceback" not in done.stdout + done.stderr
    if closed == "stdout":
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == (1 if code else 0), done.stderr
    elif closed == "stderr":
        assert done.stderr == ""
        assert bool(done.stdout) == (code == 0)
    if "--json" in call:  # the file that would have become the standard output holds nothing else
        whole = run(place, call.replace("out.json", "whole.json"), "")
        assert whole.returncode == 0
        assert (place / "out.json").read_bytes() == (place / "whole.json").read_bytes()


def test_a_whole_process_without_streams_writes_its_file(place: Path):
    done = run(place, "evaluate scores s.csv --far 0.5 --json out.json", CLOSED["all"], WHOLE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((place / "out.json").read_text())["operating_points"][0]["far_target"] == "0.5"


@pytest.mark.parametrize(("call", "code"), CALLS.items())
@pytest.mark.parametrize("number", [1, 2])
def test_a_reader_that_has_gone_is_no_error(place: Path, call: str, code: int, number: int):
    """As of `verisphere ... | head -1`; Python would end with its own lines and the exit code 120."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, ("stdout", "stderr")[number - 1]: writer}
    words = WHOLE if call == "train --help" else forked()  # which takes 0.1 s
    done = subprocess.run([*words, *call.split()], cwd=place, text=True, timeout=300, **streams)  # type: ignore[call-overload]
    os.close(writer)
    assert done.returncode == code
    said = done.stderr if number == 1 else done.stdout
    assert len(said.splitlines()) == (1 if code else 0) if number == 1 else bool(said) == (code == 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_result_that_cannot_be_written_is_an_error_in_one_line(place: Path):
    done = run(place, "evaluate scores s.csv --far 0.5", "> /dev/full")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


def test_a_working_directory_that_is_gone_is_said_before_anything_is_loaded(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec {shlex.join(WHOLE)} evaluate scores s.csv'
    done = subprocess.run(["sh", "-c", script], cwd=gone, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "verisphere: the working directory has been deleted; change to one that exists, and repeat the command\n"
    )
