"""`verisphere bridge` as it is typed: what it writes and says, and one line for a wrong call."""

from pathlib import Path

import pytest

from two_models import saved, two_models
from verisphere.files.bridge import read_bridge

pytestmark = pytest.mark.usefixtures("process_as_it_was")


def test_a_bridge_is_written_and_says_what_it_promises(tmp_path: Path, says):
    old, new = saved(tmp_path, *two_models(120))
    out = says("bridge", old, new, "--far", "1e-1", "--out", tmp_path / "bridge.json")
    bridge = read_bridge(tmp_path / "bridge.json")
    first, promise, exactly = out.splitlines()
    assert first.startswith("map: from 60 people (power ")
    assert "promise: from 60 others; a photograph by the new model against a row that was carried over" in first
    assert promise.startswith(
        f"Same person: score above {bridge.threshold:.6g}. We are 95 % confident that at most 1 in 10"
    )
    assert "one by the new model and one by the old, carried over, at most 1e-1 are accepted (30 comparisons" in exactly
    assert "scored by the same model" not in out
    assert "genuine comparisons of these people" in exactly


def test_wrong_calls_are_one_line_and_write_nothing(tmp_path: Path, run, refused):
    old, new = saved(tmp_path, *two_models(120))
    out = tmp_path / "bridge.json"
    needed = "guarantee 'confident' at FAR 1e-2 needs 648 people, 598 for the promise and 50 others for the map"
    assert needed in refused("bridge", old, new, "--far", "1e-2", "--out", out)
    assert "--far" in refused("bridge", old, new, "--out", out)
    assert "its rows need no bridge" in refused("bridge", old, old, "--far", "1e-1", "--out", out)
    assert "invalid choice: 'tail'" in refused("bridge", old, new, "--far", "1e-1", "--guarantee", "tail", "--out", out)
    assert "a FAR must lie between 0 and 1, got '2'" in refused("bridge", old, new, "--far", "2", "--out", out)
    assert "seed must be 0 or more" in refused("bridge", old, new, "--far", "1e-1", "--seed", "-1", "--out", out)
    assert not out.exists()
    assert "old.npz" in refused("bridge", old, new, "--far", "1e-1", "--out", old)
