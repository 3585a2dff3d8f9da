"""Standard streams that are closed, and a working directory that is gone: no traceback, no words in another's place."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

#: Calls, and their exit codes: help, a slip, an error, a result.
CALLS = {
    "--version": 0,
    "train --help": 0,
    "nonsense": 2,
    "evaluate scores none.csv": 2,
    "evaluate scores s.csv --far 0.5 --json out.json": 0,
}
CLOSED = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-", "all": "<&- >&- 2>&-"}


def slow(*values: object) -> ParameterSet:
    """Parameters of a case that `make test` skips: each takes a second or more."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "s.csv").write_text("score,label\n0.9,1\n0.8,1\n0.1,0\n0.2,0\n0.3,0\n")
    return tmp_path


def run(place: Path, call: str, redirected: str) -> subprocess.CompletedProcess[str]:
    """By a shell, which closes streams as a user or a scheduler does."""
    line = f'exec "{sys.executable}" -m verisphere {call} {redirected}'
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(["sh", "-c", line], cwd=place, env=environment, capture_output=True, text=True, timeout=100)


@pytest.mark.parametrize(("call", "code"), CALLS.items())
@pytest.mark.parametrize(
    "closed", ["stdout", *(pytest.param(name, marks=pytest.mark.slow) for name in ("stdin", "stderr", "all"))]
)
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


@pytest.mark.parametrize(
    ("call", "code", "number"),
    [
        ("train --help", 0, 1),
        ("evaluate scores none.csv", 2, 2),
        *(
            pytest.param(call, code, number, marks=pytest.mark.slow)
            for call, code in CALLS.items()
            for number in (1, 2)
        ),
    ],
)
def test_a_reader_that_has_gone_is_no_error(place: Path, call: str, code: int, number: int):
    """As of `verisphere ... | head -1`; Python would end with its own lines and the exit code 120."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, ("stdout", "stderr")[number - 1]: writer}
    line = [sys.executable, "-m", "verisphere", *call.split()]
    done = subprocess.run(line, cwd=place, text=True, timeout=100, **streams)  # type: ignore[call-overload]
    os.close(writer)
    assert done.returncode == code
    said = done.stderr if number == 1 else done.stdout
    assert len(said.splitlines()) == (1 if code else 0) if number == 1 else bool(said) == (code == 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("call", ["--version", "train --help", "", "evaluate scores s.csv --far 0.5"])
def test_a_result_that_cannot_be_written_is_an_error_in_one_line(place: Path, monkeypatch, call: str, unbuffered: str):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = run(place, call, "> /dev/full")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "No space left on device" in done.stderr


def test_a_working_directory_that_is_gone_is_said_before_anything_is_loaded(tmp_path: Path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'rmdir "{gone}"; exec "{sys.executable}" -m verisphere evaluate scores s.csv'
    done = subprocess.run(["sh", "-c", script], cwd=gone, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        "verisphere: the working directory has been deleted; change to one that exists, and repeat the command\n"
    )
