"""The log of a training: what is written is read, a damaged line is named, and a resumed run cuts its log."""

import math
from pathlib import Path

import pytest

from verisphere.files.metrics import cut_metrics, metrics_line, read_metrics


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "metrics.jsonl"


def test_what_is_written_is_read(log: Path):
    log.write_text(metrics_line(1, {"loss": 2.5}) + metrics_line(2, {"loss": math.nan, "rate": 0.1}))
    assert log.read_text().splitlines()[0] == '{"step": 1, "loss": 2.5}'
    assert read_metrics(log) == [{"step": 1, "loss": 2.5}, {"step": 2, "loss": None, "rate": 0.1}]


def test_a_log_that_was_cut_short_is_read_and_a_damaged_one_named(log: Path):
    log.write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_metrics(log) == [{"step": 1, "loss": 2.0}]
    for line in ("[1]", '{"step": "two"}', '{"step": true}', "nonsense"):
        log.write_text(f'{{"step": 1, "loss": 2.0}}\n{line}\n{{"step": 3, "loss": 1.0}}\n')
        with pytest.raises(ValueError, match=r"metrics\.jsonl: line 2 is not a line of figures"):
            read_metrics(log)
    log.unlink()
    assert read_metrics(log) == []


@pytest.mark.parametrize("damage", ["", '{"step": 3, "lo', "[3]\n", '{"loss": 1.0}\n', '{"step": "3"}\n'])
def test_a_resumed_run_keeps_the_lines_up_to_its_step(log: Path, damage: str):
    lines = [metrics_line(step, {"loss": 1.0}) for step in (1, 2, 3)]
    log.write_text("".join(lines[:2]) + (damage or lines[2]))
    cut_metrics(log, 2)
    assert log.read_text() == "".join(lines[:2])
    cut_metrics(log, 1)
    assert log.read_text() == lines[0]


def test_a_run_without_a_log_has_nothing_to_cut(log: Path):
    cut_metrics(log, 5)
    assert not log.exists()
