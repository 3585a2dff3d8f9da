"""kill -9 inside of saves: whatever the moment, a reader finds the old version or the new one, and saving goes on."""

import subprocess
import sys
from pathlib import Path

import pytest

from faults.verbs import environment

#: Kills of each kind of save; 74 together.
KILLS = {
    "checkpoint": 12,
    "embeddings": 8,
    "calibration": 8,
    "state of an all-pairs scan": 8,
    "model folder": 12,
    "adopted model folder": 6,
    "report": 12,
    "converted pack": 8,
}


@pytest.mark.slow
@pytest.mark.parametrize("saver", KILLS)
def test_a_killed_save_leaves_the_old_or_the_new(saver: str, tmp_path: Path):
    call = [sys.executable, "-m", "faults.killing", saver, tmp_path / "saves", str(KILLS[saver])]
    done = subprocess.run(call, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == KILLS[saver]
    assert [line for line in lines if line.rpartition(": ")[2] not in ("old", "new")] == []
    assert (
        {line.rpartition(": ")[2] for line in lines} == {"old", "new"}
        or "model folder" in saver
        or saver == "converted pack"
    )
