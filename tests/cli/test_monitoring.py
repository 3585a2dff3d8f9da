"""`verisphere monitor`: output, exit codes, and one line for a wrong call."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from verisphere.files.lock import alone_at

pytestmark = pytest.mark.usefixtures("process_as_it_was")


@pytest.fixture
def calibrated(tmp_path: Path, run) -> Path:
    """A threshold of 0.29 or so for FAR 1e-1."""
    scores = tmp_path / "pairs.csv"
    scores.write_text("score,label\n" + "".join(f"{score},{int(score > 0.28)}\n" for score in np.linspace(0, 0.6, 120)))
    out = tmp_path / "thresholds.json"
    assert run("calibrate", scores, "--independent", "--far", "1e-1", "--out", out)[0] == 0
    return out


def lines(scores: list[float], start: int = 0) -> str:
    return "".join(f"{score},a{start + n},b{start + n}\n" for n, score in enumerate(scores))


def test_a_promise_that_stands_and_one_that_does_not(tmp_path: Path, calibrated: Path, says, run):
    log, state, figures = tmp_path / "log.csv", tmp_path / "watch.npz", tmp_path / "figures.json"
    call = ("monitor", log, "--calibration", calibrated, "--state", state, "--json", figures)
    log.write_text("score,person,other_person\n" + lines([0.1] * 20))
    out = says(*call)
    assert "20 of 20 lines count" in out
    assert "The promise stands." in out
    with log.open("a") as file:
        file.write(lines([0.9] * 10, 20))
    code, out, err = run(*call)
    assert (code, err) == (3, "")
    assert "The promise no longer stands, since line 2" in out
    assert json.loads(figures.read_text())["since"].startswith("line 2")
    assert run(*call)[0] == 3  # it does not stand again by itself


def test_standard_input(calibrated: Path, says, monkeypatch: pytest.MonkeyPatch):
    text = "score,person,other_person\n" + lines([0.1] * 3)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    out = says("monitor", "-", "--calibration", calibrated)
    assert "3 of 3 lines count" in out


def test_a_state_that_another_process_writes_is_refused(tmp_path: Path, calibrated: Path, run, refused):
    log, state = tmp_path / "log.csv", tmp_path / "watch.npz"
    log.write_text("score,person,other_person\n" + lines([0.1] * 3))
    call = ("monitor", log, "--calibration", calibrated, "--state", state)
    with alone_at(state):
        assert "watch.npz: another process is writing it; wait for its end" in refused(*call)
    assert not state.exists()
    assert run(*call)[0] == 0


def test_a_wrong_call_is_one_line(tmp_path: Path, calibrated: Path, refused):
    log = tmp_path / "log.csv"
    log.write_text("score,person,other_person\n0.1,a,b\n")
    named = "--calibration", calibrated
    assert "name the promise by its rate, one of 1e-1; got 1e-5" in refused("monitor", log, *named, "--far", "1e-5")
    assert "--genuine does nothing here" in refused("monitor", log, *named, "--genuine", "0.3")
    assert "not the file calibrated on" in refused("monitor", log, *named, "--reference", log)
    assert "log.csv" in refused("monitor", log, *named, "--state", log)
    assert "there is no such file" in refused("monitor", tmp_path / "none.csv", *named)
    assert "no column 'domain'" in refused("monitor", log, *named, "--domains")
