"""A resumed training computes with the number of threads of its checkpoint, on which its last bits depend."""

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from interrupting import Interrupting
from tiny_runs import read
from verisphere.models.checkpoint import list_checkpoints, read_checkpoint
from verisphere.train.loop import TrainingStopped
from verisphere.train.session import train_run
from verisphere.train.threads import recorded_threads

pytestmark = pytest.mark.usefixtures("process_as_it_was")


class Seen:
    """A `Progress` that notes the number of threads at each step."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def __call__(
        self, items: Iterable[Any], description: str, total: int | None = None, done: int = 0
    ) -> Iterator[Any]:
        for item in items:
            if description == "training":
                self.threads.append(torch.get_num_threads())
            yield item


@pytest.fixture
def stopped(recipe: Path, tmp_path: Path) -> Path:
    """A run that was stopped early, with three threads."""
    before = torch.get_num_threads()
    with pytest.raises(TrainingStopped):
        train_run(read(recipe), tmp_path / "run", threads=3, progress=Interrupting(3))
    assert torch.get_num_threads() == before
    return tmp_path / "run"


def change_state(run: Path, change) -> None:
    file = list_checkpoints(run)[-1] / "state.json"
    state = json.loads(file.read_text())
    change(state)
    file.write_text(json.dumps(state))


def test_run_and_checkpoint_name_the_number(stopped: Path):
    assert recorded_threads(read_checkpoint(stopped)) == [3]
    assert json.loads((stopped / "run.json").read_text())["threads"] == [3]


def test_a_resumed_run_takes_it_and_says_so(recipe: Path, stopped: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "verisphere")
    before, seen = torch.get_num_threads(), Seen()
    train_run(read(recipe), stopped, resume=True, progress=seen)
    assert set(seen.threads) == {3}
    assert torch.get_num_threads() == before
    assert f"continuing with 3 threads, as the checkpoint was trained, in place of {before};" in caplog.text
    assert recorded_threads(read_checkpoint(stopped)) == [3]


def test_another_number_that_is_asked_for_is_taken_and_said(recipe: Path, stopped: Path, caplog):
    caplog.set_level(logging.INFO, "verisphere")
    seen = Seen()
    train_run(read(recipe), stopped, resume=True, threads=2, progress=seen)
    assert set(seen.threads) == {2}
    assert "2 threads, and the checkpoint was trained with 3: the last bits may differ" in caplog.text
    assert json.loads((stopped / "run.json").read_text())["threads"] == [2]


@pytest.mark.parametrize("threads", [None, [3, 3]])  # an older version's, and that of two ranks
def test_a_checkpoint_without_a_number_for_this_run_leaves_it(recipe: Path, stopped: Path, threads):
    change_state(stopped, lambda state: state.pop("threads") if threads is None else state.update(threads=threads))
    seen = Seen()
    train_run(read(recipe), stopped, resume=True, progress=seen)
    assert set(seen.threads) == {torch.get_num_threads()}


@pytest.mark.parametrize("threads", [3, "3", [0], [True], [1e9], [99999]])
def test_a_damaged_number_is_refused(recipe: Path, stopped: Path, threads):
    change_state(stopped, lambda state: state.update(threads=threads))
    with pytest.raises(ValueError, match=r"state\.json: threads is .*; expected a list of numbers from 1 to 1024"):
        train_run(read(recipe), stopped, resume=True)
